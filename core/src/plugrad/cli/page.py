"""The public page of plugrad, which the command runs only when it must: it imports NumPy and every op."""

from __future__ import annotations

import sys


def run() -> None:
    """Run ``plugrad/__init__.py``, if the command was started without it."""
    package = sys.modules["plugrad"]
    specification = package.__spec__
    if not hasattr(package, "Tensor") and specification and specification.loader:
        specification.loader.exec_module(package)
