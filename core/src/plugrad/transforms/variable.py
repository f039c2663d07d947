"""Variables: tensors whose value can be replaced, such as the weights that an optimizer trains."""

from __future__ import annotations

from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any

from plugrad.errors import DTypeError, ShapeError
from plugrad.ops import creation
from plugrad.ops.attributes import flag
from plugrad.tensor.tensor import Tensor, TensorLike

if TYPE_CHECKING:
    from plugrad.tape.nodes import Leaf, Node


class Variable(Tensor):
    """A tensor whose value can be replaced, such as a weight that an optimizer trains.

    >>> import plugrad
    >>> w = plugrad.Variable([1.0, 2.0], name="w")
    >>> w.assign(w * 2)
    >>> w
    Variable([2., 4.], dtype=float32, name='w')

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
        self.name = name
        self.trainable = flag(trainable, "Variable", "trainable")
        self.array = value.array
        self.backend = value.backend

    @property
    def node(self) -> Node | None:
        """The leaf that stands for this variable while `variable_grads` differentiates."""
        leaves = watched.get()
        return None if leaves is None else leaves.get(self)

    @node.setter
    def node(self, value: None) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Do nothing: there is nothing to clear when the variable is disposed."""

    def assign(self, value: TensorLike) -> None:
        """Replace the value; the shape, dtype and device stay the same.

        Raises:
            ShapeError: the new value has another shape.
            DTypeError: the new value is a tensor of another dtype.
            ArgumentValueError: a number of the new value does not fit the dtype.
        """
        new = creation.asarray(
            value, dtype=None if isinstance(value, Tensor) else self.dtype, device=self.backend
        )
        if new.shape != self.shape:
            raise ShapeError(
                f"assign: variable {self.name!r} has shape {self.shape}, the new value "
                f"{new.shape}; create a new variable instead"
            )
        if new.array.dtype != self.array.dtype:
            raise DTypeError(
                f"assign: variable {self.name!r} has dtype {self.dtype}, the new value {new.dtype}; cast it with astype"
            )
        self.array = new.array
        if (leaves := watched.get()) is not None:
            # From here on, the variable no longer holds the value that is being differentiated.
            leaves.pop(self, None)

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


watched: ContextVar[dict[Variable, Leaf] | None] = ContextVar(
    "plugrad_watched_variables", default=None
)
"""The leaves that stand for variables while `variable_grads` differentiates."""
