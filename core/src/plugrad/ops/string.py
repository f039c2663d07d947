"""Functions of text: the namespace `plugrad.string`. Strings are Unicode, and live on the host whatever the device."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from plugrad.kernels import string
from plugrad.ops.arguments import as_tensor
from plugrad.ops.attributes import flag, listed, whole
from plugrad.ops.indexing import as_positions, backend_of
from plugrad.types import dtype

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plugrad.tensor.backend import Backend
    from plugrad.tensor.tensor import Tensor, TensorLike


class Pieces(NamedTuple):
    """The pieces of strings as a sparse matrix: where each is, its text, and the shape."""

    indices: Tensor
    values: Tensor
    shape: Tensor


class NGrams(NamedTuple):
    """The n-grams of all rows, and where those of each row begin and end."""

    n_grams: Tensor
    n_grams_splits: Tensor


def static_regex_replace(
    input: TensorLike, pattern: str, rewrite: str, replace_global: bool = True
) -> Tensor:
    r"""The strings with the matches of a regular expression replaced: all of them, or the first in each string.

    >>> plugrad.string.static_regex_replace(["2024-02", "x"], r"(\d+)-(\d+)", r"\2/\1")
    tensor(['02/2024', 'x'], dtype=string)

    Args:
        input: strings of any shape.
        pattern: a regular expression in Python's syntax.
        rewrite: what replaces a match; ``\1`` to ``\9`` are its groups, ``\0`` is all of it, and
            two backslashes are one.
        replace_global: whether all matches of a string are replaced.

    Raises:
        DTypeError: the input is not strings.
        ArgumentValueError: the pattern is no regular expression, or has no such group.
    """
    op = "static_regex_replace"
    return string.static_regex_replace(
        _text(input, op, "input"),
        pattern=pattern,
        rewrite=rewrite,
        replace_global=flag(replace_global, op, "replace_global"),
    )


def string_to_hash_bucket_fast(input: TensorLike, num_buckets: int) -> Tensor:
    """A number below `num_buckets` for each string, the same on every machine: FarmHash's Fingerprint64 of its UTF-8.

    >>> plugrad.string.string_to_hash_bucket_fast(["hello", "a"], 1000)
    tensor([296, 939], dtype=int32)

    Raises:
        DTypeError: the input is not strings.
        ArgumentValueError: the number of buckets is not in ``[1, 2**31]``.
    """
    op = "string_to_hash_bucket_fast"
    count = whole(num_buckets, op, "num_buckets")
    return string.string_to_hash_bucket_fast(_text(input, op, "input"), num_buckets=count)


def string_split(input: TensorLike, delimiter: TensorLike, skip_empty: bool = True) -> Pieces:
    """The pieces of strings between the characters of a delimiter, as a sparse matrix with a row for each string.

    >>> found = plugrad.string.string_split(["a b", "c"], " ")
    >>> found.values, found.indices.tolist(), found.shape.tolist()
    (tensor(['a', 'b', 'c'], dtype=string), [[0, 0], [0, 1], [1, 0]], [2, 2])

    Args:
        input: a vector of strings.
        delimiter: a string, each of whose characters cuts; an empty one cuts between all characters.
        skip_empty: whether empty pieces are left out. An empty string has none in any case.

    Raises:
        DTypeError: an argument is not strings.
        ShapeError: the input has not one axis, or the delimiter has any.
    """
    home = backend_of(input, delimiter)
    x = _text(input, "string_split", "input", home)
    cuts = _text(delimiter, "string_split", "delimiter", x.backend)
    return Pieces(
        *string.string_split(x, cuts, skip_empty=flag(skip_empty, "string_split", "skip_empty"))
    )


def string_n_grams(
    data: TensorLike,
    data_splits: TensorLike,
    separator: str,
    n_gram_widths: Sequence[int],
    left_pad: str,
    right_pad: str,
    pad_width: int,
    preserve_short_sequences: bool,
) -> NGrams:
    """The runs of neighbouring tokens in each row, joined to one string each.

    >>> found = plugrad.string.string_n_grams(
    ...     ["a", "b", "c"], [0, 2, 3], "-", [2], "<", ">", 1, False
    ... )
    >>> found.n_grams, found.n_grams_splits.tolist()
    (tensor(['<-a', 'a-b', 'b->', '<-c', 'c->'], dtype=string), [0, 3, 5])

    Args:
        data: a vector of tokens.
        data_splits: row i is made of the tokens from ``data_splits[i]`` to ``data_splits[i + 1]``.
        separator: what stands between the tokens of an n-gram.
        n_gram_widths: the numbers of tokens in an n-gram; each row gives those of the first width,
            then those of the next.
        left_pad: the token before a row.
        right_pad: the token after a row.
        pad_width: how often these stand there: at most, and with -1, one less than the width.
        preserve_short_sequences: whether a row that is too short for any n-gram, but not empty,
            gives one of all its tokens.

    Raises:
        DTypeError: the data are not strings, or the splits no integers.
        ShapeError: data or splits have not one axis.
        ArgumentValueError: the splits do not rise from 0 to the number of tokens, or a width is 0.
    """
    op, home = "string_n_grams", backend_of(data, data_splits)
    x = _text(data, op, "data", home)
    splits = as_positions(data_splits, op, x.backend, "data_splits")
    widths = listed(n_gram_widths, op, "n_gram_widths")
    is_short_kept = flag(preserve_short_sequences, op, "preserve_short_sequences")
    return NGrams(
        *string.string_n_grams(
            x,
            splits,
            separator=separator,
            n_gram_widths=tuple(whole(n, op, "n_gram_widths") for n in widths),
            left_pad=left_pad,
            right_pad=right_pad,
            pad_width=whole(pad_width, op, "pad_width"),
            preserve_short_sequences=is_short_kept,
        )
    )


def _text(x: TensorLike, op: str, name: str, backend: Backend | None = None) -> Tensor:
    return as_tensor(x, op, name, dtype=dtype.string, backend=backend)
