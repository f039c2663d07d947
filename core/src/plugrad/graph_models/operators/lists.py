"""Lists and arrays of tensors, which graphs fill in loops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from plugrad.errors import ArgumentValueError
from plugrad.graph_models.registry import register_operator
from plugrad.ops import creation, movement

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from plugrad.graph_models.registry import AnyInput, HostArray
    from plugrad.tensor.tensor import Tensor

Shape = tuple[int, ...]
"""The sizes of the axes; -1 is an unknown size."""


@dataclass(frozen=True)
class TensorList:
    """An immutable list of tensors: every change returns a new list."""

    elements: tuple[Tensor | None, ...]
    """None is an element that nobody has set; it is zeros where it is read."""
    shape: Shape | None
    """The shape of each element; -1 is an unknown size."""
    dtype: str
    """The name of the elements' dtype."""

    def with_element(self, index: int, element: Tensor) -> TensorList:
        """Return the list with one element replaced; the list grows if necessary."""
        if index < 0:
            raise ArgumentValueError(f"a list of tensors has no element {index}")
        size = max(len(self.elements), index + 1)
        found = [*self.elements, *[None] * (size - len(self.elements))]
        found[index] = element
        return TensorList(tuple(found), self.shape, self.dtype)

    def read(self, index: int, element_shape: Shape | None = None) -> Tensor:
        """Return the element at an index."""
        if not 0 <= index < len(self.elements):
            raise ArgumentValueError(
                f"element {index} of a list of {len(self.elements)} tensors does not exist"
            )
        element = self.elements[index]
        return self._zeros(element_shape) if element is None else element

    def read_many(self, indices: Iterable[int], element_shape: Shape | None) -> list[Tensor]:
        """Return the elements at several indices."""
        return [self.read(index, element_shape) for index in indices]

    def stack(self, indices: Sequence[int], element_shape: Shape | None) -> Tensor:
        """Return elements as one tensor, along a new first axis."""
        if not indices:
            return creation.zeros((0, *self._known_shape(element_shape)), dtype=self.dtype)
        return movement.stack(self.read_many(indices, element_shape))

    def concat(self, element_shape: Shape | None) -> Tensor:
        """Return all elements joined along their first axis."""
        if not self.elements:
            return creation.zeros((0, *self._known_shape(element_shape)[1:]), dtype=self.dtype)
        return movement.concat(self.read_many(range(len(self.elements)), element_shape))

    def _known_shape(self, requested_shape: Shape | None) -> Shape:
        """Return the shape of an element, as far as the elements, the list and the caller know it."""
        for element in self.elements:
            if element is not None:
                return element.shape
        return tuple(max(size, 0) for size in (requested_shape or self.shape or ()))

    def _zeros(self, requested_shape: Shape | None) -> Tensor:
        """Return zeros in place of an unset element."""
        return creation.zeros(self._known_shape(requested_shape), dtype=self.dtype)


@register_operator("EmptyTensorList")
def empty_list(shape: HostArray, max_num_elements: HostArray, *, element_dtype: str) -> Any:
    """Return a list without elements."""
    return TensorList((), _as_element_shape(shape), element_dtype)


@register_operator("TensorListReserve")
def reserve_list(shape: HostArray, count: HostArray, *, element_dtype: str) -> Any:
    """Return a list of `count` unset elements."""
    return TensorList((None,) * int(count.item()), _as_element_shape(shape), element_dtype)


@register_operator("TensorListFromTensor")
def list_from_tensor(x: Tensor, shape: HostArray, *, element_dtype: str) -> Any:
    """Return the slices of a tensor along its first axis."""
    return TensorList(movement.unstack(x), _as_element_shape(shape), element_dtype)


@register_operator("TensorListSplit")
def split_list(x: Tensor, shape: HostArray, lengths: HostArray, *, element_dtype: str) -> Any:
    """Split a tensor along its first axis into a list."""
    parts = movement.split(x, [int(length) for length in lengths.ravel()])
    return TensorList(parts, _as_element_shape(shape), element_dtype)


@register_operator("TensorListScatter", "TensorListScatterV2")
def scatter_list(
    x: Tensor,
    indices: HostArray,
    shape: HostArray,
    count: HostArray | None = None,
    *,
    element_dtype: str,
) -> Any:
    """Return a list with the slices of a tensor at given indices."""
    least = 0 if count is None else max(int(count.item()), 0)
    found = TensorList((None,) * least, _as_element_shape(shape), element_dtype)
    for index, part in zip(indices.ravel(), movement.unstack(x), strict=True):
        found = found.with_element(int(index), part)
    return found


@register_operator("TensorListGetItem")
def get_list_item(
    items: AnyInput, index: HostArray, shape: HostArray | None = None, *, element_dtype: str = ""
) -> Any:
    """Return the element of a list at an index."""
    return _require_tensor_list(items).read(int(index.item()), _as_element_shape(shape))


@register_operator("TensorListSetItem")
def set_list_item(
    items: AnyInput, index: HostArray, element: Tensor, *, element_dtype: str = ""
) -> Any:
    """Return a list with the element at an index replaced."""
    return _require_tensor_list(items).with_element(int(index.item()), element)


@register_operator("TensorListPushBack")
def push_back_list(items: AnyInput, element: Tensor, *, element_dtype: str = "") -> Any:
    """Return a list with one more element."""
    return _require_tensor_list(items).with_element(len(items.elements), element)


@register_operator("TensorListPopBack", output_names=("output_handle", "tensor"))
def pop_back_list(items: AnyInput, shape: HostArray, *, element_dtype: str = "") -> tuple[Any, ...]:
    """Return a list without its last element, and that element."""
    last = len(_require_tensor_list(items).elements) - 1
    rest = TensorList(items.elements[:-1], items.shape, items.dtype)
    return rest, items.read(last, _as_element_shape(shape))


@register_operator("TensorListLength")
def list_length(items: AnyInput) -> Any:
    """Return the number of elements of a list."""
    return np.array(len(_require_tensor_list(items).elements), np.int32)


@register_operator("TensorListResize")
def resize_list(items: AnyInput, size: HostArray) -> Any:
    """Return the list truncated, or extended with unset elements."""
    count = int(size.item())
    elements = _require_tensor_list(items).elements[:count]
    return TensorList((*elements, *[None] * (count - len(elements))), items.shape, items.dtype)


@register_operator("TensorListStack")
def stack_list(
    items: AnyInput, shape: HostArray, *, element_dtype: str = "", num_elements: int = -1
) -> Any:
    """Stack all elements of a list into one tensor."""
    count = len(_require_tensor_list(items).elements)
    if num_elements not in (-1, count):
        raise ArgumentValueError(f"a list has {count} tensors, and {num_elements} were expected")
    return items.stack(range(count), _as_element_shape(shape))


@register_operator("TensorListGather")
def gather_list(
    items: AnyInput, indices: HostArray, shape: HostArray, *, element_dtype: str = ""
) -> Any:
    """Stack the elements of a list at several indices into one tensor."""
    return _require_tensor_list(items).stack(
        [int(index) for index in indices.ravel()], _as_element_shape(shape)
    )


@register_operator("TensorListConcat", "TensorListConcatV2", output_names=("tensor", "lengths"))
def concat_list(
    items: AnyInput, shape: HostArray | None = None, leading: HostArray | None = None, *,
    element_shape: Any = None, element_dtype: str = "",
) -> tuple[Any, ...]:  # fmt: skip
    """Concatenate all elements of a list along their first axis; also return the size of each along it."""
    wanted = _as_element_shape(shape) if element_shape is None else tuple(element_shape)
    parts = _require_tensor_list(items).read_many(range(len(items.elements)), wanted)
    return items.concat(wanted), np.array([part.shape[0] for part in parts], np.int32)


class TensorArray:
    """A mutable list of tensors, as in TensorFlow 1; `flow`, a number passed from call to call, orders accesses."""

    def __init__(self, size: int, shape: Shape | None, dtype: str) -> None:
        self.items = TensorList((None,) * size, shape, dtype)


@register_operator("TensorArrayV3", output_names=("handle", "flow"))
def tensor_array(
    size: HostArray, *, dtype: str, element_shape: Any = None, dynamic_size: bool = False
) -> tuple[Any, ...]:
    """Return an array of `size` tensors, and the number that orders its reads and writes (TensorFlow's flow)."""
    shape = None if element_shape is None else tuple(element_shape)
    return TensorArray(int(size.item()), shape, dtype), _dummy_flow()


@register_operator("TensorArrayWriteV3")
def write_array(array: AnyInput, index: HostArray, x: Tensor, flow: AnyInput) -> Any:
    """Set the element of an array at an index."""
    array.items = array.items.with_element(int(index.item()), x)
    return flow


@register_operator("TensorArrayReadV3")
def read_array(array: AnyInput, index: HostArray, flow: AnyInput, *, dtype: str = "") -> Any:
    """Return the element of an array at an index."""
    return array.items.read(int(index.item()))


@register_operator("TensorArrayGatherV3")
def gather_array(
    array: AnyInput,
    indices: HostArray,
    flow: AnyInput,
    *,
    dtype: str = "",
    element_shape: Any = None,
) -> Any:
    """Stack the elements of an array at several indices into one tensor."""
    shape = None if element_shape is None else tuple(element_shape)
    return array.items.stack([int(index) for index in indices.ravel()], shape)


@register_operator("TensorArrayScatterV3")
def tensor_array_scatter(array: AnyInput, indices: HostArray, x: Tensor, flow: AnyInput) -> Any:
    """Set elements to the slices of a tensor."""
    for index, part in zip(indices.ravel(), movement.unstack(x), strict=True):
        array.items = array.items.with_element(int(index), part)
    return flow


@register_operator("TensorArrayConcatV3", output_names=("value", "lengths"))
def concat_array(array: AnyInput, flow: AnyInput, *, dtype: str = "") -> tuple[Any, ...]:
    """Concatenate all elements of an array along their first axis; also return the size of each along it."""
    return concat_list(array.items)


@register_operator("TensorArraySplitV3")
def split_array(array: AnyInput, x: Tensor, lengths: HostArray, flow: AnyInput) -> Any:
    """Set all elements to consecutive parts of a tensor."""
    for index, part in enumerate(movement.split(x, [int(n) for n in lengths.ravel()])):
        array.items = array.items.with_element(index, part)
    return flow


@register_operator("TensorArraySizeV3")
def tensor_array_size(array: AnyInput, flow: AnyInput) -> Any:
    """Return the number of elements of an array."""
    return list_length(array.items)


@register_operator("TensorArrayCloseV3")
def close_array(array: AnyInput) -> Any:
    """Release all elements of an array."""
    array.items = TensorList((), None, array.items.dtype)
    return _dummy_flow()


def _require_tensor_list(value: Any) -> TensorList:
    """Return a value that is a `TensorList`; raise if it is not."""
    if not isinstance(value, TensorList):
        raise ArgumentValueError(f"{type(value).__name__} stands where a list of tensors is needed")
    return value


def _dummy_flow() -> Any:
    """Return a value for the input that orders accesses to arrays, which are ordered here anyhow."""
    return np.array(1.0, np.float32)


def _as_element_shape(values: HostArray | None) -> Shape | None:
    """Convert values to a shape, in which -1 is any size; None is any shape."""
    if values is None or (values.ndim == 0 and values.item() < 0):
        return None
    return tuple(int(size) for size in values.ravel())
