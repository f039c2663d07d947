"""Loops and conditionals: plain Python while nothing is traced, one step of the graph inside a trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar

from plugrad.ops.attributes import check_flag
from plugrad.ops.creation import zeros
from plugrad.ops.movement import stack, unstack
from plugrad.tensor.tensor import Tensor
from plugrad.tensor.tracer import Tracer, current_tracer, recording_or_target_backend
from plugrad.tensor.trees import iter_tensors, map_tree
from plugrad.tracing.backend import GraphTracer
from plugrad.tracing.batched import run_batched_cond, run_batched_while
from plugrad.tracing.branches import trace_cond, trace_while
from plugrad.tracing.carries import (
    as_tensor_leaf,
    check_carry,
    check_flag_spec,
    check_iteration_result,
    condition_to_bool,
    count_iterations,
    next_or_none,
)
from plugrad.tracing.program import trace_with
from plugrad.tracing.scans import trace_scan
from plugrad.transforms.batches import BatchTracer
from plugrad.types.arguments import check_callable
from plugrad.types.specs import Shaped

if TYPE_CHECKING:
    from collections.abc import Callable

CarryType = TypeVar("CarryType")
ResultType = TypeVar("ResultType")


def scan(
    function: Callable[[CarryType, Any], tuple[CarryType, Any]],
    init: CarryType,
    xs: Any = None,
    length: int | None = None,
    *,
    reverse: bool = False,
) -> tuple[CarryType, Any]:
    """Return the final carry of a loop, and the stacked results of its iterations.

    >>> import plugrad
    >>> def add(total, x):
    ...     return total + x, total
    >>> plugrad.scan(add, plugrad.asarray(0.0), plugrad.asarray([1.0, 2.0, 3.0]))
    (tensor(6., dtype=float32), tensor([0., 1., 3.], dtype=float32))

    Each round calls ``function(carry, x)``, where `x` is the next slice of `xs` along its first axis. It returns the
    next carry and a result. Carry, slices and results are nested lists, tuples and dicts of tensors; None is an
    empty one. The carry keeps its structure, shapes and dtypes.

    While a function is traced with `jit`, the loop is one step of the graph, and `function` is traced once. The
    gradient keeps the carry of each round and computes everything else again.

    Args:
        function: what each round computes.
        init: the first carry.
        xs: tensors with equally long first axes, or None.
        length: the number of rounds; it is needed only without `xs`.
        reverse: whether the last slice comes first; results are stacked in the order of `xs` all the same.

    Raises:
        ArgumentError: `function` is not callable or does not return a pair, or neither `xs` nor `length` is given.
        ArgumentValueError: the first axes and `length` differ.
        ShapeError, DTypeError: the carry changes.
    """
    check_callable("scan", function)
    reverse = check_flag(reverse, "scan", "reverse")
    init, xs = map_tree(as_tensor_leaf, init), map_tree(as_tensor_leaf, xs)
    count = count_iterations(xs, length)
    tracer = current_tracer()
    if isinstance(tracer, GraphTracer) or _is_traced_batch(tracer):
        return trace_scan(tracer, function, init, xs, count, reverse)
    columns = [unstack(x) for x in iter_tensors(xs)] if count else []
    carry: Any = init
    results: list[Any] = [None] * count
    for index in range(count - 1, -1, -1) if reverse else range(count):
        slices = iter([column[index] for column in columns])
        x = map_tree(lambda leaf: next_or_none(slices, leaf), xs)  # noqa: B023 - it is called at once
        carry, results[index] = check_iteration_result(function(carry, x), init)
    if not count:
        return carry, _empty_results(function, init, xs)
    columns = zip(*[list(iter_tensors(result)) for result in results], strict=True)
    stacked = iter([stack(column) for column in columns])
    return carry, map_tree(lambda leaf: next_or_none(stacked, leaf), results[0])


def cond(
    flag: Tensor | bool, yes: Callable[..., ResultType], no: Callable[..., ResultType], *args: Any
) -> ResultType:
    """Return ``yes(*args)`` if a flag is true, otherwise ``no(*args)``.

    >>> import plugrad
    >>> halve = plugrad.jit(
    ...     lambda x: plugrad.cond(plugrad.sum(x) > 1, lambda x: x / 2, lambda x: x, x)
    ... )
    >>> halve(plugrad.asarray([1.0, 3.0])), halve(plugrad.asarray([0.25, 0.5]))
    (tensor([0.5, 1.5], dtype=float32), tensor([0.25, 0.5 ], dtype=float32))

    While a function is traced, both functions are traced, and the graph chooses one of them at each call. Their
    results must have the same structure, shapes and dtypes. Gradients flow through the function that is chosen.

    Where the flag differs from example to example under `vmap`, both functions run for all of them, and the results are
    chosen with `where`. If the function that is not chosen has no finite derivative, gradients are NaN as with `where`.

    Args:
        flag: a bool, or a bool tensor with one element.
        yes: what is called if the flag is true.
        no: what is called if it is false.
        args: the arguments of both: nested lists, tuples and dicts of tensors.

    Raises:
        ArgumentError: `yes` or `no` is not callable, or their results differ in their structure.
        ShapeError, DTypeError: the flag is not one bool, or the results differ.
    """
    check_callable("cond", yes)
    check_callable("cond", no)
    tracer = current_tracer()
    if isinstance(flag, Tensor) and isinstance(tracer, BatchTracer):
        return run_batched_cond(tracer, flag, yes, no, args)
    if not isinstance(flag, Tensor) or not isinstance(tracer, GraphTracer):
        return (yes if condition_to_bool(flag) else no)(*args)
    check_flag_spec(flag, "cond")
    return trace_cond(tracer, flag, yes, no, map_tree(as_tensor_leaf, args))


def while_loop(
    go_on: Callable[[CarryType], Any], function: Callable[[CarryType], CarryType], init: CarryType
) -> CarryType:
    """Return the final carry of a loop that runs while ``go_on(carry)`` is true.

    >>> import plugrad
    >>> plugrad.while_loop(lambda x: x < 100, lambda x: x * 2, plugrad.asarray(3))
    tensor(192, dtype=int32)

    The carry is a nested list, tuple or dict of tensors, and keeps its structure, shapes and dtypes. While a function
    is traced, the loop is one step of the graph. It then has no gradient, because the number of rounds is not known
    before it runs; use `scan` for loops that are differentiated. Under `vmap`, the loop runs until it ends for the last
    example, and the carry of the others stays.

    Args:
        go_on: returns a bool, or a bool tensor with one element.
        function: returns the next carry.
        init: the first carry.

    Raises:
        ArgumentError: a function is not callable, or the carry changes its structure.
        ShapeError, DTypeError: the carry changes, or `go_on` does not return one bool.
        GradientNotFound: a traced loop is differentiated.
    """
    check_callable("while_loop", go_on)
    check_callable("while_loop", function)
    carry: Any = map_tree(as_tensor_leaf, init)
    tracer = current_tracer()
    if isinstance(tracer, GraphTracer):
        return trace_while(tracer, go_on, function, carry)
    if isinstance(tracer, BatchTracer):
        return run_batched_while(tracer, go_on, function, carry)
    while condition_to_bool(go_on(carry)):
        carry = check_carry("while_loop", function(carry), carry)
    return carry


def _is_traced_batch(tracer: Tracer | None) -> TypeGuard[BatchTracer]:
    """Return whether a tracer is that of `vmap` inside a trace, where a loop is recorded as one step.

    Where all examples draw the same numbers, it is unrolled: further chunks of examples get what the first has drawn.
    """
    is_batch = isinstance(tracer, BatchTracer) and tracer.randomness != "same"
    return is_batch and isinstance(recording_or_target_backend(), GraphTracer)


def _empty_results(function: Callable[..., Any], init: Any, xs: Any) -> Any:
    """Return stacked results of zero iterations, whose shapes come from a trace of the function."""
    backend = next(iter_tensors((init, xs))).backend
    tracer = GraphTracer(backend)
    with trace_with(tracer):
        carry = map_tree(
            lambda x: _make_traced_like(tracer, x, None if x is None else x.shape), init
        )
        x = map_tree(lambda x: _make_traced_like(tracer, x, None if x is None else x.shape[1:]), xs)
        _, results = check_iteration_result(function(carry, x), init)
    return map_tree(
        lambda y: None if y is None else zeros((0, *y.shape), dtype=y.dtype, device=backend),
        results,
    )


def _make_traced_like(tracer: GraphTracer, x: Any, shape: Any) -> Any:
    """Return a traced tensor with a shape and the dtype of x; None for None."""
    return None if x is None else Tensor(tracer.new_value(Shaped(shape, x.dtype)), tracer)
