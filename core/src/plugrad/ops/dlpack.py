"""Import of other libraries' arrays through DLPack."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from plugrad.discovery.loading import opened_backends
from plugrad.discovery.selection import active_backend, find_numpy_backend, resolve_backend
from plugrad.engine.results import wrap_array
from plugrad.errors import (
    ArgumentError,
    ArgumentValueError,
    PlugradError,
)
from plugrad.importing import import_lazily
from plugrad.interruptions import is_interruption
from plugrad.ops.attributes import check_flag
from plugrad.ops.creation import asarray
from plugrad.tensor.backend import (
    HOST,
    dlpack_device_of,
    has_odd_bools,
    make_backend_failed_error,
    make_invalid_result_error,
    make_unsupported_dtype_error,
    mark_device_lost,
    must_propagate,
)
from plugrad.tensor.tensor import Tensor
from plugrad.types.dtype import (
    as_dtype,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from plugrad.discovery.selection import DeviceLike
    from plugrad.tensor.backend import Backend


def from_dlpack(x: Any, *, device: DeviceLike | None = None, copy: bool | None = None) -> Tensor:
    """A tensor with the shape, dtype and values of another library's array, read through DLPack.

    >>> plugrad.from_dlpack(np.asarray([1.0, 2.0]))
    tensor([1., 2.], dtype=float64)

    Args:
        x: an object with a method ``__dlpack__``, whose values are in host memory, or on the device of an open
            backend that reads them there.
        device: where the result lives; by default where x is if it is not on the host, and otherwise on the
            active backend.
        copy: False shares the memory with the array, so that a later change of the array changes the
            tensor. This takes a backend that reads arrays where they are; the cpu backend does so with those
            of the host. True and None copy the values.

    Raises:
        ArgumentError: x has no ``__dlpack__``, NumPy cannot read its device or dtype, or `copy` is
            not a bool.
        ArgumentValueError: `copy` is False and a copy is needed.
        UnsupportedDtype: the backend does not have the dtype.
        BackendNotFound, BackendUnavailable: `device` names no backend, or one that cannot start.
    """
    if isinstance(x, Tensor):
        return asarray(x, device=device, copy=copy)
    is_copied = copy is None or check_flag(copy, "from_dlpack", "copy")
    home = _find_dlpack_backend(x, device)
    if home is not None:
        return _import_array(x, home, copy=is_copied)
    try:
        values = _read_host_values(x)
    except (AttributeError, TypeError, ValueError, BufferError, RuntimeError) as error:
        if is_interruption(error):
            raise
        raise ArgumentError(
            f"from_dlpack: {type(x).__name__} cannot be read through DLPack: {error}; it must be an "
            "array in host memory, or on the device of an open backend that reads DLPack there"
        ) from error
    if is_copied:
        return asarray(values, device=device)
    backend = resolve_backend(device)
    reference = find_numpy_backend()
    if reference is None or backend.name != reference.name:
        raise ArgumentValueError(
            f"from_dlpack: copy=False, but {backend.label} does not compute in the memory of the host; leave copy out"
        )
    if as_dtype(values.dtype) not in backend.dtypes():
        raise make_unsupported_dtype_error(as_dtype(values.dtype), backend)
    if not values.flags.aligned:
        raise ArgumentValueError(
            f"from_dlpack: copy=False, but the elements of this {type(x).__name__} do not begin at a multiple of "
            f"their {values.itemsize} bytes; leave copy out"
        )
    if values.dtype.kind == "b" and has_odd_bools(values):
        raise ArgumentValueError(
            f"from_dlpack: copy=False, but these bools of {type(x).__name__} have other bytes than 0 and 1; leave copy "
            "out, for a tensor with True in their place"
        )
    return wrap_array(values, backend)


def _read_host_values(x: Any) -> NDArray[Any]:
    """Return the values of an object with ``__dlpack__`` in host memory."""
    try:
        return np.from_dlpack(x)
    except (BufferError, RuntimeError) as error:  # NumPy does not know the kind of its elements
        if is_interruption(error):
            raise
        values = import_lazily("plugrad.tensor.bfloat16_capsules").import_bfloat16(x)
        if values is None:
            raise
        return values


def _find_dlpack_backend(x: Any, device: DeviceLike | None) -> Backend | None:
    """Return the backend that reads x where it is, without the host; None if there is none."""
    try:
        kind, number = x.__dlpack_device__()
        where = int(kind), int(number)
    except (AttributeError, TypeError, ValueError):  # NumPy's error says more
        return None
    if device is not None:
        candidates = [resolve_backend(device)]
    elif where == HOST:
        candidates = [active_backend()]
    else:
        candidates = opened_backends()
    return next((b for b in candidates if dlpack_device_of(b) == where and not b.lost), None)


def _import_array(x: Any, backend: Backend, *, copy: bool) -> Tensor:
    """Return an array of the device of a backend as a tensor there.

    Raises:
        ArgumentError: the backend does not take it.
        BackendFailed: the backend returns something else than an array.
        UnsupportedDtype: it has another dtype than the backend says that it stores.
    """
    try:
        array = backend.from_dlpack(x, copy=copy)
    except BufferError as error:
        raise ArgumentError(
            f"from_dlpack: {backend.label} does not take this {type(x).__name__}: {error}"
        ) from error
    except PlugradError as error:
        mark_device_lost(error, backend)
        raise
    except BaseException as error:  # so that a plugin's failure is not plugrad's
        if must_propagate(error, backend):
            raise
        raise make_backend_failed_error(backend, "from_dlpack()", error) from error
    shape, dtype = getattr(array, "shape", None), getattr(array, "dtype", None)
    if not isinstance(shape, tuple) or dtype is None:
        raise make_invalid_result_error(
            backend, "from_dlpack()", array, "an array with a shape and a dtype"
        )
    if as_dtype(dtype) not in backend.dtypes():
        raise make_unsupported_dtype_error(as_dtype(dtype), backend)
    return wrap_array(array, backend)
