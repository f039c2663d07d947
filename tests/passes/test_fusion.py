import numpy as np
import pytest

import plugrad
from passes.checking import recorded_graph
from plugrad.errors import ArgumentValueError
from plugrad.extend import (
    Call,
    Fused,
    compile_replay,
    fuse_groups,
    fuse_regions,
    fuse_steps,
    verify_graph,
)
from plugrad.types.bits import comparable_bits

MATRIX = plugrad.asarray(np.arange(12, dtype="float32").reshape(3, 4) / 5)
ROW = plugrad.asarray(np.ones(4, "float32"))


def network(x, row):
    y = plugrad.tanh(plugrad.exp(x) * row + 1)
    z = y / plugrad.sum(y, axis=1, keepdims=True) + x
    return z @ plugrad.matrix_transpose(z), plugrad.sum(z * 2)


def result_bits(graph):
    given = [
        plugrad.asarray(x, device=graph.backend.label).array for x in (MATRIX.numpy(), ROW.numpy())
    ]
    return [comparable_bits(graph.backend.to_numpy(y)) for y in compile_replay(graph)(*given)]


def check_fused_graph(fused, graph):
    """A fused graph is well-formed, makes each call of the other one once, and has its values."""
    verify_graph(fused)

    def calls(graph):
        for step in graph.steps:
            if isinstance(step, Call):
                yield step.outputs
            else:
                yield from calls(step.body)

    assert sorted(calls(fused)) == sorted(calls(graph))
    assert result_bits(fused) == result_bits(graph)


def test_groups_become_fused_steps():
    graph = recorded_graph(network, MATRIX, ROW)
    fused = fuse_groups(graph)
    check_fused_graph(fused, graph)
    assert [len(s.body.steps) for s in fused.steps if isinstance(s, Fused)] == [4, 3]
    check_fused_graph(fuse_groups(graph, min_calls=1), graph)
    none = fuse_groups(graph, is_included=lambda call: False)
    assert none.steps == graph.steps


def test_fusion_makes_as_few_regions_as_possible():
    graph = recorded_graph(network, MATRIX, ROW)
    (step,) = fuse_regions(graph, lambda step: True).steps
    assert step.outputs == graph.results
    without = fuse_regions(graph, lambda step: step.kernel.name != "BatchMatMul")
    check_fused_graph(without, graph)
    assert sum(isinstance(step, Fused) for step in without.steps) == 1
    check_fused_graph(fuse_regions(fuse_groups(graph), lambda step: True), graph)
    check_fused_graph(
        fuse_regions(graph, lambda step: step.kernel.name in ("Exp", "Sum", "RealDiv")), graph
    )


def test_steps_that_need_each_other_cannot_be_joined():
    graph = recorded_graph(lambda x, row: plugrad.exp(plugrad.sum(plugrad.exp(x))), MATRIX, ROW)
    with pytest.raises(ArgumentValueError, match="need each other"):
        fuse_steps(graph, [[0, 2]])


def test_steps_with_effects_keep_their_order():
    generator = plugrad.random.Generator(1)

    def draws(x):
        def body(carry, _):
            return carry + generator.normal((), dtype="float32"), None

        first = generator.normal((), dtype="float32")
        last, _ = plugrad.scan(body, first, length=3)
        return last + generator.normal((), dtype="float32") + plugrad.exp(x)

    graph = recorded_graph(draws, MATRIX)
    kinds = [type(s).__name__ for s in graph.steps if not isinstance(s, Call)]
    fused = fuse_regions(graph, lambda step: isinstance(step, Call))
    assert [type(s).__name__ for s in fused.steps if not isinstance(s, Fused)] == kinds
