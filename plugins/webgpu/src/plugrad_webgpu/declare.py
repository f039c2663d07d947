"""The table in which the families declare their kernels."""

from __future__ import annotations

from typing import Final

from plugrad.extend import KernelTable

table: Final = KernelTable("webgpu")
