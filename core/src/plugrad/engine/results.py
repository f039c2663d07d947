"""Arrays and host values that do not come from kernels, wrapped as tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from plugrad.tensor.backend import store, unsupported
from plugrad.tensor.context import active_scope
from plugrad.tensor.tensor import Tensor
from plugrad.types.dtype import as_dtype

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from plugrad.tensor.backend import Backend


def wrapped(array: Any, backend: Backend) -> Tensor:
    """Wrap an array that does not come from a kernel as a new tensor, tracked by the open `tidy` block."""
    tensor = Tensor(array, backend)
    scope = active_scope()
    if scope is not None:
        scope.track(tensor)
    return tensor


def renamed(x: Tensor) -> Tensor:
    """Return another tensor with the same array, on the same tape, so that ``x[key] = value`` does not change it.

    An op that has nothing to do returns this and not `x`.
    """
    y = wrapped(x.array, x.backend)
    y.node = x.node
    return y


def tensor_from(values: NDArray[Any], backend: Backend) -> Tensor:
    """Return host values, copied, as a tensor on `backend`.

    Raises:
        UnsupportedDtype: the backend does not have the dtype.
    """
    dtype = as_dtype(values.dtype)
    if dtype not in backend.dtypes():
        raise unsupported(dtype, backend)
    return wrapped(store(values, backend), backend)
