"""Conversion of the arguments of ops: to tensors, to supported dtypes, and to a common dtype."""

from __future__ import annotations

from functools import lru_cache, reduce
from math import inf, isfinite, trunc
from numbers import Complex
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from plugrad.discovery.selection import active_backend
from plugrad.engine.autocast import compute_dtype
from plugrad.engine.results import tensor_from_host
from plugrad.errors import (
    ArgumentError,
    ArgumentValueError,
    DTypeError,
    OutOfMemory,
    PlugradError,
    ShapeError,
    short_repr,
)
from plugrad.kernels import unary
from plugrad.ops.dtypes import nearest_stored_dtype, requested_dtype
from plugrad.tensor.backend import copy_to_backend_array
from plugrad.tensor.tensor import Tensor, TensorLike
from plugrad.tensor.tracer import Tracer
from plugrad.types.dtype import (
    DType,
    Scalar,
    as_dtype,
    bool_,
    complex64,
    float32,
    int32,
    numpy_kind,
    promote,
    promote_scalar,
    scalar_dtype,
    string,
)
from plugrad.types.specs import Shaped

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from plugrad.contract.kernel import Kernel, ValidatedAttributes
    from plugrad.tensor.backend import Backend
    from plugrad.types.specs import Shape


def as_tensor(
    x: TensorLike,
    op: str,
    argument_name: str = "x",
    *,
    dtype: DType | None = None,
    backend: Backend | None = None,
) -> Tensor:
    """Return `x` as a tensor: itself if it is one, else its values on `backend` (default: the active one).

    Raises:
        ArgumentError: `x` is neither a tensor, a scalar, an array nor a nested list of numbers.
        UnsupportedDtype: the backend has no such dtype, and `nearest_stored_dtype` gives no other one.
    """
    if isinstance(x, Tensor):
        return x
    backend = backend or active_backend()
    values = host_array(x, op, argument_name, dtype)
    if dtype is None:
        # No dtype was requested, so the data may be converted to one that the backend supports.
        taken = nearest_stored_dtype(as_dtype(values.dtype), backend)
        values = _convert_values(values, taken, op, argument_name)
    return tensor_from_host(values, backend)


def host_array(
    x: object, op: str, argument_name: str = "x", dtype: DType | None = None
) -> NDArray[Any]:
    """Convert host values to a C-contiguous NumPy array of a dtype that plugrad supports.

    Python's ints become int32, its floats float32 and its complex numbers complex64; NumPy's arrays
    and scalars keep their dtype. In a nested list, the dtypes of the latter are promoted as those of
    tensors are, and Python's numbers give way to them.
    """
    values: NDArray[Any]
    if isinstance(x, _NUMPY_TYPES):
        values = np.asarray(x)
        if type(x) is not np.ndarray and np.any(getattr(x, "mask", False)):
            raise ArgumentError(
                f"{op}: {argument_name} is a masked array, and tensors have no masks; fill it, as in x.filled(0), or "
                "compute with its parts, x.data and x.mask"
            )
    elif isinstance(x, _NUMBER_TYPES):
        dtype = scalar_dtype(x) if dtype is None else dtype
        values = np.asarray(x)
    elif isinstance(x, range):
        values = _array_from_range(x, op, argument_name)
        dtype = (int32 if x else float32) if dtype is None else dtype
    elif isinstance(x, _LIST_TYPES):
        try:
            values = _array_from_nested_list(x, op, argument_name, dtype)
            if dtype is None and values.dtype.kind in "biufc":
                return values
        except RecursionError:
            raise ShapeError(
                f"{op}: {argument_name} is a list that contains itself, or has more levels than a tensor has axes"
            ) from None
    elif isinstance(x, str | bytes):
        values = np.array(x, object)
    elif hasattr(x, "__array__") or hasattr(x, "__array_interface__"):
        values = _as_array(x, op, argument_name)
    else:
        raise ArgumentError(
            f"{op}: {argument_name} must be a tensor, a number, an array or a nested list of numbers, not "
            f"{type(x).__name__}"
        )
    if dtype is string or _contains_text(values):
        return _as_string_array(values, op, argument_name, dtype)
    wanted = _infer_dtype(values, op, argument_name) if dtype is None else dtype
    try:
        converted = _convert_values(values, wanted, op, argument_name)
        if converted.flags.c_contiguous:
            return converted
        return np.ascontiguousarray(converted).reshape(values.shape)
    except MemoryError as error:
        raise OutOfMemory(f"{op}: {argument_name}: {error}") from error


# Python makes a union anew in each test for one.
_NUMPY_TYPES: Final[tuple[type[Any], ...]] = (np.ndarray, np.generic)
"""The types of NumPy's arrays and scalars."""
_LIST_TYPES: Final = (list, tuple)
"""The types of sequences that are read as nested lists."""


def _as_array(x: Any, op: str, argument_name: str) -> NDArray[Any]:
    """Convert an object of another library to a NumPy array by the object's own method.

    Raises:
        ArgumentError: it converts itself to something else.
    """
    try:
        return np.asarray(x)
    except PlugradError:
        raise
    except (TypeError, ValueError) as error:
        remedy = "; try plugrad.from_dlpack" if hasattr(x, "__dlpack__") else ""
        raise ArgumentError(
            f"{op}: {argument_name} is a {type(x).__name__}, which does not convert to an array: {error}{remedy}"
        ) from error


MAX_RANGE_LENGTH: Final = 2**31
"""The maximum number of elements of a range: a huge one is as easy to write as a small one."""


def _array_from_range(x: range, op: str, argument_name: str) -> NDArray[Any]:
    """Return the numbers of a range.

    Raises:
        OutOfMemory: there are too many.
    """
    _check_range_length(x, op, argument_name)
    try:
        return np.arange(x.start, x.stop, x.step)
    except MemoryError as error:
        raise OutOfMemory(f"{op}: {argument_name}={short_repr(x)}: {error}") from None


def _check_range_length(x: range, op: str, argument_name: str) -> None:
    if x and abs(x[-1] - x[0]) // abs(x.step) >= MAX_RANGE_LENGTH:
        raise OutOfMemory(
            f"{op}: {argument_name}={short_repr(x)} has more than {MAX_RANGE_LENGTH} elements"
        )


def _infer_dtype(values: NDArray[Any], op: str, argument_name: str) -> DType:
    """Return plugrad's dtype of host values, or raise if it has none for them."""
    dtype = values.dtype
    try:
        return as_dtype(dtype if dtype.isnative else dtype.newbyteorder("="))
    except DTypeError:
        raise ArgumentError(
            f"{op}: {argument_name} must hold numbers or strings; it holds {values.dtype}"
        ) from None


def _contains_text(values: NDArray[Any]) -> bool:
    kind = values.dtype.kind
    return kind in "STU" or (
        kind == "O" and any(isinstance(x, str | bytes) for x in values.ravel())
    )


def _as_string_array(
    values: NDArray[Any], op: str, argument_name: str, dtype: DType | None
) -> NDArray[Any]:
    """Convert text, or bytes in UTF-8, to an array of strings."""
    parts = values.ravel().tolist()
    wrong = [x for x in parts if not isinstance(x, str | bytes)]
    if wrong:
        raise ArgumentError(
            f"{op}: {argument_name} must hold strings only; it holds {short_repr(wrong[0])}"
        )
    if dtype not in (None, string):
        raise ArgumentError(
            f"{op}: {argument_name} holds strings, which have no {dtype}; convert them first, as in float(text)"
        )
    try:
        texts = [part.decode() if isinstance(part, bytes) else part for part in parts]
        return np.array(texts, string.numpy).reshape(values.shape)
    except UnicodeError as error:
        raise ArgumentValueError(
            f"{op}: {argument_name} holds what is no text in UTF-8: {error}"
        ) from None


def _array_from_nested_list(
    x: Any, op: str, argument_name: str, dtype: DType | None
) -> NDArray[Any]:
    """Return a nested list of numbers or strings as a NumPy array of a dtype, by default the promoted one."""
    parts = list(x)
    held, scalars = _collect_leaf_types(parts, op, argument_name)
    try:
        values = np.asarray(parts)
    except ValueError:
        raise ShapeError(
            f"{op}: {argument_name} is a ragged list; the lists on one level must have equal lengths"
        ) from None
    if values.size and _contains_text(values):
        return np.array(parts, object)  # NumPy has turned numbers beside strings into strings
    met = _combine_dtypes(held, scalars, op, argument_name) if held and dtype is None else None
    if values.size == 0:
        return values.astype((dtype or met or float32).numpy)
    if dtype is not None:
        return values
    if met is None and (met := _DTYPE_BY_NUMPY_KIND.get(numpy_kind(values.dtype))) is None:
        raise ArgumentError(f"{op}: {argument_name} must hold numbers; it holds {values.dtype}")
    return _convert_values(values, met, op, argument_name)


_DTYPE_BY_NUMPY_KIND: Final = {"b": bool_, "i": int32, "u": int32, "f": float32, "c": complex64}
"""The default dtype of Python numbers, by NumPy's letter for their kind."""


def _collect_leaf_types(
    nested_list: Any, op: str, argument_name: str
) -> tuple[set[np.dtype[Any]], set[type[Scalar]]]:
    """Return the dtypes of the NumPy values in a nested list, and the types of the Python numbers.

    Raises:
        ArgumentError: there are tensors in it.
    """
    held: set[np.dtype[Any]] = set()
    scalars: set[type[Scalar]] = set()
    has_parts = False
    for kind in set(map(type, nested_list)):  # mostly one type, however many numbers
        if kind in _NUMBER_TYPES:
            scalars.add(kind)
        elif issubclass(kind, np.generic):
            held.add(np.dtype(kind))
        elif issubclass(kind, Tensor):
            raise ArgumentError(
                f"{op}: {argument_name} is a list with tensors in it; join them with plugrad.stack"
            )
        elif number := next((t for t in _NUMBER_TYPES if issubclass(kind, t)), None):
            scalars.add(number)
        else:
            has_parts = True
    for part in nested_list if has_parts else ():
        if isinstance(part, range):
            _check_range_length(part, op, argument_name)
            scalars.add(int)
        elif isinstance(part, _LIST_TYPES):
            inner = _collect_leaf_types(part, op, argument_name)
            held |= inner[0]
            scalars |= inner[1]
        elif isinstance(part, np.ndarray) or hasattr(part, "__array__"):
            held.add(_as_array(part, op, argument_name).dtype)
    return held, scalars


_NUMBER_TYPES: Final[tuple[type[Scalar], ...]] = (bool, int, float, complex)
"""The types of Python's numbers, from the narrowest kind to the widest."""


def _combine_dtypes(
    array_dtypes: set[np.dtype[Any]], scalar_types: set[type[Scalar]], op: str, argument_name: str
) -> DType | None:
    """Return the promoted dtype of NumPy dtypes and weakly typed Python numbers; None if a dtype is unknown."""
    try:
        dtypes = [as_dtype(d if d.isnative else d.newbyteorder("=")) for d in array_dtypes]
    except DTypeError:
        return None
    dtype, *others = sorted(dtypes, key=lambda d: (not d.is_inexact, d.name))
    for other in others:
        dtype = common_dtype(promote, dtype, other, f"{op}: {argument_name}")
    for number in sorted(scalar_types, key=_NUMBER_TYPES.index):
        dtype = promote_scalar(dtype, number())
    return dtype


def _convert_values(
    values: NDArray[Any], dtype: DType, op: str, argument_name: str
) -> NDArray[Any]:
    """Convert host values to a dtype; integer dtypes truncate fractions.

    Raises:
        ArgumentError: the values are not numbers.
        ArgumentValueError: they do not fit the dtype.
    """
    if values.dtype == dtype.numpy:
        return values
    kind = numpy_kind(values.dtype)
    if kind == "f" and dtype.kind == "floating":
        return values.astype(dtype.numpy)
    objects = values.ravel() if kind == "O" else ()
    if kind not in "biufcO" or not all(isinstance(x, Complex) for x in objects):
        raise ArgumentError(f"{op}: {argument_name} must hold numbers; it holds {values.dtype}")
    fits = kind != "c" or dtype.kind in ("complex", "bool")
    if fits and dtype.is_integer and kind in "iufO" and values.size:
        limits, least, most = dtype.info, values.min(), values.max()
        if kind == "f":
            least, most = (trunc(x) if isfinite(x) else inf for x in map(float, (least, most)))
        fits = bool(limits.min <= least and most <= limits.max)
    try:
        if fits:
            return values.astype(dtype.numpy)
    except OverflowError:  # whole numbers beyond the largest float
        pass
    other = {"c": "'complex64'", "f": "'float32'"}.get(kind, "'int64' or 'float32'")
    given = short_repr(values.tolist() if values.size < 10 else values)
    raise ArgumentValueError(
        f"{op}: {argument_name}={given} does not fit {dtype}; ask for another dtype, such as {other}"
    )


MAX_CACHED_CONSTANTS: Final = 512
"""The most constants that each device caches."""


def cached_constant(value: Scalar, dtype: DType, backend: Backend, op: str = "constant") -> Tensor:
    """Return a 0-d tensor from a cache, so that a repeated value is sent to the backend only once."""
    known = backend.constants
    key = (value, dtype) if value or type(value) is int else (str(value), dtype)  # -0.0 equals 0.0
    array = known.get(key)
    if array is None:
        if (
            isinstance(backend, Tracer) and backend.outer is None
        ):  # traces share those of the device
            array = backend.lift(cached_constant(value, dtype, backend.target, op)).array
        else:
            array = copy_to_backend_array(
                _convert_values(np.asarray(value), dtype, op, "the number"), backend
            )
        if len(known) >= MAX_CACHED_CONSTANTS:
            known.pop(next(iter(known)), None)
        known[key] = array
    return Tensor(array, backend)


def as_supported_dtype(
    x: TensorLike, kernel: Kernel[..., Any], op: str, argument_name: str = "x"
) -> Tensor:
    """Convert `x` to a tensor of a dtype that `kernel` supports; integers become float32 for kernels of floats.

    Raises:
        DTypeError: the kernel takes no such dtype.
    """
    if type(x) is Tensor:
        dtype = x.array.dtype
        if dtype is kernel.fast_dtype or dtype in kernel.accepted_dtypes:
            return x
    x = as_tensor(x, op, argument_name)
    return cast(
        x,
        supported_dtype(x.dtype, kernel, op if argument_name == "x" else f"{op} ({argument_name})"),
    )


def unary_op(kernel: Kernel[..., Tensor], x: TensorLike, op: str) -> Tensor:
    """Run a unary elementwise kernel on an operand that `as_supported_dtype` converts."""
    if type(x) is Tensor and x.array.dtype is kernel.fast_dtype:  # what programs mostly do
        return kernel.call(x)
    return kernel.call(as_supported_dtype(x, kernel, op))


def with_attributes(kernel: Kernel[..., Tensor], x: Tensor, /, **attrs: Any) -> Tensor:
    """Run a kernel of one tensor with attributes, which are validated once for each shape and dtype.

    Attributes must not be floats: the cache cannot tell 0.0 from -0.0, because they are equal.
    """
    array = x.array
    return kernel.call(x, checked_attributes(kernel, array.shape, array.dtype, **attrs))


@lru_cache(maxsize=4096)
def checked_attributes(
    kernel: Kernel[..., Any], shape: Shape, dtype: object, /, **attrs: Any
) -> ValidatedAttributes:
    """Return the validated attributes for one input of this shape and dtype, from a cache."""
    return kernel.validate_attributes(Shaped(shape, as_dtype(dtype)), **attrs)


def supported_dtype(dtype: DType, kernel: Kernel[..., Any], op: str) -> DType:
    """Return the dtype in which a kernel computes values of `dtype`, or raise if it supports none."""
    if dtype in kernel.accepted_dtypes:
        return dtype
    known = sorted(kernel.accepts, key=str)
    if float32 in known and int32 not in known and dtype.kind in ("bool", "signed", "unsigned"):
        return float32
    remedy = (
        "Strings do not convert to numbers"
        if string in (dtype, *known)
        else f"Cast first, as in x.astype({next((d for d in (float32, int32) if d in known), known[0])!r})"
    )
    raise DTypeError(f"{op} does not take {dtype}; it takes {', '.join(map(str, known))}. {remedy}")


def cast(x: Tensor, dtype: DType, op: str = "astype") -> Tensor:
    """Cast `x` to a dtype, or return it unchanged if it has that dtype; error messages begin with `op`.

    Raises:
        UnsupportedDtype: the backend has no such dtype, and `requested_dtype` gives no other one.
        DTypeError: strings do not convert to numbers, nor numbers to strings.
    """
    given = x.array.dtype
    if given is dtype.numpy:
        return x
    backend = x.backend
    if dtype not in backend.dtypes():
        dtype = requested_dtype(dtype, backend)
    attrs = _cast_attributes(given, dtype, op)
    return x if attrs is None else unary.cast.call(x, attrs)


@lru_cache(maxsize=256)
def _cast_attributes(source_dtype: object, dtype: DType, op: str) -> ValidatedAttributes | None:
    """Return the validated attributes of a cast from `source_dtype` to `dtype`, for any shape; None if they are equal.

    Raises:
        DTypeError: strings do not convert to numbers, nor numbers to strings.
    """
    source = as_dtype(source_dtype)
    if source is dtype:
        return None
    if source is string or dtype is string:
        raise DTypeError(
            f"{op}: {source} does not convert to {dtype}; make the values in Python, as in float(text)"
        )
    return unary.cast.validate_attributes(Shaped((), source), dtype=dtype)


def as_bools(x: TensorLike, op: str) -> TensorLike:
    """Return an operand as bools: numbers are True unless they are 0.

    Raises:
        DTypeError: it holds strings.
    """
    if isinstance(x, Tensor):
        return x if x.dtype is string else cast(x, bool_, op)
    if type(x) in WEAKLY_TYPED_SCALAR_TYPES:
        return bool(x)
    values = host_array(x, op, "an operand")
    return values if as_dtype(values.dtype) is string else values.astype(np.bool_)


def binary_op(kernel: Kernel[..., Tensor], a: TensorLike, b: TensorLike, op: str) -> Tensor:
    """Run a binary elementwise kernel on two operands that `promote_operands` converts."""
    call, usual = kernel.call, kernel.fast_dtype
    if isinstance(a, Tensor) and a.array.dtype is usual:  # what programs mostly do
        if isinstance(b, Tensor) and b.array.dtype is usual:
            return call(a, b)
        if type(b) in _REAL_TYPES:
            return call(a, cached_constant(b, float32, a.backend, op))  # type: ignore[arg-type]
    return call(*promote_operands(a, b, kernel, op))


def promote_operands(
    a: TensorLike, b: TensorLike, kernel: Kernel[..., Any], op: str
) -> tuple[Tensor, Tensor]:
    """Promote two operands to tensors of one dtype that `kernel` supports.

    A Python scalar takes the other operand's dtype if its kind allows; host arrays go to the other
    operand's backend.
    """
    if isinstance(a, Tensor):
        given = a.array.dtype
        if isinstance(b, Tensor):
            if given is b.array.dtype and (
                given is kernel.fast_dtype or given in kernel.accepted_dtypes
            ):
                return a, b
        elif type(b) in WEAKLY_TYPED_SCALAR_TYPES:
            dtype = result_dtype(kernel, given, b, op)  # type: ignore[arg-type]
            number = cached_constant(b, dtype, a.backend, op)  # type: ignore[arg-type]
            return a if given is dtype.numpy else cast(a, dtype), number
    elif isinstance(b, Tensor) and type(a) in WEAKLY_TYPED_SCALAR_TYPES:
        dtype = result_dtype(kernel, b.array.dtype, a, op)  # type: ignore[arg-type]
        return cached_constant(a, dtype, b.backend, op), cast(b, dtype)  # type: ignore[arg-type]
    home = next((x.backend for x in (a, b) if isinstance(x, Tensor)), None)
    x = as_tensor(a, op, "the first operand", backend=home)
    y = as_tensor(b, op, "the second operand", backend=home)
    common = common_dtype(promote, x.dtype, y.dtype, op)
    dtype = compute_dtype(kernel, supported_dtype(common, kernel, op))
    return cast(x, dtype), cast(y, dtype)


def result_dtype(kernel: Kernel[..., Any], dtype: object, scalar: Scalar, op: str) -> DType:
    """Return the dtype in which a kernel combines a tensor of `dtype` with a Python number's type."""
    key = dtype, type(scalar)
    known = kernel.result_dtypes.get(key)
    if known is None:
        common = common_dtype(promote_scalar, as_dtype(dtype), scalar, op)
        known = kernel.result_dtypes[key] = supported_dtype(common, kernel, op)
    return known


def common_dtype(promote_pair: Callable[[DType, Any], DType], a: DType, b: Any, op: str) -> DType:
    """Return the common dtype of two operands by `promote` or `promote_scalar`; an error begins with the op's name."""
    try:
        return promote_pair(a, b)
    except DTypeError as error:
        raise DTypeError(f"{op}: {error}") from None


_REAL_TYPES = frozenset({int, float})
"""The types of Python's real numbers, without bool."""
WEAKLY_TYPED_SCALAR_TYPES = frozenset({bool, int, float, complex, np.float64, np.complex128})
"""The types of numbers that take the dtype of the other operand."""


def have_one_dtype(xs: Sequence[Any]) -> bool:
    """Return whether operands, one at least, are tensors of one dtype, so that nothing has to be converted."""
    given = None
    for x in xs:
        if type(x) is not Tensor:
            return False
        dtype = x.array.dtype
        if dtype is not given:
            if given is not None:
                return False
            given = dtype
    return True


def promote_named_operands(
    operands: Mapping[str, TensorLike], kernel: Kernel[..., Any], op: str
) -> dict[str, Tensor]:
    """Promote operands to tensors of one dtype that `kernel` supports; Python numbers take that of the others."""
    home = next((x.backend for x in operands.values() if isinstance(x, Tensor)), None)
    numbers: dict[str, Any] = {
        name: x for name, x in operands.items() if type(x) in WEAKLY_TYPED_SCALAR_TYPES
    }
    tensors = {
        name: as_tensor(x, op, name, backend=home)
        for name, x in operands.items()
        if name not in numbers or len(numbers) == len(operands)
    }
    dtype = reduce(
        promote, [supported_dtype(x.dtype, kernel, f"{op} ({name})") for name, x in tensors.items()]
    )
    for name, number in numbers.items():
        dtype = supported_dtype(promote_scalar(dtype, number), kernel, f"{op} ({name})")
    dtype = compute_dtype(kernel, dtype)
    home = next(iter(tensors.values())).backend
    return {
        name: cast(tensors[name], dtype)
        if name in tensors
        else cached_constant(numbers[name], dtype, home, op)
        for name in operands
    }


def promote_to_one_dtype(xs: list[Any], op: str) -> list[Tensor]:
    """Promote a list of operands to tensors of one dtype.

    Raises:
        ArgumentValueError: the list is empty.
    """
    if not xs:
        raise ArgumentValueError(f"{op}: the list of tensors is empty; it needs at least one")
    if have_one_dtype(xs):
        return xs
    tensors = [x for x in xs if isinstance(x, Tensor)]
    if len(tensors) < len(xs):
        home = tensors[0].backend if tensors else None
        tensors = [as_tensor(x, op, f"tensor {i}", backend=home) for i, x in enumerate(xs)]
    dtype = tensors[0].dtype
    for x in tensors[1:]:
        dtype = common_dtype(promote, dtype, x.dtype, op)
    return [cast(x, dtype) for x in tensors]
