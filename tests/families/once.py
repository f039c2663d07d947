"""What is the same on every backend is computed once: the results of references, and the derivatives of the cpu."""

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

known: dict[tuple[Any, ...], tuple[Any, Any]] = {}
"""The results, each with the objects whose identity is a part of its key."""


def compute_once(
    compute: Callable[[], Any], about: Sequence[Any], words: Any, arrays: Iterable[Any]
) -> Any:
    """Return what `compute` gives for objects, words and arrays of numbers; the arrays of the result are read-only.

    Arrays of strings are no key: their bytes tell where the letters are.
    """
    inputs = [x if x is None else np.asarray(x) for x in arrays]
    if any(x is not None and x.dtype.kind not in "biufc" for x in inputs):
        return compute()
    described = [x if x is None else (x.shape, x.dtype.str, digest(x)) for x in inputs]
    key = (*map(id, about), words, *described)
    if key not in known:
        result = compute()
        if any(isinstance(x, Tensor) or np.size(x) > MAX_ELEMENTS for x in leaves(result)):
            return result
        if len(known) >= MAX_RESULTS:
            known.clear()
        known[key] = tuple(about), protect(result)
    return known[key][1]


def digest(array: np.ndarray[Any, Any]) -> bytes:
    return blake2b(array.tobytes(), digest_size=16).digest()


def leaves(result: Any) -> Iterator[Any]:
    """Yield what is in lists and tuples."""
    if isinstance(result, list | tuple):
        for part in result:
            yield from leaves(part)
    else:
        yield result


def protect(result: Any) -> Any:
    """Return the same arrays as copies that are read-only."""
    if isinstance(result, list | tuple):
        return [protect(x) for x in result]
    copy = np.array(result)
    copy.setflags(write=False)
    return copy
