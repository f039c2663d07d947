"""What a trace offers to the layers below it: a backend that records the calls of kernels instead of running them."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from plugrad.tensor.backend import Backend
from plugrad.tensor.context import current_context

if TYPE_CHECKING:
    from plugrad.tensor.tensor import Tensor


class Tracer(Backend):
    """A backend that records calls; its arrays have a shape and a dtype, but no values.

    While a function is traced, its tracer is the active backend, to which all inputs of ops are transferred. What a
    program closes over reaches it through these methods.
    """

    target: Backend
    """The device for which it records, whose name, dtypes and kernels it shows."""

    @abstractmethod
    def lift(self, x: Tensor) -> Tensor:
        """Return a tensor of the trace that stands for a tensor from outside."""

    @abstractmethod
    def read_variable(self, variable: Tensor) -> Any:
        """Return the array that a variable holds at this point of the trace."""

    @abstractmethod
    def assign_variable(self, variable: Tensor, array: Any) -> None:
        """Make a variable hold an array of the trace from this point on."""

    @abstractmethod
    def initial_value(self, variable: Tensor, x: Tensor) -> Tensor:
        """Return the first value, on the target, of a variable that is made while a function is traced."""

    @abstractmethod
    def replaces(self, backend: Backend) -> Backend:
        """Return the tracer itself for its target, which the program has named.

        Raises:
            TracingError: it is another device.
        """


def current_tracer() -> Tracer | None:
    """Return the tracer of the function that is being traced in this context, or None."""
    context = current_context()
    if context is None:
        return None
    target = context.transfer
    return target if isinstance(target, Tracer) else None


def is_traced(x: Tensor) -> bool:
    """Return whether a tensor stands for the value of a function that is being traced, and so cannot be looked at.

    >>> import plugrad
    >>> from plugrad.extend import is_traced
    >>> x = plugrad.asarray([1.0, 2.0])
    >>> is_traced(x)
    False
    >>> plugrad.jit(lambda x: x + (10 if is_traced(x) else 20))(x)
    tensor([11., 12.], dtype=float32)
    """
    return isinstance(x.backend, Tracer)
