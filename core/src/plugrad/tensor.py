"""The tensor: an immutable handle on a backend's array. Its operators and methods are calls into ops."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import numpy as np

from plugrad.dtype import DType, DTypeLike, Scalar, as_dtype, string
from plugrad.errors import ArgumentError, DisposedTensor, DTypeError, ShapeError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from plugrad.backend import Backend
    from plugrad.kernel import Shape
    from plugrad.tape import Node

TensorLike: TypeAlias = "Tensor | Scalar | str | NDArray[Any] | np.generic | Sequence[Any]"
Axis: TypeAlias = int | Sequence[int] | None


class Tensor:
    """An immutable n-dimensional array on a backend.

    Make one with `asarray`, `zeros`, `ones`, `arange` and the like, or as the result of an op.

    >>> import plugrad
    >>> x = plugrad.asarray([[1.0, 2.0], [3.0, 4.0]])
    >>> x.shape, x.dtype, x.device
    ((2, 2), plugrad.float32, 'cpu:0')
    >>> (x @ x + 1)[0]
    tensor([ 8., 11.], dtype=float32)
    """

    __slots__ = ("__weakref__", "array", "backend", "node")
    __array_ufunc__ = None  # so that ``ndarray + tensor`` asks the tensor

    array: Any
    backend: Backend
    node: Node | None

    def __init__(self, array: Any, backend: Backend, node: Node | None = None) -> None:
        """Wrap a backend array; `node` is the step of the tape that made it, if it is being differentiated."""
        self.array = array
        self.backend = backend
        self.node = node

    # --- what it is ------------------------------------------------------------------------------

    @property
    def shape(self) -> Shape:
        """The sizes of the axes."""
        return self.array.shape

    @property
    def dtype(self) -> DType:
        """The element type."""
        return as_dtype(self.array.dtype)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.array.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return size_of(self.array.shape)

    @property
    def device(self) -> str:
        """The backend and device where the values are, such as ``"webgpu:0"``."""
        _ = self.array  # raises if the tensor has been disposed
        return f"{self.backend.name}:{self.backend.device}"

    @property
    def T(self) -> Tensor:  # noqa: N802 - the array API's name
        """The transpose of a matrix.

        Raises:
            ShapeError: the tensor has not two axes.
        """
        if self.ndim != 2:
            raise ShapeError(f"T is for two axes, but the shape is {self.shape}; use permute_dims")
        return movement.permute_dims(self, (1, 0))

    @property
    def mT(self) -> Tensor:  # noqa: N802 - the array API's name
        """The transposes of the matrices on the last two axes; see `plugrad.matrix_transpose`."""
        return linalg.matrix_transpose(self)

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        return array_api.namespace(api_version)

    # --- lifetime --------------------------------------------------------------------------------

    @property
    def is_disposed(self) -> bool:
        """Whether `dispose` or a `tidy` block has released the tensor."""
        return self.backend is None  # pyright: ignore[reportUnnecessaryComparison] - dispose clears it

    def dispose(self) -> None:
        """Release the tensor now; using it afterwards raises `DisposedTensor`, disposing it again is harmless."""
        if not self.is_disposed:
            del self.array
            self.backend = self.node = None  # type: ignore[assignment]

    def __getattr__(self, name: str) -> NoReturn:
        # Python comes here when a slot is empty: checking for disposal costs nothing as long as
        # there is an array.
        if name == "array":
            raise DisposedTensor(
                "this tensor has been disposed; return it from its tidy block, or protect it with plugrad.keep"
            )
        raise AttributeError(
            f"a Tensor has no attribute {name!r}{suggestion(name, dir(type(self)))}"
        )

    def __copy__(self) -> Tensor:
        return unary.astype(self, self.dtype)

    def __deepcopy__(self, memo: Any) -> Tensor:  # anything deeper would copy the backend
        return self.__copy__()

    def __reduce__(self) -> Any:
        return partial(creation.asarray, device=self.device), (self.numpy(),)

    # --- values on the host ----------------------------------------------------------------------

    def numpy(self) -> NDArray[Any]:
        """Return the values as a NumPy array that must not be written to; on the CPU it shares the tensor's memory."""
        array = self.array  # raises if the tensor has been disposed
        values = self.backend.to_numpy(array)
        values.flags.writeable = False
        return values

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.numpy(), dtype, copy=copy)

    def __dlpack__(self, **options: Any) -> Any:
        # Not everybody respects that memory must not be written to, so only copy=False shares it.
        values = self.numpy() if options.pop("copy", None) is False else self.numpy().copy()
        return values.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0  # memory of the host

    def item(self) -> Any:
        """Return the value of a tensor with one element as a Python scalar or string.

        Raises:
            ShapeError: the tensor has not exactly one element.
        """
        if self.size != 1:
            raise ShapeError(
                f"item() is for tensors with one element; this one has shape {self.shape}"
            )
        return self.numpy().item()

    def tolist(self) -> Any:
        """Return the values as nested lists of Python scalars or strings."""
        return self.numpy().tolist()

    def __float__(self) -> float:
        return float(self._scalar("float"))

    def __int__(self) -> int:
        return int(self._scalar("int"))

    def __complex__(self) -> complex:
        return complex(self._scalar("complex"))

    def __bool__(self) -> bool:
        return bool(self._scalar("bool"))

    def __index__(self) -> int:
        if not self.dtype.is_integer:
            raise DTypeError(
                f"a {self.dtype} tensor cannot be an index; cast it with astype('int32')"
            )
        return int(self._scalar("index"))

    def _scalar(self, kind: str) -> Any:
        if self.size != 1:
            raise ShapeError(
                f"{kind}() needs a tensor with one element; this one has shape {self.shape}"
            )
        return self.numpy().item()

    def __len__(self) -> int:
        if not self.shape:
            raise ArgumentError("len() of a 0-d tensor; it has no axes")
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        return iter(movement.unstack(self))

    def __repr__(self) -> str:
        if self.is_disposed:
            return "tensor(<disposed>)"
        where = "" if self.backend.name == "cpu" else f", device={self.device!r}"
        values = np.array2string(self.numpy(), separator=", ", prefix="tensor(", threshold=1000)
        if self.size == 0 and self.ndim != 1:
            where = f", shape={self.shape}{where}"
        return f"tensor({values}, dtype={self.dtype}{where})"

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if spec else repr(self)

    __hash__ = object.__hash__

    # --- operators -------------------------------------------------------------------------------

    def __add__(self, other: TensorLike) -> Tensor:
        return binary.add(self, other)

    def __radd__(self, other: TensorLike) -> Tensor:
        return binary.add(other, self)

    def __sub__(self, other: TensorLike) -> Tensor:
        return binary.subtract(self, other)

    def __rsub__(self, other: TensorLike) -> Tensor:
        return binary.subtract(other, self)

    def __mul__(self, other: TensorLike) -> Tensor:
        return binary.multiply(self, other)

    def __rmul__(self, other: TensorLike) -> Tensor:
        return binary.multiply(other, self)

    def __truediv__(self, other: TensorLike) -> Tensor:
        return binary.divide(self, other)

    def __rtruediv__(self, other: TensorLike) -> Tensor:
        return binary.divide(other, self)

    def __floordiv__(self, other: TensorLike) -> Tensor:
        return binary.floor_divide(self, other)

    def __rfloordiv__(self, other: TensorLike) -> Tensor:
        return binary.floor_divide(other, self)

    def __mod__(self, other: TensorLike) -> Tensor:
        return binary.remainder(self, other)

    def __rmod__(self, other: TensorLike) -> Tensor:
        return binary.remainder(other, self)

    def __pow__(self, other: TensorLike) -> Tensor:
        return binary.pow(self, other)

    def __rpow__(self, other: TensorLike) -> Tensor:
        return binary.pow(other, self)

    def __matmul__(self, other: TensorLike) -> Tensor:
        return linalg.matmul(self, other)

    def __rmatmul__(self, other: TensorLike) -> Tensor:
        return linalg.matmul(other, self)

    def __neg__(self) -> Tensor:
        return unary.negative(self)

    def __pos__(self) -> Tensor:
        return self

    def __abs__(self) -> Tensor:
        return unary.abs(self)

    def __invert__(self) -> Tensor:
        return bitwise.bitwise_invert(self)

    def __and__(self, other: TensorLike) -> Tensor:
        return bitwise.bitwise_and(self, other)

    def __or__(self, other: TensorLike) -> Tensor:
        return bitwise.bitwise_or(self, other)

    def __xor__(self, other: TensorLike) -> Tensor:
        return bitwise.bitwise_xor(self, other)

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__

    def __lshift__(self, other: TensorLike) -> Tensor:
        return bitwise.bitwise_left_shift(self, other)

    def __rlshift__(self, other: TensorLike) -> Tensor:
        return bitwise.bitwise_left_shift(other, self)

    def __rshift__(self, other: TensorLike) -> Tensor:
        return bitwise.bitwise_right_shift(self, other)

    def __rrshift__(self, other: TensorLike) -> Tensor:
        return bitwise.bitwise_right_shift(other, self)

    def __eq__(self, other: Any) -> Any:  # a tensor, or Python's answer for what cannot be equal
        if other is None or (type(other) is str and self.dtype is not string):
            return NotImplemented
        return binary.equal(self, other)

    def __ne__(self, other: Any) -> Any:
        if other is None or (type(other) is str and self.dtype is not string):
            return NotImplemented
        return binary.not_equal(self, other)

    def __lt__(self, other: TensorLike) -> Tensor:
        return binary.less(self, other)

    def __le__(self, other: TensorLike) -> Tensor:
        return binary.less_equal(self, other)

    def __gt__(self, other: TensorLike) -> Tensor:
        return binary.greater(self, other)

    def __ge__(self, other: TensorLike) -> Tensor:
        return binary.greater_equal(self, other)

    def __getitem__(self, key: Any) -> Tensor:
        return subscript.index(self, key)

    def __setitem__(self, key: Any, value: Any) -> NoReturn:
        raise ArgumentError(
            "tensors do not change, so x[key] = value is not possible; make a new tensor, as in "
            "plugrad.tensor_scatter_update(x, [[i]], [value]) or plugrad.where(mask, value, x)"
        )

    # --- methods: the few that people expect; everything else is a function ----------------------

    def astype(self, dtype: DTypeLike) -> Tensor:
        """Convert to another dtype; see `plugrad.astype`."""
        return unary.astype(self, dtype)

    def to(self, device: str) -> Tensor:
        """Copy to another backend or device, such as ``"webgpu"`` or ``"cpu"``; see `plugrad.to_device`."""
        return transfer.to_device(self, device)

    def to_device(self, device: str, *, stream: None = None) -> Tensor:
        """Copy to another backend or device: the array API's name of `to`."""
        return transfer.to_device(self, device)

    def reshape(self, *shape: Any) -> Tensor:
        """Return the same values in another shape; see `plugrad.reshape`."""
        return movement.reshape(self, shape[0] if len(shape) == 1 else shape)

    def sum(self, axis: Axis = None, keepdims: bool = False) -> Tensor:
        """Sum over axes; see `plugrad.sum`."""
        return reduction.sum(self, axis=axis, keepdims=keepdims)

    def mean(self, axis: Axis = None, keepdims: bool = False) -> Tensor:
        """Average over axes; see `plugrad.mean`."""
        return reduction.mean(self, axis=axis, keepdims=keepdims)

    def max(self, axis: Axis = None, keepdims: bool = False) -> Tensor:
        """Return the largest values along axes; see `plugrad.max`."""
        return reduction.max(self, axis=axis, keepdims=keepdims)

    def min(self, axis: Axis = None, keepdims: bool = False) -> Tensor:
        """Return the smallest values along axes; see `plugrad.min`."""
        return reduction.min(self, axis=axis, keepdims=keepdims)

    def argmax(self, axis: int | None = None, keepdims: bool = False) -> Tensor:
        """Return the positions of the largest values; see `plugrad.argmax`."""
        return reduction.argmax(self, axis=axis, keepdims=keepdims)

    def square(self) -> Tensor:
        """Return each element multiplied by itself; see `plugrad.square`."""
        return unary.square(self)

    def squared_difference(self, other: TensorLike) -> Tensor:
        """Return ``(self - other)**2``; see `plugrad.squared_difference`."""
        return binary.squared_difference(self, other)


# Operators call ops, and ops make tensors: this is the one cycle of the package, and it is closed
# here.
from plugrad import array_api  # noqa: E402
from plugrad.errors import suggestion  # noqa: E402
from plugrad.ops import (  # noqa: E402
    binary,
    bitwise,
    creation,
    linalg,
    movement,
    reduction,
    subscript,
    transfer,
    unary,
)
from plugrad.shapes import size_of  # noqa: E402
