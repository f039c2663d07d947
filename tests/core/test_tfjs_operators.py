"""Every operator of TensorFlow.js's converter, as TensorFlow.js 4.22 computed it, or by hand where it cannot."""

from itertools import chain

import numpy as np
import pytest

import plugrad
import plugrad.graph_models.operators
from core.tfjs_models.making import DTypeName, GraphModelWriter, array_from_json, load_json
from core.tfjs_models.node import SCRIPT_FOLDER, needs_tfjs, run_models_in_node
from core.tfjs_models.operators import OPERATOR_CASES, add_case
from plugrad.errors import UnsupportedModel
from plugrad.graph_models.registry import (
    CONTROL_FLOW_OPERATORS,
    OPERATORS,
    OPERATORS_WITHOUT_COMPUTATION,
    UNSUPPORTED_OPERATORS,
)

RECORDS = load_json(SCRIPT_FOLDER / "records" / "operators.json")
RAGGED_VALUES = next(case.inputs for case in OPERATOR_CASES if case.op == "RaggedGather")[1]
RAGGED_ROWS = next(case.inputs for case in OPERATOR_CASES if case.op == "RaggedTensorToTensor")[1]
EXPECTED_BY_HAND = {
    "BitwiseAnd": [[8, 1]],
    "RaggedGather": [[0, 1, 3], RAGGED_VALUES[[2, 0, 1]]],
    "RaggedRange": [[0, 3], [0, 2, 4]],
    "RaggedTensorToTensor": [[[RAGGED_ROWS[0], RAGGED_ROWS[1], 0], [RAGGED_ROWS[2], 0, 0]]],
}
"""What operators give that TensorFlow.js names and cannot run."""


def expected_outputs(case, record):
    return [array_from_json(part) for part in record] if record else EXPECTED_BY_HAND[case.op]


@pytest.fixture(scope="module", params=[False, True], ids=["fed", "constant"])
def outputs_by_case(request, tmp_path_factory):
    """The outputs of all operators, computed by one model; inputs are on the device, small constants on the host."""
    making, fed, names = GraphModelWriter(), {}, []
    for place, case in enumerate(OPERATOR_CASES):
        outputs, inputs = add_case(case, making, f"c{place}/", all_constant=request.param)
        names.append(outputs)
        fed |= inputs
    folder = making.write(str(tmp_path_factory.mktemp("all")), *chain(*names))
    with plugrad.use("cpu"):
        results = iter(plugrad.tfjs.load_graph_model(folder).run(fed))
    return [[next(results) for _ in outputs] for outputs in names]


@pytest.mark.rows(
    "place", range(len(OPERATOR_CASES)), ids=lambda place: f"{OPERATOR_CASES[place]}-{place}"
)
def test_an_operator_matches_tensorflow_js(place, outputs_by_case):
    case, results = OPERATOR_CASES[place], outputs_by_case[place]
    for result, want in zip(results, expected_outputs(case, RECORDS[place]), strict=True):
        got, want = result.numpy(), np.asarray(want)
        assert got.shape == want.shape
        if want.dtype.kind in "OU":
            assert got.tolist() == want.tolist()
        else:
            np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-6)
            assert got.dtype.kind == want.dtype.kind or case.op in ("ShapeN", *EXPECTED_BY_HAND)


def test_all_operators_are_known():
    """The names are from the operation lists of @tensorflow/tfjs-converter 4.22."""
    names = (SCRIPT_FOLDER / "operators.txt").read_text().split()
    known = {*OPERATORS, *OPERATORS_WITHOUT_COMPUTATION, *CONTROL_FLOW_OPERATORS}
    assert len(names) == 248
    assert {name for name in names if name not in known} == set(UNSUPPORTED_OPERATORS)
    assert len(known & set(names)) == 235
    assert known - set(names) == {"PartitionedCall", "StatefulPartitionedCall"}


@pytest.mark.parametrize("op", sorted(UNSUPPORTED_OPERATORS))
def test_errors_name_unsupported_operators(op, tmp_path):
    making = GraphModelWriter()
    making.placeholder("x", np.ones(1, np.float32))
    making.node("table", op, "x")
    folder = making.write(str(tmp_path), "table")
    with pytest.raises(
        UnsupportedModel, match=rf"node 'table' \({op}\): (hash tables|decision forests)"
    ):
        plugrad.tfjs.load_graph_model(folder)


def test_an_operator_that_does_not_exist_is_named(tmp_path):
    making = GraphModelWriter()
    making.placeholder("x", np.ones(1, np.float32))
    making.node("y", "Sinus", "x")
    making.node("z", "Cosinus", "y")
    with pytest.raises(UnsupportedModel) as raised:
        plugrad.tfjs.load_graph_model(making.write(str(tmp_path), "z"))
    assert "node 'y' (Sinus): there is no such operator" in str(raised.value)
    assert "node 'z' (Cosinus)" in str(raised.value)


RANDOM_OPERATORS = {
    "RandomStandardNormal": {"dtype": "DT_FLOAT"},
    "TruncatedNormal": {"dtype": "DT_FLOAT"},
    "RandomUniform": {"dtype": "DT_FLOAT"},
    "RandomUniformInt": {"minval": 2, "maxval": 5},
}


@pytest.mark.parametrize("op", RANDOM_OPERATORS)
def test_random_numbers_depend_on_the_seed(op, tmp_path):
    making = GraphModelWriter()
    making.const("shape", np.array([4, 50], np.int32))
    attrs = {k: DTypeName(v) if isinstance(v, str) else v for k, v in RANDOM_OPERATORS[op].items()}
    for name, seed in (("a", 7), ("b", 7), ("c", 8)):
        making.node(name, op, "shape", seed=seed, **attrs)
    a, b, c = plugrad.tfjs.load_graph_model(making.write(str(tmp_path), "a", "b", "c"))()
    assert a.shape == (4, 50)
    assert (a.numpy() == b.numpy()).all()
    assert (a.numpy() != c.numpy()).any()
    if op == "RandomUniformInt":
        assert sorted(set(a.numpy().ravel().tolist())) == [2, 3, 4]
    elif op == "TruncatedNormal":
        assert abs(a.numpy()).max() <= 2.0


def test_classes_are_drawn_by_their_weights(tmp_path):
    making = GraphModelWriter()
    making.const("logits", np.array([[-100.0, 5.0, -100.0]], np.float32))
    making.const("count", np.array(6, np.int32))
    making.node("y", "Multinomial", "logits", "count", seed=3)
    model = plugrad.tfjs.load_graph_model(making.write(str(tmp_path), "y"))
    assert model().tolist() == [[1] * 6]


@needs_tfjs
def test_records_match_an_installed_tensorflow_js(tmp_path):
    jobs = []
    for place, case in enumerate(OPERATOR_CASES):
        making = GraphModelWriter()
        names, fed = add_case(case, making)
        folder = making.write(str(tmp_path / str(place)), *names)
        jobs.append({"folder": folder, "kind": "graph", "inputs": fed, "outputs": names})
    for case, result, record in zip(
        OPERATOR_CASES, run_models_in_node(jobs, tmp_path), RECORDS, strict=True
    ):
        assert isinstance(result, str) == (record is None), case
        if record is None:
            assert case.op in EXPECTED_BY_HAND
            continue
        for got, part in zip(result, record, strict=True):
            want = array_from_json(part)
            if want.dtype.kind in "OU":
                assert got.tolist() == want.tolist()
            else:
                np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)
