"""NumPy's functions of arrays for which no op has the same arguments and results, composed of ops.

Names, order and defaults of the parameters are NumPy's; `plugrad.ops.array_functions` lists the functions. They
lack the parameters that plugrad has no equivalent for, and the caller refuses these. NumPy documents what they do.
"""

from __future__ import annotations

from functools import reduce
from math import pi
from operator import index as as_index
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from plugrad.errors import ArgumentError, ArgumentValueError, short_repr
from plugrad.ops import (
    binary,
    complex as complex_ops,
    creation,
    decomposition,
    einsum as einsums,
    fft,
    indexing,
    linalg,
    movement,
    norms,
    quantiles,
    reduction,
    sets,
    sorting,
    statistics,
    unary,
)
from plugrad.ops.arguments import as_tensor
from plugrad.ops.numpy_shapes import as_tensors, ravel
from plugrad.tensor.tensor import Tensor
from plugrad.types.shapes import normalize_axis

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plugrad.ops.norms import NormOrder
    from plugrad.tensor.tensor import TensorLike
    from plugrad.types.dtype import DTypeLike
    from plugrad.types.specs import AxisLike, ShapeLike

# --- statistics ----------------------------------------------------------------------------------------


def percentile(
    a: TensorLike,
    q: Any,
    axis: AxisLike = None,
    *,
    method: quantiles.QuantileMethod = "linear",
    keepdims: bool = False,
) -> Tensor:
    """Return the quantiles of percentages."""
    return quantiles.quantile(
        a, _fractions_from_percents(q), axis=axis, keepdims=keepdims, method=method
    )


def nanpercentile(
    a: TensorLike,
    q: Any,
    axis: AxisLike = None,
    *,
    method: quantiles.QuantileMethod = "linear",
    keepdims: bool = False,
) -> Tensor:
    """Return percentiles of the elements that are not NaN."""
    return quantiles.nanquantile(
        a, _fractions_from_percents(q), axis=axis, keepdims=keepdims, method=method
    )


def _fractions_from_percents(q: Any) -> Any:
    """Return percentages as levels of quantiles from 0 to 1."""
    return q if isinstance(q, Tensor) else np.asarray(q) / 100


def cov(
    m: TensorLike,
    y: TensorLike | None = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: float | None = None,
    fweights: TensorLike | None = None,
    aweights: TensorLike | None = None,
) -> Tensor:
    """Return the covariances of the variables of one array, or of two."""
    correction = (0 if bias else 1) if ddof is None else ddof
    return statistics.cov(
        _stack_variables(m, y, rowvar),
        rowvar=rowvar,
        correction=correction,
        fweights=fweights,
        aweights=aweights,
    )


def corrcoef(x: TensorLike, y: TensorLike | None = None, rowvar: bool = True) -> Tensor:
    """Return the correlation coefficients of the variables of one array, or of two."""
    return statistics.corrcoef(_stack_variables(x, y, rowvar), rowvar=rowvar)


def _stack_variables(x: TensorLike, y: TensorLike | None, rowvar: bool) -> Tensor:
    """Return one array with the variables of two arrays."""
    first = as_tensor(x, "cov", "x")
    if y is None:
        return first
    second = as_tensor(y, "cov", "y", backend=first.backend)
    if not rowvar and first.ndim == 2:
        return movement.concat([first, second.mT if second.shape[0] == 1 else second], axis=1)
    rows = [part.reshape(1, -1) if part.ndim < 2 else part for part in (first, second)]
    return movement.concat(rows, axis=0)


# --- elements ----------------------------------------------------------------------------------------


def where(condition: TensorLike, x: TensorLike | None = None, y: TensorLike | None = None) -> Any:
    """Choose between the elements of two arrays, or return the positions where the condition holds."""
    if x is None and y is None:
        return indexing.nonzero(condition)
    if x is None or y is None:
        raise ArgumentError("where: give two arrays to choose from, or none for the positions")
    return binary.where(condition, x, y)


def clip(
    a: TensorLike,
    a_min: TensorLike | None = None,
    a_max: TensorLike | None = None,
    *,
    min: TensorLike | None = None,
    max: TensorLike | None = None,
) -> Tensor:
    """Limit the elements; see `plugrad.clip`."""
    return binary.clip(a, a_min if min is None else min, a_max if max is None else max)


def select(
    condlist: Sequence[TensorLike], choicelist: Sequence[TensorLike], default: TensorLike = 0
) -> Tensor:
    """Choose each element from the array that belongs to the first condition that holds."""
    if len(condlist) != len(choicelist) or not condlist:
        raise ArgumentValueError(
            f"select: {len(condlist)} conditions for {len(choicelist)} choices; give one for each"
        )
    pairs = reversed(list(zip(condlist, choicelist, strict=True)))
    return reduce(lambda rest, pair: binary.where(*pair, rest), pairs, cast("Tensor", default))


def take(a: TensorLike, indices: TensorLike, axis: int | None = None) -> Tensor:
    """Return the elements at positions along an axis, or among all elements."""
    x = as_tensor(a, "take", backend=indexing.first_backend(indices))
    return indexing.take(ravel(x) if axis is None else x, indices, axis=axis or 0)


def argwhere(a: TensorLike) -> Tensor:
    """Return the positions of the elements that are not 0, a row for each."""
    return movement.stack(indexing.nonzero(a), axis=1)


def flatnonzero(a: TensorLike) -> Tensor:
    """Return the positions, among all elements, of those that are not 0."""
    return indexing.nonzero(ravel(a))[0]


def isclose(
    a: TensorLike,
    b: TensorLike,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    equal_nan: bool = False,
) -> Tensor:
    """Return where elements differ by no more than ``atol + rtol * |b|``; infinities equal themselves."""
    x, y = as_tensors([a, b], "isclose")
    size, distance = unary.abs(y), unary.abs(binary.subtract(x, y))
    is_near = binary.less_equal(distance, binary.add(binary.multiply(size, rtol), atol))
    is_near = binary.logical_and(is_near, unary.isfinite(y))
    is_same = binary.equal(x, y)
    if equal_nan:
        is_same = binary.logical_or(is_same, binary.logical_and(unary.isnan(x), unary.isnan(y)))
    return binary.logical_or(is_near, is_same)


def nan_to_num(
    x: TensorLike, *, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    """Replace NaN by a number, and infinities by others or by the largest numbers of the dtype."""
    y = as_tensor(x, "nan_to_num")
    if y.dtype.kind == "complex":
        given: dict[str, Any] = {"nan": nan, "posinf": posinf, "neginf": neginf}
        parts = complex_ops.real(y), complex_ops.imag(y)
        return complex_ops.complex(*[nan_to_num(part, **given) for part in parts])
    if not y.dtype.is_inexact:
        return unary.positive(y)
    limit = float(y.dtype.info.max)  # type: ignore[union-attr]
    is_large, is_small = binary.greater(y, limit), binary.less(y, -limit)
    y = binary.where(unary.isnan(y), nan, y)
    y = binary.where(is_large, limit if posinf is None else posinf, y)
    return binary.where(is_small, -limit if neginf is None else neginf, y)


def real(val: TensorLike) -> Tensor:
    """Return the real parts."""
    return complex_ops.real(val)


def imag(val: TensorLike) -> Tensor:
    """Return the imaginary parts, zeros for real numbers."""
    x = as_tensor(val, "imag")
    return complex_ops.imag(x) if x.dtype.kind == "complex" else creation.zeros_like(x)


def angle(z: TensorLike, deg: bool = False) -> Tensor:
    """Return the angles of complex numbers in radians, or in degrees."""
    turned = binary.atan2(imag(z), real(z))
    return binary.multiply(turned, 180 / pi) if deg else turned


def convolve(a: TensorLike, v: TensorLike, mode: str = "full") -> Tensor:
    """Return the sums of the products of one vector with another one that is reversed and moved along it."""
    x, y = as_tensors([a, v], "convolve")
    if x.ndim > 1 or y.ndim > 1 or not x.size or not y.size:
        raise ArgumentValueError(
            f"convolve: shapes {x.shape} and {y.shape} must be those of vectors with elements"
        )
    if mode not in ("full", "same", "valid"):
        raise ArgumentValueError(
            f"convolve: mode={short_repr(mode)} must be 'full', 'same' or 'valid'"
        )
    x, y = ravel(x), ravel(y)
    if x.size < y.size:
        x, y = y, x
    n, m = x.size, y.size
    # Row i is y[i] * x, moved i places to the right: in a vector, all rows begin one place after a full length.
    rows = movement.pad(linalg.outer(y, x), ((0, 0), (0, m)))
    moved = movement.reshape(ravel(rows)[: m * (n + m - 1)], (m, n + m - 1))
    whole = reduction.sum(moved, axis=0, dtype=moved.dtype)
    start, size = {"full": (0, n + m - 1), "same": ((m - 1) // 2, n), "valid": (m - 1, n - m + 1)}[
        mode
    ]
    return whole[start : start + size]


def correlate(a: TensorLike, v: TensorLike, mode: str = "valid") -> Tensor:
    """Return the sums of the products of one vector with the conjugates of another one that is moved along it."""
    x, y = (ravel(z) for z in as_tensors([a, v], "correlate"))
    found = convolve(x, complex_ops.conj(movement.flip(y)), mode)
    return movement.flip(found) if x.size < y.size and mode == "valid" else found


# --- sums, sorting, sets ------------------------------------------------------------------------------


def ptp(a: TensorLike, axis: AxisLike = None, *, keepdims: bool = False) -> Tensor:
    """Return the largest minus the smallest elements along axes."""
    ends = [f(a, axis=axis, keepdims=keepdims) for f in (reduction.max, reduction.min)]
    return binary.subtract(*ends)


def average(
    a: TensorLike,
    axis: AxisLike = None,
    weights: TensorLike | None = None,
    returned: bool = False,
    *,
    keepdims: bool = False,
) -> Any:
    """Return the means along axes, weighted if there are weights, and with their sums if asked for."""
    x = as_tensor(
        a, "average", backend=indexing.first_backend(*([] if weights is None else [weights]))
    )
    if weights is None:
        mean = reduction.mean(x, axis=axis, keepdims=keepdims)
        total = creation.full_like(mean, x.size / mean.size if mean.size else 1)
        return (mean, total) if returned else mean
    w = as_tensor(weights, "average", backend=x.backend)
    if w.shape != x.shape:
        if not isinstance(axis, int) or w.ndim != 1:
            raise ArgumentValueError(
                f"average: weights of shape {w.shape} must have the shape {x.shape}, or be a vector along one axis"
            )
        place = normalize_axis(axis, x.ndim, name="average: axis")
        sizes = tuple(-1 if i == place else 1 for i in range(x.ndim))
        w = movement.broadcast_to(movement.reshape(w, sizes), x.shape)
    total = reduction.sum(w, axis=axis, keepdims=keepdims)
    weighted = reduction.sum(binary.multiply(x, w), axis=axis, keepdims=keepdims)
    mean = binary.divide(weighted, total)
    return (mean, total) if returned else mean


def sort(
    a: TensorLike, axis: int | None = -1, kind: str | None = None, *, stable: bool | None = None
) -> Tensor:
    """Return the elements in ascending order; every kind of sorting is stable."""
    return sorting.sort(ravel(a) if axis is None else a, axis=-1 if axis is None else axis)


def argsort(
    a: TensorLike, axis: int | None = -1, kind: str | None = None, *, stable: bool | None = None
) -> Tensor:
    """Return the positions of the elements in ascending order; every kind of sorting is stable."""
    return sorting.argsort(ravel(a) if axis is None else a, axis=-1 if axis is None else axis)


def unique(
    ar: TensorLike,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
) -> Any:
    """Return the unique elements, or slices along an axis, and their indices, inverse and counts if requested."""
    if axis is not None:
        if return_index or return_counts:
            raise ArgumentError(
                "unique: return_index and return_counts with an axis do not take tensors; plugrad.unique has values "
                "and inverse_indices"
            )
        x = as_tensor(ar, "unique")
        slices, places = sets.unique(x, axis=axis)
        return (slices, places) if return_inverse else slices
    found = sets.unique_all(ar)
    more = zip((return_index, return_inverse, return_counts), found[1:], strict=True)
    results = (found.values, *(part for is_wanted, part in more if is_wanted))
    return results if len(results) > 1 else found.values


def isin(
    element: TensorLike,
    test_elements: TensorLike,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    kind: str | None = None,
) -> Tensor:
    """Return which elements are among others; see `plugrad.isin`."""
    return sets.isin(element, test_elements, invert=invert)


def setdiff1d(ar1: TensorLike, ar2: TensorLike, assume_unique: bool = False) -> Tensor:
    """Return the elements that are not among others, each once and in ascending order."""
    x, y = (ravel(z) for z in as_tensors([ar1, ar2], "setdiff1d"))
    return sets.setdiff1d(x if assume_unique else sets.unique_values(x), y).values


# --- matrices ----------------------------------------------------------------------------------------


def dot(a: TensorLike, b: TensorLike) -> Tensor:
    """Return the sums of products along the last axis of a and the second-to-last of b, or its only one."""
    x, y = as_tensors([a, b], "dot")
    if not x.ndim or not y.ndim:
        return binary.multiply(x, y)
    if x.ndim < 3 and y.ndim < 3:
        return linalg.matmul(x, y)
    return linalg.tensordot(x, y, axes=((x.ndim - 1,), (max(y.ndim - 2, 0),)))


def inner(a: TensorLike, b: TensorLike) -> Tensor:
    """Return the sums of products along the last axes of both arrays."""
    x, y = as_tensors([a, b], "inner")
    if not x.ndim or not y.ndim:
        return binary.multiply(x, y)
    return linalg.tensordot(x, y, axes=((x.ndim - 1,), (y.ndim - 1,)))


def vdot(a: TensorLike, b: TensorLike) -> Tensor:
    """Return the sum of the products of the conjugated elements of a and the elements of b."""
    return linalg.vecdot(*[ravel(x) for x in as_tensors([a, b], "vdot")])


def outer(a: TensorLike, b: TensorLike) -> Tensor:
    """Return the matrix of the products of each element of a and each element of b."""
    return linalg.outer(*[ravel(x) for x in as_tensors([a, b], "outer")])


def kron(a: TensorLike, b: TensorLike) -> Tensor:
    """Return the Kronecker product: a block for each element of a, which is b times the element."""
    x, y = as_tensors([a, b], "kron")
    rank = max(x.ndim, y.ndim)
    sizes, others = ((1,) * (rank - z.ndim) + z.shape for z in (x, y))
    left = movement.reshape(x, tuple(n for size in sizes for n in (size, 1)))
    right = movement.reshape(y, tuple(n for size in others for n in (1, size)))
    shape = tuple(m * n for m, n in zip(sizes, others, strict=True))
    return movement.reshape(binary.multiply(left, right), shape)


def einsum(*operands: Any, dtype: Any = None, optimize: Any = False) -> Tensor:
    """Return the sums of products that an equation describes, computed in a dtype; see `plugrad.einsum`."""
    if not isinstance(operands[0], str):
        raise ArgumentError(
            "einsum: lists of axes do not take tensors; write an equation, as in np.einsum('ij,jk->ik', a, b)"
        )
    if dtype is None:
        return einsums.einsum(operands[0], *operands[1:])
    backend = indexing.first_backend(*operands[1:])
    found = [as_tensor(x, "einsum", backend=backend).astype(dtype) for x in operands[1:]]
    return einsums.einsum(operands[0], *found)


def diag(v: TensorLike, k: int = 0) -> Tensor:
    """Return a matrix with a vector on a diagonal, or the diagonal of a matrix."""
    x = as_tensor(v, "diag")
    if x.ndim != 1:
        return linalg.diagonal(x, offset=k)
    side = as_index(k)
    return movement.pad(
        linalg.diag(x), ((max(-side, 0), max(side, 0)), (max(side, 0), max(-side, 0)))
    )


def _move_matrices_last(a: TensorLike, axis1: int, axis2: int, op: str) -> Tensor:
    """Return a tensor whose two axes of matrices are the last ones."""
    return movement.moveaxis(as_tensor(a, op), (axis1, axis2), (-2, -1))


def diagonal(a: TensorLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """Return the diagonals of the matrices on two axes, along a new last axis."""
    return linalg.diagonal(_move_matrices_last(a, axis1, axis2, "diagonal"), offset=offset)


def trace(
    a: TensorLike,
    offset: int = 0,
    axis1: int = 0,
    axis2: int = 1,
    dtype: DTypeLike | None = None,
) -> Tensor:
    """Return the sums of the diagonals of the matrices on two axes."""
    return linalg.trace(_move_matrices_last(a, axis1, axis2, "trace"), offset=offset, dtype=dtype)


def norm(x: TensorLike, ord: Any = None, axis: AxisLike = None, keepdims: bool = False) -> Tensor:
    """Return the norm of all elements, of vectors along an axis, or of matrices along two."""
    y = as_tensor(x, "norm")
    if ord is None:
        return norms.vector_norm(y, axis=axis, keepdims=keepdims)
    if axis is None:
        if y.ndim not in (1, 2):
            raise ArgumentValueError(
                f"norm: ord={short_repr(ord)} of a tensor with {y.ndim} axes needs an axis, or two of them"
            )
        axis = tuple(range(y.ndim))
    if isinstance(axis, tuple | list) and len(axis) == 1:
        axis = axis[0]
    return norms.norm(y, cast("NormOrder", ord), axis, keepdims)


def svd(a: TensorLike, full_matrices: bool = True, compute_uv: bool = True) -> Any:
    """Return the singular value decomposition, or only the singular values."""
    if not compute_uv:
        return decomposition.svdvals(a)
    return decomposition.svd(a, full_matrices=full_matrices)


def lstsq(a: TensorLike, b: TensorLike, rcond: float | None = None) -> tuple[Tensor, ...]:
    """Return a least-squares solution, the residuals, the rank and the singular values.

    There are no residuals unless there are more equations than unknowns. Whether these can be told apart depends on
    values, and is not looked at.
    """
    x, residuals, rank, values = decomposition.lstsq(a, b, rcond=rcond)
    rows, columns = as_tensor(a, "lstsq").shape
    if rows <= columns:
        residuals = residuals[:0] if residuals.ndim else residuals.reshape(1)[:0]
    return x, residuals.reshape(-1), rank, values


def multi_dot(arrays: Sequence[TensorLike]) -> Tensor:
    """Multiply matrices from the left to the right; the first and the last may be vectors."""
    if len(arrays) < 2:
        raise ArgumentValueError(f"multi_dot: {len(arrays)} matrices; give two or more")
    return reduce(dot, arrays[1:], cast("Tensor", arrays[0]))


def _along_last_two_axes(transform: Any) -> Any:
    """Return an n-dimensional Fourier transform along the last two axes unless others are given."""

    def transform_plane(
        a: TensorLike,
        s: Sequence[int] | None = None,
        axes: Sequence[int] | None = (-2, -1),
        norm: str | None = None,
    ) -> Tensor:
        """Return the transform of an array along `axes`, by default the last two."""
        return transform(a, s=s, axes=axes, norm=norm or "backward")

    return transform_plane


fft2, ifft2 = _along_last_two_axes(fft.fftn), _along_last_two_axes(fft.ifftn)
rfft2, irfft2 = _along_last_two_axes(fft.rfftn), _along_last_two_axes(fft.irfftn)


# --- new tensors ---------------------------------------------------------------------------------------


def _create_like(create: Any, a: TensorLike, dtype: Any, shape: Any, *fill: Any) -> Tensor:
    """Return a new tensor on the device of an array, in its shape and dtype unless others are given."""
    x = as_tensor(a, "a new tensor")
    sizes = x.shape if shape is None else shape
    return create(sizes, *fill, dtype=x.dtype if dtype is None else dtype, device=x.backend)


def zeros_like(
    a: TensorLike, dtype: DTypeLike | None = None, *, shape: ShapeLike | None = None
) -> Tensor:
    """Return zeros in the shape and dtype of an array, unless others are given."""
    return _create_like(creation.zeros, a, dtype, shape)


def ones_like(
    a: TensorLike, dtype: DTypeLike | None = None, *, shape: ShapeLike | None = None
) -> Tensor:
    """Return ones in the shape and dtype of an array, unless others are given."""
    return _create_like(creation.ones, a, dtype, shape)


def empty_like(
    prototype: TensorLike, dtype: DTypeLike | None = None, *, shape: ShapeLike | None = None
) -> Tensor:
    """Return any values in the shape and dtype of an array, unless others are given."""
    return _create_like(creation.empty, prototype, dtype, shape)


def full_like(
    a: TensorLike,
    fill_value: Any,
    dtype: DTypeLike | None = None,
    *,
    shape: ShapeLike | None = None,
) -> Tensor:
    """Return one value, or an array that broadcasts, in the shape and dtype of an array, unless others are given."""
    if not isinstance(fill_value, Tensor | list | tuple | np.ndarray):
        return _create_like(creation.full, a, dtype, shape, fill_value)
    x = as_tensor(a, "full_like")
    wanted = x.dtype if dtype is None else dtype
    values = unary.astype(as_tensor(fill_value, "full_like", backend=x.backend), wanted)
    return movement.broadcast_to(values, x.shape if shape is None else shape)
