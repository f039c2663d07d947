"""Batches and shuffling of arrays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sized
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

import numpy as np

import plugrad
from plugrad.extend import ArgumentError, ShapeError
from plugrad_nn.arguments import check_flag, check_integer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from plugrad import Tensor


def batches(
    *arrays: Any, size: int = 32, seed: int | None = None, drop_remainder: bool = False
) -> Iterator[tuple[Tensor, ...]]:
    """Yield tuples of tensors with `size` examples from each array, in order or shuffled.

    >>> x, y = np.arange(5.0, dtype=np.float32), np.arange(5, dtype=np.int32)
    >>> for x_batch, y_batch in nn.batches(x, y, size=2):
    ...     print(x_batch.tolist(), y_batch.tolist())
    [0.0, 1.0] [0, 1]
    [2.0, 3.0] [2, 3]
    [4.0] [4]
    >>> next(nn.batches(x, y, size=3, seed=0))[1].shape
    (3,)

    NumPy arrays and lists are converted to tensors of the active backend, one batch at a time. Tensors
    stay where they are.

    Args:
        arrays: NumPy arrays, tensors or lists with one entry for each example, equally many in each.
        size: the number of examples in a batch.
        seed: an integer that determines the order; None leaves it as it is. Give each epoch another.
        drop_remainder: whether a last batch with fewer examples is left out.

    Raises:
        ArgumentError, ArgumentValueError: there are no arrays, or another argument is none of the above.
        ShapeError: the arrays do not have equally many examples.
    """
    examples, count = check_arrays("batches", arrays)
    size = check_integer("batches", "size", size, 1)
    check_flag("batches", "drop_remainder", drop_remainder)
    order = None if seed is None else _random_order("batches", seed, count)
    end = count - count % size if drop_remainder else count
    return (
        to_tensors(
            [_select_examples(x, slice(start, min(start + size, end)), order) for x in examples]
        )
        for start in range(0, end, size)
    )


def shuffled(*arrays: Any, seed: int) -> tuple[Any, ...]:
    """Return the arrays with their examples shuffled in the same random order.

    >>> x, y = nn.shuffled(np.arange(5), np.arange(5), seed=0)
    >>> bool((x == y).all()), sorted(x.tolist())
    (True, [0, 1, 2, 3, 4])

    A tensor gives a tensor, and anything else a NumPy array.

    Raises:
        ArgumentError, ArgumentValueError: there are no arrays, or the seed is not an integer, 0 or more.
        ShapeError: the arrays do not have equally many examples.
    """
    examples, count = check_arrays("shuffled", arrays)
    order = _random_order("shuffled", seed, count)
    return tuple(take_examples(array, order) for array in examples)


@dataclass(frozen=True)
class BatchSource:
    """The batches of a training: inputs, labels and optional weights, which may be nested containers."""

    batches: Callable[[int | None], Iterator[tuple[Any, ...]]]
    """A function of a seed that returns the batches of one epoch."""
    steps: int | None
    """The number of batches in an epoch, if it is known."""


def make_batches(
    function_name: str,
    x: Any,
    y: Any,
    weights: Any = None,
    *,
    batch_size: int,
    steps_per_epoch: int | None = None,
    on_host: Sequence[int] = (),
    is_read_once: bool = False,
) -> BatchSource:
    """Return the source of batches from arrays, or from an iterable of batches.

    Args:
        function_name: the name of the function that is called, for messages.
        x: the inputs, or the iterable.
        y: the labels, if `x` is no iterable.
        weights: the weights of the examples, likewise.
        batch_size: the number of examples in a batch.
        steps_per_epoch: the number of batches in an epoch; None for all.
        on_host: which parts of a batch remain NumPy arrays: 1 for the labels, and 2 for the weights. Tensors that an
            iterable yields remain tensors.
        is_read_once: whether the batches are those of one epoch, so that a generator needs no number of steps.

    Raises:
        ArgumentError: `x` is neither arrays for labels `y` nor an iterable of batches, or a generator without a number
            of steps; or there are weights beside an iterable.
        ShapeError: the arrays do not have equally many examples.
    """
    if y is not None:
        whole_batch = (x, y) if weights is None else (x, y, weights)
        examples, count = check_arrays(function_name, [*iter_leaves(whole_batch)])
        found = iter(examples)
        parts = [map_leaves(lambda _: next(found), part) for part in whole_batch]
        for i in set(on_host) & set(range(len(parts))):
            parts[i] = map_leaves(_as_array, parts[i])  # once, and not for each batch

        def from_arrays(seed: int | None) -> Iterator[tuple[Any, ...]]:
            """Yield the batches of an epoch, in an order that the seed determines."""
            order = None if seed is None else _random_order(function_name, seed, count)
            for start in range(0, count, batch_size):
                places = slice(start, min(start + batch_size, count))
                batch = [map_leaves(lambda x: _select_examples(x, places, order), p) for p in parts]  # noqa: B023 - called at once
                yield to_tensors(batch, on_host)

        return BatchSource(
            _limit_steps(from_arrays, steps_per_epoch), steps_per_epoch or -(-count // batch_size)
        )
    if weights is not None:
        raise ArgumentError(
            f"{function_name}: sample_weight is for arrays; an iterable yields triples (inputs, labels, weights)"
        )
    if not isinstance(x, Iterable) or isinstance(x, plugrad.Tensor | np.ndarray):
        raise ArgumentError(
            f"{function_name}: without y, x must be an iterable of batches (inputs, labels), and not "
            f"a {type(x).__name__}"
        )
    whole = cast("Iterable[Any]", x)
    if steps_per_epoch is None and isinstance(whole, Iterator) and not is_read_once:
        raise ArgumentError(
            f"{function_name}: x is a generator, which can be read once; give steps_per_epoch=, or a list or another "
            "iterable that begins anew for each epoch"
        )

    def from_iterable(seed: int | None) -> Iterator[tuple[Any, ...]]:
        """Yield the batches of the iterable."""
        for batch in whole:
            yield _as_batch(function_name, batch, on_host)

    known = len(whole) if isinstance(whole, Sized) else None
    return BatchSource(_limit_steps(from_iterable, steps_per_epoch), steps_per_epoch or known)


def iter_inputs(function_name: str, x: Any, batch_size: int) -> Iterator[Any]:
    """Yield batches of inputs in order, which may be nested containers.

    Raises:
        ArgumentError, ShapeError: as for `batches`.
    """
    examples, count = check_arrays(function_name, [*iter_leaves(x)])
    for start in range(0, count, batch_size):
        found = iter(examples)
        yield map_leaves(lambda _: _as_tensor(next(found)[start : start + batch_size]), x)  # noqa: B023 - called at once


def _limit_steps(
    make_iterator: Callable[[int | None], Iterator[tuple[Any, ...]]], steps_per_epoch: int | None
) -> Callable[[int | None], Iterator[tuple[Any, ...]]]:
    """Return a function of a seed whose iterators end after a number of steps."""
    return (
        make_iterator
        if steps_per_epoch is None
        else lambda seed: islice(make_iterator(seed), steps_per_epoch)
    )


def _as_batch(function_name: str, batch: Any, on_host: Sequence[int]) -> tuple[Any, ...]:
    """Return inputs, labels and optional weights as tensors, or as arrays on the host.

    Raises:
        ArgumentError: the batch is neither a pair nor a triple.
    """
    if not isinstance(batch, tuple | list) or len(cast("list[Any]", batch)) not in (2, 3):
        raise ArgumentError(
            f"{function_name}: x must yield pairs (inputs, labels), or triples with weights, and not a "
            f"{type(batch).__name__}"
        )
    return to_tensors(cast("list[Any]", batch), on_host)


def to_tensors(parts: Sequence[Any], on_host: Sequence[int] = ()) -> tuple[Any, ...]:
    """Convert the parts of a batch to tensors, or with `on_host` to NumPy arrays unless they are tensors already."""
    return tuple(
        map_leaves(_as_array_unless_tensor if i in on_host else _as_tensor, part)
        for i, part in enumerate(parts)
    )


def _as_tensor(x: Any) -> Tensor:
    return x if isinstance(x, plugrad.Tensor) else plugrad.asarray(x)


def _as_array_unless_tensor(x: Any) -> Any:
    return x if isinstance(x, plugrad.Tensor) else _as_array(x)


def _as_array(x: Any) -> NDArray[Any]:
    values = np.asarray(x)
    if isinstance(x, list | tuple) and values.dtype.kind in "iufc":
        # Numbers of Python get the dtypes of plugrad, not those of NumPy.
        return plugrad.asarray(x).numpy()
    return values


def iter_leaves(tree: Any) -> Iterator[Any]:
    """Yield the arrays in nested dicts and tuples; lists are arrays."""
    if isinstance(tree, dict):
        for part in cast("dict[str, Any]", tree).values():
            yield from iter_leaves(part)
    elif isinstance(tree, tuple):
        for part in cast("tuple[Any, ...]", tree):
            yield from iter_leaves(part)
    else:
        yield tree


def map_leaves(function: Callable[[Any], Any], tree: Any) -> Any:
    """Return nested dicts and tuples with a function applied to the arrays in them."""
    if isinstance(tree, dict):
        return {
            name: map_leaves(function, part) for name, part in cast("dict[str, Any]", tree).items()
        }
    if isinstance(tree, tuple):
        return tuple(map_leaves(function, part) for part in cast("tuple[Any, ...]", tree))
    return function(tree)


def check_arrays(function_name: str, arrays: Sequence[Any]) -> tuple[list[Any], int]:
    """Return the arrays as tensors or NumPy arrays, and the number of examples.

    Raises:
        ArgumentError: there are none, or one is no array.
        ShapeError: they do not have equally many examples.
    """
    if not arrays:
        raise ArgumentError(f"{function_name}: give one array or more")
    try:
        found = [x if isinstance(x, plugrad.Tensor) else _as_array(x) for x in arrays]
    except ValueError as error:
        raise ArgumentError(
            f"{function_name}: give the arrays one after the other, as in {function_name}(x, y); an argument is none: "
            f"{error}"
        ) from None
    shapes: list[tuple[int, ...]] = [tuple(x.shape) for x in found]
    if not all(shapes) or len({shape[0] for shape in shapes}) != 1:
        raise ShapeError(
            f"{function_name}: the arrays have the shapes {', '.join(map(str, shapes))}; their first axes must "
            "have one size, the number of examples, and other arguments have names, such as size=32 and seed=0"
        )
    return found, shapes[0][0]


def _random_order(function_name: str, seed: int, example_count: int) -> Any:
    """Return the indices of examples in random order."""
    return np.random.default_rng(check_integer(function_name, "seed", seed)).permutation(
        example_count
    )


def _select_examples(array: Any, positions: slice, order: Any) -> Any:
    """Return the examples at positions of an order; tensors give tensors, arrays give arrays."""
    return array[positions] if order is None else take_examples(array, order[positions])


def take_examples(x: Any, example_indices: NDArray[Any]) -> Any:
    """Return the examples at these indices; a tensor gives a tensor, an array gives an array."""
    if not isinstance(x, plugrad.Tensor):
        return x[example_indices]
    indices = plugrad.asarray(example_indices.astype(np.int32), device=x.backend)
    return plugrad.take(x, indices, axis=0)
