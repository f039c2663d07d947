"""plugrad on any GPU: WebGPU compute shaders through wgpu.

The import of this package is fast: the library that talks to the driver is loaded when a device is
opened, and the factories when they are used. They are for authors of kernels for this backend; the
built-in kernels are made with them.
"""

from typing import TYPE_CHECKING, Any, Final

from plugrad.extend import import_lazily
from plugrad_webgpu.entry import backend

if TYPE_CHECKING:
    from plugrad_webgpu.algorithms.expressions import elementwise, per_number_dtype
    from plugrad_webgpu.algorithms.reduce import arg_reduction, reduction
    from plugrad_webgpu.custom import load_wgsl_kernel, stencil
    from plugrad_webgpu.memory.buffers import GpuArray
    from plugrad_webgpu.shaders.program import Plan, Program, plan
    from plugrad_webgpu.shaders.sources import linked
    from plugrad_webgpu.sharing import from_buffer, requirements, to_buffer, use_device

__all__ = [
    "GpuArray",
    "Plan",
    "Program",
    "arg_reduction",
    "backend",
    "elementwise",
    "from_buffer",
    "linked",
    "load_wgsl_kernel",
    "per_number_dtype",
    "plan",
    "reduction",
    "requirements",
    "stencil",
    "to_buffer",
    "use_device",
]

# A program that computes on another backend asks this one whether there is a GPU, and needs none of these.
_LAZY_EXPORTS: Final = {
    "algorithms.expressions": ("elementwise", "per_number_dtype"),
    "algorithms.reduce": ("arg_reduction", "reduction"),
    "custom": ("load_wgsl_kernel", "stencil"),
    "memory.buffers": ("GpuArray",),
    "shaders.program": ("Plan", "Program", "plan"),
    "shaders.sources": ("linked",),
    "sharing": ("from_buffer", "requirements", "to_buffer", "use_device"),
}
"""The names that this package exports, by the submodule that is imported at their first use."""
_MODULE_BY_EXPORT: Final = {
    name: module for module, names in _LAZY_EXPORTS.items() for name in names
}
"""The name of the submodule that defines each exported name."""


def __getattr__(name: str) -> Any:
    """Import a name on first use."""
    module = _MODULE_BY_EXPORT.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_lazily(f"{__name__}.{module}"), name)
    return found


def __dir__() -> list[str]:
    """Return all names, including those that are imported on first use."""
    return sorted({*globals(), *_MODULE_BY_EXPORT})
