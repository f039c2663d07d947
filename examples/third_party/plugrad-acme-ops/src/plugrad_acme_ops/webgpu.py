"""The implementation for the webgpu backend: an expression in WGSL.

`exp_accurate` is a function of plugrad-webgpu. Unlike WGSL's `exp`, it is as accurate as float32 allows,
and it preserves NaN.
"""

from plugrad.extend import KernelTable
from plugrad_acme_ops import contracts
from plugrad_webgpu import elementwise

table = KernelTable("webgpu")
table.update(
    {contracts.swiglu: elementwise("gate / (1.0 + exp_accurate(-gate)) * up", ("gate", "up"))}
)


def kernels() -> KernelTable:
    """Return the kernels; plugrad calls this function when the webgpu backend is loaded."""
    return table
