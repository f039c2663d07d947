"""Each rule of a well-formed graph, broken once."""

from dataclasses import replace

import numpy as np
import pytest

import plugrad
from passes.checking import recorded_graph
from plugrad.errors import ArgumentValueError
from plugrad.extend import Cond, Graph, Scan, SourceLine, While, host_value, verify_graph
from plugrad.types.specs import Shaped

X = plugrad.asarray(np.ones(3, "float32"))
ROW, NUMBER = Shaped((3,), plugrad.float32), Shaped((), plugrad.float32)
FLAG, ROWS = Shaped((), plugrad.bool), Shaped((5, 3), plugrad.float32)
LINE = SourceLine("file.py", 1, "f")


@pytest.fixture(scope="module")
def graph():
    v = plugrad.Variable(plugrad.asarray(2.0))

    def f(x):
        v.assign(plugrad.sum(x * v))
        return plugrad.exp(x) + X + host_value(lambda: 1.0)

    return recorded_graph(f, X)


def rejected(graph, match):
    with pytest.raises(ArgumentValueError, match=match):
        verify_graph(graph)


def with_step(graph, index, **changes):
    steps = list(graph.steps)
    steps[index] = replace(steps[index], **changes)
    return replace(graph, steps=tuple(steps))


def test_a_recorded_graph_is_well_formed(graph):
    verify_graph(graph)


def test_values_are_defined_once_and_before_use(graph):
    rejected(replace(graph, steps=graph.steps[::-1]), "nothing before it defines")
    rejected(replace(graph, steps=(*graph.steps, graph.steps[0])), "is defined already")
    rejected(replace(graph, arguments=graph.arguments * 2), "is defined already")
    rejected(replace(graph, specs={**graph.specs} | {}, results=(99,)), "result %99 is not defined")
    last = graph.steps[-1].outputs[0]
    rejected(
        replace(graph, specs={v: s for v, s in graph.specs.items() if v != last}), "has no shape"
    )


def test_specs_are_those_of_contracts(graph):
    first = graph.steps[0].outputs[0]
    rejected(replace(graph, specs={**graph.specs, first: ROWS}), r"float32\[5, 3\] stands where")
    rejected(with_step(graph, 0, returns_list=True), "returns_list=True")
    rejected(with_step(graph, 0, attrs={"unknown": 1}), "does not fit the contract")
    argument = graph.arguments[0]
    rejected(replace(graph, specs={**graph.specs, argument: FLAG}), "does not fit the contract")


def test_constants_and_variables_have_their_specs(graph):
    (constant,), (variable,) = graph.constants, graph.variables
    rejected(replace(graph, specs={**graph.specs, constant: ROWS}), f"constant %{constant}")
    rejected(replace(graph, specs={**graph.specs, variable: ROWS}), f"variable %{variable}")


def test_updates(graph):
    ((variable, value),) = graph.updates
    rejected(replace(graph, updates=((variable, 99),)), "update %99 of a variable is not defined")
    rejected(replace(graph, updates=((variable, value),) * 2), "updated twice")
    rejected(replace(graph, updates=((variable, graph.arguments[0]),)), "stands where")


def identity(backend, *specs, results):
    """Return a graph whose results are some of its arguments."""
    return Graph(backend, dict(enumerate(specs)), tuple(range(len(specs))), (), results)


def around(backend, step, *specs):
    """Return a graph of one step, whose inputs are its arguments."""
    count = len(specs) - len(step.outputs)
    return Graph(backend, dict(enumerate(specs)), tuple(range(count)), (step,), step.outputs)


def test_a_scan_fits_its_body():
    backend = X.backend
    body = identity(backend, NUMBER, ROW, NUMBER, results=(2, 1))
    step = Scan(body, 5, (0,), (1,), (2,), (3, 4), False, LINE)
    specs = NUMBER, ROWS, NUMBER, NUMBER, ROWS
    verify_graph(around(backend, step, *specs))
    rejected(around(backend, replace(step, length=4), *specs), "runs 4 times over %1")
    rejected(around(backend, step, NUMBER, ROWS, ROW, NUMBER, ROWS), "arguments")
    rejected(around(backend, step, *specs[:3], ROW, ROWS), "results")
    wrong = identity(backend, NUMBER, ROW, NUMBER, results=(1, 1))
    rejected(around(backend, replace(step, body=wrong), *specs), "carry")
    broken = replace(body, results=(9,))
    rejected(around(backend, replace(step, body=broken), *specs), "result %9 is not defined")


def test_a_choice_fits_its_branches():
    backend = X.backend
    yes, no = (identity(backend, ROW, ROW, results=(i,)) for i in (0, 1))
    step = Cond(0, (yes, no), (1, 2), (3,), LINE)
    verify_graph(around(backend, step, FLAG, ROW, ROW, ROW))
    rejected(around(backend, step, ROW, ROW, ROW, ROW), r"flag of shape \(3,\)")
    rejected(around(backend, step, FLAG, ROW, NUMBER, ROW), "operands")
    rejected(around(backend, step, FLAG, ROW, ROW, NUMBER), "results")
    few = replace(step, branches=(yes, replace(no, results=())))
    rejected(around(backend, few, FLAG, ROW, ROW, ROW), "0 values instead of 1")


def test_a_loop_fits_its_condition():
    backend = X.backend
    body = identity(backend, ROW, FLAG, results=(0,))
    condition = identity(backend, ROW, FLAG, results=(1,))
    step = While(condition, body, (0,), (1,), (2,), LINE)
    verify_graph(around(backend, step, ROW, FLAG, ROW))
    rejected(around(backend, replace(step, condition=body), ROW, FLAG, ROW), "one flag")
    rejected(around(backend, step, ROW, FLAG, NUMBER), "results")
    rejected(around(backend, replace(step, captured=()), ROW, FLAG, ROW), "arguments")


def test_graphs_inside_have_neither_updates_nor_another_device(fake_backend):
    backend = X.backend
    v = plugrad.Variable(X)
    body = identity(backend, ROW, FLAG, results=(0,))
    condition = identity(backend, ROW, FLAG, results=(1,))
    step = While(condition, replace(body, updates=((v, 0),)), (0,), (1,), (2,), LINE)
    rejected(around(backend, step, ROW, FLAG, ROW), "updates variables")
    step = replace(step, body=replace(body, backend=fake_backend))
    rejected(around(backend, step, ROW, FLAG, ROW), "inside one for cpu:0")


@pytest.fixture
def fake_backend():
    class Other:
        label = "other:0"

    return Other()
