"""plugrad on any GPU: WebGPU compute shaders through wgpu.

The import of this package is fast: the library that talks to the driver is loaded when a device is
opened. The factories are for authors of kernels for this backend; the built-in kernels are made
with them.
"""

from plugrad_webgpu.algorithms.expressions import elementwise, per_number_dtype
from plugrad_webgpu.algorithms.reduce import arg_reduction, reduction
from plugrad_webgpu.custom import load_wgsl_kernel, stencil
from plugrad_webgpu.entry import backend
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
