"""Tensors on other backends and devices, and tensors without a tape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from plugrad.discovery.listing import backends, find_plugin
from plugrad.discovery.selection import active_backend, resolve_backend
from plugrad.engine.results import alias, wrap_array
from plugrad.engine.transfer import copy_to_backend
from plugrad.errors import BackendNotFound, BackendUnavailable, PluginConflict, warn
from plugrad.ops.arguments import as_tensor
from plugrad.tensor.tracer import Tracer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from plugrad.discovery.selection import DeviceLike
    from plugrad.tensor.tensor import Tensor, TensorLike


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


def _belongs_to_other_distribution(name: str, qualified: str) -> bool:
    """Return whether a backend's name stands for that of another distribution, or for several."""
    try:
        plugin = find_plugin(name)
    except PluginConflict:
        return True
    return plugin.qualified_name != qualified and any(
        p.qualified_name == qualified for p in backends()
    )
