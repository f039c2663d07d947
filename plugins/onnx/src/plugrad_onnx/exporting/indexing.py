"""Rules that write kernels for sorting, gathering and scattering as nodes of ONNX."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from plugrad.errors import UnsupportedModel
from plugrad_onnx.elements import element_type
from plugrad_onnx.exporting.direct import find_wider_dtype
from plugrad_onnx.exporting.rules import channels_last, channels_second, window_attributes
from plugrad_onnx.exporting.writer import CallPair, Writer, export_rule

MAX_INT32 = 2**31 - 1
"""The largest int32, which stands for all diagonals or all elements."""
INT32, INT64 = 6, 7
"""The numbers of ONNX's element types."""


@export_rule("MatrixBandPart")
def write_band(writer: Writer, call: CallPair, inputs: list[str], outputs: list[str]) -> None:
    """Write BandPart with Trilu: zeros outside a band of diagonals; a negative number of diagonals keeps all."""
    counts: list[str] = []
    for name in inputs[1:]:
        count = writer.emit("Cast", [name], to=INT64)
        none = writer.write_constant(np.array(0, np.int64))
        every = writer.write_constant(np.array(MAX_INT32, np.int64))
        counts.append(writer.emit("Where", [writer.emit("Less", [count, none]), every, count]))
    low = writer.emit("Trilu", [inputs[0], writer.emit("Neg", counts[:1])], upper=1)
    writer.emit("Trilu", [low, counts[1]], outputs, upper=0)


@export_rule("DepthToSpace")
def write_depth_to_space(
    writer: Writer, call: CallPair, inputs: list[str], outputs: list[str]
) -> None:
    """Write DepthToSpace between two transpositions to channels second."""
    is_last = call.attrs["data_format"] == "NHWC"
    x = channels_second(writer, inputs[0], 2) if is_last else inputs[0]
    y = writer.emit("DepthToSpace", [x], blocksize=call.attrs["block_size"], mode="DCR")
    writer.emit("Identity", [channels_last(writer, y, 2) if is_last else y], outputs)


@export_rule("FlipLeftRight")
def write_flip(writer: Writer, call: CallPair, inputs: list[str], outputs: list[str]) -> None:
    """Write the horizontal flip of images."""
    bounds = [writer.write_integers([value]) for value in (-1, -MAX_INT32, 2, -1)]
    writer.emit("Slice", [inputs[0], *bounds], outputs)


@export_rule("Sort", "ArgSort")
def write_sort(writer: Writer, call: CallPair, inputs: list[str], outputs: list[str]) -> None:
    """Write a sort along an axis, or its indices."""
    one, two = call.shape()
    axis = call.attrs["axis"] % len(one)
    count = writer.write_integers([one[axis]], [two[axis]])
    values, places = _sort(writer, call, inputs[0], count, axis, call.attrs["descending"])
    if call.calls[0].kernel.name == "Sort":
        writer.emit("Identity", [values], outputs)
    else:
        writer.emit("Cast", [places], outputs, to=element_type(call.dtype()))


@export_rule("TopK")
def write_top_k(writer: Writer, call: CallPair, inputs: list[str], outputs: list[str]) -> None:
    """Write TopK; unsorted results keep the order of the input."""
    count = writer.write_integers([call.attrs["k"]])
    values, places = _sort(writer, call, inputs[0], count, -1, True)
    if not call.attrs["sorted"]:
        places = writer.new_name()
        writer.emit(
            "TopK",
            [_sort(writer, call, inputs[0], count, -1, True)[1], count],
            [places, ""],
            largest=0,
        )
        values = writer.emit("GatherElements", [inputs[0], places], axis=-1)
    writer.emit("Identity", [values], outputs[:1])
    dtype = call.graphs[0].specs[call.calls[0].outputs[1]].dtype
    writer.emit("Cast", [places], outputs[1:], to=element_type(dtype))


def _sort(
    writer: Writer,
    call: CallPair,
    input_name: str,
    count_value_name: str,
    axis: int,
    descending: bool,
) -> tuple[str, str]:
    """Write TopK along an axis and return its values and indices; bools and bfloat16 are sorted as wider numbers."""
    dtype = call.dtype(out=False)
    wider = find_wider_dtype("TopK", dtype.name)
    x = writer.emit("Cast", [input_name], to=element_type(np.dtype(wider))) if wider else input_name
    values, places = writer.new_name(), writer.new_name()
    writer.emit("TopK", [x, count_value_name], [values, places], axis=axis, largest=int(descending))
    return (writer.emit("Cast", [values], to=element_type(dtype)) if wider else values), places


@export_rule("GatherNd")
def write_gather_nd(writer: Writer, call: CallPair, inputs: list[str], outputs: list[str]) -> None:
    """Write GatherND."""
    writer.emit("GatherND", [inputs[0], writer.emit("Cast", [inputs[1]], to=INT64)], outputs)


@export_rule("ScatterNd")
def write_scatter_nd(writer: Writer, call: CallPair, inputs: list[str], outputs: list[str]) -> None:
    """Write ScatterND, which adds updates to zeros."""
    zero = writer.write_constant(np.zeros((), np.dtype(call.dtype().name)))
    start = writer.emit("Expand", [zero, writer.write_integers(*call.both_values("shape"))])
    places = writer.emit("Cast", [inputs[0]], to=INT64)
    writer.emit("ScatterND", [start, places, inputs[1]], outputs, reduction="add")


@export_rule("TensorScatterUpdate")
def write_scatter_update(
    writer: Writer, call: CallPair, inputs: list[str], outputs: list[str]
) -> None:
    """Write ScatterND, which replaces elements of a tensor by updates."""
    places = writer.emit("Cast", [inputs[1]], to=INT64)
    writer.emit("ScatterND", [inputs[0], places, inputs[2]], outputs)


@export_rule("MatrixDeterminant")
def write_determinant(
    writer: Writer, call: CallPair, inputs: list[str], outputs: list[str]
) -> None:
    """Write Det."""
    writer.emit("Det", inputs, outputs)


@export_rule("LeftShift", "RightShift")
def write_shift(writer: Writer, call: CallPair, inputs: list[str], outputs: list[str]) -> None:
    """Write BitShift."""
    if not call.dtype().name.startswith("uint"):
        raise UnsupportedModel(
            f"Shifted bits of {call.dtype()} have no counterpart in ONNX, which shifts unsigned integers only."
        )
    direction = call.calls[0].kernel.name.removesuffix("Shift").upper()
    writer.emit("BitShift", inputs, outputs, direction=direction)


@export_rule("MaxPoolWithArgmax")
def write_pooling_with_indices(
    writer: Writer, call: CallPair, inputs: list[str], outputs: list[str]
) -> None:
    """Write MaxPool with indices; ONNX counts them with channels before pixels."""
    window: Any = call.attrs["window"]
    rank = len(window.size)
    (_, *sizes, channels), (_, *others, _) = call.shape()
    if sizes != others:
        raise UnsupportedModel(
            "Positions in images whose size changes have no counterpart in ONNX that is written."
        )
    x = channels_second(writer, inputs[0], rank)
    values, places = writer.new_name(), writer.new_name()
    writer.emit(
        "MaxPool", [x], [values, places], dilations=list(window.dilations), **window_attributes(window)
    )  # fmt: skip
    writer.emit("Identity", [channels_last(writer, values, rank)], outputs[:1])
    pixels, depth = writer.write_integers([math.prod(sizes)]), writer.write_integers([channels])
    pixel = writer.emit("Mod", [places, pixels])
    plane = writer.emit("Div", [places, pixels])
    channel = writer.emit("Mod", [plane, depth])
    place = writer.emit("Add", [writer.emit("Mul", [pixel, depth]), channel])
    if call.attrs["include_batch_in_index"]:
        image = writer.emit("Div", [plane, depth])
        size = writer.write_integers([math.prod(sizes) * channels])
        place = writer.emit("Add", [place, writer.emit("Mul", [image, size])])
    dtype = call.graphs[0].specs[call.calls[0].outputs[1]].dtype
    writer.emit("Cast", [channels_last(writer, place, rank)], outputs[1:], to=element_type(dtype))


@export_rule("OneHot")
def write_one_hot(writer: Writer, call: CallPair, inputs: list[str], outputs: list[str]) -> None:
    """Write OneHot; ONNX counts negative indices from the end, so they are replaced."""
    dtype = np.dtype(call.dtype().name)
    off, on = (call.attrs[f"{name}_value"] for name in ("off", "on"))
    off, on = (writer.write_constant(np.array(value, dtype)) for value in (off, on))
    places = writer.write_constant(np.arange(call.attrs["depth"], dtype=np.int64))
    indices = writer.emit("Cast", [inputs[0]], to=INT64)
    rows = writer.emit("Unsqueeze", [indices, writer.write_integers([-1])])
    writer.emit("Where", [writer.emit("Equal", [rows, places]), on, off], outputs)
