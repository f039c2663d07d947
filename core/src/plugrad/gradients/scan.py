"""Gradients of the scan kernels."""

# The parameters of lambdas cannot be annotated.
# pyright: reportUnknownMemberType=false

from plugrad.kernels import movement, scan
from plugrad.tape.rules import gradient
from plugrad.tensor.tensor import Tensor


def _cumprod_gradient(dy: Tensor, x: Tensor, axis: int, exclusive: bool, reverse: bool) -> Tensor:
    """Return the gradient of the cumulative product, also correct where elements are 0.

    The product up to i has the factor x_k if k <= i:
    ``y_i = (x_0 … x_{k-1}) x_k (x_{k+1} … x_i)``. So dx_k is the product before k times s_k, with
    ``s_k = dy_k + x_{k+1} s_{k+1}``.
    """
    if reverse:
        dims = (axis,)
        mirrored = _cumprod_gradient(
            movement.reverse(dy, dims=dims), movement.reverse(x, dims=dims), axis, exclusive, False
        )
        return movement.reverse(mirrored, dims=dims)
    if exclusive:
        dy = _shift_back(dy, axis, 1)
    before = scan.cumprod(x, axis=axis, exclusive=True)
    return before * _linear_recurrence(dy, _shift_back(x, axis, 1), axis)


def _linear_recurrence(terms: Tensor, factors: Tensor, axis: int) -> Tensor:
    """Return s with ``s_k = terms_k + factors_k s_{k+1}``.

    Each pass doubles the number of terms that an element includes, so there are log2(length) passes
    (recursive doubling; Kogge and Stone, 1973).
    """
    step = 1
    while step < terms.shape[axis]:
        terms = terms + factors * _shift_back(terms, axis, step)
        factors = factors * _shift_back(factors, axis, step)
        step *= 2
    return terms


def _shift_back(x: Tensor, axis: int, steps: int) -> Tensor:
    """Shift x back by `steps` along an axis, with zeros beyond the end."""
    steps = min(steps, x.shape[axis])
    begin = [0] * x.ndim
    begin[axis] = steps
    size = list(x.shape)
    size[axis] -= steps
    paddings = [(0, 0)] * x.ndim
    paddings[axis] = (0, steps)
    rest = movement.slice(x, begin=tuple(begin), size=tuple(size))
    return movement.pad(rest, paddings=tuple(paddings), constant_value=0)


# x_k is in the sums from k on, so dy is summed from the other end.
gradient(
    scan.cumsum,
    x=lambda dy, axis, exclusive, reverse: scan.cumsum(
        dy, axis=axis, exclusive=exclusive, reverse=not reverse
    ),
)
gradient(scan.cumprod, x=_cumprod_gradient)
