"""Strings, which all backends keep on the host."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from plugrad_onnx.elements import as_computable
from plugrad_onnx.registry import operator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plugrad_onnx.registry import HostArray

CASE_CHANGES = {"LOWER": str.lower, "UPPER": str.upper, "NONE": str}
"""The function that changes the case of a string, by ONNX's name."""


@operator("StringConcat")
def string_concat(a: HostArray, b: HostArray) -> Any:
    """Join strings."""
    return np.strings.add(as_computable(a), as_computable(b))


@operator("StringSplit")
def string_split(x: HostArray, *, delimiter: str | None = None, maxsplit: int | None = None) -> Any:
    """Return the parts of strings, padded with empty strings, and the number of parts of each."""
    most = -1 if maxsplit is None else maxsplit
    parts = [str(text).split(delimiter or None, most) for text in x.ravel()]
    width = max(map(len, parts), default=0)
    rows = [row + [""] * (width - len(row)) for row in parts]
    counts = np.array([len(row) for row in parts], np.int64).reshape(x.shape)
    return as_computable(np.array(rows, object).reshape(*x.shape, width)), counts


@operator("RegexFullMatch")
def regex_full_match(x: HostArray, *, pattern: str) -> Any:
    """Whether strings match a regular expression as a whole."""
    expression = re.compile(pattern)
    found = [expression.fullmatch(str(text)) is not None for text in x.ravel()]
    return np.array(found, bool).reshape(x.shape)


@operator("StringNormalizer")
def string_normalizer(
    x: HostArray,
    *,
    case_change_action: str = "NONE",
    is_case_sensitive: int = 0,
    locale: str = "en_US",
    stopwords: Sequence[str] = (),
) -> Any:
    """Return strings without stop words, in upper or lower case."""
    change = CASE_CHANGES[case_change_action]
    fold = str if is_case_sensitive else str.lower
    stop = {fold(word) for word in stopwords}
    rows = [
        [change(str(text)) for text in row if fold(str(text)) not in stop] or [""]
        for row in x.reshape(-1, x.shape[-1])
    ]
    return as_computable(np.array(rows[0] if x.ndim == 1 else rows, object))


@operator("TfIdfVectorizer")
def tf_idf_vectorizer(
    x: HostArray,
    *,
    max_gram_length: int,
    max_skip_count: int,
    min_gram_length: int,
    mode: str,
    ngram_counts: Sequence[int],
    ngram_indexes: Sequence[int],
    pool_int64s: Sequence[int] | None = None,
    pool_strings: Sequence[str] | None = None,
    weights: Sequence[float] | None = None,
) -> Any:
    """Count or weight the n-grams of a pool in sequences."""
    pool = list[Any](pool_int64s or pool_strings or ())
    column = _output_columns_of_ngrams(pool, ngram_counts, ngram_indexes)
    rows = x.reshape(1, -1) if x.ndim == 1 else x
    counts = np.zeros((len(rows), max(ngram_indexes) + 1), np.float32)
    for place, row in enumerate(rows.tolist()):
        for length in range(min_gram_length, max_gram_length + 1):
            for skip in range(1, (max_skip_count if length > 1 else 0) + 2):
                for start in range(len(row) - (length - 1) * skip):
                    gram = tuple(row[start : start + (length - 1) * skip + 1 : skip])
                    if gram in column:
                        counts[place, column[gram]] += 1
    scale = np.zeros(counts.shape[1], np.float32)
    scale[list(ngram_indexes)] = 1.0 if weights is None else weights
    if mode != "TF":
        counts = ((counts > 0) if mode == "IDF" else counts) * scale
    return (counts[0] if x.ndim == 1 else counts).astype(np.float32)


def _output_columns_of_ngrams(
    ngram_pool: Sequence[Any], length_starts: Sequence[int], columns: Sequence[int]
) -> dict[tuple[Any, ...], int]:
    """Return the output column of each n-gram of a pool; `length_starts` are the indices where lengths begin."""
    grams: list[tuple[Any, ...]] = []
    for length, (start, end) in enumerate(
        zip(length_starts, [*length_starts[1:], len(ngram_pool)], strict=True), 1
    ):
        grams += [tuple(ngram_pool[k : k + length]) for k in range(start, end, length)]
    return dict(zip(grams, columns, strict=True))
