"""Checks of the carries and results of loops and conditionals: nested tensors of fixed structure and specs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from plugrad.errors import (
    ArgumentError,
    ArgumentValueError,
    DTypeError,
    GradientNotFound,
    ShapeError,
    short_repr,
)
from plugrad.ops.attributes import check_integer
from plugrad.ops.creation import asarray
from plugrad.tensor.tensor import Tensor
from plugrad.tensor.trees import iter_tensors, map_tree
from plugrad.types.dtype import bool_

if TYPE_CHECKING:
    from collections.abc import Sequence


def as_tensor_leaf(leaf: Any) -> Any:
    """Convert a leaf to a tensor; None stays None."""
    return leaf if leaf is None or isinstance(leaf, Tensor) else asarray(leaf)


def next_or_none(tensors: Any, leaf: Any) -> Any:
    """Return the next tensor for a leaf; None for a leaf that is None."""
    return None if leaf is None else next(tensors)


def count_iterations(xs: Any, length: int | None) -> int:
    """Return the number of iterations of a scan.

    Raises:
        ArgumentError: there are neither slices nor a length.
        ArgumentValueError: the first axes of `xs` and `length` differ.
    """
    sizes = {x.shape[0] if x.shape else None for x in iter_tensors(xs)}
    if length is not None:
        sizes.add(check_integer(length, "scan", "length", least=0))
    if not sizes:
        raise ArgumentError("scan: give xs, or length, the number of rounds")
    if len(sizes) > 1 or None in sizes:
        shapes = [x.shape for x in iter_tensors(xs)]
        raise ArgumentValueError(
            f"scan: the first axes of xs, of shapes {shapes}, and length={length} must be equally long; each round "
            "gets a slice along the first axis"
        )
    return cast("int", sizes.pop())


def check_iteration_result(result: Any, init: Any) -> tuple[Any, Any]:
    """Return the carry and the result of an iteration as tensors, checked against the initial carry.

    Raises:
        ArgumentError: they are no pair.
        ShapeError, DTypeError: the carry has changed.
    """
    if not isinstance(result, tuple) or len(cast("tuple[Any, ...]", result)) != 2:
        raise ArgumentError(
            f"scan: the function returned {short_repr(result)}; it must return a pair: the next carry, and a result "
            "or None"
        )
    carry, y = cast("tuple[Any, Any]", result)
    return check_carry("scan", carry, init), map_tree(as_tensor_leaf, y)


def check_carry(op: str, carry: Any, previous_carry: Any) -> Any:
    """Return a carry as tensors after a check that its structure and specs have not changed.

    Raises:
        ArgumentError, ShapeError, DTypeError: its structure, a shape or a dtype differs from the previous carry's.
    """
    carry = map_tree(as_tensor_leaf, carry)
    if not has_same_structure(carry, previous_carry):
        raise ArgumentError(
            f"{op}: the carry was {describe_structure(previous_carry)} and became {describe_structure(carry)}; "
            "it must keep its structure"
        )
    for x, y in zip(iter_tensors(previous_carry), iter_tensors(carry), strict=True):
        if x.shape != y.shape:
            raise ShapeError(
                f"{op}: a part of the carry had shape {x.shape} and got {y.shape}; it must keep it"
            )
        if x.dtype is not y.dtype:
            raise DTypeError(
                f"{op}: a part of the carry was {x.dtype} and became {y.dtype}; cast it with astype, or begin with "
                f"{y.dtype}"
            )
    return carry


def check_alternatives(
    yes_tree: Any, no_tree: Any, yes_results: Sequence[Any], no_results: Sequence[Any]
) -> None:
    """Raise unless both branches return the same structure with the same shapes and dtypes.

    Raises:
        ArgumentError: the structures differ.
        ShapeError, DTypeError: the results do.
    """
    if describe_structure(yes_tree) != describe_structure(no_tree):
        raise ArgumentError(
            f"cond: the functions return {describe_structure(yes_tree)} and {describe_structure(no_tree)}; "
            "both must return the same structure of tensors"
        )
    for x, y in zip(yes_results, no_results, strict=True):
        if (x.shape, x.dtype) != (y.shape, y.dtype):
            error = ShapeError if x.shape != y.shape else DTypeError
            raise error(
                f"cond: the functions return {x.dtype} of shape {x.shape} and {y.dtype} of shape {y.shape}; both "
                "results must have the same shape and dtype"
            )


def make_while_gradient_error() -> GradientNotFound:
    """Return the error for a gradient through a while loop."""
    return GradientNotFound(
        "while_loop: a traced loop has no gradient, because a gradient needs the carry of each round, and there is no "
        "memory for them: nobody knows the number of rounds before it runs. Use scan with as many rounds as may be "
        "needed, and keep the carry with plugrad.where once the loop is done; outside of jit, while_loop has a gradient"
    )


def has_same_structure(tree: Any, other_tree: Any) -> bool:
    """Return whether two trees have the same containers with tensors in the same places."""
    if isinstance(other_tree, Tensor):
        return isinstance(tree, Tensor)
    if type(tree) is not type(other_tree):
        return False
    if isinstance(tree, dict):
        parts = cast("dict[Any, Any]", tree)
        return parts.keys() == other_tree.keys() and all(
            has_same_structure(part, other_tree[key]) for key, part in parts.items()
        )
    if isinstance(tree, list | tuple):
        items = cast("list[Any]", tree)
        return len(items) == len(other_tree) and all(map(has_same_structure, items, other_tree))
    return tree is None


def describe_structure(tree: Any) -> str:
    """Return the structure of a tree as text, in which * is a tensor."""
    return str(
        map_tree(lambda leaf: TENSOR_PLACEHOLDER if isinstance(leaf, Tensor) else leaf, tree)
    )


class TensorPlaceholder:
    """The placeholder of a tensor in a described structure."""

    def __repr__(self) -> str:
        return "*"


TENSOR_PLACEHOLDER: Final = TensorPlaceholder()
"""The one object that stands for every tensor in a described structure."""


def condition_to_bool(flag: Any) -> bool:
    """Return a flag as a Python bool.

    Raises:
        ArgumentError, ShapeError, DTypeError: it is not one bool.
    """
    if isinstance(flag, Tensor):
        check_flag_spec(flag, "cond")
    elif not isinstance(flag, bool | np.bool_):
        raise ArgumentError(
            f"cond: the flag is {short_repr(flag)}; it must be a bool, or a bool tensor with one element"
        )
    return bool(flag)


def check_flag_spec(flag: Tensor, op: str) -> None:
    """Raise unless a tensor is a single bool.

    Raises:
        ShapeError, DTypeError: it is not.
    """
    if flag.dtype is not bool_:
        raise DTypeError(f"{op}: the flag is {flag.dtype}; it must be bool, as a comparison is")
    if flag.size != 1:
        raise ShapeError(
            f"{op}: the flag has shape {flag.shape}; it must have one element, as plugrad.all(x) has"
        )
