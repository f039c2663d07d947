"""Plans of Fourier transforms: the factors of a length, one for each stage."""

from __future__ import annotations

from functools import lru_cache

MAX_FFT_RADIX = 31
"""The largest factor of a length for which a stage of its own is faster than the transform as a convolution."""


@lru_cache(maxsize=1024)
def plan_fft_stages(n: int, first: tuple[int, ...] = (4, 2)) -> tuple[int, tuple[int, ...]]:
    """Return the transform length to use for rows of `n` numbers, and its factors; those of `first` are taken first.

    >>> plan_fft_stages(360)
    (360, (4, 2, 3, 3, 5))
    >>> plan_fft_stages(37)
    (80, (4, 4, 5))

    With a factor beyond `MAX_FFT_RADIX`, the transform is a convolution with a chirp (Bluestein, 1970),
    which is computed by transforms of a convenient length, from ``2 n - 1`` on.

    Args:
        n: the length of the rows.
        first: the factors to use as often as possible, before the odd ones.
    """
    radices: list[int] = []
    rest = n
    for radix in (*first, *range(3, MAX_FFT_RADIX + 1, 2)):
        while rest % radix == 0:
            radices.append(radix)
            rest //= radix
    if rest == 1:
        return n, tuple(radices)
    least = 2 * n - 1
    return plan_fft_stages(
        min(odd << max(0, (-(-least // odd) - 1).bit_length()) for odd in (1, 3, 5, 9, 15)), first
    )
