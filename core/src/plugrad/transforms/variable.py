"""Variables: tensors whose value can be replaced, such as the weights that an optimizer trains."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

from plugrad.engine.transfer import copy_to_backend
from plugrad.errors import ArgumentError, DTypeError, ShapeError
from plugrad.interruptions import run_uninterrupted
from plugrad.ops import creation, subscript
from plugrad.ops.attributes import check_flag
from plugrad.ops.operators import ARITHMETIC_OPERATORS
from plugrad.tensor.context import current_context
from plugrad.tensor.tensor import Tensor, TensorLike
from plugrad.tensor.tracer import Tracer, current_tracer

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
    from typing import Self

    from plugrad.tape.nodes import Leaf, Node
    from plugrad.tensor.backend import Backend
    from plugrad.tensor.effects import HostLog


# The slots of the tensor that a variable is, whatever is being traced.
_ARRAY_SLOT: Final[Any] = Tensor.array
"""The descriptor of the slot of `Tensor` that holds the backend's array."""
_BACKEND_SLOT: Final[Any] = Tensor.backend
"""The descriptor of the slot of `Tensor` that holds the backend."""
get_array: Final[Callable[[Tensor], Any]] = _ARRAY_SLOT.__get__
"""A function that returns a variable's backend array, whatever is being traced."""
set_array: Final[Callable[[Tensor, Any], None]] = _ARRAY_SLOT.__set__
"""A function that sets a variable's backend array, whatever is being traced."""
delete_array: Final[Callable[[Tensor], None]] = _ARRAY_SLOT.__delete__
"""A function that empties the slot of a variable's backend array."""
get_backend: Final[Callable[[Tensor], Backend]] = _BACKEND_SLOT.__get__
"""A function that returns a variable's backend, whatever is being traced."""
set_backend: Final[Callable[[Tensor, Backend], None]] = _BACKEND_SLOT.__set__
"""A function that sets a variable's backend, whatever is being traced."""


class Variable(Tensor):
    """A tensor whose value can be replaced, such as a weight that an optimizer trains.

    >>> import plugrad
    >>> w = plugrad.Variable([1.0, 2.0], name="w")
    >>> w.assign(w * 2)
    >>> w += 1  # also x[key] = value, and the other operators of this form
    >>> w
    Variable([3., 5.], dtype=float32, name='w')

    Args:
        initial: the first value, a tensor or anything else that `asarray` accepts.
        trainable: whether `variable_grads` and the optimizers' `minimize` differentiate with respect to
            the variable; they treat others as constants. It may be changed at any time.
        name: a name for messages and for saved weights.

    Raises:
        ArgumentError: `initial` is nothing that `asarray` accepts, or `trainable` is not a bool.
    """

    __slots__ = ("name", "trainable")

    def __init__(self, initial: TensorLike, *, trainable: bool = True, name: str = "") -> None:
        """Create a variable on the backend of its initial value."""
        value = creation.asarray(initial)
        if isinstance(value.backend, Tracer):
            value = value.backend.initial_value(self, value)
        self.name: str = name
        self.trainable: bool = check_flag(trainable, "Variable", "trainable")
        set_array(self, value.array)
        set_backend(self, value.backend)

    # While a function is traced, its tracer says what a variable holds, so that no value is recorded as a constant.
    @property
    def array(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The backend's array with the value."""
        context = current_context()
        if context is None or context.transfer_target is None:
            return get_array(self)  # no function is traced; optimizers ask for many arrays
        tracer = current_tracer()
        return get_array(self) if tracer is None else tracer.read_variable(self)

    @array.setter
    def array(self, value: Any) -> None:
        tracer = current_tracer()
        if tracer is None:
            set_array(self, value)
        else:
            tracer.assign_variable(self, value)

    @array.deleter
    def array(self) -> None:
        delete_array(self)

    @property
    def backend(self) -> Backend:
        """The backend on which the value is."""
        context = current_context()
        if context is None or context.transfer_target is None:
            return get_backend(self)
        return current_tracer() or get_backend(self)

    @backend.setter
    def backend(self, value: Backend) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        set_backend(self, value)

    @property
    def node(self) -> Node | None:
        """The variable's leaf on the tape while `variable_grads` differentiates; otherwise None."""
        leaves = watched_variables.get()
        return None if leaves is None else leaves.get(self)

    @node.setter
    def node(self, value: None) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Ignore the new value; a disposed variable has no node to clear."""

    def assign(self, value: TensorLike) -> None:
        """Replace the value; the shape, dtype and device stay the same.

        Raises:
            ShapeError: the new value has another shape.
            DTypeError: the new value is a tensor of another dtype.
            ArgumentValueError: a number of the new value does not fit the dtype.
        """
        array = self._convert_value(value)
        keep_first_arrays([self])
        self.array = array
        _mark_as_replaced([self])

    def _convert_value(self, value: TensorLike) -> Any:
        """Convert a value to the array that the variable will hold after an assignment."""
        backend = self.backend
        if not isinstance(value, Tensor):
            value = creation.asarray(value, dtype=self.dtype, device=backend)
        new = value if value.backend is backend else copy_to_backend(value, backend)
        array, held = new.array, self.array
        if array.shape != held.shape:
            raise ShapeError(
                f"assign: variable {self.name!r} has shape {self.shape}, the new value "
                f"{new.shape}; create a new variable instead"
            )
        if array.dtype is not held.dtype and array.dtype != held.dtype:
            raise DTypeError(
                f"assign: variable {self.name!r} has dtype {self.dtype}, the new value {new.dtype}; cast it with astype"
            )
        return array

    def __setitem__(self, key: Any, value: TensorLike) -> None:
        """Replace elements; see `plugrad.Tensor`."""
        self._check_not_differentiated("x[key] = value")
        self.assign(subscript.with_assigned_elements(self, key, value))

    def _check_not_differentiated(self, attempted_change: str) -> None:
        """Raise if the variable is being differentiated, because an assignment would lose its gradient.

        Raises:
            ArgumentError: the variable is being differentiated.
        """
        if self.node is not None:
            raise ArgumentError(
                f"{attempted_change} cannot change variable {self.name!r} while it is being differentiated; change a "
                "tensor with its value instead, as in x = +variable, or assign after the gradient has been computed"
            )

    if TYPE_CHECKING:

        def __iadd__(self, other: TensorLike) -> Self: ...

        def __isub__(self, other: TensorLike) -> Self: ...

        def __imul__(self, other: TensorLike) -> Self: ...

        def __itruediv__(self, other: TensorLike) -> Self: ...

        def __ifloordiv__(self, other: TensorLike) -> Self: ...

        def __imod__(self, other: TensorLike) -> Self: ...

        def __ipow__(self, other: TensorLike) -> Self: ...

        def __imatmul__(self, other: TensorLike) -> Self: ...

        def __iand__(self, other: TensorLike) -> Self: ...

        def __ior__(self, other: TensorLike) -> Self: ...

        def __ixor__(self, other: TensorLike) -> Self: ...

        def __ilshift__(self, other: TensorLike) -> Self: ...

        def __irshift__(self, other: TensorLike) -> Self: ...

    def __copy__(self) -> Variable:
        return Variable(self, trainable=self.trainable, name=self.name)

    def __deepcopy__(self, memo: Any) -> Variable:
        return self.__copy__()

    def __reduce__(self) -> Any:
        value = Tensor(self.array, self.backend)
        return partial(Variable, trainable=self.trainable, name=self.name), (value,)

    def __repr__(self) -> str:
        inner = super().__repr__().removeprefix("tensor")
        return f"Variable{inner[:-1]}, name={self.name!r})"


def _make_in_place_operator(name: str) -> Callable[..., Variable]:
    """Return an operator that assigns its result to the variable on the left."""

    def operator(self: Variable, other: TensorLike) -> Variable:
        self._check_not_differentiated(f"an operator such as __i{name}__")  # pyright: ignore[reportPrivateUsage] - it becomes a method
        self.assign(getattr(Tensor, f"__{name}__")(self, other))
        return self

    return operator


for _name in ARITHMETIC_OPERATORS:
    setattr(Variable, f"__i{_name}__", _make_in_place_operator(_name))


def assign_all(variables: Sequence[Variable], values: Sequence[Tensor], host_log: HostLog) -> None:
    """Assign values to variables, and commit the log of host functions, all together or not at all.

    A traced program does so at its end, with all that it assigns.

    Raises:
        ShapeError, DTypeError: as for `Variable.assign`.
    """
    arrays = [*map(Variable._convert_value, variables, values)]  # pyright: ignore[reportPrivateUsage] - of this module
    keep_first_arrays(variables)
    tracer = current_tracer()
    if tracer is None:
        replace_arrays(variables, arrays, host_log)
    else:
        for variable, array in zip(variables, arrays, strict=True):
            tracer.assign_variable(variable, array)
    _mark_as_replaced(variables)


def _mark_as_replaced(variables: Iterable[Variable]) -> None:
    """Record that variables no longer hold the differentiated values."""
    if (leaves := watched_variables.get()) is not None:
        for variable in variables:
            leaves.pop(variable, None)


def keep_first_arrays(variables: Iterable[Variable]) -> None:
    """Note the arrays of variables that are about to be replaced, for functions that have seen them and run again."""
    if not _first_arrays:
        return
    tracer = current_tracer()
    for reference in _first_arrays.valuerefs():
        first = reference()
        if first is not None and first.tracer is tracer:
            for variable in variables:
                first.arrays.setdefault(variable, variable.array)


@contextmanager
def use_arrays(arrays: Mapping[Variable, Any]) -> Generator[None, None, None]:
    """Let variables hold the given arrays within a block, and then again what they hold now."""
    before = {variable: variable.array for variable in arrays}
    keep_first_arrays(before)
    try:
        for variable, array in arrays.items():
            variable.array = array
        yield
    finally:
        keep_first_arrays(before)
        for variable, array in before.items():
            variable.array = array


def replace_arrays(
    variables: Sequence[Variable], arrays: Sequence[Any], host_log: HostLog | None
) -> None:
    """Replace the arrays of variables, and commit the log of host functions, all together or not at all.

    The old arrays are kept until then, because to release one may run code of its backend.
    """
    old = [*map(get_array, variables)]
    changes = map(set_array, variables, arrays)
    if host_log is None:
        run_uninterrupted(changes)
    else:
        host_log.commit(changes, partial(run_uninterrupted, map(set_array, variables, old)))
    del old


watched_variables: ContextVar[dict[Variable, Leaf] | None] = ContextVar(
    "plugrad_watched_variables", default=None
)
"""The leaf of the tape for each variable that `variable_grads` is differentiating."""


class FirstArrays:
    """What variables held when a function ran first that runs again for its gradient; see `plugrad.checkpoint`."""

    __slots__ = ("__weakref__", "arrays", "tracer")

    def __init__(self) -> None:
        """Begin before the first run."""
        self.arrays: dict[Variable, Any] = {}
        """The first arrays of the variables that have been assigned to since."""
        self.tracer = current_tracer()
        """The tracer of the program to which the arrays belong."""
        _first_arrays[id(self)] = self


_first_arrays: Final[WeakValueDictionary[int, FirstArrays]] = WeakValueDictionary()
"""By identity: those of all functions whose gradients may still be computed."""
