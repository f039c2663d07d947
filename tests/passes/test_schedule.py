"""Groups among the other steps of a graph, and replays that run them by functions."""

from itertools import count

import numpy as np
import pytest

import plugrad
from passes.checking import recorded_graph, result_bits
from plugrad.extend import Call, Fused, compile_replay, fuse_groups, host_value, verify_graph
from plugrad.types.bits import comparable_bits

MATRIX = plugrad.asarray(np.linspace(-1, 1, 12, dtype="float32").reshape(3, 4))


def softmax(x):
    y = plugrad.exp(x - 1)
    return y / plugrad.sum(y, axis=1, keepdims=True) + 1


def group_between_sums(x):
    """Return a result whose group adds one sum, and another sum over the elements of the group."""
    y = x * 2
    first = plugrad.sum(y)
    return y + plugrad.sum(x), first


def function_with_loops(x):
    def step(carry, row):
        return plugrad.exp(carry) * 0.5, row + carry

    last, rows = plugrad.scan(step, x[0] * 2 + 1, x)
    return plugrad.cond(plugrad.sum(last) > 0, lambda z: z * 2 + 1, lambda z: z - 1, rows)


def compile_bodies(graph):
    """Return a replay whose fused steps call the implementations of the device, and note that they run."""
    ran = []

    def compile_body(body):
        is_fused = all(isinstance(step, Call) for step in body.steps)
        run = compile_replay(body if is_fused else fuse_groups(body), compile_body=compile_body)

        def noted(*arrays):
            ran.append(body)
            return run(*arrays)

        return noted

    return compile_replay(fuse_groups(graph), compile_body=compile_body), ran


@pytest.mark.parametrize("function", [softmax, group_between_sums, function_with_loops])
def test_groups_give_the_same_bits(function):
    graph = recorded_graph(function, MATRIX)
    run, ran = compile_bodies(graph)
    found = run(MATRIX.array)
    assert ran
    assert [(x.shape, comparable_bits(graph.backend.to_numpy(x))) for x in found] == result_bits(
        graph, [MATRIX]
    )


@pytest.mark.parametrize("function", [softmax, group_between_sums, function_with_loops])
def test_each_step_follows_the_steps_it_reads(function):
    verify_graph(fuse_groups(recorded_graph(function, MATRIX)))


def test_host_values_stay_in_their_order():
    numbers = count(1)

    def draw():
        return host_value(lambda: next(numbers), dtype="float32")

    def f(x):
        y = x * 2
        last, _ = plugrad.scan(lambda carry, row: (carry + row * draw(), None), y[0], y)
        return last, y + draw()

    graph = recorded_graph(f, MATRIX)
    fused = fuse_groups(graph)
    # One that has both additions needs the fourth number, which the loop needs to come later.
    assert not any(isinstance(step, Fused) for step in fused.steps)
    last, y = compile_replay(fused)(MATRIX.array)
    x, doubled = MATRIX.numpy(), 2 * MATRIX.numpy()
    np.testing.assert_allclose(last, doubled[0] + [1, 2, 3] @ doubled, rtol=1e-6)
    np.testing.assert_array_equal(y, 2 * x + 4)


def test_a_group_that_fails_names_its_line():
    graph = recorded_graph(softmax, MATRIX)

    def fail(*_):
        raise plugrad.errors.OutOfMemory("no room")

    with pytest.raises(plugrad.errors.OutOfMemory) as caught:
        compile_replay(fuse_groups(graph), compile_body=lambda _: fail)(MATRIX.array)
    (note,) = caught.value.__notes__
    assert "test_schedule.py" in note
    assert "in softmax" in note
