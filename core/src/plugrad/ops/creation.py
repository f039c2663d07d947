"""Functions that create tensors, on the active backend or on the one that `device` names."""

from __future__ import annotations

from functools import lru_cache
from math import copysign
from operator import index
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from plugrad.discovery.selection import resolve_backend
from plugrad.engine.results import alias, wrap_array
from plugrad.engine.transfer import copy_to_backend
from plugrad.errors import (
    ArgumentError,
    ArgumentValueError,
    DTypeError,
    ShapeError,
    short_repr,
)
from plugrad.kernels import creation, indexing, movement
from plugrad.ops.arguments import as_tensor, cast, host_array, promote_to_one_dtype, unary_op
from plugrad.ops.attributes import check_finite, check_flag, check_integer
from plugrad.ops.dtypes import nearest_stored_dtype, requested_dtype
from plugrad.tensor.backend import copy_to_backend_array
from plugrad.tensor.tensor import Tensor, TensorLike
from plugrad.types.dtype import (
    DType,
    DTypeLike,
    Scalar,
    as_dtype,
    complex64,
    float32,
    int32,
    scalar_dtype,
    string,
)
from plugrad.types.shapes import as_shape, as_sizes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plugrad.contract.kernel import Kernel, ValidatedAttributes
    from plugrad.discovery.selection import DeviceLike
    from plugrad.tensor.backend import Backend
    from plugrad.types.specs import Shape, ShapeLike


def asarray(
    obj: TensorLike,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    copy: bool | None = None,
) -> Tensor:
    """A tensor with the values of a number, a nested list, an array, which are copied, or another tensor.

    >>> plugrad.asarray([[1, 2], [3, 4]])
    tensor([[1, 2],
            [3, 4]], dtype=int32)
    >>> plugrad.asarray(0.5, dtype="float64")
    tensor(0.5, dtype=float64)
    >>> plugrad.asarray(["one", "two"])
    tensor(['one', 'two'], dtype=string)

    The result has the shape of `obj`. By default Python's ints become int32, its floats float32 and
    its complex numbers complex64, and NumPy's arrays keep their dtype. If the backend does not have
    this dtype, the values take the nearest one that it has, as the setting ``unsupported_dtype`` says.
    Strings are Unicode text, and bytes are read as UTF-8; they stay on the host, whatever the device.

    Args:
        obj: a tensor, a number, a string, an array, or a nested list of numbers, strings or tensors;
            gradients flow to tensors in a list, which are stacked.
        dtype: the dtype of the result; only the setting ``unsupported_dtype`` "always" replaces it.
        device: where the result lives, such as "webgpu" or "cpu"; by default a tensor stays where
            it is, and everything else goes to the active backend.
        copy: False returns a tensor itself, and raises an error where a copy is needed. True and None
            return another tensor, and neither is changed by an assignment to the other.

    Raises:
        ArgumentError: `obj` is none of the above, `copy` is not a bool, or host values are strings
            although `dtype` holds numbers, or conversely.
        ArgumentValueError: a number does not fit the dtype, bytes are not UTF-8, or `copy` is False
            and a copy is needed.
        ShapeError: `obj` is a ragged list.
        DTypeError: `dtype` is not a dtype, or a tensor holds strings although `dtype` holds
            numbers, or conversely.
        UnsupportedDtype: the backend does not have `dtype`; or it does not have that of the values, and
            none near it, or the setting ``unsupported_dtype`` is "error".
        BackendNotFound, BackendUnavailable: `device` names no backend, or one that cannot start.
    """
    wanted = None if dtype is None else as_dtype(dtype)
    is_copied = None if copy is None else check_flag(copy, "asarray", "copy")
    if isinstance(obj, Tensor):
        home = obj if device is None else copy_to_backend(obj, resolve_backend(device))
        y = home if wanted is None else cast(home, wanted)
        if y is obj:
            return obj if is_copied is False else alias(obj)
        if is_copied is not False:
            return y
    if is_copied is False:
        raise ArgumentValueError(
            "asarray: copy=False, but another dtype, another device and values that are not a tensor "
            "need a copy; leave copy out"
        )
    if isinstance(obj, list | tuple) and _contains_tensors(obj):
        parts = [asarray(part, device=device) for part in obj]
        return asarray(movement.pack(*promote_to_one_dtype(parts, "asarray"), axis=0), dtype=dtype)
    backend = resolve_backend(device)
    wanted = None if wanted is None else requested_dtype(wanted, backend)
    return as_tensor(obj, "asarray", "obj", dtype=wanted, backend=backend)


def _contains_tensors(nested_list: Sequence[Any]) -> bool:
    """Return whether there are tensors in a nested list."""
    kinds = set(map(type, nested_list))
    if kinds <= _NUMBER_TYPES:  # what programs mostly pass
        return False
    try:
        return any(issubclass(kind, Tensor) for kind in kinds) or (
            not kinds.isdisjoint((list, tuple))
            and any(
                _contains_tensors(part) for part in nested_list if isinstance(part, list | tuple)
            )
        )
    except RecursionError:  # a list that contains itself, which is refused further on
        return False


def empty(
    shape: ShapeLike, *, dtype: DTypeLike | None = None, device: DeviceLike | None = None
) -> Tensor:
    """A tensor whose values are not to be relied on; at present they are zeros.

    >>> plugrad.empty((2, 3)).shape
    (2, 3)

    The dtype is float32 unless `dtype` names another one.

    Raises:
        ShapeError: a size is negative or not an integer.
        ArgumentError: `dtype` is string.
        DTypeError: `dtype` is not a dtype.
        UnsupportedDtype: the backend does not have the dtype.
        BackendNotFound, BackendUnavailable: `device` names no backend, or one that cannot start.
    """
    wanted = float32 if dtype is None else _numeric_dtype("empty", dtype)
    return _full("empty", shape, 0, wanted, resolve_backend(device))


def empty_like(
    x: TensorLike, *, dtype: DTypeLike | None = None, device: DeviceLike | None = None
) -> Tensor:
    """A tensor of unspecified values in the shape and dtype of x; see `empty`.

    >>> plugrad.empty_like([1, 2]).dtype
    plugrad.int32

    The result lives where x does. `dtype` and `device` choose another dtype and another place.

    Raises:
        ArgumentError: x does not convert to a tensor, or `dtype` is string.
        DTypeError: x holds strings and no `dtype` is given, or `dtype` is not a dtype.
        UnsupportedDtype: the backend does not have the dtype.
        BackendNotFound, BackendUnavailable: `device` names no backend, or one that cannot start.
    """
    return _full_like("empty_like", creation.zeros_like, x, 0, dtype, device)


def zeros(
    shape: ShapeLike, *, dtype: DTypeLike | None = None, device: DeviceLike | None = None
) -> Tensor:
    """A tensor of zeros.

    >>> plugrad.zeros((2, 3))
    tensor([[0., 0., 0.],
            [0., 0., 0.]], dtype=float32)

    The dtype is float32 unless `dtype` names another one.

    Raises:
        ShapeError: a size is negative or not an integer.
        ArgumentError: `dtype` is string.
        DTypeError: `dtype` is not a dtype.
        UnsupportedDtype: the backend does not have the dtype.
        BackendNotFound, BackendUnavailable: `device` names no backend, or one that cannot start.
    """
    wanted = float32 if dtype is None else _numeric_dtype("zeros", dtype)
    return _full("zeros", shape, 0, wanted, resolve_backend(device))


def ones(
    shape: ShapeLike, *, dtype: DTypeLike | None = None, device: DeviceLike | None = None
) -> Tensor:
    """A tensor of ones.

    >>> plugrad.ones(3, dtype="int32")
    tensor([1, 1, 1], dtype=int32)

    The dtype is float32 unless `dtype` names another one.

    Raises:
        ShapeError: a size is negative or not an integer.
        ArgumentError: `dtype` is string.
        DTypeError: `dtype` is not a dtype.
        UnsupportedDtype: the backend does not have the dtype.
        BackendNotFound, BackendUnavailable: `device` names no backend, or one that cannot start.
    """
    wanted = float32 if dtype is None else _numeric_dtype("ones", dtype)
    return _full("ones", shape, 1, wanted, resolve_backend(device))


def full(
    shape: ShapeLike,
    fill_value: Scalar | str,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
) -> Tensor:
    """A tensor with one value everywhere.

    >>> plugrad.full((2,), 7)
    tensor([7, 7], dtype=int32)

    By default the dtype is that of the value: bool, int32, float32, complex64 or string.

    Raises:
        ShapeError: a size is negative or not an integer, or `fill_value` is more than one value.
        ArgumentError: `fill_value` is neither a number nor a string, or only one of `fill_value`
            and `dtype` is a string.
        ArgumentValueError: `fill_value` does not fit the dtype.
        DTypeError: `dtype` is not a dtype.
        UnsupportedDtype: the backend does not have the dtype.
        BackendNotFound, BackendUnavailable: `device` names no backend, or one that cannot start.
    """
    backend = resolve_backend(device)
    if dtype is not None:
        wanted = as_dtype(dtype)
    elif type(fill_value) in _NUMBER_TYPES:
        wanted = scalar_dtype(fill_value)  # type: ignore[arg-type]
        if wanted not in backend.dtypes():
            wanted = nearest_stored_dtype(wanted, backend)
    else:
        wanted = nearest_stored_dtype(
            as_dtype(host_array(fill_value, "full", "fill_value").dtype), backend
        )
    return _full("full", shape, fill_value, wanted, backend)


def zeros_like(
    x: TensorLike, *, dtype: DTypeLike | None = None, device: DeviceLike | None = None
) -> Tensor:
    """A tensor of zeros in the shape and dtype of x.

    >>> plugrad.zeros_like([1.0, 2.0])
    tensor([0., 0.], dtype=float32)

    The result lives where x does. `dtype` and `device` choose another dtype and another place.

    Raises:
        ArgumentError: x does not convert to a tensor, or `dtype` is string.
        DTypeError: x holds strings and no `dtype` is given, or `dtype` is not a dtype.
        UnsupportedDtype: the backend does not have the dtype.
        BackendNotFound, BackendUnavailable: `device` names no backend, or one that cannot start.
    """
    return _full_like("zeros_like", creation.zeros_like, x, 0, dtype, device)


def ones_like(
    x: TensorLike, *, dtype: DTypeLike | None = None, device: DeviceLike | None = None
) -> Tensor:
    """A tensor of ones in the shape and dtype of x.

    >>> plugrad.ones_like([1.0, 2.0])
    tensor([1., 1.], dtype=float32)

    The result lives where x does. `dtype` and `device` choose another dtype and another place.

    Raises:
        ArgumentError: x does not convert to a tensor, or `dtype` is string.
        DTypeError: x holds strings and no `dtype` is given, or `dtype` is not a dtype.
        UnsupportedDtype: the backend does not have the dtype.
        BackendNotFound, BackendUnavailable: `device` names no backend, or one that cannot start.
    """
    return _full_like("ones_like", creation.ones_like, x, 1, dtype, device)


def full_like(
    x: TensorLike,
    fill_value: Scalar | str,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
) -> Tensor:
    """A tensor with one value everywhere, in the shape and dtype of x.

    >>> plugrad.full_like([1.0, 2.0], 7)
    tensor([7., 7.], dtype=float32)

    The result lives where x does. `dtype` and `device` choose another dtype and another place.

    Raises:
        ShapeError: `fill_value` is more than one value.
        ArgumentError: x does not convert to a tensor, `fill_value` is neither a number nor a
            string, or only one of `fill_value` and the dtype is a string.
        ArgumentValueError: `fill_value` does not fit the dtype.
        DTypeError: `dtype` is not a dtype.
        UnsupportedDtype: the backend does not have the dtype.
        BackendNotFound, BackendUnavailable: `device` names no backend, or one that cannot start.
    """
    return _full_like("full_like", None, x, fill_value, dtype, device)


def arange(
    start: float,
    stop: float | None = None,
    step: float = 1,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
) -> Tensor:
    """The numbers ``start``, ``start + step``, … up to, but without, `stop`, as a 1-d tensor.

    >>> plugrad.arange(4)
    tensor([0, 1, 2, 3], dtype=int32)
    >>> plugrad.arange(1.0, 2.0, 0.25)
    tensor([1.  , 1.25, 1.5 , 1.75], dtype=float32)

    A single argument is `stop`, and `start` is 0 then. By default integers give int32, and floats
    give float32. A 0-d tensor is read; nothing is differentiated with respect to it.

    Raises:
        ArgumentError: an argument is not a real number.
        ArgumentValueError: `step` is 0, an argument is not finite, or a number does not fit the
            dtype.
        DTypeError: `dtype` is not a dtype, or is bool or string.
        UnsupportedDtype: the backend does not have the dtype.
        BackendNotFound, BackendUnavailable: `device` names no backend, or one that cannot start.
    """
    if stop is None:
        stop = start
        start = 0
    backend = resolve_backend(device)
    are_integers = type(start) is type(stop) is type(step) is int
    if not (
        are_integers
        and -_INT64_LIMIT <= start < _INT64_LIMIT
        and -_INT64_LIMIT <= stop < _INT64_LIMIT
        and -_INT64_LIMIT <= step < _INT64_LIMIT
    ):
        start = _check_arange_bound(start, "start")
        stop = _check_arange_bound(stop, "stop")
        step = _check_arange_bound(step, "step")
        are_integers = all(isinstance(n, int) for n in (start, stop, step))
    if step == 0:
        raise ArgumentValueError("arange: step=0 never reaches stop; it must not be 0")
    wanted = requested_dtype(_dtype_or_default(dtype, int32 if are_integers else float32), backend)
    return creation.range.call(backend, _arange_attrs(start, stop, step, wanted))


_INT64_LIMIT: Final = 2**63
"""The least positive integer that int64 cannot hold."""


@lru_cache(maxsize=1024, typed=True)
def _arange_attrs(start: float, stop: float, step: float, dtype: DType) -> ValidatedAttributes:
    """Return the attributes of the kernel `range`."""
    if dtype.kind in ("bool", "string"):
        raise DTypeError(f"arange: dtype={dtype} does not hold numbers; use int32 or float32")
    if dtype.is_inexact:
        start = float(start)
        stop = float(stop)
        step = float(step)
    elif all(isinstance(n, int) for n in (start, stop, step)):
        numbers = range(start, stop, step)  # type: ignore[arg-type]
        ends = [numbers[0], numbers[-1]] if numbers else []
        host_array(ends, "arange", "the range", dtype)  # raises if a number does not fit
        if len(numbers) < 2:  # then stop and step need not fit
            start = numbers[0] if numbers else 0
            stop = start + len(numbers)
            step = 1
    return creation.range.validate_attributes(start=start, stop=stop, step=step, dtype=dtype)


def _check_arange_bound(value: float, name: str) -> float:
    """Return an argument of `arange` as a number; integers stay integers.

    Raises:
        ArgumentError: it is not a real number.
        ArgumentValueError: it is not finite.
    """
    if isinstance(value, Tensor) and not value.ndim and value.node is None:
        value = value.item()
    number = check_finite(value, "arange", name)
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
    """The `num` equally spaced numbers from `start` to `stop`, as a 1-d tensor.

    >>> plugrad.linspace(0, 1, 5)
    tensor([0.  , 0.25, 0.5 , 0.75, 1.  ], dtype=float32)
    >>> plugrad.linspace(0, 1, 4, endpoint=False)
    tensor([0.  , 0.25, 0.5 , 0.75], dtype=float32)

    With ``endpoint=False`` the result ends before `stop`, which would be the next number. The dtype
    is float32 by default, and complex64 if `start` or `stop` is complex.

    Raises:
        ArgumentError: `start` or `stop` is not a number, `num` is not an integer, or `endpoint` is
            not a bool.
        ArgumentValueError: `num` is negative, or a real `start` or `stop` is not finite.
        DTypeError: `dtype` is not a dtype, holds no fractions, or is real although `start` or
            `stop` is complex.
        UnsupportedDtype: the backend does not have the dtype.
        BackendNotFound, BackendUnavailable: `device` names no backend, or one that cannot start.
    """
    are_keys = _NUMBER_TYPES.issuperset((type(start), type(stop), type(num)))
    plan = _plan_linspace if are_keys else _plan_linspace.__wrapped__
    wanted, first, last, count = plan(start, stop, num, None if dtype is None else as_dtype(dtype))
    has_end = endpoint is True or check_flag(endpoint, "linspace", "endpoint") or not count
    backend, steps = resolve_backend(device), count if has_end else count + 1
    attrs = _linspace_attrs(first, last, steps, requested_dtype(wanted, backend))
    x = creation.linspace.call(backend, attrs)
    return x if has_end else movement.slice(x, begin=(0,), size=(count,))


@lru_cache(maxsize=1024, typed=True)
def _plan_linspace(
    start: complex, stop: complex, num: int, dtype: DType | None
) -> tuple[DType, complex, complex, int]:
    """Return the dtype, the first and last element, and the number of elements of `linspace`."""
    is_complex = isinstance(start, complex) or isinstance(stop, complex)
    wanted = _dtype_or_default(dtype, complex64 if is_complex else float32)
    if not wanted.is_inexact or (is_complex and wanted.kind != "complex"):
        raise DTypeError(
            f"linspace: dtype={wanted} cannot hold the numbers between {start} and {stop}; ask for "
            f"{'complex64' if is_complex else 'float32'}"
        )
    first, last = _check_linspace_bound(start, "start"), _check_linspace_bound(stop, "stop")
    first, last = (complex(first), complex(last)) if is_complex else (first, last)
    return wanted, first, last, check_integer(num, "linspace", "num", least=0)


@lru_cache(maxsize=1024, typed=True)
def _linspace_attrs(start: complex, stop: complex, num: int, dtype: DType) -> ValidatedAttributes:
    """Return the attributes of the kernel `linspace`, which gives the same result for 0.0 and -0.0."""
    return creation.linspace.validate_attributes(start=start, stop=stop, num=num, dtype=dtype)


def _check_linspace_bound(value: float | complex, name: str) -> float | complex:
    """Return an end of `linspace`, which may be complex."""
    if not isinstance(value, complex):
        return check_finite(value, "linspace", name)
    if not np.isfinite(value):
        raise ArgumentValueError(f"linspace: {name}={value} must be finite")
    return value


def eye(
    n_rows: int,
    n_cols: int | None = None,
    *,
    k: int = 0,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
) -> Tensor:
    """A matrix with ones on the `k`-th diagonal and zeros elsewhere.

    >>> plugrad.eye(2, 3, k=1)
    tensor([[0., 1., 0.],
            [0., 0., 1.]], dtype=float32)

    Args:
        n_rows: the number of rows.
        n_cols: the number of columns; by default that of rows.
        k: 0 means the main diagonal, a positive number one above it, a negative number one below.
        dtype: the dtype of the result; by default float32.
        device: where the result lives; by default on the active backend.

    Raises:
        ShapeError: a size is negative or not an integer.
        ArgumentError: `k` is not an integer.
        DTypeError: `dtype` is not a dtype.
        UnsupportedDtype: the backend does not have the dtype.
        BackendNotFound, BackendUnavailable: `device` names no backend, or one that cannot start.
    """
    n_cols = n_rows if n_cols is None else n_cols
    are_keys = type(n_rows) is type(n_cols) is type(k) is int
    plan = _plan_eye if are_keys else _plan_eye.__wrapped__
    height, width, place = plan(n_rows, n_cols, k)
    backend = resolve_backend(device)
    wanted = requested_dtype(_dtype_or_default(dtype), backend)
    if height * width <= _EYE_MAX_COPIED_ELEMENTS and wanted is not string:
        values = _cached_eye(height, width, place, wanted.numpy)
        return wrap_array(copy_to_backend_array(values, backend), backend)
    diagonal = creation.range.call(backend, _arange_attrs(place, place + height, 1, int32))
    return indexing.one_hot(diagonal, depth=width, on_value=1, off_value=0, dtype=wanted)


@lru_cache(maxsize=256)
def _plan_eye(n_rows: int, n_cols: int, k: int) -> tuple[int, int, int]:
    """Return the height and width of `eye`, and the number of its diagonal, at most one beyond the corners."""
    height, width = as_shape((n_rows, n_cols), name="eye: shape")
    return height, width, max(-height, min(check_integer(k, "eye", "k"), width))


_EYE_MAX_COPIED_ELEMENTS: Final = 4096
"""The most elements of an identity matrix that is copied from the host; a larger one is made on the device."""
_cached_eye: Final = lru_cache(maxsize=64)(np.eye)
"""NumPy's function ``eye``, with a cache of its 64 latest results."""


def _dtype_or_default(dtype: DTypeLike | None, default: DType = float32) -> DType:
    """Return the dtype that the argument `dtype` names, or the default if it is None.

    Raises:
        DTypeError: it names none.
    """
    return default if dtype is None else as_dtype(dtype)


def _numeric_dtype(op: str, dtype_like: DTypeLike) -> DType:
    """Return the dtype that the argument `dtype` names, which must be numeric or bool.

    Raises:
        ArgumentError: it is string.
    """
    if (dtype := as_dtype(dtype_like)) is string:
        raise ArgumentError(
            f"{op}: dtype={dtype} does not hold numbers; plugrad.full(shape, '') makes empty strings"
        )
    return dtype


def _full_like(
    op: str,
    kernel: Kernel[..., Tensor] | None,
    x: TensorLike,
    value: Scalar | str,
    dtype: DTypeLike | None,
    device: DeviceLike | None,
) -> Tensor:
    """Return a tensor like x filled with `value`; without a new dtype or device, `kernel` makes it from x."""
    x = as_tensor(x, op)
    own = as_dtype(x.array.dtype)
    wanted = own if dtype is None else as_dtype(dtype)
    backend = x.backend if device is None else resolve_backend(device)
    if kernel and wanted is own and backend is x.backend:
        return unary_op(kernel, x, op)
    if kernel:
        _numeric_dtype(op, wanted)
    return _full(op, x.array.shape, value, wanted, backend)


def _full(op: str, shape: ShapeLike, value: Scalar | str, dtype: DType, backend: Backend) -> Tensor:
    """Return a tensor of this shape filled with `value`.

    Raises:
        UnsupportedDtype: the backend does not have the dtype.
    """
    if dtype not in backend.dtypes():
        dtype = requested_dtype(dtype, backend)
    sizes = shape if type(shape) is int else as_sizes(shape, name=f"{op}: shape")
    if type(value) is int or (type(value) in _NUMBER_TYPES and (value or copysign(1, value) > 0)):  # type: ignore[arg-type]  # -0.0 is no key: it equals 0.0
        attrs = _fill_attrs(op, sizes, value, dtype)
    else:
        attrs = _fill_attrs.__wrapped__(op, sizes, value, dtype)
    return creation.fill.call(backend, attrs)


_NUMBER_TYPES: Final = frozenset({bool, int, float})
"""The types of Python's real numbers, including bool."""


@lru_cache(maxsize=1024, typed=True)
def _fill_attrs(
    op: str, sizes: int | Shape, value: Scalar | str, dtype: DType
) -> ValidatedAttributes:
    """Return the attributes of the kernel `fill` for a tensor of axis sizes `sizes`."""
    fill = host_array(value, op, "fill_value", dtype)  # raises if the value does not fit
    if fill.ndim:
        raise ShapeError(f"{op}: fill_value={short_repr(value)} must be one number or one string")
    shape = as_shape(sizes, name=f"{op}: shape")
    return creation.fill.validate_attributes(shape=shape, value=fill.item(), dtype=dtype)
