"""Kernels that make tensors; those without inputs get the backend as an argument, which is not needed here."""

from functools import lru_cache
from math import copysign
from typing import Any, Final

import numpy as np

from plugrad.extend import Backend, DType, Scalar, Shape
from plugrad.kernels import creation
from plugrad_cpu.declare import Array, mark_results_tracked, table
from plugrad_cpu.memory import TRACKED_MIN_BYTES, pool, track_allocation


@table.implements(creation.zeros_like)
def zeros_like(x: Array) -> Array:
    """Return zeros; `np.zeros_like` takes four times as long for a few elements."""
    return np.zeros(x.shape, x.dtype)


@table.implements(creation.ones_like)
def ones_like(x: Array) -> Array:
    """Return ones; `np.ones_like` takes four times as long for a few elements."""
    ones = np.empty(x.shape, x.dtype)
    ones.fill(1)
    return ones


@table.implements(creation.fill)
@mark_results_tracked
def fill(backend: Backend, *, shape: Shape, value: Scalar | str, dtype: DType) -> Array:
    """Return one value everywhere; the operating system provides zeros when they are first used."""
    # The zero with a sign is not that of the operating system.
    if value or (type(value) is float and copysign(1, value) < 0) or type(value) is complex:
        y = np.empty(shape, dtype.numpy)  # `np.full` takes three times as long for a few elements
        y.fill(value)
    else:
        y = np.zeros(shape, dtype.numpy)
    if y.nbytes >= TRACKED_MIN_BYTES:
        pool.count(y)
    return y


MAX_EXACT_FLOAT32_INTEGER: Final = 2**24
"""The integer up to which float32 represents every integer."""


@table.implements(creation.range)
@mark_results_tracked
def range_(backend: Backend, *, start: float, stop: float, step: float, dtype: DType) -> Array:
    """Return start, start + step, … before stop, as dtype; computed in float64 if any argument is a float."""
    if isinstance(start, int) and isinstance(stop, int) and isinstance(step, int):
        count = len(range(start, stop, step))
    else:
        (count,) = creation.range.infer(start=start, stop=stop, step=step, dtype=dtype).shape
    if start == 0 and step == 1 and count < MAX_EXACT_FLOAT32_INTEGER and dtype.itemsize >= 4:
        if count <= CACHED_MAX_ELEMENTS:
            return cached_arange(count, dtype.numpy).copy()
        return track_allocation(np.arange(count, dtype=dtype.numpy))
    numbers = start + np.arange(count, dtype="int64") * step
    return track_allocation(numbers.astype(str(dtype)))


@lru_cache(maxsize=64)
def cached_arange(count: int, dtype: np.dtype[Any]) -> Array:
    """Return the numbers from 0 to ``count - 1`` in a cached array, because programs ask for few numbers often."""
    return np.arange(count, dtype=dtype)


@table.implements(creation.linspace)
@mark_results_tracked
def linspace(backend: Backend, *, start: complex, stop: complex, num: int, dtype: DType) -> Array:
    """Return `num` equally spaced numbers from `start` to `stop`, both included."""
    if num > CACHED_MAX_ELEMENTS or num < 2:
        return track_allocation(np.linspace(start + 0.0, stop + 0.0, num).astype(dtype.numpy))
    return _few_equally_spaced(start, stop, num, dtype).copy()  # DLPack gives others its memory


@lru_cache(maxsize=64)
def _few_equally_spaced(start: complex, stop: complex, num: int, dtype: DType) -> Array:
    """Return `num` equally spaced numbers from `start` to `stop` from a cache, as programs ask for them again."""
    y = np.arange(num, dtype=np.float64) * ((stop - start) / (num - 1))
    y += start
    y[-1] = stop + 0.0
    return y.astype(dtype.numpy)


CACHED_MAX_ELEMENTS: Final = 1024
"""The maximum elements of arrays that are cached, and made faster than by `np.linspace`."""
