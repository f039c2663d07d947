"""The import of the whole package, with NumPy and every op, which commands make only when necessary."""

from __future__ import annotations

import sys


def import_plugrad_package() -> None:
    """Run ``plugrad/__init__.py`` if the command was started without it."""
    package = sys.modules["plugrad"]
    specification = package.__spec__
    if not hasattr(package, "Tensor") and specification and specification.loader:
        specification.loader.exec_module(package)
