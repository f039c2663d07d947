"""The backend of `plugrad.vmap`: its arrays hide a leading axis, and hold a tensor of the level outside.

A kernel of such arrays runs as a kernel of the tensors that they hold, by its batching rule. So tapes, traces and other
calls of `vmap` that are outside see everything.
"""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, cast

from plugrad.discovery.selection import get_selection, set_selection
from plugrad.discovery.state import Selection
from plugrad.engine.custom import as_tensor_list, check_value_and_gradient, custom_grad
from plugrad.engine.transfer import copy_to_backend
from plugrad.errors import BackendMismatch, TracingError
from plugrad.kernels import movement, reduction
from plugrad.tensor.backend import (
    Backend,
    Memory,
    Probe,
    check_device_alive,
    copy_to_backend_array,
    read_array,
)
from plugrad.tensor.context import ExecutionContext, current_context, set_context
from plugrad.tensor.tensor import Tensor
from plugrad.tensor.tracer import Tracer
from plugrad.transforms.batched_kernels import (
    FINISHED_FUNCTIONS,
    BatchedArray,
    BatchedFunctions,
    DrawState,
)
from plugrad.transforms.variable import Variable, get_array, get_backend, watched_variables

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence

    from numpy.typing import NDArray

    from plugrad.tape.nodes import Leaf
    from plugrad.tensor.backend import KernelConfig, KernelTables
    from plugrad.types.dtype import DType
    from plugrad.types.specs import Shape

WORDS_PER_PHILOX_BLOCK: Final = 4
"""The 32-bit random words that one counter value of Philox gives; the draw of each example begins with a new value."""


class BatchTracer(Tracer):
    """Runs one function for many examples at once, with a hidden leading axis."""

    def __init__(self, outer: Backend, size: int, randomness: str, drawn: list[Tensor]) -> None:
        """Create a tracer that computes on a device, or on the tracer of an enclosing `vmap`.

        Args:
            outer: the backend of the tensors that the arrays hold.
            size: the number of examples.
            randomness: "different", "same" or "error"; see `plugrad.vmap`.
            drawn: the states of what has been drawn for examples before these.
        """
        self.outer: Backend = outer  # pyright: ignore[reportIncompatibleVariableOverride] - never None here
        self.target = outer.target if isinstance(outer, Tracer) else outer
        self.size = size
        self.randomness = randomness
        self.name = outer.name  # pyright: ignore[reportAttributeAccessIssue] - for others it is that of the class
        self.device = outer.device
        self.distribution = outer.distribution
        self.options = outer.options
        self.functions = FINISHED_FUNCTIONS
        self.constants = {}
        self.planned_steps = outer.planned_steps if isinstance(outer, Tracer) else Counter()
        self._drawn = drawn
        self._draws = 0
        self._outside: tuple[ExecutionContext | None, Selection | None] = None, None
        self._own = Selection(self, "plugrad.vmap")
        self._watched: dict[Variable, Leaf] = {}

    # --- inside and outside ----------------------------------------------------------------------

    @contextmanager
    def run_on_level(self) -> Generator[None, None, None]:
        """Run the block on this level of `vmap`, as the mapped function is run."""
        before = self._outside, self._watched, self.functions, self.constants
        if self.functions is FINISHED_FUNCTIONS:
            self.functions, self.constants = BatchedFunctions(self), SharedConstants(self.outer)
        self._outside = context, _ = current_context(), get_selection()
        self._watched = watched_variables.get() or {}
        around = ExecutionContext() if context is None else context
        token = watched_variables.set(None)
        set_context(around._replace(scope=None, transfer_target=self))
        set_selection(self._own)
        try:
            yield
        finally:
            set_context(self._outside[0])
            set_selection(self._outside[1])
            watched_variables.reset(token)
            # Outside, a tensor that the function has kept is an error.
            self._outside, self._watched, self.functions, self.constants = before

    @contextmanager
    def run_on_outer_level(self) -> Generator[None, None, None]:
        """Run the block on the outer level."""
        before = self.leave()
        token = watched_variables.set(self._watched or None)
        try:
            yield
        finally:
            watched_variables.reset(token)
            self.enter(before)

    def leave(self) -> tuple[ExecutionContext | None, Selection | None]:
        """Switch to the outer level, keeping the binding of variables; return a token for `enter`."""
        inner, selection = current_context(), get_selection()
        outer, theirs = self._outside
        if inner is not None and any(part is not None for part in inner[2:]):
            scope, target = (None, None) if outer is None else outer[:2]
            # Inputs that have to be cast have been cast.
            outer = ExecutionContext(scope, target, inner.overrides, inner.settings)
        set_context(outer)
        set_selection(theirs)
        return inner, selection

    def enter(self, token: tuple[ExecutionContext | None, Selection | None]) -> None:
        """Switch back from the outer level."""
        set_context(token[0])
        set_selection(token[1])

    # --- what the function closes over -----------------------------------------------------------

    def depend_on(self, function: Callable[[], Any]) -> None:
        """Make an enclosing trace valid only as long as the function's result is equal to its result now."""
        if isinstance(self.outer, Tracer):
            self.outer.depend_on(function)

    def lift(self, x: Tensor) -> Tensor:
        """Return a tensor of this level for one from outside, which all examples share."""
        return Tensor(BatchedArray(self._to_outer_level(x), is_batched=False), self)

    def _to_outer_level(self, x: Tensor) -> Tensor:
        """Return the outer tensor for a tensor.

        Raises:
            BackendMismatch: it is on another device.
            TracingError: it is one of a call of `vmap` that has ended.
            DisposedTensor, DeviceLost: its backend is closed, or its device lost.
        """
        backend = x.backend
        if backend is self.outer:
            return x
        check_not_finished(backend)
        check_device_alive(backend, "vmap")
        context = self._outside[0]
        if isinstance(self.outer, Tracer) or (
            context is not None and context.transfer_target is not None
        ):
            return copy_to_backend(x, self.outer)
        raise BackendMismatch(
            f"vmap: the function runs on {self.outer.label}, and uses a tensor on {backend.label}; copy it first, as "
            "in x.to(…)"
        )

    @property
    def bound_tensors(self) -> list[Any]:
        """The tensors bound to captured tensors and variables in the enclosing tracer."""
        return self.outer.bound_tensors if isinstance(self.outer, Tracer) else []

    @bound_tensors.setter
    def bound_tensors(self, bound_tensors: list[Any]) -> None:
        if isinstance(self.outer, Tracer):
            self.outer.bound_tensors = bound_tensors

    def read_variable(self, variable: Tensor) -> Any:
        """Return the variable's value on the outer level."""
        assert isinstance(variable, Variable)
        outer = self.outer
        if isinstance(outer, Tracer):
            array = outer.read_variable(variable)
        else:
            array = get_array(variable)
            backend = get_backend(variable)
            if backend is not outer:
                self._to_outer_level(Tensor(array, backend))
        return BatchedArray(Tensor(array, outer, self._watched.get(variable)), is_batched=False)

    def assign_variable(self, variable: Tensor, array: Any) -> None:
        """Raise, because each example would assign a value of its own.

        Raises:
            TracingError: always.
        """
        name = getattr(variable, "name", "")
        raise TracingError(
            f"vmap: a variable{f', {name!r},' * bool(name)} is assigned to, but it can hold only one value, and each "
            f"of {self.size} examples has its own; return the new value, and assign it after the call"
        )

    def initial_value(self, variable: Tensor, x: Tensor) -> Tensor:
        """Return the initial value of a variable made by the function, which must not depend on the example.

        Raises:
            TracingError: it does.
        """
        array: BatchedArray = x.array
        if array.is_batched:
            raise TracingError(
                f"vmap: a variable of shape {x.shape} is made of what differs from example to example, but it can hold "
                "only one value; use a tensor"
            )
        with self.run_on_outer_level():
            outer = self.outer
            if isinstance(outer, Tracer):
                return outer.initial_value(variable, array.tensor)
            return array.tensor

    def resolve_traced_backend(self, backend: Backend) -> Backend:
        """Return the tracer if `backend` is its target, else `backend` itself."""
        if backend in (self, self.outer, self.target):
            return self
        raise TracingError(
            f"vmap: the function runs on {self.target.label}, and asks for {backend.label}; compute there outside of it"
        )

    def without_tape(self, array: Any) -> Any:
        """Return an array that holds the same tensor, off the tape."""
        found = self.wrap_outer_tensor(array)
        held = found.tensor
        inner = (
            self.outer.without_tape(held.array) if isinstance(self.outer, Tracer) else held.array
        )
        return BatchedArray(Tensor(inner, held.backend), found.is_batched)

    def wrap_outer_tensor(self, array: Any) -> BatchedArray:
        """Return an array of this level; a NumPy array of strings is wrapped in a tensor first."""
        if isinstance(array, BatchedArray):
            return array
        return BatchedArray(Tensor(array, self.outer), is_batched=False)

    # --- functions that are transformed on the levels outside ----------------------------------------

    def call_on_outer_level(
        self,
        transform: Callable[[Callable[..., Any]], Callable[..., Tensor]],
        function: Callable[..., Any],
        args: Sequence[Any],
    ) -> Tensor:
        """Call a function through a transform, such as `checkpoint`, that is applied on the outer level."""
        held: list[BatchedArray] = [x.array for x in args if _is_plain_tensor(x)]
        is_batched: list[bool] = []

        def call_for_all_examples(*tensors: Tensor) -> Any:
            """Return the function's results for all examples, as outer tensors."""
            with self.run_on_level():
                stand_ins = iter(
                    [
                        Tensor(BatchedArray(x, array.is_batched), self)
                        for x, array in zip(tensors, held, strict=True)
                    ]
                )
                value = function(*[next(stand_ins) if _is_plain_tensor(x) else x for x in args])
                if not isinstance(value, Tensor):
                    return value
                result = self._batched_array(value)
            is_batched[:] = [result.is_batched]
            return result.tensor

        with self.run_on_outer_level():
            value = transform(call_for_all_examples)(*[array.tensor for array in held])
        return Tensor(BatchedArray(value, *is_batched), self)

    def call_with_custom_gradient(
        self, function: Callable[..., Any], args: Sequence[Tensor], save: Callable[..., None]
    ) -> Any:
        """Call a function with a custom gradient, on outer tapes too; return its value and its gradient function."""
        held: list[BatchedArray] = [x.array for x in args]
        found: list[Any] = []
        pairs: list[tuple[Tensor, Tensor]] = []
        """What is saved, and what it was then."""

        def call_for_all_examples(*tensors: Any) -> Any:
            """Return the value for all examples, as an outer tensor, and its gradient function."""
            *given, save_outside = tensors
            kept: list[tuple[type[BatchedArray], bool]] = []

            def save_both(*values: Any) -> None:
                """Save tensors of the batch level as outer tensors."""
                for x in as_tensor_list(values):
                    pairs.append((x, Tensor(x.array, x.backend, x.node)))
                    array = self._batched_array(x)
                    kept.append((type(array), array.is_batched))
                    save_outside(array.tensor)

            with self.run_on_level():
                inner = [
                    Tensor(type(array)(x, array.is_batched), self, arg.node)
                    for x, array, arg in zip(given, held, args, strict=True)
                ]
                value, gradient = check_value_and_gradient(function(*inner, save_both))
                result = self._batched_array(value)
            if not result.is_batched and any(array.is_batched for array in held):
                result = BatchedArray(self.with_batch_axis(result), is_batched=True)
            found.extend((value, gradient, result.is_batched))

            def gradient_of_all(dy: Tensor, saved: list[Tensor]) -> list[Tensor | None]:
                """Return the gradients of the outer arguments."""
                with self.run_on_level():
                    values = [
                        Tensor(kind(x, is_batched), self)
                        for x, (kind, is_batched) in zip(saved, kept, strict=True)
                    ]
                    pulled: Any = gradient(
                        Tensor(BatchedArray(dy, result.is_batched), self), values
                    )
                    if not isinstance(pulled, list | tuple):
                        pulled = [pulled]
                    pulled = cast("Sequence[Tensor | None]", pulled)
                    arrays = [None if g is None else self._batched_array(g) for g in pulled]
                return [
                    None if g is None else self._as_gradient(g, array, result.is_batched)
                    for g, array in zip(arrays, held, strict=True)
                ]

            return result.tensor, gradient_of_all

        with self.run_on_outer_level():
            outer = custom_grad(call_for_all_examples)(*[array.tensor for array in held])
        value, gradient, is_batched = found
        result = Tensor(BatchedArray(outer, is_batched), self, value.node)
        save([result if x is value and x.array is then.array else then for x, then in pairs])
        return result, gradient

    def _batched_array(self, x: Tensor) -> BatchedArray:
        """Return the array of a tensor; a tensor from outside is lifted first."""
        return self.wrap_outer_tensor((x if x.backend is self else self.lift(x)).array)

    def _as_gradient(
        self, gradient: BatchedArray, outer_array: BatchedArray, is_value_batched: bool
    ) -> Tensor:
        """Return a gradient of the shape of an outer tensor: summed over the examples if they share it."""
        if outer_array.is_batched:
            return self.with_batch_axis(gradient)
        if gradient.is_batched or is_value_batched:
            return reduction.sum(self.with_batch_axis(gradient), axis=(0,))
        return gradient.tensor

    def with_batch_axis(self, x: BatchedArray) -> Tensor:
        """Return the outer tensor with the axis of the examples; a shared tensor is repeated along this axis."""
        if x.is_batched:
            return x.tensor
        expanded = movement.reshape(x.tensor, shape=(1, *x.shape))
        return movement.broadcast_to(expanded, shape=(self.size, *x.shape))

    # --- random numbers --------------------------------------------------------------------------

    def provide_draw_state(
        self, word_count: int, next_state: Callable[[int, Backend], Tensor]
    ) -> Tensor:
        """Return the random state for a draw of `word_count` words for each example, or for all together.

        Raises:
            TracingError: `randomness` is "error".
        """
        if self.randomness == "error":
            raise TracingError(
                "vmap: the function draws random numbers; say with randomness='different' that each example gets its "
                "own, or with randomness='same' that all get the same"
            )
        if self.randomness == "different":
            with self.run_on_outer_level():
                state = next_state(self.size * pad_word_count(word_count), self.outer)
            return Tensor(DrawState(state, is_batched=False), self)
        if self._draws == len(self._drawn):  # else other examples before these have drawn it
            with self.run_on_outer_level():
                self._drawn.append(next_state(word_count, self.outer))
        state = self._drawn[self._draws]
        self._draws += 1
        return Tensor(BatchedArray(state, is_batched=False), self)

    def host_value(self, function: Callable[[], Any], shape: Shape, dtype: DType) -> Any:
        """Return a host value of the outer level, which all examples share."""
        with self.run_on_outer_level():
            array = self.outer.host_value(function, shape, dtype)
        return BatchedArray(Tensor(array, self.outer), is_batched=False)

    # --- what it shows of the level outside ------------------------------------------------------

    @property
    def kernels(self) -> KernelTables:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The target's kernels."""
        return self.target.kernels

    def dtypes(self) -> frozenset[DType]:
        """Return the target's dtypes."""
        return self.target.dtypes()

    def probe(self) -> Probe:
        """Return a success, because a tracer can always start."""
        return Probe(ok=True)

    def open(self, device: str) -> Iterable[KernelConfig]:
        """Return no kernels, because a tracer needs no opening."""
        return ()

    def from_numpy(self, array: NDArray[Any]) -> Any:
        """Return an array that all examples share."""
        return BatchedArray(
            Tensor(copy_to_backend_array(array, self.outer), self.outer), is_batched=False
        )

    def to_numpy(self, array: Any) -> NDArray[Any]:
        """Return the values of an array that all examples share.

        Raises:
            TracingError: the examples differ.
        """
        check_not_finished(self)
        found = self.wrap_outer_tensor(array)
        if found.is_batched:
            raise TracingError(
                f"vmap: a tensor of shape {found.shape} and dtype {found.dtype} has other values for each of "
                f"{self.size} examples, and `if`, float(), item(), numpy() and printing need those of one; choose with "
                "plugrad.where(condition, a, b) or plugrad.cond(flag, f, g, *args), or return the tensor and look at "
                "it after the call"
            )
        with self.run_on_outer_level():
            return read_array(found.tensor.array, found.tensor.backend)

    def synchronize(self) -> None:
        """Synchronize the outer level."""
        self.outer.synchronize()

    def memory(self) -> Memory:
        """Return the target's memory."""
        return self.target.memory()

    def set_memory_limit(self, limit: int | None) -> None:
        """Set the target's memory limit."""
        self.target.set_memory_limit(limit)

    def close(self) -> None:
        """Do nothing; the target stays open."""


def pad_word_count(word_count: int) -> int:
    """Return a number of random words, rounded up to whole Philox blocks."""
    return -(-word_count // WORDS_PER_PHILOX_BLOCK) * WORDS_PER_PHILOX_BLOCK


def check_not_finished(backend: Backend) -> None:
    """Raise if a backend belongs to a `vmap` call that has ended.

    Raises:
        TracingError: it is.
    """
    if isinstance(backend, BatchTracer) and backend.functions is FINISHED_FUNCTIONS:
        raise TracingError(
            "vmap: a tensor was kept from a function whose call has ended, and hides the axis of its examples; return "
            "it from that function instead"
        )


def _is_plain_tensor(x: Any) -> bool:
    """Return whether an argument is a tensor but not a variable."""
    return isinstance(x, Tensor) and not isinstance(x, Variable)


class SharedConstants(dict[Any, Any]):
    """A view of the outer level's cache of single-value arrays, as arrays that all examples share."""

    def __init__(self, outer: Backend) -> None:
        """Start empty; constants of the enclosing level are looked up on demand."""
        super().__init__()
        self._outer = outer

    def get(self, key: Any, default: Any = None) -> Any:
        """Return an array, or the default."""
        found = super().get(key)
        if found is None and (array := self._outer.constants.get(key)) is not None:
            found = BatchedArray(Tensor(array, self._outer), is_batched=False)
            super().__setitem__(key, found)
        return default if found is None else found

    def __setitem__(self, key: Any, array: BatchedArray) -> None:
        super().__setitem__(key, array)
        self._outer.constants[key] = array.tensor.array
