"""Functions of strings. Their namespace is `plugrad.string`.

Strings are Unicode, and are on the host whatever the device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from plugrad.kernels import string
from plugrad.ops.arguments import as_tensor
from plugrad.ops.attributes import as_list, check_flag, check_integer
from plugrad.ops.indexing import as_positions, first_backend
from plugrad.types import dtype

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plugrad.tensor.backend import Backend
    from plugrad.tensor.tensor import Tensor, TensorLike


class StringSplitResult(NamedTuple):
    """The pieces of strings as a sparse matrix: the coordinates and the text of each piece, and the shape."""

    indices: Tensor
    values: Tensor
    shape: Tensor


class NGramsResult(NamedTuple):
    """The n-grams of all rows, and the splits, which tell where those of each row begin and end."""

    n_grams: Tensor
    n_grams_splits: Tensor


def static_regex_replace(
    input: TensorLike, pattern: str, rewrite: str, replace_global: bool = True
) -> Tensor:
    r"""The strings with all matches of a regular expression replaced, or with the first match in each string.

    >>> plugrad.string.static_regex_replace(["2024-02", "x"], r"(\d+)-(\d+)", r"\2/\1")
    tensor(['02/2024', 'x'], dtype=string)

    The result has the shape of the input.

    Args:
        input: strings of any shape.
        pattern: a regular expression in Python's syntax.
        rewrite: the text that replaces a match; ``\1`` to ``\9`` stand for its groups, ``\0`` for all
            of it, and two backslashes for one.
        replace_global: whether all matches in a string are replaced, or only the first.

    Raises:
        DTypeError: the input is a tensor that does not hold strings.
        ArgumentError: the input holds something else than strings, pattern or rewrite is not a str,
            or `replace_global` not a bool.
        ArgumentValueError: the pattern is not a regular expression, or does not have a group of the
            rewrite.
    """
    op = "static_regex_replace"
    return string.static_regex_replace(
        _as_strings(input, op, "input"),
        pattern=pattern,
        rewrite=rewrite,
        replace_global=check_flag(replace_global, op, "replace_global"),
    )


def string_to_hash_bucket_fast(input: TensorLike, num_buckets: int) -> Tensor:
    """The hash of each string as a number from 0 to ``num_buckets - 1``, in int32 and the shape of the input.

    >>> plugrad.string.string_to_hash_bucket_fast(["hello", "a"], 1000)
    tensor([296, 939], dtype=int32)

    The hash is Fingerprint64 of FarmHash (Google, 2014) of the string's UTF-8, modulo the number of
    buckets. It is the same on every machine.

    Raises:
        DTypeError: the input is a tensor that does not hold strings.
        ArgumentError: the input holds something else than strings, or `num_buckets` is not an
            integer.
        ArgumentValueError: `num_buckets` is not in ``[1, 2**31]``.
    """
    op = "string_to_hash_bucket_fast"
    count = check_integer(num_buckets, op, "num_buckets")
    return string.string_to_hash_bucket_fast(_as_strings(input, op, "input"), num_buckets=count)


def string_split(
    input: TensorLike, delimiter: TensorLike, skip_empty: bool = True
) -> StringSplitResult:
    """The pieces of strings between the characters of a delimiter, as a sparse matrix with a row for each string.

    >>> found = plugrad.string.string_split(["a b", "c"], " ")
    >>> found.values, found.indices.tolist(), found.shape.tolist()
    (tensor(['a', 'b', 'c'], dtype=string), [[0, 0], [0, 1], [1, 0]], [2, 2])

    Coordinates and shape are int32.

    Args:
        input: a vector of strings.
        delimiter: a string; each of its characters separates pieces, and if it is empty, every
            character is a piece.
        skip_empty: whether empty pieces are left out. An empty string has no pieces in any case.

    Raises:
        DTypeError: an argument is a tensor that does not hold strings.
        ShapeError: the input does not have one axis, or the delimiter has any.
        ArgumentError: an argument holds something else than strings, or `skip_empty` is not a bool.
    """
    home = first_backend(input, delimiter)
    x = _as_strings(input, "string_split", "input", home)
    cuts = _as_strings(delimiter, "string_split", "delimiter", x.backend)
    return StringSplitResult(
        *string.string_split(
            x, cuts, skip_empty=check_flag(skip_empty, "string_split", "skip_empty")
        )
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
) -> NGramsResult:
    """The n-grams of each row of tokens: each run of n neighbouring tokens, joined to one string.

    >>> found = plugrad.string.string_n_grams(
    ...     ["a", "b", "c"], [0, 2, 3], "-", [2], "<", ">", 1, False
    ... )
    >>> found.n_grams, found.n_grams_splits.tolist()
    (tensor(['<-a', 'a-b', 'b->', '<-c', 'c->'], dtype=string), [0, 3, 5])

    `n_grams` is a vector, and `n_grams_splits` has the shape of `data_splits` and is int32.

    Args:
        data: a vector of tokens.
        data_splits: row i consists of the tokens from ``data_splits[i]`` to ``data_splits[i + 1]``.
        separator: the text between the tokens of an n-gram.
        n_gram_widths: the numbers of tokens in an n-gram; each row gives those of the first width,
            then those of the next.
        left_pad: the padding token before a row.
        right_pad: the padding token after a row.
        pad_width: the number of padding tokens on each side: at most one less than the width, which
            is also what -1 stands for.
        preserve_short_sequences: whether a row that is too short for any n-gram, but not empty,
            gives an n-gram of all its tokens.

    Raises:
        DTypeError: `data` is a tensor that does not hold strings, or the splits are not integers.
        ShapeError: data or splits do not have one axis.
        ArgumentError: another argument has the wrong type.
        ArgumentValueError: the splits do not rise from 0 to the number of tokens, or a width is less
            than 1.
    """
    op = "string_n_grams"
    home = first_backend(data, data_splits)
    x = _as_strings(data, op, "data", home)
    splits = as_positions(data_splits, op, x.backend, "data_splits")
    widths = as_list(n_gram_widths, op, "n_gram_widths")
    is_short_kept = check_flag(preserve_short_sequences, op, "preserve_short_sequences")
    return NGramsResult(
        *string.string_n_grams(
            x,
            splits,
            separator=separator,
            n_gram_widths=tuple(check_integer(n, op, "n_gram_widths") for n in widths),
            left_pad=left_pad,
            right_pad=right_pad,
            pad_width=check_integer(pad_width, op, "pad_width"),
            preserve_short_sequences=is_short_kept,
        )
    )


def _as_strings(
    x: TensorLike, op: str, argument_name: str, backend: Backend | None = None
) -> Tensor:
    """Return x as a tensor of strings; the kernels refuse a tensor of another dtype."""
    return as_tensor(x, op, argument_name, dtype=dtype.string, backend=backend)
