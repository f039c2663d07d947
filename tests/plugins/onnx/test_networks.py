"""Networks of the package onnx with seeded weights give the logits that onnxruntime gives.

As they are shipped, their weights are equal, and they expect 0.001 for every class.
"""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import onnx
import onnxruntime
from onnx import numpy_helper

import plugrad
import plugrad_onnx

LIGHT_MODELS_FOLDER = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


def load_with_random_weights(name, rng):
    """Return a network with random weights, without its final softmax."""
    proto = onnx.load(LIGHT_MODELS_FOLDER / f"light_{name}.onnx")
    graph = proto.graph
    shapes = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    variances = {n.input[4] for n in graph.node if n.op_type == "BatchNormalization"}
    kept = []
    for node in graph.node:
        if node.op_type == "ConstantOfShape" and node.input[0] in shapes:
            shape = tuple(map(int, shapes[node.input[0]]))
            scale = (2 / max(int(np.prod(shape[1:])), 1)) ** 0.5 if len(shape) > 1 else 0.1
            values = rng.normal(0, scale, shape).astype(np.float32)
            if node.output[0] in variances:
                values = 1 + abs(values)
            graph.initializer.append(numpy_helper.from_array(values, node.output[0]))
        else:
            kept.append(node)
    if kept[-1].op_type == "Softmax":
        graph.output[0].name = kept.pop().input[0]
        graph.output[0].type.tensor_type.ClearField("shape")
    del graph.node[:]
    graph.node.extend(kept)
    proto.ir_version = max(proto.ir_version, 8)
    return proto


@pytest.mark.parametrize("name", ["squeezenet"])
def test_logits_match_onnxruntime(backend, name, rng):
    proto = load_with_random_weights(name, rng)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # it warns of weights that are inputs, too
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    given = session.get_inputs()[0]
    x = rng.normal(size=given.shape).astype(np.float32)
    (expected,) = session.run(None, {given.name: x})
    model = plugrad_onnx.load(proto)
    for run in (model, plugrad.jit(model)):
        result = run(plugrad.asarray(x)).numpy()
        assert np.abs(result - expected).max() <= 1e-5 * np.abs(expected).max()
