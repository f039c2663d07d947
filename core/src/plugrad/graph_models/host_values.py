"""Operators that the host computes: shapes, indices and conditions, on which control flow depends."""

from __future__ import annotations

from functools import reduce
from math import prod
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from plugrad.graph_models.registry import HOST_OPERATORS, register_host_operator
from plugrad.tensor.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from plugrad.graph_models.registry import HostArray

    Attributes = Mapping[str, Any]
    """The decoded attributes of a node by name."""

MAX_HOST_ELEMENTS: Final = 1024
"""The most elements of an array that the host computes; for larger ones, a device is faster."""
SLICE_MASK_NAMES: Final = ("begin", "end", "ellipsis", "new_axis", "shrink_axis")
"""The names of the five bit masks of a StridedSlice, without their suffix."""
NUMPY_ARITHMETIC: dict[str, Callable[..., Any]] = {
    "Abs": np.abs, "Add": np.add, "AddV2": np.add, "Equal": np.equal, "FloorDiv": np.floor_divide,
    "FloorMod": np.mod, "Greater": np.greater, "GreaterEqual": np.greater_equal, "Less": np.less,
    "LessEqual": np.less_equal, "LogicalAnd": np.logical_and, "LogicalNot": np.logical_not,
    "LogicalOr": np.logical_or, "Maximum": np.maximum, "Minimum": np.minimum, "Mod": np.mod,
    "Mul": np.multiply, "Neg": np.negative, "NotEqual": np.not_equal, "Select": np.where,
    "SelectV2": np.where, "Sub": np.subtract,
}  # fmt: skip
"""The NumPy function for each arithmetic operator."""
NUMPY_REDUCTIONS: dict[str, Callable[..., Any]] = {
    "All": np.all, "Any": np.any, "Max": np.max, "Min": np.min, "Prod": np.prod, "Sum": np.sum,
}  # fmt: skip
"""The NumPy function for each reduction operator."""


def compute_on_host(
    op: str, inputs: Sequence[Any], attributes: Attributes
) -> tuple[Any, ...] | None:
    """Compute an operator whose inputs are small arrays of numbers; return None if it needs a device."""
    function = HOST_OPERATORS.get(op)
    if function is None or not inputs or not all(map(_is_small, inputs)):
        return None
    # Integers wrap around, and divisions by 0 give what they give, as on a device.
    with np.errstate(all="ignore"):
        result = function(inputs, attributes)
    if result is NotImplemented:
        return None
    outputs = cast("tuple[Any, ...]", result) if isinstance(result, tuple) else (result,)
    return tuple(np.asarray(output) for output in outputs)


def _is_small(value: Any) -> bool:
    """Return whether a value is an array of few numbers."""
    if not isinstance(value, np.ndarray):
        return False
    array = cast("HostArray", value)
    return array.size <= MAX_HOST_ELEMENTS and array.dtype.kind in "bif"


def _declare_arithmetic(operator_name: str, compute: Callable[..., Any]) -> None:
    """Register a NumPy function as the host implementation of an operator."""

    @register_host_operator(operator_name)
    def apply(inputs: Sequence[HostArray], attributes: Attributes) -> Any:
        return compute(*inputs)


def _declare_reduction(operator_name: str, compute: Callable[..., Any]) -> None:
    """Register a NumPy reduction as the host implementation of an operator."""

    @register_host_operator(operator_name)
    def apply(inputs: Sequence[HostArray], attributes: Attributes) -> Any:
        x, axes = inputs
        wanted = tuple(int(axis) for axis in axes.ravel())
        keep = bool(attributes.get("keep_dims", False))
        return compute(x, axis=wanted, keepdims=keep).astype(x.dtype) if wanted else x


for _operator_name, _compute in NUMPY_ARITHMETIC.items():
    _declare_arithmetic(_operator_name, _compute)
for _operator_name, _compute in NUMPY_REDUCTIONS.items():
    _declare_reduction(_operator_name, _compute)


@register_host_operator("Div", "RealDiv")
def divide(inputs: Sequence[HostArray], attributes: Attributes) -> Any:
    """Return the quotient; integer quotients are rounded down."""
    a, b = inputs
    return np.floor_divide(a, b) if {a.dtype.kind, b.dtype.kind} == {"i"} else np.divide(a, b)


@register_host_operator("AddN")
def add_n(inputs: Sequence[HostArray], attributes: Attributes) -> Any:
    """Return the sum of the inputs."""
    return reduce(np.add, inputs)


@register_host_operator("Cast")
def change_dtype(inputs: Sequence[HostArray], attributes: Attributes) -> Any:
    """Return the elements in another dtype."""
    return inputs[0].astype(attributes["dstt"])


@register_host_operator("Pack")
def pack(inputs: Sequence[HostArray], attributes: Attributes) -> Any:
    """Stack arrays along a new axis."""
    return np.stack(inputs, axis=attributes.get("axis", 0))


@register_host_operator("Unpack")
def unpack(inputs: Sequence[HostArray], attributes: Attributes) -> Any:
    """Return the slices along an axis."""
    return tuple(np.moveaxis(inputs[0], attributes.get("axis", 0), 0))


@register_host_operator("ConcatV2")
def concat(inputs: Sequence[HostArray], attributes: Attributes) -> Any:
    """Concatenate arrays along an axis, which is the last input."""
    *parts, axis = inputs
    return np.concatenate(parts, axis=int(axis.item()))


@register_host_operator("Reshape")
def reshape(inputs: Sequence[HostArray], attributes: Attributes) -> Any:
    """Reshape an array."""
    return inputs[0].reshape(tuple(inputs[1].ravel()))


@register_host_operator("ExpandDims")
def expand_dims(inputs: Sequence[HostArray], attributes: Attributes) -> Any:
    """Insert an axis of size 1."""
    return np.expand_dims(inputs[0], int(inputs[1].item()))


@register_host_operator("Squeeze")
def squeeze(inputs: Sequence[HostArray], attributes: Attributes) -> Any:
    """Remove axes of size 1."""
    axes = tuple(attributes.get("squeeze_dims") or attributes.get("axis") or ())
    return np.squeeze(inputs[0], axis=axes or None)


@register_host_operator("GatherV2")
def gather(inputs: Sequence[HostArray], attributes: Attributes) -> Any:
    """Return slices at indices."""
    if attributes.get("batch_dims", 0):
        return NotImplemented
    x, indices, axis = inputs
    return np.take(x, indices, axis=int(axis.item()))


@register_host_operator("Range")
def arange(inputs: Sequence[HostArray], attributes: Attributes) -> Any:
    """Return equally spaced numbers below an end; a long range is left to the device."""
    start, stop, step = (x.item() for x in inputs)
    if step == 0 or abs((stop - start) / step) > MAX_HOST_ELEMENTS:
        return NotImplemented
    return np.arange(start, stop, step, dtype=inputs[0].dtype)


@register_host_operator("Fill")
def fill(inputs: Sequence[HostArray], attributes: Attributes) -> Any:
    """Return an array filled with one value; a large one is left to the device."""
    shape = tuple(int(size) for size in inputs[0].ravel())
    if any(size < 0 for size in shape) or prod(shape) > MAX_HOST_ELEMENTS:
        return NotImplemented
    return np.full(shape, inputs[1])


@register_host_operator("Slice")
def slice_(inputs: Sequence[HostArray], attributes: Attributes) -> Any:
    """Return a slice; a size of -1 takes all remaining elements."""
    x, begins, sizes = inputs
    bounds = zip(begins.ravel().tolist(), sizes.ravel().tolist(), strict=True)
    return x[tuple(slice(b, None if n < 0 else b + n) for b, n in bounds)]


@register_host_operator("StridedSlice")
def strided_slice(inputs: Sequence[HostArray], attributes: Attributes) -> Any:
    """Return a slice with steps."""
    x, *bounds = inputs
    numbers = [bound.ravel().tolist() for bound in bounds]
    masks = {name: attributes.get(f"{name}_mask", 0) for name in SLICE_MASK_NAMES}
    index: list[Any] = []
    for place, (begin, end, step) in enumerate(zip(*numbers, strict=True)):
        is_set = {name: bool(mask >> place & 1) for name, mask in masks.items()}
        if is_set["ellipsis"]:
            index.append(Ellipsis)
        elif is_set["new_axis"]:
            index.append(None)
        elif is_set["shrink_axis"]:
            index.append(begin)
        else:
            first = None if is_set["begin"] else begin
            last = None if is_set["end"] else end
            index.append(slice(first, last, step))
    return x[tuple(index)]


def as_python_bool(value: Any) -> bool:
    """Return the truth of a condition: a number is true unless it is 0."""
    array = value.numpy() if isinstance(value, Tensor) else np.asarray(value)
    return bool(array.ravel()[0])
