"""Tensors copied from one backend or device to another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from plugrad.engine.results import alias, tensor_from_host
from plugrad.tape.nodes import CustomNode, InputGradients, Leaf, Node
from plugrad.tensor.backend import make_unsupported_dtype_error
from plugrad.tensor.tensor import Tensor, host_values
from plugrad.tensor.tracer import Tracer, current_tracer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plugrad.tensor.backend import Backend


def copy_to_backend(x: Tensor, backend: Backend) -> Tensor:
    """Return a copy of x on `backend`, or x itself if it lives there."""
    if x.backend is backend:
        return x
    if isinstance(backend, Tracer):
        return backend.lift(x)
    if x.dtype not in backend.dtypes():
        raise make_unsupported_dtype_error(x.dtype, backend)
    y = tensor_from_host(host_values(x), backend)
    if x.node is not None:
        y.node = _CopyToBackend((x.node,), x.backend)
    return y


def lift_arguments(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the arguments with their tensors lifted to the innermost tracer, if there is one.

    One from outside would bring its node, which belongs to a tape outside.
    """
    tracer = current_tracer()
    if tracer is None:
        return args
    return tuple([copy_to_backend(x, tracer) if type(x) is Tensor else x for x in args])


def lift_alias(x: Tensor) -> Tensor:
    """Return a new tensor that shares the array of x, and that a traced function may assign to if x is from outside."""
    return alias(_lift(x))


def _lift(x: Tensor) -> Tensor:
    """Return a tensor lifted to the innermost tracer, if there is one."""
    tracer = current_tracer()
    return x if tracer is None else copy_to_backend(x, tracer)


def make_leaf(x: Tensor) -> tuple[Tensor, Leaf]:
    """Return x as a new tensor that is differentiated from here on, and its leaf on the tape.

    While a function is traced, a tensor from outside is lifted first, as it may be differentiated there, too.
    """
    lifted = _lift(x)
    leaf = Leaf((lifted.node,))
    return Tensor(lifted.array, lifted.backend, leaf), leaf


class _CopyToBackend(CustomNode):
    """A copy to another backend: its gradient is copied back."""

    __slots__ = ("origin",)

    def __init__(self, parents: tuple[Node | None, ...], origin: Backend) -> None:
        """Remember the tensor's backend and node."""
        super().__init__(parents)
        self.origin = origin

    def vjp(
        self, dy: Tensor, needs_input_grad: Sequence[bool] | None, create_graph: bool
    ) -> InputGradients:
        """Return the gradient, copied back to the backend of the original."""
        return [(0, copy_to_backend(dy, self.origin))]
