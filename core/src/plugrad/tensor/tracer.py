"""What a trace offers to the layers below it: a backend that records the calls of kernels instead of running them."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, TypeVar

from plugrad.tensor.backend import Backend
from plugrad.tensor.context import current_context
from plugrad.types.arguments import check_callable

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable

    from plugrad.tensor.tensor import Tensor

Answer = TypeVar("Answer")


class Tracer(Backend):
    """A backend that records calls; its arrays have a shape and a dtype, but no values.

    While a function is traced, its tracer is the active backend, to which all inputs of ops are transferred. What a
    program closes over reaches it through these methods.
    """

    target: Backend
    """The device for which it records, whose name, dtypes and kernels it shows."""
    planned_steps: Counter[int]
    """The steps of optimizers that the trace has recorded so far, by the identity of a variable's state."""

    @abstractmethod
    def depend_on(self, function: Callable[[], Any]) -> None:
        """Note that the trace is for what a function returns now."""

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


def static_value(function: Callable[[], Answer]) -> Answer:
    """Return what a function returns now; a traced program is traced again when a call finds another answer.

    What a program reads from attributes and globals while it is traced stays as it was. Where such a value decides
    which ops run, and may change from call to call, ask for it like this. A number that ops only compute with belongs
    into `host_value`, which needs no other trace.

    >>> from plugrad.extend import static_value
    >>> layer = {"is_on": True}
    >>> f = plugrad.jit(lambda x: x * 2 if static_value(lambda: layer["is_on"]) else x)
    >>> f(plugrad.asarray(1.0))
    tensor(2., dtype=float32)
    >>> layer["is_on"] = False
    >>> f(plugrad.asarray(1.0))
    tensor(1., dtype=float32)

    Args:
        function: a function without arguments, which returns something that can be compared. It is called at the
            beginning of each call of the program.

    Raises:
        ArgumentError: `function` is not callable.
    """
    check_callable("static_value", function)
    tracer = current_tracer()
    if tracer is not None:
        tracer.depend_on(function)
    return function()
