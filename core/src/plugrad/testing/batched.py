"""Checks of the tables' rows under `plugrad.vmap`: a batch of examples has the results of a loop over them."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from plugrad.errors import KernelNotFound, TracingError, UnsupportedDtype
from plugrad.ops.creation import asarray
from plugrad.testing.checks import (
    DOUBLE_PRECISION_DTYPES,
    curved_sum,
    differentiated_inputs,
    is_differentiable,
    main_dtype,
    run_row,
)
from plugrad.testing.comparison import assert_close, assert_equal
from plugrad.testing.rows import ROW_DTYPE, STRING_DTYPE
from plugrad.tracing.jit import jit
from plugrad.transforms.gradients import grads
from plugrad.transforms.vmap import vmap
from plugrad.types.bits import RELATIVE_TOLERANCE_OF_DTYPE
from plugrad.types.dtype import string

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from plugrad.tensor.backend import Backend
    from plugrad.tensor.tensor import Tensor
    from plugrad.testing.rows import Array, Row

EXAMPLE_COUNT = 3


def check_batched(
    row: Row, backend: Backend, *, exact_values: bool = False, exact_gradients: bool = False
) -> None:
    """Compare a batched row and its gradient with a loop over examples, for each input and for all.

    The gradient is computed in the batch, and once more traced. A kernel whose shape depends on values must say that
    it cannot be batched. What is exact equals the loop in all bits, else to the tolerance of the row.
    """
    dtype = main_dtype(row, backend)
    examples = _draw_examples(row, dtype)
    places = [i for i, x in enumerate(examples[0]) if x is not None]

    def forward(*xs: Tensor) -> list[Tensor]:
        return run_row(row, _replace_inputs(examples[0], places, xs), dtype)

    if not places:
        return
    if row.kernel.dynamic_shape:
        _check_refusal(lambda: vmap(forward)(*_stack_examples(examples, places, places)), str(row))
        return
    _compare_with_loop(forward, row, examples, places, f"{row} of {dtype}", exact_values)
    dtype = next(
        (
            d
            for d in DOUBLE_PRECISION_DTYPES
            if d in row.tested_dtypes and _stores_dtypes_of_row(backend, row, d)
        ),
        "",
    )
    if not dtype or not is_differentiable(row):
        return
    examples = _draw_examples(row, dtype)
    fixed = [i for i in places if i not in (inner := differentiated_inputs(row))]
    places = [*inner, *fixed]

    def gradient(*xs: Tensor) -> list[Tensor]:
        def objective(*ys: Tensor) -> Tensor:
            given = ys if row.prepare_input is None else map(row.prepare_input, ys)
            inputs = _replace_inputs(examples[0], places, (*given, *xs[len(inner) :]))
            return curved_sum(run_row(row, inputs, dtype))

        return list(grads(objective, allow_unused=True)(*xs[: len(inner)]))

    where = f"the gradient of {row} of {dtype}"
    untraced = _compare_with_loop(gradient, row, examples, places, where, exact_gradients)
    if untraced is not None:
        args = _stack_examples(examples, places, places)
        traced = _call_batched(jit(vmap(gradient)), args, row)
        for x, y in zip(traced, untraced, strict=True):
            _check_close(x, y.numpy(), row, f"{where}, traced", exact_gradients)


def _stores_dtypes_of_row(backend: Backend, row: Row, dtype: str) -> bool:
    return all(name in backend.dtypes() for name in row.required_dtypes(dtype))


def _draw_examples(row: Row, dtype: str) -> list[list[Array | None]]:
    """Draw the inputs of several examples."""
    generators = [np.random.default_rng(seed) for seed in range(20240229, 20240229 + EXAMPLE_COUNT)]
    return [
        [x and x.draw(rng, x.shape, dtype if x.dtype == ROW_DTYPE else x.dtype) for x in row.inputs]
        for rng in generators
    ]


def _replace_inputs(
    inputs: Sequence[Any], positions: Sequence[int], replacements: Any
) -> list[Any]:
    inputs = list(inputs)
    for i, x in zip(positions, replacements, strict=True):
        inputs[i] = x
    return inputs


def _stack_examples(
    examples: Sequence[Sequence[Any]], places: Sequence[int], batched: Sequence[int]
) -> list[Tensor]:
    """Return the inputs at `places`, with the examples stacked along the first axis for batched ones."""
    return [
        asarray(np.stack([example[i] for example in examples]) if i in batched else examples[0][i])
        for i in places
    ]


def _compare_with_loop(
    function: Callable[..., list[Tensor]],
    row: Row,
    examples: Sequence[Sequence[Any]],
    places: Sequence[int],
    where: str,
    is_exact: bool,
) -> list[Tensor] | None:
    """Compare a function batched over each of its inputs, and over all, with a loop over examples.

    Returns:
        the outputs for all inputs batched, or None if the backend does not run the function.
    """

    def run_example(example: Sequence[Any], batched: Sequence[int]) -> list[Array]:
        inputs = [asarray((example if i in batched else examples[0])[i]) for i in places]
        return [x.numpy() for x in function(*inputs)]

    first: list[Array] | None = None  # is the same whatever is batched
    together: list[Tensor] = []
    for batched in [[i] for i in places] + [list(places)] * (len(places) > 1):
        args = _stack_examples(examples, places, batched)
        axes = tuple([0 if i in batched else None for i in places])
        try:
            first = first or run_example(examples[0], batched)
            singly = [first, *(run_example(example, batched) for example in examples[1:])]
        except (UnsupportedDtype, KernelNotFound):
            return None  # the levels above check what a backend refuses
        together = _call_batched(vmap(function, in_axes=axes), args, row)
        for output, parts in zip(together, zip(*singly, strict=True), strict=True):
            expected = np.stack(parts)
            _check_close(output, expected, row, f"{where}, {axes}", is_exact)
    return together


def _call_batched(function: Callable[..., Any], args: Sequence[Tensor], row: Row) -> list[Tensor]:
    """Call a batched function; a warning that a kernel loops must have a declared reason."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "vmap: ")
        # Only a warning without a reason goes on to say how to give the kernel a rule.
        warnings.filterwarnings("ignore", "vmap: .* runs once for each of [0-9]+ examples$")
        return function(*args)


def _check_close(x: Tensor, expected: Array, row: Row, where: str, is_exact: bool) -> None:
    """Raise unless x has the shape and dtype of `expected`, and its values within the row's tolerance."""
    found = x.numpy()
    if found.shape != expected.shape or found.dtype != expected.dtype:
        raise AssertionError(
            f"{where}: {found.dtype}{found.shape} instead of {expected.dtype}{expected.shape}"
        )
    if x.dtype is string:
        assert_equal(found.astype(STRING_DTYPE), expected.astype(STRING_DTYPE), where)
        return
    tolerance = (
        0
        if is_exact
        else 2 * row.tolerance_factor * RELATIVE_TOLERANCE_OF_DTYPE.get(str(x.dtype), 0)
    )
    largest = np.max(np.abs(expected[np.isfinite(expected)]), initial=1) if tolerance else 1
    assert_close(found, expected, tolerance, tolerance * largest, where)


def _check_refusal(call: Callable[[], Any], where: str) -> None:
    try:
        call()
    except TracingError:
        return
    raise AssertionError(
        f"{where}: its shape depends on values, but it was batched without an error"
    )
