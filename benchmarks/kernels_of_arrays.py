"""Cases of the kernel scan: arithmetic, reductions, moving and finding elements, at realistic sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from cases import IMAGES, functional, torch

import plugrad
from plugrad import random

if TYPE_CHECKING:
    from collections.abc import Callable

    from cases import Cases


def add_unary_cases(cases: Cases) -> None:
    """Add the cases of functions of one tensor."""
    x, positive = (
        cases.uniform(1_000_000, low=-3, high=3),
        cases.uniform(1_000_000, low=0.01, high=50),
    )
    cases.add_same_names("abs negative square sin cos tanh exp", x, gradient_positions=[0])
    cases.add_same_names("sign floor round tan sinh cosh asinh expm1 isnan isfinite", x)
    cases.add_same_names("sqrt rsqrt reciprocal log log1p", positive + 1, gradient_positions=[0])
    cases.add_same_names("log2 log10 acosh", positive + 1)
    cases.add_same_names("asin acos atanh atan", x / 4)
    cases.add("erf", plugrad.erf, torch and torch.special.erf, x, gradient_positions=[0])
    cases.add("erf float64", plugrad.erf, torch and torch.special.erf, x.astype("d"))
    cases.add_same_names("exp log tanh sqrt", positive.astype("d"))
    cases.add_same_names("exp tanh", cases.uniform(10_000), gradient_positions=[0])
    cases.add_same_names("exp sqrt abs", cases.complex(100_000))
    cases.add_same_names("exp abs", x.astype("f2"))
    for source, target in (
        *(("uint8", "float32"), ("float32", "uint8"), ("float32", "int32"), ("int32", "float32")),
        *(("bool", "float32"), ("float32", "float64"), ("float32", "float16"), ("int64", "int32")),
        ("float16", "float32"),
    ):
        values = cases.integers(1_000_000, high=2 if source == "bool" else 100).astype(source)
        cases.add(
            f"{source} to {target}",
            lambda x, t=target: plugrad.astype(x, t),
            lambda x, t=target: x.to(getattr(torch, t)),
            values,
        )


def add_activation_cases(cases: Cases) -> None:
    """Add the cases of activations."""
    x = cases.uniform(1_000_000, low=-3, high=3)
    cases.add_same_names("relu relu6 sigmoid gelu elu softplus selu", x, gradient_positions=[0])
    cases.add(
        "leaky_relu",
        plugrad.leaky_relu,
        lambda x: functional.leaky_relu(x, 0.2),
        x,
        gradient_positions=[0],
    )
    cases.add_same_names("relu sigmoid gelu", cases.uniform(64, 256), gradient_positions=[0])
    cases.add(
        "gelu by tanh",
        lambda x: plugrad.gelu(x, approximate=True),
        lambda x: functional.gelu(x, approximate="tanh"),
        x,
        gradient_positions=[0],
    )
    cases.add(
        "log_sigmoid",
        plugrad.log_sigmoid,
        functional and functional.logsigmoid,
        x,
        gradient_positions=[0],
    )
    rows, alpha = (
        x.reshape(-1, cases.axis_size(100)) if not cases.quick else cases.uniform(24, 24),
        None,
    )
    alpha = cases.uniform(rows.shape[1], low=0.1)
    cases.add(
        "prelu",
        plugrad.prelu,
        functional and functional.prelu,
        rows,
        alpha,
        gradient_positions=[0, 1],
    )
    table, row = cases.uniform(1000, 1000), cases.uniform(1000)
    cases.add(
        "gelu(x * w + b)",
        lambda x, w, b: plugrad.gelu(x * w + b),
        lambda x, w, b: functional.gelu(x * w + b),
        table,
        row,
        row,
    )
    cases.add_same_names("silu", x, gradient_positions=[0])
    cases.add(
        "dropout",
        lambda x: plugrad.dropout(x, 0.5),
        lambda x: functional.dropout(x, 0.5),
        x,
        is_random=True,
    )


def add_binary_cases(cases: Cases) -> None:
    """Add the cases of functions of two tensors."""
    a, b = cases.uniform(1_000_000, low=0.1, high=4), cases.uniform(1_000_000, low=-2, high=2)
    cases.add_same_names(
        "add subtract multiply divide maximum atan2 hypot", a, b, gradient_positions=[0, 1]
    )
    cases.add_same_names("less equal logaddexp remainder floor_divide pow", a, b)
    cases.add_same_names(
        "add multiply", cases.uniform(8), cases.uniform(8), gradient_positions=[0, 1]
    )
    cases.add_same_names("add multiply", cases.uniform(100, 100), cases.uniform(100, 100))
    for exponent in (2, 3, 2.5, -1):
        base = a if exponent == 2.5 else b
        cases.add(f"x ** {exponent}", lambda x, n=exponent: x**n, lambda x, n=exponent: x**n, base)
    cases.add("x ** 3 with gradient", lambda x: x**3, lambda x: x**3, b, gradient_positions=[0])
    cases.add("a number", lambda x: x * 2.5 + 1, lambda x: x * 2.5 + 1, a, gradient_positions=[0])
    cases.add("squared difference", plugrad.squared_difference, lambda a, b: (a - b) ** 2, a, b)
    cases.add("where", plugrad.where, torch and torch.where, b > 0, a, b, gradient_positions=[1, 2])
    cases.add(
        "clip",
        lambda x: plugrad.clip(x, -1, 1),
        lambda x: torch.clip(x, -1, 1),
        b,
        gradient_positions=[0],
    )
    table = cases.uniform(1000, 1000)
    cases.add(
        "add a row", plugrad.add, torch and torch.add, table, table[0], gradient_positions=[0, 1]
    )
    cases.add(
        "multiply a column",
        plugrad.multiply,
        torch and torch.mul,
        table,
        table[:, :1],
        gradient_positions=[0, 1],
    )
    cases.add_same_names("add multiply pow", a.astype("d"), b.astype("d"))
    cases.add_same_names("add multiply", a.astype("f2"), b.astype("f2"))
    m, n = cases.integers(1_000_000), cases.integers(1_000_000) + 1
    cases.add_same_names(
        "add multiply floor_divide less bitwise_and bitwise_left_shift", m, n % 8 + 1
    )
    cases.add_same_names("add less", m.astype("q"), n.astype("q"))
    cases.add_same_names("add maximum", m.astype("u1"), n.astype("u1"))
    cases.add_same_names("logical_and", m > 50, n > 50)
    cases.add_same_names("add multiply divide", cases.complex(100_000), cases.complex(100_000))


def add_reduction_cases(cases: Cases) -> None:
    """Add the cases of reductions."""
    x = cases.uniform(1000, 1000)
    for name in ("sum", "mean", "max", "prod"):
        in_plugrad, in_torch = (
            getattr(plugrad, name),
            getattr(torch, {"max": "amax"}.get(name, name), None),
        )
        cases.add(
            name,
            in_plugrad,
            torch and getattr(torch, name),
            x,
            gradient_positions=[0] if name != "prod" else None,
        )
        for axis in (0, 1):
            cases.add(
                f"{name}, axis {axis}",
                lambda x, f=in_plugrad, a=axis: f(x, axis=a),
                lambda x, f=in_torch, a=axis: f(x, a),
                x,
                gradient_positions=[0] if name in ("sum", "max") else None,
            )
    cases.add_same_names("sum", cases.uniform(8))
    cases.add(
        "argmax, axis 1", lambda x: plugrad.argmax(x, axis=1), lambda x: torch.argmax(x, 1), x
    )
    cases.add(
        "argmin, axis 0", lambda x: plugrad.argmin(x, axis=0), lambda x: torch.argmin(x, 0), x
    )
    cases.add_same_names("any all", x > 0.999)
    cases.add(
        "sum, axis 1 float64", lambda x: plugrad.sum(x, axis=1), lambda x: x.sum(1), x.astype("d")
    )
    cases.add_same_names("sum", cases.integers(1000, 1000))
    cases.add_same_names("max", cases.integers(1000, 1000, dtype="u1"))
    cases.add(
        "std, axis 1",
        lambda x: plugrad.std(x, axis=1),
        lambda x: torch.std(x, 1, correction=0),
        x,
        gradient_positions=[0],
    )
    cases.add(
        "log_sum_exp",
        lambda x: plugrad.log_sum_exp(x, axis=1),
        lambda x: torch.logsumexp(x, 1),
        x,
        gradient_positions=[0],
    )
    cases.add(
        "bincount",
        lambda x: plugrad.bincount(x, size=100),
        lambda x: torch.bincount(x, minlength=100),
        cases.integers(1_000_000),
    )


def add_scan_cases(cases: Cases) -> None:
    """Add the cases of cumulative sums and products."""
    x = cases.uniform(1000, 1000, low=0.99, high=1.01)
    for axis in (0, 1):
        for name, in_torch in (("sum", "cumsum"), ("prod", "cumprod")):
            in_plugrad = getattr(plugrad, f"cumulative_{name}")
            cases.add(
                f"cumulative {name}, axis {axis}",
                lambda x, f=in_plugrad, a=axis: f(x, axis=a),
                lambda x, f=in_torch, a=axis: getattr(torch, f)(x, a),
                x,
                gradient_positions=[0] if name == "sum" else None,
            )


def add_sorting_cases(cases: Cases) -> None:
    """Add the cases of sorting and searching."""
    x = cases.uniform(1000, 1000)
    x = np.argsort(x.reshape(-1)).reshape(x.shape).astype("f4")  # different numbers
    cases.add("sort", plugrad.sort, lambda x: torch.sort(x).values, x, gradient_positions=[0])
    cases.add("argsort", plugrad.argsort, torch and torch.argsort, x)
    cases.add("sort of a million", plugrad.sort, lambda x: torch.sort(x).values, x.reshape(-1))
    for k in (1, 10, 100):
        k = cases.axis_size(k)
        cases.add(
            f"top {k} of 1000",
            lambda x, k=k: plugrad.top_k(x, k)[0],
            lambda x, k=k: torch.topk(x, k)[0],
            x,
            gradient_positions=[0] if k == 10 else None,
        )
    cases.add(
        "searchsorted",
        plugrad.searchsorted,
        torch and torch.searchsorted,
        np.sort(x[0]),
        x[:100].reshape(-1),
    )
    cases.add(
        "unique_values",
        plugrad.unique_values,
        torch and torch.unique,
        cases.integers(1_000_000, high=1000),
    )


def add_movement_cases(cases: Cases) -> None:
    """Add the cases of ops that move elements."""
    x, pixels, n = cases.uniform(1000, 1000), cases.uniform(8, 56, 56, 32), cases.axis_size
    for dtype in ("f4", "u1", "d"):
        suffix = {"f4": "", "u1": " uint8", "d": " float64"}[dtype]
        cases.add(
            f"transpose{suffix}",
            lambda x: plugrad.permute_dims(x, (1, 0)),
            lambda x: x.t().contiguous(),
            x.astype(dtype),
        )
    for name, axes, values in (
        ("channels first", (0, 3, 1, 2), pixels),
        ("heads first", (0, 2, 1, 3), cases.uniform(8, 128, 12, 64)),
    ):
        cases.add(
            name,
            lambda x, a=axes: plugrad.permute_dims(x, a),
            lambda x, a=axes: x.permute(a).contiguous(),
            values,
        )
    for axis in (0, 1):
        cases.add(
            f"concat, axis {axis}",
            lambda a, b, axis=axis: plugrad.concat([a, b], axis=axis),
            lambda a, b, axis=axis: torch.cat([a, b], axis),
            x,
            x,
            gradient_positions=[0, 1],
        )
    cases.add("stack", lambda a, b: plugrad.stack([a, b]), lambda a, b: torch.stack([a, b]), x, x)
    inner = slice(n(100) // 10, n(100) // 10 * 8)
    cases.add(
        "slice",
        lambda x: x[inner, inner],
        lambda x: x[inner, inner].contiguous(),
        x,
        gradient_positions=[0],
    )
    cases.add("strided slice", lambda x: x[::2, ::3], lambda x: x[::2, ::3].contiguous(), x)
    cases.add("x[3]", lambda x: x[3], lambda x: x[3].contiguous(), x)
    cases.add("x[3] of 8", lambda x: x[3], lambda x: x[3], cases.uniform(8))
    cases.add(
        "reshape of 8", lambda x: x.reshape(2, 4), lambda x: x.reshape(2, 4), cases.uniform(8)
    )
    cases.add("flip", lambda x: plugrad.flip(x, axis=1), lambda x: torch.flip(x, [1]), x)
    cases.add("roll", lambda x: plugrad.roll(x, 5, axis=1), lambda x: torch.roll(x, 5, 1), x)
    borders = [[0, 0], [1, 1], [1, 1], [0, 0]]
    cases.add(
        "pad",
        lambda x: plugrad.pad(x, borders),
        lambda x: functional.pad(x, (0, 0, 1, 1, 1, 1)),
        pixels,
        gradient_positions=[0],
    )
    cases.add(
        "mirror_pad",
        lambda x: plugrad.mirror_pad(x, borders, "reflect"),
        lambda x: functional.pad(x, (1, 1, 1, 1), mode="reflect"),
        pixels,
        axes=(IMAGES,),
        out=IMAGES,
    )
    cases.add(
        "tile",
        lambda x: plugrad.tile(x, [2, 2]),
        lambda x: x.tile(2, 2),
        cases.uniform(500, 500),
        gradient_positions=[0],
    )
    cases.add(
        "repeat", lambda x: plugrad.repeat(x, 2, axis=1), lambda x: x.repeat_interleave(2, 1), x
    )
    cases.add(
        "broadcast_to",
        lambda x: plugrad.broadcast_to(x, (n(1000), n(1000))) + 0,
        lambda x: x.expand(n(1000), n(1000)) + 0,
        x[0],
    )
    cases.add("tril", plugrad.tril, torch and torch.tril, x)
    cases.add(
        "depth_to_space",
        lambda x: plugrad.depth_to_space(x, 2),
        lambda x: (
            torch.stack([x])
            .view(*x.shape[:3], 2, 2, -1)
            .permute(0, 1, 3, 2, 4, 5)
            .reshape(x.shape[0], 2 * x.shape[1], 2 * x.shape[2], -1)
        ),
        pixels,
    )


def add_indexing_cases(cases: Cases) -> None:
    """Add the cases of gathering and scattering."""
    n = cases.axis_size
    x, rows = cases.uniform(1000, 1000), cases.integers(1000, high=1000)
    cases.add(
        "take rows",
        lambda x, i: plugrad.take(x, i, axis=0),
        lambda x, i: torch.index_select(x, 0, i),
        x,
        rows,
        gradient_positions=[0],
    )
    cases.add(
        "take elements",
        plugrad.take,
        torch and torch.take,
        x.reshape(-1),
        cases.integers(100_000, high=1_000_000).astype("q"),
        gradient_positions=[0],
    )
    cases.add(
        "take_along_axis",
        lambda x, i: plugrad.take_along_axis(x, i, axis=1),
        lambda x, i: torch.gather(x, 1, i),
        x,
        cases.integers(1000, 100, high=1000).astype("q"),
        gradient_positions=[0],
    )
    cases.add(
        "embedding of 8",
        lambda x, i: x[i],
        lambda x, i: x[i],
        x[:, :8],
        rows[:8].astype("q"),
        gradient_positions=[0],
    )
    cases.add("boolean_mask", plugrad.boolean_mask, torch and torch.masked_select, x, x > 0)
    cases.add(
        "one_hot",
        lambda i: plugrad.one_hot(i, n(1000)),
        lambda i: functional.one_hot(i, n(1000)).float(),
        rows.astype("q"),
    )
    places, updates = cases.integers(10_000, high=1000), cases.uniform(10_000, 64)
    size = (n(1000), updates.shape[1])
    cases.add(
        "segment sum",
        lambda x, i: plugrad.unsorted_segment_sum(x, i, size[0]),
        lambda x, i: torch.zeros(size).index_add_(0, i, x),
        updates,
        places,
        gradient_positions=[0],
    )
    cases.add(
        "scatter_nd",
        lambda x, i: plugrad.scatter_nd(i[:, None], x, size),
        lambda x, i: torch.zeros(size).index_add_(0, i, x),
        updates,
        places,
    )
    different = cases.generator.permutation(n(1000))[: n(500)]
    cases.add(
        "tensor_scatter_update",
        lambda x, i, u: plugrad.tensor_scatter_update(x, i[:, None], u),
        lambda x, i, u: x.index_copy(0, i, u),
        x,
        different,
        x[: len(different)],
    )


def add_creation_cases(cases: Cases) -> None:
    """Add the cases of ops that create tensors."""
    n = cases.axis_size
    for name in ("zeros", "ones"):
        in_plugrad, in_torch = getattr(plugrad, name), getattr(torch, name, None)
        cases.add(f"{name}(4)", lambda f=in_plugrad: f(4), lambda f=in_torch: f(4))
        cases.add(
            f"{name}(1e6)", lambda f=in_plugrad: f(n(1_000_000)), lambda f=in_torch: f(n(1_000_000))
        )
    cases.add(
        "arange",
        lambda: plugrad.arange(n(1_000_000)),
        lambda: torch.arange(n(1_000_000), dtype=torch.int32),
    )
    cases.add(
        "linspace",
        lambda: plugrad.linspace(0, 1, n(100_000)),
        lambda: torch.linspace(0, 1, n(100_000)),
    )
    cases.add("eye", lambda: plugrad.eye(n(1000)), lambda: torch.eye(n(1000)))
    cases.add(
        "uniform",
        lambda: random.uniform(n(1_000_000)),
        lambda: torch.rand(n(1_000_000)),
        is_random=True,
    )
    cases.add(
        "normal",
        lambda: random.normal(n(1_000_000)),
        lambda: torch.randn(n(1_000_000)),
        is_random=True,
    )


FAMILIES: Final[dict[str, Callable[[Cases], None]]] = {
    "unary": add_unary_cases,
    "activation": add_activation_cases,
    "binary": add_binary_cases,
    "reduction": add_reduction_cases,
    "scan": add_scan_cases,
    "sorting": add_sorting_cases,
    "movement": add_movement_cases,
    "indexing": add_indexing_cases,
    "creation": add_creation_cases,
}
