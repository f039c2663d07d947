"""Functions that make tensors, on the active backend or on the one that ``device=`` names."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from plugrad import engine
from plugrad.dtype import DType, DTypeLike, Scalar, as_dtype, float32, int32, scalar_dtype
from plugrad.errors import ArgumentValueError
from plugrad.kernels import creation
from plugrad.ops.arguments import as_tensor, cast, host_array, tensor_from, unsupported
from plugrad.selection import backend_for, preferred
from plugrad.shapes import shape_of
from plugrad.tape import Node, Pulled
from plugrad.tensor import Tensor, TensorLike

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plugrad.backend import Backend


def asarray(x: TensorLike, *, dtype: DTypeLike | None = None, device: str | None = None) -> Tensor:
    """A tensor with the values of numbers, nested lists or arrays, which are copied; a tensor is returned as it is.

    >>> plugrad.asarray([[1, 2], [3, 4]])
    tensor([[1, 2],
            [3, 4]], dtype=int32)
    >>> plugrad.asarray(0.5, dtype="float64")
    tensor(0.5, dtype=float64)

    Python's ints become int32, its floats float32, its complex numbers complex64; NumPy's arrays
    keep their dtype.

    Args:
        x: a tensor, a number, an array, or a nested list of numbers.
        dtype: the dtype of the result.
        device: where it lives, such as "webgpu" or "cpu".

    Raises:
        ArgumentError: `x` is of another kind.
        ArgumentValueError: a whole number does not fit the dtype.
        UnsupportedDtype: the backend has no such dtype.
    """
    wanted = None if dtype is None else as_dtype(dtype)
    if isinstance(x, Tensor):
        home = x if device is None else to_device(x, device)
        return home if wanted is None else cast(home, wanted)
    return tensor_from(host_array(x, "asarray", dtype=wanted), backend_for(device))


def zeros(
    shape: int | Sequence[int], *, dtype: DTypeLike = float32, device: str | None = None
) -> Tensor:
    """A tensor of zeros.

    >>> plugrad.zeros((2, 3))
    tensor([[0., 0., 0.],
            [0., 0., 0.]], dtype=float32)

    Raises:
        ShapeError: a size is negative.
        UnsupportedDtype: the backend has no such dtype.
    """
    return _filled("zeros", shape, 0, as_dtype(dtype), device)


def ones(
    shape: int | Sequence[int], *, dtype: DTypeLike = float32, device: str | None = None
) -> Tensor:
    """A tensor of ones.

    >>> plugrad.ones(3, dtype="int32")
    tensor([1, 1, 1], dtype=int32)

    Raises:
        ShapeError: a size is negative.
        UnsupportedDtype: the backend has no such dtype.
    """
    return _filled("ones", shape, 1, as_dtype(dtype), device)


def full(
    shape: int | Sequence[int],
    fill_value: Scalar,
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
) -> Tensor:
    """A tensor with one value everywhere.

    >>> plugrad.full((2,), 7)
    tensor([7, 7], dtype=int32)

    Raises:
        ShapeError: a size is negative.
        UnsupportedDtype: the backend has no such dtype.
    """
    return _filled(
        "full",
        shape,
        fill_value,
        scalar_dtype(fill_value) if dtype is None else as_dtype(dtype),
        device,
    )


def zeros_like(x: TensorLike) -> Tensor:
    """A tensor of zeros in the shape and dtype of x, where x lives.

    >>> plugrad.zeros_like([1.0, 2.0])
    tensor([0., 0.], dtype=float32)
    """
    return creation.zeros_like(as_tensor(x, "zeros_like"))


def ones_like(x: TensorLike) -> Tensor:
    """A tensor of ones in the shape and dtype of x, where x lives.

    >>> plugrad.ones_like([1.0, 2.0])
    tensor([1., 1.], dtype=float32)
    """
    return creation.ones_like(as_tensor(x, "ones_like"))


def arange(
    start: float,
    stop: float | None = None,
    step: float = 1,
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
) -> Tensor:
    """The numbers start, start + step, … without stop; one argument is the stop.

    >>> plugrad.arange(4)
    tensor([0, 1, 2, 3], dtype=int32)
    >>> plugrad.arange(1.0, 2.0, 0.25)
    tensor([1.  , 1.25, 1.5 , 1.75], dtype=float32)

    Whole arguments give int32, others float32.

    Raises:
        ArgumentValueError: `step` is 0, or an argument is not finite.
        UnsupportedDtype: the backend has no such dtype.
    """
    start, stop = (0, start) if stop is None else (start, stop)
    if step == 0 or not all(map(math.isfinite, (start, stop, step))):
        raise ArgumentValueError(
            f"arange: start={start}, stop={stop}, step={step} must be finite, and step not 0"
        )
    default = int32 if all(isinstance(n, int) for n in (start, stop, step)) else float32
    return _created(
        creation.range, device, as_dtype(dtype or default), start=start, stop=stop, step=step
    )


def linspace(
    start: float, stop: float, num: int, *, dtype: DTypeLike = float32, device: str | None = None
) -> Tensor:
    """`num` numbers from start to stop, both included, at equal distances.

    >>> plugrad.linspace(0, 1, 5)
    tensor([0.  , 0.25, 0.5 , 0.75, 1.  ], dtype=float32)

    Raises:
        ArgumentValueError: `num` is negative.
        UnsupportedDtype: the backend has no such dtype.
    """
    return _created(
        creation.linspace, device, as_dtype(dtype), start=float(start), stop=float(stop), num=num
    )


def eye(
    rows: int, columns: int | None = None, *, dtype: DTypeLike = float32, device: str | None = None
) -> Tensor:
    """A matrix with ones on the diagonal and zeros elsewhere.

    >>> plugrad.eye(2, 3)
    tensor([[1., 0., 0.],
            [0., 1., 0.]], dtype=float32)

    Raises:
        ShapeError: a size is negative.
    """
    (height, width) = shape_of((rows, rows if columns is None else columns))
    from plugrad.ops.indexing import one_hot

    return one_hot(arange(height, device=device), width, dtype=dtype)


def to_device(x: TensorLike, device: str) -> Tensor:
    """A copy on another backend or device; x itself if it lives there. Gradients come back the other way.

    >>> plugrad.to_device([1.0], "cpu").device
    'cpu:0'

    Raises:
        BackendNotFound, BackendUnavailable: naming the reason and the remedy.
        UnsupportedDtype: the backend has no such dtype.
    """
    return moved(as_tensor(x, "to_device"), preferred(device, "to_device"))


def moved(x: Tensor, backend: Backend) -> Tensor:
    """Return a copy of x on `backend`, or x itself if it lives there."""
    if x.backend is backend:
        return x
    if x.dtype not in backend.dtypes():
        raise unsupported(x.dtype, backend)
    y = tensor_from(x.backend.to_numpy(x.array), backend)
    if x.node is not None:
        y.node = _Moved((x.node,), x.backend)
    return y


class _Moved(Node):
    """A copy to another backend: its gradient is copied back."""

    __slots__ = ("origin",)

    def __init__(self, parents: tuple[Node | None, ...], origin: Backend) -> None:
        """Remember where the tensor came from."""
        super().__init__(parents)
        self.origin = origin

    def pull(self, dy: Tensor, wanted: Sequence[bool] | None, linked: bool) -> Pulled:
        """Copy the gradient back."""
        return [(0, moved(dy, self.origin))]


def _filled(
    op: str, shape: int | Sequence[int], value: Scalar, dtype: DType, device: str | None
) -> Tensor:
    host_array(value, op, "fill_value", dtype)  # raises if a whole number does not fit
    return _created(creation.fill, device, dtype, shape=shape_of(shape), value=value)


def _created(kernel: Any, device: str | None, dtype: DType, **attrs: Any) -> Tensor:
    backend = backend_for(device)
    if dtype not in backend.dtypes():
        raise unsupported(dtype, backend)
    return engine.create(kernel, backend, {**attrs, "dtype": dtype})
