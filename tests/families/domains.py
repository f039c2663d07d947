"""Random inputs of test cases: the domains from which elements are drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

DrawFunction = Callable[[np.random.Generator, tuple[int, ...], str], NDArray[Any]]


@dataclass(frozen=True)
class Domain:
    """A distribution of the elements of an input; `dtype` is set if the input always has the same dtype.

    The contract allows the numbers between the two in `allowed`.
    """

    draw: DrawFunction
    dtype: str = ""
    allowed: tuple[float, float] = (-np.inf, np.inf)


def uniform(
    low: float,
    high: float,
    *,
    avoid: Sequence[float] = (),
    margin: float = 0.1,
    without: Sequence[int] = (),
) -> Domain:
    """Uniformly distributed numbers between two bounds.

    Args:
        low: the lower bound.
        high: the upper bound.
        avoid: where a function has a kink; floats stay away from it.
        margin: how far they stay away.
        without: what integers may not be.
    """

    def draw(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> NDArray[Any]:
        if dtype == "bool":
            return rng.integers(0, 2, shape).astype(bool)
        if dtype.startswith("complex"):
            return (rng.uniform(low, high, shape) + 1j * rng.uniform(-1, 1, shape)).astype(dtype)
        if "int" in dtype:
            least = max(low, 0) if dtype.startswith("u") else low
            numbers = set(range(int(np.ceil(least)), int(np.floor(high)) + 1)) - set(without)
            return rng.choice(sorted(numbers), shape).astype(dtype)
        x = np.asarray(rng.uniform(low, high, shape))
        for kink in avoid:
            x = np.where(np.abs(x - kink) < margin, x + 2 * margin, x)
        return x.astype(dtype)

    return Domain(draw)


def integers(low: int, high: int, dtype: str = "int32") -> Domain:
    """Integers of one dtype from `low` to `high`, both included."""
    return Domain(lambda rng, shape, _: rng.integers(low, high, shape, dtype, endpoint=True), dtype)


def repeated_integers(low: int, high: int) -> Domain:
    """Integers from `low` to `high`, both included, of the dtype of the case; many of them are equal."""
    return Domain(
        lambda rng, shape, dtype: rng.integers(low, high, shape, endpoint=True).astype(dtype)
    )


def bools() -> Domain:
    """Bools."""
    return Domain(lambda rng, shape, _: rng.integers(0, 2, shape).astype(bool), "bool")


def distinct(step: float = 0.25) -> Domain:
    """Return numbers around 0 in random order, of which any two differ by at least `step`."""

    def draw(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> NDArray[Any]:
        count = int(np.prod(shape))
        numbers = (rng.permutation(count) - count // 2) * (1 if "int" in dtype else step)
        return numbers.reshape(shape).astype(dtype)

    return Domain(draw)


def strings(*choices: str) -> Domain:
    """Strings: the given ones in random order, or some short ones."""
    text = np.dtypes.StringDType()
    strings = np.array(choices or ("a", "b", "ab", "", "é"), text)
    return Domain(
        lambda rng, shape, _: np.asarray(strings[rng.integers(0, len(strings), shape)], text),
        "string",
    )


def constant(values: Any) -> Domain:
    """The given values, whatever the shape."""
    return Domain(lambda rng, shape, dtype: np.asarray(values).astype(dtype))
