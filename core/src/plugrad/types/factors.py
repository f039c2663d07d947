"""How Fourier transforms of a length are computed: by stages for its factors."""

from __future__ import annotations

from functools import lru_cache

LARGEST_RADIX = 31
"""The largest factor for which a stage is faster than the transform as a convolution."""


@lru_cache(maxsize=1024)
def fourier_stages(n: int, first: tuple[int, ...] = (4, 2)) -> tuple[int, tuple[int, ...]]:
    """Return the transform length to use for rows of `n` numbers, and its factors.

    >>> fourier_stages(360)
    (360, (4, 2, 3, 3, 5))
    >>> fourier_stages(37)
    (80, (4, 4, 5))

    With a factor beyond `LARGEST_RADIX`, the transform is a convolution with a chirp (Bluestein, 1970),
    which is computed by transforms of a convenient length, from ``2 n - 1`` on.

    Args:
        n: the length of the rows.
        first: the factors to use as often as possible, before the odd ones.
    """
    radices: list[int] = []
    rest = n
    for radix in (*first, *range(3, LARGEST_RADIX + 1, 2)):
        while rest % radix == 0:
            radices.append(radix)
            rest //= radix
    if rest == 1:
        return n, tuple(radices)
    least = 2 * n - 1
    return fourier_stages(
        min(odd << max(0, (-(-least // odd) - 1).bit_length()) for odd in (1, 3, 5, 9, 15)), first
    )
