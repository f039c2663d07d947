"""Kernels of linear algebra."""

from plugrad.contract.kernel import accepted, agreed, kernel
from plugrad.errors import ShapeError
from plugrad.types.dtype import INTEGER, NUMERIC
from plugrad.types.shapes import broadcast
from plugrad.types.specs import Shaped, Spec


@kernel("BatchMatMul", accepts=NUMERIC)
def matmul(a: Spec, b: Spec, *, transpose_a: bool = False, transpose_b: bool = False) -> Spec:
    """Multiply matrices, which are the last two axes; the axes before them are broadcast."""
    accepted("BatchMatMul", a, NUMERIC)
    if len(a.shape) < 2 or len(b.shape) < 2:
        raise ShapeError(f"BatchMatMul: shapes {a.shape} and {b.shape} must have two axes or more")
    rows, inner_a = a.shape[-2:][::-1] if transpose_a else a.shape[-2:]
    inner_b, columns = b.shape[-2:][::-1] if transpose_b else b.shape[-2:]
    if inner_a != inner_b:
        flags = (
            f" (transpose_a={transpose_a}, transpose_b={transpose_b})"
            if transpose_a or transpose_b
            else ""
        )
        raise ShapeError(
            f"BatchMatMul: shapes {a.shape} and {b.shape}{flags} do not match: {inner_a} columns meet {inner_b} rows"
        )
    return Shaped(
        (*broadcast(a.shape[:-2], b.shape[:-2]), rows, columns), agreed("BatchMatMul", a, b)
    )


@kernel("Einsum", accepts=NUMERIC)
def einsum(*inputs: Spec, equation: str) -> Spec:
    """Sum products of elements: an axis for each letter, and an arrow before the letters that stay.

    No operand has a letter twice, and each letter of the result is one of an operand.
    """
    accepted("Einsum", inputs[0], NUMERIC)
    operands, _, result = equation.partition("->")
    sizes: dict[str, int] = {}
    letters = operands.split(",")
    if len(letters) != len(inputs) or "->" not in equation:
        raise ShapeError(
            f"Einsum: equation {equation!r} is for {len(letters)} operands and an arrow; there are {len(inputs)}"
        )
    for named, x in zip(letters, inputs, strict=True):
        if len(named) != len(x.shape) or len(set(named)) != len(named):
            raise ShapeError(
                f"Einsum: {named!r} in {equation!r} must have a different letter for each axis of shape {x.shape}"
            )
        for letter, size in zip(named, x.shape, strict=True):
            if sizes.setdefault(letter, size) != size:
                raise ShapeError(
                    f"Einsum: letter {letter!r} in {equation!r} stands for sizes {sizes[letter]} and {size}"
                )
    if not set(result) <= sizes.keys() or len(set(result)) != len(result):
        raise ShapeError(
            f"Einsum: the letters after the arrow in {equation!r} must be different, and each one of an operand"
        )
    return Shaped(tuple(sizes[letter] for letter in result), agreed("Einsum", *inputs))


@kernel("MatrixBandPart")
def band_part(input: Spec, num_lower: Spec, num_upper: Spec) -> Spec:
    """Keep the diagonal of each matrix, so many below it and so many above (0-d; negative: all); 0 elsewhere."""
    if len(input.shape) < 2:
        raise ShapeError(f"MatrixBandPart: shape {input.shape} must have two axes or more")
    for name, count in (("num_lower", num_lower), ("num_upper", num_upper)):
        accepted(f"MatrixBandPart ({name})", count, INTEGER)
        if count.shape:
            raise ShapeError(f"MatrixBandPart: {name} has shape {count.shape}; it must be 0-d")
    return Shaped(input.shape, input.dtype)


@kernel("Diag")
def diag(x: Spec) -> Spec:
    """Return zeros of shape ``x.shape + x.shape`` with x on the diagonal."""
    return Shaped((*x.shape, *x.shape), x.dtype)


@kernel("DiagPart")
def diag_part(input: Spec) -> Spec:
    """Return the diagonal that `diag` fills: the first half of the axes equals the second."""
    half = len(input.shape) // 2
    if input.shape[:half] != input.shape[half:]:
        raise ShapeError(f"DiagPart: shape {input.shape} must be one shape, twice")
    return Shaped(input.shape[:half], input.dtype)
