"""The kernels of plugrad-native for one level of processors, also where NumPy's would run: for few elements."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

    from plugrad.tensor.backend import KernelConfig

PACK_MODULE = "plugrad_native"
THRESHOLD_NAMES = ("MIN_BYTES", "COPY_MIN_BYTES", "NUMPY_MAX_BYTES")
"""The sizes up to which modules of the pack leave the work to NumPy."""


@dataclass(frozen=True)
class ForcedVariant:
    """The modules of plugrad-native, imported for one variant, and their kernel configs."""

    modules: tuple[ModuleType, ...]
    configs: dict[str, KernelConfig]


def available_variants() -> list[str]:
    """Return the variants that this processor supports, such as ``["v2", "v3"]``."""
    variants = import_module(f"{PACK_MODULE}.variants")
    if not variants.has_any_variant():
        return []
    best = int(variants.current_variant().__name__.rpartition("_v")[2] or 0)
    return [f"v{level}" for level in (2, 3, 4) if level <= best]


@cache
def forced_variant(name: str) -> ForcedVariant:
    """Import plugrad-native again for one variant and without size thresholds, beside the pack in use."""
    import_module(f"{PACK_MODULE}.kernels")
    known = {key: value for key, value in sys.modules.items() if is_of_pack(key)}
    package = known[PACK_MODULE]
    attributes = dict(vars(package))
    extension = import_module(f"{PACK_MODULE}._{name}")
    try:
        for key in known:
            if key != PACK_MODULE and "._v" not in key:
                del sys.modules[key]
        variants = import_module(f"{PACK_MODULE}.variants")
        variants.current_variant = lambda: extension
        kernels = import_module(f"{PACK_MODULE}.kernels")
        modules = tuple(sys.modules[key] for key in list(sys.modules) if is_of_pack(key))
    finally:
        for key in [key for key in sys.modules if is_of_pack(key)]:
            del sys.modules[key]
        sys.modules.update(known)
        vars(package).update(attributes)
    for module in modules:
        for threshold in (
            set(THRESHOLD_NAMES) & vars(module).keys() if module is not package else ()
        ):
            setattr(module, threshold, 0)
    return ForcedVariant(
        tuple(m for m in modules if m is not package),
        {config.kernel_name: without_thresholds(config) for config in kernels.table},
    )


def is_of_pack(name: str) -> bool:
    """Return whether a module belongs to plugrad-native."""
    return name == PACK_MODULE or name.startswith(f"{PACK_MODULE}.")


def without_thresholds(config: KernelConfig) -> KernelConfig:
    """Return an implementation without the minimum size and without conditions on broadcasting."""
    dtypes = config.dtypes and config.dtypes | config.broadcast_dtypes
    return config._replace(min_bytes=0, dtypes=dtypes, broadcast_dtypes=frozenset())
