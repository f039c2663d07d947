"""Steps of optimizers: one call of a kernel for many variables."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from plugrad.host.optimizers import FORMULAS
from plugrad.registry.kernels import find_kernel
from plugrad.tensor.backend import store
from plugrad.tensor.context import current_context
from plugrad.tensor.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plugrad.contract.kernel import Kernel


def apply_update(
    kernel: Kernel[..., list[Tensor]], numbers: Sequence[float], *lists: Sequence[Tensor]
) -> list[list[Tensor]]:
    """Return the updated variables, then the updated slots, one list per slot.

    All tensors have one dtype, and those of one variable have its shape. Where the backend does not have the
    kernel, or would compute it on the host, and for dtypes that the kernel does not take, the formula runs for
    each variable by itself.

    Args:
        kernel: the step of an optimizer.
        numbers: its coefficients.
        lists: the variables, their gradients, and what is kept for them.
    """
    first = lists[0][0]
    around = current_context()
    backend = first.backend if around is None or around.transfer is None else around.transfer
    found = find_kernel(kernel.name, backend)
    if found is None or found.on_host or first.dtype not in kernel.accepted_dtypes:
        formula = FORMULAS[kernel]
        each = [formula(*tensors, *numbers) for tensors in zip(*lists, strict=True)]
        return [list(values) for values in zip(*each, strict=True)]
    array: Any = store(np.array(numbers, first.dtype.numpy), backend)
    outputs = kernel.call([Tensor(array, backend), *chain.from_iterable(lists)])
    count = len(lists[0])
    return [outputs[i : i + count] for i in range(0, len(outputs), count)]
