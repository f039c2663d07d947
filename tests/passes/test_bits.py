"""No pass changes a bit: all rows of the tables, and random programs, traced and untraced."""

import math
import os

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import plugrad
from passes.checking import verified_passes
from plugrad.discovery.loading import open_backend
from plugrad.passes.simplify import simplify_graph
from plugrad.testing.checks import NotClaimed
from plugrad.testing.tables import rows
from plugrad.testing.traced import check_traced
from plugrad.types.bits import comparable_bits

ROW_STRIDE = 12
"""On other backends than cpu, only each twelfth row runs: the kit runs all of them, without checks after each pass."""


@pytest.mark.rows("row", rows(), ids=str)
def test_replayed_rows_have_the_bits_of_untraced_ones(row, backend, request):
    if backend != "cpu" and rows().index(row) % ROW_STRIDE:
        pytest.skip("a twelfth of the rows runs here; the conformance kit runs all of them")
    with verified_passes():
        try:
            check_traced(row, open_backend(backend))
        except NotClaimed as reason:
            pytest.skip(str(reason))


SHAPES = [(), (1,), (3,), (3, 1), (2, 3), (3, 3), (1, 3), (2, 3, 3), (40, 33)]
NUMBERS = [0.0, -0.0, 1.0, -1.0, 0.1, 3.7, -2.5, 1e-40, 1e30, math.inf, -math.inf, math.nan]


def swap_in_scan(x):
    """A scan whose carry exchanges two arrays in each round, and stacks one of them."""
    last, stacked = plugrad.scan(lambda c, _: ((c[1] * 0.5 + x, c[0]), c[0]), (x, -x), length=3)
    return plugrad.sum(stacked, axis=0) + last[1]


def choose_branch(x):
    return plugrad.cond(plugrad.sum(x) > 0, lambda x: (x * 2, x), lambda x: (x, x + 1), x)[0]


def halve_until_small(x):
    def body(carry):
        y, count = carry
        return y * 0.5, count + 1

    start = plugrad.stop_gradient(x), plugrad.asarray(0, dtype="int32")
    return plugrad.while_loop(lambda c: plugrad.any(c[0] > 0.1) & (c[1] < 5), body, start)[0]


def round_trip_through_float64(x):
    """Return numbers cast to a wider dtype and back, if there is a wider one."""
    return x.astype("float64").astype("float32") if "float64" in x.backend.dtypes() else x


UNARY_OPS = {
    "-x": lambda x: -x,
    "--x": lambda x: plugrad.negative(-x),
    "x * 1": lambda x: x * plugrad.ones_like(x),
    "x / 1": lambda x: x / plugrad.ones(x.shape, dtype=x.dtype),
    "x - 0": lambda x: x - plugrad.zeros_like(x),
    "x + 0": lambda x: x + plugrad.zeros_like(x),
    "x * 3": lambda x: x * 3,
    "exp": plugrad.exp,
    "tanh": plugrad.tanh,
    "relu": plugrad.relu,
    "sum": plugrad.sum,
    "sum of rows": lambda x: plugrad.sum(x, axis=-1) if x.ndim else x,
    "sum of columns": lambda x: plugrad.sum(x, axis=0, keepdims=True) if x.ndim else x,
    "mean": plugrad.mean,
    "max": plugrad.max,
    "flat": lambda x: x.reshape(-1),
    "flat and back": lambda x: x.reshape(-1).reshape(x.shape),
    "more axes": lambda x: x[None].reshape(1, *x.shape, 1),
    "fewer axes": plugrad.squeeze,
    "transposed": lambda x: plugrad.permute_dims(x, tuple(reversed(range(x.ndim)))),
    "transposed twice": lambda x: (
        plugrad.matrix_transpose(plugrad.matrix_transpose(x)) if x.ndim > 1 else x
    ),
    "turned": lambda x: plugrad.permute_dims(x, (*range(1, x.ndim), 0)) if x.ndim else x,
    "part": lambda x: x[..., :2] if x.ndim else x,
    "every other": lambda x: x[::2] if x.ndim else x,
    "whole": lambda x: x[...],
    "copied": lambda x: plugrad.asarray(x, dtype=x.dtype),
    "wider and back": round_trip_through_float64,
    "repeated": lambda x: plugrad.broadcast_to(x, (2, *x.shape)),
    "repeated as it is": lambda x: plugrad.broadcast_to(x, x.shape),
    "softmax": lambda x: plugrad.softmax(x) if x.ndim else x,
    "running sum": lambda x: plugrad.cumulative_sum(x, axis=-1) if x.ndim else x,
    "flat, back, and summed": lambda x: plugrad.sum(x.reshape(-1).reshape(x.shape)),
    "minus zeros": lambda x: plugrad.full(x.shape, -0.0, dtype="float32"),
    "minus zeros + 0": lambda x: plugrad.full(x.shape, -0.0) + plugrad.zeros_like(x),
    "ones": plugrad.ones_like,
    "number of elements": lambda x: plugrad.full((), x.size, dtype=x.dtype),
    "square": plugrad.square,
    "a scan that swaps": swap_in_scan,
    "a branch": choose_branch,
    "halved while it is large": halve_until_small,
    "product with itself": lambda x: x @ plugrad.matrix_transpose(x) if x.ndim > 1 else x,
}
BINARY_OPS = {
    "+": plugrad.add,
    "-": plugrad.subtract,
    "*": plugrad.multiply,
    "/": plugrad.divide,
    "max": plugrad.maximum,
    "where": lambda a, b: plugrad.where(a > 0, a, b),
    "@": plugrad.matmul,
    "joined": lambda a, b: plugrad.concat([a.reshape(-1), b.reshape(-1)]),
}
MAX_ELEMENTS = 20_000
operand_indices = st.integers(0, 30)
step_specs = st.one_of(
    st.tuples(st.sampled_from(sorted(UNARY_OPS)), operand_indices, st.none()),
    st.tuples(st.sampled_from(sorted(BINARY_OPS)), operand_indices, operand_indices),
)
array_specs = st.builds(
    lambda shape, numbers, seed, is_turned: (shape, numbers, seed, is_turned),
    st.sampled_from(SHAPES),
    st.booleans(),
    st.integers(0, 99),
    st.booleans(),
)


def make_array(shape, has_edges, seed, is_turned):
    """Return numbers, which may lie in memory in the reverse order of their axes."""
    rng = np.random.default_rng(seed)
    values = rng.choice(NUMBERS, shape) if has_edges else rng.normal(size=shape)
    x = plugrad.asarray(np.asarray(values, "float32"))
    return plugrad.permute_dims(x, tuple(reversed(range(x.ndim)))) if is_turned else x


def make_program(steps, constants):
    """Return a function that runs the steps; steps that do not fit their operands are skipped."""

    def run(*xs):
        values = [*xs, *constants]
        for name, a, b in steps:
            one, other = values[a % len(values)], None if b is None else values[b % len(values)]
            if other is not None and name == "@" and not fits_product(one, other):
                continue
            if other is not None and name not in ("@", "joined") and not can_broadcast(one, other):
                continue
            y = UNARY_OPS[name](one) if other is None else BINARY_OPS[name](one, other)
            if y.size <= MAX_ELEMENTS and y.ndim < 6:
                values.append(y)
        return values[len(xs) + len(constants) :][-4:]

    return run


def can_broadcast(a, b):
    return all(
        m == n or 1 in (m, n) for m, n in zip(reversed(a.shape), reversed(b.shape), strict=False)
    )


def fits_product(a, b):
    return a.ndim == b.ndim == 2 and a.shape[1] == b.shape[0]


def differentiate_program(run):
    def loss(*xs):
        parts = [plugrad.sum(y) for y in run(*xs) if y.dtype.is_inexact]
        return sum(parts, plugrad.asarray(0.0))

    return plugrad.grads(loss, allow_unused=True)


TRANSPOSING_STEPS = {"transposed", "transposed twice", "turned", "product with itself", "@"}
"""Steps after which elements may lie in another order than their own, to which a compiled program does not keep."""
SCAN_STEPS = {"a scan that swaps"}
"""Steps whose traced gradient adds the terms of all rounds before those of other steps."""


def is_same(x, y, is_reordered):
    """Return whether values have the same bits; the last ones may differ where a sum may have another order."""
    if comparable_bits(x) == comparable_bits(y):
        return True
    scale = np.abs(y[np.isfinite(y)]).max(initial=0)
    return is_reordered and np.allclose(x, y, rtol=1e-5, atol=1e-5 * scale, equal_nan=True)


def is_reordered(arrays, steps, is_differentiated):
    """Return whether sums may have another order, because of the steps, or of how the given arrays lie."""
    reordering = TRANSPOSING_STEPS | SCAN_STEPS if is_differentiated else TRANSPOSING_STEPS
    is_turned = any(turned and len(shape) > 1 for shape, _, _, turned in arrays)
    return is_turned or any(name in reordering for name, _, _ in steps)


def check_program(arrays, constants, steps, is_differentiated):
    xs = [make_array(*x) for x in arrays]
    run = make_program(steps, [make_array(*x) for x in constants])
    function = differentiate_program(run) if is_differentiated else run
    untraced = [y.numpy() for y in function(*xs)]
    may_differ = is_reordered([*arrays, *constants], steps, is_differentiated)
    with verified_passes():
        traced = plugrad.jit(function)
        for _ in range(2):
            for x, y in zip(traced(*xs), untraced, strict=True):
                assert is_same(x.numpy(), y, may_differ), (x, y)
        graph = traced.graph(*xs)
        assert str(simplify_graph(graph)) == str(graph), "a second round finds more to do"


program_specs = given(
    st.lists(array_specs, min_size=1, max_size=3),
    st.lists(array_specs, max_size=2),
    st.lists(step_specs, min_size=1, max_size=14),
    st.booleans(),
)


PROGRAMS = {"cpu": 500, "wasm": 500}
"""The number of random programs by backend; on others, where calls take long, there are few."""


def test_random_programs(backend):
    """RANDOM_PROGRAMS in the environment is another number, of programs that are others each time."""
    asked = os.environ.get("RANDOM_PROGRAMS")
    count = int(asked) if asked else PROGRAMS.get(backend, 5)

    @settings(
        max_examples=count,
        deadline=None,
        derandomize=asked is None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @program_specs
    def check(arrays, constants, steps, is_differentiated):
        check_program(arrays, constants, steps, is_differentiated)

    check()
