"""Groups among the other steps of a graph, and replays that run groups by functions."""

from itertools import count

import numpy as np
import pytest

import plugrad
from passes.checking import recorded_graph, results
from plugrad.extend import compile_replay, find_groups, host_value, schedule_groups

X = plugrad.asarray(np.linspace(-1, 1, 12, dtype="float32").reshape(3, 4))


def softmax(x):
    y = plugrad.exp(x - 1)
    return y / plugrad.sum(y, axis=1, keepdims=True) + 1


def with_a_sum_in_between(x):
    """The group needs the second sum, and the first sum needs the group."""
    y = x * 2
    first = plugrad.sum(y)
    return y + plugrad.sum(x), first


def with_loops(x):
    def step(carry, row):
        return plugrad.exp(carry) * 0.5, row + carry

    last, rows = plugrad.scan(step, x[0] * 2 + 1, x)
    return plugrad.cond(plugrad.sum(last) > 0, lambda z: z * 2 + 1, lambda z: z - 1, rows)


def call_one_by_one(graph, group):
    """Return a function that computes a group by the implementations of the device."""
    calls = [graph.steps[index] for index in group.steps]

    def run(*arrays):
        found = dict(zip(group.inputs, arrays, strict=True))
        for call in calls:
            inputs = [found[value] for value in call.inputs]
            function = graph.backend.functions[call.kernel.name]
            found[call.outputs[0]] = function(*inputs, **call.attrs)
        return [found[value] for value in group.outputs]

    return run


def compile_groups(graph):
    groups = {group: call_one_by_one(graph, group) for group in find_groups(graph)}
    return compile_replay(graph, groups, compile_body=compile_groups)


@pytest.mark.parametrize("function", [softmax, with_a_sum_in_between, with_loops])
def test_groups_give_the_same_bits(function):
    graph = recorded_graph(function, X)
    found = compile_groups(graph)(X.array)
    assert [(x.shape, graph.backend.to_numpy(x).tobytes()) for x in found] == results(graph, [X])


@pytest.mark.parametrize("function", [softmax, with_a_sum_in_between, with_loops])
def test_each_unit_comes_after_what_it_reads(function):
    graph = recorded_graph(function, X)
    order = schedule_groups(graph, find_groups(graph))
    known = {*graph.arguments, *graph.constants, *graph.variables}
    for unit in order:
        assert known.issuperset(unit.inputs)
        known.update(unit.outputs)
    assert known.issuperset(graph.results)


def test_host_values_stay_in_their_order():
    numbers = count(1)

    def draw():
        return host_value(lambda: next(numbers), dtype="float32")

    def f(x):
        y = x * 2
        last, _ = plugrad.scan(lambda carry, row: (carry + row * draw(), None), y[0], y)
        return last, y + draw()

    graph = recorded_graph(f, X)
    (group,) = [group for group in find_groups(graph) if group.shape == (3, 4)]
    assert group not in schedule_groups(
        graph, [group]
    )  # it needs the fourth number, and the loop needs it
    last, y = compile_groups(graph)(X.array)
    x, doubled = X.numpy(), 2 * X.numpy()
    np.testing.assert_allclose(last, doubled[0] + [1, 2, 3] @ doubled, rtol=1e-6)
    np.testing.assert_array_equal(y, 2 * x + 4)


def test_a_group_that_fails_names_its_lines():
    graph = recorded_graph(softmax, X)

    def fail(*_):
        raise plugrad.errors.OutOfMemory("no room")

    groups = dict.fromkeys(find_groups(graph), fail)
    with pytest.raises(plugrad.errors.OutOfMemory) as caught:
        compile_replay(graph, groups)(X.array)
    (note,) = caught.value.__notes__
    assert "test_schedule.py" in note
    assert "in softmax" in note
