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
    order: Shape | None
    """None if the axes stay in their order."""
    shape: Shape


class PairContraction(NamedTuple):
    """One contraction of two operands, which leave the list of operands; the product is appended to it.

    With `is_transposed`, the operands are batches of matrices, and it says which of them to
    transpose. Without, they are multiplied element by element, with broadcasting.
    """

    places: tuple[int, int]
    """Of the left and of the right operand; the left one comes first."""
    left: OperandPreparation
    right: OperandPreparation
    is_transposed: tuple[bool, bool] | None
    shape: Shape
    """Of the product, which has an axis for each letter."""


@lru_cache(maxsize=1024)
def plan_contractions(
    equation: str, shapes: tuple[Shape, ...]
) -> tuple[tuple[PairContraction, ...], OperandPreparation]:
    """Plan an equation as products of two operands; also return the steps that finish the last operand.

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
    places: tuple[int, int], operands: list[str], sizes: dict[str, int]
) -> int:
    """Return the number of multiplications that the contraction of a pair of operands takes."""
    return count_elements(
        _grouped_shape(sizes, *{letter for i in places for letter in operands[i]})
    )


def _grouped_shape(sizes: dict[str, int], *axes: str) -> Shape:
    """Return the shape of an array with one axis for each group of letters."""
    return tuple(count_elements(tuple(sizes[letter] for letter in axis)) for axis in axes)


def _plan_operand_layout(letters: str, wanted: str, shape: Shape) -> OperandPreparation:
    """Return the steps that reduce and transpose an operand to the wanted letters."""
    left = [letter for letter in letters if letter in wanted]
    summed = tuple(i for i, letter in enumerate(letters) if letter not in wanted)
    order = tuple(left.index(letter) for letter in wanted)
    return OperandPreparation(summed, None if order == tuple(range(len(left))) else order, shape)


def _contract_pair(
    places: tuple[int, int], left: str, right: str, kept: str, sizes: dict[str, int]
) -> tuple[PairContraction, str]:
    """Return the contraction of two operands and the letters of its result; all other letters are summed."""
    a, b = (
        "".join(letter for letter in own if letter in kept + other)
        for own, other in ((left, right), (right, left))
    )
    batch = "".join(letter for letter in a if letter in b and letter in kept)
    inner = "".join(letter for letter in a if letter in b and letter not in kept)
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
        places,
        _plan_operand_layout(left, "".join(a_axes), _grouped_shape(sizes, *a_axes)),
        _plan_operand_layout(right, "".join(b_axes), _grouped_shape(sizes, *b_axes)),
        is_transposed if inner else None,
        _grouped_shape(sizes, *letters),
    )
    return step, letters
