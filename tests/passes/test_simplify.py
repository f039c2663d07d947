import numpy as np

import plugrad
from passes.checking import check_pass, kernel_names, recorded_graph, verified_passes
from plugrad.passes.dead import remove_dead_steps
from plugrad.passes.simplify import simplify_graph

MATRIX = plugrad.asarray(np.random.default_rng(0).normal(size=(3, 3)).astype("float32"))


def test_simplification_passes_enable_each_other():
    def f(x):
        y = x @ x
        return plugrad.exp(plugrad.negative(-y)) + plugrad.exp(y * plugrad.ones_like(y))

    assert kernel_names(check_pass(simplify_graph, f, MATRIX)) == ["BatchMatMul", "Exp", "Add"]


def test_the_gradient_of_a_mean_divides_when_it_is_traced():
    x = plugrad.asarray(np.ones(9, "float32"))
    graph = check_pass(simplify_graph, plugrad.grad(lambda x: plugrad.mean(x * x)), x)
    assert kernel_names(graph) == ["Multiply", "Add"]


def test_a_graph_with_nothing_to_simplify_is_given_back():
    graph = remove_dead_steps(recorded_graph(lambda x: plugrad.exp(x) @ x, MATRIX))
    assert simplify_graph(graph).steps == graph.steps


def test_programs_are_simplified():
    traced = plugrad.jit(lambda x: plugrad.exp(x) + plugrad.exp(x))
    with verified_passes():
        assert kernel_names(traced.graph(MATRIX)) == ["Exp", "Add"]


def test_unused_constants_are_dropped():
    graph = check_pass(simplify_graph, lambda x: x + plugrad.sum(MATRIX * 2), MATRIX)
    assert len(graph.constants) == 1


def test_simplification_does_not_modify_the_given_graph():
    graph = recorded_graph(lambda x: plugrad.exp(x) + plugrad.exp(x), MATRIX)
    before = str(graph)
    simplify_graph(graph)
    assert str(graph) == before
