"""Arguments and results flattened to lists of tensors, with their structure and static values kept apart."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from plugrad.errors import ArgumentError, short_repr
from plugrad.ops.creation import asarray
from plugrad.tensor.tensor import Tensor
from plugrad.tensor.trees import make_too_deep_error
from plugrad.transforms.variable import Variable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import CodeType

END_OF_CONTAINER_MARKER: Final = object()
"""The part of a key that ends the parts of a container."""


class IdentityKey:
    """A static argument that is compared by identity."""

    __slots__ = ("target",)

    def __init__(self, target: object) -> None:
        """Create a key for an object, which is kept alive: another object cannot get its identity."""
        self.target: object = target

    def __hash__(self) -> int:
        return id(self.target)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IdentityKey) and self.target is other.target


def flatten_argument(tree: Any, key: list[Any], tensors: list[Tensor]) -> None:
    """Append the tensors of an argument to a list, and everything else that selects the trace to a key.

    Arrays of NumPy become tensors on the active backend. Variables are static: they are the same ones at each call.

    Raises:
        ArgumentError: the argument contains itself, or has too many levels.
    """
    try:
        _flatten_container(tree, key, tensors)
    except RecursionError:
        raise make_too_deep_error() from None


def _flatten_container(tree: Any, key: list[Any], tensors: list[Tensor]) -> None:
    """Append the tensors of a nested container to a list, and all else that selects the trace to a key."""
    kind = cast("type[Any]", type(tree))
    if kind is Tensor:
        array = tree.array
        key += array.shape, array.dtype
        tensors.append(tree)
    elif kind is tuple or kind is list:
        key.append(kind)
        for part in tree:
            _flatten_container(part, key, tensors)
        key.append(END_OF_CONTAINER_MARKER)
    elif kind is dict:
        key.append(kind)
        for name, part in cast("dict[Any, Any]", tree).items():
            key.append(name)
            if type(part) is Tensor:
                array = part.array
                key += array.shape, array.dtype
                tensors.append(part)
            else:
                _flatten_container(part, key, tensors)
        key.append(END_OF_CONTAINER_MARKER)
    else:
        _flatten_other(tree, kind, key, tensors)


def _flatten_other(tree: Any, tree_type: type, key: list[Any], tensors: list[Tensor]) -> None:
    """Append the tensors and the key of a tree of a rare type, such as a variable, an array or a subclass of dict."""
    if isinstance(tree, Variable):
        key.append(IdentityKey(tree))
    elif isinstance(tree, Tensor):
        _flatten_container(Tensor(tree.array, tree.backend, tree.node), key, tensors)
    elif isinstance(tree, np.ndarray | np.generic):
        _flatten_container(asarray(tree), key, tensors)
    elif isinstance(tree, tuple | list):
        key.append(tree_type)
        for part in cast("Sequence[Any]", tree):
            _flatten_container(part, key, tensors)
        key.append(END_OF_CONTAINER_MARKER)
    elif isinstance(tree, dict):
        key.append(tree_type)
        if tree_type is defaultdict:
            key.append(cast("defaultdict[Any, Any]", tree).default_factory)
        _flatten_container(dict(cast("dict[Any, Any]", tree)), key, tensors)
    else:
        key.append(tree_type)  # 1, 1.0 and True are equal
        key.append(
            repr(tree) if tree_type is float or tree_type is complex else tree
        )  # so are 0.0 and -0.0


def check_hashable(arguments: Mapping[str, Any]) -> None:
    """Raise an error that names the argument that cannot be hashed.

    Raises:
        ArgumentError: the message names it.
    """
    for name, value in arguments.items():
        key: list[Any] = []
        flatten_argument(value, key, [])
        for part in key:
            try:
                hash(part)
            except TypeError:
                raise ArgumentError(
                    f"jit: argument {name!r} has a {type(part).__name__}, {short_repr(part)}, which is neither a "
                    "tensor nor hashable, so that nobody can tell whether it is the same at the next call; pass a "
                    "tensor, make it hashable, as a dataclass with frozen=True is, or take it by identity, with "
                    f"static=({name!r},)"
                ) from None


class ResultRebuilder:
    """Writes an expression that rebuilds a traced function's results from arrays."""

    def __init__(self) -> None:
        """Begin without any result."""
        self.results: list[Tensor] = []
        self.objects: dict[str, Any] = {}

    def expression(self, tree: Any) -> str:
        """Return an expression for a result, in which `a` is the list of arrays, `b` a backend, and `t` makes a tensor.

        Raises:
            ArgumentError: the result contains itself, or has too many levels.
        """
        try:
            return self._format_tree(tree)
        except RecursionError:
            raise make_too_deep_error() from None

    def _format_tree(self, tree: Any) -> str:
        """Return the Python expression that builds a tree from its leaves."""
        if isinstance(tree, Tensor):
            self.results.append(tree)
            return f"t(a[{len(self.results) - 1}], b)"
        if isinstance(tree, tuple) and hasattr(cast("Any", tree), "_fields"):
            return f"{self.name(type(cast('Any', tree)))}({self._join_elements(cast('Any', tree))})"
        if type(tree) is tuple:
            return f"({self._join_elements(cast('Any', tree))})"
        if isinstance(tree, tuple | list):
            text = f"[{self._join_elements(cast('Any', tree))}]"
            return (
                text
                if type(cast("Any", tree)) is list
                else f"{self.name(type(cast('Any', tree)))}({text})"
            )
        if isinstance(tree, dict):
            pairs = cast("dict[Any, Any]", tree).items()
            text = f"{{{', '.join(f'{self.name(k)}: {self._format_tree(v)}' for k, v in pairs)}}}"
            if type(cast("Any", tree)) is OrderedDict:
                return f"{self.name(OrderedDict)}({text})"
            if type(cast("Any", tree)) is defaultdict:
                factory = cast("defaultdict[Any, Any]", tree).default_factory
                return f"{self.name(defaultdict)}({self.name(factory)}, {text})"
            return text
        return self.name(tree)

    def _join_elements(self, trees: Sequence[Any]) -> str:
        """Return the expressions for the elements of a container, joined by commas."""
        return "".join(f"{self._format_tree(tree)}, " for tree in trees)

    def name(self, value: Any) -> str:
        """Add an object to the variables of the expression, and return its name there."""
        name = f"o{len(self.objects)}"
        self.objects[name] = value
        return name

    def compile(self, text: str) -> Callable[[Any, Any], Any]:
        """Compile the expression to a function of the arrays and the backend.

        Raises:
            ArgumentError: it has too many levels for Python's parser.
        """
        try:
            return eval(
                _compile_python_source(f"lambda a, b: {text}"), {**self.objects, "t": Tensor}
            )
        except (SyntaxError, MemoryError, RecursionError):
            raise make_too_deep_error() from None


@lru_cache(1024)
def _compile_python_source(text: str) -> CodeType:
    """Compile an expression; functions with results of the same structure share the code."""
    return compile(text, "<plugrad: results>", "eval")
