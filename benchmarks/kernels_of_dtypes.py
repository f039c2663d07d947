"""Cases of the kernel scan in other dtypes than float32: float64, halves and integers."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from cases import IMAGES, functional, torch

import plugrad

if TYPE_CHECKING:
    from collections.abc import Callable

    from cases import Cases


def make_plugrad_call(dtype: str, function: Callable[..., Any], *tensors: Any) -> Callable[[], Any]:
    """Return a call of a plugrad function on tensors of a dtype."""
    given = [x.astype(dtype) if x.dtype.kind == "floating" else x for x in tensors]
    return lambda: function(*given)


def make_torch_call(dtype: str, function: Callable[..., Any], *tensors: Any) -> Callable[[], Any]:
    """Return a call of a PyTorch function on tensors of a dtype, in the given memory format."""
    given = [x.to(getattr(torch, dtype)) if x.is_floating_point() else x for x in tensors]
    return lambda: function(*given)


def add_float_cases(dtype: str, cases: Cases) -> None:
    """Add the cases of a floating dtype; their arrays are float32, because NumPy lacks some dtypes."""

    def add(name: str, in_plugrad: Any, in_torch: Any, *inputs: Any, **options: Any) -> None:
        cases.add(
            f"{name} {dtype}",
            partial(make_plugrad_call, dtype, in_plugrad),
            partial(make_torch_call, dtype, in_torch),
            *inputs,
            is_prepared=True,
            **options,
        )

    x, y = cases.uniform(1_000_000, low=0.1, high=4), cases.uniform(1_000_000, low=0.1, high=4)
    rows = cases.uniform(1000, 1000)
    for name in ["exp", "tanh", "sqrt", "sigmoid", "relu", "gelu", "abs"]:
        home = torch if hasattr(torch, name) else functional
        add(name, getattr(plugrad, name), getattr(home, name, None), x)
    for in_plugrad, in_torch in (
        ("add", "add"),
        ("multiply", "mul"),
        ("divide", "div"),
        ("maximum",) * 2,
    ):
        add(in_plugrad, getattr(plugrad, in_plugrad), getattr(torch, in_torch, None), x, y)
    add("less", plugrad.less, torch and torch.lt, x, y)
    add("add a row", plugrad.add, torch and torch.add, rows, rows[0])
    add("add a block", plugrad.add, torch and torch.add, rows, rows)
    for axis in (0, 1):
        add(
            f"sum, axis {axis}",
            lambda x, a=axis: plugrad.sum(x, axis=a),
            lambda x, a=axis: x.sum(a),
            rows,
        )
    add("max, axis 1", lambda x: plugrad.max(x, axis=1), lambda x: x.amax(1), rows)
    add("softmax", plugrad.softmax, lambda x: torch.softmax(x, -1), rows)
    add(
        "layer_norm",
        plugrad.layer_norm,
        lambda x: functional.layer_norm(x, x.shape[-1:]),
        rows,
    )
    add("matmul", plugrad.matmul, torch and torch.matmul, *(cases.uniform(256, 256),) * 2)
    add("matmul of 8", plugrad.matmul, torch and torch.matmul, *(cases.uniform(8, 8),) * 2)
    add("transpose", lambda x: x.T + 0, lambda x: x.T + 0, rows)
    add("take rows", lambda x, i: x[i], lambda x, i: x[i], rows, cases.integers(1000, high=1000))
    add("sort", plugrad.sort, lambda x: torch.sort(x).values, rows)
    add("argmax, axis 1", lambda x: plugrad.argmax(x, axis=1), lambda x: x.argmax(1), rows)
    add("cumulative sum", lambda x: plugrad.cumulative_sum(x, axis=1), lambda x: x.cumsum(1), rows)
    images, filters = cases.uniform(8, 28, 28, 16), cases.uniform(3, 3, 16, 16) / 10
    images = np.ascontiguousarray(images)
    add(
        "conv2d",
        lambda x, w: plugrad.conv2d(x, w, padding="same"),
        lambda x, w: functional.conv2d(x, w, padding=1),
        images,
        filters,
        axes=(IMAGES, (3, 2, 0, 1)),
        out=IMAGES,
    )
    add(
        "max_pool",
        lambda x: plugrad.max_pool(x, 2),
        lambda x: functional.max_pool2d(x, 2),
        images,
        axes=(IMAGES,),
        out=IMAGES,
    )


def add_integer_cases(dtype: str, cases: Cases) -> None:
    """Add the cases of an integer dtype."""
    x, y = (cases.integers(1_000_000, high=60, dtype=dtype) for _ in range(2))
    rows = (
        x.reshape(-1, cases.axis_size(1000))
        if not cases.quick
        else cases.integers(24, 24, dtype=dtype)
    )

    def add(name: str, in_plugrad: Any, in_torch: Any, *inputs: Any) -> None:
        cases.add(f"{name} {dtype}", in_plugrad, in_torch, *inputs)

    for in_plugrad, in_torch in (
        ("add", "add"),
        ("multiply", "mul"),
        ("maximum",) * 2,
        ("less", "lt"),
    ):
        add(in_plugrad, getattr(plugrad, in_plugrad), getattr(torch, in_torch, None), x, y)
    add("remainder", plugrad.remainder, torch and torch.remainder, x, y + 1)
    add("floor_divide", plugrad.floor_divide, torch and torch.floor_divide, x, y + 1)
    add("bitwise_and", plugrad.bitwise_and, torch and torch.bitwise_and, x, y)
    add("where", plugrad.where, torch and torch.where, x > y, x, y)
    add("equal to a number", lambda x: x == 7, lambda x: x == 7, x)
    add("add a row", plugrad.add, torch and torch.add, rows, rows[0])
    for axis in (0, 1):
        add(f"max, axis {axis}", partial(plugrad.max, axis=axis), lambda x, a=axis: x.amax(a), rows)
    add(
        "sum, axis 1",
        lambda x: plugrad.sum(x, axis=1),
        lambda x: x.sum(1, dtype=torch.int32),
        rows.astype("i4"),
    )
    add("argmax, axis 1", lambda x: plugrad.argmax(x, axis=1), lambda x: x.argmax(1), rows)
    add("sort", plugrad.sort, lambda x: torch.sort(x).values, rows)
    add("argsort", plugrad.argsort, lambda x: torch.argsort(x, stable=True), rows)
    add("transpose", lambda x: x.T + 0, lambda x: x.T + 0, rows)
    add("flip", lambda x: plugrad.flip(x, axis=1) + 0, lambda x: torch.flip(x, [1]) + 0, rows)
    add("roll", lambda x: plugrad.roll(x, 1, axis=0), lambda x: torch.roll(x, 1, 0), rows)
    add("concat", lambda x: plugrad.concat([x, x], axis=1), lambda x: torch.cat([x, x], 1), rows)
    add("to float32", lambda x: x.astype(plugrad.float32), lambda x: x.float(), x)
    add("unique_values", plugrad.unique_values, torch and torch.unique, x)
    places = cases.integers(1000, high=1000)
    add("take rows", lambda x, i: x[i], lambda x, i: x[i], rows, places)


FAMILIES: Final[dict[str, Callable[[Cases], None]]] = {
    **{
        f"in {dtype}": partial(add_float_cases, dtype)
        for dtype in ("float64", "float16", "bfloat16")
    },
    **{f"in {dtype}": partial(add_integer_cases, dtype) for dtype in ("int32", "uint8")},
}
