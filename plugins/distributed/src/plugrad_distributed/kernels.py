"""The exchanges as kernels: they run where tensors live, `plugrad.jit` records them, and they can be differentiated.

They run on the host, of every backend. Each takes a *ticket*, a number of the host that a traced program computes
anew in each of its calls, or the result of one that does: without it, a call with constant inputs would be made once
only, and two equal calls would become one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

import plugrad
from plugrad.extend import (
    KernelConfig,
    Shaped,
    Spec,
    as_dtype,
    gradient,
    host_value,
    int32,
    kernel,
    not_differentiable,
)
from plugrad_distributed.world import World, describe_arrays

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from plugrad import Tensor
    from plugrad.extend import Backend
    from plugrad_distributed.reduction import GradientReduction

KERNEL_FAMILY: Final = "distributed"
COMPLETION_TOKEN: Final = np.zeros((), np.int32)
"""The result of a kernel that only begins an exchange; later kernels take it as an input."""


# --- contracts ------------------------------------------------------------------------------------


@kernel("AllReduce", family=KERNEL_FAMILY)
def all_reduce(x: Spec, ticket: Spec, *, world: Any) -> Spec:
    """Sum a tensor over all ranks.

    Args:
        x: numbers, of the same shape and dtype on all ranks.
        ticket: any number.
        world: the ranks.
    """
    return x


@kernel("GatherShards", family=KERNEL_FAMILY)
def gather_shards(x: Spec, ticket: Spec, *, world: Any) -> Spec:
    """Concatenate the tensors of all ranks.

    Args:
        x: a tensor of one axis, of the same size and dtype on all ranks.
        ticket: any number.
        world: the ranks.
    """
    return Shaped((x.shape[0] * world.size,), x.dtype)


@kernel("BeginReduction", family=KERNEL_FAMILY)
def begin_reduction(ticket: Spec, *, reduction: Any, examples: int | None = None) -> Spec:
    """Begin a step: announce to all ranks the gradients to sum, and this rank's number of examples.

    Args:
        ticket: any number.
        reduction: the sums of the step.
        examples: how many this rank has; None for what `shard` has noted.
    """
    return Shaped((), int32)


@kernel("LossScale", family=KERNEL_FAMILY)
def loss_scale(token: Spec, *, reduction: Any, dtype: str) -> Spec:
    """Return the factor for this rank's loss: its share of all examples times the number of ranks.

    Args:
        token: the result of BeginReduction.
        reduction: the sums of the step.
        dtype: the dtype of the result.
    """
    return Shaped((), as_dtype(dtype))


@kernel("SendBucket", family=KERNEL_FAMILY)
def send_bucket(flat: Spec, token: Spec, *, reduction: Any, index: int, scaled: bool) -> Spec:
    """Start the sum of a bucket of gradients over all ranks.

    Args:
        flat: the gradients one after the other.
        token: the result of BeginReduction.
        reduction: the sums of the step.
        index: the number of the part.
        scaled: whether the gradients are those of a loss that was multiplied by LossScale.
    """
    return Shaped((), int32)


@kernel("AccumulateBucket", family=KERNEL_FAMILY)
def accumulate_bucket(flat: Spec, token: Spec, *, reduction: Any, index: int) -> Spec:
    """Add a bucket of gradients to the bucket that the next step sends.

    Args:
        flat: the gradients one after the other.
        token: the result of BeginReduction.
        reduction: the sums of the step.
        index: the number of the part.
    """
    return Shaped((), int32)


@kernel("ReceiveBucket", family=KERNEL_FAMILY)
def receive_bucket(token: Spec, *, reduction: Any, index: int, size: int, dtype: str) -> Spec:
    """Wait for the sum of a bucket, and return its mean over all examples.

    Args:
        token: the result of SendBucket.
        reduction: the sums of the step.
        index: the number of the part.
        size: how many numbers it has.
        dtype: their dtype.
    """
    return Shaped((size,), as_dtype(dtype))


gradient(all_reduce, x=lambda dy, world: sum_over_ranks(dy, world))
not_differentiable(
    *(gather_shards, begin_reduction, loss_scale, send_bucket, accumulate_bucket, receive_bucket),
    because="it exchanges gradients, after they have been computed",
)


# --- what runs on the host ------------------------------------------------------------------------


def _all_reduce(x: NDArray[Any], ticket: NDArray[Any], *, world: World) -> NDArray[Any]:
    total = np.array(x)

    def exchange() -> None:
        world.check_agreement(describe_arrays("the sum of a tensor", [total]))
        world.sum(total)

    world.submit(exchange).result()
    return total


def _gather_shards(x: NDArray[Any], ticket: NDArray[Any], *, world: World) -> NDArray[Any]:
    own = np.array(x)

    def exchange() -> NDArray[Any]:
        world.check_agreement(describe_arrays("the parts of updated variables", [own]))
        return world.gather(own)

    return world.submit(exchange).result().reshape(-1)


def _begin_reduction(
    ticket: NDArray[Any], *, reduction: GradientReduction, examples: int | None
) -> NDArray[Any]:
    reduction.begin(examples)
    return COMPLETION_TOKEN


def _loss_scale(token: NDArray[Any], *, reduction: GradientReduction, dtype: str) -> NDArray[Any]:
    return np.asarray(reduction.loss_scale(), as_dtype(dtype).numpy)


def _send_bucket(
    flat: NDArray[Any],
    token: NDArray[Any],
    *,
    reduction: GradientReduction,
    index: int,
    scaled: bool,
) -> NDArray[Any]:
    reduction.send(index, flat, scaled)
    return COMPLETION_TOKEN


def _accumulate_bucket(
    flat: NDArray[Any], token: NDArray[Any], *, reduction: GradientReduction, index: int
) -> NDArray[Any]:
    reduction.accumulate(index, flat)
    return COMPLETION_TOKEN


def _receive_bucket(
    token: NDArray[Any], *, reduction: GradientReduction, index: int, size: int, dtype: str
) -> NDArray[Any]:
    return reduction.receive(index).astype(as_dtype(dtype).numpy, copy=False)


HOST_FUNCTIONS: Final = {
    all_reduce: _all_reduce,
    gather_shards: _gather_shards,
    begin_reduction: _begin_reduction,
    loss_scale: _loss_scale,
    send_bucket: _send_bucket,
    accumulate_bucket: _accumulate_bucket,
    receive_bucket: _receive_bucket,
}


def ensure_registered(backend: Backend) -> None:
    """Register the kernels for a backend unless they are registered."""
    for contract, body in HOST_FUNCTIONS.items():
        if plugrad.get_kernel(contract.name, backend.name) is None:
            config = KernelConfig(contract.name, backend.name, body, on_host=True)
            plugrad.register_kernel(config)


# --- tensors --------------------------------------------------------------------------------------


def make_call_ticket(backend: Backend) -> Tensor:
    """Return a new number on a device, which a traced program renews in each call."""
    return host_value(lambda: 0, dtype="int32", device=backend)


def sum_over_ranks(x: Tensor, world: World) -> Tensor:
    """Return the differentiable sum of a tensor over all ranks."""
    if world.size == 1:
        return x
    ensure_registered(x.backend)
    return all_reduce(x, make_call_ticket(x.backend), world=world)
