"""Kernels of text. In a shape, -1 is a size that only the text can tell."""

import re
from collections.abc import Callable

from plugrad.contract.kernel import accepted, kernel
from plugrad.errors import ArgumentValueError, ShapeError
from plugrad.types.dtype import INTEGER, STRING, int32, string
from plugrad.types.specs import Shape, Shaped, Spec

MOST_BUCKETS = 2**31  # of which the last has the largest int32 as its number


@kernel("StaticRegexReplace", accepts=STRING)
def static_regex_replace(
    x: Spec, *, pattern: str, rewrite: str, replace_global: bool = True
) -> Spec:
    r"""Replace the matches of a regular expression, all or the first of each string.

    In the rewrite ``\1`` to ``\9`` are the groups of the match, ``\0`` is all of it and two
    backslashes are one.
    """
    replacement(pattern, rewrite)
    return Shaped(x.shape, accepted("StaticRegexReplace", x, STRING))


def replacement(
    pattern: str, rewrite: str
) -> tuple[re.Pattern[str], Callable[[re.Match[str]], str]]:
    """Return a compiled pattern, and the function that writes what replaces a match of it.

    Raises:
        ArgumentValueError: the pattern is no regular expression, or the rewrite asks for a group
            that it does not have, or for none.
    """
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ArgumentValueError(
            f"StaticRegexReplace: pattern={pattern!r} is no regular expression: {error}"
        ) from None
    parts: list[str | int] = []
    for text, escape in re.findall(r"([^\\]+)|\\(.?)", rewrite, re.DOTALL):
        if text or escape == "\\":
            parts.append(text or escape)
        elif escape.isdecimal() and int(escape) <= compiled.groups:
            parts.append(int(escape))
        else:
            raise ArgumentValueError(
                f"StaticRegexReplace: rewrite={rewrite!r} has \\{escape}; the groups of pattern={pattern!r} "
                f"go up to {compiled.groups}, and a backslash is written twice"
            )
    return compiled, lambda match: "".join(
        part if isinstance(part, str) else match[part] or "" for part in parts
    )


@kernel("StringToHashBucketFast", accepts=STRING)
def string_to_hash_bucket_fast(input: Spec, *, num_buckets: int) -> Spec:
    """Return the FarmHash fingerprint of each string's UTF-8, modulo the number of buckets."""
    accepted("StringToHashBucketFast", input, STRING)
    if not 0 < num_buckets <= MOST_BUCKETS:
        raise ArgumentValueError(
            f"StringToHashBucketFast: num_buckets={num_buckets} must be from 1 to {MOST_BUCKETS}"
        )
    return Shaped(input.shape, int32)


@kernel("StringSplit", accepts=STRING, dynamic_shape=True)
def string_split(
    input: Spec, delimiter: Spec, *, skip_empty: bool = True
) -> tuple[Spec, Spec, Spec]:
    """Cut strings wherever a character of the delimiter stands; an empty delimiter cuts between all characters.

    The pieces are a sparse matrix with a row for each string: coordinates, values, and the shape.
    An empty string has no pieces, others may have empty ones unless these are skipped.
    """
    accepted("StringSplit", input, STRING)
    accepted("StringSplit (delimiter)", delimiter, STRING)
    if len(input.shape) != 1 or delimiter.shape:
        raise ShapeError(
            f"StringSplit: input must have one axis and delimiter none, but their shapes are "
            f"{input.shape} and {delimiter.shape}"
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
    """Join each run of neighbouring tokens of a row, for each width; return the n-grams and where rows begin.

    ``data_splits[i]`` to ``data_splits[i + 1]`` are the tokens of row i, between `pad_width` padding
    tokens on each side: at most, and with -1, one less than the width. A row that is too short for
    any n-gram gives one of all its tokens if `preserve_short_sequences`.
    """
    accepted("StringNGrams", data, STRING)
    accepted("StringNGrams (data_splits)", data_splits, INTEGER)
    if len(data.shape) != 1 or len(data_splits.shape) != 1:
        raise ShapeError(
            f"StringNGrams: data and data_splits must have one axis, but their shapes are "
            f"{data.shape} and {data_splits.shape}"
        )
    if any(width < 1 for width in n_gram_widths):
        raise ArgumentValueError(f"StringNGrams: n_gram_widths={n_gram_widths} must be 1 or more")
    return Shaped((-1,), string), Shaped(data_splits.shape, int32)
