"""The table of kernels, whose functions take and return PyTorch's tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from plugrad.extend import KernelTable
from plugrad_torch.memory import TorchArray

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from plugrad.extend import Kernel
    from plugrad_torch.device import TorchBackend

    Function = Callable[..., Any]

Array = torch.Tensor
table = KernelTable("torch")


def implements(kernel: Kernel[..., Any]) -> Callable[[Function], Function]:
    """Declare the decorated function of tensors as the implementation of a kernel."""

    def decorate(function: Function) -> Function:
        update({kernel: function})
        return function

    return decorate


def update(functions: Mapping[Kernel[..., Any], Function]) -> None:
    """Declare functions of tensors as the implementations of kernels."""
    table.update({kernel: as_implementation(function) for kernel, function in functions.items()})


def as_implementation(function: Function) -> Function:
    """Return a function of arrays, given one of tensors; a kernel without inputs passes only the attributes."""

    def implementation(*inputs: TorchArray | TorchBackend | None, **attrs: Any) -> Any:
        given = [x for x in inputs if x is not None]
        allocator = given[0].allocator
        is_without_inputs = not isinstance(
            given[0], TorchArray
        )  # the backend stands in their place
        tensors = [] if is_without_inputs else [None if x is None else x.values for x in inputs]
        result = function(*tensors, **attrs)
        if isinstance(result, torch.Tensor):
            return TorchArray(result, allocator)
        return [TorchArray(part, allocator) for part in result]

    return implementation
