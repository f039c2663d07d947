import numpy as np

import plugrad
from passes.checking import check_pass, kernel_names
from plugrad.extend import host_value
from plugrad.graph.graph import HostValue
from plugrad.passes.dead import remove_dead_steps

VECTOR = plugrad.asarray(np.ones(3, "float32"))


def test_unread_results_are_not_computed():
    def f(x):
        plugrad.sin(plugrad.cos(x))
        return plugrad.exp(x)

    graph = check_pass(remove_dead_steps, f, VECTOR)
    assert kernel_names(graph) == ["Exp"]


def test_new_values_of_variables_are_computed():
    v = plugrad.Variable(VECTOR)

    def f(x):
        v.assign(plugrad.exp(x))

    assert kernel_names(check_pass(remove_dead_steps, f, VECTOR)) == ["Exp"]


def test_host_values_are_not_removed():
    def f(x):
        host_value(lambda: np.float32(1))
        return x

    graph = plugrad.make_graph(f)(VECTOR)
    assert [type(step) for step in graph.steps] == [HostValue]
    assert remove_dead_steps(graph, keeps_effects=False).steps == ()
