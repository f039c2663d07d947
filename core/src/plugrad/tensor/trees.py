"""Flattening and mapping of nested lists, tuples and dicts of tensors."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from typing import TYPE_CHECKING, Any, cast

from plugrad.errors import ArgumentError
from plugrad.tensor.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def iter_leaves(tree: Any) -> Iterator[Any]:
    """Yield the leaves in order: everything that is not a list, tuple or dict.

    >>> list(iter_leaves({"b": [1, 2], "a": (3,)}))
    [1, 2, 3]

    Raises:
        ArgumentError: the tree contains itself, or has too many levels.
    """
    try:
        yield from _iter_leaves(tree)
    except RecursionError:
        raise make_too_deep_error() from None


def _iter_leaves(tree: Any) -> Iterator[Any]:
    """Yield the leaves in order; a tree that is too deep raises RecursionError."""
    if isinstance(tree, dict):
        tree = cast("dict[Any, Any]", tree).values()
    elif not isinstance(tree, list | tuple):
        yield tree
        return
    for part in cast("Iterator[Any]", tree):
        yield from _iter_leaves(part)


def make_too_deep_error() -> ArgumentError:
    """Return the error for a tree whose levels are too many for Python's recursion."""
    return ArgumentError(
        "a nested list, tuple or dict contains itself, or has more levels than Python's recursion allows"
    )


def iter_tensors(tree: Any) -> Iterator[Tensor]:
    """Yield the tensors in a tree; everything else is skipped."""
    if isinstance(tree, Tensor):
        return iter((tree,))
    return (leaf for leaf in iter_leaves(tree) if isinstance(leaf, Tensor))


def map_tree(function: Callable[[Any], Any], tree: Any) -> Any:
    """Return a tree of the same form with `function` applied to every leaf.

    Named tuples, and dicts of the types `OrderedDict` and `defaultdict`, keep their type.

    >>> map_tree(lambda n: n * 10, {"b": [1, 2], "a": (3,)})
    {'b': [10, 20], 'a': (30,)}

    Raises:
        ArgumentError: the tree contains itself, or has too many levels.
    """
    if isinstance(tree, Tensor):
        return function(tree)
    try:
        return _map_tree(function, tree)
    except RecursionError:
        raise make_too_deep_error() from None


def _map_tree(function: Callable[[Any], Any], tree: Any) -> Any:
    """Return a tree with `function` applied to every leaf; a tree that is too deep raises RecursionError."""
    if isinstance(tree, Tensor):
        return function(tree)
    if isinstance(tree, dict):
        parts_by_key = cast("dict[Any, Any]", tree)
        mapped = {key: _map_tree(function, part) for key, part in parts_by_key.items()}
        return replace_values(parts_by_key, mapped)
    if isinstance(tree, tuple) and hasattr(cast("Any", tree), "_fields"):  # a named tuple
        fields = [_map_tree(function, part) for part in cast("tuple[Any, ...]", tree)]
        return cast("type[Any]", type(tree))(*fields)
    if isinstance(tree, list | tuple):
        parts: list[Any] = [_map_tree(function, part) for part in cast("list[Any]", tree)]
        return parts if isinstance(tree, list) else tuple(parts)
    return function(tree)


def replace_values(tree: dict[Any, Any], values: dict[Any, Any]) -> dict[Any, Any]:
    """Return a dict of values with the type of `tree`, if that is `OrderedDict` or `defaultdict`.

    Nobody knows how to make other subclasses: they become plain dicts.
    """
    if type(tree) is OrderedDict:
        return OrderedDict(values)
    if type(tree) is defaultdict:
        return defaultdict(tree.default_factory, values)
    return values
