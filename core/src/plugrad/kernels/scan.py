"""Kernels that accumulate along an axis, which arrives counted from the front."""

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
