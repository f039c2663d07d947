"""The interface of tracers: a backend that stands for another one while a function is traced.

There are two: one records the calls of kernels instead of running them (`plugrad.jit`), the other runs them for many
examples at once (`plugrad.vmap`).
"""

from __future__ import annotations

from abc import abstractmethod
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from plugrad.tensor.backend import Backend
from plugrad.tensor.context import current_context, transfer_target
from plugrad.types.arguments import check_callable
from plugrad.types.specs import TensorArray

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Generator, Sequence

    from plugrad.tensor.tensor import Tensor

StaticValueType = TypeVar("StaticValueType")


class Tracer(Backend):
    """A backend whose arrays have a shape and a dtype but no readable values.

    While a function is traced, its tracer is the active backend, to which all inputs of ops are transferred. What a
    program closes over reaches it through these methods.
    """

    outer: Backend | None = None
    """The backend of the level outside, if the arrays hold tensors of it."""
    target: Backend
    """The device on which the traced function is to run; the tracer shows its name, dtypes and kernels."""
    planned_steps: Counter[int]
    """The steps of optimizers that the trace has recorded so far, by the identity of a variable's state."""

    @abstractmethod
    def depend_on(self, function: Callable[[], Any]) -> None:
        """Make the trace valid only as long as the function's result is equal to its result now."""

    @abstractmethod
    def lift(self, x: Tensor) -> Tensor:
        """Return a tensor of the trace for a tensor from outside."""

    @abstractmethod
    def read_variable(self, variable: Tensor) -> Any:
        """Return the array of a variable at this point of the trace."""

    @abstractmethod
    def assign_variable(self, variable: Tensor, array: Any) -> None:
        """Make a variable hold an array of the trace from this point on."""

    @abstractmethod
    def initial_value(self, variable: Tensor, x: Tensor) -> Tensor:
        """Return the first value, on the target, of a variable that is made from x while a function is traced."""

    @abstractmethod
    def resolve_traced_backend(self, backend: Backend) -> Backend:
        """Return the tracer, given its target backend, which the traced program has named.

        Raises:
            TracingError: it is another device.
        """

    @property
    def bound_tensors(self) -> list[Any]:
        """The traced counterparts of captured tensors and variables, in this tracer and the enclosing ones."""
        return []

    @bound_tensors.setter
    def bound_tensors(self, bound_tensors: list[Any]) -> None:
        """Set the captured values to those of another trace of the same function."""

    @contextmanager
    def using_bound_tensors(self, bound_tensors: list[Any]) -> Generator[None, None, None]:
        """Set `bound_tensors` within a block, as they were when the tracer recorded a step that runs again."""
        before, self.bound_tensors = self.bound_tensors, bound_tensors
        try:
            yield
        finally:
            self.bound_tensors = before

    def without_tape(self, array: Any) -> Any:
        """Return an array with the same values that is on no tape outside the traced function."""
        return array

    def call_with_custom_gradient(
        self, function: Callable[..., Any], args: Sequence[Tensor], save: Callable[..., None]
    ) -> Any:
        """Call a function with a custom gradient; return its value and the function that computes its gradient.

        On a tape outside the traced function, the call has the custom gradient, too. The function calls `save` with the
        tensors that its gradient needs.
        """
        return function(*args, save)

    def provide_draw_state(
        self, word_count: int, next_state: Callable[[int, Backend], Tensor]
    ) -> Tensor | None:
        """Return the random state for a draw of `word_count` words, or None if the tracer has no rule for it.

        `next_state` returns that of a draw outside the traced function.
        """
        return None


def current_tracer() -> Tracer | None:
    """Return the tracer of the function that is being traced in this context, or None."""
    context = current_context()
    if context is None or context.transfer_target is None:
        return None
    target: Any = context.transfer_target
    return target if _is_tracer(type(target)) else None


@cache
def _is_tracer(backend_class: type) -> bool:
    """Return whether a backend's class is a tracer's, in a third of the time of `isinstance` with an abstract class."""
    return issubclass(backend_class, Tracer)


def recording_or_target_backend() -> Backend | None:
    """Return the tracer that records calls in this context, or else the backend to which inputs are transferred."""
    target = transfer_target()
    while isinstance(target, Tracer) and target.outer is not None:
        target = target.outer
    return target


def is_traced(x: Tensor) -> bool:
    """Return whether a tensor stands for values of a function under `jit` or `vmap`, and so cannot be looked at.

    >>> import plugrad
    >>> from plugrad.extend import is_traced
    >>> x = plugrad.asarray([1.0, 2.0])
    >>> is_traced(x)
    False
    >>> plugrad.jit(lambda x: x + (10 if is_traced(x) else 20))(x)
    tensor([11., 12.], dtype=float32)
    """
    return isinstance(x.backend, Tracer)


def is_recorded(x: Tensor) -> bool:
    """Return whether a tensor is on a tape: on that of its own level, or on one outside of a function under `vmap`."""
    array = x.array
    return x.node is not None or (isinstance(array, TensorArray) and is_recorded(array.tensor))


def static_value(function: Callable[[], StaticValueType]) -> StaticValueType:
    """Return the function's result; a traced program is traced again when a later call finds another result.

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
