"""The fallback for a kernel that a backend lacks: another backend computes it, or an error names those that could.

The setting ``fallback`` decides. With ``"warn"`` or ``"silent"`` the inputs are copied to a backend
that has the kernel, and the results are copied back. The tape does not see this: the call is
recorded on the backend where its inputs live, and the kernels of its gradient fall back separately.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from plugrad.contract.kernel import all_contracts, get_contract
from plugrad.discovery import hooks, selection
from plugrad.discovery.listing import backends, find_plugin, plugins
from plugrad.discovery.loading import open_backend, opened_backends
from plugrad.discovery.state import Fallback, state
from plugrad.errors import (
    CANNOT_RUN_ERRORS,
    DeviceLost,
    KernelNotFound,
    UnsupportedDtype,
    suggest_similar_name,
    warn,
)
from plugrad.registry.kernels import find_kernel, get_kernel, open_devices_of_backend
from plugrad.settings.layers import config
from plugrad.tensor.backend import Backend, copy_to_backend_array, mark_device_lost
from plugrad.tensor.context import active_overrides
from plugrad.types.arguments import check_flag
from plugrad.types.dtype import as_dtype

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from plugrad.discovery.plugin import Plugin
    from plugrad.tensor.backend import Implementation


def fallback_report(*, clear: bool = False) -> list[Fallback]:
    """Return the calls that fell back to another backend, grouped by kernel, the longest total time first.

    >>> report = plugrad.fallback_report(clear=True)
    >>> plugrad.fallback_report()
    []

    Args:
        clear: restart the counts and the warnings from here on.
    """
    clear = check_flag(clear, "fallback_report", "clear")
    with state.fallback_lock:
        report = sorted(state.fallbacks.values(), key=lambda entry: -entry.milliseconds)
        if clear:
            state.fallbacks.clear()
            state.warned_fallbacks.clear()
        return report


def fallback_implementation(kernel_name: str, source: Backend) -> Implementation:
    """Return an implementation that runs on another backend, for the backend `source`, which lacks the kernel.

    Raises:
        KernelNotFound: the setting ``fallback`` is ``"error"``.
    """
    if config.get("fallback") == "error":
        raise make_kernel_not_found_error(kernel_name, source.name)

    def implementation(*arrays: Any, **attrs: Any) -> Any:
        started = perf_counter()
        given = [x if x is None or x is source else source.to_numpy(x) for x in arrays]
        target = _choose_target(
            kernel_name, source, [x for x in given if isinstance(x, np.ndarray)]
        )
        result = _run_on_backend(target, kernel_name, given, attrs)
        several = isinstance(result, tuple | list)
        values = [np.asarray(x) for x in cast("Sequence[Any]", result if several else [result])]
        for value in values:
            dtype = as_dtype(value.dtype)
            if dtype not in source.dtypes():
                raise UnsupportedDtype(
                    f"{kernel_name} fell back from {source.name!r} to {target.name!r}, but its result is {dtype}, "
                    f"which backend {source.name!r} does not have; move the inputs, as in x.to({target.name!r})"
                )
        copied = sum(x.nbytes for x in (*given, *values) if isinstance(x, np.ndarray))
        stored = [copy_to_backend_array(np.asarray(value, order="C"), source) for value in values]
        _record_fallback(kernel_name, source, target, copied, (perf_counter() - started) * 1e3)
        return stored if several else stored[0]

    return implementation


def _run_on_backend(
    target: Backend, kernel_name: str, arrays: Iterable[Any], attrs: Mapping[str, Any]
) -> Any:
    """Run a kernel with NumPy arrays on the backend `target`, and return NumPy arrays."""
    copies = [
        copy_to_backend_array(np.asarray(x, order="C"), target)
        if isinstance(x, np.ndarray)
        else target
        if isinstance(x, Backend)
        else x
        for x in arrays
    ]
    try:
        functions = state.functions_with_overrides(target, active_overrides())
        result = functions[kernel_name](*copies, **attrs)
    except DeviceLost as error:
        mark_device_lost(error, target)  # and not the one that asked
        raise
    if isinstance(result, tuple | list):
        return [target.to_numpy(part) for part in cast("Sequence[Any]", result)]
    return target.to_numpy(result)


# --- which backend computes it -------------------------------------------------------------------


def backends_with_kernel(kernel_name: str) -> list[Plugin]:
    """Return the usable backends that have a kernel, best first.

    For those that are not open, their manifests, those of their packs and what the program has registered count.
    """
    promised = {p.backend_name for p in plugins("kernels") if _declares_kernel(p, kernel_name)}
    promised |= {b.name for b in backends() if get_kernel(kernel_name, b.name) is not None}
    return [
        b
        for b in backends()
        if (
            get_kernel(kernel_name, b.name) is not None
            if b.status == "active" and open_devices_of_backend(b.name)
            else _declares_kernel(b, kernel_name)
            or (b.name in promised and b.status in ("available", "active"))
        )
    ]


def _declares_kernel(plugin: Plugin, kernel_name: str) -> bool:
    """Return whether the manifest of a usable plugin lists a kernel."""
    return plugin.status in ("available", "active") and kernel_name in plugin.manifest.kernels


def _choose_target(kernel_name: str, source: Backend, arrays: Sequence[Any]) -> Backend:
    """Return the most preferred backend that has a kernel which the backend `source` lacks, and the inputs' dtypes.

    Raises:
        KernelNotFound: there is none; the message gives the reason for each backend.
    """
    reasons: list[str] = []
    needed = {as_dtype(x.dtype) for x in arrays}
    for name, device in _fallback_candidates(kernel_name, source, reasons):
        try:
            backend = _find_open_device(name) if not device else None
            backend = backend or open_backend(name, device)
        except CANNOT_RUN_ERRORS as error:
            reasons.append(str(error))
            continue
        lacking = needed - backend.dtypes()
        if find_kernel(kernel_name, backend) is None:
            reasons.append(f"{name!r} does not implement it")
        elif lacking:
            reasons.append(f"{name!r} does not have {', '.join(sorted(map(str, lacking)))}")
        else:
            return backend
    raise make_kernel_not_found_error(
        kernel_name, source.name, reasons or ["there is no other backend"]
    )


def _fallback_candidates(
    kernel_name: str, source: Backend, reasons: list[str]
) -> Iterator[tuple[str, str]]:
    """Yield (name, device) of backends that may have the kernel, best first; append to `reasons` why others do not."""
    order = config.explain("fallback_order")
    if order.value:
        choices = [selection.split_device_spec(spec, order.layer) for spec in order.value]
    else:
        choices = [(plugin.qualified_name, "") for plugin in selection.list_automatic_candidates()]
    for name, device in choices:
        try:
            plugin = find_plugin(name)
        except CANNOT_RUN_ERRORS as error:
            reasons.append(str(error))
            continue
        if plugin.name == source.name:
            continue
        if (
            plugin.status != "active"
            and plugin.manifest.kernels
            and plugin not in backends_with_kernel(kernel_name)
        ):
            reasons.append(f"{plugin.name!r} does not implement it")
        elif (
            not order.value
            and not _find_open_device(name)
            and (why := selection.reason_not_automatic(plugin))
        ):
            reasons.append(f"{plugin.name!r}: {why}")
        else:
            yield name, device


def _find_open_device(backend_name: str) -> Backend | None:
    """Return a device of the named backend that is open already, or None."""
    plain = find_plugin(backend_name).name
    return next((backend for backend in opened_backends() if backend.name == plain), None)


def _record_fallback(
    kernel_name: str, source: Backend, target: Backend, copied_bytes: int, milliseconds: float
) -> None:
    """Add a call to the report, notify plugins, and warn if it is the first fallback of this kernel."""
    key = kernel_name, source.name, target.name
    with state.fallback_lock:
        known = state.fallbacks.get(key) or Fallback(*key, 0, 0, 0.0)
        state.fallbacks[key] = Fallback(
            *key, known.calls + 1, known.bytes + copied_bytes, known.milliseconds + milliseconds
        )
        is_news = key[:2] not in state.warned_fallbacks and config.get("fallback") == "warn"
        state.warned_fallbacks.add(key[:2])
    hooks.call_hooks(
        "plugrad_fallback",
        kernel_name=kernel_name,
        source=source.name,
        target=target.name,
        nbytes=copied_bytes,
        milliseconds=milliseconds,
    )
    if is_news:
        warn(
            f"backend {source.name!r} does not implement kernel {kernel_name!r}: {target.name!r} computes it, and "
            "the data is copied there and back each time. plugrad.fallback_report() shows the cost; "
            'plugrad.config.set("fallback", "silent") silences this warning'
        )


# --- the error -----------------------------------------------------------------------------------


def make_kernel_not_found_error(
    kernel_name: str, backend_name: str, reasons: Sequence[str] = ()
) -> KernelNotFound:
    """Return the error for a kernel that a backend lacks; it names the backends that have it and the remedies.

    `reasons` say why no other backend computes it, if others were tried.
    """
    others = [owner for owner in backends_with_kernel(kernel_name) if owner.name != backend_name]
    register = "register an implementation with register_kernel"
    if not others and get_contract(kernel_name) is None:
        return KernelNotFound(
            f"no kernel is called {kernel_name!r}{suggest_similar_name(kernel_name, all_contracts())}; {register}",
            kernel_name,
        )
    lacks = f"backend {backend_name!r} does not implement kernel {kernel_name!r}"
    asked = f" No other backend computes it: {'; '.join(reasons)}." if reasons else ""
    if not others:
        return KernelNotFound(
            f"{lacks}, nor does any other installed backend, judging unloaded ones by their manifests.{asked} "
            f"Load another one with plugrad.use(...), or {register}",
            kernel_name,
        )
    loaded = sorted(owner.name for owner in others if owner.status == "active")
    others_do = [
        f"{_join_names(loaded)} {'does' if len(loaded) == 1 else 'do'}" if loaded else "",
        f"{_join_names([o.name for o in others if o.name not in loaded])} would, if loaded"
        if len(loaded) < len(others)
        else "",
    ]
    first = (loaded or [others[0].name])[0]
    let = (
        ""
        if reasons
        else 'let another backend compute it with plugrad.config.set("fallback", "warn"), '
    )
    return KernelNotFound(
        f"{lacks}; {', and '.join(filter(None, others_do))}.{asked} Move the inputs, as in x.to({first!r}), "
        f"{let}or {register}",
        kernel_name,
    )


def _join_names(names: Sequence[str]) -> str:
    """Return quoted names joined by commas, with "and" before the last one."""
    *first, last = map(repr, names)
    return f"{', '.join(first)} and {last}" if first else last


def find_own_or_fallback_implementation(
    kernel_name: str, backend: Backend
) -> Implementation | None:
    """Return an implementation of an undeclared kernel: the backend's own, or a fallback."""
    found = find_kernel(kernel_name, backend)
    if found is None and config.get("fallback") != "error":
        others = (
            get_kernel(kernel_name, owner.name) for owner in backends_with_kernel(kernel_name)
        )
        found = next(filter(None, others), None)
    return found.kernel_func if found is not None else None
