"""A key for caches of what programs compute, such as compiled functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugrad.settings import journal
from plugrad.settings.keys import SETTING_KEYS
from plugrad.tensor.context import current_context

if TYPE_CHECKING:
    from collections.abc import Hashable


def registry_generation() -> Hashable:
    """Return a key that differs from an earlier one if calls may compute something else than they did then.

    It changes with each change of the registries of kernels, gradients, batching rules, composites and contracts, by
    the program or by a plugin that is loaded, unloaded or reordered; when a device is opened or closed; and when a
    setting changes.
    It is another one while this context overrides a kernel, a gradient or a setting, and transfers or casts its
    inputs, and the same one for the same overrides. plugrad's own gradients, which are imported when they are first
    asked for, do not change it. Environment variables are settings that it does not see.

    It takes less than 0.1 µs outside of such blocks. A key stands for the time before what is computed, so take it
    first: then nothing that is made during a change has the key of a later time.

    >>> from plugrad.registry.generation import registry_generation
    >>> before = registry_generation()
    >>> with plugrad.override_kernel("Abs", "cpu", lambda x: x):
    ...     registry_generation() == before
    False
    >>> registry_generation() == before
    True
    """
    context = current_context()
    if context is None:
        return journal.latest_change_number
    _, transfer, overrides, settings, precision, _ = context
    if transfer is overrides is settings is precision is None:
        return journal.latest_change_number
    entries = None if overrides is None else overrides.entries
    values = sorted((settings or {}).items())
    return (
        journal.latest_change_number,
        transfer,
        precision,
        entries,
        *[item for item in values if item[0] in SETTING_KEYS],
    )
