"""Flattening and mapping of nested lists, tuples and dicts of tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from plugrad.tensor.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def leaves_of(tree: Any) -> Iterator[Any]:
    """Yield the leaves in order: everything that is not a list, tuple or dict.

    >>> list(leaves_of({"b": [1, 2], "a": (3,)}))
    [1, 2, 3]
    """
    if isinstance(tree, dict):
        tree = cast("dict[Any, Any]", tree).values()
    elif not isinstance(tree, list | tuple):
        yield tree
        return
    for part in cast("Iterator[Any]", tree):
        yield from leaves_of(part)


def tensors_in(tree: Any) -> Iterator[Tensor]:
    """Yield the tensors in a tree; everything else is skipped."""
    return (leaf for leaf in leaves_of(tree) if isinstance(leaf, Tensor))


def map_tree(function: Callable[[Any], Any], tree: Any) -> Any:
    """Return a tree of the same form with `function` applied to every leaf.

    >>> map_tree(lambda n: n * 10, {"b": [1, 2], "a": (3,)})
    {'b': [10, 20], 'a': (30,)}
    """
    if isinstance(tree, Tensor):
        return function(tree)
    if isinstance(tree, dict):
        return {key: map_tree(function, part) for key, part in cast("dict[Any, Any]", tree).items()}
    if isinstance(tree, tuple) and hasattr(cast("Any", tree), "_fields"):  # a named tuple
        fields = [map_tree(function, part) for part in cast("tuple[Any, ...]", tree)]
        return cast("type[Any]", type(tree))(*fields)
    if isinstance(tree, list | tuple):
        parts: list[Any] = [map_tree(function, part) for part in cast("list[Any]", tree)]
        return parts if isinstance(tree, list) else tuple(parts)
    return function(tree)
