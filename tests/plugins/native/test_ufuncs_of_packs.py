"""A kernel of another package whose implementation is a ufunc joins the loops of compiled functions."""

from importlib import import_module

import numpy as np
import pytest
from scipy import special

import plugrad
from plugins.comparing import assert_same_when_traced
from plugrad.extend import KERNELS, Fused, KernelConfig, Shaped, Spec, broadcast, kernel
from plugrad_cpu.memory import pool
from plugrad_cpu.threads import thread_pool

selection = import_module("plugrad_native.programs.selection")


@pytest.fixture(autouse=True)
def _on_cpu():
    with plugrad.use("cpu"):
        yield


@pytest.fixture
def declare():
    """Declares elementwise kernels for the time of a test."""
    declared = []

    def declare(implementation, inputs=1, **config):
        name = f"_Foreign{len(declared)}"
        declared.append(name)
        if inputs == 1:

            @kernel(name, is_elementwise=True)
            def contract(x: Spec) -> Spec:
                """Return a function of x."""
                return x
        else:

            @kernel(name, is_elementwise=True)
            def contract(x: Spec, y: Spec) -> Spec:
                """Return a function of x and y."""
                return Shaped(broadcast(x.shape, y.shape), x.dtype)

        plugrad.register_kernel(KernelConfig(name, "cpu", implementation)._replace(**config))
        return contract

    yield declare
    for name in declared:
        plugrad.unregister_kernel(name, "cpu")
        del KERNELS[name]


def random_values(*shape, dtype="float32", seed=0):
    values = (np.random.default_rng(seed).standard_normal(shape) * 3).astype(dtype)
    if values.size > 8 and values.dtype.kind in "fc":
        values.flat[:4] = np.nan, np.inf, -np.inf, -0.0
    return plugrad.asarray(values)


def joined_kernels(function, *args):
    """Return the kernels that run in loops with others."""
    graph = plugrad.make_graph(function)(*args)
    graph = selection.CompiledStepSelector(graph).prepare(graph)
    groups = [step.body.steps for step in graph.steps if isinstance(step, Fused)]
    return {call.kernel.name for steps in groups for call in steps}


@pytest.mark.parametrize("ufunc", [np.cbrt, special.j0, special.expit, np.spacing])
@pytest.mark.parametrize("shape", [(), (0, 3), (7,), (300, 70)])
def test_fused_ufuncs_have_the_bits_of_a_call(declare, ufunc, shape):
    foreign = declare(ufunc)
    loops = {types[0] for types in ufunc.types}
    for dtype in [d for d in ("float16", "float32", "float64") if np.dtype(d).char in loops]:
        with np.errstate(all="ignore"):
            assert_same_when_traced(
                lambda x: plugrad.square(foreign(x * 0.5 + 1)) - x,
                random_values(*shape, dtype=dtype),
            )


@pytest.mark.parametrize("shape", [(), (1,), (70,), (300, 1), (300, 70)])
@pytest.mark.parametrize("ufunc", [np.hypot, np.copysign, special.xlogy])
def test_ufuncs_with_broadcast_operands(declare, ufunc, shape):
    foreign = declare(ufunc, inputs=2)
    x, y = random_values(300, 70), random_values(*shape, seed=1)
    with np.errstate(all="ignore"):
        assert_same_when_traced(lambda x, y: foreign(x + 1, y) * foreign(y, x), x, y)


def test_integers_and_views(declare):
    gcd = declare(np.gcd, inputs=2)
    x = plugrad.asarray(np.arange(1, 10_001, dtype="int32").reshape(100, 100))
    assert_same_when_traced(lambda x: gcd(x, x[::-1] * 2) + 1, x)
    cbrt = declare(np.cbrt)
    assert_same_when_traced(
        lambda x: cbrt(plugrad.matrix_transpose(x)) * 2, random_values(200, 300)
    )


def test_ufunc_calls_join_loops_and_take_no_memory(declare):
    hypot = declare(np.hypot, inputs=2)

    def function(x):
        return plugrad.exp(-hypot(x * 0.5 + 1, x - 1)) * 2

    x = random_values(1 << 18)
    assert hypot.name in joined_kernels(function, x)
    step = plugrad.jit(function)
    for _ in range(3):
        step(x)
    pool.trim()
    pool._collect_dead()
    held = pool._peak = pool._bytes
    step(x)
    assert pool._peak - held <= x.nbytes + 4096
    assert plugrad.make_graph(function, fused=True)(x).peak_bytes == x.nbytes


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_give_the_same_bits(declare, threads, monkeypatch):
    foreign = declare(special.j0)
    monkeypatch.setattr(thread_pool, "count", threads)
    monkeypatch.setattr(thread_pool, "part_min_work", 1000)
    assert_same_when_traced(lambda x: foreign(x * 2) + 1, random_values(100_003))


@pytest.mark.parametrize(
    ("implementation", "config"),
    [
        (np.frompyfunc(lambda x: x, 1, 1), {}),  # its loop is one for Python's objects
        (lambda x: np.cbrt(x), {}),
        (np.cbrt, {"dtypes": frozenset({plugrad.float32, plugrad.float64})}),
    ],
)
def test_other_implementations_are_called(declare, implementation, config):
    foreign = declare(implementation, **config)
    x = random_values(1000)
    assert foreign.name not in joined_kernels(lambda x: foreign(x * 2) + 1, x)
    if not isinstance(implementation, np.ufunc) or config:
        assert_same_when_traced(lambda x: foreign(x * 2) + 1, x)


def test_another_implementation_takes_effect(declare):
    foreign = declare(np.cbrt)
    x = random_values(1000)
    step = plugrad.jit(lambda x: foreign(x * 2) + 1)
    first = step(x).numpy()
    for other in (np.sqrt, lambda x: x + 5):
        with (
            plugrad.override_kernel(foreign.name, "cpu", other),
            np.errstate(all="ignore"),
        ):
            expected = other(x.numpy() * np.float32(2)) + 1
            np.testing.assert_array_equal(step(x).numpy(), expected)
    np.testing.assert_array_equal(step(x).numpy(), first)


def test_no_kernel_of_plugrad_is_taken_for_one_of_a_pack():
    x = random_values(1000)
    with plugrad.override_kernel("Sinh", "cpu", np.cosh):
        found = plugrad.jit(lambda x: plugrad.sinh(x * 0.5) + 1)(x).numpy()
        np.testing.assert_array_equal(found, np.cosh(x.numpy() * np.float32(0.5)) + 1)
