"""Undeclared kernels: an implementation's parameters take the place of a contract."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from plugrad.contract.kernel import Kernel, ParameterTypes, ResultType

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


class UndeclaredKernel(Kernel[ParameterTypes, ResultType]):
    """A kernel without a contract, which accepts everything that its implementation accepts."""

    def infer_cached(self, inputs: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
        """Return None: without a contract, there is nothing to infer."""
        return ()

    def check_attributes(self, attrs: Mapping[str, Any]) -> None:
        """Do nothing: without a contract, every attribute is allowed."""

    def fill_defaults(self, attrs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the attributes unchanged: the implementation has the defaults."""
        super().fill_defaults(attrs)
        return dict(attrs)


@lru_cache(maxsize=256)
def make_undeclared_kernel(name: str, function: Callable[..., Any]) -> UndeclaredKernel[..., Any]:
    """Return a kernel without a contract; its inputs and attributes are the parameters of `function`."""
    return UndeclaredKernel(name, function, "undeclared", dynamic_shape=True)
