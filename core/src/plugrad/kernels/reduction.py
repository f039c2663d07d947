"""Kernels that combine the elements along axes, which arrive sorted and counted from the front, or in bins."""

from plugrad.contract.annotations import Axes, Axis
from plugrad.contract.kernel import accepted, kernel
from plugrad.errors import ArgumentValueError, ShapeError
from plugrad.types.dtype import BOOL, INEXACT, NUMERIC, REAL, DType, int32, int64
from plugrad.types.shapes import reduced
from plugrad.types.specs import Shaped, Spec

POSITIONS = frozenset({int32, int64})


def _reduced(name: str, x: Spec, axis: Axes, keep_dims: bool, accepts: frozenset[DType]) -> Spec:
    return Shaped(reduced(x.shape, axis, keep_dims), accepted(name, x, accepts))


@kernel("Sum", accepts=NUMERIC)
def sum(x: Spec, *, axis: Axes, keep_dims: bool = False) -> Spec:
    """Add; nothing to add gives 0."""
    return _reduced("Sum", x, axis, keep_dims, NUMERIC)


@kernel("Prod", accepts=NUMERIC)
def prod(x: Spec, *, axis: Axes, keep_dims: bool = False) -> Spec:
    """Multiply; nothing to multiply gives 1."""
    return _reduced("Prod", x, axis, keep_dims, NUMERIC)


@kernel("Mean", accepts=INEXACT)
def mean(x: Spec, *, axis: Axes, keep_dims: bool = False) -> Spec:
    """Average; nothing to average gives NaN."""
    return _reduced("Mean", x, axis, keep_dims, INEXACT)


@kernel("Max", accepts=REAL)
def max(x: Spec, *, reduction_indices: Axes, keep_dims: bool = False) -> Spec:
    """Return the largest element, NaN if there is one."""
    _check_not_empty("Max", x, reduction_indices)
    return _reduced("Max", x, reduction_indices, keep_dims, REAL)


@kernel("Min", accepts=REAL)
def min(x: Spec, *, axis: Axes, keep_dims: bool = False) -> Spec:
    """Return the smallest element, NaN if there is one."""
    _check_not_empty("Min", x, axis)
    return _reduced("Min", x, axis, keep_dims, REAL)


@kernel("All", accepts=BOOL)
def all(x: Spec, *, axis: Axes, keep_dims: bool = False) -> Spec:
    """Return whether every element is True; nothing gives True."""
    return _reduced("All", x, axis, keep_dims, BOOL)


@kernel("Any", accepts=BOOL)
def any(x: Spec, *, axis: Axes, keep_dims: bool = False) -> Spec:
    """Return whether some element is True; nothing gives False."""
    return _reduced("Any", x, axis, keep_dims, BOOL)


@kernel("ArgMax", accepts=REAL)
def argmax(x: Spec, *, axis: Axis) -> Spec:
    """Return the first position of the largest element, or of the first NaN."""
    return _position("ArgMax", x, axis)


@kernel("ArgMin", accepts=REAL)
def argmin(x: Spec, *, axis: Axis) -> Spec:
    """Return the first position of the smallest element, or of the first NaN."""
    return _position("ArgMin", x, axis)


def _position(name: str, x: Spec, axis: Axis) -> Spec:
    accepted(name, x, REAL)
    _check_not_empty(name, x, (axis,))
    return Shaped(reduced(x.shape, (axis,), keep_dims=False), int32)


def _check_not_empty(name: str, x: Spec, axes: Axes) -> None:
    if 0 in [x.shape[i] for i in axes]:
        raise ShapeError(
            f"{name}: shape {x.shape} has no elements along axes {axes}, and nothing has no {name.lower()}"
        )


@kernel("Bincount", accepts=POSITIONS)
def bincount(x: Spec, weights: Spec | None = None, *, size: int) -> Spec:
    """Count how often each number from 0 to ``size - 1`` occurs, or add up the weights of its occurrences.

    Other numbers do not count. Counts are int32.
    """
    return Shaped((size,), _binned("Bincount", x, weights, size))


@kernel("DenseBincount", accepts=POSITIONS)
def dense_bincount(
    x: Spec, weights: Spec | None = None, *, size: int, binary_output: bool = False
) -> Spec:
    """Do as `bincount` for a vector, or for each row of a matrix; with `binary_output`, 1 for what occurs."""
    if len(x.shape) not in (1, 2):
        raise ShapeError(f"DenseBincount: x must be a vector or a matrix; its shape is {x.shape}")
    return Shaped((*x.shape[:-1], size), _binned("DenseBincount", x, weights, size))


def _binned(name: str, x: Spec, weights: Spec | None, size: int) -> DType:
    accepted(name, x, POSITIONS)
    if size < 0:
        raise ArgumentValueError(f"{name}: size={size} must be 0 or more")
    if weights is None:
        return int32
    if weights.shape != x.shape:
        raise ShapeError(
            f"{name}: weights of shape {weights.shape} do not fit x of shape {x.shape}; they must be equal"
        )
    return accepted(f"{name} (weights)", weights, NUMERIC)
