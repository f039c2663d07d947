"""Steps of optimizers: one call of a kernel for many variables."""

from __future__ import annotations

from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from plugrad.host.optimizers import FORMULAS
from plugrad.kernels.optimizers import COEFFICIENTS
from plugrad.registry.kernels import find_kernel
from plugrad.tensor.backend import unsupported_dtype
from plugrad.tensor.context import current_context
from plugrad.tensor.tensor import Tensor
from plugrad.types.dtype import float32

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeAlias

    from plugrad.contract.kernel import Kernel
    from plugrad.host.optimizers import Formula
    from plugrad.tensor.backend import Backend

    Update: TypeAlias = Callable[[Sequence[Sequence[Tensor]]], list[list[Tensor]]]


def make_update(
    kernel: Kernel[..., list[Tensor]], compute: Callable[[], Sequence[float]], first: Tensor
) -> Update:
    """Return a function of lists of tensors: variables, their gradients, and what is kept for them.

    It returns the updated variables, then the updated slots, one list per slot. All tensors have one dtype and one
    device, and those of one variable have its shape. Where the backend does not have the kernel, or would compute it
    on the host, and for dtypes that the kernel does not take, the formula runs for each variable by itself.

    Args:
        kernel: the step of an optimizer.
        compute: returns its coefficients. A traced program calls it anew in each of its calls.
        first: one of the variables.

    Raises:
        UnsupportedDtype: the backend to which inputs are transferred does not have their dtype.
    """
    around = current_context()
    backend = first.backend if around is None or around.transfer is None else around.transfer
    found = find_kernel(kernel.name, backend)
    if found is None or found.on_host or first.array.dtype not in kernel.accepted_dtypes:
        return partial(_apply_formula, FORMULAS[kernel], _scalars(kernel, compute, first, backend))
    array: Any = backend.host_value(compute, (COEFFICIENTS[kernel],), first.dtype)
    return partial(_apply_kernel, kernel, Tensor(array, backend))


def _scalars(
    kernel: Kernel[..., list[Tensor]],
    compute: Callable[[], Sequence[float]],
    first: Tensor,
    backend: Backend,
) -> list[Tensor]:
    """Return the coefficients as 0-d tensors, all of which come from one call of a function."""
    numbers: Sequence[float] = ()

    def pick(i: int) -> float:
        nonlocal numbers
        if i == 0:
            numbers = compute()
        return numbers[i]

    dtype = first.dtype if first.dtype.is_inexact else float32
    if dtype not in backend.dtypes():
        raise unsupported_dtype(dtype, backend)
    return [
        Tensor(backend.host_value(partial(pick, i), (), dtype), backend)
        for i in range(COEFFICIENTS[kernel])
    ]


def _apply_formula(
    formula: Formula, coefficients: Sequence[Tensor], lists: Sequence[Sequence[Tensor]]
) -> list[list[Tensor]]:
    each = [formula(*tensors, *coefficients) for tensors in zip(*lists, strict=True)]
    return [list(values) for values in zip(*each, strict=True)]


def _apply_kernel(
    kernel: Kernel[..., list[Tensor]], coefficients: Tensor, lists: Sequence[Sequence[Tensor]]
) -> list[list[Tensor]]:
    outputs = kernel.call([coefficients, *chain.from_iterable(lists)])
    count = len(lists[0])
    return [outputs[i : i + count] for i in range(0, len(outputs), count)]
