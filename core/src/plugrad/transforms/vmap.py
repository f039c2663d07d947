"""`plugrad.vmap`: maps a function of one example over a batch of examples."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, cast, get_args

import numpy as np

from plugrad.engine.transfer import copy_to_backend
from plugrad.errors import (
    ArgumentError,
    ArgumentValueError,
    AxisError,
    BackendMismatch,
    TracingError,
    short_repr,
)
from plugrad.kernels import movement
from plugrad.ops.attributes import check_integer
from plugrad.ops.creation import asarray
from plugrad.ops.movement import concat
from plugrad.registry.batching import move_axis
from plugrad.tensor.context import transfer_target
from plugrad.tensor.tensor import Tensor
from plugrad.tensor.tracer import current_tracer
from plugrad.tensor.trees import iter_leaves, map_tree, replace_values
from plugrad.transforms.batched_kernels import BatchedArray
from plugrad.transforms.batches import BatchTracer
from plugrad.types.arguments import check_callable, check_string

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from plugrad.tensor.backend import Backend

Randomness = Literal["different", "same", "error"]
RANDOMNESS_OPTIONS: Final[tuple[Randomness, ...]] = get_args(Randomness)


def vmap(
    function: Callable[..., Any],
    in_axes: Any = 0,
    out_axes: Any = 0,
    *,
    axis_size: int | None = None,
    chunk_size: int | None = None,
    randomness: Randomness = "error",
) -> Callable[..., Any]:
    """Return a function of a batch of examples, given a function of one example.

    >>> import plugrad
    >>> def loss(w, x, y):
    ...     return plugrad.sum((x @ w - y) ** 2)
    >>> w, x, y = plugrad.ones(2), plugrad.asarray([[1.0, 2.0], [3.0, 4.0]]), plugrad.zeros(2)
    >>> plugrad.vmap(plugrad.grad(loss), in_axes=(None, 0, 0))(w, x, y)
    tensor([[ 6., 12.],
            [42., 56.]], dtype=float32)

    The examples lie along an axis of the arguments, which `function` does not see. Instead of running once for each of
    them, it runs once, on kernels that compute all examples together. It may call any function of plugrad, and its
    result may be differentiated, traced with `jit`, or batched again. What it closes over is shared by all examples.

    Arguments and results are nested lists, tuples and dicts of tensors. NumPy's arrays become tensors. Numbers, strings
    and None are shared, and so are keyword arguments.

    Args:
        function: computes the result of one example.
        in_axes: the axis along which the examples of each argument lie; None for one that is shared. An integer is for
            all arguments, a tuple has one entry for each. An entry for a container may be a container of that form.
        out_axes: the axis along which the examples of the result lie, in the same form. None is for a result that does
            not depend on the example.
        axis_size: the number of examples, which is needed only if all arguments are shared.
        chunk_size: how many examples are computed at once, to save memory; by default all.
        randomness: what draws of random numbers are: "different" for each example, the "same" for all, or an "error".

    Raises:
        ArgumentError: `function` is not callable, or the axes do not have the form of the arguments or of the results.
        ArgumentValueError: numbers of examples differ, or there is none, or an option is out of range.
        AxisError: an argument or a result does not have an axis.
        TracingError: the function needs the values of an example, or the shape of what it computes depends on them.
        BackendMismatch: the arguments live on different devices.
    """
    check_callable("vmap", function)
    if axis_size is not None:
        axis_size = check_integer(axis_size, "vmap", "axis_size", least=0)
    if chunk_size is not None:
        chunk_size = check_integer(chunk_size, "vmap", "chunk_size", least=1)
    if check_string(randomness, "vmap", "randomness") not in RANDOMNESS_OPTIONS:
        raise ArgumentValueError(
            f"vmap: randomness={short_repr(randomness)} must be 'different', 'same' or 'error'"
        )
    _check_axes(in_axes, "in_axes")
    _check_axes(out_axes, "out_axes")

    @wraps(function)
    def call_on_batch(*args: Any, **kwargs: Any) -> Any:
        given, template = _flatten_arguments(args, in_axes)
        size = _count_examples(given, axis_size)
        drawn: list[Tensor] = []
        step = size if chunk_size is None or not size else min(chunk_size, size)
        parts: list[Any] = []
        for start in range(0, size, step) if size else [0]:
            part = given if step == size else [_slice_chunk(x, start, step) for x in given]
            count = min(step, size - start)
            tracer = BatchTracer(_find_backend(given), count, randomness, drawn)
            parts.append(_run_on_batch(tracer, function, template(part, tracer), kwargs, out_axes))
        return parts[0] if len(parts) == 1 else _concatenate_chunks(parts, out_axes)

    return call_on_batch


def map_rows(
    function: Callable[[Tensor], list[Tensor]], x: Tensor, chunk_size: int
) -> list[Tensor]:
    """Return the stacked results of a function for each slice of a tensor along its first axis, as `vmap` does."""
    size = x.shape[0]
    parts: list[list[Tensor]] = []
    for start in range(0, size, chunk_size):
        rows = (
            _slice_chunk(MappedTensor(x, 0), start, chunk_size)
            if size > chunk_size
            else MappedTensor(x, 0)
        )
        count = min(chunk_size, size - start)
        tracer = BatchTracer(_find_backend([rows]), count, "error", [])
        with tracer.run_on_level():
            found = [_as_batched(y, tracer) for y in function(_hide_axis(rows, tracer))]
        parts.append([_move_batch_axis(y, 0, "the result", count) for y in found])
    return (
        parts[0]
        if len(parts) == 1
        else [concat(column, axis=0) for column in zip(*parts, strict=True)]
    )


# --- arguments -----------------------------------------------------------------------------------


class MappedTensor(NamedTuple):
    """A tensor among the arguments, with the axis along which its examples lie, or None if all examples share it."""

    tensor: Tensor
    axis: int | None


def _check_axes(axes: Any, parameter_name: str) -> None:
    """Raise unless axes are integers, None, or nested containers of them.

    Raises:
        ArgumentError: one is something else.
    """
    for axis in iter_leaves(axes):
        if axis is not None and (isinstance(axis, bool) or not isinstance(axis, int | np.integer)):
            raise ArgumentError(
                f"vmap: {parameter_name}={short_repr(axes)} must be an integer, None, or nested tuples, lists and "
                f"dicts of these; it has {short_repr(axis)}"
            )


def _flatten_arguments(
    args: tuple[Any, ...], in_axes: Any
) -> tuple[list[MappedTensor], Callable[..., list[Any]]]:
    """Return the tensors among the arguments, and a function that replaces them by other tensors."""
    axes = as_axes_of_arguments(in_axes, args)
    given: list[MappedTensor] = []

    def collect_tensor(x: Any, axis: int | None, tree_path: str) -> Any:
        """Append a tensor with its axis to the list, and return a slot in its place."""
        if isinstance(x, np.ndarray | np.generic):
            x = asarray(x)
        if not isinstance(x, Tensor):
            return x
        if axis is None:
            given.append(MappedTensor(x, None))
            return TENSOR_SLOT
        given.append(MappedTensor(x, _normalize_axis(axis, x, f"{tree_path} has shape {x.shape}")))
        return TENSOR_SLOT

    marked = [
        map_with_axes(collect_tensor, arg, axis, f"argument {position}", "in_axes")
        for position, (arg, axis) in enumerate(zip(args, axes, strict=True))
    ]

    def replace_tensor(mapped_tensors: Sequence[MappedTensor], tracer: BatchTracer) -> list[Any]:
        remaining = iter(mapped_tensors)
        return map_tree(
            lambda leaf: _hide_axis(next(remaining), tracer) if leaf is TENSOR_SLOT else leaf,
            marked,
        )

    return given, replace_tensor


TENSOR_SLOT: Final = object()
"""The placeholder for a tensor among the arguments."""


def as_axes_of_arguments(in_axes: Any, args: Sequence[Any]) -> Sequence[Any]:
    """Return one entry of `in_axes` for each argument.

    Raises:
        ArgumentError: there are others.
    """
    if in_axes is None or isinstance(in_axes, int | np.integer):
        return [cast("Any", in_axes)] * len(args)
    if not isinstance(in_axes, tuple | list) or len(cast("Any", in_axes)) != len(args):
        raise ArgumentError(
            f"vmap: in_axes={short_repr(in_axes)} must be an integer, None, or a tuple with one entry for each of "
            f"{len(args)} arguments"
        )
    return cast("Sequence[Any]", in_axes)


def map_with_axes(
    function: Callable[[Any, int | None, str], Any],
    tree: Any,
    axes: Any,
    tree_path: str,
    parameter_name: str,
) -> Any:
    """Apply a function to each leaf with its axis and its path; an axis belongs to a leaf or to a whole subtree.

    Raises:
        ArgumentError: the axes have another form than the tree.
    """
    if axes is None or isinstance(axes, int | np.integer):
        axis = None if axes is None else int(axes)
        return map_tree(lambda leaf: function(leaf, axis, tree_path), tree)
    if isinstance(tree, dict) and isinstance(axes, dict):
        parts, theirs = cast("dict[Any, Any]", tree), cast("dict[Any, Any]", axes)
        if parts.keys() == theirs.keys():
            mapped = {
                key: map_with_axes(
                    function, part, theirs[key], f"{tree_path}[{key!r}]", parameter_name
                )
                for key, part in parts.items()
            }
            return replace_values(parts, mapped)
    elif isinstance(tree, list | tuple) and isinstance(axes, list | tuple):
        items, others = cast("Sequence[Any]", tree), cast("Sequence[Any]", axes)
        if len(items) == len(others):
            found = [
                map_with_axes(function, part, axis, f"{tree_path}[{i}]", parameter_name)
                for i, (part, axis) in enumerate(zip(items, others, strict=True))
            ]
            if hasattr(tree, "_fields"):
                return cast("Any", type(tree))(*found)
            return found if isinstance(tree, list) else tuple(found)
    raise ArgumentError(
        f"vmap: {parameter_name}={short_repr(axes)} does not have the form of {tree_path}, {short_repr(tree)}; give an "
        "integer or None for all of it, or a container of the same form"
    )


def _normalize_axis(axis: int, x: Tensor, tensor_description: str) -> int:
    """Return an axis counted from the front.

    Raises:
        AxisError: there is no such axis.
    """
    if not -x.ndim <= axis < x.ndim:
        raise AxisError(
            f"vmap: {tensor_description}, which has no axis {axis} along which its examples could lie; pass None in "
            "in_axes for what all examples share"
        )
    return axis % x.ndim


def _count_examples(mapped_tensors: Sequence[MappedTensor], axis_size: int | None) -> int:
    """Return the number of examples.

    Raises:
        ArgumentValueError: nothing tells it, or two arguments differ.
    """
    sizes = {x.shape[axis]: (x.shape, axis) for x, axis in mapped_tensors if axis is not None}
    if axis_size is not None:
        sizes.setdefault(axis_size, ((), 0))
    if not sizes:
        raise ArgumentValueError(
            "vmap: no argument has an axis of examples, so that their number is not known; give axis_size"
        )
    if len(sizes) > 1:
        described = [
            f"{n} (axis {axis} of shape {shape})" if shape else f"{n} (axis_size)"
            for n, (shape, axis) in sizes.items()
        ]
        raise ArgumentValueError(
            f"vmap: all arguments must have equally many examples, and axis_size, if given, too; they have "
            f"{' and '.join(described)}"
        )
    return next(iter(sizes))


def _find_backend(mapped_tensors: Sequence[MappedTensor]) -> Backend:
    """Return the backend of the outer level: the active tracer, or the device of the arguments.

    Raises:
        BackendMismatch: the arguments live on different devices.
    """
    target = current_tracer() or transfer_target()
    if target is not None:
        return target
    places = list(dict.fromkeys(x.backend for x, _ in mapped_tensors))
    if len(places) > 1:
        labels = [backend.label for backend in places]
        raise BackendMismatch(
            f"vmap: the arguments live on {' and '.join(labels)}; move one of them, as in x.to({labels[0]!r}), or call "
            f"inside plugrad.use({labels[0]!r}, transfer=True)"
        )
    return places[0] if places else asarray(0).backend


def _slice_chunk(x: MappedTensor, first_example: int, chunk_size: int) -> MappedTensor:
    """Return up to `chunk_size` examples, from number `first_example` on."""
    tensor, axis = x
    if axis is None:
        return x
    stop = min(first_example + chunk_size, tensor.shape[axis])
    key = (*[slice(None)] * axis, slice(first_example, stop))
    return MappedTensor(tensor[key], axis)


def _hide_axis(x: MappedTensor, tracer: BatchTracer) -> Tensor:
    """Return a mapped tensor as a tensor of the tracer, which has the shape of one example."""
    tensor = copy_to_backend(x.tensor, tracer.outer)
    if x.axis is None:
        return Tensor(
            BatchedArray(Tensor(tensor.array, tensor.backend, tensor.node), False), tracer
        )
    first = move_axis(tensor, x.axis, 0)
    # not the caller's tensor, to which someone might assign
    return Tensor(BatchedArray(Tensor(first.array, first.backend, first.node), True), tracer)


# --- running -------------------------------------------------------------------------------------


def _run_on_batch(
    tracer: BatchTracer,
    function: Callable[..., Any],
    args: list[Any],
    kwargs: dict[str, Any],
    out_axes: Any,
) -> Any:
    """Run the function, and return its results with the axis of the examples."""
    stand_ins = [(x, x.array) for x in iter_leaves(args) if isinstance(x, Tensor)]
    with tracer.run_on_level():
        result = function(*args, **kwargs)
        lifted = map_tree(lambda y: None if y is None else _as_batched(y, tracer), result)
    for x, array in stand_ins:
        if x.array is not array:
            raise TracingError(
                f"vmap: the function assigns to elements of an argument, of shape {array.shape}, which the tensor of "
                "the caller would not show; return the new value instead"
            )
    return map_with_axes(
        lambda y, axis, where: None if y is None else _move_batch_axis(y, axis, where, tracer.size),
        lifted,
        out_axes,
        "the result",
        "out_axes",
    )


def _as_batched(y: Any, tracer: BatchTracer) -> BatchedArray:
    """Convert a result of the mapped function to an array of the tracer.

    Raises:
        ArgumentError: it does not convert to a tensor.
    """
    if not isinstance(y, Tensor):
        if not isinstance(y, bool | int | float | complex | np.ndarray | np.generic):
            raise ArgumentError(
                f"vmap: the function returned {short_repr(y)}; it must return tensors, numbers, None, or nested lists, "
                "tuples and dicts of these"
            )
        y = asarray(y)
    return tracer.wrap_outer_tensor((y if y.backend is tracer else tracer.lift(y)).array)


def _move_batch_axis(
    y: BatchedArray, axis: int | None, tree_path: str, example_count: int
) -> Tensor:
    """Return a result with the axis of the examples at `axis`.

    Raises:
        ArgumentValueError: it shall have none, but the examples differ.
        AxisError: it cannot have the axis.
    """
    x = y.tensor
    if axis is None:
        if y.is_batched:
            raise ArgumentValueError(
                f"vmap: {tree_path}, of shape {y.shape}, differs from example to example, so that out_axes=None has no "
                "place for it; give the axis along which its examples shall lie"
            )
        return x
    rank = len(y.shape) + 1
    if not -rank <= axis < rank:
        raise AxisError(
            f"vmap: out_axes={axis} is no axis of {tree_path}, which has shape {y.shape} without the examples"
        )
    if not y.is_batched:
        x = movement.reshape(x, shape=(1, *y.shape))
        x = movement.broadcast_to(x, shape=(example_count, *y.shape))
    return move_axis(x, 0, axis % rank)


def _concatenate_chunks(chunk_results: Sequence[Any], out_axes: Any) -> Any:
    """Concatenate the results of all chunks."""
    columns = iter(list(zip(*[list(iter_leaves(part)) for part in chunk_results], strict=True)))

    def concatenate_leaf(first_part: Any, axis: int | None, tree_path: str) -> Any:
        """Return the parts of one result, from all chunks, joined along an axis."""
        column = next(columns)
        return first_part if first_part is None or axis is None else concat(list(column), axis=axis)

    return map_with_axes(concatenate_leaf, chunk_results[0], out_axes, "the result", "out_axes")
