"""Kernels of linear algebra."""

from plugrad.contract.kernel import check_dtype, check_same_dtype, kernel
from plugrad.errors import ShapeError
from plugrad.types.dtype import INTEGER, NUMERIC
from plugrad.types.shapes import broadcast
from plugrad.types.specs import Shape, Shaped, Spec


@kernel("BatchMatMul", accepts=NUMERIC)
def matmul(a: Spec, b: Spec, *, transpose_a: bool = False, transpose_b: bool = False) -> Spec:
    """Return the product of matrices, which are the last two axes; the axes before them are broadcast.

    Args:
        a: matrices (…, rows, inner), or (…, inner, rows) with `transpose_a`.
        b: matrices (…, inner, columns), or (…, columns, inner) with `transpose_b`, of the dtype of a.
        transpose_a: whether the last two axes of a are exchanged.
        transpose_b: whether the last two axes of b are exchanged.

    Returns:
        matrices (…, rows, columns) in the dtype of a. A product over 0 columns is 0.
    """
    shape = matmul_shape(a.shape, b.shape, transpose_a, transpose_b)
    return Shaped(shape, check_same_dtype("BatchMatMul", a, b))


def matmul_shape(a: Shape, b: Shape, transpose_a: bool, transpose_b: bool) -> Shape:
    """Return the shape of the product of matrices of these shapes.

    Raises:
        ShapeError: one has fewer than two axes, or they do not match.
    """
    if len(a) < 2 or len(b) < 2:
        raise ShapeError(f"shapes {a} and {b} must have two axes or more")
    rows, inner_a = a[-2:][::-1] if transpose_a else a[-2:]
    inner_b, columns = b[-2:][::-1] if transpose_b else b[-2:]
    if inner_a != inner_b:
        flags = (
            f" (transpose_a={transpose_a}, transpose_b={transpose_b})"
            if transpose_a or transpose_b
            else ""
        )
        raise ShapeError(
            f"shapes {a} and {b}{flags} do not match: {inner_a} columns meet {inner_b} rows"
        )
    return *broadcast(a[:-2], b[:-2]), rows, columns


@kernel("Einsum", accepts=NUMERIC)
def einsum(*inputs: Spec, equation: str) -> Spec:
    """Return sums of products of elements in Einstein's notation: a letter for each axis, as in ``ij,jk->ik``.

    Letters that do not follow the arrow are summed over. No operand has a letter twice, and each
    letter of the result is one of an operand.

    Args:
        inputs: one tensor for each operand, all of one dtype.
        equation: the letters of the operands, with commas between them, an arrow, and the letters of the result.

    Returns:
        a tensor with an axis for each letter after the arrow, in the dtype of the inputs.
    """
    operands, _, result = equation.partition("->")
    sizes: dict[str, int] = {}
    letters = operands.split(",")
    if len(letters) != len(inputs) or "->" not in equation:
        raise ShapeError(
            f"equation {equation!r} must have an arrow and name the axes of {len(inputs)} operands"
        )
    for named, x in zip(letters, inputs, strict=True):
        if len(named) != len(x.shape) or len(set(named)) != len(named):
            raise ShapeError(
                f"{named!r} in {equation!r} must have a different letter for each axis of shape {x.shape}"
            )
        for letter, size in zip(named, x.shape, strict=True):
            if sizes.setdefault(letter, size) != size:
                raise ShapeError(
                    f"letter {letter!r} in {equation!r} stands for sizes {sizes[letter]} and {size}"
                )
    if not set(result) <= sizes.keys() or len(set(result)) != len(result):
        raise ShapeError(
            f"the letters after the arrow in {equation!r} must be different, and each one of an operand"
        )
    return Shaped(tuple(sizes[letter] for letter in result), check_same_dtype("Einsum", *inputs))


@kernel("MatrixBandPart")
def band_part(input: Spec, num_lower: Spec, num_upper: Spec) -> Spec:
    """Return matrices with zeros outside a band around the diagonal.

    The 0-d `num_lower` and `num_upper` say how many diagonals are kept below and above the main one;
    a negative number keeps all.

    Args:
        input: matrices (…, rows, columns) of any dtype.
        num_lower: how many diagonals below the main one are kept, a 0-d integer.
        num_upper: how many diagonals above the main one are kept, a 0-d integer.

    Returns:
        a tensor of the shape and the dtype of the input.
    """
    if len(input.shape) < 2:
        raise ShapeError(f"shape {input.shape} must have two axes or more")
    for name, count in (("num_lower", num_lower), ("num_upper", num_upper)):
        check_dtype(f"MatrixBandPart ({name})", count, INTEGER)
        if count.shape:
            raise ShapeError(f"{name} has shape {count.shape}; it must be 0-d")
    return Shaped(input.shape, input.dtype)


@kernel("Diag")
def diag(x: Spec) -> Spec:
    """Return zeros of shape ``x.shape + x.shape`` with x on the diagonal.

    Args:
        x: the elements of the diagonal.

    Returns:
        a tensor with twice the axes of x, in its dtype.
    """
    return Shaped((*x.shape, *x.shape), x.dtype)


@kernel("DiagPart")
def diag_part(input: Spec) -> Spec:
    """Return the diagonal that `diag` fills, of a tensor whose first half of axes equals the second half.

    Args:
        input: a tensor of shape ``shape + shape``.

    Returns:
        a tensor of that shape in the dtype of the input.
    """
    half = len(input.shape) // 2
    if input.shape[:half] != input.shape[half:]:
        raise ShapeError(f"shape {input.shape} must consist of the same sizes twice")
    return Shaped(input.shape[:half], input.dtype)
