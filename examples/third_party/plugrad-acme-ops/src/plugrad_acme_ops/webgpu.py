"""The kernel for the webgpu backend: an expression in WGSL.

`exp_accurate` is plugrad-webgpu's: unlike WGSL's own it is as exact as float32 allows, and it keeps
NaN.
"""

from plugrad.extend import KernelTable
from plugrad_acme_ops import contracts
from plugrad_webgpu import elementwise

table = KernelTable("webgpu")
table.update(
    {contracts.swiglu: elementwise("gate / (1.0 + exp_accurate(-gate)) * up", ("gate", "up"))}
)


def kernels() -> KernelTable:
    """Return the kernels; plugrad calls this when the webgpu backend is loaded."""
    return table
