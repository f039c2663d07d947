"""The tensor: a handle on a backend's array, which never changes. An assignment gives the tensor another array.

Operators and methods that compute call ops of a higher layer; `plugrad.ops.operators` attaches them.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeAlias, TypeVar

import numpy as np

from plugrad.errors import (
    ArgumentError,
    ArgumentValueError,
    DisposedTensor,
    DTypeError,
    GradientLost,
    ShapeError,
    short_repr,
    warn,
)
from plugrad.settings.layers import config
from plugrad.tensor.backend import HOST, dlpack_device_of, export_array, export_values, read_array
from plugrad.tensor.keeping import keep_alive
from plugrad.types.dtype import DType, DTypeLike, Scalar, as_dtype, string
from plugrad.types.shapes import count_elements
from plugrad.types.specs import TensorArray

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from plugrad.tensor.backend import Backend
    from plugrad.tensor.chained import ChainedOps
    from plugrad.types.specs import AxisLike, Shape

    Methods = ChainedOps["Tensor"]
else:
    Methods = object

ResultType = TypeVar("ResultType")
MAX_PRINTED_ELEMENTS = 1000
"""The most elements that are all printed; larger tensors are abbreviated."""
TensorLike: TypeAlias = "Tensor | Scalar | str | NDArray[Any] | np.generic | Sequence[Any]"


class TopK(NamedTuple):
    """The largest elements and their positions."""

    values: Tensor
    indices: Tensor


class UniqueInverse(NamedTuple):
    """The unique elements or slices, and the place of each element or slice among them."""

    values: Tensor
    inverse_indices: Tensor


class Tensor(Methods):
    """An n-dimensional array on a backend.

    Make one with `asarray`, `zeros`, `ones`, `arange` and the like, or as the result of an op.

    >>> import plugrad
    >>> x = plugrad.asarray([[1.0, 2.0], [3.0, 4.0]])
    >>> x.shape, x.dtype, x.device
    ((2, 2), plugrad.float32, 'cpu:0')
    >>> (x @ x + 1)[0]
    tensor([ 8., 11.], dtype=float32)
    >>> x[:, 1] = 0
    >>> x
    tensor([[1., 0.],
            [3., 0.]], dtype=float32)

    An assignment changes one tensor only. No two tensors share memory that can be written to: what was made
    from x before, ``x[:]`` and ``x.reshape(-1)`` included, keeps its values. Gradients flow to the elements
    that stay and to the assigned values. Shape and dtype stay the same; see `plugrad.ops.subscript.assign_elements`.
    """

    __slots__ = ("__weakref__", "array", "backend", "node")
    __array_priority__ = 0.0  # which Dask asks for
    array: Any
    backend: Backend
    node: Any
    """The step of the tape that made the tensor, a `plugrad.tape.nodes.Node`, or None."""

    def __init__(self, array: Any, backend: Backend, node: Any = None) -> None:
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
        return count_elements(self.array.shape)

    @property
    def nbytes(self) -> int:
        """The number of bytes of all elements."""
        return self.size * self.dtype.itemsize

    @property
    def device(self) -> str:
        """The backend and device where the values are, such as ``"webgpu:0"``."""
        _ = self.array  # raises if the tensor has been disposed
        return self.backend.label

    # --- lifetime --------------------------------------------------------------------------------

    @property
    def is_disposed(self) -> bool:
        """Whether `dispose` or a `tidy` block has released the tensor."""
        return self.backend is None  # pyright: ignore[reportUnnecessaryComparison] - dispose clears it

    def dispose(self) -> None:
        """Release the tensor now; using it afterwards raises `DisposedTensor`, disposing it again is harmless."""
        if not self.is_disposed:
            self.__class__ = disposed_class(type(self))  # type: ignore[assignment]
            del self.array
            self.backend = self.node = None  # type: ignore[assignment]

    # --- values on the host ----------------------------------------------------------------------

    def numpy(self) -> NDArray[Any]:
        """Return the values as a read-only NumPy array; on the CPU it shares the tensor's memory.

        Raises:
            GradientLost: the tensor is being differentiated; the array would have no gradient.
        """
        return self._read("numpy()")

    async def numpy_async(self) -> NDArray[Any]:
        """Await the values, as `numpy` returns them; other tasks of the event loop run meanwhile.

        On a backend that computes while the program goes on, a thread waits for the values. Interrupts
        reach the event loop. The values of the other backends are there already.

        >>> import asyncio, plugrad
        >>> asyncio.run((plugrad.asarray([1.0, 2.0]) * 3).numpy_async())
        array([3., 6.], dtype=float32)
        """
        array = self.array  # raises if the tensor has been disposed
        if not self.backend.is_asynchronous:
            return self.numpy()
        self._check_gradient_kept("numpy_async()")
        from asyncio import to_thread  # it takes as long to import as all of plugrad

        # The thread has a tensor of its own, which the program cannot dispose of.
        return await to_thread(Tensor(array, self.backend).numpy)

    if TYPE_CHECKING:
        # NumPy's functions take tensors as they take buffers. For its type stubs, an operator of an array
        # and of what has `__array__` would give an array; it gives a tensor.
        def __buffer__(self, flags: int, /) -> memoryview: ...
    else:

        def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
            copy = config.get("writable_arrays") or None if copy is None else copy
            return np.array(self._read("a conversion to a NumPy array"), dtype, copy=copy)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        is_copied = config.get("writable_arrays") or None
        values = np.array(self._read("a conversion to a NumPy array"), order="C", copy=is_copied)
        if not values.dtype.isbuiltin == 1:
            raise AttributeError(
                f"{self.dtype} tensors do not have '__array_interface__': it is for numbers",
                name="__array_interface__",
                obj=self,
            )
        # Not an address: whoever reads the data then keeps them alive, also when x is assigned to.
        return {
            "version": 3,
            "shape": values.shape,
            "typestr": values.dtype.str,
            "strides": values.strides,
            "data": values.data if is_copied else values.data.toreadonly(),
        }

    @property
    def ctypes(self) -> Any:
        """NumPy's ``ctypes`` of the values in C order, which gives libraries their address.

        The address is valid until the tensor is assigned to, is disposed of or dies. Nobody may write to it.
        """
        packed = np.asarray(values := self._read("ctypes"), order="C")
        if packed is not values or not isinstance(self.array, np.ndarray):
            # The address of a copy says nothing of how long it is needed.
            keep_alive(packed, self)
        return packed.ctypes

    def tobytes(self) -> bytes:
        """Return the bytes of the elements in C order."""
        return self._read("tobytes()").tobytes()

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        self._check_gradient_kept("__dlpack__")
        # Some consumers ignore the read-only flag, so only copy=False shares the memory. The flag exists from
        # version 1.0 on; a consumer of an older one gets a copy, since it could not know.
        is_shared = copy is False and max_version is not None and max_version >= (1, 0)
        own = self.__dlpack_device__()
        wanted = own if dl_device is None else (int(dl_device[0]), int(dl_device[1]))
        if wanted not in (own, HOST):
            raise BufferError(
                f"__dlpack__: dl_device={short_repr(dl_device)} must be {own}, where the tensor is, or {HOST}, the host"
            )
        backend = self.backend
        if wanted == dlpack_device_of(backend) and self.dtype is not string:
            return export_array(
                self.array, backend, copy=not is_shared, stream=stream, max_version=max_version
            )
        if stream is not None:
            raise ArgumentError(
                f"__dlpack__: stream={short_repr(stream)} must be None, because the values are in host memory"
            )
        values = host_values(self) if is_shared else host_values(self).copy()
        return export_values(values, max_version=max_version, dl_device=dl_device)

    def __dlpack_device__(self) -> tuple[int, int]:
        _ = self.array  # raises if the tensor has been disposed
        return dlpack_device_of(self.backend) or HOST

    def item(self) -> Any:
        """Return the value of a tensor with one element as a Python scalar or string.

        Raises:
            ShapeError: the tensor does not have exactly one element.
        """
        if self.size != 1:
            raise ShapeError(
                f"item() is for tensors with one element; this one has shape {self.shape}"
            )
        return self._read_with_debug_warning("item()").item()

    def tolist(self) -> Any:
        """Return the values as nested lists of Python scalars or strings."""
        return self._read("tolist()").tolist()

    def __float__(self) -> float:
        return self._as_python_scalar(float)

    def __int__(self) -> int:
        return self._as_python_scalar(int)

    def __complex__(self) -> complex:
        return self._as_python_scalar(complex)

    def __bool__(self) -> bool:
        return bool(self._single_value("bool"))

    def __index__(self) -> int:
        if not self.dtype.is_integer:
            raise DTypeError(
                f"a {self.dtype} tensor cannot be an index; cast it with astype('int32')"
            )
        return int(self._single_value("index"))

    def _single_value(self, method_name: str) -> Any:
        if self.size != 1:
            raise ShapeError(
                f"{method_name}() needs a tensor with one element; this one has shape {self.shape}"
            )
        return self._read_with_debug_warning(f"{method_name}()").item()

    def _read(self, access: str) -> NDArray[Any]:
        """Return the values, or raise that `access`, such as "numpy()", would lose a gradient while it is recorded."""
        if self.node is not None:
            self._check_gradient_kept(access)
        return read_array(self.array, self.backend)  # raises if the tensor has been disposed

    def _check_gradient_kept(self, access: str) -> None:
        if self.is_being_differentiated():
            raise GradientLost(
                f"{access} of a {self.dtype} tensor of shape {self.shape} that is being differentiated would lose its "
                "gradient; compute with plugrad's ops, or write plugrad.stop_gradient(x).numpy() for constants"
            )

    def _read_with_debug_warning(self, access: str) -> NDArray[Any]:
        """Return the values on the host; with the setting ``debug``, warn that `access` loses the gradient."""
        if self.node is not None and config.get("debug") and self.is_being_differentiated():
            warn(
                f"{access} of a tensor that is being differentiated gives a constant, which has no gradient (the "
                "setting debug is on); plugrad.stop_gradient(x) says that this is meant"
            )
        return host_values(self)

    def is_being_differentiated(self) -> bool:
        """Return whether the tensor is on the tape of a function that is being differentiated.

        >>> import plugrad
        >>> plugrad.grad(lambda x: x * x.is_being_differentiated())(2.0)
        tensor(1., dtype=float32)
        """
        if self.node is not None and self.node.is_being_differentiated():
            return self.dtype.is_inexact
        return isinstance(self.array, TensorArray) and self.array.tensor.is_being_differentiated()

    def _as_python_scalar(self, convert: Callable[[Any], ResultType]) -> ResultType:
        name = getattr(convert, "__name__", "conversion")
        value = self._single_value(name)
        try:
            return convert(value)
        except (TypeError, ValueError, OverflowError) as error:
            raise ArgumentValueError(f"{name}() of a {self.dtype} tensor: {error}") from None

    def __len__(self) -> int:
        if not self.shape:
            raise ArgumentError("len() of a 0-d tensor; it has no axes")
        return self.shape[0]

    def __repr__(self) -> str:
        if self.is_disposed:
            return "tensor(<disposed>)"
        where = "" if self.backend.name == "cpu" else f", device={self.device!r}"
        if self.size > MAX_PRINTED_ELEMENTS or (
            self.size == 0 and self.ndim != 1
        ):  # the values do not tell it
            where = f", shape={self.shape}{where}"
        return f"tensor({self._format_values('tensor(')}, dtype={self.dtype}{where})"

    def _format_values(self, prefix: str) -> str:
        """Format the values as text that follows a prefix; large tensors are abbreviated."""
        return np.array2string(
            self._read_with_debug_warning("printing"),
            separator=", ",
            prefix=prefix,
            threshold=MAX_PRINTED_ELEMENTS,
        )

    def _repr_html_(self) -> str:
        """Return values, shape, dtype and device as HTML, for notebooks."""
        from html import escape  # only notebooks need it

        if self.is_disposed:
            return "<pre>tensor(&lt;disposed&gt;)</pre>"
        facts = f"shape {'×'.join(map(str, self.shape)) or '()'} · {self.dtype} · {self.device}"
        name = getattr(self, "name", "")  # that of a variable
        label = f"{name} · {facts}" if name else facts
        return f"<pre>{escape(self._format_values(''))}</pre><small>{escape(label)}</small>"

    def __format__(self, spec: str) -> str:
        if not spec:
            return repr(self)
        value = self.item()
        try:
            return format(value, spec)
        except (TypeError, ValueError) as error:
            raise ArgumentValueError(f"format of a {self.dtype} tensor: {error}") from None

    if not TYPE_CHECKING:
        __hash__ = object.__hash__

    # --- attached by plugrad.ops.operators ----------------------------------------------------------

    if TYPE_CHECKING:

        def __hash__(self) -> int: ...

        def __add__(self, other: TensorLike) -> Tensor: ...

        def __radd__(self, other: TensorLike) -> Tensor: ...

        def __sub__(self, other: TensorLike) -> Tensor: ...

        def __rsub__(self, other: TensorLike) -> Tensor: ...

        def __mul__(self, other: TensorLike) -> Tensor: ...

        def __rmul__(self, other: TensorLike) -> Tensor: ...

        def __truediv__(self, other: TensorLike) -> Tensor: ...

        def __rtruediv__(self, other: TensorLike) -> Tensor: ...

        def __floordiv__(self, other: TensorLike) -> Tensor: ...

        def __rfloordiv__(self, other: TensorLike) -> Tensor: ...

        def __mod__(self, other: TensorLike) -> Tensor: ...

        def __rmod__(self, other: TensorLike) -> Tensor: ...

        def __pow__(self, other: TensorLike) -> Tensor: ...

        def __rpow__(self, other: TensorLike) -> Tensor: ...

        def __matmul__(self, other: TensorLike) -> Tensor: ...

        def __rmatmul__(self, other: TensorLike) -> Tensor: ...

        def __and__(self, other: TensorLike) -> Tensor: ...

        def __rand__(self, other: TensorLike) -> Tensor: ...

        def __or__(self, other: TensorLike) -> Tensor: ...

        def __ror__(self, other: TensorLike) -> Tensor: ...

        def __xor__(self, other: TensorLike) -> Tensor: ...

        def __rxor__(self, other: TensorLike) -> Tensor: ...

        def __lshift__(self, other: TensorLike) -> Tensor: ...

        def __rlshift__(self, other: TensorLike) -> Tensor: ...

        def __rshift__(self, other: TensorLike) -> Tensor: ...

        def __rrshift__(self, other: TensorLike) -> Tensor: ...

        def __divmod__(self, other: TensorLike) -> tuple[Tensor, Tensor]: ...

        def __rdivmod__(self, other: TensorLike) -> tuple[Tensor, Tensor]: ...

        def __round__(self, digits: int | None = None, /) -> Tensor: ...

        def __neg__(self) -> Tensor: ...

        def __pos__(self) -> Tensor: ...

        def __abs__(self) -> Tensor: ...

        def __invert__(self) -> Tensor: ...

        def __array_namespace__(self, *, api_version: str | None = None) -> Any: ...

        def __copy__(self) -> Tensor: ...

        def __lt__(self, other: TensorLike) -> Tensor: ...

        def __le__(self, other: TensorLike) -> Tensor: ...

        def __gt__(self, other: TensorLike) -> Tensor: ...

        def __ge__(self, other: TensorLike) -> Tensor: ...

        def __eq__(self, other: Any) -> Any: ...

        def __ne__(self, other: Any) -> Any: ...

        def __deepcopy__(self, memo: Any) -> Tensor: ...

        def __getitem__(self, key: Any) -> Tensor: ...

        def __setitem__(self, key: Any, value: TensorLike) -> None: ...

        def __iter__(self) -> Iterator[Tensor]: ...

        @property
        def T(self) -> Tensor: ...

        @property
        def mT(self) -> Tensor: ...

        def astype(self, dtype: DTypeLike) -> Tensor: ...

        def to(self, device: str | Backend) -> Tensor: ...

        def to_device(self, device: str | Backend, *, stream: None = None) -> Tensor: ...

        def reshape(self, *shape: Any) -> Tensor: ...

        def sum(
            self,
            axis: AxisLike = None,
            keepdims: bool = False,
            *,
            dtype: DTypeLike | None = None,
            out: None = None,
        ) -> Tensor: ...

        def mean(
            self,
            axis: AxisLike = None,
            keepdims: bool = False,
            *,
            dtype: DTypeLike | None = None,
            out: None = None,
        ) -> Tensor: ...

        def prod(
            self,
            axis: AxisLike = None,
            keepdims: bool = False,
            *,
            dtype: DTypeLike | None = None,
            out: None = None,
        ) -> Tensor: ...

        def std(
            self,
            axis: AxisLike = None,
            keepdims: bool = False,
            *,
            ddof: float = 0,
            dtype: DTypeLike | None = None,
            out: None = None,
        ) -> Tensor: ...

        def var(
            self,
            axis: AxisLike = None,
            keepdims: bool = False,
            *,
            ddof: float = 0,
            dtype: DTypeLike | None = None,
            out: None = None,
        ) -> Tensor: ...

        def max(
            self, axis: AxisLike = None, keepdims: bool = False, *, out: None = None
        ) -> Tensor: ...

        def min(
            self, axis: AxisLike = None, keepdims: bool = False, *, out: None = None
        ) -> Tensor: ...

        def all(
            self, axis: AxisLike = None, keepdims: bool = False, *, out: None = None
        ) -> Tensor: ...

        def any(
            self, axis: AxisLike = None, keepdims: bool = False, *, out: None = None
        ) -> Tensor: ...

        def argmax(
            self, axis: int | None = None, keepdims: bool = False, *, out: None = None
        ) -> Tensor: ...

        def argmin(
            self, axis: int | None = None, keepdims: bool = False, *, out: None = None
        ) -> Tensor: ...

        def cumsum(
            self, axis: int | None = None, *, dtype: DTypeLike | None = None, out: None = None
        ) -> Tensor: ...

        def cumprod(
            self, axis: int | None = None, *, dtype: DTypeLike | None = None, out: None = None
        ) -> Tensor: ...

        def transpose(self, *axes: Any) -> Tensor: ...

        def top_k(self, k: int = 1, *, sorted: bool = True) -> TopK: ...

        def unique(self, *, axis: int = 0) -> UniqueInverse: ...


def host_values(x: Tensor) -> NDArray[Any]:
    """Return the values for checks, decisions and copies, even while the tensor is being differentiated."""
    return read_array(x.array, x.backend)  # raises if the tensor has been disposed


@cache
def disposed_class(tensor_class: type[Tensor]) -> type[Tensor]:
    """Return the class that a disposed tensor gets; its attributes raise `DisposedTensor`.

    Only that class has a `__getattr__`, which Python calls for the empty slot. In a class that has one,
    the interpreter cannot specialize the access to an attribute, and small programs take a seventh longer.
    """

    def explain(self: Tensor, attribute_name: str) -> NoReturn:
        if attribute_name == "array":
            raise DisposedTensor(
                "this tensor has been disposed; return it from its tidy block, or protect it with plugrad.keep"
            )
        text = f"{tensor_class.__name__!r} object has no attribute {attribute_name!r}"
        raise AttributeError(text, name=attribute_name, obj=self)

    body = {"__module__": tensor_class.__module__, "__slots__": (), "__getattr__": explain}
    return type(tensor_class.__name__, (tensor_class,), body)
