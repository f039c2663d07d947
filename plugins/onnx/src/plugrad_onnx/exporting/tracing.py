"""Export of a function to a file: it is traced at two batch sizes, and the model is checked at a third."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import onnx
from onnx import helper

import plugrad
from plugrad.errors import ArgumentValueError, UnsupportedModel
from plugrad_onnx.elements import as_array, element_type
from plugrad_onnx.exporting.writer import Writer
from plugrad_onnx.model import load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

IR_VERSION_OF_OPSET: Final = {20: 10, 23: 11, 26: 13}
"""The format version of each opset that may be written: a model has the first opset with all its operators."""
FIRST_OPSET_OF_OPERATOR: Final = {"Attention": 23, "CumProd": 26}
"""The first opset of `IR_VERSION_OF_OPSET` that has an operator, where it is not the oldest."""
TRACED_BATCH_SIZES: Final = (3, 5)
"""The batch sizes that are traced. Results at a third one, 2, are compared with those of the function."""


def export(
    function: Callable[..., Any],
    *examples: Any,
    path: str | os.PathLike[str],
    dynamic: Sequence[str] = ("batch",),
    names: Sequence[str] | None = None,
) -> None:
    """Export a function of tensors, traced with examples of its arguments, as an ONNX model.

    Args:
        function: A function of tensors that returns a tensor, or a list or tuple of tensors. The
            variables that it reads become weights with their names.
        *examples: Its arguments: tensors, or what `plugrad.asarray` takes.
        path: The file to write.
        dynamic: The name of the first axis of all arguments, whose size may be any; or nothing, if
            all sizes are those of the examples.
        names: The names of the inputs; without, x0, x1 and so on.

    Raises:
        ArgumentValueError: `dynamic` or `names` do not fit the examples.
        UnsupportedModel: a kernel has no counterpart in ONNX, the function does other things for
            other sizes, or the model does not compute what the function does.
        TracingError: the function looks at values.

    Examples:
        >>> import plugrad_onnx
        >>> w = plugrad.Variable([[1.0], [2.0]], name="w")
        >>> plugrad_onnx.export(lambda x: plugrad.relu(x @ w), plugrad.ones((1, 2)), path="f.onnx")
        >>> plugrad_onnx.load("f.onnx")(plugrad.ones((3, 2))).shape
        (3, 1)
    """
    tensors = [plugrad.asarray(example) for example in examples]
    inputs = [f"x{place}" for place in range(len(tensors))] if names is None else list(names)
    if len(inputs) != len(tensors) or len(dynamic) > 1:
        raise ArgumentValueError(
            f"names {tuple(inputs)} and dynamic {tuple(dynamic)}: expected {len(tensors)} names, "
            "and one name of an axis or none."
        )
    if dynamic and not all(tensor.ndim for tensor in tensors):
        raise ArgumentValueError("Examples have a first axis, the batch, if dynamic names one.")
    sizes = TRACED_BATCH_SIZES if dynamic else (0, 0)
    graphs: list[Any] = []
    for size in sizes:
        resized = [_repeat_rows(tensor, size) if dynamic else tensor for tensor in tensors]
        graphs.append(plugrad.make_graph(function, differentiable=True)(*resized))
    writer = Writer(sizes, inputs[0] if dynamic else "")
    first, second = graphs
    known = dict(zip(first.arguments, inputs, strict=True))
    results = writer.write_graph((first, second), known)
    outputs = [writer.emit("Identity", [name], [f"y{place}"]) for place, name in enumerate(results)]
    axis = dynamic[0] if dynamic else ""
    specs = [[graph.specs[v] for v in (*graph.arguments, *graph.results)] for graph in graphs]
    described = [
        _describe_value(name, one, two, axis)
        for name, one, two in zip((*inputs, *outputs), specs[0], specs[1], strict=True)
    ]
    count = len(inputs)
    nodes, weights = writer.collect_dependencies(outputs)
    graph = helper.make_graph(nodes, "plugrad", described[:count], described[count:], weights)
    opset = max(
        FIRST_OPSET_OF_OPERATOR.get(kind, min(IR_VERSION_OF_OPSET))
        for kind in ("", *_find_operator_names(nodes))
    )
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", opset)],
        ir_version=IR_VERSION_OF_OPSET[opset],
        producer_name="plugrad",
    )
    _check_model(function, model, [_repeat_rows(t, 2) if dynamic else t for t in tensors])
    onnx.save_model(model, os.fspath(path))  # pyright: ignore[reportUnknownMemberType]


def _find_operator_names(nodes: Iterable[onnx.NodeProto]) -> set[str]:
    """Return the operators of nodes, including the nodes of loop bodies."""
    inside = (
        _find_operator_names(attribute.g.node) for node in nodes for attribute in node.attribute
    )
    return {node.op_type for node in nodes}.union(*inside)


def _repeat_rows(tensor: plugrad.Tensor, row_count: int) -> plugrad.Tensor:
    """Return a tensor of `row_count` rows that repeats the rows of another one."""
    array = as_array(tensor)
    rows = np.arange(row_count) % max(len(array), 1)
    return plugrad.asarray(array[rows], dtype=tensor.dtype, device=tensor.device)


def _describe_value(
    name: str, first_spec: Any, second_spec: Any, batch_axis_name: str
) -> onnx.ValueInfoProto:
    """Return the ONNX description of an input or output; sizes that differ between the traces are dynamic."""
    shape = [
        a if a == b else batch_axis_name if place == 0 else None
        for place, (a, b) in enumerate(zip(first_spec.shape, second_spec.shape, strict=True))
    ]
    return helper.make_tensor_value_info(name, element_type(first_spec.dtype), shape)


def _are_close(a: Any, b: Any) -> bool:
    """Whether arrays are nearly equal; strings must be equal."""
    if a.dtype.kind in "TUO":
        return bool((a == b).all())
    return np.allclose(a, b, 1e-3, 1e-4, equal_nan=True)


def _check_model(
    function: Callable[..., Any], model: onnx.ModelProto, tensors: Sequence[plugrad.Tensor]
) -> None:
    """Compare the outputs of the model with those of the function."""
    returned: Any = function(*tensors)
    wanted: list[Any] = [*returned] if isinstance(returned, (list, tuple)) else [returned]
    results = load(model).run(dict(zip((v.name for v in model.graph.input), tensors, strict=True)))
    for place, (expected, result) in enumerate(zip(wanted, results, strict=True)):
        one, two = as_array(expected), as_array(result)
        if one.shape != two.shape or not _are_close(one, two):
            raise UnsupportedModel(
                f"Output {place} of the model has shape {two.shape} and differs from what the function "
                f"returns for a batch of another size, of shape {one.shape}: what it does depends on the "
                "size. Export with dynamic=()."
            )
