"""Einstein summation: equations in their general form, reduced to the form that the kernel takes."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from plugrad.errors import ArgumentError, ArgumentValueError, ShapeError, short_repr
from plugrad.kernels import linalg
from plugrad.ops.arguments import cast, same_dtype, supported_dtype
from plugrad.ops.movement import moveaxis, reshape

if TYPE_CHECKING:
    from plugrad.tensor.tensor import Tensor, TensorLike

LETTERS: Final = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
"""As `string.ascii_letters`, whose module compiles a regular expression when it is imported, in a millisecond."""


def einsum(equation: str, *tensors: TensorLike) -> Tensor:
    """The sum of products of elements that an equation in Einstein notation describes.

    >>> a, b = plugrad.ones((2, 3)), plugrad.ones((3, 4))
    >>> plugrad.einsum("ij,jk->ik", a, b).shape
    (2, 4)
    >>> plugrad.einsum("ii", [[1.0, 2.0], [3.0, 4.0]])
    tensor(5., dtype=float32)

    Before the arrow, the equation has a term for each tensor, with a letter for each axis. After
    the arrow it has the letters of the result; products are summed over all other letters. ``...``
    stands for any number of axes, which are broadcast. A letter that occurs twice in a term takes
    the diagonal. Without an arrow the result has the letters that occur once, in alphabetical
    order.

    The result has the dtype to which the tensors promote.

    Args:
        equation: terms of letters with commas between them, and the term of the result after
            ``->``.
        tensors: the operands, one for each term.

    Raises:
        ArgumentError: the equation is not a string, or an operand does not convert to a tensor.
        ArgumentValueError: the equation is malformed or is for another number of tensors.
        DTypeError: all operands hold bools, one holds strings, or no dtype holds all.
        ShapeError: an operand has another number of axes than its term, or a letter stands for two
            sizes.
    """
    operands, result = _parse_equation(equation, len(tensors))
    xs = same_dtype(list(tensors), "einsum")
    dtype = supported_dtype(xs[0].dtype, linalg.einsum, "einsum")
    counts = [_count_ellipsis_axes(term, x, equation) for term, x in zip(operands, xs, strict=True)]
    dots = [c for c in LETTERS if c not in equation][: max(counts)]
    terms = [
        term.replace("...", "".join(dots[len(dots) - count :]))
        for term, count in zip(operands, counts, strict=True)
    ]
    stretched = {
        letter
        for term, x in zip(terms, xs, strict=True)
        for letter, size in zip(term, x.shape, strict=True)
        if letter in dots and size != 1
    }
    reduced_terms: list[str] = []
    reduced_xs: list[Tensor] = []
    for term, x in zip(terms, xs, strict=True):
        squeezed_term, squeezed = _squeeze_broadcast_axes(term, cast(x, dtype), stretched, dots)
        reduced_term, reduced = _take_diagonals(squeezed_term, squeezed, equation)
        reduced_terms.append(reduced_term)
        reduced_xs.append(reduced)
    result = result.replace("...", "".join(dots))
    return linalg.einsum(*reduced_xs, equation=f"{','.join(reduced_terms)}->{result}")


def _parse_equation(equation: str, count: int) -> tuple[list[str], str]:
    """Split an equation into the operands' subscripts and the result's.

    Raises:
        ArgumentError: the equation is not a string.
        ArgumentValueError: it is malformed or is for another number of operands than `count`.
    """
    if not isinstance(equation, str):  # pyright: ignore[reportUnnecessaryIsInstance] - it is easily forgotten
        raise ArgumentError(
            f"einsum: equation={short_repr(equation)} must be a string, such as 'ij,jk->ik', before the tensors"
        )
    plain = equation.replace(" ", "")
    left, arrow, result = plain.partition("->")
    operands = left.split(",")
    letters = [term.replace("...", "", 1) for term in (*operands, result)]
    if not all(c in LETTERS for term in letters for c in term):
        raise ArgumentValueError(
            f"einsum: equation {short_repr(equation)} may contain only letters, commas, '...' and one '->'"
        )
    if len(operands) != count:
        raise ArgumentValueError(
            f"einsum: equation {short_repr(equation)} has terms for {len(operands)} tensors, not for {count}"
        )
    if not arrow:
        occurring = Counter("".join(letters[:-1]))
        result = "".join(sorted(c for c, n in occurring.items() if n == 1))
        result = ("..." if "..." in left else "") + result
    unknown = set(result.replace("...", "")) - set(left)
    doubled = [c for c, n in Counter(result.replace("...", "")).items() if n > 1]
    if unknown or doubled or ("..." in result) > ("..." in left):
        raise ArgumentValueError(
            f"einsum: each letter after the arrow in equation {short_repr(equation)} must occur before it, and only "
            "once after it; '...' likewise"
        )
    return operands, result


def _count_ellipsis_axes(term: str, x: Tensor, equation: str) -> int:
    """Return the number of axes that ``...`` covers in an operand.

    Raises:
        ShapeError: the operand does not have as many axes as its term.
    """
    letters = len(term.replace("...", ""))
    count = x.ndim - letters
    if count < 0 or (count and "..." not in term):
        raise ShapeError(
            f"einsum: {term!r} in equation {short_repr(equation)} names {letters} axes; the shape is {x.shape}"
        )
    return count


def _squeeze_broadcast_axes(
    term: str, x: Tensor, stretched: set[str], dots: list[str]
) -> tuple[str, Tensor]:
    """Return an operand without the axes of size 1 that are broadcast."""
    kept = [
        (letter, size)
        for letter, size in zip(term, x.shape, strict=True)
        if not (letter in dots and size == 1 and letter in stretched)
    ]
    return "".join(letter for letter, _ in kept), reshape(x, tuple(size for _, size in kept))


def _take_diagonals(term: str, x: Tensor, equation: str) -> tuple[str, Tensor]:
    """Replace axes that share a letter by their diagonal, so that no letter occurs twice in an operand.

    Raises:
        ShapeError: two axes of one letter have different sizes.
    """
    while doubled := [c for c, n in Counter(term).items() if n > 1]:
        first, second = [i for i, c in enumerate(term) if c == doubled[0]][:2]
        size = x.shape[first]
        if x.shape[second] != size:
            raise ShapeError(
                f"einsum: letter {doubled[0]!r} in equation {short_repr(equation)} stands for sizes {size} and "
                f"{x.shape[second]}"
            )
        x = moveaxis(x, (first, second), (-2, -1))
        # the diagonal: every (size + 1)-th element of the two axes laid end to end
        flat = reshape(x, (*x.shape[:-2], size * size))
        x = moveaxis(flat[(..., slice(None, None, size + 1))], -1, first)
        term = term[:second] + term[second + 1 :]
    return term, x
