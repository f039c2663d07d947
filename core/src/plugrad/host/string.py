"""Kernels of text, which Python processes string by string."""

import re
from itertools import chain, pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from plugrad.contract.kernel import Kernel
from plugrad.errors import ArgumentValueError
from plugrad.host import format_values
from plugrad.host.fingerprint import fingerprint64
from plugrad.kernels import string
from plugrad.types import dtype
from plugrad.types.specs import Shape

Array = NDArray[Any]
"""A NumPy array of any dtype and shape."""


def flatten_strings(values: list[str]) -> Array:
    """Return a 1-d array of strings."""
    return np.array(values, dtype.string.numpy)


def static_regex_replace(x: Array, *, pattern: str, rewrite: str, replace_global: bool) -> Array:
    """Return the strings with all matches replaced, or only the first of each string."""
    compiled, write = string.compile_replacement(pattern, rewrite)
    count = 0 if replace_global else 1
    return flatten_strings([compiled.sub(write, text, count) for text in x.flat]).reshape(x.shape)


def string_to_hash_bucket_fast(input: Array, *, num_buckets: int) -> Array:
    """Return the hash bucket of each string."""
    buckets = [fingerprint64(text.encode()) % num_buckets for text in input.flat]
    return np.array(buckets, np.int32).reshape(input.shape)


def string_split(input: Array, delimiter: Array, *, skip_empty: bool) -> tuple[Array, Array, Array]:
    """Return the coordinates (row, column) of all pieces, the pieces, and the shape (rows, most pieces)."""
    characters = delimiter.item()
    cuts = re.compile(f"[{re.escape(characters)}]") if characters else None
    rows: list[list[str]] = []
    for text in input.tolist():
        parts = list(text) if cuts is None else cuts.split(text) if text else []
        rows.append([part for part in parts if part or not skip_empty])
    places = [(row, place) for row, parts in enumerate(rows) for place in range(len(parts))]
    return (
        np.array(places, np.int32).reshape(-1, 2),
        flatten_strings(list(chain(*rows))),
        np.array([len(rows), max(map(len, rows), default=0)], np.int32),
    )


def string_n_grams(
    data: Array,
    data_splits: Array,
    *,
    separator: str,
    n_gram_widths: Shape,
    left_pad: str,
    right_pad: str,
    pad_width: int,
    preserve_short_sequences: bool,
) -> tuple[Array, Array]:
    """Return the n-grams of all rows, and the index at which each row's n-grams begin.

    Raises:
        ArgumentValueError: the splits do not begin with 0, decrease, or do not end with the number of
            tokens.
    """
    splits = data_splits.tolist()
    if splits and (splits[0], splits[-1]) != (0, data.size):
        raise ArgumentValueError(
            f"StringNGrams: data_splits={format_values(data_splits)} must begin with 0 and end with {data.size}, the "
            "number of tokens"
        )
    if sorted(splits) != splits:
        raise ArgumentValueError(
            f"StringNGrams: data_splits={format_values(data_splits)} must not decrease"
        )
    tokens: list[str] = data.tolist()
    if not tokens:  # as in TensorFlow: padding alone makes no n-grams
        return flatten_strings([]), np.zeros(len(splits), np.int32)
    found: list[str] = []
    ends = [0] if splits else []
    for start, stop in pairwise(splits):
        row = tokens[start:stop]
        for width in n_gram_widths:
            margin = width - 1 if pad_width < 0 else min(pad_width, width - 1)
            padded = [left_pad] * margin + row + [right_pad] * margin
            found += [separator.join(padded[i : i + width]) for i in range(len(padded) - width + 1)]
        if preserve_short_sequences and row and len(found) == ends[-1]:
            margin = max(pad_width, 0)
            found.append(separator.join([left_pad] * margin + row + [right_pad] * margin))
        ends.append(len(found))
    return flatten_strings(found), np.array(ends, np.int32)


HOST_IMPLEMENTATIONS: Final[dict[Kernel[..., Any], Any]] = {
    string.static_regex_replace: static_regex_replace,
    string.string_to_hash_bucket_fast: string_to_hash_bucket_fast,
    string.string_split: string_split,
    string.string_n_grams: string_n_grams,
}
"""By kernel, the NumPy function that computes it."""
