"""Large weights are read from the file at once, and are those that protobuf reads."""

import ml_dtypes
import numpy as np
import pytest

pytest.importorskip("onnx")

import onnx

import plugrad_onnx
from plugins.onnx.making import parse_model
from plugrad_onnx import InvalidModel, weights

ROW_COUNT = 2000
WEIGHTS = np.arange(ROW_COUNT * 3, dtype=np.float32).reshape(ROW_COUNT, 3)
GRAPH_TEXT = "g (float[n, 2000] x) => (float[n, 3] y) { y = MatMul(x, w) }"


def write_model(path, **arrays):
    proto = parse_model(GRAPH_TEXT, w=WEIGHTS, **arrays)
    onnx.save(proto, path)
    return proto


def split_written_model(path):
    with path.open("rb") as file:
        return weights.split_model(file)


def test_weights_match_those_that_protobuf_reads(tmp_path, rng):
    path = tmp_path / "f.onnx"
    arrays = {
        "flags": rng.random(20000) < 0.5,
        "small": np.ones(3),
        "half": rng.normal(size=(100, 100)).astype(np.float16),
        "brain": rng.normal(size=10000).astype(ml_dtypes.bfloat16),
        "nibbles": rng.integers(-8, 8, 50000).astype(ml_dtypes.int4),
    }
    proto = write_model(path, **arrays)
    content, places = split_written_model(path)
    assert sorted(places) == [0, 1, 3, 4, 5]
    assert len(content) < 1000
    one, two = plugrad_onnx.load(path).weights, plugrad_onnx.load(proto).weights
    for name in ("w", *arrays):
        assert one[name].dtype == two[name].dtype
        np.testing.assert_array_equal(one[name], two[name])


def test_a_model_is_saved_with_its_large_weights(tmp_path):
    write_model(tmp_path / "f.onnx")
    model = plugrad_onnx.load(tmp_path / "f.onnx")
    model.weights["w"] = WEIGHTS + 1
    model.save(tmp_path / "g.onnx")
    np.testing.assert_array_equal(plugrad_onnx.load(tmp_path / "g.onnx").weights["w"], WEIGHTS + 1)


def test_weights_that_do_not_fit_are_refused(tmp_path):
    proto = parse_model(GRAPH_TEXT, w=WEIGHTS)
    proto.graph.initializer[0].dims[0] = ROW_COUNT + 1
    onnx.save(proto, tmp_path / "f.onnx")
    with pytest.raises(InvalidModel, match=r"'w': its data do not fit shape \(2001, 3\)"):
        plugrad_onnx.load(tmp_path / "f.onnx")


def test_unusual_weight_encodings_are_read_by_protobuf(tmp_path):
    path = tmp_path / "f.onnx"
    content = write_model(path).SerializeToString()
    path.write_bytes(
        content + onnx.ModelProto(graph=onnx.GraphProto(doc_string="more")).SerializeToString()
    )
    assert split_written_model(path) is None
    np.testing.assert_array_equal(plugrad_onnx.load(path).weights["w"], WEIGHTS)
    for damaged in (b"", content[:-5], content[:5000], b"\xff" * 20, b"\x3b\x00"):
        path.write_bytes(damaged)
        assert split_written_model(path) is None
        with pytest.raises(InvalidModel):
            plugrad_onnx.load(path)
