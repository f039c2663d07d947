"""Implementations that are imported when they are first used, because most programs use few families."""

from __future__ import annotations

from functools import cached_property
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any, Final

from plugrad.extend import import_lazily
from plugrad_wasm.declare import table

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugrad.extend import Implementation, Kernel

ANY_SIGNATURE: Final = Signature(
    (Parameter("arrays", Parameter.VAR_POSITIONAL), Parameter("attrs", Parameter.VAR_KEYWORD))
)
"""An `inspect.Signature` that fits every implementation."""


class LazyImplementation:
    """An implementation whose module in `plugrad_wasm.kernels` is imported on first use.

    The module is imported by the first call, or by whoever first asks for `function`.
    """

    __signature__ = (
        ANY_SIGNATURE  # what registering the implementation looks at; to find it out takes longer
    )

    def __init__(
        self,
        kernel: Kernel[..., Any],
        family: str,
        adapt: Callable[[Kernel[..., Any], Implementation], Implementation] | None = None,
    ) -> None:
        """Defer the import of a kernel's family; `adapt` makes the implementation from its declaration."""
        self._kernel = kernel
        self._family = family
        self._adapt = adapt

    @cached_property
    def function(self) -> Implementation:
        """The implementation, imported if necessary."""
        import_lazily(f"plugrad_wasm.kernels.{self._family}")
        function = table.configs[self._kernel.name].kernel_func
        return self._adapt(self._kernel, function) if self._adapt else function

    def __call__(self, *arrays: Any, **attrs: Any) -> Any:
        """Return the result of the implementation."""
        return self.function(*arrays, **attrs)
