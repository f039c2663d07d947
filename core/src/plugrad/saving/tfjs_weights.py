"""Weights in the form of TensorFlow.js: bytes and specs, and manifests of files."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from math import isfinite, prod
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from plugrad.discovery.selection import resolve_backend
from plugrad.errors import ArgumentError, ArgumentValueError, DamagedFile, DTypeError, short_repr
from plugrad.interruptions import suppress_failures
from plugrad.ops.arguments import as_tensor
from plugrad.ops.attributes import as_list, check_choice, check_integer
from plugrad.ops.creation import asarray
from plugrad.saving.atomic_files import check_path, replace_atomically
from plugrad.saving.text import pack_strings, unpack_strings
from plugrad.types.dtype import string

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from os import PathLike

    from numpy.typing import NDArray

    from plugrad.discovery.selection import DeviceLike
    from plugrad.tensor.tensor import Tensor, TensorLike

NUMPY_DTYPE_OF_TFJS_NAME: Final[dict[str, np.dtype[Any]]] = {
    "float32": np.dtype("<f4"),
    "int32": np.dtype("<i4"),
    "bool": np.dtype("?"),
    "complex64": np.dtype("<c8"),
}
"""The dtype with which NumPy reads weights, by TensorFlow.js's name of the dtype."""
NUMPY_DTYPE_OF_QUANTIZATION: Final[dict[str, np.dtype[Any]]] = {
    "uint8": np.dtype("u1"),
    "uint16": np.dtype("<u2"),
    "float16": np.dtype("<f2"),
}
"""The dtype with which NumPy reads quantized weights, by the name of the quantization."""
DEFAULT_SHARD_BYTES: Final = 4 * 2**20
"""The most bytes of a weight file, unless the caller gives another number."""


# --- bytes and specs ------------------------------------------------------------------------------


def encode_weights(
    weights: Mapping[str, TensorLike], *, quantization: str | None = None
) -> tuple[bytes, list[dict[str, Any]]]:
    """The bytes of all weights concatenated, and a spec with name, shape and dtype for each.

    >>> data, specs = plugrad.tfjs.encode_weights({"w": [1.0, 2.0], "s": ["hi"]})
    >>> len(data), specs[1]
    (14, {'name': 's', 'shape': [1], 'dtype': 'string'})

    Args:
        weights: tensors of float32, int32, bool, complex64 and string, by name.
        quantization: how to store the float32 weights: "uint8" or "uint16" as multiples of a step
            between the least and the greatest value, with 0 among them if it lies between (Jacob et
            al., 2018), "float16" rounded, or None as they are.

    Raises:
        ArgumentError: `weights` is not a mapping of names to tensors.
        ArgumentValueError: `quantization` is none of these, or a weight that is to be quantized holds
            values that are not finite, or become infinite in float16.
        DTypeError: a weight has another dtype.
    """
    if quantization is not None:
        check_choice(
            quantization, list(NUMPY_DTYPE_OF_QUANTIZATION), "encode_weights", "quantization"
        )
    if not isinstance(weights, Mapping) or not all(isinstance(name, str) for name in weights):  # pyright: ignore[reportUnnecessaryIsInstance] - people pass anything
        raise ArgumentError(
            f"encode_weights: weights={short_repr(weights)} must be a dict of tensors by name"
        )
    parts: list[bytes] = []
    specs: list[dict[str, Any]] = []
    for name, x in weights.items():
        tensor = as_tensor(x, "encode_weights", f"weight {name!r}")
        spec: dict[str, Any] = {
            "name": name,
            "shape": list(tensor.shape),
            "dtype": str(tensor.dtype),
        }
        values = tensor.numpy()
        if tensor.dtype is string:
            parts.append(pack_strings(values.ravel().tolist()))
        elif str(tensor.dtype) not in NUMPY_DTYPE_OF_TFJS_NAME:
            raise DTypeError(
                f"encode_weights: weight {name!r} is {tensor.dtype}; TensorFlow.js has "
                f"{', '.join(NUMPY_DTYPE_OF_TFJS_NAME)} "
                "and string, so convert it first, as in x.astype('float32')"
            )
        elif quantization is not None and spec["dtype"] == "float32":
            stored, spec["quantization"] = _quantize(values, quantization, name)
            parts.append(stored.tobytes())
        else:
            parts.append(values.astype(NUMPY_DTYPE_OF_TFJS_NAME[spec["dtype"]]).tobytes())
        specs.append(spec)
    return b"".join(parts), specs


def decode_weights(
    data: bytes | Sequence[bytes],
    specs: Sequence[Mapping[str, Any]],
    *,
    device: DeviceLike | None = None,
) -> dict[str, Tensor]:
    """The weights by name that `specs` describe; quantized ones are converted back to their original dtype.

    >>> quantization = {"dtype": "uint8", "scale": 0.5, "min": -1.0}
    >>> spec = {"name": "w", "shape": [3], "dtype": "float32", "quantization": quantization}
    >>> plugrad.tfjs.decode_weights(bytes([0, 2, 255]), [spec])
    {'w': tensor([ -1. ,   0. , 126.5], dtype=float32)}

    Args:
        data: the bytes of all weights, or several pieces of them in order.
        specs: for each weight its "name", "shape" and "dtype", and if it is quantized also
            "quantization" with "dtype", "scale" and "min".
        device: where the tensors go; by default to the active backend.

    Raises:
        ArgumentError: `data` does not hold bytes, or `specs` is not a list.
        DamagedFile: a spec is incomplete or unknown, or does not fit the bytes.
        BackendNotFound, BackendUnavailable: `device` names no backend, or one that cannot start.
    """
    backend = resolve_backend(device)
    return {
        name: asarray(values, device=backend)
        for name, values in _decode_arrays(data, specs, "decode_weights").items()
    }


def _decode_arrays(
    data: bytes | Sequence[bytes], specs: Sequence[Mapping[str, Any]], op_name: str
) -> dict[str, NDArray[Any]]:
    """Return by name the arrays of the weights that specs describe; errors begin with `op_name`."""
    try:
        pieces = [data] if isinstance(data, bytes) else as_list(data, op_name, "data")
        whole = memoryview(b"".join(pieces))
    except TypeError:
        raise ArgumentError(
            f"{op_name}: data={short_repr(data)} must be bytes, or a list of bytes"
        ) from None
    arrays: dict[str, NDArray[Any]] = {}
    at = 0
    for spec in as_list(specs, op_name, "specs"):
        name, values, size = _decode_weight(whole[at:], spec)
        if name in arrays:
            raise DamagedFile(f"there are two weights called {short_repr(name)}")
        arrays[name] = values
        at += size
    if at != len(whole):
        raise DamagedFile(f"the weights have {at} bytes, but there are {len(whole)}")
    return arrays


def _decode_weight(data: memoryview, spec: Any) -> tuple[str, NDArray[Any], int]:
    """Decode the weight at the start of `data`; return its name, its values and the number of bytes read."""
    match spec:
        case {"name": str(name), "shape": [*shape], "dtype": str(dtype)} if all(
            type(n) is int and n >= 0 for n in shape
        ):
            quantization = spec.get("quantization")
        case _:
            raise DamagedFile(f"{short_repr(spec)} is not a spec with a name, a shape and a dtype")
    count = prod(shape)
    try:
        if dtype == "string" and quantization is None:
            texts, size = unpack_strings(data, count)
            return name, np.array(texts, string.numpy).reshape(shape), size
        if dtype not in NUMPY_DTYPE_OF_TFJS_NAME or not _is_known_quantization(quantization, dtype):
            raise DamagedFile(
                f"weight {short_repr(name)}: TensorFlow.js does not have {short_repr(spec)}"
            )
        stored = (
            NUMPY_DTYPE_OF_TFJS_NAME[dtype]
            if quantization is None
            else NUMPY_DTYPE_OF_QUANTIZATION[quantization["dtype"]]
        )
        size = count * stored.itemsize
        if size > len(data):
            raise DamagedFile(
                f"the bytes end within weight {short_repr(name)}: {size} are needed, {len(data)} are left"
            )
        values = np.frombuffer(data[:size], stored).reshape(shape)
    except ValueError as error:  # strings that are none, or more axes than NumPy has
        raise DamagedFile(f"weight {short_repr(name)}: {error}") from None
    if quantization is None:
        return name, values, size
    if stored.kind == "f":
        return name, values.astype(np.float32), size
    wide = values * float(quantization["scale"]) + float(quantization["min"])
    if not (
        np.abs(wide) <= np.finfo(np.float32).max if dtype == "float32" else np.abs(wide) < 2**31
    ).all():
        raise DamagedFile(
            f"weight {short_repr(name)}: {short_repr(quantization)} leads out of {dtype}"
        )
    # Where it is halfway between two integers, JavaScript rounds up and NumPy to the even one.
    return (
        name,
        (wide if dtype == "float32" else np.floor(wide + 0.5)).astype(
            NUMPY_DTYPE_OF_TFJS_NAME[dtype]
        ),
        size,
    )


def _is_known_quantization(quantization: Any, dtype: str) -> bool:
    """Return whether a quantization is supported for weights of a dtype."""
    match quantization:
        case None:
            return True
        case {"dtype": "float16"}:
            return dtype == "float32"
        case {"dtype": "uint8" | "uint16", "scale": scale, "min": least}:
            return dtype in ("float32", "int32") and _is_float(scale) and _is_float(least)
        case _:
            return False


def _is_float(value: object) -> bool:
    """Return whether a JSON number can be converted to a float; an integer may have any number of digits."""
    return isinstance(value, float) or (isinstance(value, int) and abs(value) < 1 << 1000)


def _quantize(
    values: NDArray[np.float32], quantization: str, weight_name: str
) -> tuple[NDArray[Any], dict[str, Any]]:
    """Return values quantized to a smaller dtype, and the parameters that restore them."""
    stored = NUMPY_DTYPE_OF_QUANTIZATION[quantization]
    with np.errstate(over="ignore"):
        least, most = (float(f(values)) if values.size else 0.0 for f in (np.min, np.max))
        if not all(
            isfinite(stored.type(x) if quantization == "float16" else x) for x in (least, most)
        ):
            raise ArgumentValueError(
                f"encode_weights: weight {weight_name!r} reaches from {least} to {most}, which {quantization} does not "
                "hold; save it without quantization"
            )
    if quantization == "float16":
        return values.astype(stored), {"dtype": quantization}
    top = 2 ** (8 * stored.itemsize) - 1
    step = (most - least) / top or 1.0
    start = -round(-least / step) * step if least <= 0 <= most else least
    steps = np.rint((values.astype(np.float64) - start) / step).clip(0, top).astype(stored)
    return steps, {"dtype": quantization, "scale": step, "min": start}


# --- files ----------------------------------------------------------------------------------------


def write_weights(
    path: str | PathLike[str],
    weights: Mapping[str, TensorLike],
    *,
    quantization: str | None = None,
    shard_bytes: int = DEFAULT_SHARD_BYTES,
) -> None:
    """Write weights as a JSON manifest and the binary files that it lists.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "weights_manifest.json")
    >>> plugrad.tfjs.write_weights(path, {"w": [1.0, 2.0]})
    >>> plugrad.tfjs.read_weights(path)
    {'w': tensor([1., 2.], dtype=float32)}

    The files are called as the manifest, with ``-shard1of2.bin`` and so on in the place of ``.json``.
    If there are files of these names, the new ones have eight more letters and digits, as in
    ``-shard1of2.1f0c83ab.bin``. The manifest is written last and at once, and the files that `write_weights`
    wrote for an older one are then deleted. So a process that is killed leaves the old weights whole. What
    it had written so far stays until the next call, as with `plugrad.save`.

    Args:
        path: the name of the manifest.
        weights: as for `encode_weights`.
        quantization: as for `encode_weights`.
        shard_bytes: the most bytes of a file.

    Raises:
        ArgumentError, ArgumentValueError, DTypeError: as for `encode_weights`; or `path` is not a path,
            or `shard_bytes` is not a positive integer.
        OSError: a file cannot be written; see `plugrad.save`.
    """
    path = check_path(path, "write_weights")
    _write_shards("write_weights", path, weights, quantization, shard_bytes, lambda groups: groups)


def write_model(
    path: str | PathLike[str],
    document: Mapping[str, Any],
    weights: Mapping[str, TensorLike],
    *,
    quantization: str | None = None,
    shard_bytes: int = DEFAULT_SHARD_BYTES,
) -> None:
    """Write a ``model.json`` and its weights in files beside it.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "model.json")
    >>> plugrad.tfjs.write_model(path, {"format": "layers-model"}, {"w": [1.0, 2.0]})
    >>> document, weights = plugrad.tfjs.read_model(path)
    >>> document["format"], weights["w"].shape
    ('layers-model', (2,))

    `save_graph_model` and `plugrad_nn.tfjs.save_layers_model` make the document; this function is for others that do.

    Args:
        path: the name of the file.
        document: what stands in it, as JSON has it, without the manifest of the weights.
        weights: as for `encode_weights`.
        quantization: as for `encode_weights`.
        shard_bytes: the most bytes of a file.

    Raises:
        ArgumentError, ArgumentValueError, DTypeError: as for `write_weights`; or JSON does not have
            what `document` holds.
        OSError: a file cannot be written; see `plugrad.save`.
    """
    path = check_path(path, "write_model")
    try:
        json.dumps(document, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ArgumentError(
            f"write_model: JSON does not have what document holds: {error}"
        ) from None

    def make_document(weight_groups: list[Any]) -> Any:
        return {**document, "weightsManifest": weight_groups}

    _write_shards("write_model", path, weights, quantization, shard_bytes, make_document)


def _write_shards(
    op_name: str,
    path: str,
    weights: Mapping[str, TensorLike],
    quantization: str | None,
    shard_bytes: int,
    make_document: Callable[[list[Any]], Any],
) -> None:
    """Write weight files, then the JSON that `make_document` makes of their manifest; errors begin with `op_name`."""
    shard_bytes = check_integer(shard_bytes, op_name, "shard_bytes", least=1)
    data, specs = encode_weights(weights, quantization=quantization)
    folder, name = os.path.split(path)
    stem = name.removesuffix(".json")
    count = max(1, -(-len(data) // shard_bytes))
    written = re.compile(rf"{re.escape(stem)}-shard\d+of\d+(\.[0-9a-f]{{8}})?\.bin")
    older = [file for file in os.listdir(folder or ".") if written.fullmatch(file)]
    paths = [f"{stem}-shard{i + 1}of{count}.bin" for i in range(count)]
    if older:  # they stay as they are until the new manifest is there
        mark = os.urandom(4).hex()
        paths = [f"{file.removesuffix('.bin')}.{mark}.bin" for file in paths]
    for i, shard in enumerate(paths):
        part = data[i * shard_bytes : (i + 1) * shard_bytes]
        _write_file(os.path.join(folder, shard), part)
    _write_file(path, json.dumps(make_document([{"paths": paths, "weights": specs}])).encode())
    for file in older:
        with suppress_failures(OSError):  # on Windows a program may still be reading it
            os.unlink(os.path.join(folder, file))


def read_weights(
    path: str | PathLike[str], *, device: DeviceLike | None = None
) -> dict[str, Tensor]:
    """The weights by name of a model or a manifest of TensorFlow.js; see `write_weights` for an example.

    Args:
        path: a ``model.json``, whose layers and signatures are not looked at, or a manifest.
        device: where the tensors go; by default to the active backend.

    Raises:
        ArgumentError, ArgumentValueError: `path` is not a path.
        DamagedFile: the file holds no manifest, names a file outside of its own folder, or does not fit
            the files that it names.
        BackendNotFound, BackendUnavailable: `device` names no backend, or one that cannot start.
        OSError: a file is missing, which is a FileNotFoundError, or cannot be read.
    """
    backend = resolve_backend(device)
    _, arrays = read_arrays("read_weights", check_path(path, "read_weights"))
    return {name: asarray(values, device=backend) for name, values in arrays.items()}


def read_model(
    path: str | PathLike[str], *, device: DeviceLike | None = None
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The content of a ``model.json``, and its weights by name; see `write_model` for an example.

    Args:
        path: the file.
        device: where the tensors go; by default to the active backend.

    Raises:
        ArgumentError, ArgumentValueError, DamagedFile, OSError: as for `read_weights`.
        BackendNotFound, BackendUnavailable: `device` names no backend, or one that cannot start.
    """
    backend = resolve_backend(device)
    path = check_path(path, "read_model")
    document, arrays = read_arrays("read_model", path)
    if not isinstance(document, dict):
        raise DamagedFile(f"read_model: {path} has only weights, and no model")
    weights = {name: asarray(values, device=backend) for name, values in arrays.items()}
    return cast("dict[str, Any]", document), weights


def read_arrays(op_name: str, path: str) -> tuple[Any, dict[str, NDArray[Any]]]:
    """Return the content of a model or manifest, and its weights as arrays by name; errors begin with `op_name`.

    Raises:
        DamagedFile, OSError: as for `read_weights`.
    """
    while True:
        text = _read_file(path)
        try:
            return _read_groups(op_name, text, path)
        except FileNotFoundError:
            if _read_file(path) == text:
                raise
        # Another process has written new weights, and deleted the old ones.


def _read_groups(
    op_name: str, manifest_bytes: bytes, path: str
) -> tuple[Any, dict[str, NDArray[Any]]]:
    """Read the weights from the files that the manifest at `path` lists."""
    try:
        weights: dict[str, NDArray[Any]] = {}
        document, groups = _parse_groups(manifest_bytes)
        for paths, specs in groups:
            parts = [_read_file(os.path.join(os.path.dirname(path), name)) for name in paths]
            found = _decode_arrays(parts, specs, op_name)
            if twice := weights.keys() & found.keys():
                raise DamagedFile(f"there are two weights called {short_repr(min(twice))}")
            weights |= found
    except DamagedFile as error:
        raise DamagedFile(f"{op_name}: {path} is damaged, or is not a manifest: {error}") from None
    return document, weights


def _parse_groups(manifest_bytes: bytes) -> tuple[Any, list[tuple[list[Any], list[Any]]]]:
    """Return the document, and for each group of its manifest the file names and the weights' specs."""
    try:
        document: object = json.loads(manifest_bytes)
    except (ValueError, RecursionError) as error:
        raise DamagedFile(f"it is not JSON: {error}") from None
    manifest = document
    if isinstance(manifest, dict):
        manifest = cast("dict[str, object]", manifest).get("weightsManifest")
    if not isinstance(manifest, list):
        raise DamagedFile("it has no list weightsManifest")
    groups: list[tuple[list[Any], list[Any]]] = []
    for group in cast("list[Any]", manifest):
        match group:
            case {"paths": [*paths], "weights": [*specs]} if all(map(_is_inside_folder, paths)):
                groups.append((paths, specs))
            case _:
                raise DamagedFile(
                    f"{short_repr(group)} is not a group of files beside it and of weights"
                )
    return document, groups


def _is_inside_folder(file_name: object) -> bool:
    """Return whether a file name stays inside the manifest's folder."""
    return (
        isinstance(file_name, str)
        and bool(file_name)
        and "\0" not in file_name
        and not os.path.isabs(file_name)
        and ".." not in file_name.replace("\\", "/").split("/")
    )


def _read_file(path: str) -> bytes:
    """Return the bytes of a file."""
    with open(path, "rb") as file:
        return file.read()


def _write_file(path: str, data: bytes) -> None:
    """Write bytes to a file, which replaces an old one atomically."""
    with replace_atomically(path, "write_weights") as new, open(new, "wb") as file:
        file.write(data)
