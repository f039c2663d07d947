"""Large weights of a file, which are read into arrays at once: protobuf would copy each of them twice.

A message of protobuf is a sequence of fields: a number that says which field it is and how it is
written, then the value (https://protobuf.dev/programming-guides/encoding). A model has its graph in one
field, the graph its weights, and a weight its numbers.
"""

from __future__ import annotations

import math
import mmap
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import onnx
from onnx import numpy_helper

from plugrad.extend import is_interruption
from plugrad_onnx.elements import PLUGRAD_DTYPE_NAMES, numpy_dtype

if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import BufferedReader

    from numpy.typing import NDArray

GRAPH_FIELD_NUMBER: Final = 7
"""The number of the field `graph` in ONNX's ModelProto."""
INITIALIZER_FIELD_NUMBER: Final = 5
"""The number of the field `initializer` in ONNX's GraphProto."""
RAW_DATA_FIELD_NUMBER: Final = 9
"""The number of the field `raw_data` in ONNX's TensorProto."""
VARINT_WIRE_TYPE, FIXED64_WIRE_TYPE, BYTES_WIRE_TYPE, FIXED32_WIRE_TYPE = 0, 1, 2, 5
"""protobuf's numbers of the encodings of a field's value."""
LARGE_WEIGHT_MIN_BYTES: Final = 1 << 14
"""The size from which on a weight is read by itself."""


class ProtobufField(NamedTuple):
    """The position of a field in the bytes of a protobuf message."""

    number: int
    """The number of the field in its message type."""
    wire_type: int
    """protobuf's number of the encoding of the value."""
    start_byte: int
    """The byte at which the field begins."""
    value_byte: int
    """The byte at which the value begins."""
    end_byte: int
    """The byte after the field."""

    @property
    def size(self) -> int:
        """The number of bytes of the value."""
        return self.end_byte - self.value_byte


def split_model(file: BufferedReader) -> tuple[bytes, dict[int, ProtobufField]] | None:
    """Return the bytes of a model without its large weights, and the positions of these in the file, by weight index.

    Returns None if the file cannot be read in this way, since it is damaged, not regular, or unusual.
    """
    try:
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            graphs = [f for f in _iter_fields(data, 0, len(data)) if f.number == GRAPH_FIELD_NUMBER]
            if len(graphs) != 1 or graphs[0].wire_type != BYTES_WIRE_TYPE:
                return None
            (graph,) = graphs
            content, places = _strip_weights(data, graph)
            return b"".join((data[: graph.start_byte], content, data[graph.end_byte :])), places
    except (OSError, ValueError) as error:
        if is_interruption(error):
            raise
        return None


def read_weight(
    file: BufferedReader, field: ProtobufField, tensor_proto: onnx.TensorProto
) -> NDArray[Any]:
    """Read the numbers of a weight that `split_model` left out.

    Raises:
        ValueError: there are not as many numbers as its shape says.
    """
    dtype, shape = numpy_dtype(tensor_proto.data_type), tuple(tensor_proto.dims)
    file.seek(field.value_byte)
    if dtype.name not in PLUGRAD_DTYPE_NAMES:
        data = file.read(field.size)
        raw = onnx.TensorProto(data_type=tensor_proto.data_type, dims=shape, raw_data=data)
        return numpy_helper.to_array(raw)
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != field.size:
        raise ValueError(f"there are {field.size} bytes")
    array: Any = np.empty(math.prod(shape), dtype.newbyteorder("<"))
    if file.readinto(array) != field.size:
        raise ValueError("the file ends before")
    return array.reshape(shape)


def _strip_weights(
    data: mmap.mmap, graph_field: ProtobufField
) -> tuple[bytes, dict[int, ProtobufField]]:
    """Return the encoded graph without the data of large weights, and the positions of these in the file."""
    parts: list[bytes] = []
    places: dict[int, ProtobufField] = {}
    count = 0
    for field in _iter_fields(data, graph_field.value_byte, graph_field.end_byte):
        if field.number != INITIALIZER_FIELD_NUMBER or field.wire_type != BYTES_WIRE_TYPE:
            parts.append(data[field.start_byte : field.end_byte])
            continue
        raw = [
            f
            for f in _iter_fields(data, field.value_byte, field.end_byte)
            if f.number == RAW_DATA_FIELD_NUMBER
        ]
        if (
            len(raw) == 1
            and raw[0].wire_type == BYTES_WIRE_TYPE
            and raw[0].size >= LARGE_WEIGHT_MIN_BYTES
        ):
            places[count] = raw[0]
            rest = (
                data[field.value_byte : raw[0].start_byte] + data[raw[0].end_byte : field.end_byte]
            )
            parts.append(_encode_field(INITIALIZER_FIELD_NUMBER, rest))
        else:
            parts.append(data[field.start_byte : field.end_byte])
        count += 1
    return _encode_field(GRAPH_FIELD_NUMBER, b"".join(parts)), places


def _iter_fields(data: mmap.mmap, start_byte: int, end_byte: int) -> Iterator[ProtobufField]:
    """Yield the fields of a protobuf message.

    Raises:
        ValueError: it is none.
    """
    while start_byte < end_byte:
        key, value = _decode_varint(data, start_byte, end_byte)
        kind = key & 7
        if kind == BYTES_WIRE_TYPE:
            size, value = _decode_varint(data, value, end_byte)
            stop = value + size
        elif kind == VARINT_WIRE_TYPE:
            stop = _decode_varint(data, value, end_byte)[1]
        elif kind in (FIXED64_WIRE_TYPE, FIXED32_WIRE_TYPE):
            stop = value + (8 if kind == FIXED64_WIRE_TYPE else 4)
        else:
            raise ValueError(f"{kind} is no kind of field")
        if stop > end_byte:
            raise ValueError("a field ends after its message")
        yield ProtobufField(key >> 3, kind, start_byte, value, stop)
        start_byte = stop


def _decode_varint(data: mmap.mmap, start_byte: int, end_byte: int) -> tuple[int, int]:
    """Return a variable-length integer of protobuf (7 bits per byte, lowest first), and the byte after it."""
    number = 0
    for place in range(start_byte, min(end_byte, start_byte + 10)):
        byte = data[place]
        number |= (byte & 0x7F) << 7 * (place - start_byte)
        if byte < 0x80:
            return number, place + 1
    raise ValueError("a number does not end")


def _encode_field(field_number: int, value: bytes) -> bytes:
    """Return the bytes of a length-delimited field of protobuf."""
    head = [field_number << 3 | BYTES_WIRE_TYPE]
    size = len(value)
    while size >= 0x80:
        head.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([*head, size]) + value
