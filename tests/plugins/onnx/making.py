"""Small models, written as text."""

import numpy as np
import onnx
from onnx import numpy_helper


def parse_model(text, opset=20, **weights):
    """Return a model, given its graph in ONNX's textual notation."""
    graph = onnx.parser.parse_graph(text)
    graph.initializer.extend(numpy_helper.from_array(np.asarray(a), n) for n, a in weights.items())
    opsets = [onnx.helper.make_opsetid("", opset)]
    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10)
