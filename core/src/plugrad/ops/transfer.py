"""Tensors copied from one backend or device to another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugrad.ops.arguments import as_tensor, tensor_from, unsupported
from plugrad.selection import preferred
from plugrad.tape import Node, Pulled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plugrad.backend import Backend
    from plugrad.tensor import Tensor, TensorLike


def to_device(x: TensorLike, device: str) -> Tensor:
    """A copy on another backend or device; x itself if it lives there. Gradients come back the other way.

    >>> plugrad.to_device([1.0], "cpu").device
    'cpu:0'

    Raises:
        BackendNotFound, BackendUnavailable: naming the reason and the remedy.
        UnsupportedDtype: the backend has no such dtype.
    """
    return moved(as_tensor(x, "to_device"), preferred(device, "to_device"))


def moved(x: Tensor, backend: Backend) -> Tensor:
    """Return a copy of x on `backend`, or x itself if it lives there."""
    if x.backend is backend:
        return x
    if x.dtype not in backend.dtypes():
        raise unsupported(x.dtype, backend)
    y = tensor_from(x.backend.to_numpy(x.array), backend)
    if x.node is not None:
        y.node = _Moved((x.node,), x.backend)
    return y


class _Moved(Node):
    """A copy to another backend: its gradient is copied back."""

    __slots__ = ("origin",)

    def __init__(self, parents: tuple[Node | None, ...], origin: Backend) -> None:
        """Remember where the tensor came from."""
        super().__init__(parents)
        self.origin = origin

    def pull(self, dy: Tensor, wanted: Sequence[bool] | None, linked: bool) -> Pulled:
        """Copy the gradient back."""
        return [(0, moved(dy, self.origin))]
