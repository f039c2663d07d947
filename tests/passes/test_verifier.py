"""Each rule of a well-formed graph, broken once."""

from dataclasses import replace

import numpy as np
import pytest

import plugrad
from passes.checking import recorded_graph
from plugrad.errors import ArgumentValueError
from plugrad.extend import Cond, Graph, Scan, SourceLine, While, host_value, verify_graph
from plugrad.types.specs import Shaped

VECTOR = plugrad.asarray(np.ones(3, "float32"))
ROW, NUMBER = Shaped((3,), plugrad.float32), Shaped((), plugrad.float32)
FLAG, MATRIX = Shaped((), plugrad.bool), Shaped((5, 3), plugrad.float32)
SOURCE_LINE = SourceLine("file.py", 1, "f")


@pytest.fixture(scope="module")
def graph():
    v = plugrad.Variable(plugrad.asarray(2.0))

    def f(x):
        v.assign(plugrad.sum(x * v))
        return plugrad.exp(x) + VECTOR + host_value(lambda: 1.0)

    return recorded_graph(f, VECTOR)


def assert_rejected(graph, match):
    with pytest.raises(ArgumentValueError, match=match):
        verify_graph(graph)


def with_step(graph, index, **changes):
    steps = list(graph.steps)
    steps[index] = replace(steps[index], **changes)
    return replace(graph, steps=tuple(steps))


def test_a_recorded_graph_is_well_formed(graph):
    verify_graph(graph)


def test_values_are_defined_once_and_before_use(graph):
    assert_rejected(replace(graph, steps=graph.steps[::-1]), "nothing before it defines")
    assert_rejected(replace(graph, steps=(*graph.steps, graph.steps[0])), "is defined already")
    assert_rejected(replace(graph, arguments=graph.arguments * 2), "is defined already")
    assert_rejected(
        replace(graph, specs={**graph.specs} | {}, results=(99,)), "result %99 is not defined"
    )
    last = graph.steps[-1].outputs[0]
    assert_rejected(
        replace(graph, specs={v: s for v, s in graph.specs.items() if v != last}), "has no shape"
    )


def test_specs_match_contracts(graph):
    first = graph.steps[0].outputs[0]
    assert_rejected(
        replace(graph, specs={**graph.specs, first: MATRIX}), r"float32\[5, 3\] stands where"
    )
    assert_rejected(with_step(graph, 0, returns_list=True), "returns_list=True")
    assert_rejected(with_step(graph, 0, attrs={"unknown": 1}), "does not fit the contract")
    argument = graph.arguments[0]
    assert_rejected(
        replace(graph, specs={**graph.specs, argument: FLAG}), "does not fit the contract"
    )


def test_constants_and_variables_have_their_specs(graph):
    (constant,), (variable,) = graph.constants, graph.variables
    assert_rejected(
        replace(graph, specs={**graph.specs, constant: MATRIX}), f"constant %{constant}"
    )
    assert_rejected(
        replace(graph, specs={**graph.specs, variable: MATRIX}), f"variable %{variable}"
    )


def test_invalid_updates_are_found(graph):
    ((variable, value),) = graph.updates
    assert_rejected(
        replace(graph, updates=((variable, 99),)), "update %99 of a variable is not defined"
    )
    assert_rejected(replace(graph, updates=((variable, value),) * 2), "updated twice")
    assert_rejected(replace(graph, updates=((variable, graph.arguments[0]),)), "stands where")


def make_identity_graph(backend, *specs, results):
    """Return a graph whose results are some of its arguments."""
    return Graph(backend, dict(enumerate(specs)), tuple(range(len(specs))), (), results)


def make_single_step_graph(backend, step, *specs):
    """Return a graph of one step, whose inputs are its arguments."""
    count = len(specs) - len(step.outputs)
    return Graph(backend, dict(enumerate(specs)), tuple(range(count)), (step,), step.outputs)


def test_a_scan_fits_its_body():
    backend = VECTOR.backend
    body = make_identity_graph(backend, NUMBER, ROW, NUMBER, results=(2, 1))
    step = Scan(body, 5, (0,), (1,), (2,), (3, 4), False, SOURCE_LINE)
    specs = NUMBER, MATRIX, NUMBER, NUMBER, MATRIX
    verify_graph(make_single_step_graph(backend, step, *specs))
    assert_rejected(
        make_single_step_graph(backend, replace(step, length=4), *specs), "runs 4 times over %1"
    )
    assert_rejected(
        make_single_step_graph(backend, step, NUMBER, MATRIX, ROW, NUMBER, MATRIX), "arguments"
    )
    assert_rejected(make_single_step_graph(backend, step, *specs[:3], ROW, MATRIX), "results")
    wrong = make_identity_graph(backend, NUMBER, ROW, NUMBER, results=(1, 1))
    assert_rejected(make_single_step_graph(backend, replace(step, body=wrong), *specs), "carry")
    broken = replace(body, results=(9,))
    assert_rejected(
        make_single_step_graph(backend, replace(step, body=broken), *specs),
        "result %9 is not defined",
    )


def test_a_choice_fits_its_branches():
    backend = VECTOR.backend
    yes, no = (make_identity_graph(backend, ROW, ROW, results=(i,)) for i in (0, 1))
    step = Cond(0, (yes, no), (1, 2), (3,), SOURCE_LINE)
    verify_graph(make_single_step_graph(backend, step, FLAG, ROW, ROW, ROW))
    assert_rejected(
        make_single_step_graph(backend, step, ROW, ROW, ROW, ROW), r"flag of shape \(3,\)"
    )
    assert_rejected(make_single_step_graph(backend, step, FLAG, ROW, NUMBER, ROW), "operands")
    assert_rejected(make_single_step_graph(backend, step, FLAG, ROW, ROW, NUMBER), "results")
    few = replace(step, branches=(yes, replace(no, results=())))
    assert_rejected(
        make_single_step_graph(backend, few, FLAG, ROW, ROW, ROW), "0 values instead of 1"
    )


def test_a_loop_fits_its_condition():
    backend = VECTOR.backend
    body = make_identity_graph(backend, ROW, FLAG, results=(0,))
    condition = make_identity_graph(backend, ROW, FLAG, results=(1,))
    step = While(condition, body, (0,), (1,), (2,), SOURCE_LINE)
    verify_graph(make_single_step_graph(backend, step, ROW, FLAG, ROW))
    assert_rejected(
        make_single_step_graph(backend, replace(step, condition=body), ROW, FLAG, ROW), "one flag"
    )
    assert_rejected(make_single_step_graph(backend, step, ROW, FLAG, NUMBER), "results")
    assert_rejected(
        make_single_step_graph(backend, replace(step, captured=()), ROW, FLAG, ROW), "arguments"
    )


def test_graphs_inside_have_neither_updates_nor_another_device(fake_backend):
    backend = VECTOR.backend
    v = plugrad.Variable(VECTOR)
    body = make_identity_graph(backend, ROW, FLAG, results=(0,))
    condition = make_identity_graph(backend, ROW, FLAG, results=(1,))
    step = While(condition, replace(body, updates=((v, 0),)), (0,), (1,), (2,), SOURCE_LINE)
    assert_rejected(make_single_step_graph(backend, step, ROW, FLAG, ROW), "updates variables")
    step = replace(step, body=replace(body, backend=fake_backend))
    assert_rejected(make_single_step_graph(backend, step, ROW, FLAG, ROW), "inside one for cpu:0")


@pytest.fixture
def fake_backend():
    class Other:
        label = "other:0"

    return Other()
