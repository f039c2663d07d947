"""Loops of a trace that are recurrent networks, and the nodes that ONNX has for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import plugrad
from plugrad_onnx.cells import CELLS_BY_NAME, RecurrentCell, cell_input_shapes, run_recurrent
from plugrad_onnx.elements import as_array
from plugrad_onnx.exporting.writer import LOOP_RULES, Writer
from plugrad_onnx.recorded_calls import record_call

if TYPE_CHECKING:
    from plugrad.extend import Graph

ValuePairing = dict[Any, Any]
"""The corresponding value of a second graph for each value of a first one."""


def write_loop_as_recurrent(
    writer: Writer, graphs: tuple[Graph, Graph], loop_pair: Any, value_names: dict[int, str]
) -> bool:
    """Write a loop as an ONNX recurrent node if it computes an LSTM, GRU or simple RNN; return whether it does."""
    for name, cell in CELLS_BY_NAME.items():
        found, other = (_match_loop(cell, *both) for both in zip(graphs, loop_pair, strict=True))
        if found and other:
            used = {value for step in graphs[0].steps for value in step.inputs}
            used.update(graphs[0].results)
            outputs = [writer.new_name() if value in used else "" for value in loop_pair[0].outputs]
            value_names.update(zip(loop_pair[0].outputs, outputs, strict=True))
            _write_recurrent_node(
                writer, name, cell, [value_names[value] for value in found], outputs, loop_pair[0]
            )
            return True
    return False


LOOP_RULES.append(write_loop_as_recurrent)


def _write_recurrent_node(
    writer: Writer,
    cell_name: str,
    cell: RecurrentCell,
    inputs: list[str],
    outputs: list[str],
    loop_step: Any,
) -> None:
    """Write the node of a recurrent network, and the nodes for its outputs that are used."""
    start = len(writer.nodes)
    x, kernel, bias, recurrent, *initial = inputs
    units = loop_step.body.specs[loop_step.body.arguments[0]].shape[-1]
    first, second = writer.write_integers([0]), writer.write_integers([1])
    weights = [
        writer.emit("Unsqueeze", [writer.emit("Transpose", [part], perm=[1, 0]), first])
        for part in (_reorder_gates(writer, cell, w, units) for w in (kernel, recurrent))
    ]
    attributes = {"hidden_size": units} | (
        {"linear_before_reset": 1} if cell.has_two_biases else {}
    )
    made = [writer.new_name() for _ in range(1 + cell.state_tensor_count)]
    writer.emit(
        cell.onnx_operator,
        [
            writer.emit("Transpose", [x], perm=[1, 0, 2]),
            *weights,
            _write_biases(writer, cell, bias, units, loop_step),
            "",
            *(writer.emit("Unsqueeze", [state, first]) for state in initial),
        ],
        made,
        **attributes,
    )
    returns_sequences = len(outputs) > cell.state_tensor_count
    all_made = [*made[1:], made[0]] if returns_sequences else made[1:]
    for output, result in zip(outputs, all_made, strict=True):
        if output:
            axis = second if result == made[0] else first
            writer.emit("Squeeze", [result, axis], [output])
    attrs = {"returns_sequences": returns_sequences}
    record_call(writer.nodes[start:], cell_name, attrs, inputs, outputs)


def _reorder_gates(writer: Writer, cell: RecurrentCell, weights_name: str, units: int) -> str:
    """Write a kernel or a bias with its columns in ONNX's order of gates; return its name."""
    if len(cell.onnx_gate_positions) == 1:
        return weights_name
    parts = [writer.new_name() for _ in cell.onnx_gate_positions]
    writer.emit(
        "Split", [weights_name, writer.write_integers([units] * len(parts))], parts, axis=-1
    )
    return writer.emit("Concat", [parts[gate] for gate in cell.onnx_gate_positions], axis=-1)


def _write_biases(
    writer: Writer, cell: RecurrentCell, bias_name: str, units: int, loop_step: Any
) -> str:
    """Write the input bias and the recurrent bias in one row; return its name."""
    bias_name = _reorder_gates(writer, cell, bias_name, units)
    columns = len(cell.onnx_gate_positions) * units
    if not cell.has_two_biases:
        dtype = np.dtype(loop_step.body.specs[loop_step.body.arguments[0]].dtype.name)
        bias_name = writer.emit(
            "Concat", [bias_name, writer.write_constant(np.zeros(columns, dtype))], axis=0
        )
    return writer.emit("Reshape", [bias_name, writer.write_integers([1, 2 * columns])])


def _match_loop(cell: RecurrentCell, graph: Graph, loop_step: Any) -> list[int] | None:
    """Return x, kernel, bias, recurrent kernel and first state if a loop computes this cell, else None."""
    if (
        len(loop_step.carry) != cell.state_tensor_count
        or len(loop_step.slices) != 1
        or loop_step.is_reversed
    ):
        return None
    makers: dict[int, Any] = {value: made for made in graph.steps for value in made.outputs}
    product = _find_producing_step(makers, loop_step.slices[0], ("Transpose", "Add", "BatchMatMul"))
    if product is None:
        return None
    sequences = graph.specs[product.inputs[0]].shape
    spec = graph.specs[loop_step.carry[0]]
    if len(sequences) != 3:
        return None
    with plugrad.use(str(graph.backend.label)):
        examples = [
            plugrad.zeros(shape, dtype=spec.dtype)
            for shape in cell_input_shapes(cell, sequences, spec.shape[-1])
        ]
        wanted = plugrad.make_graph(
            lambda *values: run_recurrent(
                cell, *values, returns_sequences=len(loop_step.outputs) > cell.state_tensor_count
            ),  # pyright: ignore[reportUnknownLambdaType]
            differentiable=True,
        )(*examples)
    binding: ValuePairing = {}
    loop: Any = wanted.steps[-1]
    computes_same = _make_comparison(wanted, graph, binding)
    is_such = _is_same_loop(loop, loop_step) and all(
        computes_same(one, two) for one, two in zip(loop.inputs, loop_step.inputs, strict=True)
    )
    return [binding[value] for value in wanted.arguments] if is_such else None


def _find_producing_step(
    producing_steps: dict[int, Any], value: int, kernel_names: tuple[str, ...]
) -> Any:
    """Follow the first inputs back from a value through steps with these kernels; return the last step found."""
    step: Any = None
    for kernel in kernel_names:
        step = producing_steps.get(value)
        if type(step).__name__ != "Call" or step.kernel.name != kernel:
            return None
        value = step.inputs[0]
    return step


def _is_same_loop(first_loop: Any, second_loop: Any) -> bool:
    """Whether the bodies of two loops compute the same."""
    counts = [
        (len(s.carry), len(s.slices), len(s.captured), len(s.outputs))
        for s in (first_loop, second_loop)
    ]
    if counts[0] != counts[1] or first_loop.length != second_loop.length or second_loop.is_reversed:
        return False
    binding = dict(zip(first_loop.body.arguments, second_loop.body.arguments, strict=True))
    computes_same = _make_comparison(first_loop.body, second_loop.body, binding)
    return all(
        computes_same(a, b)
        for a, b in zip(first_loop.body.results, second_loop.body.results, strict=True)
    )


def _make_comparison(first_graph: Graph, second_graph: Graph, value_pairing: ValuePairing) -> Any:
    """Return a function that decides whether values of two graphs are computed by the same operations."""
    makers: list[dict[Any, Any]] = [
        {value: step for step in graph.steps for value in step.outputs}
        for graph in (first_graph, second_graph)
    ]

    def computes_same(a: Any, b: Any) -> bool:
        """Return whether a value of the first graph is computed as one of the second graph is."""
        if a is None or b is None or a in value_pairing:
            return a is b or value_pairing.get(a) == b
        if first_graph.specs[a] != second_graph.specs[b]:
            return False
        value_pairing[a] = b
        first: Any = makers[0].get(a)
        second: Any = makers[1].get(b)
        if first is None:
            return a not in first_graph.constants or (
                b in second_graph.constants
                and _are_equal_constants(
                    first_graph.constants[a], second_graph.constants[b], first_graph, second_graph
                )
            )
        return (
            type(first).__name__ == type(second).__name__ == "Call"
            and first.kernel.name == second.kernel.name
            and first.attrs == second.attrs
            and first.outputs.index(a) == second.outputs.index(b)
            and len(first.inputs) == len(second.inputs)
            and all(computes_same(x, y) for x, y in zip(first.inputs, second.inputs, strict=True))
        )

    return computes_same


def _are_equal_constants(
    first_value: Any, second_value: Any, first_graph: Graph, second_graph: Graph
) -> bool:
    """Whether two constants hold the same numbers."""
    return np.array_equal(
        as_array(first_graph.backend.to_numpy(first_value)),
        as_array(second_graph.backend.to_numpy(second_value)),
    )
