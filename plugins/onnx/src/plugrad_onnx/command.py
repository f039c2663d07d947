"""The command ``plugrad onnx``, which describes a model, or runs and times it."""

from __future__ import annotations

import json
import math
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

import numpy as np

import plugrad
from plugrad.errors import ArgumentValueError, UnsupportedModel
from plugrad.extend import is_interruption
from plugrad_onnx.elements import as_array, numpy_dtype
from plugrad_onnx.graph import opsets_by_domain
from plugrad_onnx.model import load
from plugrad_onnx.reading import read_model

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable, Iterable, Sequence

    import onnx
    from numpy.typing import NDArray

EXIT_STATUS_UNSUPPORTED: Final = 1
"""The exit status for a model that cannot run."""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``plugrad onnx``."""
    parser.set_defaults(chosen=lambda _: parser.print_help())  # pyright: ignore[reportUnknownLambdaType]
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    info = commands.add_parser("info", help="show inputs, outputs, weights and operators")
    info.set_defaults(chosen=describe_model)
    run = commands.add_parser("run", help="run a model on given or random inputs, and time it")
    run.set_defaults(chosen=time_model)
    run.add_argument("--backend", help="the backend; without, the active one")
    run.add_argument(
        "--input", action="append", default=[], metavar="NAME=FILE",
        help="an input from a file of NumPy (.npy); the others are random numbers",
    )  # fmt: skip
    run.add_argument(
        "--size", action="append", default=[], metavar="NAME=N",
        help="the size of an axis that the model leaves open; without, 1",
    )  # fmt: skip
    run.add_argument("--times", type=int, default=5, metavar="N", help="runs to time (default 5)")
    run.add_argument("--seed", type=int, default=0, metavar="N", help="of the random inputs")
    run.add_argument("--jit", action="store_true", help="compile the model as one graph")
    run.add_argument("--output", metavar="FILE", help="write the outputs to a file of NumPy (.npz)")
    for command in (info, run):
        command.add_argument("model", help="the model's file")
        command.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: Namespace) -> int | None:
    """Run the subcommand that `add_arguments` has parsed.

    Raises:
        ArgumentValueError: a file cannot be read or written.
    """
    try:
        return arguments.chosen(arguments)
    except OSError as error:
        if is_interruption(error):
            raise
        raise ArgumentValueError(f"{error.filename}: {error.strerror}.") from error


def describe_model(arguments: Namespace) -> int:
    """Print a description of a model; return 1 if it cannot run here."""
    proto, _ = read_model(arguments.model)
    problems = ""
    try:
        load(arguments.model)
    except UnsupportedModel as error:
        problems = str(error)
    weights = {t.name for t in proto.graph.initializer}
    given = [value for value in proto.graph.input if value.name not in weights]
    used = Counter(f"{n.domain}.{n.op_type}".removeprefix(".") for n in _iter_nodes(proto))
    counts = [(math.prod(t.dims), numpy_dtype(t.data_type)) for t in proto.graph.initializer]
    numbers = sum(count for count, _ in counts)
    sizes = sum(count * dtype.itemsize for count, dtype in counts)
    record: dict[str, Any] = {
        "file": {"bytes": Path(arguments.model).stat().st_size},
        "producer": f"{proto.producer_name} {proto.producer_version}".strip(),
        "opsets": {
            domain or "ai.onnx": v for domain, v in opsets_by_domain(proto.opset_import).items()
        },
        "weights": {"tensors": len(weights), "numbers": numbers, "bytes": sizes},
        "inputs": [_describe_value_info(value) for value in given],
        "outputs": [_describe_value_info(value) for value in proto.graph.output],
        "operators": dict(used.most_common()),
        "problems": problems,
    }
    if arguments.json:
        print(json.dumps(record, indent=2))
    else:
        _print_description(record)
    return EXIT_STATUS_UNSUPPORTED if problems else 0


def time_model(arguments: Namespace) -> None:
    """Run a model, and print its outputs and how long each run took.

    Raises:
        ArgumentValueError: an argument is no pair of name and value, or ``--times`` is not positive.
    """
    if arguments.times < 1:
        raise ArgumentValueError(f"--times {arguments.times}: expected a positive number.")
    proto, _ = read_model(arguments.model)
    with plugrad.use(arguments.backend) if arguments.backend else nullcontext():
        start = perf_counter()
        model = load(arguments.model)
        loading = perf_counter() - start
        inputs = _make_inputs(proto, model.inputs, arguments)
        call = plugrad.jit(model) if arguments.jit else model
        tensors = [plugrad.asarray(inputs[name]) for name in model.inputs]

        def run_once() -> list[NDArray[Any]]:
            """Run the model, and wait for its outputs."""
            result: Any = call(*tensors)
            results: list[Any] = [*result] if isinstance(result, tuple) else [result]
            return [as_array(part) for part in results]

        outputs, seconds = _time_calls(run_once, arguments.times + 1)
        device = str(plugrad.zeros(()).device)
    if arguments.output:
        np.savez(arguments.output, **dict(zip(model.outputs, outputs, strict=True)))
    record: dict[str, Any] = {
        "device": device,
        "inputs": [_describe_array(name, inputs[name]) for name in model.inputs],
        "outputs": [_describe_array(n, a) for n, a in zip(model.outputs, outputs, strict=True)],
        "milliseconds": {
            "load": loading * 1e3,
            "first run": seconds[0] * 1e3,
            "fastest run": min(seconds[1:]) * 1e3,
            "median run": median(seconds[1:]) * 1e3,
        },
    }
    if arguments.json:
        print(json.dumps(record, indent=2))
        return
    print(f"{arguments.model} on {device}")
    for title in ("inputs", "outputs"):
        rows = [[str(cell) for cell in part.values()] for part in record[title]]
        _print_table((title[:-1].upper(), "DTYPE", "SHAPE", "LEAST", "MEAN", "MOST"), rows)
    times = [(name, f"{value:.2f} ms") for name, value in record["milliseconds"].items()]
    _print_table(("TIME", f"OF {arguments.times} RUNS"), times)


def _time_calls(function: Callable[[], Any], repeats: int) -> tuple[Any, list[float]]:
    """Return the result of the last call of a function, and the seconds of each."""
    seconds: list[float] = []
    result: Any = None
    for _ in range(repeats):
        start = perf_counter()
        result = function()
        seconds.append(perf_counter() - start)
    return result, seconds


def _make_inputs(
    model_proto: onnx.ModelProto, input_names: Sequence[str], arguments: Namespace
) -> dict[str, NDArray[Any]]:
    """Return inputs by name: read from files if given, else random; integers are 1, a valid index and a valid mask."""
    files = _parse_pairs(arguments.input, "--input")
    sizes = _parse_pairs(arguments.size, "--size")
    for name in files:
        if name not in input_names:
            raise ArgumentValueError(f"--input {name}: the inputs are {', '.join(input_names)}.")
    declared = {value.name: value for value in model_proto.graph.input}
    rng = np.random.default_rng(arguments.seed)
    inputs: dict[str, NDArray[Any]] = {}
    for name in input_names:
        if name in files:
            inputs[name] = np.load(files[name])
            continue
        kind = declared[name].type.tensor_type
        dims = [d.dim_param or d.dim_value for d in kind.shape.dim]
        shape = [int(sizes.get(d, 1)) if isinstance(d, str) else d or 1 for d in dims]
        dtype = numpy_dtype(kind.elem_type)
        real = dtype.kind == "f"
        inputs[name] = (rng.normal(size=shape) if real else np.ones(shape)).astype(dtype)
    return inputs


def _parse_pairs(arguments: Iterable[str], option: str) -> dict[str, str]:
    """Return the values of an option's arguments, such as ``NAME=FILE``, by name."""
    pairs = [text.rpartition("=") for text in arguments]
    for name, _, value in pairs:
        if not name or (option == "--size" and not value.isdecimal()):
            wanted = "NAME=N" if option == "--size" else "NAME=FILE"
            raise ArgumentValueError(f"{option} {name or value}: expected {wanted}.")
    return {name: value for name, _, value in pairs}


def _iter_nodes(model_proto: onnx.ModelProto) -> Iterable[onnx.NodeProto]:
    """Yield all nodes of a model, including the nodes of subgraphs and of local functions."""
    waiting = [*model_proto.graph.node, *(node for f in model_proto.functions for node in f.node)]
    while waiting:
        node = waiting.pop()
        yield node
        for attribute in node.attribute:
            waiting.extend(n for graph in (attribute.g, *attribute.graphs) for n in graph.node)


def _describe_value_info(value_info: onnx.ValueInfoProto) -> dict[str, str]:
    """Return the name, dtype and shape of an input or output."""
    if not value_info.type.HasField("tensor_type"):
        kind = str(value_info.type.WhichOneof("value")).removesuffix("_type")
        return {"name": value_info.name, "dtype": kind, "shape": ""}
    kind = value_info.type.tensor_type
    dims = [str(d.dim_param or d.dim_value or "any") for d in kind.shape.dim]
    shape = f"({', '.join(dims)})" if kind.HasField("shape") else "any"
    return {"name": value_info.name, "dtype": numpy_dtype(kind.elem_type).name, "shape": shape}


def _describe_array(name: str, array: NDArray[Any]) -> dict[str, str]:
    """Return the name, dtype, shape and value range of an array."""
    numeric = array.size > 0 and array.dtype.kind in "biuf"
    values = [array.min(), array.mean(), array.max()] if numeric else []
    shown = [f"{float(value):.4g}" for value in values] or ["", "", ""]
    fields = ("name", "dtype", "shape", "least", "mean", "most")
    return dict(zip(fields, (name, array.dtype.name, str(array.shape), *shown), strict=True))


def _print_description(description: dict[str, Any]) -> None:
    """Print the description of a model in tables."""
    weights = description["weights"]
    opsets = ", ".join(f"{domain} {version}" for domain, version in description["opsets"].items())
    facts = [
        ("producer", description["producer"] or "unknown"),
        ("operators of", opsets),
        ("file", f"{description['file']['bytes']:,} bytes"),
        ("weights", f"{weights['tensors']:,} tensors, {weights['numbers']:,} numbers, "
         f"{weights['bytes']:,} bytes"),
    ]  # fmt: skip
    _print_table(("MODEL", ""), facts)
    for title in ("inputs", "outputs"):
        rows = [list(part.values()) for part in description[title]]
        _print_table((title[:-1].upper(), "DTYPE", "SHAPE"), rows)
    _print_table(
        ("OPERATOR", "NODES"), [(n, str(count)) for n, count in description["operators"].items()]
    )
    if description["problems"]:
        print(f"\n{description['problems']}")


def _print_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows in columns under a header, after an empty line."""
    lines = [list(header), *map(list, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    print()
    for line in lines:
        padded = [cell.ljust(width) for cell, width in zip(line, widths, strict=True)]
        print("  ".join(padded).rstrip())
