"""Support for einops, which works whether einops or plugrad is imported first.

einops has no other way to learn of a library than a class for it, which must be there when one of its
functions meets an array of that library. The import of plugrad must not import einops, and programs
import it later. So plugrad waits for that import, and declares the class then. The functions of
`einops.array_api` need nothing of this.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from plugrad.tensor.tensor import Tensor
from plugrad.types.dtype import as_dtype

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

EINOPS_MODULE: Final = "einops._backends"
"""The module with the class from which those for libraries are derived."""


def register_with_einops() -> None:
    """Register plugrad's tensors with einops, now or when einops is imported."""
    if EINOPS_MODULE in sys.modules:
        define_einops_backend(sys.modules[EINOPS_MODULE])
    else:
        sys.meta_path.insert(0, EinopsFinder())


class EinopsFinder:
    """An import hook that registers plugrad's tensors right after einops has been imported."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the module's spec with a loader that also calls `define_einops_backend`."""
        if name != EINOPS_MODULE:
            return None
        sys.meta_path.remove(self)
        from importlib.util import find_spec  # only programs with einops need it

        spec = find_spec(name)
        if spec is not None and spec.loader is not None:
            loader: Any = spec.loader
            load = loader.exec_module

            def load_and_declare(module: ModuleType) -> None:
                load(module)
                define_einops_backend(module)

            loader.exec_module = load_and_declare
        return spec


def define_einops_backend(backends: ModuleType) -> None:
    """Define einops' backend class for plugrad; do nothing if this version of einops has no base class for it."""
    abstract: Any = getattr(backends, "AbstractBackend", None)
    if abstract is None:
        return
    from plugrad.ops import creation, einsum, movement  # only programs with einops need them here

    class PlugradBackend(abstract):
        """The functions that einops calls on plugrad's tensors."""

        framework_name = "plugrad"

        def is_appropriate_type(self, tensor: object) -> bool:
            return isinstance(tensor, Tensor)

        def to_numpy(self, x: Tensor) -> Any:
            return x.numpy()

        def from_numpy(self, x: Any) -> Tensor:
            return creation.asarray(x)

        def stack_on_zeroth_dimension(self, tensors: list[Tensor]) -> Tensor:
            return movement.stack(tensors)

        def add_axis(self, x: Tensor, new_position: int) -> Tensor:
            return movement.expand_dims(x, axis=new_position)

        def tile(self, x: Tensor, repeats: tuple[int, ...]) -> Tensor:
            return movement.tile(x, repeats)

        def concat(self, tensors: list[Tensor], axis: int) -> Tensor:
            return movement.concat(tensors, axis=axis)

        def is_float_type(self, x: Tensor) -> bool:
            return as_dtype(x.dtype).kind == "floating"

        def einsum(self, pattern: str, *x: Tensor) -> Tensor:
            return einsum.einsum(pattern, *x)

    # einops looks among the subclasses, which Python holds weakly.
    setattr(backends, PlugradBackend.__name__, PlugradBackend)


register_with_einops()
