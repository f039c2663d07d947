"""Unsupported models raise errors before anything runs; damaged and hostile files are rejected."""

import os
import random

import numpy as np
import pytest

pytest.importorskip("onnx")

import onnx
from onnx import numpy_helper

import plugrad_onnx
from plugins.onnx.making import parse_model
from plugrad.errors import PlugradError, UnsupportedModel
from plugrad_onnx import InvalidModel

GRAPH_TEXT = (
    "g (float[n, 3] x) => (float[n, 2] y) { h = MatMul(x, w)  i = Relu(h)  y = Softmax(i) }"
)
WEIGHTS = np.arange(6, dtype=np.float32).reshape(3, 2)


def test_errors_list_all_unknown_operators_with_remedies():
    proto = parse_model(
        "g (float[n] x) => (float[n] y) { a = Sinus(x)  b = ImageDecoder(a)  c = Relu<slope = 1>(b)"
        "  d = acme.Twist(c)  y = Unsqueeze(d) }",
        opset=12,
    )
    proto.opset_import.append(onnx.helper.make_opsetid("acme", 1))
    del proto.graph.node[-1]
    proto.graph.node[-1].output[0] = "y"
    with pytest.raises(UnsupportedModel) as raised:
        plugrad_onnx.load(proto)
    lines = str(raised.value).splitlines()[1:]
    assert lines == [
        "  node 'a' (Sinus, opset 12): ONNX has no such operator. Export the model with an exporter for ONNX.",
        "  node 'b' (ImageDecoder, opset 12): plugrad-onnx lacks this operator. Export the model with other "
        "operators, or declare one with plugrad_onnx.operator.",
        "  node 'c' (Relu, opset 12): attribute 'slope' is not known; none are.",
        "  node 'y' (acme.Twist, opset 1): operators of the domain 'acme' are not known. Export the model "
        "with ONNX's own operators, or add the operator as a function of the model.",
    ]


def alter_model(change):
    proto = parse_model(GRAPH_TEXT, w=WEIGHTS)
    change(proto)
    return proto


def negative_size(proto):
    proto.graph.initializer[0].dims[0] = -3


def size_beyond_data(proto):
    proto.graph.initializer[0].dims[0] = 1 << 40


def unknown_element_type(proto):
    proto.graph.initializer[0].data_type = 99


def cyclic_graph(proto):
    proto.graph.node[0].input[0] = "i"


def duplicate_output(proto):
    proto.graph.node[1].output[0] = "h"
    proto.graph.node[2].input[0] = "h"


def undefined_output(proto):
    proto.graph.output[0].name = "nowhere"


def superfluous_input(proto):
    proto.graph.node[1].input.append("x")


def missing_attribute(proto):
    proto.graph.node[1].op_type = "Concat"
    proto.graph.node[2].op_type = "Cast"


def missing_opset(proto):
    del proto.opset_import[:]


def recursive_function(proto):
    node = onnx.helper.make_node("f", ["a"], ["b"], domain="own")
    opsets = [onnx.helper.make_opsetid("own", 1)]
    proto.functions.append(onnx.helper.make_function("own", "f", ["a"], ["b"], [node], opsets))
    proto.graph.node[1].domain, proto.graph.node[1].op_type = "own", "f"


def deeply_nested_graphs(proto):
    inner = proto.graph.node[1]
    for _ in range(40):
        graph = onnx.helper.make_graph([inner], "deep", [], [proto.graph.output[0]])
        inner = onnx.helper.make_node("If", ["c"], ["y"], then_branch=graph, else_branch=graph)
        graph = None
        if inner.ByteSize() > 1 << 16:
            break
    proto.graph.node[1].CopyFrom(inner)


def huge_sparse_tensor(proto):
    sparse = proto.graph.sparse_initializer.add(dims=[1 << 20, 1 << 20])
    sparse.values.CopyFrom(numpy_helper.from_array(np.ones(1, np.float32), "s"))
    sparse.indices.CopyFrom(numpy_helper.from_array(np.zeros(1, np.int64)))


@pytest.mark.parametrize(
    "change",
    [
        negative_size,
        size_beyond_data,
        unknown_element_type,
        cyclic_graph,
        duplicate_output,
        undefined_output,
        superfluous_input,
        missing_attribute,
        missing_opset,
        recursive_function,
        deeply_nested_graphs,
        huge_sparse_tensor,
    ],
)
def test_models_that_break_onnx_rules_are_rejected(change):
    with pytest.raises(InvalidModel):
        plugrad_onnx.load(alter_model(change))


@pytest.mark.parametrize("content", [b"", b"not a model", b"\x0a\xff\xff\xff\xff\x0f"])
def test_files_that_are_no_models_are_rejected(content, tmp_path):
    (tmp_path / "model.onnx").write_bytes(content)
    with pytest.raises(InvalidModel, match=r"model\.onnx"):
        plugrad_onnx.load(tmp_path / "model.onnx")


@pytest.mark.parametrize(
    ("location", "offset", "length"),
    [
        ("../secret.bin", "0", "24"),
        ("{outside}", "0", "24"),
        ("link.bin", "0", "24"),
        ("missing.bin", "0", "24"),
        ("", "0", "24"),
        ("inside.bin", "-8", "24"),
        ("inside.bin", "8", "24"),
        ("inside.bin", "0", "1000000000000"),
        ("inside.bin", "zero", "24"),
    ],
)
def test_external_data_outside_of_folder_or_file_are_not_opened(tmp_path, location, offset, length):
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret.bin").write_bytes(bytes(24))
    (folder / "inside.bin").write_bytes(bytes(24))
    (folder / "link.bin").symlink_to(tmp_path / "secret.bin")
    proto = parse_model(GRAPH_TEXT, w=WEIGHTS)
    tensor = proto.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    values = {
        "location": location.format(outside=tmp_path / "secret.bin"),
        "offset": offset,
        "length": length,
    }
    for key, value in values.items():
        tensor.external_data.add(key=key, value=value)
    (folder / "model.onnx").write_bytes(proto.SerializeToString())
    with pytest.raises(InvalidModel, match="'w'"):
        plugrad_onnx.load(folder / "model.onnx")


def test_a_constant_that_would_fill_the_memory_is_refused():
    text = "g () => (float[n, n] y) { y = ConstantOfShape(s) }"
    model = plugrad_onnx.load(parse_model(text, s=np.array([1 << 30, 1 << 30], np.int64)))
    with pytest.raises(InvalidModel, match="bytes"):
        model()


@pytest.mark.filterwarnings("ignore")
def test_damaged_files_raise_errors_of_plugrad_only(tmp_path):
    """``DAMAGED_FILES=2000`` tries 2000 damages."""
    count = int(os.environ.get("DAMAGED_FILES", "300"))
    content = parse_model(GRAPH_TEXT, w=WEIGHTS).SerializeToString()
    chance = random.Random(0)
    path = tmp_path / "model.onnx"
    refused = 0
    for _ in range(count):
        damaged = bytearray(content)
        for _ in range(chance.randint(1, 4)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        if chance.random() < 0.2:
            del damaged[chance.randrange(len(damaged)) :]
        path.write_bytes(damaged)
        try:
            plugrad_onnx.load(path)(np.ones((2, 3), np.float32))
        except PlugradError:
            refused += 1
    assert refused > count / 2


def test_a_recurrent_node_whose_state_has_another_size_than_the_node_says():
    """PyTorch writes such nodes for an LSTM with a projection, which ONNX lacks."""
    text = """
        g (float[2, 1, 3] x, float[1, 1, 8] c) => (float[2, 1, 1, 4] y)
        { y = LSTM <hidden_size = 4> (x, w, r, b, , , c) }
    """
    sizes = {"w": (1, 16, 3), "r": (1, 16, 4), "b": (1, 32)}
    weights = {name: np.zeros(size, "float32") for name, size in sizes.items()}
    model = plugrad_onnx.load(parse_model(text, **weights))
    with pytest.raises(InvalidModel, match=r"shape \(1, 1, 8\); .* hidden_size=4 .*proj_size"):
        model(np.zeros((2, 1, 3), "float32"), np.zeros((1, 1, 8), "float32"))
