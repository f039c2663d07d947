"""Loops and branches as they are written: nodes that run functions of the file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugrad.errors import UnsupportedModel
from plugrad.graph.graph import Cond, Scan, While
from plugrad.graph_models.writing import CONTROL_FLOW_RULES, GraphWriter, output_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plugrad.graph.graph import Graph, Value


def write_cond(writer: GraphWriter, pair: tuple[Cond, Cond], names: dict[int, str]) -> list[str]:
    """Write a conditional as StatelessIf with two functions."""
    step, other = pair
    branches = [
        _write_function(writer, kind, (step.branches[place], other.branches[place]))
        for place, kind in enumerate(("then", "else"))
    ]
    inputs = [names[value] for value in (step.flag, *step.operands)]
    node = writer.emit("StatelessIf", inputs, then_branch=branches[0], else_branch=branches[1])
    return output_names(node, len(step.outputs))


def write_while(writer: GraphWriter, pair: tuple[While, While], names: dict[int, str]) -> list[str]:
    """Write a loop as StatelessWhile; values that its body only reads are carried too."""
    step, other = pair
    condition = _write_function(writer, "cond", (step.condition, other.condition))
    count = len(step.carry)
    body = _write_function(
        writer, "body", (step.body, other.body), passed=range(count, count + len(step.captured))
    )
    inputs = [names[value] for value in (*step.carry, *step.captured)]
    node = writer.emit("StatelessWhile", inputs, cond=condition, body=body)
    return output_names(node, len(step.outputs))


def write_scan(writer: GraphWriter, pair: tuple[Scan, Scan], names: dict[int, str]) -> list[str]:
    """Write a scan as StatelessWhile, which carries a counter, the carry, the stacked outputs and the slices.

    What is stacked is a tensor that each round updates. TensorFlow.js has lists of tensors for this, but disposes of
    their elements when a round ends (as of 4.22), unless they are results of it, too.
    """
    step, other = pair
    if step.length != other.length:
        raise UnsupportedModel(
            f"The number of rounds of the loop at {step.line} depends on the size of the batch. Save with "
            "dynamic=False."
        )
    carry = len(step.carry)
    stacked = [
        _write_zeros(writer, str(step.body.specs[a].dtype), *shapes)
        for a, shapes in zip(step.body.results[carry:], _stacked_shapes(pair), strict=True)
    ]
    inputs = [writer.number(0, "int32"), *(names[v] for v in step.carry), *stacked]
    inputs += [names[v] for v in (*step.slices, *step.captured)]
    loop = writer.emit(
        "StatelessWhile",
        inputs,
        cond=_write_counter_condition(writer, step.length, len(inputs)),
        body=_write_scan_body(writer, pair, len(stacked)),
    )
    return output_names(loop, len(inputs))[1 : 1 + carry + len(stacked)]


def _stacked_shapes(pair: tuple[Scan, Scan]) -> list[tuple[Sequence[int], Sequence[int]]]:
    """Return the shapes of the stacked outputs in both traces."""
    shapes = [
        [(step.length, *step.body.specs[v].shape) for v in step.body.results[len(step.carry) :]]
        for step in pair
    ]
    return list(zip(*shapes, strict=True))


def _write_zeros(
    writer: GraphWriter, dtype: str, first: Sequence[int], second: Sequence[int]
) -> str:
    return writer.emit("Fill", [writer.integers(first, second), writer.number(0, dtype)], T=dtype)


def _write_counter_condition(writer: GraphWriter, length: int, count: int) -> str:
    """Write a function that returns whether its first argument, a counter, is below a number."""
    name = writer.new_name("scan_cond")
    inner = GraphWriter(writer.sizes, f"{name}/", writer)
    arguments = [inner.new_name(f"x{place}") for place in range(count)]
    result = inner.emit("Less", [arguments[0], inner.number(length, "int32")], T="int32")
    _add_function(writer, inner, name, arguments, [result])
    return name


def _write_scan_body(writer: GraphWriter, pair: tuple[Scan, Scan], count: int) -> str:
    """Write the body of a scan, which updates `count` stacked tensors."""
    step, other = pair
    name = writer.new_name("scan_body")
    inner = GraphWriter(writer.sizes, f"{name}/", writer)
    sizes = (1, len(step.carry), count, len(step.slices), len(step.captured))
    arguments = [inner.new_name(f"x{place}") for place in range(sum(sizes))]
    rest = iter(arguments)
    (counter,), carry, stacked, slices, captured = ([next(rest) for _ in range(n)] for n in sizes)
    place = counter
    if step.is_reversed:
        place = inner.emit("Sub", [inner.number(step.length - 1, "int32"), counter], T="int32")
    zero = inner.number(0, "int32")
    taken = [inner.emit("GatherV2", [source, place, zero], batch_dims=0) for source in slices]
    known: dict[Value, str] = dict(
        zip(step.body.arguments, [*carry, *taken, *captured], strict=True)
    )
    results = inner.write_graph((step.body, other.body), known)
    where = inner.emit("Reshape", [place, inner.integers([1, 1])], T="int32")
    updated = [
        inner.emit("TensorScatterUpdate", [old, where, inner.emit("ExpandDims", [new, zero])])
        for old, new in zip(stacked, results[len(carry) :], strict=True)
    ]
    following = inner.emit("AddV2", [counter, inner.number(1, "int32")], T="int32")
    outputs = [following, *results[: len(carry)], *updated, *slices, *captured]
    _add_function(writer, inner, name, arguments, outputs)
    return name


def _write_function(
    writer: GraphWriter, kind: str, pair: tuple[Graph, Graph], passed: Sequence[int] = ()
) -> str:
    """Write a graph as a function that also returns the arguments in `passed`; return its name."""
    first = pair[0]
    name = writer.new_name(kind)
    inner = GraphWriter(writer.sizes, f"{name}/", writer)
    arguments = [inner.new_name(f"x{place}") for place in range(len(first.arguments))]
    known: dict[Value, str] = dict(zip(first.arguments, arguments, strict=True))
    results = inner.write_graph(pair, known)
    _add_function(
        writer, inner, name, arguments, [*results, *(arguments[place] for place in passed)]
    )
    return name


def _add_function(
    writer: GraphWriter,
    inner: GraphWriter,
    name: str,
    arguments: Sequence[str],
    results: Sequence[str],
) -> None:
    """Add a function to the model; each result gets an Identity node, so that none is an argument itself."""
    outputs = [inner.emit("Identity", [result]) for result in results]
    writer.functions.append(
        {
            "signature": {
                "name": name,
                "inputArg": [{"name": argument} for argument in arguments],
                "outputArg": [{"name": output} for output in outputs],
            },
            "nodeDef": inner.nodes,
            "ret": {output: f"{output}:output:0" for output in outputs},
        }
    )


CONTROL_FLOW_RULES.update({Cond: write_cond, Scan: write_scan, While: write_while})
