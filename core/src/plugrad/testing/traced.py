"""Every row of the tables under `plugrad.jit`: what is replayed equals what runs untraced, bit for bit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from plugrad.errors import KernelNotFound, TracingError, UnsupportedDtype
from plugrad.ops.binary import multiply
from plugrad.ops.reduction import sum as total
from plugrad.ops.unary import cos, sin
from plugrad.testing.checks import (
    PRECISE,
    differentiated_inputs,
    is_differentiable,
    main_dtype,
    run,
    tensors_of,
)
from plugrad.tracing.jit import jit
from plugrad.transforms.gradients import grads

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from plugrad.tensor.backend import Backend
    from plugrad.tensor.tensor import Tensor
    from plugrad.testing.rows import Row


def check_traced(row: Row, backend: Backend) -> None:
    """Compare the values of a row, and its gradients to second order, traced and untraced.

    A kernel whose shape depends on values must say that it cannot be traced.
    """
    dtype = main_dtype(row, backend)
    given = tensors_of(row.drawn(dtype))
    places = [i for i, x in enumerate(given) if x is not None]

    def forward(*xs: Tensor) -> list[Tensor]:
        return run(row, _put(given, places, xs), dtype)

    present = [x for x in given if x is not None]
    if row.kernel.dynamic_shape:
        _check_refusal(lambda: jit(forward)(*present), str(row))
        return
    _compare(forward, present, f"{row} of {dtype}")
    if not is_differentiable(row):
        return
    dtype = next((d for d in PRECISE if d in row.runs_on and _stores(backend, row, d)), "")
    if not dtype:
        return
    given = tensors_of(row.drawn(dtype))
    places = differentiated_inputs(row)

    def sum_of_sines(*xs: Tensor) -> Tensor:
        before = row.before
        outputs = run(row, _put(given, places, xs if before is None else map(before, xs)), dtype)
        parts = [total(sin(y)) for y in outputs if y.dtype.is_inexact]
        return sum(parts[1:], parts[0])

    def second(*xs: Tensor) -> Tensor:
        parts = [total(multiply(g, cos(g))) for g in grads(sum_of_sines, allow_unused=True)(*xs)]
        return sum(parts[1:], parts[0])

    present = [x for i in places if (x := given[i]) is not None]
    first_order = grads(sum_of_sines, allow_unused=True)
    second_order = grads(second, allow_unused=True)
    _compare(first_order, present, f"the gradient of {row} of {dtype}")
    _compare(second_order, present, f"the second gradient of {row} of {dtype}")


def _stores(backend: Backend, row: Row, dtype: str) -> bool:
    return all(name in backend.dtypes() for name in row.needs(dtype))


def _put(given: Sequence[Any], places: Sequence[int], xs: Any) -> list[Any]:
    inputs = list(given)
    for i, x in zip(places, xs, strict=True):
        inputs[i] = x
    return inputs


def _compare(function: Callable[..., Any], args: Sequence[Tensor], where: str) -> None:
    try:
        untraced = list(function(*args))
    except (UnsupportedDtype, KernelNotFound):
        return  # the levels above check what a backend refuses
    traced = jit(function)
    for _ in range(2):
        for x, y in zip(traced(*args), untraced, strict=True):
            if x.numpy().tobytes() != y.numpy().tobytes() or x.dtype is not y.dtype:
                raise AssertionError(f"{where}: traced, it gives {x!r}; untraced, it gives {y!r}")


def _check_refusal(call: Callable[[], Any], where: str) -> None:
    try:
        call()
    except TracingError:
        return
    raise AssertionError(
        f"{where}: its shape depends on values, but it was traced without an error"
    )
