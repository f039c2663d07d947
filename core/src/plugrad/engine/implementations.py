"""The function that the engine calls for each kernel of a device: the backend's own, a host body, or a fallback."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final, cast
from weakref import WeakSet, ref

import numpy as np

from plugrad.contract.kernel import get_contract
from plugrad.discovery.fallback import fallback_implementation
from plugrad.discovery.selection import find_numpy_backend, is_numpy_backend
from plugrad.discovery.state import state
from plugrad.engine import watching
from plugrad.engine.checking import check_result_arrays, with_contract_checks, with_finite_checks
from plugrad.engine.composites import composite_implementation
from plugrad.errors import UnsupportedDtype
from plugrad.registry.composites import find_composite
from plugrad.registry.kernels import add_listener, find_kernel, list_implementations
from plugrad.settings import journal
from plugrad.settings.layers import config, overridden_settings
from plugrad.tensor.backend import check_device_alive, copy_to_backend_array
from plugrad.tensor.choice import choose_implementation
from plugrad.tensor.context import CHECK_SETTING_NAMES, active_overrides
from plugrad.types.dtype import (
    INTEGER,
    as_dtype,
    dtype_addition_listeners,
    known_bfloat16,
    string,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from plugrad.engine.watching import Watcher
    from plugrad.tensor.backend import Backend, Implementation, KernelConfig
    from plugrad.tensor.context import Overrides

_live_backends: WeakSet[Backend] = WeakSet()
"""The opened devices, whose functions change with the registry; the registry's lock protects the set."""


class Implementations(dict[str, "Implementation"]):
    """The functions of one device by kernel name; each is looked up when it is first called."""

    def __init__(self, backend: Backend) -> None:
        """Start empty, because most programs use few kernels."""
        super().__init__()
        self._backend = backend
        self.local: dict[ref[Overrides], LocalImplementations] = {}
        """The functions in contexts with overrides."""
        self._ended: list[ref[Overrides]] = []
        """The contexts that have ended. Python drops what a handler of signals raises in a callback of a reference, as
        `WeakKeyDictionary` has one: that of C calls no Python code."""
        with journal.registration_lock:
            _live_backends.add(backend)

    def discard(self, kernel_name: str) -> None:
        """Forget a function, also in contexts with overrides; call it with the registry's lock held."""
        self.pop(kernel_name, None)
        for functions in self.local.values():
            functions.pop(kernel_name, None)

    def find_local(self, overrides: Overrides) -> LocalImplementations:
        """Return the functions in a context with overrides; call it with the registry's lock held."""
        while self._ended:
            self.local.pop(self._ended.pop(), None)
        found = self.local.get(ref(overrides))
        if found is None:
            key = ref(overrides, self._ended.append)
            found = self.local[key] = LocalImplementations(self._backend)
        return found

    def clear(self) -> None:
        """Forget all functions, also in contexts with overrides."""
        with journal.registration_lock:
            super().clear()
            self.local.clear()

    def __missing__(self, kernel_name: str) -> Implementation:
        """Return the function that runs a kernel; it is kept from its first result on.

        The first result must be an array of the backend; to look at all of them would slow down
        every program. The function is kept until the registry or a setting changes.

        Raises:
            KernelNotFound: the backend does not implement the kernel, and the settings do not allow a fallback.
            DisposedTensor: the backend has been closed.
        """
        backend = self._backend
        check_device_alive(backend, kernel_name)
        settings = config.state
        found = list_implementations(kernel_name, backend)
        if not found:
            # Not kept: a composite may go with its plugin, and the settings may differ at the next call.
            contract = get_contract(kernel_name)
            composite = None if contract is None else find_composite(contract)
            if composite is not None:
                return composite_implementation(composite, backend)
            return fallback_implementation(kernel_name, backend)
        # No lock is held here: to read a setting may load plugins.
        has_bfloat16 = known_bfloat16()
        function = backend.complete_implementation(found, dispatch_on_conditions(found, backend))
        if config.get("debug"):
            function = with_contract_checks(kernel_name, function, backend)
        if config.get("check_finite"):
            function = with_finite_checks(kernel_name, function, backend)
        told = watching.watchers
        function = watching.with_watchers(kernel_name, function, backend, told)

        def run_first_call(*arrays: Any, **attrs: Any) -> Any:
            result = function(*arrays, **attrs)
            check_result_arrays(kernel_name, result, backend, arrays, attrs)
            with journal.registration_lock:  # a kept function must not be older than the registry
                is_current = (
                    config.state == settings
                    and watching.watchers is told
                    and known_bfloat16() == has_bfloat16
                )
                if is_current and list_implementations(kernel_name, backend) == found:
                    self[kernel_name] = function
            return result

        return run_first_call


class LocalImplementations(Implementations):
    """The functions of one device in a context with overrides; those that are not overridden are the device's own."""

    def __missing__(self, kernel_name: str) -> Implementation:
        """Return the function that runs a kernel."""
        backend, overrides = self._backend, active_overrides()
        is_other = overrides is not None and (
            (kernel_name, backend.name) in overrides.kernels or bool(overrides.checks)
        )
        return super().__missing__(kernel_name) if is_other else backend.functions[kernel_name]


def functions_with_overrides(
    backend: Backend, overrides: Overrides | None
) -> Mapping[str, Implementation]:
    """Return the functions of a device in this context, whose overrides are given."""
    shared = backend.functions
    if overrides is None or not isinstance(shared, Implementations):
        return shared
    with journal.registration_lock:
        return shared.find_local(overrides)


def active_functions(backend: Backend) -> Mapping[str, Implementation]:
    """Return the functions of a device in this context, by the names of their kernels.

    Each is looked up when it is first asked for, and raises at its call if there is none.
    """
    return functions_with_overrides(backend, active_overrides())


def _discard_implementation(kernel_name: str, backend_name: str) -> None:
    """Forget a kernel's function in each open device of a backend."""
    for backend in _live_backends:
        if backend.name == backend_name and isinstance(backend.functions, Implementations):
            backend.functions.discard(kernel_name)


def _discard_all_implementations() -> None:
    """Forget the functions of all open devices."""
    for backend in _live_backends:
        backend.functions.clear()


def _on_setting_changed(setting_name: str) -> None:
    if setting_name in CHECK_SETTING_NAMES and setting_name not in overridden_settings():
        with journal.registration_lock:
            _discard_all_implementations()


def _on_dtype_added() -> None:
    with journal.registration_lock:
        _discard_all_implementations()


def add_watcher(watcher: Watcher) -> None:
    """Notify a watcher of each implementation call from now on."""
    with journal.registration_lock:
        watching.watchers = (*watching.watchers, watcher)
        _discard_all_implementations()


def remove_watcher(watcher: Watcher) -> None:
    """Stop notifying a watcher."""
    with journal.registration_lock:
        watching.watchers = tuple(each for each in watching.watchers if each is not watcher)
        _discard_all_implementations()


state.create_implementations, state.functions_with_overrides = (
    Implementations,
    functions_with_overrides,
)
add_listener(_discard_implementation)
config.listeners.append(_on_setting_changed)
dtype_addition_listeners.append(_on_dtype_added)


# --- several implementations of one kernel -------------------------------------------------------


def dispatch_on_conditions(configs: Sequence[KernelConfig], backend: Backend) -> Implementation:
    """Return a function that calls the first implementation that is meant for the inputs.

    Those behind the first one that is meant for all inputs are not called.
    """
    first, *others = configs
    if not first.is_conditional:
        return adapt_implementation(first, backend)
    if not others:
        function = adapt_implementation(
            first, backend
        )  # also for small arrays, which nothing else takes
        if first.dtypes is None:
            return function
        everywhere = first._replace(min_bytes=0)
        return choose_implementation(function, _make_dtype_refusal(first), *everywhere.conditions)
    second = others[0]
    if second.is_conditional or first.on_host or second.on_host:
        following = dispatch_on_conditions(others, backend)
        return choose_implementation(
            adapt_implementation(first, backend), following, *first.conditions
        )
    function = backend.join_implementations(first, second.kernel_func)
    return route_strings_to_numpy(first.kernel_name, function, backend)


def adapt_implementation(config: KernelConfig, backend: Backend) -> Implementation:
    """Return an implementation as a function of backend arrays, among which may be strings."""
    function = backend.wrap_implementation(config.kernel_name, config.kernel_func)
    if config.on_host:
        return wrap_host_function(function, backend)
    return route_strings_to_numpy(config.kernel_name, function, backend)


def _make_dtype_refusal(config: KernelConfig) -> Implementation:
    """Return a function that raises UnsupportedDtype, for dtypes that a kernel's only implementation does not take."""

    def refuse(*arrays: Any, **attrs: Any) -> Any:
        given = next(as_dtype(x.dtype) for x in arrays if x is not None)
        takes = ", ".join(sorted(map(str, config.dtypes or ())))
        raise UnsupportedDtype(
            f"{config.kernel_name} on backend {config.backend_name!r} does not take {given}; it takes {takes}"
        )

    return refuse


# --- on the host ---------------------------------------------------------------------------------


def wrap_host_function(function: Implementation, backend: Backend) -> Implementation:
    """Adapt a function of NumPy arrays to backend arrays; string arrays are on the host already."""

    def store_result(values: Any) -> Any:
        values = np.asarray(values, order="C")
        return (
            values if as_dtype(values.dtype) is string else copy_to_backend_array(values, backend)
        )

    def implementation(*arrays: Any, **attrs: Any) -> Any:
        values = [x if x is None or x is backend else backend.to_numpy(x) for x in arrays]
        result = function(*values, **attrs)
        if isinstance(result, tuple | list):
            return [store_result(part) for part in cast("Sequence[Any]", result)]
        return store_result(result)

    return implementation


# --- strings, which are NumPy arrays on every backend --------------------------------------------


def holds_strings(x: Any) -> bool:
    """Return whether a backend array holds strings."""
    return isinstance(x, np.ndarray) and cast("NDArray[Any]", x).dtype.kind == "T"


def _accepts_strings(kernel_name: str) -> bool:
    """Return whether a kernel may get arrays of strings."""
    contract = get_contract(kernel_name)
    if contract is None or (contract.is_elementwise and string not in contract.accepts):
        return False
    # If the first input holds positions, the contract does not say what the others may hold.
    has_positions_first = contract.accepts <= INTEGER and len(contract.inputs) > 1
    return has_positions_first or string in contract.accepts or "dtype" in contract.attributes


ROUTER_SOURCE_TEMPLATE: Final = """\
def bind(_own, _run_on_strings):
    def implementation({inputs}{parameters}):
        if {condition}:
            return _run_on_strings({inputs}{arguments})
        return _own({inputs}{arguments})

    return implementation
"""
"""The source of a function that makes a router of calls with strings, with placeholders in braces."""


@cache
def _compile_router_factory(inputs: str, attributes: tuple[str, ...]) -> Callable[..., Any]:
    """Return a function that makes a router of calls with strings, whose parameters are given as source and by name.

    A function of any arguments would take a third of a microsecond longer.
    """
    arrays = inputs.split(", ")
    tests = [f"isinstance({x}, _ndarray) and _holds_strings({x})" for x in arrays]
    if inputs == "*arrays":
        tests = ["any(map(_holds_strings, arrays))"]
    if "dtype" in attributes:
        tests.append("dtype is _string")
    text = ROUTER_SOURCE_TEMPLATE.format(
        inputs=inputs,
        parameters="".join(
            [", *" * bool(attributes and inputs != "*arrays"), *(f", {a}" for a in attributes)]
        ),
        arguments="".join([f", {a}={a}" for a in attributes]),
        condition=" or ".join(tests),
    )
    bound: dict[str, Any] = {
        "_ndarray": np.ndarray,
        "_holds_strings": holds_strings,
        "_string": string,
    }
    exec(text, bound)
    return bound["bind"]


def route_strings_to_numpy(
    kernel_name: str, own_implementation: Implementation, backend: Backend
) -> Implementation:
    """Return a function that routes calls with string arrays to the backend that stores NumPy arrays."""
    if not _accepts_strings(kernel_name) or is_numpy_backend(backend):
        return own_implementation

    def run_on_strings(*arrays: Any, **attrs: Any) -> Any:
        reference = find_numpy_backend()
        if reference is None or find_kernel(kernel_name, reference) is None:
            raise UnsupportedDtype(
                f"{kernel_name} on backend {backend.name!r} does not take string; it takes numbers"
            )
        function = functions_with_overrides(reference, active_overrides())[kernel_name]
        return wrap_host_function(function, backend)(*arrays, **attrs)

    contract = get_contract(kernel_name)
    assert contract is not None
    inputs = "*arrays" if contract.inputs_vary else ", ".join(contract.inputs or ("backend",))
    make_router = _compile_router_factory(inputs, tuple(contract.attributes))
    return make_router(own_implementation, run_on_strings)
