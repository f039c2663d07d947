"""Make tensors of arrays and host values that no kernel returned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from plugrad.tensor.backend import copy_to_backend_array, make_unsupported_dtype_error
from plugrad.tensor.context import active_scope
from plugrad.tensor.tensor import Tensor
from plugrad.types.dtype import as_dtype

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from plugrad.tensor.backend import Backend


def wrap_array(array: Any, backend: Backend) -> Tensor:
    """Return a new tensor for an array that no kernel returned; the open `tidy` block tracks it."""
    tensor = Tensor(array, backend)
    scope = active_scope()
    if scope is not None:
        scope.track(tensor)
    return tensor


def alias(x: Tensor) -> Tensor:
    """Return a new tensor that shares the array and the tape node of x; an assignment to one does not change the other.

    An op that has nothing to do returns this and not `x`.
    """
    y = wrap_array(x.array, x.backend)
    y.node = x.node
    return y


def tensor_from_host(values: NDArray[Any], backend: Backend) -> Tensor:
    """Copy host values to a new tensor on `backend`.

    Raises:
        UnsupportedDtype: the backend does not have the dtype.
    """
    dtype = as_dtype(values.dtype)
    if dtype not in backend.dtypes():
        raise make_unsupported_dtype_error(dtype, backend)
    return wrap_array(copy_to_backend_array(values, backend), backend)
