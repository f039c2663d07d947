"""The functions that the engine calls for a device's kernels: the backend's own, host functions or borrowed ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast
from weakref import WeakSet

import numpy as np

from plugrad.contract.kernel import contract_of
from plugrad.discovery.fallback import borrowed
from plugrad.discovery.selection import is_numpy_backend, numpy_backend
from plugrad.discovery.state import state
from plugrad.engine import watching
from plugrad.engine.checking import check_arrays, checked, checked_finite
from plugrad.engine.composites import of_arrays
from plugrad.errors import UnsupportedDtype
from plugrad.registry import kernels as registry
from plugrad.registry.composites import find_composite
from plugrad.registry.kernels import find_kernel, list_implementations, listen
from plugrad.settings.layers import config
from plugrad.tensor.backend import check_alive, store
from plugrad.tensor.choice import choose
from plugrad.types.dtype import INTEGER, as_dtype, string

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from plugrad.engine.watching import Watcher
    from plugrad.tensor.backend import Backend, Implementation, KernelConfig

_devices: WeakSet[Backend] = WeakSet()
"""The opened devices, whose functions change with the registry; it changes with the registry's lock held."""


class Implementations(dict[str, "Implementation"]):
    """The functions of one device by kernel name; each is looked up when it is first called."""

    def __init__(self, backend: Backend) -> None:
        """Start empty, because most programs use few kernels."""
        super().__init__()
        self._backend = backend
        with registry.lock:
            _devices.add(backend)

    def __missing__(self, kernel_name: str) -> Implementation:
        """Return the function that runs a kernel; it is kept from its first result on.

        The first result must be an array of the backend; to look at all of them would slow down
        every program. The function is kept until the registry or a setting changes.

        Raises:
            KernelNotFound: the backend does not implement the kernel, and the settings do not allow a fallback.
            DisposedTensor: the backend has been closed.
        """
        backend = self._backend
        check_alive(backend, kernel_name)
        settings = config.state
        found = list_implementations(kernel_name, backend)
        if not found:
            # Not kept: a composite may go with its plugin, and the settings may differ at the next call.
            contract = contract_of(kernel_name)
            composite = None if contract is None else find_composite(contract)
            if composite is not None:
                return of_arrays(composite, backend)
            return borrowed(kernel_name, backend)
        # No lock is held here: to read a setting may load plugins.
        function = combined(found, backend)
        if config.get("debug"):
            function = checked(kernel_name, function, backend)
        if config.get("check_finite"):
            function = checked_finite(kernel_name, function, backend)
        told = watching.watchers
        function = watching.watched(kernel_name, function, backend, told)

        def first(*arrays: Any, **attrs: Any) -> Any:
            result = function(*arrays, **attrs)
            check_arrays(kernel_name, result, backend, arrays, attrs)
            with registry.lock:  # a kept function must not be older than the registry
                is_current = config.state == settings and watching.watchers is told
                if is_current and list_implementations(kernel_name, backend) == found:
                    self[kernel_name] = function
            return result

        return first


def _forget(kernel_name: str, backend_name: str) -> None:
    for backend in _devices:
        if backend.name == backend_name:
            backend.functions.pop(kernel_name, None)  # with the lock: the registry is changing


def _forget_all() -> None:
    for backend in _devices:
        backend.functions.clear()


def _follow(setting: str) -> None:
    if setting in ("check_finite", "debug"):
        with registry.lock:
            _forget_all()


def watch(watcher: Watcher) -> None:
    """Tell a watcher of each call of an implementation from now on."""
    with registry.lock:
        watching.watchers = (*watching.watchers, watcher)
        _forget_all()


def unwatch(watcher: Watcher) -> None:
    """Tell a watcher of no further call."""
    with registry.lock:
        watching.watchers = tuple(each for each in watching.watchers if each is not watcher)
        _forget_all()


state.functions_of = Implementations
listen(_forget)
config.listeners.append(_follow)


# --- several implementations of one kernel -------------------------------------------------------


def combined(configs: Sequence[KernelConfig], backend: Backend) -> Implementation:
    """Return a function that calls the first implementation that is meant for the inputs.

    Those behind the first one that is meant for all inputs are not called.
    """
    first, *others = configs
    if not first.is_conditional:
        return adapted(first, backend)
    if not others:
        function = adapted(first, backend)  # also for small arrays, which nothing else takes
        if first.dtypes is None:
            return function
        everywhere = first._replace(min_bytes=0)
        return choose(function, _refusal(first), *everywhere.conditions)
    second = others[0]
    if second.is_conditional or first.on_host or second.on_host:
        following = combined(others, backend)
        return choose(adapted(first, backend), following, *first.conditions)
    function = backend.prepared_choice(first, second.kernel_func)
    return with_strings(first.kernel_name, function, backend)


def adapted(config: KernelConfig, backend: Backend) -> Implementation:
    """Return an implementation as a function of backend arrays, among which may be strings."""
    function = backend.prepared(config.kernel_name, config.kernel_func)
    if config.on_host:
        return on_host(function, backend)
    return with_strings(config.kernel_name, function, backend)


def _refusal(config: KernelConfig) -> Implementation:
    """Return a function that raises, for dtypes that the only implementation of a kernel does not take."""

    def refuse(*arrays: Any, **attrs: Any) -> Any:
        given = next(as_dtype(x.dtype) for x in arrays if x is not None)
        takes = ", ".join(sorted(map(str, config.dtypes or ())))
        raise UnsupportedDtype(
            f"{config.kernel_name} on backend {config.backend_name!r} does not take {given}; it takes {takes}"
        )

    return refuse


# --- on the host ---------------------------------------------------------------------------------


def on_host(function: Implementation, backend: Backend) -> Implementation:
    """Wrap a function of NumPy arrays as one of backend arrays; strings are on the host already."""

    def stored(values: Any) -> Any:
        values = np.asarray(values, order="C")
        return values if as_dtype(values.dtype) is string else store(values, backend)

    def implementation(*arrays: Any, **attrs: Any) -> Any:
        values = [x if x is None or x is backend else backend.to_numpy(x) for x in arrays]
        result = function(*values, **attrs)
        if isinstance(result, tuple | list):
            return [stored(part) for part in cast("Sequence[Any]", result)]
        return stored(result)

    return implementation


# --- strings, which are NumPy arrays on every backend --------------------------------------------


def holds_strings(x: Any) -> bool:
    """Return whether a backend array holds strings."""
    return isinstance(x, np.ndarray) and cast("NDArray[Any]", x).dtype.kind == "T"


def _may_hold_strings(kernel_name: str) -> bool:
    contract = contract_of(kernel_name)
    if contract is None or (contract.is_elementwise and string not in contract.accepts):
        return False
    # If the first input holds positions, the contract does not say what the others may hold.
    has_positions_first = contract.accepts <= INTEGER and len(contract.inputs) > 1
    return has_positions_first or string in contract.accepts or "dtype" in contract.attributes


def with_strings(kernel_name: str, own: Implementation, backend: Backend) -> Implementation:
    """Return a function that passes strings to a backend whose arrays are NumPy arrays."""
    if not _may_hold_strings(kernel_name) or is_numpy_backend(backend):
        return own

    def implementation(*arrays: Any, **attrs: Any) -> Any:
        if attrs.get("dtype") is string or any(map(holds_strings, arrays)):
            return of_strings(*arrays, **attrs)
        return own(*arrays, **attrs)

    def of_strings(*arrays: Any, **attrs: Any) -> Any:
        reference = numpy_backend()
        if reference is None or find_kernel(kernel_name, reference) is None:
            raise UnsupportedDtype(
                f"{kernel_name} on backend {backend.name!r} does not take string; it takes numbers"
            )
        return on_host(reference.functions[kernel_name], backend)(*arrays, **attrs)

    return implementation
