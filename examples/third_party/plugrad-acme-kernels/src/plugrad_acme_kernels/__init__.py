"""A kernel pack: another sigmoid for plugrad's webgpu backend.

A hyperbolic tangent saturates by itself, so nothing can overflow on the way.
"""

from plugrad.extend import KernelTable
from plugrad.kernels import activation

SIGMOID = "0.5 + 0.5 * tanh_accurate(0.5 * x)"


def register() -> KernelTable:
    """Return the kernels; plugrad calls this when the webgpu backend has been loaded."""
    from plugrad_webgpu import elementwise  # not before: listing plugins imports none

    table = KernelTable("webgpu")
    table.update({activation.sigmoid: elementwise(SIGMOID)})
    return table
