"""Rules that write loops and branches as nodes that call functions of the model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugrad.errors import UnsupportedModel
from plugrad.graph.graph import Cond, Scan, While
from plugrad.graph_models.writing import CONTROL_FLOW_RULES, GraphWriter, output_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plugrad.graph.graph import Graph, Value


def write_cond(
    writer: GraphWriter, steps_of_both_traces: tuple[Cond, Cond], name_of_value: dict[int, str]
) -> list[str]:
    """Write a conditional as StatelessIf with two functions."""
    step, other = steps_of_both_traces
    branches = [
        _write_function(writer, kind, (step.branches[place], other.branches[place]))
        for place, kind in enumerate(("then", "else"))
    ]
    input_names = [name_of_value[value] for value in (step.flag, *step.operands)]
    node = writer.write_node(
        "StatelessIf", input_names, then_branch=branches[0], else_branch=branches[1]
    )
    return output_names(node, len(step.outputs))


def write_while(
    writer: GraphWriter, steps_of_both_traces: tuple[While, While], name_of_value: dict[int, str]
) -> list[str]:
    """Write a loop as StatelessWhile; values that its body only reads are carried too."""
    step, other = steps_of_both_traces
    condition = _write_function(writer, "cond", (step.condition, other.condition))
    count = len(step.carry)
    body = _write_function(
        writer,
        "body",
        (step.body, other.body),
        returned_arguments=range(count, count + len(step.captured)),
    )
    input_names = [name_of_value[value] for value in (*step.carry, *step.captured)]
    node = writer.write_node("StatelessWhile", input_names, cond=condition, body=body)
    return output_names(node, len(step.outputs))


def write_scan(
    writer: GraphWriter, steps_of_both_traces: tuple[Scan, Scan], name_of_value: dict[int, str]
) -> list[str]:
    """Write a scan as StatelessWhile, which carries a counter, the carry, the stacked outputs and the slices.

    What is stacked is a tensor that each round updates. TensorFlow.js has lists of tensors for this, but disposes of
    their elements when a round ends (as of 4.22), unless they are results of it, too.
    """
    step, other = steps_of_both_traces
    if step.length != other.length:
        raise UnsupportedModel(
            f"The number of rounds of the loop at {step.line} depends on the size of the batch. Save with "
            "dynamic=False."
        )
    carry = len(step.carry)
    stacked = [
        _write_zeros(writer, str(step.body.specs[a].dtype), *shapes)
        for a, shapes in zip(
            step.body.results[carry:], _stacked_output_shapes(steps_of_both_traces), strict=True
        )
    ]
    input_names = [
        writer.write_number(0, "int32"),
        *(name_of_value[v] for v in step.carry),
        *stacked,
    ]
    input_names += [name_of_value[v] for v in (*step.slices, *step.captured)]
    loop = writer.write_node(
        "StatelessWhile",
        input_names,
        cond=_write_counter_condition(writer, step.length, len(input_names)),
        body=_write_scan_body(writer, steps_of_both_traces, len(stacked)),
    )
    return output_names(loop, len(input_names))[1 : 1 + carry + len(stacked)]


def _stacked_output_shapes(
    scans_of_both_traces: tuple[Scan, Scan],
) -> list[tuple[Sequence[int], Sequence[int]]]:
    """Return the shapes of the stacked outputs in both traces."""
    shapes = [
        [(step.length, *step.body.specs[v].shape) for v in step.body.results[len(step.carry) :]]
        for step in scans_of_both_traces
    ]
    return list(zip(*shapes, strict=True))


def _write_zeros(
    writer: GraphWriter, dtype: str, first_shape: Sequence[int], second_shape: Sequence[int]
) -> str:
    """Write zeros of a shape that may depend on the batch."""
    return writer.write_node(
        "Fill",
        [writer.write_integers(first_shape, second_shape), writer.write_number(0, dtype)],
        T=dtype,
    )


def _write_counter_condition(writer: GraphWriter, round_count: int, argument_count: int) -> str:
    """Write a function that returns whether its first argument, a counter, is below a number."""
    name = writer.new_name("scan_cond")
    inner = GraphWriter(writer.sizes, f"{name}/", writer)
    arguments = [inner.new_name(f"x{place}") for place in range(argument_count)]
    result = inner.write_node(
        "Less", [arguments[0], inner.write_number(round_count, "int32")], T="int32"
    )
    _add_function(writer, inner, name, arguments, [result])
    return name


def _write_scan_body(
    writer: GraphWriter, scans_of_both_traces: tuple[Scan, Scan], stacked_count: int
) -> str:
    """Write the body of a scan, which updates `stacked_count` stacked tensors."""
    step, other = scans_of_both_traces
    name = writer.new_name("scan_body")
    inner = GraphWriter(writer.sizes, f"{name}/", writer)
    sizes = (1, len(step.carry), stacked_count, len(step.slices), len(step.captured))
    arguments = [inner.new_name(f"x{place}") for place in range(sum(sizes))]
    rest = iter(arguments)
    (counter,), carry, stacked, slices, captured = ([next(rest) for _ in range(n)] for n in sizes)
    place = counter
    if step.is_reversed:
        place = inner.write_node(
            "Sub", [inner.write_number(step.length - 1, "int32"), counter], T="int32"
        )
    zero = inner.write_number(0, "int32")
    taken = [inner.write_node("GatherV2", [source, place, zero], batch_dims=0) for source in slices]
    known: dict[Value, str] = dict(
        zip(step.body.arguments, [*carry, *taken, *captured], strict=True)
    )
    results = inner.write_graph((step.body, other.body), known)
    where = inner.write_node("Reshape", [place, inner.write_integers([1, 1])], T="int32")
    updated = [
        inner.write_node(
            "TensorScatterUpdate", [old, where, inner.write_node("ExpandDims", [new, zero])]
        )
        for old, new in zip(stacked, results[len(carry) :], strict=True)
    ]
    following = inner.write_node("AddV2", [counter, inner.write_number(1, "int32")], T="int32")
    outputs = [following, *results[: len(carry)], *updated, *slices, *captured]
    _add_function(writer, inner, name, arguments, outputs)
    return name


def _write_function(
    writer: GraphWriter,
    name_stem: str,
    graphs_of_both_traces: tuple[Graph, Graph],
    returned_arguments: Sequence[int] = (),
) -> str:
    """Write a graph as a function that also returns the arguments in `returned_arguments`; return its name."""
    first = graphs_of_both_traces[0]
    name = writer.new_name(name_stem)
    inner = GraphWriter(writer.sizes, f"{name}/", writer)
    arguments = [inner.new_name(f"x{place}") for place in range(len(first.arguments))]
    known: dict[Value, str] = dict(zip(first.arguments, arguments, strict=True))
    results = inner.write_graph(graphs_of_both_traces, known)
    _add_function(
        writer,
        inner,
        name,
        arguments,
        [*results, *(arguments[place] for place in returned_arguments)],
    )
    return name


def _add_function(
    writer: GraphWriter,
    function_writer: GraphWriter,
    function_name: str,
    arguments: Sequence[str],
    results: Sequence[str],
) -> None:
    """Add a function to the model; each result gets an Identity node, so that none is an argument itself."""
    outputs = [function_writer.write_node("Identity", [result]) for result in results]
    writer.functions.append(
        {
            "signature": {
                "name": function_name,
                "inputArg": [{"name": argument} for argument in arguments],
                "outputArg": [{"name": output} for output in outputs],
            },
            "nodeDef": function_writer.nodes,
            "ret": {output: f"{output}:output:0" for output in outputs},
        }
    )


CONTROL_FLOW_RULES.update({Cond: write_cond, Scan: write_scan, While: write_while})
