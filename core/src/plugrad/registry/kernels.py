"""The kernel registry: (kernel name, backend name) -> implementation.

A key may have several registrations: the backend's own, and above it those that replace it
temporarily. The topmost one is in effect, regardless of the order in which they were made.
"""

from __future__ import annotations

import inspect
import os
from contextlib import contextmanager
from functools import partial
from threading import RLock
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from plugrad.contract.kernel import contract_of
from plugrad.contract.parameters import parameters_of
from plugrad.errors import ArgumentError, KernelNotFound, RegistrationError, shown, suggestion, warn
from plugrad.settings import journal
from plugrad.settings.layers import config as settings
from plugrad.tensor.backend import KernelConfig
from plugrad.types.arguments import flag, shows_how, text
from plugrad.types.dtype import DType

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

    from plugrad.contract.kernel import Kernel

Key = tuple[str, str]


class _Entry(NamedTuple):
    """One registration."""

    config: KernelConfig
    replaces: bool = False
    """Whether it was registered with ``replace=True``."""
    is_brought: bool = False
    """Whether the backend itself or a plugin brought it, not the program."""


_entries: Final[dict[Key, tuple[_Entry, ...]]] = {}
"""The registrations under each key; the last one is in effect."""
lock = RLock()
"""Held while the registry changes, and while the engine looks up what to call."""
_listeners: Final[list[Callable[[str, str], None]]] = []


def _renew_lock() -> None:
    global lock
    lock = RLock()  # another thread may have held the old one when the process was forked


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


def listen(listener: Callable[[str, str], None]) -> None:
    """Call a function with the names of kernel and backend whenever an implementation changes."""
    _listeners.append(listener)


def _set(key: Key, entries: tuple[_Entry, ...]) -> None:
    """Change the registrations under a key, and note the change."""
    before = _entries.get(key, ())
    undo = partial(_exchange, key, entries, before)
    redo = partial(_exchange, key, before, entries)
    journal.note(("kernel", *key), undo, redo, replaced=bool(before))
    _put(key, entries)


def _exchange(key: Key, old: tuple[_Entry, ...], new: tuple[_Entry, ...]) -> None:
    """Remove the entries that only `old` has and add those that only `new` has; leave those of others."""
    with lock:
        now = _entries.get(key, ())
        others = tuple(e for e in now if all(e is not known for known in (*old, *new)))
        _put(key, new + others)


def _put(key: Key, entries: tuple[_Entry, ...]) -> None:
    if entries:
        _entries[key] = entries
    else:
        _entries.pop(key, None)
    for listener in _listeners:
        listener(*key)


@shows_how
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
    replace = flag(replace, "register_kernel", "replace")
    configs = list(configs)
    _check(configs)
    if replace:
        _warn_in_debug_mode(configs)
    with lock:
        for config in configs:
            if config[:2] in _entries and not replace:
                raise RegistrationError(
                    f"kernel {config.kernel_name!r} is registered for backend {config.backend_name!r} "
                    "already; pass replace=True, or use override_kernel to replace it temporarily"
                )
        for config in configs:
            _set(config[:2], (_Entry(config, replace),))


def _warn_in_debug_mode(configs: Iterable[KernelConfig]) -> None:
    # Without the lock: to read a setting may load plugins, and a warning may call anything.
    for config in configs:
        if config[:2] in _entries and settings.get("debug"):
            warn(
                f"{config.kernel_name} on backend {config.backend_name!r} is replaced (the setting debug is on)"
            )


def register_brought(configs: Iterable[KernelConfig]) -> None:
    """Register the kernels that a backend brings, or none if one of them is wrong.

    Earlier registrations with ``replace=True`` stay in effect. Those without it give way to the
    backend's own, with a warning.
    """
    configs = list(configs)
    _check(configs)
    replaced: list[KernelConfig] = []
    with lock:
        for config in configs:
            above = _entries.get(config[:2], ())
            replaced += [e.config for e in above if not e.replaces and not e.is_brought]
            kept = tuple(entry for entry in above if entry.replaces)
            _set(config[:2], (_Entry(config, is_brought=True), *kept))
    for config in replaced:  # without the lock, because a warning may call anything
        warn(
            f"backend {config.backend_name!r} has its own kernel {config.kernel_name!r}, which "
            "replaces the one that was registered before the backend was loaded; pass "
            "replace=True to register_kernel to keep yours"
        )


def _check(configs: Iterable[KernelConfig]) -> None:
    seen: set[Key] = set()
    for config in configs:
        if not isinstance(config, KernelConfig):  # pyright: ignore[reportUnnecessaryIsInstance] - plugins bring anything
            raise ArgumentError(
                f"register_kernel takes a KernelConfig, not {type(config).__name__}"
            )
        text(config.kernel_name, "KernelConfig", "kernel_name")
        text(config.backend_name, "KernelConfig", "backend_name")
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
    contract = contract_of(config.kernel_name)
    if wrong := [d for d in dtypes if not isinstance(d, DType)]:  # pyright: ignore[reportUnnecessaryIsInstance] - plugins bring anything
        problem = (
            f"dtypes must be dtypes of plugrad, not {shown(wrong[0])}; convert it with as_dtype"
        )
    elif config.broadcast_dtypes and config.dtypes is None:
        problem = "broadcast_dtypes are more dtypes than those in dtypes, which it must say, too"
    elif type(config.min_bytes) is not int or config.min_bytes < 0:
        problem = f"min_bytes={shown(config.min_bytes)} must be an integer that is not negative"
    elif config.is_conditional and contract is not None and not contract.inputs:
        problem = "the kernel has no inputs, whose dtypes or bytes could decide"
    else:
        return
    raise RegistrationError(f"{config.kernel_name} on {config.backend_name!r}: {problem}")


def _check_backend(name: str) -> None:
    """Raise if a backend's name is probably misspelt: its kernels would never be called.

    Raises:
        RegistrationError: an installed backend has a similar name, and none this one.
    """
    known = settings.options_by_backend()
    if name not in known and contract_of(name) is not None:
        raise RegistrationError(
            f"KernelConfig: {name!r} is the name of a kernel; it stands before that of the backend"
        )
    # Backends may rightly have similar names, such as one_gpu.
    if name not in known and (meant := suggestion(name, known, similarity=0.75)):
        raise RegistrationError(
            f"KernelConfig: no backend is called {name!r}{meant}; the installed ones are {', '.join(sorted(known))}"
        )


def unregister_kernel(kernel_name: str, backend_name: str) -> KernelConfig:
    """Remove the implementation that is in effect, and return it.

    Raises:
        KernelNotFound: there is none.
    """
    text(kernel_name, "unregister_kernel", "kernel_name")
    text(backend_name, "unregister_kernel", "backend_name")
    with lock:
        entries = _entries.get((kernel_name, backend_name))
        if entries is None:
            raise KernelNotFound(
                f"no kernel {kernel_name!r} is registered for backend {backend_name!r}; nothing to unregister"
            )
        _set((kernel_name, backend_name), entries[:-1])
        return entries[-1].config


def get_kernel(kernel_name: str, backend_name: str) -> KernelConfig | None:
    """Return the implementation in effect of a kernel on a backend, or None."""
    text(kernel_name, "get_kernel", "kernel_name")
    text(backend_name, "get_kernel", "backend_name")
    entries = _entries.get((kernel_name, backend_name))
    return entries[-1].config if entries else None


def list_implementations(kernel_name: str, backend_name: str) -> list[KernelConfig]:
    """Return all implementations of a kernel on a backend: the one in effect first, and then what it replaces."""
    entries = _entries.get((kernel_name, backend_name), ())
    return [entry.config for entry in reversed(entries)]


def insists(kernel_name: str, backend_name: str) -> bool:
    """Return whether the implementation in effect stays in effect when the backend brings its own."""
    entries = _entries.get((kernel_name, backend_name))
    return bool(entries) and entries[-1].replaces


def get_kernels_for_backend(backend_name: str) -> list[KernelConfig]:
    """Return the implementations in effect for one backend."""
    text(backend_name, "get_kernels_for_backend", "backend_name")
    return [entries[-1].config for key, entries in list(_entries.items()) if key[1] == backend_name]


def copy_registered_kernels(source: str, target: str, *, replace: bool = False) -> None:
    """Register every implementation of backend `source` for backend `target` too."""
    register_kernels(
        [c._replace(backend_name=target) for c in get_kernels_for_backend(source)], replace=replace
    )


@shows_how
@contextmanager
def override_kernel(
    kernel_name: str, backend_name: str, kernel_func: Callable[..., Any]
) -> Generator[None, None, None]:
    """Use another implementation inside a ``with`` block; the previous one is restored on exit.

    The override holds for the whole process, not only for the calling thread. It may begin before the
    backend is loaded.
    """
    config = KernelConfig(kernel_name, backend_name, kernel_func)
    _check([config])
    _warn_in_debug_mode([config])
    with lock:
        _set(config[:2], (*_entries.get(config[:2], ()), _Entry(config, replaces=True)))
    try:
        yield
    finally:
        take_away([config])


def register_from_plugin(configs: Iterable[KernelConfig]) -> None:
    """Register the kernels that a plugin brings for a backend, or none if one of them is wrong; see `take_away`.

    They replace the backend's own and those of plugins before it. What the program itself has registered
    with ``replace=True``, or overrides, stays in effect, whenever the plugin comes.
    """
    configs = list(configs)
    _check(configs)
    _warn_in_debug_mode(configs)
    with lock:
        for config in configs:
            entries = _entries.get(config[:2], ())
            brought = tuple(entry for entry in entries if entry.is_brought)
            others = tuple(entry for entry in entries if not entry.is_brought)
            _set(config[:2], (*brought, _Entry(config, replaces=True, is_brought=True), *others))


def take_away(configs: Iterable[KernelConfig]) -> None:
    """Remove implementations at any position; those below them are in effect again."""
    with lock:
        for config in configs:
            entries = _entries.get(config[:2], ())
            kept = tuple(entry for entry in entries if entry.config is not config)
            if kept != entries:
                _set(config[:2], kept)


def snapshot() -> dict[Key, tuple[_Entry, ...]]:
    """Return the current registrations, for `restore`."""
    with lock:
        return dict(_entries)


def restore(before: dict[Key, tuple[_Entry, ...]]) -> None:
    """Restore the registry to its state when `snapshot` was called."""
    with lock:
        for key in _entries.keys() | before.keys():
            if _entries.get(key) != before.get(key):
                _set(key, before.get(key, ()))


def check_parameters(config: KernelConfig) -> None:
    """Raise unless the function takes the contract's inputs by position and its attributes by keyword.

    A kernel without a contract, and a function whose parameters Python cannot inspect, pass.

    Raises:
        RegistrationError: the message names the kernel, the backend and the parameters.
    """
    contract = contract_of(config.kernel_name)
    if not callable(config.kernel_func):
        raise RegistrationError(
            f"{config.kernel_name} on {config.backend_name!r}: {shown(config.kernel_func)} is not callable"
        )
    if contract is None:
        return
    try:
        said = getattr(config.kernel_func, "__signature__", None)
        if said is None and _has_parameters_of(contract, config.kernel_func):
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
                f"{_as_in(contract)}"
            )
    elif not takes_list and not len(required) <= count <= len(positional):
        expected = ", ".join(contract.inputs) or "backend"
        raise RegistrationError(
            f"{where}: the implementation takes {len(required)} positional parameters; the contract's are ({expected})"
            f"{_as_in(contract)}"
        )
    missing = set[str]() if takes_any_keyword else set(contract.attributes) - keywords.keys()
    unknown = {name for name, is_required in keywords.items() if is_required} - set(
        contract.attributes
    )
    if wrong := sorted(missing | unknown):
        raise RegistrationError(
            f"{where}: keyword-only parameters {wrong} are unknown or missing; the contract's "
            f"are {list(contract.attributes)}{_as_in(contract)}"
        )


def _as_in(contract: Kernel[..., Any]) -> str:
    """Return the end of a message, which shows the first line of an implementation."""
    *first, last = contract.inputs or ("backend",)
    inputs = (*first, f"*{last}" if contract.takes_list else last)
    attributes = contract.attributes if contract.takes_list else ("*", *contract.attributes)
    parameters = (*inputs, *attributes) if contract.attributes else inputs
    return f". Define it as in def implementation({', '.join(parameters)})"


def _has_parameters_of(contract: Kernel[..., Any], function: Callable[..., Any]) -> bool:
    """Return whether a plain function has exactly the parameters of a contract.

    This is true of most implementations, and takes a tenth of the time of looking at a signature.
    """
    inner = inspect.unwrap(function, stop=lambda f: hasattr(f, "__signature__"))
    if type(inner) is not FunctionType or vars(inner):
        return False
    if contract.takes_list or inner.__code__.co_flags & inspect.CO_VARKEYWORDS:
        return False
    found = parameters_of(inner)
    return (
        not found.defaults
        and not found.takes_list
        and len(found.positional) == (len(contract.inputs) or 1)
        and set(found.keyword) == set(contract.attributes)
    )
