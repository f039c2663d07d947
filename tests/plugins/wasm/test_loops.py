"""Long elementwise groups as loops that are compiled for them: they have the bits of the exports."""

from importlib import import_module

import numpy as np
import pytest

import plugrad
from plugrad.discovery.loading import open_backend
from plugrad.extend import active_functions, fuse_groups
from plugrad.types.bits import comparable_bits

pytest.importorskip("wasmtime")
loops = import_module("plugrad_wasm.programs.loops")
recorder = import_module("plugrad_wasm.programs.recorder")
record = import_module("plugrad_wasm.programs.recording").record_graph

ELEMENT_COUNT = (1 << 18) + 37
"""Elements, not a whole number of rounds."""


@pytest.fixture(autouse=True)
def _use_wasm():
    with plugrad.use("wasm"):
        yield


@pytest.fixture(params=[1, 3], autouse=True)
def _use_thread_count(request, monkeypatch):
    store = open_backend("wasm").linear_memory.store
    monkeypatch.setattr(store, "threads", request.param)
    monkeypatch.setattr(store.run_in_threads.__self__, "threads", request.param)


def float32_of_all_kinds():
    """Return random float32 bit patterns, and all special values."""
    rng = np.random.default_rng(0)
    values = rng.integers(0, 1 << 32, ELEMENT_COUNT, np.uint32).view(np.float32)
    values[: ELEMENT_COUNT // 2] = rng.standard_normal(ELEMENT_COUNT // 2) * np.geomspace(
        1e-3, 200, ELEMENT_COUNT // 2
    )
    special = [0, np.inf, np.nan, 1e-40, 2.0**-126, 87, 88.8, 103.9, 104.1, 2.0**-149, 22, 1]
    values[: 2 * len(special)] = [*special, *(-x for x in special)]
    return plugrad.asarray(values)


def recorded_call_kinds(function, *args):
    """Return the kinds of recorded calls; calls that are no loops are named by their exports."""
    graph = fuse_groups(plugrad.make_graph(function)(*args))
    backend = open_backend("wasm")
    calls = record(graph, backend.linear_memory, active_functions(backend)).calls
    return [type(call) for call in calls]


def assert_loop_is_exact(function, *args, kind=recorder.CompiledLoop):
    assert recorded_call_kinds(function, *args) == [kind]
    expected = function(*args)
    found = plugrad.jit(function)(*args)
    for x, y in zip(
        *([r] if isinstance(r, plugrad.Tensor) else r for r in (found, expected)), strict=True
    ):
        assert comparable_bits(x.numpy()) == comparable_bits(y.numpy())


FUNCTIONS_BY_NAME = {
    "abs": abs,
    "add": lambda x: x + 3.7,
    "ceil": plugrad.ceil,
    "divide": lambda x: 3.7 / x,
    "exp": plugrad.exp,
    "floor": plugrad.floor,
    "log": plugrad.log,
    "maximum": lambda x: plugrad.maximum(x, 1 - x),
    "minimum": lambda x: plugrad.minimum(x, 0.5),
    "multiply": lambda x: x * x,
    "negative": lambda x: -x,
    "reciprocal": plugrad.reciprocal,
    "relu": plugrad.relu,
    "round": plugrad.round,
    "rsqrt": plugrad.rsqrt,
    "sqrt": plugrad.sqrt,
    "square": plugrad.square,
    "squared_difference": lambda x: plugrad.squared_difference(x, 1.5),
    "subtract": lambda x: 1.5 - x,
    "tanh": plugrad.tanh,
    "trunc": plugrad.trunc,
}


def test_each_function_is_checked():
    inner = {name for names in loops.FUNCTIONS_OF_TWO_STAGES.values() for name in names}
    stages = loops.STAGE_FUNCTIONS.keys() - inner
    assert FUNCTIONS_BY_NAME.keys() == stages | loops.FUNCTIONS_OF_TWO_STAGES.keys()


@pytest.mark.parametrize("name", FUNCTIONS_BY_NAME)
def test_bits_of_each_function(name):
    function = FUNCTIONS_BY_NAME[name]
    assert_loop_is_exact(lambda x: -function(x), float32_of_all_kinds())


def test_several_stages_and_results():
    x, y = float32_of_all_kinds(), float32_of_all_kinds()[::-1] + 0

    def function(x, y, scale):
        a = plugrad.exp(x * scale)
        b = plugrad.log(a + y)
        c = plugrad.tanh(b * a) - x
        return a, c, plugrad.tanh(plugrad.log(c) / y + a)

    assert_loop_is_exact(function, x, y, plugrad.asarray(0.25))
    assert_loop_is_exact(function, *(z[: 1 << 18] + 0 for z in (x, y)), plugrad.asarray(0.25))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: plugrad.sin(x) + 1,
        lambda x: plugrad.exp(x[:1000]) + 1,
        lambda x: plugrad.exp(x.astype("float64")) + 1,
        lambda x: plugrad.where(x > 0, x, -x),
        lambda x: sum((x for _ in range(70)), x),
    ],
)
def test_other_groups_are_run_by_blocks(function):
    assert recorder.CompiledLoop not in recorded_call_kinds(function, float32_of_all_kinds())


def test_operands_that_are_broadcast_are_left_to_blocks():
    x = plugrad.reshape(float32_of_all_kinds()[: 1 << 18], (512, 512)) + 0
    assert_loop_is_exact(
        lambda x, row: plugrad.exp(x) + row, x, x[0] + 0, kind=recorder.BlockwiseCalls
    )


def test_without_fused_instructions_groups_are_run_by_blocks(monkeypatch):
    monkeypatch.setattr(loops, "has_fused_multiply_add", lambda: False)
    assert_loop_is_exact(
        lambda x: plugrad.exp(x) + 1, float32_of_all_kinds(), kind=recorder.BlockwiseCalls
    )


def test_calls_hold_no_memory():
    x = float32_of_all_kinds()
    jitted = plugrad.jit(lambda x: plugrad.exp(x) + 1)
    jitted(x)
    before = plugrad.memory().bytes
    for _ in range(3):
        jitted(x)
    assert plugrad.memory().bytes == before


UNARY_FUNCTIONS = [f for f in FUNCTIONS_BY_NAME if f not in ("add", "maximum")]
BINARY_FUNCTIONS = [
    plugrad.add,
    plugrad.multiply,
    plugrad.subtract,
    plugrad.divide,
    plugrad.maximum,
]


@pytest.mark.parametrize("seed", range(20))
def test_random_groups_of_any_length(seed, monkeypatch):
    """Stages of a loop pass the right values to each other, and return the right results, whatever depends on what."""
    monkeypatch.setattr(loops, "LOOP_MIN_ELEMENTS", loops.ELEMENTS_PER_ROUND)
    monkeypatch.setattr(loops, "LOOP_BLOCK_ELEMENTS", 64)
    rng = np.random.default_rng(seed)
    size = int(rng.integers(513, 3000))
    x, y = (z[:size] + 0 for z in (float32_of_all_kinds(), float32_of_all_kinds()[::-1]))
    chosen = [
        (rng.random() < 0.6, *rng.integers(0, 1 << 30, 3)) for _ in range(rng.integers(3, 20))
    ]
    ends = rng.integers(0, len(chosen), 3)

    def function(x, y, scale):
        values = [x, y, scale * x]
        for is_unary, which, first, second in chosen:
            a, b = values[first % len(values)], values[second % len(values)]
            if is_unary:
                values.append(FUNCTIONS_BY_NAME[UNARY_FUNCTIONS[which % len(UNARY_FUNCTIONS)]](a))
            else:
                values.append(BINARY_FUNCTIONS[which % len(BINARY_FUNCTIONS)](a, b))
        return tuple([values[3 + end] + values[-1] for end in ends])

    args = x, y, plugrad.asarray(0.75)
    expected = function(*args)
    found = plugrad.jit(function)(*args)
    for a, b in zip(found, expected, strict=True):
        assert comparable_bits(a.numpy()) == comparable_bits(b.numpy())
    assert recorder.CompiledLoop in recorded_call_kinds(function, *args)
