"""Counts of the elements that lie between edges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np

from plugrad.errors import ArgumentError, ArgumentValueError, ShapeError, short_repr
from plugrad.kernels import binary, movement, normalization, reduction, sorting
from plugrad.ops.arguments import as_supported_dtype, as_tensor, cast
from plugrad.ops.attributes import as_list, check_finite, check_flag, check_integer
from plugrad.ops.binary import equal, where
from plugrad.ops.creation import asarray
from plugrad.ops.reduction import max, min, sum
from plugrad.ops.transfer import stop_gradient
from plugrad.types.dtype import int32

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plugrad.tensor.tensor import Tensor, TensorLike

    Bins: TypeAlias = int | TensorLike
    """The number of bins, or the edges between them."""

MAX_BIN_COUNT: Final = 2**31 - 1
"""The maximum number of bins, because positions of bins are int32."""


class Histogram(NamedTuple):
    """The result of `histogram`."""

    counts: Tensor
    bin_edges: Tensor


def histogram(
    x: TensorLike,
    bins: Bins = 10,
    *,
    range: Sequence[float] | None = None,
    weights: TensorLike | None = None,
    density: bool = False,
) -> Histogram:
    """The number of elements in each bin, or the sum of their weights, and the edges of the bins.

    >>> plugrad.histogram([1.0, 2.0, 2.5, 4.0], bins=3)
    Histogram(counts=tensor([1, 2, 1], dtype=int32), bin_edges=tensor([1., 2., 3., 4.], dtype=float32))

    A bin holds the elements from its left edge up to, but not with, its right one; the last bin also holds its right
    edge. Elements outside the bins do not count, nor does NaN. Counts are int32, sums have the dtype of the weights, a
    density that of the edges. Edges have the dtype of x; integers and bools become float32. x has no gradient;
    weights have one.

    Args:
        x: real numbers of any shape.
        bins: the number of bins, which are equally wide, or a vector of ascending edges.
        range: the first and the last edge for a number of bins; by default the smallest and the largest element,
            and for equal elements, or none, 0.5 less and more. If an element is NaN then, so are the edges.
        weights: a number for each element, in the shape of x.
        density: whether to divide by the sum and by the width of each bin, so that the integral is 1.

    Raises:
        DTypeError: x holds complex numbers or strings.
        ShapeError: the weights do not have the shape of x, or the edges are not a vector of two or more.
        ArgumentError: `bins` is neither a number nor edges, `range` is not two numbers, or `density` is not a bool.
        ArgumentValueError: `bins` is less than 1 or more than int32 counts, or `range` not ascending.
    """
    op = "histogram"
    density = check_flag(density, op, "density")
    x = stop_gradient(as_supported_dtype(x, normalization.softmax, op))
    flat = movement.reshape(x, shape=(x.size,))
    if isinstance(bins, int | np.integer) and not isinstance(bins, bool):
        edges = _equidistant_edges(
            flat, check_integer(bins, op, "bins", least=1, most=MAX_BIN_COUNT), range
        )
    else:
        edges = as_tensor(bins, op, "bins", backend=x.backend)
        if edges.ndim != 1 or edges.size < 2:
            raise ShapeError(
                f"{op}: bins of shape {edges.shape} must be a number, or a vector of two or more edges"
            )
        edges = cast(edges, x.dtype, op)
    count = edges.shape[0] - 1
    places = sorting.search_sorted(edges, flat, side="right") - 1
    places = where(equal(flat, edges[-1]), count - 1, places).astype(int32)
    summands = None
    if weights is not None:
        summands = as_supported_dtype(weights, binary.subtract, op, "weights")
        summands = as_tensor(summands, op, "weights", backend=x.backend)
        if summands.shape != x.shape:
            raise ShapeError(
                f"{op}: weights of shape {summands.shape} must have the shape of x, {x.shape}"
            )
        summands = movement.reshape(summands, shape=(x.size,))
    counts = reduction.bincount(places, summands, size=count)
    if density:
        parts = counts.astype(edges.dtype) if counts.dtype.kind != "floating" else counts
        counts = parts / sum(parts) / (edges[1:] - edges[:-1])
    return Histogram(counts, edges)


def _equidistant_edges(x: Tensor, bin_count: int, value_range: Any) -> Tensor:
    """Return the edges of bins of equal width, exact at both ends."""
    if value_range is None:
        steps = asarray(np.arange(bin_count + 1), dtype=x.dtype, device=x.backend)
        if not x.size:
            return steps / bin_count
        least, most = min(x), max(x)
        is_one = equal(least, most)
        least, most = where(is_one, least - 0.5, least), where(is_one, most + 0.5, most)
        # As NumPy rounds: a number that was computed like an edge is beside the same one.
        inner = steps * ((most - least) / bin_count) + least
        return where(equal(steps, bin_count), most, inner)
    ends = as_list(value_range, "histogram", "range")
    if len(ends) != 2:
        raise ArgumentError(f"histogram: range={short_repr(value_range)} must be two numbers")
    least, most = (check_finite(end, "histogram", "range") for end in ends)
    if least > most:
        raise ArgumentValueError(f"histogram: range={short_repr(value_range)} must be ascending")
    if least == most:
        least, most = least - 0.5, most + 0.5
    return asarray(np.linspace(least, most, bin_count + 1), dtype=x.dtype, device=x.backend)
