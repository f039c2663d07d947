"""Checks of the tables' rows under `plugrad.vmap`: a batch of examples has the results of a loop over them."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from plugrad.errors import KernelNotFound, UnsupportedDtype
from plugrad.ops.creation import asarray
from plugrad.testing.checks import (
    check_refusal,
    curved_sum,
    differentiated_inputs,
    gradient_dtype,
    is_differentiable,
    main_dtype,
    read_values,
    replace_inputs,
    run_row,
)
from plugrad.testing.comparison import assert_close, assert_equal
from plugrad.testing.rows import ROW_DTYPE, STRING_DTYPE
from plugrad.tracing.jit import jit
from plugrad.transforms.gradients import grads
from plugrad.transforms.vmap import vmap
from plugrad.types.bits import RELATIVE_TOLERANCE_OF_DTYPE
from plugrad.types.dtype import as_dtype, string

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from plugrad.tensor.backend import Backend
    from plugrad.tensor.tensor import Tensor
    from plugrad.testing.rows import Array, Row

EXAMPLE_COUNT = 3
"""How many examples a batch has."""


def check_batched(
    row: Row, backend: Backend, *, is_value_exact: bool = False, is_gradient_exact: bool = False
) -> None:
    """Compare a batched row and its gradient, on a backend, with a loop over examples, for each input and for all.

    The gradient is computed in the batch, and once more traced. A kernel whose shape depends on values must say that
    it cannot be batched. What is exact equals the loop in all bits, else to the tolerance of the row.
    """
    dtype = main_dtype(row, backend)
    examples = _draw_examples(row, dtype)
    positions = [i for i, x in enumerate(examples[0]) if x is not None]

    def forward(*xs: Tensor) -> list[Tensor]:
        return run_row(row, replace_inputs(examples[0], positions, xs), dtype)

    if not positions:
        return
    if row.kernel.dynamic_shape:
        stacks = _stack_examples(examples, positions, positions)
        check_refusal(lambda: vmap(forward)(*stacks), f"{row}, batched")
        return
    _compare_with_loop(forward, row, examples, positions, f"{row} of {dtype}", is_value_exact)
    dtype = gradient_dtype(row, backend)
    if not dtype or not is_differentiable(row):
        return
    examples = _draw_examples(row, dtype)
    fixed = [i for i in positions if i not in (inner := differentiated_inputs(row))]
    positions = [*inner, *fixed]

    def gradient(*xs: Tensor) -> list[Tensor]:
        def objective(*ys: Tensor) -> Tensor:
            given = ys if row.prepare_input is None else map(row.prepare_input, ys)
            inputs = replace_inputs(examples[0], positions, (*given, *xs[len(inner) :]))
            return curved_sum(run_row(row, inputs, dtype))

        return list(grads(objective, allow_unused=True)(*xs[: len(inner)]))

    label = f"the gradient of {row} of {dtype}"
    untraced = _compare_with_loop(gradient, row, examples, positions, label, is_gradient_exact)
    if untraced is not None:
        args = _stack_examples(examples, positions, positions)
        traced = read_values(_call_batched(jit(vmap(gradient)), args, row))
        _check_close(traced, untraced, row, f"{label}, traced", is_gradient_exact)


def _draw_examples(row: Row, dtype: str) -> list[list[Array | None]]:
    """Draw the inputs of several examples."""
    generators = [np.random.default_rng(seed) for seed in range(20240229, 20240229 + EXAMPLE_COUNT)]
    return [
        [x and x.draw(rng, x.shape, dtype if x.dtype == ROW_DTYPE else x.dtype) for x in row.inputs]
        for rng in generators
    ]


def _stack_examples(
    examples: Sequence[Sequence[Any]], positions: Sequence[int], batched_positions: Sequence[int]
) -> list[Tensor]:
    """Return the inputs at `positions`; those at `batched_positions` are stacks of all examples."""
    return [
        asarray(
            np.stack([example[i] for example in examples])
            if i in batched_positions
            else examples[0][i]
        )
        for i in positions
    ]


def _compare_with_loop(
    function: Callable[..., list[Tensor]],
    row: Row,
    examples: Sequence[Sequence[Any]],
    positions: Sequence[int],
    label: str,
    is_exact: bool,
) -> list[Array] | None:
    """Compare a function batched over each of its inputs, and over all, with a loop; errors name `label`.

    Nothing is read before all is computed, so that an asynchronous device is not waited for in between.

    Returns:
        the values for all inputs batched, or None if the backend does not run the function.
    """
    choices = [[i] for i in positions] + [list(positions)] * (len(positions) > 1)
    try:
        inputs = [{i: asarray(example[i]) for i in positions} for example in examples]
        first = function(*inputs[0].values())  # is the same whatever is batched
        singly = [
            function(*[(own if i in batched else inputs[0])[i] for i in positions])
            for batched in choices
            for own in inputs[1:]
        ]
    except (UnsupportedDtype, KernelNotFound):
        return None  # the levels above check what a backend refuses
    together: list[list[Tensor]] = []
    for batched in choices:
        args = _stack_examples(examples, positions, batched)
        axes = tuple([0 if i in batched else None for i in positions])
        together.append(_call_batched(vmap(function, in_axes=axes), args, row))
    every = [*together, first, *singly]
    values = iter(read_values([x for outputs in every for x in outputs]))
    read = [[next(values) for _ in outputs] for outputs in every]
    found, first_values, others = read[: len(choices)], read[len(choices)], read[len(choices) + 1 :]
    for number, batched in enumerate(choices):
        loop = [first_values, *others[number * len(inputs[1:]) :][: len(inputs[1:])]]
        expected = [np.stack(parts) for parts in zip(*loop, strict=True)]
        _check_close(found[number], expected, row, f"{label}, inputs {batched} batched", is_exact)
    return found[-1]


def _call_batched(function: Callable[..., Any], args: Sequence[Tensor], row: Row) -> list[Tensor]:
    """Call a batched function with the inputs of a row; a warning that a kernel loops must have a declared reason."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "vmap: ")
        # Only a warning without a reason goes on to say how to give the kernel a rule.
        warnings.filterwarnings("ignore", "vmap: .* runs once for each of [0-9]+ examples$")
        return function(*args)


def _check_close(
    outputs: Sequence[Array], expected: Sequence[Array], row: Row, label: str, is_exact: bool
) -> None:
    """Raise an error that names `label` unless outputs are close to the expected ones, or equal if `is_exact`."""
    for output, expected_output in zip(outputs, expected, strict=True):
        if output.shape != expected_output.shape or output.dtype != expected_output.dtype:
            raise AssertionError(
                f"{label}: {output.dtype}{output.shape} instead of {expected_output.dtype}{expected_output.shape}"
            )
        dtype = as_dtype(output.dtype)
        if dtype is string:
            assert_equal(output.astype(STRING_DTYPE), expected_output.astype(STRING_DTYPE), label)
            continue
        tolerance = (
            0
            if is_exact
            else 2 * row.tolerance_factor * RELATIVE_TOLERANCE_OF_DTYPE.get(str(dtype), 0)
        )
        largest = (
            np.max(np.abs(expected_output[np.isfinite(expected_output)]), initial=1)
            if tolerance
            else 1
        )
        assert_close(output, expected_output, tolerance, tolerance * largest, label)
