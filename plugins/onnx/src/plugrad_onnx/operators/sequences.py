"""Operators on sequences of tensors, and on optional values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import plugrad
from plugrad_onnx.errors import InvalidModel
from plugrad_onnx.operators.common import single_element, to_integers
from plugrad_onnx.registry import operator

if TYPE_CHECKING:
    from plugrad import Tensor
    from plugrad_onnx.registry import AnyInputValue, HostArray, TensorList


@operator("SequenceConstruct")
def sequence_construct(*inputs: AnyInputValue) -> list[Any]:
    """Return the inputs as a sequence."""
    return list(inputs)


@operator("SequenceEmpty")
def sequence_empty(*, dtype: int = 1) -> list[Any]:
    """Return an empty sequence."""
    return []


@operator("SequenceAt")
def sequence_at(sequence: AnyInputValue, position: HostArray) -> Any:
    """Return one element of a sequence."""
    return sequence[int(single_element(position))]


@operator("SequenceLength")
def sequence_length(sequence: AnyInputValue) -> Any:
    """Return the number of elements of a sequence."""
    return np.array(len(sequence), np.int64)


@operator("SequenceInsert")
def sequence_insert(
    sequence: AnyInputValue, x: AnyInputValue, position: HostArray | None = None
) -> list[Any]:
    """Return a sequence with x inserted."""
    place = len(sequence) if position is None else int(single_element(position))
    if not -len(sequence) <= place <= len(sequence):
        raise InvalidModel(f"Position {place} is not in a sequence of {len(sequence)} elements.")
    place = place + len(sequence) if place < 0 else place
    return [*sequence[:place], x, *sequence[place:]]


@operator("SequenceErase")
def sequence_erase(sequence: AnyInputValue, position: HostArray | None = None) -> list[Any]:
    """Return a sequence without one of its elements."""
    rest = list(sequence)
    rest.pop(-1 if position is None else int(single_element(position)))
    return rest


@operator("ConcatFromSequence")
def concat_from_sequence(sequence: TensorList, *, axis: int, new_axis: int = 0) -> Tensor:
    """Concatenate the elements of a sequence along an axis, or stack them along a new one."""
    return plugrad.stack(sequence, axis=axis) if new_axis else plugrad.concat(sequence, axis=axis)


@operator("SplitToSequence")
def split_to_sequence(
    x: Tensor, split: HostArray | None = None, *, axis: int = 0, keepdims: int = 1
) -> list[Tensor]:
    """Split x along an axis into a sequence."""
    size = x.shape[axis]
    if split is None:
        parts = plugrad.split(x, (1,) * size, axis)
        return list(parts) if keepdims else [plugrad.squeeze(part, axis) for part in parts]
    if split.ndim:
        return list(plugrad.split(x, tuple(to_integers(split)), axis))
    step = int(single_element(split))
    sizes = [step] * (size // step) + ([size % step] if size % step else [])
    return list(plugrad.split(x, tuple(sizes), axis))


@operator("Optional")
def optional(x: AnyInputValue | None = None, *, type: Any = None) -> Any:
    """Return x as an optional value, or an empty one without x."""
    return x


@operator("OptionalHasElement")
def optional_has_element(x: AnyInputValue | None = None) -> Any:
    """Whether an optional value is not empty."""
    return np.array(x is not None)


@operator("OptionalGetElement")
def optional_get_element(x: AnyInputValue) -> Any:
    """Return the element of an optional value.

    Raises:
        InvalidModel: nothing is.
    """
    if x is None:
        raise InvalidModel("OptionalGetElement finds no element.")
    return x
