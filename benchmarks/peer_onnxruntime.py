"""The MobileNet workload (W3) in onnxruntime."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnxruntime
import workloads
from onnx import TensorProto, helper, numpy_helper
from workloads import Peer, Workload

if TYPE_CHECKING:
    from collections.abc import Callable


def peers() -> list[Peer]:
    """Return onnxruntime, limited to one thread."""
    return [Peer("onnxruntime", onnxruntime.__version__, STEPS)]


def mobilenet() -> Workload:
    """Return the workload of inference with MobileNet (W3)."""
    image, layers, matrix = workloads.mobilenet()
    nodes: list[Any] = []
    constants: list[Any] = []

    def constant(values: workloads.Array) -> str:
        name = f"constant{len(constants)}"
        constants.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def node(kind: str, *inputs: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(kind, inputs, [f"y{len(nodes)}"], **attributes))
        return nodes[-1].output[0]

    bounds = [constant(np.float32(bound)) for bound in (0, 6)]
    h = kept = "x"
    for layer in layers:
        kept = h if layer.starts_residual else kept
        axes = (2, 3, 0, 1) if layer.is_depthwise else (3, 2, 0, 1)
        filter = layer.filter.transpose(axes)
        h = node(
            "Conv",
            h,
            constant(filter),
            constant(layer.bias),
            strides=[layer.strides] * 2,
            pads=[layer.filter.shape[0] // 2] * 4,
            group=len(filter) if layer.is_depthwise else 1,
        )
        h = node("Clip", h, *bounds) if layer.has_relu6 else h
        h = node("Add", h, kept) if layer.ends_residual else h
    h = node("Flatten", node("GlobalAveragePool", h))
    y = node("MatMul", h, constant(matrix))
    x = np.ascontiguousarray(image.transpose(0, 3, 1, 2))
    graph = helper.make_graph(
        nodes,
        "W3",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info(y, TensorProto.FLOAT, None)],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)

    def run() -> Any:
        return session.run([y], {"x": x})[0]

    return Workload(run, lambda: [float(np.abs(run()).mean()), float(run()[0, 7])])


STEPS: dict[str, Callable[[], Workload]] = {"W3": mobilenet}
