"""Snapshots of the contracts and the registries, and how to restore them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from plugrad.contract.kernel import KERNELS
from plugrad.registry import batching, composites, gradients, kernels
from plugrad.settings import journal

if TYPE_CHECKING:
    from collections.abc import Callable


def snapshot_registries() -> Callable[[], None]:
    """Return a function that restores the contracts and the registries to their current state."""
    load_all_registrations()  # families that came later would be taken away, and would not come again
    return snapshot_loaded_registries()


def load_all_registrations() -> None:
    """Register all of plugrad's own batching rules, composites and gradients, otherwise loaded on first use."""
    batching.register_all_batchings()
    composites.register_all_composites()
    gradients.register_all_gradients()


def snapshot_loaded_registries() -> Callable[[], None]:
    """Return a function that restores the registries; this is quick, but needs `load_all_registrations` before."""
    tables: list[tuple[dict[str, Any], dict[str, Any]]] = [
        (KERNELS, dict(KERNELS)),
        (gradients.gradients, dict(gradients.gradients)),
        (composites.registered_composites, dict(composites.registered_composites)),
        (batching.registered_batchings, dict(batching.registered_batchings)),
    ]
    implementations = kernels.take_snapshot()

    def restore() -> None:
        kernels.restore_snapshot(implementations)
        for current, before in tables:
            for name in current.keys() - before.keys():
                del current[name]
            current.update(before)
        journal.record_change_number()

    return restore
