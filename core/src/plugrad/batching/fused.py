"""Batching rules of fused kernels: one call while weights are shared, else their bodies of ops."""

from typing import Any

from plugrad.kernels import fused
from plugrad.registry.batching import Batch, register_batching
from plugrad.tensor.tensor import Tensor


def _matmul(
    batch: Batch,
    a: Tensor,
    b: Tensor,
    bias: Tensor | None = None,
    prelu_activation_weights: Tensor | None = None,
    **attrs: Any,
) -> Tensor:
    flags = batch.is_batched
    if not (flags[0] or flags[1]):  # what is added must not have more axes than the product
        a = batch.repeat(a)
        batch = batch._replace(is_batched=(True, *flags[1:]))
    return fused.matmul(*batch.align((a, b, bias, prelu_activation_weights)), **attrs)


def _convolve(
    batch: Batch,
    x: Tensor,
    filter: Tensor,
    bias: Tensor | None = None,
    prelu_activation_weights: Tensor | None = None,
    **attrs: Any,
) -> Tensor | None:
    added = [y for y in (bias, prelu_activation_weights) if y is not None]
    if any(batch.is_batched[1:]) or any(y.ndim == x.ndim - 1 and y.shape[0] > 1 for y in added):
        return None
    y = batch.kernel(batch.fold(x, 0), filter, bias, prelu_activation_weights, **attrs)
    return batch.unfold(y)


register_batching(fused.matmul, _matmul)
register_batching(fused.conv2d, _convolve)
register_batching(fused.depthwise_conv2d, _convolve)
