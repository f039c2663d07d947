"""Cached expected results, which are the same on every backend: references, and derivatives on the cpu."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np

from plugrad import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

MAX_RESULTS = 5000
"""How many results are kept before all are forgotten: those of a few modules."""
MAX_ELEMENTS = 200_000
"""The most elements of a result that is kept."""

cached_results: dict[tuple[Any, ...], tuple[Any, Any]] = {}
"""The results, each with the objects whose identity is a part of its key."""


def compute_once(
    compute: Callable[[], Any], about: Sequence[Any], words: Any, arrays: Iterable[Any]
) -> Any:
    """Return the cached result of `compute` for the same arguments; its arrays are read-only.

    Arrays of strings are no key: their bytes tell where the letters are.
    """
    inputs = [x if x is None else np.asarray(x) for x in arrays]
    if any(x is not None and x.dtype.kind not in "biufc" for x in inputs):
        return compute()
    described = [x if x is None else (x.shape, x.dtype.str, hash_array(x)) for x in inputs]
    key = (*map(id, about), words, *described)
    if key not in cached_results:
        result = compute()
        if any(isinstance(x, Tensor) or np.size(x) > MAX_ELEMENTS for x in iter_leaves(result)):
            return result
        if len(cached_results) >= MAX_RESULTS:
            cached_results.clear()
        cached_results[key] = tuple(about), make_read_only(result)
    return cached_results[key][1]


def hash_array(array: np.ndarray[Any, Any]) -> bytes:
    return blake2b(array.tobytes(), digest_size=16).digest()


def iter_leaves(result: Any) -> Iterator[Any]:
    """Yield the leaves of nested lists and tuples."""
    if isinstance(result, list | tuple):
        for part in result:
            yield from iter_leaves(part)
    else:
        yield result


def make_read_only(result: Any) -> Any:
    """Return copies of the arrays that are read-only."""
    if isinstance(result, list | tuple):
        return [make_read_only(x) for x in result]
    copy = np.array(result)
    copy.setflags(write=False)
    return copy
