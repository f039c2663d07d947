"""Einstein summation: equations in their general form, reduced to the form that the kernel takes."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from plugrad.contract.kernel import ValidatedAttributes
from plugrad.errors import ArgumentError, ArgumentValueError, ShapeError, short_repr
from plugrad.kernels import linalg, movement, reduction
from plugrad.ops.arguments import cast, promote_to_one_dtype, supported_dtype
from plugrad.types.dtype import float32
from plugrad.types.specs import Shaped

if TYPE_CHECKING:
    from plugrad.contract.kernel import Kernel
    from plugrad.tensor.tensor import Tensor, TensorLike
    from plugrad.types.specs import Shape

    KernelCall: TypeAlias = "tuple[Kernel[..., Any], ValidatedAttributes]"
    """A kernel of one input, with the attributes of the call."""

SUBSCRIPT_LETTERS: Final = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
"""The letters that may name axes: `string.ascii_letters`, whose module takes a millisecond to import."""


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
    _check_equation(equation)
    xs = promote_to_one_dtype(list(tensors), "einsum") if tensors else []
    plan = _plan_einsum(equation, tuple([x.array.shape for x in xs]))
    dtype = supported_dtype(xs[0].dtype, linalg.einsum, "einsum")
    prepared: list[Tensor] = []
    for x, steps in zip(xs, plan.steps, strict=True):
        y = x if x.dtype is dtype else cast(x, dtype)
        for kernel, attrs in steps:
            y = kernel.call(y, attrs)
        prepared.append(y)
    if plan.kernel is not None:
        return plan.kernel.call(prepared[0], plan.attrs)
    return linalg.einsum.call(prepared, plan.attrs)


class EinsumPlan(NamedTuple):
    """The kernel call that computes an equation for operands of certain shapes, and the calls before it."""

    steps: list[list[KernelCall]]
    """For each operand, the kernel calls that drop broadcast axes and take diagonals."""
    kernel: Kernel[..., Any] | None
    """The kernel to call with the only operand; None for the kernel Einsum with all operands."""
    attrs: ValidatedAttributes


@lru_cache(maxsize=1024)
def _plan_einsum(equation: str, shapes: tuple[Shape, ...]) -> EinsumPlan:
    """Return the plan of an equation for operands of these shapes.

    Raises:
        ArgumentValueError: it is malformed or is for another number of operands.
        ShapeError: an operand has another number of axes than its term, or a letter stands for two sizes.
    """
    operands, result = _parse_equation(equation, len(shapes))
    counts = [
        _count_ellipsis_axes(term, shape, equation)
        for term, shape in zip(operands, shapes, strict=True)
    ]
    dots = [c for c in SUBSCRIPT_LETTERS if c not in equation][: max(counts)]
    terms = [
        term.replace("...", "".join(dots[len(dots) - count :]))
        for term, count in zip(operands, counts, strict=True)
    ]
    stretched = {
        letter
        for term, shape in zip(terms, shapes, strict=True)
        for letter, size in zip(term, shape, strict=True)
        if letter in dots and size != 1
    }
    reduced: list[str] = []
    prepared: list[list[KernelCall]] = []
    specs: list[Shaped] = []
    for term, shape in zip(terms, shapes, strict=True):
        kept = [
            (letter, size)
            for letter, size in zip(term, shape, strict=True)
            if not (letter in dots and size == 1 and letter in stretched)
        ]
        steps: list[KernelCall] = []
        squeezed = tuple([size for _, size in kept])
        if squeezed != shape:
            steps.append(_make_kernel_call(movement.reshape, shape=squeezed))
        term = "".join(letter for letter, _ in kept)
        left, size = _take_diagonals(term, squeezed, equation, steps)
        reduced.append(left)
        prepared.append(steps)
        specs.append(Shaped(size, float32))
    result = result.replace("...", "".join(dots))
    if len(reduced) == 1 and result == "".join(c for c in reduced[0] if c in result):
        axes = tuple([i for i, c in enumerate(reduced[0]) if c not in result])
        return EinsumPlan(prepared, *_make_kernel_call(reduction.sum, axis=axes, keep_dims=False))
    attrs = linalg.einsum.validate_attributes(*specs, equation=f"{','.join(reduced)}->{result}")
    return EinsumPlan(prepared, None, attrs)


def _make_kernel_call(kernel: Kernel[..., Any], **attrs: Any) -> KernelCall:
    """Return a kernel with the attributes of its call, which need no validation."""
    return kernel, ValidatedAttributes(attrs)


def _check_equation(equation: object) -> None:
    """Raise unless an equation is a string.

    Raises:
        ArgumentError: it is not.
    """
    if not isinstance(equation, str):  # it is easily forgotten
        raise ArgumentError(
            f"einsum: equation={short_repr(equation)} must be a string, such as 'ij,jk->ik', before the tensors"
        )


def _parse_equation(equation: str, operand_count: int) -> tuple[list[str], str]:
    """Split an equation into the operands' subscripts and the result's.

    Raises:
        ArgumentValueError: it is malformed or is for another number of operands than `operand_count`.
    """
    plain = equation.replace(" ", "")
    left, arrow, result = plain.partition("->")
    operands = left.split(",")
    letters = [term.replace("...", "", 1) for term in (*operands, result)]
    if not all(c in SUBSCRIPT_LETTERS for term in letters for c in term):
        raise ArgumentValueError(
            f"einsum: equation {short_repr(equation)} may contain only letters, commas, '...' and one '->'"
        )
    if len(operands) != operand_count:
        raise ArgumentValueError(
            f"einsum: equation {short_repr(equation)} has terms for {len(operands)} tensors, not for {operand_count}"
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


def _count_ellipsis_axes(subscripts: str, shape: Shape, equation: str) -> int:
    """Return the number of axes that ``...`` covers in an operand.

    Raises:
        ShapeError: the operand does not have as many axes as its term.
    """
    letters = len(subscripts.replace("...", ""))
    count = len(shape) - letters
    if count < 0 or (count and "..." not in subscripts):
        raise ShapeError(
            f"einsum: {subscripts!r} in equation {short_repr(equation)} names {letters} axes; the shape is {shape}"
        )
    return count


def _take_diagonals(
    subscripts: str, shape: Shape, equation: str, kernel_calls: list[KernelCall]
) -> tuple[str, Shape]:
    """Add the calls that replace axes of one letter by their diagonal; return the letters and the shape after them.

    Raises:
        ShapeError: two axes of one letter have different sizes.
    """
    while doubled := [c for c, n in Counter(subscripts).items() if n > 1]:
        letter = doubled[0]
        first, second = [i for i, c in enumerate(subscripts) if c == letter][:2]
        size = shape[first]
        if shape[second] != size:
            raise ShapeError(
                f"einsum: letter {letter!r} in equation {short_repr(equation)} stands for sizes {size} and "
                f"{shape[second]}"
            )
        others = [i for i in range(len(subscripts)) if i not in (first, second)]
        order = (*others, first, second)
        if order != tuple(range(len(subscripts))):
            kernel_calls.append(_make_kernel_call(movement.transpose, perm=order))
        kept = tuple([shape[i] for i in others])
        # the diagonal: every (size + 1)-th element of the two axes laid end to end
        kernel_calls.append(_make_kernel_call(movement.reshape, shape=(*kept, size * size)))
        zeros, ones = (0,) * len(kept), (1,) * len(kept)
        kernel_calls.append(
            _make_kernel_call(
                movement.strided_slice,
                begin=(*zeros, 0),
                end=(*kept, size * size),
                strides=(*ones, size + 1),
            )
        )
        subscripts, shape = "".join([subscripts[i] for i in others]) + letter, (*kept, size)
    return subscripts, shape
