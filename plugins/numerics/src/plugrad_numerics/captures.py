"""What functions with gradients of their own take and return: nested arguments, forgotten ones, and only tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import plugrad
from plugrad.extend import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from plugrad import Tensor


def flatten_dicts(
    args: Sequence[Any],
) -> tuple[list[Any], Callable[[Sequence[Tensor]], list[Any]]]:
    """Return the leaves of nested dicts among arguments, in order, and a function that rebuilds them from others."""
    leaves: list[Any] = []

    def replace_leaves(tree: Any) -> Any:
        """Return a tree with the positions in `leaves` instead of its leaves."""
        if isinstance(tree, dict):
            items = cast("dict[Any, Any]", tree).items()
            return {name: replace_leaves(part) for name, part in items}
        leaves.append(tree)
        return len(leaves) - 1

    def fill(tree: Any, tensors: Sequence[Tensor]) -> Any:
        if isinstance(tree, dict):
            items = cast("dict[Any, Any]", tree).items()
            return {name: fill(part, tensors) for name, part in items}
        return tensors[int(tree)]

    positions: list[Any] = [replace_leaves(x) for x in args]
    return leaves, lambda tensors: [fill(tree, tensors) for tree in positions]


def check_is_tensor(op: str, result: Any) -> Tensor:
    """Return the result of a function, which must be a tensor.

    Raises:
        ArgumentError: it is none.
    """
    if not isinstance(result, plugrad.Tensor):
        raise ArgumentError(
            f"{op}: the function must return a tensor, not {type(result).__name__}; compute with plugrad's ops"
        )
    return result


def check_captures(op: str, function: Callable[..., Tensor], *args: Tensor) -> None:
    """Raise an error if a function reads a differentiated tensor that is not among its arguments.

    Raises:
        GradientLost: it does.
    """
    if function(*map(plugrad.stop_gradient, args)).is_being_differentiated():
        raise plugrad.errors.GradientLost(
            f"{op}: the function reads a tensor or variable that is being differentiated and is not among its "
            "arguments, so its gradient would be lost; pass it as one of args, or write "
            "plugrad.stop_gradient(x) for a constant"
        )
