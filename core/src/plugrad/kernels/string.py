"""Kernels of text. In an inferred shape, -1 is a size that depends on the text."""

import re
from collections.abc import Callable

from plugrad.contract.kernel import check_dtype, kernel
from plugrad.errors import ArgumentValueError, ShapeError
from plugrad.types.dtype import INTEGER, STRING, int32, string
from plugrad.types.specs import Shape, Shaped, Spec

MAX_BUCKETS = 2**31  # the number of the last bucket is the largest int32


@kernel("StaticRegexReplace", accepts=STRING)
def static_regex_replace(
    x: Spec, *, pattern: str, rewrite: str, replace_global: bool = True
) -> Spec:
    r"""Return strings with the matches of a regular expression replaced, all or only the first of each string.

    In the rewrite, ``\1`` to ``\9`` stand for the groups of the match, ``\0`` for the whole match, and
    two backslashes for one.

    Args:
        x: strings of any shape.
        pattern: a regular expression of Python's module re.
        rewrite: what replaces a match.
        replace_global: whether all matches are replaced.

    Returns:
        strings of the shape of x.
    """
    compile_replacement(pattern, rewrite)
    return Shaped(x.shape, x.dtype)


def compile_replacement(
    pattern: str, rewrite: str
) -> tuple[re.Pattern[str], Callable[[re.Match[str]], str]]:
    """Return a compiled pattern, and a function that returns the replacement of a match.

    Raises:
        ArgumentValueError: the pattern is not a regular expression, or the rewrite has a backslash
            that is not followed by another one or by the number of a group.
    """
    try:
        compiled = re.compile(pattern)
    except (
        re.error,
        RecursionError,
        OverflowError,
    ) as error:  # the others: nested too deeply, too many repeats
        raise ArgumentValueError(
            f"pattern={pattern!r} is not a regular expression: {error}"
        ) from None
    parts: list[str | int] = []
    for text, escape in re.findall(r"([^\\]+)|\\(.?)", rewrite, re.DOTALL):
        if text or escape == "\\":
            parts.append(text or escape)
        elif escape.isdecimal() and int(escape) <= compiled.groups:
            parts.append(int(escape))
        else:
            raise ArgumentValueError(
                f"rewrite={rewrite!r} has \\{escape}; the groups of pattern={pattern!r} go up to {compiled.groups}, "
                "and a backslash is written twice"
            )
    return compiled, lambda match: "".join(
        part if isinstance(part, str) else match[part] or "" for part in parts
    )


@kernel("StringToHashBucketFast", accepts=STRING)
def string_to_hash_bucket_fast(input: Spec, *, num_buckets: int) -> Spec:
    """Return the FarmHash fingerprint of each string's UTF-8 bytes, modulo the number of buckets.

    Args:
        input: strings of any shape.
        num_buckets: from 1 to 2**31.

    Returns:
        int32 numbers from 0 to num_buckets - 1, of the shape of the input.
    """
    if not 0 < num_buckets <= MAX_BUCKETS:
        raise ArgumentValueError(f"num_buckets={num_buckets} must be from 1 to {MAX_BUCKETS}")
    return Shaped(input.shape, int32)


@kernel("StringSplit", accepts=STRING, dynamic_shape=True)
def string_split(
    input: Spec, delimiter: Spec, *, skip_empty: bool = True
) -> tuple[Spec, Spec, Spec]:
    """Return the pieces of strings between any of the characters of the delimiter, or all characters if it is empty.

    The pieces are a sparse matrix with a row for each string: coordinates, values, and the shape.
    An empty string has no pieces; other strings may have empty ones unless `skip_empty`.

    Args:
        input: a vector of strings.
        delimiter: a 0-d string of the characters at which strings are split.
        skip_empty: whether empty pieces are left out.

    Returns:
        indices: the row and the column of each piece, an int32 matrix (pieces, 2).
        values: the pieces, a vector of strings.
        shape: the number of strings and the largest number of pieces, an int32 vector.
    """
    check_dtype("StringSplit (delimiter)", delimiter, STRING)
    if len(input.shape) != 1 or delimiter.shape:
        raise ShapeError(
            f"input must have one axis and delimiter none, but their shapes are {input.shape} and {delimiter.shape}"
        )
    return Shaped((-1, 2), int32), Shaped((-1,), string), Shaped((2,), int32)


@kernel("StringNGrams", accepts=STRING, dynamic_shape=True)
def string_n_grams(
    data: Spec,
    data_splits: Spec,
    *,
    separator: str,
    n_gram_widths: Shape,
    left_pad: str,
    right_pad: str,
    pad_width: int,
    preserve_short_sequences: bool,
) -> tuple[Spec, Spec]:
    """Return the n-grams of each row, which are its runs of neighbouring tokens, joined, and where rows begin.

    Row i has the tokens from ``data_splits[i]`` to ``data_splits[i + 1]``, and `pad_width` padding
    tokens on each side; at most, and with -1, one fewer than the width of the n-grams. If
    `preserve_short_sequences`, a row that is too short for any n-gram gives one of all its tokens.

    Args:
        data: the tokens of all rows, a vector of strings.
        data_splits: where rows begin and end, an integer vector, one longer than the number of rows.
        separator: what stands between the tokens of an n-gram.
        n_gram_widths: the numbers of tokens of n-grams, each at least 1.
        left_pad: the token before a row.
        right_pad: the token after a row.
        pad_width: how many of these tokens a row gets; -1 for as many as the n-grams can use.
        preserve_short_sequences: whether a row that is too short gives one n-gram.

    Returns:
        n_grams: the n-grams of all rows, a vector of strings.
        splits: where those of each row begin and end, an int32 vector of the shape of `data_splits`.
    """
    check_dtype("StringNGrams (data_splits)", data_splits, INTEGER)
    if len(data.shape) != 1 or len(data_splits.shape) != 1:
        raise ShapeError(
            f"data and data_splits must have one axis, but their shapes are {data.shape} and {data_splits.shape}"
        )
    if any(width < 1 for width in n_gram_widths):
        raise ArgumentValueError(f"n_gram_widths={n_gram_widths} must be 1 or more")
    return Shaped((-1,), string), Shaped(data_splits.shape, int32)
