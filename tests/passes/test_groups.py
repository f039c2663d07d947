from graphlib import TopologicalSorter

import numpy as np
import pytest

import plugrad
from passes.checking import recorded_graph
from plugrad.extend import find_groups, simplify_graph

MATRIX = plugrad.asarray(np.ones((3, 4), "float32"))
ROW = plugrad.asarray(np.ones(4, "float32"))


def find_kernel_groups(function, *args):
    """Return the kernels of each group, after checking that all groups can run as one step each."""
    graph = recorded_graph(function, *args)
    check_groups(graph)
    return [[graph.steps[i].kernel.name for i in group.steps] for group in find_groups(graph)]


def check_groups(graph):
    """Check that fusing each group leaves an acyclic graph, and that the groups list their inputs and outputs."""
    groups = find_groups(graph)
    node = {i: ("group", n) for n, group in enumerate(groups) for i in group.steps}
    assert len(node) == sum(len(group.steps) for group in groups)
    maker = {v: node.get(i, i) for i, step in enumerate(graph.steps) for v in step.outputs}
    before = {}
    for i, step in enumerate(graph.steps):
        here = node.get(i, i)
        sources = {maker[v] for v in step.inputs if v in maker}
        before.setdefault(here, set()).update(sources - {here})
    list(TopologicalSorter(before).static_order())
    for group in groups:
        steps = [graph.steps[i] for i in group.steps]
        made = {v for step in steps for v in step.outputs}
        outside = [s for i, s in enumerate(graph.steps) if i not in group.steps]
        read = {v for step in outside for v in step.inputs} | {*graph.results}
        read |= {v for _, v in graph.updates}
        assert {*group.inputs} == {v for step in steps for v in step.inputs} - made - {None}
        assert {*group.outputs} == made & read
        assert all(graph.specs[v].shape == group.shape for v in made)
        assert all(step.kernel.is_elementwise for step in steps)


def test_a_chain_with_broadcasting_is_one_group():
    def f(x, row):
        return plugrad.tanh(plugrad.exp(x) * row + 1)

    graph = recorded_graph(f, MATRIX, ROW)
    (group,) = find_groups(graph)
    assert (group.steps, group.shape) == ((0, 1, 2, 3), (3, 4))
    assert {*graph.arguments} < {*group.inputs}
    assert group.outputs == graph.results


def test_several_outputs():
    def f(x):
        y = plugrad.exp(x)
        z = y * x
        return z + y, z, plugrad.sum(y)

    graph = recorded_graph(f, MATRIX)
    (group,) = find_groups(graph)
    assert len(group.outputs) == 3
    check_groups(graph)


def test_groups_that_feed_one_call_are_merged():
    def f(x, row):
        return plugrad.exp(x) * 2 - plugrad.sin(x) * row + plugrad.cos(row + 1)

    assert find_kernel_groups(f, MATRIX, ROW) == [
        ["Exp", "Multiply", "Sin", "Multiply", "Sub", "Add"],
        ["Add", "Cos"],
    ]


def test_groups_separated_by_a_sum_are_not_merged():
    def f(x):
        a, b = plugrad.exp(x), plugrad.sin(x)
        c = b * plugrad.sum(a * 2)  # so b's group is behind a's
        return c - a, (c * 2) * (a * 3)

    graph = recorded_graph(f, MATRIX)
    check_groups(graph)
    assert len(find_groups(graph)) == 2


def test_calls_that_depend_on_a_reduction_of_a_group_do_not_join_it():
    def softmax(x):
        y = plugrad.exp(x - 1)
        return y / plugrad.sum(y, axis=1, keepdims=True) + 1

    assert find_kernel_groups(softmax, MATRIX) == [["Sub", "Exp"], ["RealDiv", "Add"]]


def test_other_shapes_and_single_calls_are_no_groups():
    assert find_kernel_groups(lambda x, row: plugrad.exp(x) * plugrad.exp(row), MATRIX, ROW) == [
        ["Exp", "Multiply"]
    ]
    assert find_kernel_groups(lambda x: plugrad.sum(plugrad.exp(x)), MATRIX) == []
    assert find_kernel_groups(lambda x: plugrad.exp(plugrad.exp(x[0])), MATRIX) == [["Exp", "Exp"]]
    assert find_kernel_groups(lambda x: x, MATRIX) == []


def test_groups_that_depend_on_each_other_through_a_third_are_not_merged():
    def f(x, row):
        a = plugrad.exp(x)
        b = plugrad.exp(row)
        c = plugrad.sin(plugrad.sum(a, axis=0, keepdims=True))  # needs a
        a2 = a + b  # a's group needs b's
        b2 = b * plugrad.sum(c)  # would make b's group need c, which needs a
        return a2 * 2, b2 * 3, c * 2

    graph = recorded_graph(f, MATRIX, ROW)
    check_groups(graph)
    assert len(find_groups(graph)) == 3


def test_a_group_that_extends_over_another_can_be_between_two_others():
    def f(x, row):
        a = plugrad.exp(row)
        b = a + x  # needs a
        c = plugrad.sin(x)
        a2 = a + plugrad.sum(
            c, axis=0
        )  # a's group comes before b's by its first call, and needs c's
        return a2, c * b  # would make c's group need b's

    check_groups(recorded_graph(f, MATRIX, ROW))
    wanted = f(MATRIX, ROW)
    for found, y in zip(plugrad.jit(f)(MATRIX, ROW), wanted, strict=True):
        np.testing.assert_allclose(found.numpy(), y.numpy(), rtol=1e-6)


@pytest.mark.parametrize("seed", range(40))
def test_random_graphs(seed):
    rng = np.random.default_rng(seed)
    ops = [
        lambda a, b: a + b,
        lambda a, b: a * b,
        lambda a, b: plugrad.exp(a),
        lambda a, b: plugrad.sum(a, axis=0, keepdims=True),
        lambda a, b: plugrad.matrix_transpose(plugrad.matrix_transpose(a)),
        lambda a, b: plugrad.sin(b),
        lambda a, b: a @ plugrad.matrix_transpose(b) if a.shape == b.shape else a - b,
    ]

    def f(x, row):
        values = [x, row[None]]
        for _ in range(25):
            a, b = rng.integers(max(0, len(values) - 8), len(values), 2)
            one, other = values[a], values[b]
            if one.shape[-1] == other.shape[-1]:
                values.append(ops[rng.integers(len(ops))](one, other))
        return values[-3:]

    check_groups(recorded_graph(f, MATRIX, ROW))
    check_groups(simplify_graph(recorded_graph(f, MATRIX, ROW)))


def test_the_gradient_of_a_network():
    w = plugrad.asarray(np.ones((4, 4), "float32"))

    def loss(w, x):
        return plugrad.mean(plugrad.square(plugrad.tanh(x @ w) * 2 - 1))

    graph = plugrad.make_graph(plugrad.grads(loss))(w, MATRIX)
    check_groups(graph)
    assert sum(len(group.steps) for group in find_groups(graph)) > 5


def test_calls_of_another_loop_join_a_group_if_they_fit():
    graph = recorded_graph(lambda x: plugrad.exp(plugrad.sin(x) + plugrad.sin(ROW)), MATRIX)
    asked = []

    def fits(call, group):
        asked.append(call.kernel.name)
        return True

    (group,) = find_groups(graph, fits=fits)
    assert len(group.steps) == len(graph.steps) == 4
    assert {*asked} == {
        "Add",
        "Exp",
    }  # the sum reads a row, and the exponential joins what is a mixed group by then
    assert len(find_groups(graph, fits=lambda call, group: False)) == 1
    assert find_groups(graph, loop_key=lambda call: None) == ()


def test_calls_of_one_loop_are_not_compared_with_each_other():
    """The time to compile a chain of elementwise calls grew with the square of its length."""

    def chain(x):
        for _ in range(100):
            x = plugrad.sin(x)
        return x

    def fits(call, group):
        raise AssertionError("calls of one loop do not ask")

    (group,) = find_groups(recorded_graph(chain, MATRIX), fits=fits)
    assert len(group.steps) == 100
