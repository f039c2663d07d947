"""Host values become further results: of a graph, of each round of a loop, and of both functions of a choice."""

import numpy as np
import pytest

import plugrad
from plugrad.extend import compile_replay, host_value, verify_graph
from plugrad.passes.hosts import return_host_values


def count_from(start):
    numbers = iter(range(start, start + 100))
    return lambda: host_value(lambda: next(numbers), dtype="int32")


def loop_with_host_call(x):
    step = count_from(10)
    return plugrad.scan(lambda c, _: (c + step().astype("float32"), step()), x, length=3)


def cond_with_host_calls(x):
    one, other = count_from(10), count_from(20)
    return plugrad.cond(
        x > 0, lambda x: x + one().astype("float32"), lambda x: x + other() + other(), x
    )


def while_loop_with_host_call(x):
    step = count_from(10)
    return plugrad.while_loop(lambda c: c < 30, lambda c: c + step().astype("float32"), x)


CASES = {
    "once": (lambda x: (count_from(10)(), x), 1.0, [10]),
    "loop": (loop_with_host_call, 1.0, [[10, 12, 14], [11, 13, 15]]),
    "yes": (cond_with_host_calls, 1.0, [10, 0, 0]),
    "no": (cond_with_host_calls, -1.0, [0, 20, 21]),
    "while": (while_loop_with_host_call, 1.0, [34.0]),
    "nothing": (lambda x: x + 1, 1.0, []),
}


@pytest.mark.parametrize("name", CASES)
def test_host_values_are_returned(name):
    function, x, expected = CASES[name]
    x = plugrad.asarray(x)
    graph = plugrad.make_graph(function)(x)
    returned = return_host_values(graph)
    verify_graph(returned)
    results = compile_replay(returned)(x.array)
    found = results[len(graph.results) :]
    assert [np.asarray(y).tolist() for y in found] == expected
    assert [returned.specs[v].shape for v in returned.results] == [np.shape(y) for y in results]
