"""Helper functions of several families of operators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import plugrad

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plugrad import Tensor
    from plugrad_onnx.registry import HostArray


def to_integers(values: HostArray) -> list[int]:
    """Convert an array to Python integers."""
    return [int(value) for value in values.ravel()]


def integers_from_either(
    attribute: Sequence[int] | None, input_array: HostArray | None
) -> list[int] | None:
    """Return a list of integers given by an attribute, as in old operator versions, or by an input."""
    if attribute is not None:
        return list(attribute)
    return None if input_array is None else to_integers(input_array)


def single_element(values: HostArray) -> Any:
    """Return the only element of an array."""
    return values.ravel()[0].item() if values.size else 0


def number_like(value: float, x: Tensor) -> Tensor:
    """Convert a number to a tensor with the dtype of another one."""
    return plugrad.full((), value, dtype=x.dtype, device=x.device)


def replace_negative_indices(indices: Tensor, size: int) -> Tensor:
    """Replace negative indices, which count from the end, by the equal non-negative ones."""
    return plugrad.where(
        plugrad.less(indices, number_like(0, indices)),
        plugrad.add(indices, number_like(size, indices)),
        indices,
    )


def reshape_to_channels(x: Tensor, rank: int) -> Tensor:
    """Reshape values of channels to broadcast with channels-first images of a rank."""
    return plugrad.reshape(x, (1, -1) + (1,) * (rank - 2))


def cast_like_input(result: Tensor, x: Tensor) -> Tensor:
    """Cast a result to the dtype of an input."""
    return result if result.dtype == x.dtype else plugrad.astype(result, x.dtype)


def is_string(x: Any) -> bool:
    """Whether a tensor holds strings."""
    return str(x.dtype) == "string"
