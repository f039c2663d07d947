"""`plugrad.cond` and `plugrad.while_loop` under `plugrad.vmap`, where examples may branch and loop differently."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from plugrad.engine.transfer import copy_to_backend
from plugrad.kernels import binary, movement, reduction
from plugrad.tensor.tensor import Tensor
from plugrad.tensor.tracer import current_tracer, recording_or_target_backend
from plugrad.tensor.trees import iter_tensors, map_tree
from plugrad.tracing.backend import GraphTracer
from plugrad.tracing.branches import trace_while
from plugrad.tracing.carries import (
    as_tensor_leaf,
    check_alternatives,
    check_carry,
    check_flag_spec,
    condition_to_bool,
    make_while_gradient_error,
    next_or_none,
)
from plugrad.transforms.batched_kernels import BatchedArray
from plugrad.transforms.batches import BatchTracer, SharedConstants

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence


def run_batched_cond(
    tracer: BatchTracer,
    flag: Tensor,
    yes: Callable[..., Any],
    no: Callable[..., Any],
    args: Sequence[Any],
) -> Any:
    """Return the results of `plugrad.cond` under `vmap`: both branches are computed if examples take different ones."""
    check_flag_spec(flag, "cond")
    flag = _as_scalar_flag(copy_to_backend(flag, tracer))
    if is_readable_flag(flag):
        return (yes if condition_to_bool(flag) else no)(*args)
    first, second = (map_tree(as_tensor_leaf, function(*args)) for function in (yes, no))
    results = [[*iter_tensors(tree)] for tree in (first, second)]
    check_alternatives(first, second, *results)
    chosen = iter(
        [
            binary.select(flag, *[copy_to_backend(x, tracer) for x in pair])
            for pair in zip(*results, strict=True)
        ]
    )
    return map_tree(lambda leaf: next_or_none(chosen, leaf), first)


def is_readable_flag(flag: Tensor) -> bool:
    """Return whether a flag is not traced and has the same value for all examples of every enclosing `vmap`."""
    while isinstance(flag.backend, BatchTracer):
        array: BatchedArray = flag.array
        if array.is_batched:
            return False
        flag = array.tensor
    return not isinstance(flag.backend, GraphTracer)


def _as_scalar_flag(flag: Tensor) -> Tensor:
    """Return a flag without axes, given one with a single element."""
    return movement.reshape(flag, shape=()) if flag.shape else flag


def run_batched_while(
    tracer: BatchTracer,
    go_on: Callable[[Any], Any],
    function: Callable[[Any], Any],
    carry: Any,
) -> Any:
    """Return the last carry of a loop that runs for each example until ``go_on(carry)`` is false."""
    carry = map_tree(lambda x: None if x is None else copy_to_backend(x, tracer), carry)
    if isinstance(recording_or_target_backend(), GraphTracer):
        return _record_batched_while(tracer, go_on, function, carry)
    while True:
        flag = go_on(carry)
        if not isinstance(flag, Tensor):
            if not condition_to_bool(flag):
                return carry
            carry = check_carry("while_loop", function(carry), carry)
            continue
        check_flag_spec(flag, "while_loop")
        flag = _as_scalar_flag(copy_to_backend(flag, tracer))
        if not _is_any_true(flag):
            return carry
        carry = _advance_where(flag, function, carry, tracer)


def _is_any_true(flag: Tensor) -> bool:
    """Return whether a flag is true for any example."""
    backend = flag.backend
    if not isinstance(backend, BatchTracer):
        return bool(flag)
    with backend.run_on_outer_level():
        held: Tensor = flag.array.tensor
        return _is_any_true(reduction.any(held, axis=tuple(range(held.ndim))))


def _advance_where(
    flag: Tensor, function: Callable[[Any], Any], carry: Any, tracer: BatchTracer
) -> Any:
    """Return the next carry for examples whose flag is true, and the current carry for the others."""
    following = check_carry("while_loop", function(carry), carry)
    old, new = iter_tensors(carry), iter_tensors(following)
    chosen = iter(
        [binary.select(flag, copy_to_backend(y, tracer), x) for x, y in zip(old, new, strict=True)]
    )
    return map_tree(lambda leaf: next_or_none(chosen, leaf), carry)


def _record_batched_while(
    tracer: BatchTracer,
    go_on: Callable[[Any], Any],
    function: Callable[[Any], Any],
    carry: Any,
) -> Any:
    """Return the final carry of a loop that the outer tracer records as one step."""

    def to_batch_level(outer_carry: Any) -> Any:
        """Return a carry of outer tensors as tensors of the batch level."""
        return map_tree(
            lambda x: None if x is None else Tensor(BatchedArray(x, is_batched=True), tracer),
            outer_carry,
        )

    def to_outer_level(tree: Any) -> Any:
        """Return a tree of tensors of the batch level as outer tensors."""
        return map_tree(lambda x: None if x is None else _spread_over_examples(x, tracer), tree)

    def compute_flags(carry: Any) -> Tensor:
        """Return whether each example goes on, as a bool tensor of the batch level."""
        flag = as_tensor_leaf(go_on(carry))
        check_flag_spec(flag, "while_loop")
        return _as_scalar_flag(copy_to_backend(flag, tracer))

    def is_any_example_running(outer_carry: Any) -> Tensor:
        """Return whether any example goes on, as an outer tensor: the condition of the outer loop."""
        with _run_in_body(tracer):
            flag = _spread_over_examples(compute_flags(to_batch_level(outer_carry)), tracer)
        return reduction.any(flag, axis=(0,))

    def advance_all_examples(outer_carry: Any) -> Any:
        """Return the next carry of all examples, as outer tensors."""
        with _run_in_body(tracer):
            carry = to_batch_level(outer_carry)
            following = _advance_where(compute_flags(carry), function, carry, tracer)
            _check_not_recorded(following)
            return to_outer_level(following)

    _check_not_recorded(carry)
    outer_carry = to_outer_level(carry)
    with tracer.run_on_outer_level():
        backend = tracer.outer
        if isinstance(backend, BatchTracer):
            last = run_batched_while(
                backend, is_any_example_running, advance_all_examples, outer_carry
            )
        else:
            assert isinstance(backend, GraphTracer)
            last = trace_while(backend, is_any_example_running, advance_all_examples, outer_carry)
    return to_batch_level(last)


@contextmanager
def _run_in_body(tracer: BatchTracer) -> Generator[None, None, None]:
    """Run the block on the level of a batch, with the loop body that is being traced as the level outside."""
    body = current_tracer()
    assert body is not None
    before = tracer.outer, tracer.constants
    tracer.outer, tracer.constants = body, SharedConstants(body)
    try:
        with tracer.run_on_level():
            yield
    finally:
        tracer.outer, tracer.constants = before


def _spread_over_examples(x: Tensor, tracer: BatchTracer) -> Tensor:
    """Return a tensor with an axis for the examples, repeated along it if they share it."""
    with tracer.run_on_outer_level():
        return tracer.with_batch_axis(copy_to_backend(x, tracer).array)


def _check_not_recorded(carry: Any) -> None:
    """Raise if a carry is on a tape.

    Raises:
        GradientNotFound: it is.
    """
    if any(x.node is not None for x in iter_tensors(carry)):
        raise make_while_gradient_error()
