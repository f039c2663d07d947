"""Sums of products in Einstein's notation, as steps that multiply two operands at a time."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from plugrad.types.shapes import count_elements

if TYPE_CHECKING:
    from plugrad.types.specs import Shape


class OperandPreparation(NamedTuple):
    """The steps that prepare an operand: summing over axes, transposing the remaining axes, and reshaping."""

    summed: Shape
    """The axes to sum over."""
    order: Shape | None
    """The new order of the remaining axes; None if they stay in their order."""
    shape: Shape
    """The shape of the prepared operand."""


class PairContraction(NamedTuple):
    """One contraction of two operands, which leave the list of operands; the product is appended to it.

    With `is_transposed`, the operands are batches of matrices, and it says which of them to
    transpose. Without, they are multiplied element by element, with broadcasting.
    """

    places: tuple[int, int]
    """The positions of the left and of the right operand in the list; the left one is the smaller."""
    left: OperandPreparation
    """How the left operand is summed, transposed and reshaped before the product."""
    right: OperandPreparation
    """How the right operand is summed, transposed and reshaped before the product."""
    is_transposed: tuple[bool, bool] | None
    """Whether each operand is a batch of transposed matrices; None for a product of elements."""
    shape: Shape
    """The shape of the product, which has an axis for each letter."""


@lru_cache(maxsize=1024)
def plan_contractions(
    equation: str, shapes: tuple[Shape, ...]
) -> tuple[tuple[PairContraction, ...], OperandPreparation]:
    """Return an einsum equation as contractions of two operands, and the preparation of the last operand as the result.

    Each step takes the pair of operands with the fewest multiplications.

    >>> steps, last = plan_contractions("ij,kj->ik", ((2, 3), (4, 3)))
    >>> [step.is_transposed for step in steps], last
    ([(False, True)], OperandPreparation(summed=(), order=None, shape=(2, 4)))
    """
    given, _, result = equation.partition("->")
    operands = given.split(",")
    letters = zip(given.replace(",", ""), (n for shape in shapes for n in shape), strict=True)
    sizes = dict(letters)
    steps: list[PairContraction] = []
    while len(operands) > 1:
        pairs = [(i, j) for j in range(len(operands)) for i in range(j)]
        places = min(pairs, key=lambda pair: _count_multiplications(pair, operands, sizes))
        right, left = operands.pop(places[1]), operands.pop(places[0])
        kept = result + "".join(operands)
        step, product = _contract_pair(places, left, right, kept, sizes)
        steps.append(step)
        operands.append(product)
    return tuple(steps), _plan_operand_layout(operands[0], result, _grouped_shape(sizes, *result))


def _count_multiplications(
    operand_positions: tuple[int, int], operands: list[str], size_of_letter: dict[str, int]
) -> int:
    """Return the number of multiplications that the contraction of a pair of operands takes."""
    return count_elements(
        _grouped_shape(
            size_of_letter, *{letter for i in operand_positions for letter in operands[i]}
        )
    )


def _grouped_shape(size_of_letter: dict[str, int], *letter_groups: str) -> Shape:
    """Return the shape of an array with one axis for each group of letters."""
    return tuple(
        count_elements(tuple(size_of_letter[letter] for letter in axis)) for axis in letter_groups
    )


def _plan_operand_layout(
    letters: str, result_letters: str, result_shape: Shape
) -> OperandPreparation:
    """Return how to sum, transpose and reshape an operand so that its axes are the result's letters."""
    left = [letter for letter in letters if letter in result_letters]
    summed = tuple(i for i, letter in enumerate(letters) if letter not in result_letters)
    order = tuple(left.index(letter) for letter in result_letters)
    return OperandPreparation(
        summed, None if order == tuple(range(len(left))) else order, result_shape
    )


def _contract_pair(
    operand_positions: tuple[int, int],
    left_letters: str,
    right_letters: str,
    kept_letters: str,
    size_of_letter: dict[str, int],
) -> tuple[PairContraction, str]:
    """Return the contraction of two operands and the letters of its result; all other letters are summed."""
    a, b = (
        "".join(letter for letter in own if letter in kept_letters + other)
        for own, other in ((left_letters, right_letters), (right_letters, left_letters))
    )
    batch = "".join(letter for letter in a if letter in b and letter in kept_letters)
    inner = "".join(letter for letter in a if letter in b and letter not in kept_letters)
    rows = "".join(letter for letter in a if letter not in b)
    columns = "".join(letter for letter in b if letter not in a)
    letters = batch + rows + columns
    # An operand that is transposed already is read as it is.
    is_transposed = a == batch + inner + rows, b == batch + columns + inner
    a_axes = (batch, inner, rows) if is_transposed[0] else (batch, rows, inner)
    b_axes = (batch, columns, inner) if is_transposed[1] else (batch, inner, columns)
    if not inner:
        a_axes, b_axes = (batch, rows, ""), (batch, "", columns)
    step = PairContraction(
        operand_positions,
        _plan_operand_layout(
            left_letters, "".join(a_axes), _grouped_shape(size_of_letter, *a_axes)
        ),
        _plan_operand_layout(
            right_letters, "".join(b_axes), _grouped_shape(size_of_letter, *b_axes)
        ),
        is_transposed if inner else None,
        _grouped_shape(size_of_letter, *letters),
    )
    return step, letters
