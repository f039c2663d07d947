"""Functions that make tensors, on the active backend or on the one that ``device=`` names."""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np

from plugrad.discovery.selection import backend_for
from plugrad.engine.results import tensor_from
from plugrad.errors import ArgumentError, ArgumentValueError, DTypeError, ShapeError
from plugrad.kernels import creation, unary
from plugrad.ops.arguments import as_tensor, cast, coerced, host_array
from plugrad.ops.attributes import finite, flag, whole
from plugrad.ops.transfer import to_device
from plugrad.tensor.backend import unsupported
from plugrad.tensor.tensor import Tensor, TensorLike
from plugrad.types.dtype import (
    NUMERIC,
    DType,
    DTypeLike,
    Scalar,
    as_dtype,
    complex64,
    float32,
    int32,
)
from plugrad.types.shapes import shape_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plugrad.contract.kernel import Kernel
    from plugrad.discovery.selection import DeviceLike
    from plugrad.tensor.backend import Backend


def asarray(
    obj: TensorLike,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    copy: bool | None = None,
) -> Tensor:
    """A tensor with the values of numbers, nested lists or arrays, which are copied; a tensor is returned as it is.

    >>> plugrad.asarray([[1, 2], [3, 4]])
    tensor([[1, 2],
            [3, 4]], dtype=int32)
    >>> plugrad.asarray(0.5, dtype="float64")
    tensor(0.5, dtype=float64)
    >>> plugrad.asarray(["one", "two"])
    tensor(['one', 'two'], dtype=string)

    Python's ints become int32, its floats float32, its complex numbers complex64; NumPy's arrays
    keep their dtype. Strings are Unicode text, and bytes are read as UTF-8; they stay on the host,
    whatever the device.

    Args:
        obj: a tensor, a number, a string, an array, or a nested list of numbers or of strings.
        dtype: the dtype of the result.
        device: where it lives, such as "webgpu" or "cpu".
        copy: True returns another tensor than obj, which is disposed of on its own; False raises
            where only a copy would do; None copies what must be copied.

    Raises:
        ArgumentError: `obj` is of another kind.
        ArgumentValueError: a whole number does not fit the dtype, bytes are not UTF-8, or `copy`
            forbids what is needed.
        UnsupportedDtype: the backend has no such dtype.
    """
    wanted = None if dtype is None else as_dtype(dtype)
    is_copied = None if copy is None else flag(copy, "asarray", "copy")
    if isinstance(obj, Tensor):
        home = obj if device is None else to_device(obj, device)
        y = home if wanted is None else cast(home, wanted)
        if y is obj:
            return unary.identity(obj) if is_copied else obj
        if is_copied is not False:
            return y
    if is_copied is False:
        raise ArgumentValueError(
            "asarray: copy=False, but another dtype, another device and values that are not a tensor "
            "need a copy; leave copy out"
        )
    return tensor_from(host_array(obj, "asarray", "obj", wanted), backend_for(device))


def from_dlpack(x: Any, *, device: DeviceLike | None = None, copy: bool | None = None) -> Tensor:
    """A tensor with the values of another library's array, read through DLPack and copied.

    >>> plugrad.from_dlpack(np.asarray([1.0, 2.0]))
    tensor([1., 2.], dtype=float64)

    Args:
        x: an object with ``__dlpack__``, whose values are in host memory; a tensor is returned as it
            is.
        device: where the tensor lives; by default on the active backend.
        copy: as in `asarray`.

    Raises:
        ArgumentError: `x` has no ``__dlpack__``, or its values are on a device or of a dtype that
            NumPy cannot read.
        ArgumentValueError: `copy` is False.
        UnsupportedDtype: the backend has no such dtype.
    """
    if isinstance(x, Tensor):
        return asarray(x, device=device, copy=copy)
    try:
        values = np.from_dlpack(x)
    except (AttributeError, TypeError, BufferError, RuntimeError) as error:
        raise ArgumentError(
            f"from_dlpack: {type(x).__name__} cannot be read through DLPack: {error}; it must be an "
            "array in host memory"
        ) from error
    return asarray(values, device=device, copy=copy)


def empty(
    shape: int | Sequence[int], *, dtype: DTypeLike | None = None, device: DeviceLike | None = None
) -> Tensor:
    """A tensor whose values do not matter: zeros, since nobody can write to it later.

    >>> plugrad.empty((2, 3)).shape
    (2, 3)

    Raises:
        ShapeError: a size is negative.
        UnsupportedDtype: the backend has no such dtype.
    """
    return _filled("empty", shape, 0, _dtype(dtype), backend_for(device))


def empty_like(
    x: TensorLike, *, dtype: DTypeLike | None = None, device: DeviceLike | None = None
) -> Tensor:
    """A tensor in the shape of x whose values do not matter; see `empty`.

    >>> plugrad.empty_like([1, 2]).dtype
    plugrad.int32

    Raises:
        UnsupportedDtype: the backend has no such dtype.
    """
    return _like("empty_like", creation.zeros_like, x, 0, dtype, device)


def zeros(
    shape: int | Sequence[int], *, dtype: DTypeLike | None = None, device: DeviceLike | None = None
) -> Tensor:
    """A tensor of zeros.

    >>> plugrad.zeros((2, 3))
    tensor([[0., 0., 0.],
            [0., 0., 0.]], dtype=float32)

    Raises:
        ShapeError: a size is negative.
        UnsupportedDtype: the backend has no such dtype.
    """
    return _filled("zeros", shape, 0, _dtype(dtype), backend_for(device))


def ones(
    shape: int | Sequence[int], *, dtype: DTypeLike | None = None, device: DeviceLike | None = None
) -> Tensor:
    """A tensor of ones.

    >>> plugrad.ones(3, dtype="int32")
    tensor([1, 1, 1], dtype=int32)

    Raises:
        ShapeError: a size is negative.
        UnsupportedDtype: the backend has no such dtype.
    """
    return _filled("ones", shape, 1, _dtype(dtype), backend_for(device))


def full(
    shape: int | Sequence[int],
    fill_value: Scalar | str,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
) -> Tensor:
    """A tensor with one value everywhere.

    >>> plugrad.full((2,), 7)
    tensor([7, 7], dtype=int32)

    Raises:
        ShapeError: a size is negative.
        ArgumentError: the value does not fit the dtype: one of them is a string and the other not.
        UnsupportedDtype: the backend has no such dtype.
    """
    wanted = _dtype(dtype, as_dtype(host_array(fill_value, "full", "fill_value").dtype))
    return _filled("full", shape, fill_value, wanted, backend_for(device))


def zeros_like(
    x: TensorLike, *, dtype: DTypeLike | None = None, device: DeviceLike | None = None
) -> Tensor:
    """A tensor of zeros in the shape of x; in its dtype and where it lives, unless told otherwise.

    >>> plugrad.zeros_like([1.0, 2.0])
    tensor([0., 0.], dtype=float32)

    Raises:
        UnsupportedDtype: the backend has no such dtype.
    """
    return _like("zeros_like", creation.zeros_like, x, 0, dtype, device)


def ones_like(
    x: TensorLike, *, dtype: DTypeLike | None = None, device: DeviceLike | None = None
) -> Tensor:
    """A tensor of ones in the shape of x; in its dtype and where it lives, unless told otherwise.

    >>> plugrad.ones_like([1.0, 2.0])
    tensor([1., 1.], dtype=float32)

    Raises:
        UnsupportedDtype: the backend has no such dtype.
    """
    return _like("ones_like", creation.ones_like, x, 1, dtype, device)


def full_like(
    x: TensorLike,
    fill_value: Scalar | str,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
) -> Tensor:
    """A tensor of one value in the shape of x; in its dtype and where it lives, unless told otherwise.

    >>> plugrad.full_like([1.0, 2.0], 7)
    tensor([7., 7.], dtype=float32)

    Raises:
        ArgumentError: the value does not fit the dtype: one of them is a string and the other not.
        ArgumentValueError: a whole number does not fit the dtype.
        UnsupportedDtype: the backend has no such dtype.
    """
    return _like("full_like", None, x, fill_value, dtype, device)


def arange(
    start: float,
    stop: float | None = None,
    step: float = 1,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
) -> Tensor:
    """The numbers start, start + step, … without stop; one argument is the stop.

    >>> plugrad.arange(4)
    tensor([0, 1, 2, 3], dtype=int32)
    >>> plugrad.arange(1.0, 2.0, 0.25)
    tensor([1.  , 1.25, 1.5 , 1.75], dtype=float32)

    Whole arguments give int32, others float32.

    Raises:
        ArgumentValueError: `step` is 0, an argument is not finite, or whole numbers do not fit the
            dtype.
        UnsupportedDtype: the backend has no such dtype.
    """
    start, stop = (0, start) if stop is None else (start, stop)
    given = {"start": start, "stop": stop, "step": step}
    start, stop, step = (_end(value, name) for name, value in given.items())
    if step == 0:
        raise ArgumentValueError("arange: step=0 never arrives; it must not be 0")
    default = int32 if all(isinstance(n, int) for n in (start, stop, step)) else float32
    wanted = _dtype(dtype, default)
    if wanted not in NUMERIC:
        raise DTypeError(f"arange: dtype={wanted} does not hold numbers; take int32 or float32")
    if wanted.is_inexact:
        start, stop, step = float(start), float(stop), float(step)
    elif default is int32:
        numbers = range(start, stop, step)  # type: ignore[arg-type]
        host_array(
            [*numbers[:1], *numbers[-1:]], "arange", "a number", wanted
        )  # raises if one does not fit
        if len(numbers) < 2:  # then stop and step need not fit
            start = numbers[0] if numbers else 0
            stop, step = start + len(numbers), 1
    return _created(creation.range, backend_for(device), wanted, start=start, stop=stop, step=step)


def _end(value: float, name: str) -> float:
    """Return an argument of `arange`; a whole number stays one."""
    number = finite(value, "arange", name)
    return index(value) if isinstance(value, int | np.integer) else number


def linspace(
    start: complex,
    stop: complex,
    num: int,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    endpoint: bool = True,
) -> Tensor:
    """`num` numbers from start to stop at equal distances; without `endpoint`, stop is the one that would come next.

    >>> plugrad.linspace(0, 1, 5)
    tensor([0.  , 0.25, 0.5 , 0.75, 1.  ], dtype=float32)
    >>> plugrad.linspace(0, 1, 4, endpoint=False)
    tensor([0.  , 0.25, 0.5 , 0.75], dtype=float32)

    The default dtype is float32, for complex numbers complex64.

    Raises:
        ArgumentValueError: `num` is negative.
        DTypeError: the dtype holds whole numbers, or real ones where complex ones are given.
        UnsupportedDtype: the backend has no such dtype.
    """
    is_complex = isinstance(start, complex) or isinstance(stop, complex)
    wanted = _dtype(dtype, complex64 if is_complex else float32)
    if not wanted.is_inexact or (is_complex and wanted.kind != "complex"):
        raise DTypeError(
            f"linspace: dtype={wanted} cannot hold the numbers between {start} and {stop}; ask for "
            f"{'complex64' if is_complex else 'float32'}"
        )
    first, last = (
        value if isinstance(value, complex) else finite(value, "linspace", name)
        for name, value in (("start", start), ("stop", stop))
    )
    if is_complex:
        first, last = complex(first), complex(last)
    count = whole(num, "linspace", "num", least=0)
    if not flag(endpoint, "linspace", "endpoint") and count > 0:
        last = first + (last - first) * ((count - 1) / count)
    return _created(
        creation.linspace, backend_for(device), wanted, start=first, stop=last, num=count
    )


def eye(
    n_rows: int,
    n_cols: int | None = None,
    *,
    k: int = 0,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
) -> Tensor:
    """A matrix with ones on the k-th diagonal and zeros elsewhere.

    >>> plugrad.eye(2, 3, k=1)
    tensor([[0., 1., 0.],
            [0., 0., 1.]], dtype=float32)

    Diagonal 0 is the main one, positive ones lie above it, negative ones below.

    Raises:
        ShapeError: a size is negative.
        UnsupportedDtype: the backend has no such dtype.
    """
    from plugrad.ops.indexing import one_hot

    (height, width) = shape_of((n_rows, n_rows if n_cols is None else n_cols), name="eye: shape")
    k = max(-height, min(whole(k, "eye", "k"), width))  # further away there is no diagonal
    wanted, backend = _dtype(dtype), backend_for(device)
    if wanted not in backend.dtypes():
        raise unsupported(wanted, backend)
    return one_hot(arange(k, k + height, device=device), width, dtype=wanted)


def _dtype(given: DTypeLike | None, default: DType = float32) -> DType:
    return default if given is None else as_dtype(given)


def _like(
    op: str,
    kernel: Kernel[..., Tensor] | None,
    x: TensorLike,
    value: Scalar | str,
    dtype: DTypeLike | None,
    device: DeviceLike | None,
) -> Tensor:
    """Return `value` in the shape of x: by a kernel of x if nothing else changes, else as a new tensor."""
    x = as_tensor(x, op)
    wanted = _dtype(dtype, x.dtype)
    backend = x.backend if device is None else backend_for(device)
    if kernel and wanted is x.dtype and backend is x.backend:
        return kernel(coerced(x, kernel, op))
    return _filled(op, x.shape, value, wanted, backend)


def _filled(
    op: str, shape: int | Sequence[int], value: Scalar | str, dtype: DType, backend: Backend
) -> Tensor:
    fill = host_array(value, op, "fill_value", dtype)  # raises if the value does not fit
    if fill.ndim:
        raise ShapeError(f"{op}: fill_value={value!r} must be one number or one string")
    sizes = shape_of(shape, name=f"{op}: shape")
    return _created(creation.fill, backend, dtype, shape=sizes, value=fill.item())


def _created(kernel: Any, backend: Backend, dtype: DType, **attrs: Any) -> Tensor:
    if dtype not in backend.dtypes():
        raise unsupported(dtype, backend)
    return kernel.on(backend, **attrs, dtype=dtype)
