"""The kernel registry: which implementation of a kernel a device runs.

The first of these that exists is in effect, in whatever order they were registered: what the program
overrides in this context, what it registered with ``replace=True``, the kernel packs in their order, the device's own,
and what the program registered without ``replace``. The program's registrations are kept here, by the names of kernel
and backend. Overrides are kept in the context, and the others in `Backend.kernels` of an opened device.
"""

from __future__ import annotations

import inspect
from contextlib import contextmanager
from functools import partial
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from weakref import WeakKeyDictionary

from plugrad.contract.kernel import get_contract
from plugrad.contract.parameters import inspect_parameters
from plugrad.errors import (
    ArgumentError,
    KernelNotFound,
    RegistrationError,
    short_repr,
    suggest_similar_name,
    warn,
)
from plugrad.settings import journal
from plugrad.settings.layers import config as settings
from plugrad.tensor.backend import KernelConfig
from plugrad.tensor.context import RegistryOverride, active_overrides, override_registry
from plugrad.types.arguments import check_flag, check_string, explain_wrong_calls
from plugrad.types.dtype import DType

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence

    from plugrad.contract.kernel import Kernel
    from plugrad.tensor.backend import Backend, KernelTables

KernelKey = tuple[str, str]
"""The names of a kernel and of a backend."""


class _RegisteredKernel(NamedTuple):
    """A kernel implementation that the program has registered, rather than a backend or a plugin."""

    config: KernelConfig
    """The implementation, with the names of its kernel and backend."""
    replaces: bool = False
    """Whether it was registered with ``replace=True``."""


_registrations: Final[dict[KernelKey, tuple[_RegisteredKernel, ...]]] = {}
"""The program's registrations under each key; the last one counts."""
_open_devices: Final[WeakKeyDictionary[Backend, None]] = WeakKeyDictionary()
"""The opened devices, in the order in which they were opened."""
_implementation_listeners: Final[list[Callable[[str, str], None]]] = []
"""Functions that are called with the names of kernel and backend when an implementation changes."""


def add_listener(listener: Callable[[str, str], None]) -> None:
    """Call a function with the names of kernel and backend whenever an implementation changes."""
    _implementation_listeners.append(listener)


def _set_registrations(key: KernelKey, registrations: tuple[_RegisteredKernel, ...]) -> None:
    """Change the program's registrations under a key, and note the change."""
    before = _registrations.get(key, ())
    undo = partial(_exchange_registrations, key, registrations, before)
    redo = partial(_exchange_registrations, key, before, registrations)
    replaced = bool(before) or any(
        _list_table_implementations(key[0], d) for d in open_devices_of_backend(key[1])
    )
    journal.record_change(("kernel", *key), undo, redo, is_replacement=replaced)
    _store_registrations(key, registrations)


def _exchange_registrations(
    key: KernelKey, old: tuple[_RegisteredKernel, ...], new: tuple[_RegisteredKernel, ...]
) -> None:
    """Replace a kernel's registrations `old` by `new`, and keep the registrations that are in neither."""
    with journal.registration_lock:
        now = _registrations.get(key, ())
        others = tuple(e for e in now if all(e is not known for known in (*old, *new)))
        _store_registrations(key, new + others)


def _store_registrations(key: KernelKey, registrations: tuple[_RegisteredKernel, ...]) -> None:
    """Store the program's registrations under a key, or remove the key if there are none."""
    if registrations:
        _registrations[key] = registrations
    else:
        _registrations.pop(key, None)
    _notify_listeners([key[0]], key[1])


def _notify_listeners(kernel_names: Iterable[str], backend_name: str) -> None:
    """Call the listeners for kernels of a backend that have changed."""
    for kernel_name in kernel_names:
        for listener in _implementation_listeners:
            listener(kernel_name, backend_name)
    journal.record_change_number()


# --- the kernels of opened devices ---------------------------------------------------------------


def add_device(backend: Backend, owner: str, configs: Iterable[KernelConfig]) -> None:
    """Give a device, just opened by the plugin called `owner`, its own kernels, or none if one is wrong.

    `owner` is the qualified name of its plugin. What the program registered before without ``replace=True``
    gives way to the device's own kernels, with a warning.
    """
    configs = list(configs)
    _check_configs(configs)
    own = {config.kernel_name: config for config in configs}
    with journal.registration_lock:
        _open_devices[backend] = None
        set_kernel_tables(backend, {owner: own})
        hidden = [
            name for name in own if _yields_to_device(_registrations.get((name, backend.name)))
        ]
    for name in hidden:  # without the lock, because a warning may call anything
        warn(
            f"backend {backend.name!r} has its own kernel {name!r}, which replaces the one that was registered "
            "before the backend was loaded; pass replace=True to register_kernel to keep yours"
        )


def _yields_to_device(registrations: tuple[_RegisteredKernel, ...] | None) -> bool:
    """Return whether the program's registration gives way to a device's own kernel."""
    return registrations is not None and not registrations[-1].replaces


def remove_device(backend: Backend) -> None:
    """Forget the kernels of a device that has been closed, or could not be opened."""
    with journal.registration_lock:
        _open_devices.pop(backend, None)
        set_kernel_tables(backend, {})


def open_devices_of_backend(backend_name: str) -> list[Backend]:
    """Return the opened devices of a backend, the one that was opened first at the front."""
    return [backend for backend in list(_open_devices) if backend.name == backend_name]


def set_kernel_tables(backend: Backend, tables: KernelTables) -> None:
    """Set the implementations that a device has besides the program's: by owner, the first in effect at the front."""
    with journal.registration_lock:
        before = getattr(backend, "kernels", {})
        backend.kernels = tables
        names = {name for table in (*before.values(), *tables.values()) for name in table}
        _notify_listeners(names, backend.name)


def add_kernel_table(
    backend: Backend, owner: str, configs: Sequence[KernelConfig], owners: Sequence[str]
) -> None:
    """Give a device the kernels of the plugin called `owner`, or none if one of them is wrong.

    `owners` has the plugins that bring kernels, the first in effect at the front; the device's own come last.
    """
    _check_configs(configs)
    _warn_in_debug_mode(configs)
    with journal.registration_lock:
        tables = {**backend.kernels, owner: {config.kernel_name: config for config in configs}}
        set_kernel_tables(backend, _sort_tables(tables, owners))


def remove_kernel_table(backend: Backend, owner: str) -> None:
    """Take the kernels of the plugin called `owner` from a device; those that they replaced are in effect again."""
    with journal.registration_lock:
        if owner in backend.kernels:
            set_kernel_tables(
                backend, {o: table for o, table in backend.kernels.items() if o != owner}
            )


def order_kernel_tables(backend: Backend, owners: Sequence[str]) -> None:
    """Sort the kernel tables of a device in the order of `owners`, the qualified names of plugins."""
    with journal.registration_lock:
        tables = _sort_tables(backend.kernels, owners)
        if list(tables) != list(backend.kernels):
            set_kernel_tables(backend, tables)


def _sort_tables(tables: KernelTables, owners: Sequence[str]) -> KernelTables:
    """Return kernel tables in the order of their owners; those of others come last."""
    places = {owner: place for place, owner in enumerate(owners)}
    return {o: tables[o] for o in sorted(tables, key=lambda o: places.get(o, len(places)))}


def find_kernel(kernel_name: str, backend: Backend) -> KernelConfig | None:
    """Return the implementation of a kernel that is in effect on a device, or None."""
    return next(iter(list_implementations(kernel_name, backend)), None)


def list_implementations(kernel_name: str, backend: Backend) -> list[KernelConfig]:
    """Return all implementations of a kernel on a device, in order: the first one is in effect."""
    return [
        *_list_overrides(kernel_name, backend.name),
        *_list_registered(kernel_name, backend),
    ]


def _list_registered(kernel_name: str, backend: Backend) -> list[KernelConfig]:
    """Return all implementations of a kernel on a device, whatever this context overrides."""
    tables = _list_table_implementations(kernel_name, backend)
    entries = _registrations.get((kernel_name, backend.name))
    if not entries:
        return tables
    above = [entry.config for entry in reversed(entries) if entry.replaces]
    below = [entry.config for entry in reversed(entries) if not entry.replaces]
    return [*above, *tables, *below]


def _list_overrides(kernel_name: str, backend_name: str) -> list[KernelConfig]:
    """Return this context's overrides of an implementation, the one in effect first."""
    overrides = active_overrides()
    return [] if overrides is None else overrides.kernels.get((kernel_name, backend_name), [])


def _list_table_implementations(kernel_name: str, backend: Backend) -> list[KernelConfig]:
    """Return the implementations of packs in their order, and then the device's own."""
    return [table[kernel_name] for table in backend.kernels.values() if kernel_name in table]


def list_kernels(backend: Backend) -> list[KernelConfig]:
    """Return the implementations in effect on a device."""
    names = {name: None for table in reversed(backend.kernels.values()) for name in table}
    names |= dict.fromkeys(_program_kernel_names(backend.name))
    found = (find_kernel(name, backend) for name in names)
    return [config for config in found if config is not None]


def _program_kernel_names(backend_name: str) -> list[str]:
    """Return the names of the kernels that the program has registered or overrides for a backend."""
    overrides = active_overrides()
    keys = [*list(_registrations), *(() if overrides is None else overrides.kernels)]
    return [name for name, owner in keys if owner == backend_name]


# --- the kernels of the program ------------------------------------------------------------------


@explain_wrong_calls
def register_kernel(config: KernelConfig, *, replace: bool = False) -> None:
    """Register one implementation.

    >>> import numpy as np, plugrad
    >>> plugrad.register_kernel(plugrad.KernelConfig("ThirdPower", "cpu", lambda x: x**3))
    >>> plugrad.run_kernel("ThirdPower", {"x": plugrad.asarray([2.0])})
    tensor([8.], dtype=float32)
    >>> removed = plugrad.unregister_kernel("ThirdPower", "cpu")

    With ``replace=True`` it takes effect even if the backend brings its own implementation when it is
    loaded later.

    Raises:
        RegistrationError: the key is taken and `replace` is False, the function does not fit the
            contract, or the name of the backend is almost that of an installed one. A name that is
            unlike them is that of a backend that may come later.
    """
    register_kernels([config], replace=replace)


def register_kernels(configs: Iterable[KernelConfig], *, replace: bool = False) -> None:
    """Register several implementations, or none if one of them is wrong."""
    replace = check_flag(replace, "register_kernel", "replace")
    configs = list(configs)
    _check_configs(configs)
    if replace:
        _warn_in_debug_mode(configs)
    with journal.registration_lock:
        for config in configs:
            if not replace and _find_registered_kernel(*config[:2]) is not None:
                raise RegistrationError(
                    f"kernel {config.kernel_name!r} is registered for backend {config.backend_name!r} "
                    "already; pass replace=True, or use override_kernel to replace it temporarily"
                )
        for config in configs:
            _set_registrations(config[:2], (_RegisteredKernel(config, replace),))


def _warn_in_debug_mode(configs: Iterable[KernelConfig]) -> None:
    """Warn of each kernel that is replaced, if the setting debug is on."""
    # Without the lock: to read a setting may load plugins, and a warning may call anything.
    for config in configs:
        if _find_kernel_by_name(*config[:2]) is not None and settings.get("debug"):
            warn(
                f"{config.kernel_name} on backend {config.backend_name!r} is replaced (the setting debug is on)"
            )


def _check_configs(configs: Iterable[KernelConfig]) -> None:
    """Raise unless all configs are valid implementations of declared kernels, each given once."""
    seen: set[KernelKey] = set()
    for config in configs:
        if not isinstance(config, KernelConfig):  # pyright: ignore[reportUnnecessaryIsInstance] - plugins bring anything
            raise ArgumentError(
                f"register_kernel takes a KernelConfig, not {type(config).__name__}"
            )
        check_string(config.kernel_name, "KernelConfig", "kernel_name")
        check_string(config.backend_name, "KernelConfig", "backend_name")
        if config[:2] in seen:
            raise RegistrationError(
                f"kernel {config.kernel_name!r} is registered for backend {config.backend_name!r} twice at once"
            )
        seen.add(config[:2])
        check_parameters(config)
        _check_conditions(config)
    for name in {name for _, name in seen}:
        _check_backend(name)


def _check_conditions(config: KernelConfig) -> None:
    """Raise unless an implementation says properly for which inputs it is meant.

    Raises:
        RegistrationError: the message names the kernel, the field and its value.
    """
    dtypes = [*(config.dtypes or ()), *config.broadcast_dtypes]
    contract = get_contract(config.kernel_name)
    if wrong := [d for d in dtypes if not isinstance(d, DType)]:  # pyright: ignore[reportUnnecessaryIsInstance] - plugins bring anything
        problem = f"dtypes must be dtypes of plugrad, not {short_repr(wrong[0])}; convert it with as_dtype"
    elif config.broadcast_dtypes and config.dtypes is None:
        problem = "broadcast_dtypes are more dtypes than those in dtypes, which it must say, too"
    elif type(config.min_bytes) is not int or config.min_bytes < 0:
        problem = (
            f"min_bytes={short_repr(config.min_bytes)} must be an integer that is not negative"
        )
    elif config.is_conditional and contract is not None and not contract.inputs:
        problem = "the kernel has no inputs, whose dtypes or bytes could decide"
    else:
        return
    raise RegistrationError(f"{config.kernel_name} on {config.backend_name!r}: {problem}")


def _check_backend(backend_name: str) -> None:
    """Raise if a backend's name is probably misspelt: its kernels would never be called.

    Raises:
        RegistrationError: an installed backend has a similar name, and none this one.
    """
    known = settings.options_by_backend()
    if backend_name not in known and get_contract(backend_name) is not None:
        raise RegistrationError(
            f"KernelConfig: {backend_name!r} is the name of a kernel; it stands before that of the backend"
        )
    # Backends may rightly have similar names, such as one_gpu.
    if backend_name not in known and (
        meant := suggest_similar_name(backend_name, known, min_similarity=0.75)
    ):
        raise RegistrationError(
            f"KernelConfig: no backend is called {backend_name!r}{meant}; "
            f"the installed ones are {', '.join(sorted(known))}"
        )


def unregister_kernel(kernel_name: str, backend_name: str) -> KernelConfig:
    """Remove the implementation that is in effect, and return it; `override_kernel` is not affected.

    Raises:
        KernelNotFound: there is none.
    """
    check_string(kernel_name, "unregister_kernel", "kernel_name")
    check_string(backend_name, "unregister_kernel", "backend_name")
    with journal.registration_lock:
        found = _find_registered_kernel(kernel_name, backend_name)
        if found is None:
            raise KernelNotFound(
                f"no kernel {kernel_name!r} is registered for backend {backend_name!r}; nothing to unregister"
            )
        key = kernel_name, backend_name
        entries = _registrations.get(key, ())
        if entries and entries[-1].config is found:
            _set_registrations(key, entries[:-1])
        else:
            for backend in open_devices_of_backend(backend_name):
                _remove_from_tables(kernel_name, backend)
        return found


def _remove_from_tables(kernel_name: str, backend: Backend) -> None:
    """Remove the implementation that is the first in a device's tables, and note the change."""
    for table in backend.kernels.values():
        if kernel_name in table:
            config = table[kernel_name]
            undo = partial(
                _exchange_in_table, backend, table, kernel_name, journal.MISSING_VALUE, config
            )
            redo = partial(
                _exchange_in_table, backend, table, kernel_name, config, journal.MISSING_VALUE
            )
            journal.record_change(
                ("kernel", kernel_name, backend.name), undo, redo, is_replacement=True
            )
            redo()
            return


def _exchange_in_table(
    backend: Backend, table: dict[str, KernelConfig], kernel_name: str, old: object, new: object
) -> None:
    """Replace the entry `old` of a kernel in a device's table by `new`, unless it has changed; notify the listeners."""
    with journal.registration_lock:
        journal.exchange_table_entry(table, kernel_name, old, new)
        _notify_listeners([kernel_name], backend.name)


def get_kernel(kernel_name: str, backend_name: str) -> KernelConfig | None:
    """Return the implementation in effect of a kernel on a backend, or None.

    If several devices of the backend are open, it is that of the one that was opened first and has the
    kernel. If none is open, it is what the program has registered.
    """
    check_string(kernel_name, "get_kernel", "kernel_name")
    check_string(backend_name, "get_kernel", "backend_name")
    return _find_kernel_by_name(kernel_name, backend_name)


def _find_kernel_by_name(kernel_name: str, backend_name: str) -> KernelConfig | None:
    """Return the implementation of a kernel in effect on a backend's first opened device, or None."""
    overrides = _list_overrides(kernel_name, backend_name)
    return overrides[0] if overrides else _find_registered_kernel(kernel_name, backend_name)


def _find_registered_kernel(kernel_name: str, backend_name: str) -> KernelConfig | None:
    """Return the implementation registered for a backend, whatever this context overrides, or None."""
    for backend in open_devices_of_backend(backend_name):
        if registered := _list_registered(kernel_name, backend):
            return registered[0]
    entries = _registrations.get((kernel_name, backend_name))
    return entries[-1].config if entries else None


def is_registered_with_replace(kernel_name: str, backend_name: str) -> bool:
    """Return whether the program's implementation stays in effect when the backend brings its own."""
    entries = _registrations.get((kernel_name, backend_name))
    return bool(_list_overrides(kernel_name, backend_name)) or (
        bool(entries) and entries[-1].replaces
    )


def get_kernels_for_backend(backend_name: str) -> list[KernelConfig]:
    """Return the implementations in effect for one backend: for each kernel, what `get_kernel` returns."""
    check_string(backend_name, "get_kernels_for_backend", "backend_name")
    names: dict[str, None] = {}
    for backend in open_devices_of_backend(backend_name):
        names |= {config.kernel_name: None for config in list_kernels(backend)}
    names |= dict.fromkeys(_program_kernel_names(backend_name))
    found = (_find_kernel_by_name(name, backend_name) for name in names)
    return [config for config in found if config is not None]


def copy_registered_kernels(source: str, target: str, *, replace: bool = False) -> None:
    """Register every implementation of backend `source` for backend `target` too."""
    register_kernels(
        [c._replace(backend_name=target) for c in get_kernels_for_backend(source)], replace=replace
    )


@explain_wrong_calls
@contextmanager
def override_kernel(
    kernel_name: str, backend_name: str, kernel_func: Callable[..., Any]
) -> Generator[None, None, None]:
    """Use another implementation inside a ``with`` block, in this thread or task only.

    Blocks for one kernel may be nested, and may end in any order. `plugrad.carry_context` carries the override to
    other threads. It may begin before the backend is loaded.
    """
    config = KernelConfig(kernel_name, backend_name, kernel_func)
    _check_configs([config])
    _warn_in_debug_mode([config])
    with override_registry(RegistryOverride("kernel", config[:2], config)):
        yield


# --- all of it -----------------------------------------------------------------------------------


class RegistrySnapshot(NamedTuple):
    """The registrations at one moment."""

    entries: dict[KernelKey, tuple[_RegisteredKernel, ...]]
    """The program's registrations by key."""
    tables: list[tuple[Backend, KernelTables]]
    """For each opened device, its tables of kernels."""


def take_snapshot() -> RegistrySnapshot:
    """Return the current registrations, for `restore_snapshot`."""
    with journal.registration_lock:
        return RegistrySnapshot(
            dict(_registrations), [(d, _copy_tables(d.kernels)) for d in list(_open_devices)]
        )


def _copy_tables(tables: KernelTables) -> KernelTables:
    """Return a copy of a device's kernel tables, by owner."""
    return {owner: dict(table) for owner, table in tables.items()}


def restore_snapshot(snapshot: RegistrySnapshot) -> None:
    """Restore the registry to its state when `take_snapshot` was called, without the devices that are closed now."""
    with journal.registration_lock:
        for key in _registrations.keys() | snapshot.entries.keys():
            if _registrations.get(key) != snapshot.entries.get(key):
                _set_registrations(key, snapshot.entries.get(key, ()))
        for backend, tables in snapshot.tables:
            if backend in _open_devices and backend.kernels != tables:
                set_kernel_tables(backend, _copy_tables(tables))


def check_parameters(config: KernelConfig) -> None:
    """Raise unless the function takes the contract's inputs by position and its attributes by keyword.

    A kernel without a contract, and a function whose parameters Python cannot inspect, pass.

    Raises:
        RegistrationError: the message names the kernel, the backend and the parameters.
    """
    contract = get_contract(config.kernel_name)
    if not callable(config.kernel_func):
        raise RegistrationError(
            f"{config.kernel_name} on {config.backend_name!r}: {short_repr(config.kernel_func)} is not callable"
        )
    if contract is None:
        return
    try:
        said = getattr(config.kernel_func, "__signature__", None)
        if said is None and _fits_signature(contract, config.kernel_func):
            return
        parameters = (said or inspect.signature(config.kernel_func)).parameters.values()
    except (TypeError, ValueError):  # NumPy's ufuncs and other compiled functions
        return
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = [p for p in positional if p.default is p.empty]
    takes_list = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    keywords = {p.name: p.default is p.empty for p in parameters if p.kind is p.KEYWORD_ONLY}
    takes_any_keyword = any(p.kind is p.VAR_KEYWORD for p in parameters)
    # Without inputs, the backend itself comes first.
    count = len(contract.inputs) or 1
    where = f"{config.kernel_name} on {config.backend_name!r}"
    if contract.takes_list:
        if not takes_list:
            raise RegistrationError(
                f"{where}: the implementation must take its inputs as *{contract.inputs[-1]}"
                f"{_format_example(contract)}"
            )
    elif not takes_list and not len(required) <= count <= len(positional):
        expected = ", ".join(contract.inputs) or "backend"
        raise RegistrationError(
            f"{where}: the implementation takes {len(required)} positional parameters; the contract's are ({expected})"
            f"{_format_example(contract)}"
        )
    missing = set[str]() if takes_any_keyword else set(contract.attributes) - keywords.keys()
    unknown = {name for name, is_required in keywords.items() if is_required} - set(
        contract.attributes
    )
    if wrong := sorted(missing | unknown):
        raise RegistrationError(
            f"{where}: keyword-only parameters {wrong} are unknown or missing; the contract's "
            f"are {list(contract.attributes)}{_format_example(contract)}"
        )


def _format_example(contract: Kernel[..., Any]) -> str:
    """Return the end of a message, which shows the first line of an implementation."""
    *first, last = contract.inputs or ("backend",)
    inputs = (*first, f"*{last}" if contract.takes_list else last)
    attributes = contract.attributes if contract.takes_list else ("*", *contract.attributes)
    parameters = (*inputs, *attributes) if contract.attributes else inputs
    return f". Define it as in def implementation({', '.join(parameters)})"


def _fits_signature(contract: Kernel[..., Any], function: Callable[..., Any]) -> bool:
    """Return whether a plain function has exactly the parameters of a contract.

    This is true of most implementations, and takes a tenth of the time of looking at a signature.
    """
    inner = inspect.unwrap(function, stop=lambda f: hasattr(f, "__signature__"))
    if type(inner) is not FunctionType or vars(inner):
        return False
    if contract.takes_list or inner.__code__.co_flags & inspect.CO_VARKEYWORDS:
        return False
    found = inspect_parameters(inner)
    return (
        not found.defaults
        and not found.takes_list
        and len(found.positional) == (len(contract.inputs) or 1)
        and set(found.keyword) == set(contract.attributes)
    )
