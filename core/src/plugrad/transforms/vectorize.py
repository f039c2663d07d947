"""`plugrad.vectorize`: NumPy's decorator, over `plugrad.vmap`."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Final, cast

from plugrad.errors import ArgumentError, ArgumentValueError, ShapeError, short_repr
from plugrad.ops.arguments import as_tensor
from plugrad.ops.movement import reshape
from plugrad.transforms.vmap import vmap
from plugrad.types.arguments import check_callable
from plugrad.types.shapes import broadcast

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from plugrad.tensor.tensor import Tensor
    from plugrad.types.specs import Shape

_AXIS_LIST_PATTERN: Final = r"\((?:\w+(?:,\w+)*)?\)"
"""The regular expression of the axis names of one argument or result, such as ``(m,n)``."""
_SIGNATURE_PATTERN: Final = re.compile(
    rf"{_AXIS_LIST_PATTERN}(?:,{_AXIS_LIST_PATTERN})*->{_AXIS_LIST_PATTERN}(?:,{_AXIS_LIST_PATTERN})*"
)
"""The regular expression of a whole signature, such as ``(m,n),(n)->(m)``."""


def vectorize(
    function: Callable[..., Any] | None = None,
    *,
    signature: str | None = None,
    excluded: Collection[int] = (),
) -> Callable[..., Any]:
    """Return a function that applies `function` to all elements or subarrays of broadcast arrays.

    >>> import plugrad
    >>> @plugrad.vectorize(signature="(n),(n)->()")
    ... def distance(a, b):
    ...     return plugrad.sqrt(plugrad.sum((a - b) ** 2))
    >>> distance(plugrad.ones((4, 1, 3)), plugrad.zeros((5, 3))).shape
    (4, 5)

    It is `numpy.vectorize` without a loop: the function runs once, under `vmap`. The signature has the axes that the
    function sees of each argument and of each result; the axes before them are broadcast, as in NumPy's generalized
    functions. Without one, the function takes and returns 0-d tensors.

    Args:
        function: what is called. Without it, the result is a decorator.
        signature: the axes of arguments and results, as in ``"(m,n),(n)->(m)"``.
        excluded: the positions of arguments that are handed over as they are.

    Raises:
        ArgumentError: `function` is not callable, `excluded` has something else than integers, or the function is
            called with another number of arguments than the signature has, or returns something else than it says.
        ArgumentValueError: the signature is not one.
        ShapeError: an argument has too few axes, a name stands for two sizes, or the other axes do not broadcast.
    """
    if function is None:
        return partial(vectorize, signature=signature, excluded=excluded)
    check_callable("vectorize", function)
    terms = None if signature is None else _parse_signature(signature)
    kept = _check_excluded(excluded)

    @wraps(function)
    def vectorized(*args: Any) -> Any:
        places = [i for i in range(len(args)) if i not in kept]
        xs = [as_tensor(args[i], "vectorize", f"argument {i}") for i in places]
        inputs, outputs = terms or (((),) * len(xs), None)
        if len(inputs) != len(xs):
            raise ArgumentError(
                f"vectorize: the signature {signature!r} is for {len(inputs)} arguments; the call has {len(xs)}"
            )
        sizes: dict[str, int] = {}
        outer = [
            _loop_shape(x, names, sizes, place)
            for x, names, place in zip(xs, inputs, places, strict=True)
        ]
        shape = broadcast(*outer)
        # An axis of size 1 that others stretch is none of the argument's own: it is shared.
        mapped = [
            [n == size for n, size in zip((1,) * (len(shape) - len(own)) + own, shape, strict=True)]
            for own in outer
        ]
        given = [
            reshape(x, _mapped_axes(own, flags) + x.shape[len(own) :])
            for x, own, flags in zip(xs, outer, mapped, strict=True)
        ]

        def call_on_subarrays(*subarrays: Tensor) -> Any:
            filled = list(args)
            for place, part in zip(places, subarrays, strict=True):
                filled[place] = part
            result = function(*filled)
            _check_results(result, outputs, sizes, signature)
            return result

        batched: Callable[..., Any] = call_on_subarrays
        for axis in reversed(range(len(shape))):  # the last one is that of the innermost batch
            in_axes = tuple([0 if flags[axis] else None for flags in mapped])
            batched = vmap(batched, in_axes=in_axes, axis_size=shape[axis])
        return batched(*given)

    return vectorized


def _check_excluded(excluded: Any) -> Collection[int]:
    """Return the positions of excluded arguments, after a check.

    Raises:
        ArgumentError: they are something else.
    """
    if isinstance(excluded, range):  # which may be too long for a list
        return excluded
    found: list[Any] = (
        [*cast("Collection[Any]", excluded)] if isinstance(excluded, Collection) else [excluded]
    )
    if not all(isinstance(place, int) for place in found):
        raise ArgumentError(
            f"vectorize: excluded={short_repr(excluded)} must be positions of arguments, such as {{0}}"
        )
    return found


def _parse_signature(signature: object) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """Return the axis names of each argument and of each result.

    Raises:
        ArgumentValueError: it is no signature.
    """
    text = signature.replace(" ", "") if isinstance(signature, str) else ""
    if not _SIGNATURE_PATTERN.fullmatch(text):
        raise ArgumentValueError(
            f"vectorize: signature={short_repr(signature)} must name the axes of arguments and results, as in "
            "'(m,n),(n)->(m)'"
        )
    inputs, outputs = (
        [
            tuple(name for name in term[1:-1].split(",") if name)
            for term in re.findall(_AXIS_LIST_PATTERN, part)
        ]
        for part in text.split("->")
    )
    return inputs, outputs


def _loop_shape(
    x: Tensor, core_axis_names: Sequence[str], axis_sizes: dict[str, int], argument_position: int
) -> Shape:
    """Return the shape of the loop axes of an argument; record the sizes of its core axes.

    Raises:
        ShapeError: there are too few axes, or a name stands for two sizes.
    """
    outer = x.ndim - len(core_axis_names)
    if outer < 0:
        raise ShapeError(
            f"vectorize: argument {argument_position} has shape {x.shape}; "
            f"the signature names {len(core_axis_names)} axes of it"
        )
    for name, size in zip(core_axis_names, x.shape[outer:], strict=True):
        wanted = int(name) if name.isdecimal() else axis_sizes.setdefault(name, size)
        if wanted != size:
            raise ShapeError(
                f"vectorize: axis {name} of argument {argument_position}, of shape {x.shape}, has size {size}; "
                f"in the signature or another argument it has {wanted}"
            )
    return x.shape[:outer]


def _mapped_axes(loop_sizes: Shape, is_mapped: Sequence[bool]) -> Shape:
    """Return the sizes of the loop axes along which an argument is mapped."""
    missing = len(is_mapped) - len(loop_sizes)
    sizes = (1,) * missing + loop_sizes
    return tuple([n for n, flag in zip(sizes, is_mapped, strict=True) if flag])


def _check_results(
    result: Any,
    output_axis_names: Sequence[Sequence[str]] | None,
    axis_sizes: dict[str, int],
    signature: str | None,
) -> None:
    """Raise unless results have the core axes that the signature names.

    Raises:
        ArgumentError: there is another number of results.
        ShapeError: one has other axes.
    """
    if output_axis_names is None:
        output_axis_names = ((),)
        if isinstance(result, tuple):
            output_axis_names *= len(cast("tuple[Any, ...]", result))
    found = list(cast("tuple[Any, ...]", result)) if isinstance(result, tuple) else [result]
    if len(found) != len(output_axis_names):
        raise ArgumentError(
            f"vectorize: the function returned {len(found)} results; the signature {signature!r} has "
            f"{len(output_axis_names)}"
        )
    for i, (y, names) in enumerate(zip(found, output_axis_names, strict=True)):
        shape: Shape = getattr(y, "shape", ())
        known = {**axis_sizes, **dict(zip(names, shape, strict=False))}
        expected = [int(n) if n.isdecimal() else axis_sizes.get(n, known.get(n)) for n in names]
        if len(shape) != len(names) or list(shape) != expected:
            raise ShapeError(
                f"vectorize: result {i} has shape {shape} for one element; the signature says "
                f"({', '.join(names)}) with {axis_sizes}"
            )
        axis_sizes.update(
            {n: size for n, size in zip(names, shape, strict=True) if not n.isdecimal()}
        )
