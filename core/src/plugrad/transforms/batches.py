"""The backend of `plugrad.vmap`: its arrays hide a leading axis, and hold a tensor of the level outside.

A kernel of such arrays runs as a kernel of the tensors that they hold, by its batching rule. So tapes, traces and other
calls of `vmap` that are outside see everything.
"""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from plugrad.contract.kernel import get_contract
from plugrad.discovery.selection import Selection, get_selection, set_selection
from plugrad.engine.by_name import contract_from_signature
from plugrad.engine.composites import composite_implementation
from plugrad.engine.custom import as_tensor_list, custom_grad
from plugrad.engine.dispatch import run
from plugrad.engine.transfer import copy_to_backend
from plugrad.errors import BackendMismatch, KernelFailed, ShapeError, TracingError, warn
from plugrad.kernels import movement, reduction
from plugrad.ops.creation import zeros
from plugrad.registry.batching import Batch, broadcasting, find_batching, with_rank
from plugrad.registry.composites import find_composite
from plugrad.tape.nodes import Leaf, next_order
from plugrad.tensor.backend import Backend, Memory, Probe, check_alive, read_array, store
from plugrad.tensor.context import Context, current_context, set_context
from plugrad.tensor.tensor import Tensor
from plugrad.tensor.tracer import Tracer
from plugrad.transforms.variable import Variable, get_array, get_backend, watched_variables

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence

    from numpy.typing import NDArray

    from plugrad.contract.kernel import Kernel
    from plugrad.registry.batching import BatchingRule
    from plugrad.tensor.backend import Implementation, KernelConfig, KernelTables
    from plugrad.types.dtype import DType
    from plugrad.types.specs import Shape

BLOCK_WORDS: Final = 4
"""The random words of one number of a counter, at which the draw of an example begins."""


class BatchedArray:
    """A tensor of the level outside in the place of a backend's array."""

    __slots__ = ("__weakref__", "dtype", "is_batched", "shape", "tensor")

    def __init__(self, tensor: Tensor, is_batched: bool) -> None:
        """Hold a tensor, whose first axis is hidden if it is batched."""
        array = tensor.array
        shape: Shape = array.shape
        self.tensor = tensor
        self.is_batched = is_batched
        self.shape: Shape = shape[1:] if is_batched else shape
        self.dtype: Any = array.dtype

    def __repr__(self) -> str:
        return f"<{'batched' if self.is_batched else 'shared'} {self.dtype}{list(self.shape)}>"


class DrawState(BatchedArray):
    """The state of a random draw of the first example; those of the others follow it."""

    __slots__ = ()


class BatchTracer(Tracer):
    """Runs one function for many examples at once."""

    def __init__(self, outer: Backend, size: int, randomness: str, drawn: list[Tensor]) -> None:
        """Stand for a device, or for the tracer of the level outside.

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
        self.functions = FINISHED
        self.constants = {}
        self.planned_steps = outer.planned_steps if isinstance(outer, Tracer) else Counter()
        self.start: int = next_order()
        """Nodes of the tape that are older belong to the levels outside."""
        self._drawn = drawn
        self._draws = 0
        self._outside: tuple[Context | None, Selection | None] = None, None
        self._own = Selection(self, "plugrad.vmap")
        self._watched: dict[Variable, Leaf] = {}

    # --- inside and outside ----------------------------------------------------------------------

    @contextmanager
    def inside(self) -> Generator[None, None, None]:
        """Run the function, or a part of it, inside the block."""
        before = self._outside, self._watched, self.functions, self.constants
        if self.functions is FINISHED:
            self.functions, self.constants = BatchedFunctions(self), Constants(self.outer)
        self._outside = context, _ = current_context(), get_selection()
        self._watched = watched_variables.get() or {}
        overrides = (None, None) if context is None else context[2:]
        token = watched_variables.set(None)
        set_context(Context(None, self, *overrides))
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
    def outside(self) -> Generator[None, None, None]:
        """Run what concerns the level outside inside the block."""
        before = self.leave()
        token = watched_variables.set(self._watched or None)
        try:
            yield
        finally:
            watched_variables.reset(token)
            self.enter(before)

    def leave(self) -> tuple[Context | None, Selection | None]:
        """Go to the level outside, except that variables stay; return what `enter` needs to come back."""
        inner, selection = current_context(), get_selection()
        outer, theirs = self._outside
        if inner is not None and (inner.overrides is not None or inner.settings is not None):
            scope, transfer = (None, None) if outer is None else outer[:2]
            outer = Context(scope, transfer, *inner[2:])
        set_context(outer)
        set_selection(theirs)
        return inner, selection

    def enter(self, inner: tuple[Context | None, Selection | None]) -> None:
        """Come back from the level outside."""
        set_context(inner[0])
        set_selection(inner[1])

    # --- what the function closes over -----------------------------------------------------------

    def depend_on(self, function: Callable[[], Any]) -> None:
        """Note what a trace outside is for."""
        if isinstance(self.outer, Tracer):
            self.outer.depend_on(function)

    def lift(self, x: Tensor) -> Tensor:
        """Return a tensor for one from outside, which all examples share."""
        node = x.node
        leaf = node if isinstance(node, Leaf) and node.order >= self.start else None
        origin = node if leaf is None else leaf.parents[0]
        outer = self._to_outside(Tensor(x.array, x.backend, origin))
        if leaf is not None:  # the level outside is differentiated through the tensor that is held
            leaf.parents = (None,)
        return Tensor(BatchedArray(outer, is_batched=False), self, leaf)

    def _to_outside(self, x: Tensor) -> Tensor:
        """Return a tensor on the level outside.

        Raises:
            BackendMismatch: it is on another device.
            TracingError: it is one of a call of `vmap` that has ended.
            DisposedTensor, DeviceLost: its backend is closed, or its device lost.
        """
        backend = x.backend
        if backend is self.outer:
            return x
        check_finished(backend)
        check_alive(backend, "vmap")
        context = self._outside[0]
        if isinstance(self.outer, Tracer) or (context is not None and context.transfer is not None):
            return copy_to_backend(x, self.outer)
        raise BackendMismatch(
            f"vmap: the function runs on {self.outer.label}, and uses a tensor on {backend.label}; copy it first, as "
            "in x.to(…)"
        )

    def read_variable(self, variable: Tensor) -> Any:
        """Return what a variable holds outside."""
        assert isinstance(variable, Variable)
        outer = self.outer
        if isinstance(outer, Tracer):
            array = outer.read_variable(variable)
        else:
            array = get_array(variable)
            backend = get_backend(variable)
            if backend is not outer:
                self._to_outside(Tensor(array, backend))
        return BatchedArray(Tensor(array, outer, self._watched.get(variable)), is_batched=False)

    def assign_variable(self, variable: Tensor, array: Any) -> None:
        """Raise: each example would assign a value of its own.

        Raises:
            TracingError: always.
        """
        name = getattr(variable, "name", "")
        raise TracingError(
            f"vmap: a variable{f', {name!r},' * bool(name)} is assigned to, but it can hold only one value, and each of "
            f"{self.size} examples has its own; return the new value, and assign it after the call"
        )

    def initial_value(self, variable: Tensor, x: Tensor) -> Tensor:
        """Return the first value of a variable that the function makes, which does not depend on the example.

        Raises:
            TracingError: it does.
        """
        array: BatchedArray = x.array
        if array.is_batched:
            raise TracingError(
                f"vmap: a variable of shape {x.shape} is made of what differs from example to example, but it can hold "
                "only one value; use a tensor"
            )
        with self.outside():
            outer = self.outer
            if isinstance(outer, Tracer):
                return outer.initial_value(variable, array.tensor)
            return array.tensor

    def replaces(self, backend: Backend) -> Backend:
        """Return the tracer for its target."""
        if backend in (self, self.outer, self.target):
            return self
        raise TracingError(
            f"vmap: the function runs on {self.target.label}, and asks for {backend.label}; compute there outside of it"
        )

    def is_recorded(self, array: Any) -> bool:
        """Return whether the tensor that an array holds is on a tape, or one that it holds."""
        held = self.hold(array).tensor
        return held.node is not None or (
            isinstance(held.backend, Tracer) and held.backend.is_recorded(held.array)
        )

    def without_tape(self, array: Any) -> Any:
        """Return an array that holds a tensor without a node."""
        found = self.hold(array)
        held = found.tensor
        inner = (
            self.outer.without_tape(held.array) if isinstance(self.outer, Tracer) else held.array
        )
        return BatchedArray(Tensor(inner, held.backend), found.is_batched)

    def hold(self, array: Any) -> BatchedArray:
        """Return an array; one of strings, which is NumPy's everywhere, is held as a tensor."""
        if isinstance(array, BatchedArray):
            return array
        return BatchedArray(Tensor(array, self.outer), is_batched=False)

    # --- functions with a gradient of their own --------------------------------------------------

    def call_custom(
        self, function: Callable[..., Any], args: Sequence[Tensor], save: Callable[..., None]
    ) -> Any:
        """Return the value and the gradient function; the value has that gradient on the tapes outside, too."""
        held: list[BatchedArray] = [x.array for x in args]
        if not any(map(self.is_recorded, held)):
            return function(*args, save)
        found: list[Any] = []
        pairs: list[tuple[Tensor, Tensor]] = []
        """What is saved, and what it was then."""

        def of_all(*tensors: Any) -> Any:
            *given, save_outside = tensors
            kept: list[bool] = []

            def save_both(*values: Any) -> None:
                for x in as_tensor_list(values):
                    pairs.append((x, Tensor(x.array, x.backend, x.node)))
                    array = self._held(x)
                    kept.append(array.is_batched)
                    save_outside(array.tensor)

            with self.inside():
                inner = [
                    Tensor(BatchedArray(x, array.is_batched), self, arg.node)
                    for x, array, arg in zip(given, held, args, strict=True)
                ]
                value, gradient = function(*inner, save_both)
                result = self._held(value)
            if not result.is_batched and any(array.is_batched for array in held):
                result = BatchedArray(self.spread(result), is_batched=True)
            found.extend((value, gradient, result.is_batched))

            def gradient_of_all(dy: Tensor, saved: list[Tensor]) -> list[Tensor | None]:
                with self.inside():
                    values = [
                        Tensor(BatchedArray(x, flag), self)
                        for x, flag in zip(saved, kept, strict=True)
                    ]
                    pulled = gradient(Tensor(BatchedArray(dy, result.is_batched), self), values)
                    pulled = pulled if isinstance(pulled, list | tuple) else [pulled]
                    arrays = [None if g is None else self._held(g) for g in pulled]
                return [
                    None if g is None else self._as_gradient(g, array, result.is_batched)
                    for g, array in zip(arrays, held, strict=True)
                ]

            return result.tensor, gradient_of_all

        with self.outside():
            outer = custom_grad(of_all)(*[array.tensor for array in held])
        value, gradient, is_batched = found
        result = Tensor(BatchedArray(outer, is_batched), self, value.node)
        save([result if x is value and x.array is then.array else then for x, then in pairs])
        return result, gradient

    def _held(self, x: Tensor) -> BatchedArray:
        """Return the array of a tensor, which may be one from outside."""
        return self.hold((x if x.backend is self else self.lift(x)).array)

    def _as_gradient(self, g: BatchedArray, x: BatchedArray, is_value_batched: bool) -> Tensor:
        """Return a gradient for what an array holds: summed over the examples if all of them share it."""
        if x.is_batched:
            return self.spread(g)
        if g.is_batched or is_value_batched:
            return reduction.sum(self.spread(g), axis=(0,))
        return g.tensor

    def spread(self, x: BatchedArray) -> Tensor:
        """Return what an array holds with the hidden axis."""
        if x.is_batched:
            return x.tensor
        expanded = movement.reshape(x.tensor, shape=(1, *x.shape))
        return movement.broadcast_to(expanded, shape=(self.size, *x.shape))

    # --- random numbers --------------------------------------------------------------------------

    def draw(self, words: int, next_state: Callable[[int, Backend], Tensor]) -> Tensor:
        """Return the state for a draw of so many words for each example, or for all.

        Raises:
            TracingError: `randomness` is "error".
        """
        if self.randomness == "error":
            raise TracingError(
                "vmap: the function draws random numbers; say with randomness='different' that each example gets its "
                "own, or with randomness='same' that all get the same"
            )
        if self.randomness == "different":
            with self.outside():
                state = next_state(self.size * padded_words(words), self.outer)
            return Tensor(DrawState(state, is_batched=False), self)
        if self._draws == len(self._drawn):  # else other examples before these have drawn it
            with self.outside():
                self._drawn.append(next_state(words, self.outer))
        state = self._drawn[self._draws]
        self._draws += 1
        return Tensor(BatchedArray(state, is_batched=False), self)

    def host_value(self, function: Callable[[], Any], shape: Shape, dtype: DType) -> Any:
        """Return a host value of the level outside, which all examples share."""
        with self.outside():
            array = self.outer.host_value(function, shape, dtype)
        return BatchedArray(Tensor(array, self.outer), is_batched=False)

    # --- what it shows of the level outside ------------------------------------------------------

    @property
    def kernels(self) -> KernelTables:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The kernels of the target."""
        return self.target.kernels

    def dtypes(self) -> frozenset[DType]:
        """Return the dtypes of the target."""
        return self.target.dtypes()

    def probe(self) -> Probe:
        """Say that it can start."""
        return Probe(ok=True)

    def open(self, device: str) -> Iterable[KernelConfig]:
        """Bring nothing: a tracer is made open."""
        return ()

    def from_numpy(self, array: NDArray[Any]) -> Any:
        """Return an array that all examples share."""
        return BatchedArray(Tensor(store(array, self.outer), self.outer), is_batched=False)

    def to_numpy(self, array: Any) -> NDArray[Any]:
        """Return the values of an array that all examples share.

        Raises:
            TracingError: the examples differ.
        """
        check_finished(self)
        found = self.hold(array)
        if found.is_batched:
            raise TracingError(
                f"vmap: a tensor of shape {found.shape} and dtype {found.dtype} has other values for each of "
                f"{self.size} examples, and `if`, float(), item(), numpy() and printing need those of one; choose with "
                "plugrad.where(condition, a, b) or plugrad.cond(flag, f, g, *args), or return the tensor and look at "
                "it after the call"
            )
        with self.outside():
            return read_array(found.tensor.array, found.tensor.backend)

    def synchronize(self) -> None:
        """Wait for the level outside."""
        self.outer.synchronize()

    def memory(self) -> Memory:
        """Return the memory of the target."""
        return self.target.memory()

    def set_memory_limit(self, limit: int | None) -> None:
        """Limit the memory of the target."""
        self.target.set_memory_limit(limit)

    def close(self) -> None:
        """Do nothing: the target stays open."""


def padded_words(words: int) -> int:
    """Return the words that a draw of so many words takes of its counter."""
    return -(-words // BLOCK_WORDS) * BLOCK_WORDS


def check_finished(backend: Backend) -> None:
    """Raise if a backend is that of a call of `vmap` that has ended.

    Raises:
        TracingError: it is.
    """
    if isinstance(backend, BatchTracer) and backend.functions is FINISHED:
        raise TracingError(
            "vmap: a tensor was kept from a function whose call has ended, and hides the axis of its examples; return "
            "it from that function instead"
        )


class Constants(dict[Any, Any]):
    """The cache of single-value arrays of the level outside, as arrays that all examples share."""

    def __init__(self, outer: Backend) -> None:
        """Start empty: those of the level outside are looked up when they are asked for."""
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


class Finished(dict[str, "Implementation"]):
    """The functions of a tracer whose function has ended."""

    def __missing__(self, kernel_name: str) -> Implementation:
        """Raise.

        Raises:
            TracingError: always.
        """
        raise TracingError(
            f"{kernel_name}: a tensor was kept from a function under vmap whose call has ended, and hides the axis of "
            "its examples; return it from that function instead"
        )


FINISHED: Final = Finished()


class BatchedFunctions(dict[str, "Implementation"]):
    """The functions that the engine calls for a batch: each runs a kernel on the level outside."""

    def __init__(self, tracer: BatchTracer) -> None:
        """Start empty."""
        super().__init__()
        self._tracer = tracer

    def __missing__(self, kernel_name: str) -> Implementation:
        """Return the function that runs a kernel for all examples."""
        tracer = self._tracer
        contract = get_contract(kernel_name)
        if contract is None:
            function = _undeclared(kernel_name, tracer)
        elif not contract.inputs:
            function = _creating(contract, tracer)
        else:
            entry = find_batching(kernel_name)
            rule = None if entry is None else entry.rule
            if rule is None and contract.is_elementwise:
                rule = broadcasting
                if not contract.inputs_vary and len(contract.inputs) <= 2:
                    function = self[kernel_name] = _elementwise(contract, tracer)
                    return function
            function = _by_rule(contract, rule, tracer)
        self[kernel_name] = function
        return function


def _elementwise(contract: Kernel[..., Any], tracer: BatchTracer) -> Implementation:
    """Return the function of an elementwise kernel of one or two inputs: what a program calls most often."""

    def one(x: BatchedArray, **attrs: Any) -> BatchedArray:
        before = tracer.leave()
        try:
            return BatchedArray(contract.call(x.tensor, *([attrs] if attrs else ())), x.is_batched)
        finally:
            tracer.enter(before)

    def two(a: BatchedArray, b: BatchedArray, **attrs: Any) -> BatchedArray:
        x, y = a.tensor, b.tensor
        before = tracer.leave()
        try:
            more = len(a.shape) - len(b.shape)
            if more > 0 and b.is_batched:
                y = with_rank(y, len(a.shape) + 1)
            elif more < 0 and a.is_batched:
                x = with_rank(x, len(b.shape) + 1)
            result = contract.call(x, y, *([attrs] if attrs else ()))
            return BatchedArray(result, a.is_batched or b.is_batched)
        except ShapeError:
            contract.infer_cached((a, b), attrs)  # which names the shapes that the function sees
            raise
        finally:
            tracer.enter(before)

    return one if len(contract.inputs) == 1 else two


def _by_rule(
    contract: Kernel[..., Any], rule: BatchingRule | None, tracer: BatchTracer
) -> Implementation:
    """Return the function of a kernel: its rule, else its body of ops, else a loop."""

    def call(*arrays: Any, **attrs: Any) -> Any:
        held = [x if x is None else tracer.hold(x) for x in arrays]
        flags = tuple([x is not None and (x.is_batched or type(x) is DrawState) for x in held])
        tensors = [x if x is None else x.tensor for x in held]
        before = tracer.leave()
        try:
            if not any(flags):
                return _wrapped(run(contract, tensors, attrs), is_batched=False)
            if contract.dynamic_shape:
                raise _dynamic(contract)
            batch = Batch(contract, tracer.size, flags)
            result = None if rule is None else rule(batch, *tensors, **attrs)
            if result is not None:
                result = _checked_result(result, contract, arrays, attrs, tracer.size)
                return _wrapped(result, is_batched=True)
        except ShapeError:
            contract.infer_cached(arrays, attrs)  # which names the shapes that the function sees
            raise
        finally:
            tracer.enter(before)
        composite = find_composite(contract)
        if composite is not None:
            return composite_implementation(composite, tracer)(*arrays, **attrs)
        before = tracer.leave()
        try:
            return _wrapped(_loop(batch, tensors, attrs), is_batched=True)
        finally:
            tracer.enter(before)

    return call


def _creating(contract: Kernel[..., Any], tracer: BatchTracer) -> Implementation:
    """Return the function of a kernel without inputs, whose result all examples share."""

    def call(_: Backend, **attrs: Any) -> Any:
        before = tracer.leave()
        try:
            return _wrapped(run(contract, (), attrs, tracer.outer), is_batched=False)
        finally:
            tracer.enter(before)

    return call


def _undeclared(kernel_name: str, tracer: BatchTracer) -> Implementation:
    """Return the function of a kernel without a contract, which runs for one example after the other."""

    def call(*arrays: Any, **attrs: Any) -> Any:
        held = [x if x is None else tracer.hold(x) for x in arrays if x is not tracer]
        tensors = [x if x is None else x.tensor for x in held]
        flags = tuple([x is not None and x.is_batched for x in held])
        before = tracer.leave()
        try:
            contract = contract_from_signature(kernel_name, tensors)
            if not any(flags):
                return _wrapped(run(contract, tensors, attrs, tracer.outer), is_batched=False)
            batch = Batch(contract, tracer.size, flags)
            return _wrapped(_loop(batch, tensors, attrs), is_batched=True)
        finally:
            tracer.enter(before)

    return call


def _wrapped(result: Any, *, is_batched: bool) -> Any:
    if isinstance(result, list | tuple):
        return [BatchedArray(x, is_batched) for x in result]
    return BatchedArray(result, is_batched)


def _checked_result(
    result: Any, contract: Kernel[..., Any], arrays: Sequence[Any], attrs: Any, size: int
) -> Any:
    """Return what a rule has returned, which must be what the contract promises, with the hidden axis.

    Raises:
        KernelFailed: it has not.
    """
    promised = contract.infer_cached(arrays, attrs)
    is_one = hasattr(promised, "dtype")
    found = [result] if is_one else result
    specs = [promised] if is_one else promised
    if len(found) == len(specs) and all(
        x.array.shape == (size, *spec.shape) for x, spec in zip(found, specs, strict=True)
    ):
        return result
    if size == 0:  # no rule can tell how no elements are divided
        shaped = [
            movement.reshape(x, shape=(0, *spec.shape))
            for x, spec in zip(found, specs, strict=True)
        ]
        return shaped[0] if is_one else shaped
    shapes = [getattr(x, "shape", x) for x in found]
    raise KernelFailed(
        f"the batching rule of {contract.name} returned shapes {shapes}; for {size} examples they must be "
        f"{[(size, *spec.shape) for spec in specs]}, with the hidden axis first"
    )


def _dynamic(contract: Kernel[..., Any]) -> TracingError:
    """Return the error for a kernel whose shape depends on values."""
    return TracingError(
        f"vmap: the shape of the result of {contract.name} depends on values, so that it may be another one for each "
        "example. Use a mask, as in plugrad.where(condition, x, 0), or call it outside of vmap"
    )


_told: Final[set[str]] = set()
"""The kernels of which a warning has said that they run as a loop."""


def _loop(batch: Batch, tensors: Sequence[Tensor | None], attrs: Any) -> Any:
    """Run a kernel for one example after the other, and stack the results."""
    kernel, size, flags = batch
    if kernel.name not in _told:
        _told.add(kernel.name)
        entry = find_batching(kernel.name)
        reason = f", {entry.because}" if entry is not None and entry.because else ""
        remedy = "" if reason else "; plugrad.extend.register_batching gives it a rule"
        warn(
            f"vmap: {kernel.name} has no batching rule for these inputs{reason}, and runs once for each of {size} "
            f"examples{remedy}"
        )
    if not size:
        return _empty(batch, tensors, attrs)
    columns = [
        movement.unpack(x, axis=0) if flag and x is not None else [x] * size
        for x, flag in zip(tensors, flags, strict=True)
    ]
    rows = [run(kernel, inputs, attrs) for inputs in zip(*columns, strict=True)]
    if isinstance(rows[0], list):
        return [movement.pack(*parts, axis=0) for parts in zip(*rows, strict=True)]
    return movement.pack(*rows, axis=0)


def _empty(batch: Batch, tensors: Sequence[Tensor | None], attrs: Any) -> Any:
    """Return what a kernel returns for no examples."""
    given = [x for x in tensors if x is not None]
    held = [
        None if x is None else BatchedArray(x, flag)
        for x, flag in zip(tensors, batch.is_batched, strict=True)
    ]
    found = batch.kernel.infer_cached(held, batch.kernel.fill_defaults(attrs))
    backend = given[0].backend
    if hasattr(found, "dtype"):
        return zeros((0, *found.shape), dtype=found.dtype, device=backend)
    return [zeros((0, *x.shape), dtype=x.dtype, device=backend) for x in found]
