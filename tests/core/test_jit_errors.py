"""Errors of `plugrad.jit`, the conditions on which it traces again, and its explanations."""

import gc

import numpy as np
import pytest

import plugrad
from core.traced_values import VECTOR_X, VECTOR_Y, assert_identical, count_traces
from plugrad.errors import (
    ArgumentError,
    KernelFailed,
    PlugradError,
    TracingError,
)
from plugrad.kernels import unary

# --- what cannot be traced ------------------------------------------------------------------------

VALUE_DEPENDENT_FUNCTIONS = {
    "if": lambda x: 1 if x[0] > 0 else 2,
    "while": lambda x: [0 for _ in range(3) if bool(x[0])],
    "item": lambda x: x[0].item(),
    "float": lambda x: float(x[0]),
    "int": lambda x: int(x[0]),
    "numpy": lambda x: x.numpy(),
    "array": lambda x: np.asarray(x),
    "list": lambda x: x.tolist(),
    "print": str,
    "format": lambda x: f"{x}",
    "nonzero": plugrad.nonzero,
    "unique": plugrad.unique_values,
    "mask": lambda x: x[x > 0],
}


@pytest.mark.parametrize("read", VALUE_DEPENDENT_FUNCTIONS.values(), ids=VALUE_DEPENDENT_FUNCTIONS)
def test_reading_values_is_an_error_that_names_the_line(read):
    with pytest.raises(TracingError, match=r"test_jit_errors\.py:\d+"):
        plugrad.jit(read)(VECTOR_X)


def test_a_tensor_that_outlives_its_trace_is_named_by_line():
    kept = []

    def f(x):
        kept.append(plugrad.exp(x))  # this line
        return x

    line = f.__code__.co_firstlineno + 1
    with pytest.raises(
        TracingError, match=rf"made at .*test_jit_errors\.py:{line}.*still reachable"
    ):
        plugrad.jit(f)(VECTOR_X)
    with pytest.raises(TracingError, match="was made while another function was traced"):
        plugrad.jit(lambda x: x + kept[0])(VECTOR_X)
    with pytest.raises(PlugradError):
        kept[0].numpy()


def test_cycles_of_garbage_are_no_leaks():
    def f(x):
        loop = [plugrad.exp(x)]
        loop.append(loop)
        return x

    gc.disable()
    try:
        assert_identical(plugrad.jit(f)(VECTOR_X), VECTOR_X)
    finally:
        gc.enable()


def test_assigning_to_elements_of_an_argument_is_an_error():
    def f(x):
        x[0] = 5
        return x

    x = plugrad.asarray([1.0, 2.0])
    with pytest.raises(TracingError, match="assigns to elements of an argument"):
        plugrad.jit(f)(x)
    assert x.tolist() == [1.0, 2.0]


def test_assigning_to_elements_of_a_local_tensor_works():
    def f(x):
        y = x * 2
        y[0] = 5
        y[1:] += x[1:]
        return y

    assert_identical(plugrad.jit(f)(VECTOR_X), f(VECTOR_X))


@pytest.mark.parametrize(
    "change",
    [
        lambda xs, d: xs.append(xs[0]),
        lambda xs, d: d.update(new=1),
        lambda xs, d: xs.pop(),
        lambda xs, d: d.__setitem__("a", 2),
    ],
)
def test_changing_a_container_among_the_arguments_is_an_error(change):
    def f(xs, d):
        change(xs, d)
        return xs[0] if xs else VECTOR_X

    with pytest.raises(TracingError, match="changes a list or dict among its arguments"):
        plugrad.jit(f)([VECTOR_X], {"a": 1})


@pytest.mark.parametrize(
    "change", [lambda xs: xs.reverse(), lambda xs: xs.__setitem__(0, xs[0] * 2)]
)
def test_replacing_a_tensor_in_a_list_among_the_arguments_is_an_error(change):
    def f(xs):
        change(xs)
        return xs[0] + 0

    with pytest.raises(TracingError, match="changes a list or dict among its arguments"):
        plugrad.jit(f)([VECTOR_X, VECTOR_Y])


# --- registries and settings ----------------------------------------------------------------------


def test_a_registered_kernel_replaces_the_one_that_was_traced(restored_registries):
    f = plugrad.jit(plugrad.exp)
    assert_identical(f(VECTOR_X), plugrad.exp(VECTOR_X))
    plugrad.register_kernel(
        plugrad.KernelConfig("Exp", "cpu", lambda x: np.zeros_like(x)), replace=True
    )
    assert_identical(f(VECTOR_X), plugrad.zeros(3))


def test_kernel_override_applies_inside_its_block():
    f = plugrad.jit(plugrad.exp)
    f(VECTOR_X)
    with plugrad.override_kernel("Exp", "cpu", lambda x: x + 1):
        assert_identical(f(VECTOR_X), VECTOR_X + 1)
    assert_identical(f(VECTOR_X), plugrad.exp(VECTOR_X))


def test_gradient_override_applies_inside_its_block():
    f = plugrad.jit(plugrad.grad(lambda x: plugrad.sum(plugrad.exp(x))))
    assert_identical(f(VECTOR_X), plugrad.exp(VECTOR_X))
    with plugrad.override_gradient(unary.exp, x=lambda dy: dy * 7):
        assert_identical(f(VECTOR_X), plugrad.full((3,), 7.0))
    assert_identical(f(VECTOR_X), plugrad.exp(VECTOR_X))


def test_check_finite_applies_inside_traced_functions():
    f = plugrad.jit(plugrad.log)
    f(VECTOR_X * VECTOR_X)
    with plugrad.config.override("check_finite", True), pytest.raises(PlugradError, match="Log"):
        f(plugrad.zeros(3))
    assert f(plugrad.zeros(3)).tolist() == [-np.inf] * 3


def test_the_error_of_a_kernel_names_it_and_the_line_of_the_trace():
    def broken(x):
        raise RuntimeError("out of order")

    def f(x):
        y = x * 2
        return plugrad.exp(y)  # this line

    line = f.__code__.co_firstlineno + 2
    with plugrad.override_kernel("Exp", "cpu", broken):
        traced = plugrad.jit(f)
        for _ in range(2):
            with pytest.raises(KernelFailed, match=r"Exp.*out of order") as caught:
                traced(VECTOR_X)
            assert any(f"test_jit_errors.py:{line}" in note for note in caught.value.__notes__)


# --- what people read -----------------------------------------------------------------------------


def test_explain_says_why_a_call_is_traced():
    f = plugrad.jit(lambda x, rate=1, *, more=None: x * rate)
    assert f.explain(VECTOR_X) == "it is traced: this is the first call"
    f(VECTOR_X, 0.5)
    assert f.explain(VECTOR_X, 0.5) == "it is not traced again: trace 1 is for these arguments"
    assert "argument 'rate' is [1.5] instead of [0.5]" in f.explain(VECTOR_X, 1.5)
    assert "'x' is [(2,), float32] instead of [(3,), float32]" in f.explain(VECTOR_X[:2], 0.5)
    assert "'x' is [(3,), float64]" in f.explain(VECTOR_X.astype("float64"), 0.5)
    assert "'rate' is absent" in f.explain(VECTOR_X)
    assert "'more' is [3] instead of absent" in f.explain(VECTOR_X, 0.5, more=3)
    f(VECTOR_X[:2], 0.5)
    assert f.explain(VECTOR_X[:2], 7).startswith("it is traced: unlike in trace 2, argument 'rate'")
    with plugrad.override_kernel("Multiply", "cpu", np.add):
        assert "a setting, a kernel, a gradient, the device or a static value" in f.explain(
            VECTOR_X, 0.5
        )
    assert count_traces(f) == 2


def test_explain_tells_static_arguments_apart():
    f = plugrad.jit(lambda x, table: x, static=("table",))
    table = [1]
    f(VECTOR_X, table)
    assert "not traced again" in f.explain(VECTOR_X, table)
    assert "argument 'table'" in f.explain(VECTOR_X, [1])


def test_the_text_of_a_graph():
    def f(x, xs):
        total = plugrad.scan(lambda c, y: (c + y * 2, c), plugrad.sum(x), x)
        return total[0], plugrad.concat(xs), plugrad.asarray([[3]]) + 0

    text = str(plugrad.make_graph(f)(VECTOR_X, [VECTOR_X] * 20))
    assert "constant 2.0  float32[]" in text
    assert "constant 3  int" in text
    assert "Concat(%1, %2, %3, … 16 more …, %20, axis=0)" in text
    scan, inside = [line for line in text.splitlines() if "scan 3 times" in line or "do (" in line]
    assert len(inside) - len(inside.lstrip()) > len(scan) - len(scan.lstrip())
    assert max(map(len, text.splitlines()[1:])) < 160


@pytest.mark.parametrize("static", [3, 1.5, object, range(2**60), None, {"x": 1}])
def test_static_must_be_names(static):
    with pytest.raises(ArgumentError, match="static must be a sequence of names of parameters"):
        plugrad.jit(lambda x: x, static=static)


def make_endless_tree():
    tree = []
    tree.append(tree)
    return tree


def make_nested_tree(levels):
    tree = plugrad.ones(2)
    for _ in range(levels):
        tree = [tree]
    return tree


@pytest.mark.parametrize("make", [make_endless_tree, lambda: make_nested_tree(5000)])
def test_endless_and_too_deep_trees_are_rejected(make):
    with pytest.raises(ArgumentError, match="contains itself, or has more levels"):
        plugrad.jit(lambda x: 1)(make())
    with pytest.raises(ArgumentError, match="contains itself, or has more levels"):
        plugrad.jit(make)()


def test_results_may_be_nested_as_deeply_as_python_can_parse():
    assert plugrad.jit(lambda: make_nested_tree(90))() is not None
    with pytest.raises(ArgumentError, match="more levels"):
        plugrad.jit(lambda: make_nested_tree(300))()


@pytest.mark.parametrize("method", ["__call__", "graph", "explain"])
def test_every_method_names_an_argument_that_is_not_hashable(method):
    def function(x, options, more=None):
        return x

    jitted = plugrad.jit(function, static=["options"])
    unhashable = {1, 2}
    getattr(jitted, method)(plugrad.ones(2), unhashable)
    with pytest.raises(ArgumentError, match="jit: argument 'more' has a set"):
        getattr(jitted, method)(plugrad.ones(2), unhashable, more={3})
