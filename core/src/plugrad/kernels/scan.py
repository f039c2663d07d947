"""Kernels that accumulate along an axis, which arrives counted from the front."""

from plugrad.contract.annotations import Axis
from plugrad.contract.kernel import accepted, kernel
from plugrad.types.dtype import NUMERIC
from plugrad.types.specs import Shaped, Spec


@kernel("Cumsum", accepts=NUMERIC)
def cumsum(x: Spec, *, axis: Axis, exclusive: bool = False, reverse: bool = False) -> Spec:
    """Add up to each element, from the end if `reverse`; `exclusive` leaves the element itself out."""
    return _scanned("Cumsum", x, axis)


@kernel("Cumprod", accepts=NUMERIC)
def cumprod(x: Spec, *, axis: Axis, exclusive: bool = False, reverse: bool = False) -> Spec:
    """Multiply up to each element, from the end if `reverse`; `exclusive` leaves the element itself out."""
    return _scanned("Cumprod", x, axis)


def _scanned(name: str, x: Spec, axis: Axis) -> Spec:
    return Shaped(x.shape, accepted(name, x, NUMERIC))
