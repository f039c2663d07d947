"""Batching rules of the steps of optimizers, which are the same for all elements of all examples."""

from plugrad.kernels import optimizers
from plugrad.registry.batching import Batch, register_batching
from plugrad.tensor.tensor import Tensor


def _update_variables(batch: Batch, *inputs: Tensor) -> list[Tensor] | None:
    if batch.is_batched[0]:  # a rate for each example
        return None
    coefficients, *tensors = inputs
    return batch.kernel(
        coefficients, *[batch.with_batch_axis(x, i) for i, x in enumerate(tensors, 1)]
    )


for _kernel in optimizers.LIST_COUNT_OF_KERNEL:
    register_batching(
        _kernel, _update_variables, except_when="the coefficients, such as the rate, are batched"
    )
