"""Reading of model files to NumPy arrays; damaged files, and paths that leave the model's folder, raise errors."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import numpy_helper

from plugrad.extend import is_interruption
from plugrad_onnx import weights
from plugrad_onnx.elements import numpy_dtype
from plugrad_onnx.errors import InvalidModel

if TYPE_CHECKING:
    from io import BufferedReader

    from numpy.typing import NDArray

MAX_EXPANDED_TENSOR_BYTES: Final = 1 << 31
"""The largest size in memory of a tensor that a model describes in fewer bytes, such as a sparse one."""


def read_model(path: str | os.PathLike[str]) -> tuple[onnx.ModelProto, dict[int, NDArray[Any]]]:
    """Return a model without its large weights, and the arrays of the large weights by their index in the graph.

    External data are not read.

    Raises:
        InvalidModel: the file holds no model of ONNX, or a weight is damaged.
    """
    with Path(path).open("rb") as file:
        content, places = weights.split_model(file) or (file.read(), {})
        try:
            proto = onnx.ModelProto.FromString(content)
        except (DecodeError, ValueError, RuntimeError) as error:
            if is_interruption(error):
                raise
            raise InvalidModel(f"{path} is no model of ONNX: {error}.") from error
        if not proto.HasField("graph"):
            raise InvalidModel(f"{path} has no graph, so it is no model of ONNX, or it is damaged.")
        large: dict[int, NDArray[Any]] = {}
        for place, field in places.items():
            tensor = proto.graph.initializer[place]
            if tensor.data_location != onnx.TensorProto.EXTERNAL:
                large[place] = _read_large(file, field, tensor)
    return proto, large


def read_tensor(tensor_proto: onnx.TensorProto, folder: Path | None) -> NDArray[Any]:
    """Read a tensor of a model as an array.

    Raises:
        InvalidModel: shape and data do not fit, or its external data are not in the folder.
    """
    name = tensor_proto.name or "without a name"
    dtype = numpy_dtype(tensor_proto.data_type)
    shape = tuple(tensor_proto.dims)
    if any(size < 0 for size in shape):
        raise InvalidModel(f"Tensor {name!r}: shape {shape} has a negative size.")
    try:
        if tensor_proto.data_location == onnx.TensorProto.EXTERNAL:
            data = _read_external(tensor_proto, folder, math.prod(shape), dtype)
            raw = onnx.TensorProto(
                data_type=tensor_proto.data_type, dims=tensor_proto.dims, raw_data=data
            )
            return numpy_helper.to_array(raw)
        return numpy_helper.to_array(tensor_proto)
    except InvalidModel:
        raise
    except Exception as error:
        if is_interruption(error):
            raise
        raise InvalidModel(
            f"Tensor {name!r}: its data do not fit shape {shape} and dtype {dtype}: {error}"
        ) from error


def _read_large(
    file: BufferedReader, field: weights.ProtobufField, tensor_proto: onnx.TensorProto
) -> NDArray[Any]:
    """Read a large weight as an array."""
    try:
        return weights.read_weight(file, field, tensor_proto)
    except ValueError as error:
        raise InvalidModel(
            f"Tensor {tensor_proto.name!r}: its data do not fit shape {tuple(tensor_proto.dims)}: {error}."
        ) from error


def read_sparse(sparse_proto: onnx.SparseTensorProto, folder: Path | None) -> NDArray[Any]:
    """Read a sparse tensor of a model as a dense array.

    Raises:
        InvalidModel: indices are outside of its shape, or the array would not fit into memory.
    """
    name = sparse_proto.values.name or "without a name"
    shape = tuple(sparse_proto.dims)
    values = read_tensor(sparse_proto.values, folder)
    size = math.prod(shape)
    if any(d < 0 for d in shape) or size * values.dtype.itemsize > MAX_EXPANDED_TENSOR_BYTES:
        raise InvalidModel(
            f"Sparse tensor {name!r}: shape {shape} is not below {MAX_EXPANDED_TENSOR_BYTES} bytes."
        )
    indices = read_tensor(sparse_proto.indices, folder)
    if indices.ndim == 2 and indices.shape[1] == len(shape):
        inside = ((indices >= 0) & (indices < np.array(shape))).all()
        flat = np.ravel_multi_index(tuple(indices.T), shape) if inside else np.array([-1])
    else:
        flat = indices.ravel()
    if flat.shape != values.shape or ((flat < 0) | (flat >= size)).any():
        raise InvalidModel(f"Sparse tensor {name!r}: its indices do not lie in shape {shape}.")
    dense = np.zeros(size, values.dtype)
    dense[flat] = values
    return dense.reshape(shape)


def _read_external(
    tensor_proto: onnx.TensorProto, folder: Path | None, element_count: int, dtype: np.dtype[Any]
) -> bytes:
    """Read the bytes of a tensor from an external file in the model's folder."""
    entries = {entry.key: entry.value for entry in tensor_proto.external_data}
    location = entries.get("location", "")
    if folder is None:
        raise InvalidModel(
            f"Tensor {tensor_proto.name!r} lies in the file {location!r}, and the model came without a "
            "folder. Load it by its path."
        )
    home = folder.resolve()
    file = Path(os.path.realpath(home / location))
    if not location or not file.is_relative_to(home) or not file.is_file():
        raise InvalidModel(
            f"Tensor {tensor_proto.name!r}: its data should lie in {location!r}, which is no file in the "
            f"folder of the model, {home}."
        )
    bits = 4 if dtype.name in ("int4", "uint4", "float4_e2m1fn") else dtype.itemsize * 8
    bits = 2 if dtype.name in ("int2", "uint2") else bits
    expected = (element_count * bits + 7) // 8
    try:
        offset, length = int(entries.get("offset", 0)), int(entries.get("length", expected))
    except ValueError:
        raise InvalidModel(
            f"Tensor {tensor_proto.name!r}: offset and length are no numbers."
        ) from None
    if offset < 0 or length != expected or offset + length > file.stat().st_size:
        raise InvalidModel(
            f"Tensor {tensor_proto.name!r} needs {expected} bytes; the model names {length} from {offset} "
            f"on, and {location!r} has {file.stat().st_size}."
        )
    with file.open("rb") as opened:
        opened.seek(offset)
        return opened.read(length)
