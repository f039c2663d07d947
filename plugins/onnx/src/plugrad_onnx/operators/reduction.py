"""Reductions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import plugrad
from plugrad_onnx.operators.common import cast_like_input, integers_from_either
from plugrad_onnx.registry import operator

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from plugrad import Tensor
    from plugrad_onnx.registry import HostArray

    Reduction = Callable[[Tensor, tuple[int, ...], bool], Tensor]
    """A function of a tensor, axes, and whether to keep them, that returns the reduced tensor."""


def _sum(x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    """Return the sum over axes."""
    return cast_like_input(plugrad.sum(x, axis=axes, keepdims=keepdims), x)


def _product(x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    """Return the product over axes."""
    return cast_like_input(plugrad.prod(x, axis=axes, keepdims=keepdims), x)


def _mean(x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    """Return the mean over axes."""
    floating = x if x.dtype.is_inexact else plugrad.astype(x, "float32")
    return cast_like_input(plugrad.mean(floating, axis=axes, keepdims=keepdims), x)


def _root_of_squares(x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    """Return the square root of the sum of squares over axes."""
    return cast_like_input(plugrad.sqrt(_sum(plugrad.square(x), axes, keepdims)), x)


def _max(x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    """Return the maximum over axes."""
    if str(x.dtype) == "bool":
        return plugrad.any(x, axis=axes, keepdims=keepdims)
    if 0 in x.shape:
        return _reduce_empty(x, axes, keepdims, is_maximum=True)
    return plugrad.max(x, axis=axes, keepdims=keepdims)


def _min(x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    """Return the minimum over axes."""
    if str(x.dtype) == "bool":
        return plugrad.all(x, axis=axes, keepdims=keepdims)
    if 0 in x.shape:
        return _reduce_empty(x, axes, keepdims, is_maximum=False)
    return plugrad.min(x, axis=axes, keepdims=keepdims)


def _reduce_empty(x: Tensor, axes: tuple[int, ...], keepdims: bool, *, is_maximum: bool) -> Tensor:
    """Return the maximum over no elements, which is the lowest value, or the minimum, which is the highest."""
    if x.dtype.is_inexact:
        value = -plugrad.inf if is_maximum else plugrad.inf
    else:
        limits = plugrad.iinfo(x.dtype)
        value = limits.min if is_maximum else limits.max
    shape = plugrad.sum(plugrad.zeros(x.shape, device=x.device), axis=axes, keepdims=keepdims).shape
    return plugrad.full(shape, value, dtype=x.dtype, device=x.device)


REDUCTION_OPERATORS: dict[str, tuple[Reduction, int]] = {
    "ReduceSum": (_sum, 13),
    "ReduceProd": (_product, 18),
    "ReduceMean": (_mean, 18),
    "ReduceMax": (_max, 18),
    "ReduceMin": (_min, 18),
    "ReduceL1": (lambda x, axes, k: _sum(plugrad.abs(x), axes, k), 18),
    "ReduceL2": (_root_of_squares, 18),
    "ReduceSumSquare": (lambda x, axes, k: _sum(plugrad.square(x), axes, k), 18),
    "ReduceLogSum": (
        lambda x, axes, k: cast_like_input(plugrad.log(_sum(x, axes, k)), x),
        18,
    ),
    "ReduceLogSumExp": (
        lambda x, axes, k: cast_like_input(plugrad.log_sum_exp(x, axis=axes, keepdims=k), x),
        18,
    ),
}
"""The reduction of each operator, and the opset from which on its axes are an input."""


def _declare_reduction(operator_name: str, reduction: Reduction, axes_input_opset: int) -> None:
    """Register a reduction whose axes are an attribute, and from an opset on an input."""

    @operator(operator_name)
    def reduce_by_attribute(
        x: Tensor, *, axes: Sequence[int] | None = None, keepdims: int = 1
    ) -> Tensor:
        """Return the tensor reduced over the axes of an attribute."""
        return reduction(x, tuple(axes or range(x.ndim)), bool(keepdims))

    @operator(operator_name, since=axes_input_opset)
    def reduce(
        x: Tensor,
        axes: HostArray | None = None,
        *,
        keepdims: int = 1,
        noop_with_empty_axes: int = 0,
    ) -> Tensor:
        """Return the tensor reduced over the axes of an input."""
        chosen = tuple(integers_from_either(None, axes) or ())
        if not chosen and noop_with_empty_axes:
            return reduction(plugrad.expand_dims(x, axis=0), (0,), False)
        return reduction(x, chosen or tuple(range(x.ndim)), bool(keepdims))


for _name, (_reduction, _by_input) in REDUCTION_OPERATORS.items():
    _declare_reduction(_name, _reduction, _by_input)


@operator("ArgMax")
def argmax(x: Tensor, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Tensor:
    """Return the indices of the maxima along an axis."""
    return _find_extremum_index(plugrad.argmax, x, axis, keepdims, select_last_index)


@operator("ArgMin")
def argmin(x: Tensor, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Tensor:
    """Return the indices of the minima along an axis."""
    return _find_extremum_index(plugrad.argmin, x, axis, keepdims, select_last_index)


def _find_extremum_index(
    find_first_index: Callable[..., Tensor], x: Tensor, axis: int, keepdims: int, selects_last: int
) -> Tensor:
    """Return the indices of the first extrema along an axis, or of the last ones."""
    x = plugrad.flip(x, axis=axis) if selects_last else x
    found = find_first_index(x, axis=axis, keepdims=bool(keepdims))
    return plugrad.astype(x.shape[axis] - 1 - found if selects_last else found, "int64")
