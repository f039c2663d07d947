"""A kernel pack: another sigmoid for plugrad's webgpu backend.

The hyperbolic tangent saturates, so no intermediate result can overflow.
"""

from plugrad.extend import KernelTable
from plugrad.kernels import activation

SIGMOID_EXPRESSION = "0.5 + 0.5 * tanh_accurate(0.5 * x)"


def register() -> KernelTable:
    """Return the kernels; plugrad calls this function when the webgpu backend has been loaded."""
    from plugrad_webgpu import elementwise  # not at the top: listing plugins must not import it

    table = KernelTable("webgpu")
    table.update({activation.sigmoid: elementwise(SIGMOID_EXPRESSION)})
    return table
