"""The division of batches among ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from plugrad.extend import ArgumentError, ShapeError
from plugrad_distributed.startup import current_world

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from plugrad_distributed.world import World


def shard(batches: Iterable[Any]) -> Iterator[Any]:
    """Yield this rank's share of each batch, and record how many of its examples count.

    >>> world = dist.init("single")
    >>> for x, y in dist.shard([(np.arange(4), np.arange(4))]):
    ...     print(x, y, world.examples)
    [0 1 2 3] [0 1 2 3] 4

    All ranks must be given the same batches. Of a batch of n examples, rank r of N takes those from ``r * n // N`` to
    ``(r + 1) * n // N``. Where that is none, because the last batch is smaller than the world, the rank gets the first
    example, which does not count: it computes like the others, and changes nothing.

    Args:
        batches: arrays or tensors whose first axis has the examples, or tuples, lists or dicts of them.

    Raises:
        ArgumentError: a batch is none of these, or `dist.init` has not been called.
        ShapeError: the arrays of a batch do not have equally many examples, or a batch is empty.
    """
    world = current_world("shard")
    return _iter_shares(batches, world)


def _iter_shares(batches: Iterable[Any], world: World) -> Iterator[Any]:
    """Yield the part of each batch that belongs to this rank."""
    outer = world.examples, world.is_padding  # of a loop around this one, as around a validation
    try:
        for batch in batches:
            count = _count_examples(batch)
            start = world.rank * count // world.size
            end = (world.rank + 1) * count // world.size
            world.examples = end - start
            world.is_padding = start == end
            yield _slice_batch(batch, start, end) if start < end else _slice_batch(batch, 0, 1)
    finally:
        world.examples, world.is_padding = outer


def _get_batch_arrays(batch: Any) -> list[Any]:
    if isinstance(batch, dict):
        return [part for value in batch.values() for part in _get_batch_arrays(value)]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(batch, tuple | list):
        return [part for value in batch for part in _get_batch_arrays(value)]  # pyright: ignore[reportUnknownVariableType]
    return [batch]


def _count_examples(batch: Any) -> int:
    counts: set[int] = set()
    for part in _get_batch_arrays(batch):
        shape = getattr(part, "shape", None)
        if not shape:
            raise ArgumentError(
                f"shard: a batch has {part!r:.80}; give arrays whose first axis has the examples, or tuples of them"
            )
        counts.add(shape[0])
    if len(counts) != 1 or 0 in counts:
        raise ShapeError(
            f"shard: the arrays of a batch have {sorted(counts)} examples; they must have equally many, and one or more"
        )
    return counts.pop()


def _slice_batch(batch: Any, start: int, end: int) -> Any:
    """Return the examples of a batch from `start` to before `end`."""
    if isinstance(batch, dict):
        return {name: _slice_batch(value, start, end) for name, value in batch.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(batch, tuple | list):
        return _make_sequence(batch, [_slice_batch(value, start, end) for value in batch])  # pyright: ignore[reportUnknownVariableType]
    return batch[start:end]


def _make_sequence(example: Any, parts: list[Any]) -> Any:
    """Return parts as a list, a tuple or a named tuple, as the example is one."""
    return getattr(example, "_make", type(example))(parts)
