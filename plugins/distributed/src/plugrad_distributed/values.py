"""Exchanges of values: those of variables, of files, and of tensors inside a model."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

import plugrad
from plugrad.extend import ArgumentError, DTypeError, host_value, is_interruption
from plugrad_distributed import kernels
from plugrad_distributed.startup import current_world
from plugrad_distributed.world import ExchangeDescription, describe_arrays

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from os import PathLike

    from plugrad import Tensor, Variable
    from plugrad_distributed.world import World


def barrier() -> None:
    """Wait until all ranks have called this.

    >>> world = dist.init("single")
    >>> dist.barrier()

    Raises:
        RanksDisagree, CollectiveTimeout, CollectiveFailed: a rank comes elsewhere, or does not come.
    """
    world = current_world("barrier")
    world.submit(world.check_agreement, ExchangeDescription.from_lines("a barrier")).result()


def broadcast(variables: Iterable[Variable], *, root: int = 0) -> None:
    """Copy the values of one rank, such as initial or loaded ones, to the variables of all ranks.

    >>> world = dist.init("single")
    >>> w = plugrad.Variable([1.0])
    >>> dist.broadcast([w])

    Args:
        variables: the variables, in the same order on all ranks.
        root: the rank whose values are taken.

    Raises:
        ArgumentError: an entry is not a variable, or `root` is not a rank.
        RanksDisagree: the variables of another rank have other shapes or dtypes.
        CollectiveTimeout, CollectiveFailed: a rank does not come.
    """
    world = current_world("broadcast")
    found = list(variables)
    for x in found:
        if not isinstance(x, plugrad.Variable):  # pyright: ignore[reportUnnecessaryIsInstance] - people pass anything
            raise ArgumentError(f"broadcast: {x!r:.80} is not a Variable")
    if root not in range(world.size):
        raise ArgumentError(f"broadcast: root={root!r:.80} is not a rank of {world.size}")
    values = [np.array(x.numpy()) for x in found]
    description = describe_arrays(f"values of rank {root}", values)

    def exchange() -> None:
        world.check_agreement(description)
        for value in values:
            if value.size:
                world.broadcast(value, root)

    world.submit(exchange).result()
    if world.rank != root:
        for variable, value in zip(found, values, strict=True):
            variable.assign(value)


def all_reduce(x: Tensor) -> Tensor:
    """Return the sum of a tensor over all ranks.

    >>> world = dist.init("single")
    >>> dist.all_reduce(plugrad.ones(2))
    tensor([1., 1.], dtype=float32)

    It can be differentiated, and be part of a function for `plugrad.jit`. All ranks must call it in the same order.

    Raises:
        ArgumentError: `x` is not a tensor.
        DTypeError: it holds no numbers.
        RanksDisagree: that of another rank has another shape or dtype.
        CollectiveTimeout, CollectiveFailed: a rank does not come.
    """
    world = current_world("all_reduce")
    if not isinstance(x, plugrad.Tensor):  # pyright: ignore[reportUnnecessaryIsInstance] - people pass anything
        raise ArgumentError(f"all_reduce: {x!r:.80} is not a tensor")
    if not plugrad.isdtype(x.dtype, "numeric"):
        raise DTypeError(
            f"all_reduce: x is {x.dtype}, which has no sums; convert it, as in x.astype('int32')"
        )
    return kernels.sum_over_ranks(x, world)


def sum_numbers(numbers: Sequence[float]) -> list[float]:
    """Return the sums of numbers over all ranks, in double precision.

    >>> world = dist.init("single")
    >>> dist.sum_numbers([0.5, 2.0])
    [0.5, 2.0]

    Raises:
        RanksDisagree, CollectiveTimeout, CollectiveFailed: as for `all_reduce`.
    """
    world = current_world("sum_numbers")
    total = np.array(numbers, np.float64)

    def exchange() -> None:
        world.check_agreement(describe_arrays("sums of numbers", [total]))
        world.sum(total)

    if world.size > 1 and total.size:
        world.submit(exchange).result()
    return total.tolist()


def moments(x: Tensor, axis: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Return the mean and variance over the batches of all ranks, as batch normalization needs them.

    >>> world = dist.init("single")
    >>> dist.moments(plugrad.asarray([[1.0, 5.0], [3.0, 5.0]]), (0,))
    (tensor([2., 5.], dtype=float32), tensor([1., 0.], dtype=float32))

    A rank whose share of the batch is empty does not count. It can be differentiated.

    Args:
        x: a part of a batch, whose first axis has the examples.
        axis: the axes to average over, among them the first.

    Raises:
        RanksDisagree, CollectiveTimeout, CollectiveFailed: as for `all_reduce`.
    """
    world = current_world("moments")
    kept = [i for i in range(x.ndim) if i not in axis]
    elements = prod(x.shape[i] for i in range(x.ndim) if i in axis)
    own = host_value(_make_element_counter(world, elements), device=x.backend)
    shape = [x.shape[i] for i in kept]
    sums = plugrad.mean(x, axis=tuple(axis)).reshape(-1) * own
    total = kernels.sum_over_ranks(plugrad.concat([sums, own.reshape(1)]), world)
    count = total[-1:]
    mean = (total[:-1] / count).reshape(shape)
    wide = mean.reshape([x.shape[i] if i in kept else 1 for i in range(x.ndim)])
    squares = plugrad.mean(plugrad.square(x - wide), axis=tuple(axis)).reshape(-1) * own
    return mean, (kernels.sum_over_ranks(squares, world) / plugrad.stop_gradient(count)).reshape(
        shape
    )


def _make_element_counter(world: World, element_count: int) -> Callable[[], float]:
    """Return a function that counts the elements of this rank's batch; examples without weight have statistics, too."""
    return lambda: 0.0 if world.is_padding else float(element_count)


def rank_seed(seed: int) -> int:
    """Return a seed that differs on each rank; on rank 0 it is the given one.

    >>> world = dist.init("single")
    >>> dist.rank_seed(7)
    7
    """
    return seed + (current_world("rank_seed").rank << 96)


def save(path: str | PathLike[str], tree: Any) -> None:
    """Write a file by `plugrad.save` on rank 0, and return on all ranks after it is written.

    Raises:
        RanksDisagree, CollectiveTimeout, CollectiveFailed: a rank does not come.
    """
    if current_world("save").rank == 0:
        plugrad.save(path, tree)
    barrier()


def load(path: str | PathLike[str]) -> Any:
    """Read a file by `plugrad.load` on rank 0, and return the result on all ranks, which need not have the file.

    Raises:
        RanksDisagree, CollectiveTimeout, CollectiveFailed: a rank does not come.
    """
    world = current_world("load")
    if world.size == 1:
        return plugrad.load(path)
    content = np.zeros(0, np.uint8)
    failure = ""
    if world.rank == 0:
        try:
            content = np.fromfile(path, np.uint8)
        except OSError as error:
            if is_interruption(error):
                raise
            failure = str(error)
    sizes, failures = _share_size_and_failure(world, content.size, failure)
    if failures:
        raise FileNotFoundError(f"load: rank 0 cannot read {path}: {failures}")
    buffer = content if world.rank == 0 else np.zeros(sizes, np.uint8)

    def exchange() -> None:
        world.check_agreement(describe_arrays("a file of rank 0", [buffer]))
        world.broadcast(buffer, 0)

    world.submit(exchange).result()
    return _decode_file(path, buffer.tobytes(), world)


def _share_size_and_failure(world: World, file_bytes: int, failure: str) -> tuple[int, str]:
    """Return the announcement of rank 0: the bytes of the file, and why it cannot be read."""
    texts = world.submit(world.gather_texts, f"{file_bytes} {failure}").result()
    found, _, failures = texts[0].partition(" ")
    return int(found), failures


def _decode_file(path: str | PathLike[str], content: bytes, world: World) -> Any:
    """Decode the bytes of a file."""
    from pathlib import Path
    from tempfile import TemporaryDirectory

    if world.rank == 0:
        return plugrad.load(path)
    with TemporaryDirectory() as folder:
        copy = Path(folder) / Path(path).name
        copy.write_bytes(content)
        return plugrad.load(copy)
