"""Reductions, cumulative sums and products, sorting, and sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from plugrad.graph_models.registry import register_operator
from plugrad.ops import (
    einsum as einsum_op,
    linalg,
    reduction,
    scan,
    sets,
    sorting,
    statistics,
    unary,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugrad.graph_models.registry import HostArray
    from plugrad.tensor.tensor import Tensor

REDUCTION_OPS: dict[str, Callable[..., Any]] = {
    "All": reduction.all, "Any": reduction.any, "EuclideanNorm": statistics.euclidean_norm, "Max": reduction.max,
    "Mean": reduction.mean, "Min": reduction.min, "Prod": reduction.prod, "Sum": reduction.sum,
}  # fmt: skip
"""The op for each reduction operator."""
ARG_REDUCTIONS: dict[str, Callable[..., Any]] = {
    "ArgMax": reduction.argmax,
    "ArgMin": reduction.argmin,
}
"""The op for each operator that returns the index of an extremum."""
SCAN_OPS: dict[str, Callable[..., Any]] = {
    "Cumprod": scan.cumulative_prod,
    "Cumsum": scan.cumulative_sum,
}
"""The op for each cumulative operator."""


def _declare_reduction(operator_name: str, compute: Callable[..., Any]) -> None:
    """Register an op as the implementation of a reduction operator."""

    @register_operator(operator_name)
    def reduce(x: Tensor, axes: HostArray, *, keep_dims: bool = False) -> Tensor:
        wanted = tuple(int(axis) for axis in axes.ravel())
        return compute(x, axis=wanted, keepdims=keep_dims) if wanted else x


def _declare_arg_reduction(operator_name: str, compute: Callable[..., Any]) -> None:
    """Register an op as the implementation of ArgMax or ArgMin."""

    @register_operator(operator_name)
    def find(x: Tensor, axis: HostArray) -> Tensor:
        return compute(x, axis=int(axis.item()))


def _declare_scan(operator_name: str, compute: Callable[..., Any]) -> None:
    """Register an op as the implementation of a cumulative operator."""

    @register_operator(operator_name)
    def accumulate(
        x: Tensor, axis: HostArray, *, exclusive: bool = False, reverse: bool = False
    ) -> Tensor:
        where = int(axis.item())
        return compute(x, axis=where, exclusive=exclusive, reverse=reverse)


for _operator_name, _compute in REDUCTION_OPS.items():
    _declare_reduction(_operator_name, _compute)
for _operator_name, _compute in ARG_REDUCTIONS.items():
    _declare_arg_reduction(_operator_name, _compute)
for _operator_name, _compute in SCAN_OPS.items():
    _declare_scan(_operator_name, _compute)


@register_operator("Bincount")
def bincount(x: Tensor, size: HostArray, weights: Tensor) -> Tensor:
    """Count integers, or sum their weights."""
    count = reduction.bincount(x, weights if weights.size else None, size=int(size.item()))
    return unary.astype(count, weights.dtype)


@register_operator("DenseBincount")
def dense_bincount(
    x: Tensor, size: HostArray, weights: Tensor, *, binary_output: bool = False
) -> Tensor:
    """Count the integers of each row, or sum their weights."""
    count = reduction.dense_bincount(
        x, weights if weights.size else None, size=int(size.item()), binary_output=binary_output
    )
    return unary.astype(count, weights.dtype)


@register_operator("Einsum")
def einsum(*tensors: Tensor, equation: str) -> Tensor:
    """Return the Einstein summation of the inputs."""
    return einsum_op.einsum(equation, *tensors)


@register_operator("MatrixBandPart")
def band_part(x: Tensor, lower: HostArray, upper: HostArray) -> Tensor:
    """Return matrices with zeros outside a band of diagonals."""
    return linalg.band_part(x, int(lower.item()), int(upper.item()))


@register_operator("TopKV2", output_names=("values", "indices"))
def top_k(x: Tensor, k: HostArray, *, sorted: bool = True) -> tuple[Tensor, ...]:
    """Return the k largest elements along the last axis, and their indices."""
    return sorting.top_k(x, int(k.item()), sorted=sorted)


@register_operator("LowerBound")
def lower_bound(ordered: Tensor, values: Tensor) -> Tensor:
    """Return the indices at which to insert values into sorted rows, before equal elements."""
    return sorting.lower_bound(ordered, values)


@register_operator("UpperBound")
def upper_bound(ordered: Tensor, values: Tensor) -> Tensor:
    """Return the indices at which to insert values into sorted rows, after equal elements."""
    return sorting.upper_bound(ordered, values)


@register_operator("Unique", output_names=("y", "idx"))
def unique(x: Tensor) -> tuple[Tensor, ...]:
    """Return the unique elements, and the index of each element among them."""
    return sets.unique(x)


@register_operator("UniqueV2", output_names=("y", "idx"))
def unique_along(x: Tensor, axis: HostArray) -> tuple[Tensor, ...]:
    """Return the unique slices along an axis, and the index of each slice among them."""
    return sets.unique(x, axis=int(axis.item()) if axis.size else 0)


@register_operator("ListDiff", output_names=("out", "idx"))
def set_difference(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    """Return the elements of x that are not in y, and their indices."""
    return sets.setdiff1d(x, y)
