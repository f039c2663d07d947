"""Einstein summation: equations in their general form, brought into that of the kernel."""

from collections import Counter
from string import ascii_letters

from plugrad.errors import ArgumentError, ArgumentValueError, ShapeError
from plugrad.kernels import linalg
from plugrad.ops.arguments import accepted_dtype, cast, same_dtype
from plugrad.ops.movement import moveaxis, reshape
from plugrad.tensor.tensor import Tensor, TensorLike


def einsum(equation: str, *tensors: TensorLike) -> Tensor:
    """The sum of products that an equation describes: a letter for each axis, summed unless it stands after the arrow.

    >>> a, b = plugrad.ones((2, 3)), plugrad.ones((3, 4))
    >>> plugrad.einsum("ij,jk->ik", a, b).shape
    (2, 4)
    >>> plugrad.einsum("ii", [[1.0, 2.0], [3.0, 4.0]])
    tensor(5., dtype=float32)

    ``...`` stands for any number of axes, which are broadcast. A letter that an operand has twice
    takes its diagonal. Without an arrow the letters that occur once stay, in alphabetical order.

    Raises:
        ArgumentValueError: the equation is malformed or is for another number of tensors.
        ShapeError: an operand has another number of axes, or a letter stands for two sizes.
    """
    operands, result = _parsed(equation, len(tensors))
    xs = same_dtype(list(tensors), "einsum")
    dtype = accepted_dtype(xs[0].dtype, linalg.einsum, "einsum")
    counts = [_dotted(term, x, equation) for term, x in zip(operands, xs, strict=True)]
    dots = [c for c in ascii_letters if c not in equation][: max(counts)]
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
    terms, xs = zip(
        *(
            _distinct(*_squeezed(term, cast(x, dtype), stretched, dots), equation)
            for term, x in zip(terms, xs, strict=True)
        ),
        strict=True,
    )
    return linalg.einsum(*xs, equation=f"{','.join(terms)}->{result.replace('...', ''.join(dots))}")


def _parsed(equation: str, count: int) -> tuple[list[str], str]:
    """Return the terms of the operands, and that of the result."""
    if not isinstance(equation, str):  # pyright: ignore[reportUnnecessaryIsInstance] - it is easily forgotten
        raise ArgumentError(
            f"einsum: equation={equation!r} must be a string, such as 'ij,jk->ik', before the tensors"
        )
    plain = equation.replace(" ", "")
    left, arrow, result = plain.partition("->")
    operands = left.split(",")
    letters = [term.replace("...", "", 1) for term in (*operands, result)]
    if not all(c in ascii_letters for term in letters for c in term):
        raise ArgumentValueError(
            f"einsum: equation {equation!r} may have letters, commas, '...' and one '->'"
        )
    if len(operands) != count:
        raise ArgumentValueError(
            f"einsum: equation {equation!r} is for {len(operands)} tensors; {count} are given"
        )
    if not arrow:
        occurring = Counter("".join(letters[:-1]))
        result = "".join(sorted(c for c, n in occurring.items() if n == 1))
        result = ("..." if "..." in left else "") + result
    unknown = set(result.replace("...", "")) - set(left)
    doubled = [c for c, n in Counter(result.replace("...", "")).items() if n > 1]
    if unknown or doubled or ("..." in result) > ("..." in left):
        raise ArgumentValueError(
            f"einsum: what stands after the arrow in equation {equation!r} must stand before it, "
            "and each letter once"
        )
    return operands, result


def _dotted(term: str, x: Tensor, equation: str) -> int:
    """Return how many axes of an operand ``...`` stands for."""
    letters = len(term.replace("...", ""))
    count = x.ndim - letters
    if count < 0 or (count and "..." not in term):
        raise ShapeError(
            f"einsum: {term!r} in equation {equation!r} names {letters} axes; the shape is {x.shape}"
        )
    return count


def _squeezed(term: str, x: Tensor, stretched: set[str], dots: list[str]) -> tuple[str, Tensor]:
    """Return an operand without the axes of size 1 that are broadcast."""
    kept = [
        (letter, size)
        for letter, size in zip(term, x.shape, strict=True)
        if not (letter in dots and size == 1 and letter in stretched)
    ]
    return "".join(letter for letter, _ in kept), reshape(x, tuple(size for _, size in kept))


def _distinct(term: str, x: Tensor, equation: str) -> tuple[str, Tensor]:
    """Return an operand in which no letter occurs twice: two axes of one letter become their diagonal."""
    while doubled := [c for c, n in Counter(term).items() if n > 1]:
        first, second = [i for i, c in enumerate(term) if c == doubled[0]][:2]
        size = x.shape[first]
        if x.shape[second] != size:
            raise ShapeError(
                f"einsum: letter {doubled[0]!r} in equation {equation!r} stands for sizes {size} and {x.shape[second]}"
            )
        x = moveaxis(x, (first, second), (-2, -1))
        # the diagonal: every (size + 1)-th element of the two axes laid end to end
        flat = reshape(x, (*x.shape[:-2], size * size))
        x = moveaxis(flat[(..., slice(None, None, size + 1))], -1, first)
        term = term[:second] + term[second + 1 :]
    return term, x
