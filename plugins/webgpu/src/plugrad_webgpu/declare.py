"""The table of the kernels; the modules in `kernels` fill it."""

from __future__ import annotations

from typing import Final

from plugrad.extend import KernelTable

table: Final = KernelTable("webgpu")
"""The implementations of kernels that this backend has."""
