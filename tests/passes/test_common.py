from dataclasses import replace

import numpy as np

import plugrad
from passes.checking import check_pass, kernel_names, recorded_graph
from plugrad.extend import host_value
from plugrad.passes.common import merge_common_calls

VECTOR = plugrad.asarray(np.array([-1.5, 0.0, 2.5], "float32"))


def kernel_names_after_pass(function, *args):
    return kernel_names(check_pass(merge_common_calls, function, *args))


def test_equal_calls_are_made_once():
    graph = check_pass(
        merge_common_calls, lambda x: (plugrad.exp(x) + plugrad.exp(x), plugrad.exp(x)), VECTOR
    )
    assert kernel_names(graph) == ["Exp", "Add"]
    assert graph.steps[1].inputs == graph.steps[0].outputs * 2
    assert graph.results == (graph.steps[1].outputs[0], graph.steps[0].outputs[0])


def test_calls_on_merged_results_are_merged_too():
    def f(x):
        return plugrad.sum(plugrad.exp(x) * 2) - plugrad.sum(plugrad.exp(x) * 2)

    assert kernel_names_after_pass(f, VECTOR) == ["Exp", "Multiply", "Sum", "Sub"]


def test_calls_with_other_inputs_or_attributes_are_not_merged():
    assert kernel_names_after_pass(lambda x: (x - x[::-1], x[::-1] - x), VECTOR).count("Sub") == 2
    rows = plugrad.asarray(np.ones((2, 2), "float32"))
    assert kernel_names_after_pass(
        lambda x: (plugrad.sum(x, axis=0), plugrad.sum(x, axis=1)), rows
    ) == [
        "Sum",
        "Sum",
    ]


def test_calls_with_equal_but_not_identical_attributes_are_not_merged():
    """0.0 == -0.0 and 1 == 1.0, and the results differ."""
    clip = plugrad.kernels.unary.clip_by_value
    zeros = plugrad.asarray(np.array([-1.0], "float32"))

    def f(x):
        return [clip(x, clip_value_min=least, clip_value_max=1.0) for least in (0.0, -0.0, 0.0)]

    assert len(kernel_names_after_pass(f, zeros)) == 2


def test_calls_with_the_same_nan_object_as_attribute_are_merged():
    pad = plugrad.kernels.movement.pad
    nan = float("nan")

    def f(x):
        return [pad(x, paddings=((1, 0),), constant_value=n) for n in (nan, nan, float("nan"))]

    assert kernel_names_after_pass(f, VECTOR) == ["PadV2", "PadV2"]


def test_calls_with_unhashable_attributes_are_not_merged():
    graph = recorded_graph(lambda x: (plugrad.exp(x), plugrad.exp(x)), VECTOR)
    steps = [replace(step, attrs={"made by hand": [1]}) for step in graph.steps]
    assert merge_common_calls(replace(graph, steps=tuple(steps))).steps == tuple(steps)


def test_kernels_with_several_outputs():
    rows = plugrad.asarray(np.arange(6.0).reshape(3, 2))
    graph = check_pass(
        merge_common_calls, lambda x: (plugrad.unstack(x)[0], plugrad.unstack(x)[2]), rows
    )
    assert kernel_names(graph) == ["Unpack"]


def test_host_values_are_not_merged():
    """Two random numbers are two, though both come from one function."""
    count = iter(range(100))

    def f(x):
        draw = lambda: host_value(lambda: np.float32(next(count)))  # noqa: E731
        return x + draw(), x + draw()

    traced = plugrad.jit(f)
    first, second = traced(VECTOR)
    assert (second - first).numpy().tolist() == [1, 1, 1]


def test_updates_read_the_values_that_merging_keeps():
    v, w = plugrad.Variable(VECTOR), plugrad.Variable(VECTOR)

    def step():
        v.assign(plugrad.exp(v))
        w.assign(plugrad.exp(w))
        return plugrad.exp(v) - plugrad.exp(v)

    plugrad.jit(step)()
    assert np.array_equal(v.numpy(), w.numpy())
