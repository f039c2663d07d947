"""plugrad's own composites: bodies of ops for kernels that combine others, one module per family.

A family is imported when a backend lacks one of its kernels.
"""

from typing import Any, Final

from plugrad.contract.kernel import Kernel
from plugrad.importing import import_lazily, list_module_names
from plugrad.registry.composites import set_loader

_imported_families: Final[set[str]] = set()
"""The families whose modules were looked for, because each trace asks for many kernels and imports are slower."""


def import_composite(kernel: Kernel[..., Any]) -> None:
    """Import the module with the composites of a kernel's family if the kernel is plugrad's own."""
    if kernel.family in _imported_families:
        return
    if getattr(kernel.rule, "__module__", "") == f"plugrad.kernels.{kernel.family}":
        if kernel.family in list_module_names(__name__):
            import_lazily(f"plugrad.composites.{kernel.family}")
        _imported_families.add(kernel.family)


set_loader(import_composite)
