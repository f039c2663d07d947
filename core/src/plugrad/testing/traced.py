"""Checks of the tables' rows under `plugrad.jit`: traced and untraced results have the same bits, except NaN's."""

from __future__ import annotations

import itertools
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from plugrad.errors import KernelNotFound, UnsupportedDtype
from plugrad.ops.binary import multiply
from plugrad.ops.creation import asarray
from plugrad.ops.linalg import matmul
from plugrad.ops.reduction import sum as total
from plugrad.ops.unary import cos, sin
from plugrad.optimizers import Adam
from plugrad.random import normal, seed, uniform
from plugrad.testing.checks import (
    NotClaimed,
    as_tensors,
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
from plugrad.tracing.control_flow import cond, scan, while_loop
from plugrad.tracing.jit import jit
from plugrad.transforms.gradients import grad, grads
from plugrad.transforms.variable import Variable
from plugrad.types.bits import comparable_bits

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from plugrad.tensor.backend import Backend
    from plugrad.tensor.tensor import Tensor
    from plugrad.testing.rows import Row


def check_traced(row: Row, backend: Backend) -> None:
    """Compare the values of a row on a backend, and its gradients to second order, traced and untraced.

    A kernel whose shape depends on values must say that it cannot be traced.

    Raises:
        NotClaimed: the backend does not compute it.
        AssertionError: a bit differs.
    """
    dtype = main_dtype(row, backend)
    given = as_tensors(row.draw_inputs(dtype))
    places = [i for i, x in enumerate(given) if x is not None]

    def forward(*xs: Tensor) -> list[Tensor]:
        return run_row(row, replace_inputs(given, places, xs), dtype)

    present = [x for x in given if x is not None]
    if row.kernel.dynamic_shape:
        check_refusal(lambda: jit(forward)(*present), f"{row}, traced")
        return
    _compare_traced_and_untraced(forward, present, f"{row} of {dtype}")
    if not is_differentiable(row):
        return
    dtype = gradient_dtype(row, backend)
    if not dtype:
        return
    given = as_tensors(row.draw_inputs(dtype))
    places = differentiated_inputs(row)

    def objective(*xs: Tensor) -> Tensor:
        before = row.prepare_input
        outputs = run_row(
            row, replace_inputs(given, places, xs if before is None else map(before, xs)), dtype
        )
        return curved_sum(outputs)

    def second_objective(*xs: Tensor) -> Tensor:
        return curved_sum(first_order(*xs))

    present = [x for i in places if (x := given[i]) is not None]
    first_order = grads(objective, allow_unused=True)
    second_order = grads(second_objective, allow_unused=True)
    with suppress(NotClaimed):
        _compare_traced_and_untraced(first_order, present, f"the gradient of {row} of {dtype}")
        _compare_traced_and_untraced(
            second_order, present, f"the second gradient of {row} of {dtype}"
        )


def _compare_traced_and_untraced(
    function: Callable[..., Any], args: Sequence[Tensor], label: str
) -> None:
    """Raise an error that names `label` unless two traced calls of a function give the bits of an untraced one."""
    try:
        untraced = list(function(*args))
    except (
        UnsupportedDtype,
        KernelNotFound,
    ) as refusal:  # other levels check what a backend refuses
        raise NotClaimed(str(refusal)) from None
    traced = jit(function)
    calls = [list(traced(*args)) for _ in range(2)]
    _check_same(calls, untraced, label)


def _check_same(calls: Sequence[Sequence[Tensor]], untraced: Sequence[Tensor], label: str) -> None:
    """Raise an error that names `label` unless traced calls have the bits, dtypes and shapes of the untraced one."""
    values = iter(read_values([*untraced, *(x for outputs in calls for x in outputs)]))
    expected = list(itertools.islice(values, len(untraced)))
    for outputs in calls:
        for y, wanted, given in zip(expected, untraced, outputs, strict=True):
            x = next(values)
            if (x.shape, x.dtype) != (y.shape, y.dtype) or comparable_bits(x) != comparable_bits(y):
                raise AssertionError(
                    f"{label}: traced, it gives {given!r}; untraced, it gives {wanted!r}"
                )


# --- programs that are more than one kernel ------------------------------------------------------


def check_program(program_name: str) -> None:
    """Compare three calls of a program, traced and untraced, from the same state and the same seed.

    Raises:
        AssertionError: a bit differs.
    """
    found: list[list[Tensor]] = []
    for is_traced in (False, True):
        program = TRACED_PROGRAMS[program_name]()
        step = jit(program) if is_traced else program
        seed(7)
        x = asarray(np.array([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]], "float32"))
        found.append([y for _ in range(3) for y in step(x)])
    _check_same(found[1:], found[0], f"the program {program_name!r}")


TracedProgram: TypeAlias = "Callable[[Tensor], Sequence[Tensor]]"
"""A function of one tensor that returns several."""


def _make_loop_program() -> TracedProgram:
    """Return a loop with a result for each round, and its gradient."""

    def last_and_sum(x: Tensor) -> Tensor:
        last, results = scan(lambda c, row: (sin(c + row), multiply(c, row)), x[0], x)
        return total(last) + total(results)

    return lambda x: [last_and_sum(x), grad(last_and_sum)(x)]


def _make_cond_program() -> TracedProgram:
    """Return a program with a conditional, and its gradient."""

    def sine_or_cosine(x: Tensor) -> Tensor:
        return total(cond(total(x) > 0, sin, cos, x))

    return lambda x: [
        sine_or_cosine(x),
        sine_or_cosine(-x),
        grad(sine_or_cosine)(x),
        grad(sine_or_cosine)(-x),
    ]


def _make_while_program() -> TracedProgram:
    """Return a program with a loop that ends depending on values."""
    return lambda x: [while_loop(lambda y: total(y) < 50, lambda y: y * 2, x * x)]


def _make_training_program() -> TracedProgram:
    """Return a training step with noise and a rate schedule, which also exchanges two variables' values."""
    weights = Variable(np.linspace(-1, 1, 6, dtype="float32").reshape(3, 2))
    one, other = Variable(np.float32(1)), Variable(np.float32(2))
    optimizer = Adam(lambda step: 0.1 / (1 + step))

    def step(x: Tensor) -> list[Tensor]:
        noisy = x + normal(x.shape)
        loss = optimizer.minimize(lambda: total(sin(matmul(noisy, weights))), [weights])
        before = +one
        one.assign(other * 2)
        other.assign(before)
        return [loss, +weights, +one, +other, uniform((2,))]

    return step


TRACED_PROGRAMS: Final = {
    "loop": _make_loop_program,
    "choice": _make_cond_program,
    "unknown_rounds": _make_while_program,
    "training": _make_training_program,
}
"""By name, functions that return a program of one tensor, with variables of its own."""
