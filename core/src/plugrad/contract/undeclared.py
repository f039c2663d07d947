"""Undeclared kernels: the parameters of an implementation stand for the contract."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from plugrad.contract.kernel import Kernel, Params, Result

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


class UndeclaredKernel(Kernel[Params, Result]):
    """A kernel without a contract, which accepts everything that its implementation accepts."""

    def inferred(self, inputs: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
        """Return nothing: there is no contract that could be broken."""
        return ()

    def check_attributes(self, attrs: Mapping[str, Any]) -> None:
        """Do nothing: there is no contract that could be broken."""

    def complete(self, attrs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the attributes unchanged: the implementation has the defaults."""
        super().complete(attrs)
        return dict(attrs)


@lru_cache(maxsize=256)
def undeclared(name: str, function: Callable[..., Any]) -> UndeclaredKernel[..., Any]:
    """Return the kernel whose inputs and attributes are the parameters of one of its implementations."""
    return UndeclaredKernel(name, function, "undeclared", dynamic_shape=True)
