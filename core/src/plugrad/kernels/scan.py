"""Kernels that accumulate along an axis, which arrives counted from the front.

Args:
    x: a tensor with at least one axis.
    axis: the axis along which elements accumulate.
    exclusive: whether an element is not counted itself.
    reverse: whether to begin at the end.

Returns:
    a tensor of the shape and the dtype of x; integers wrap around.
"""

from plugrad.contract.annotations import Axis
from plugrad.contract.kernel import kernel
from plugrad.types.dtype import NUMERIC
from plugrad.types.specs import Shaped, Spec


@kernel("Cumsum", accepts=NUMERIC)
def cumsum(x: Spec, *, axis: Axis, exclusive: bool = False, reverse: bool = False) -> Spec:
    """Return the sum of the elements up to each one, from the end if `reverse`; without it if `exclusive`."""
    return Shaped(x.shape, x.dtype)


@kernel("Cumprod", accepts=NUMERIC)
def cumprod(x: Spec, *, axis: Axis, exclusive: bool = False, reverse: bool = False) -> Spec:
    """Return the product of the elements up to each one, from the end if `reverse`; without it if `exclusive`."""
    return Shaped(x.shape, x.dtype)
