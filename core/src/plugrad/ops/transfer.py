"""Tensors copied to other devices, tensors of values that the host computes, and tensors off the tape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from plugrad.discovery.listing import backends, find_plugin
from plugrad.discovery.selection import active_backend, resolve_backend
from plugrad.engine.results import alias, wrap_array
from plugrad.engine.transfer import copy_to_backend
from plugrad.errors import BackendNotFound, BackendUnavailable, PluginConflict, warn
from plugrad.ops.arguments import as_tensor
from plugrad.ops.dtypes import requested_dtype
from plugrad.tensor.tracer import Tracer, current_tracer
from plugrad.types.arguments import check_callable
from plugrad.types.dtype import DTypeLike, as_dtype, float32
from plugrad.types.shapes import as_shape

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from plugrad.discovery.selection import DeviceLike
    from plugrad.tensor.tensor import Tensor, TensorLike
    from plugrad.types.specs import ShapeLike


def host_value(
    function: Callable[[], Any],
    *,
    shape: ShapeLike = (),
    dtype: DTypeLike = float32,
    device: DeviceLike | None = None,
) -> Tensor:
    """A tensor of numbers that a function computes on the host; a traced program computes them anew at each call.

    It has no gradient. What Python computes while a function is traced is the same in each of its calls. A value
    that changes from call to call, such as the number of steps taken, belongs into such a function.

    >>> from itertools import count
    >>> from plugrad.extend import host_value
    >>> steps = count(1)
    >>> host_value(lambda: next(steps), dtype="int32")
    tensor(1, dtype=int32)

    Args:
        function: a function without arguments that returns a number, or an array of the shape. The values of a
            traced program are computed in the order in which they were asked for.
        shape: the shape of the tensor.
        dtype: its dtype.
        device: where the tensor lives; by default on the active backend.

    Raises:
        ArgumentError: `function` is not callable.
        UnsupportedDtype: the backend does not have the dtype.
    """
    check_callable("host_value", function)
    backend = resolve_backend(device)
    tracer = current_tracer()
    if tracer is not None and tracer is not backend:  # it is that of a tensor from outside
        outside = backend.target if isinstance(backend, Tracer) else backend
        backend = tracer.resolve_traced_backend(outside)
    wanted = requested_dtype(as_dtype(dtype), backend)
    return wrap_array(backend.host_value(function, as_shape(shape), wanted), backend)


def to_device(x: TensorLike, device: DeviceLike) -> Tensor:
    """A tensor on another backend or device with the values of x. Gradients come back the other way.

    >>> plugrad.to_device([1.0], "cpu").device
    'cpu:0'

    The copy has the shape and dtype of x.

    Raises:
        BackendNotFound, BackendUnavailable: naming the reason and the remedy.
        UnsupportedDtype: the backend has no such dtype.
    """
    backend = resolve_backend(device, "to_device")
    x = as_tensor(x, "to_device", backend=backend)
    y = copy_to_backend(x, backend)
    return alias(x) if y is x else y


def stop_gradient(x: TensorLike) -> Tensor:
    """Return the same values as a constant: gradients do not flow through.

    >>> import plugrad
    >>> plugrad.grad(lambda x: x * plugrad.stop_gradient(x))(3.0)
    tensor(3., dtype=float32)

    The result has the shape and dtype of x.

    Raises:
        ArgumentError: x does not convert to a tensor.
    """
    x = as_tensor(x, "stop_gradient")
    backend = x.backend
    return wrap_array(
        backend.without_tape(x.array) if isinstance(backend, Tracer) else x.array, backend
    )


def restore_pickled(values: NDArray[Any], device: str, *, distribution: str) -> Tensor:
    """Restore a pickled tensor on the device where it was; where that is not there, on the active backend.

    If several distributions bring a backend of that name, `distribution` says which one it was.
    """
    name = device.partition(":")[0]
    qualified = f"{distribution}::{name}"
    try:
        if _belongs_to_other_distribution(name, qualified):
            device = f"{distribution}::{device}"
        backend = resolve_backend(device)
    except (BackendNotFound, BackendUnavailable) as error:
        backend = active_backend()
        warn(f"a tensor that was pickled on {device!r} is on {backend.name!r} now: {error}")
    return as_tensor(values, "unpickled", backend=backend)


def _belongs_to_other_distribution(backend_name: str, qualified_name: str) -> bool:
    """Return whether a backend's name means the backend of another distribution, or those of several."""
    try:
        plugin = find_plugin(backend_name)
    except PluginConflict:
        return True
    return plugin.qualified_name != qualified_name and any(
        p.qualified_name == qualified_name for p in backends()
    )
