"""Checks of what optimizers are given: pairs of variables and gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from plugrad.errors import ArgumentError, DTypeError, ShapeError, short_repr
from plugrad.ops.attributes import as_list
from plugrad.tensor.tensor import Tensor
from plugrad.transforms.variable import Variable
from plugrad.types.dtype import promote

if TYPE_CHECKING:
    from collections.abc import Callable


def check_gradient(variable: Variable, gradient: Tensor) -> None:
    """Raise unless a gradient can move a variable.

    Raises:
        ShapeError: it does not have the shape of the variable.
        DTypeError: it would change the dtype of the variable.
    """
    value, direction = variable.array, gradient.array
    if direction.shape != value.shape:
        raise ShapeError(
            f"apply_gradients: variable {variable.name!r} has shape {variable.shape}, its gradient {gradient.shape}"
        )
    if value.dtype is not direction.dtype and (
        promote(variable.dtype, gradient.dtype) is not variable.dtype
    ):
        raise DTypeError(
            f"apply_gradients: variable {variable.name!r} is {variable.dtype}, its gradient {gradient.dtype}; cast it "
            "with astype"
        )


def check_transformed_gradients(
    transform: Callable[..., Any], gradients: object, expected_count: int
) -> list[Tensor]:
    """Return the gradients from a transform as a list; raise unless they are as many tensors as expected.

    Raises:
        ArgumentError: it is not as many tensors.
    """
    found = list(cast("Sequence[Any]", gradients)) if isinstance(gradients, Sequence) else []
    if len(found) != expected_count or not all(isinstance(g, Tensor) for g in found):
        raise ArgumentError(
            f"apply_gradients: the transform {short_repr(transform)} must return a list of {expected_count} tensors, "
            f"as many as it got; it returned {short_repr(gradients)}"
        )
    return found


def check_pairs(pairs: Sequence[Any]) -> None:
    """Raise unless all are pairs of a variable and a gradient that can move it.

    Raises:
        ArgumentError: one is not a pair of a variable and a tensor.
        ShapeError, DTypeError: as for `check_gradient`.
    """
    for pair in pairs:
        members: Any = pair
        if not (
            isinstance(pair, _PAIR_TYPES)
            and len(pair) == 2
            and isinstance(variable := members[0], Variable)
            and isinstance(gradient := members[1], Tensor)
        ):
            raise ArgumentError(
                "apply_gradients: the argument must be pairs of a Variable and a Tensor"
            )
        value, direction = variable.array, gradient.array
        if direction.shape != value.shape or direction.dtype is not value.dtype:
            check_gradient(variable, gradient)


_PAIR_TYPES: Final = (tuple, list)  # Python makes a union anew in each test for one
"""The types of a pair of a variable and a gradient."""


def check_variables(variables: object, function_name: str) -> list[Variable]:
    """Return a sequence of variables as a list.

    Raises:
        ArgumentError: it is something else.
    """
    found = as_list(variables, function_name, "variables")
    for x in found:
        if not isinstance(x, Variable):
            raise ArgumentError(f"{function_name}: {short_repr(x)} is not a Variable")
    return found
