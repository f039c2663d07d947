"""`save` and `load`: nested containers of tensors in safetensors files."""

from __future__ import annotations

import json
import os
from contextlib import closing
from itertools import groupby
from math import prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from plugrad.discovery.selection import resolve_backend
from plugrad.errors import ArgumentError, DamagedFile, PlugradError, UnsupportedDtype, short_repr
from plugrad.ops.creation import asarray
from plugrad.saving.atomic_files import check_path, replace_atomically
from plugrad.saving.structure import StructureReader, StructureWriter
from plugrad.saving.tensor_file import DTYPE_OF_SAFETENSORS_CODE, TensorFile
from plugrad.tensor.backend import (
    check_device_alive,
    make_backend_failed_error,
    make_invalid_result_error,
    mark_device_lost,
    must_propagate,
)
from plugrad.tensor.tensor import Tensor
from plugrad.types.dtype import BFLOAT16

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence
    from os import PathLike

    from numpy.typing import NDArray

    from plugrad.discovery.selection import DeviceLike
    from plugrad.saving.structure import StoredArray
    from plugrad.tensor.backend import Backend

STRUCTURE_METADATA_KEY: Final = "plugrad"
"""The entry of the file's metadata that holds the structure."""
FORMAT_VERSION: Final = 1
"""The version of the structure that `save` writes into the metadata."""
WRITE_BUFFER_BYTES: Final = 1 << 20
"""The number of bytes of small arrays that are gathered before they are written."""
SAFETENSORS_CODE_OF_DTYPE: Final = {
    dtype: code for code, dtype in DTYPE_OF_SAFETENSORS_CODE.items() if code != "BF16"
}
"""The code of the file format for each of NumPy's dtypes."""


def save(path: str | PathLike[str], tree: Any) -> None:
    """Write a nested container of tensors to a safetensors file, which replaces an old one atomically.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "run.safetensors")
    >>> plugrad.save(path, {"weights": [plugrad.ones(2), plugrad.zeros(1)], "epoch": 3})
    >>> plugrad.load(path)
    {'weights': [tensor([1., 1.], dtype=float32), tensor([0.], dtype=float32)], 'epoch': 3}

    A process that is killed while it saves leaves the old file whole. What it had written so far stays
    beside it, in a folder whose name ends in ``.partial``, until the next `save` to the same path deletes it; on
    Windows, and on file systems without locks, it stays until somebody else does.

    In the file, arrays are called as the keys that lead to them, such as ``weights.0``, so that other
    readers of safetensors find them. complex128 is stored as pairs of float64, and text and dtypes of plugins as bytes.

    Tensors are read from their devices one after the other, large ones in parts. The safetensors library
    checks the file before it takes its place: ``pip install "plugrad[save]"``.

    Args:
        path: the name of the file.
        tree: dicts, lists and tuples of tensors, variables, NumPy's arrays, numbers, strings, bools and
            None, to any depth; or one of these. An object that is there twice, such as a shared weight,
            is saved once. The keys of dicts are strings and integers.

    Raises:
        ArgumentError: `tree` holds something else, or contains itself, or `path` is not a path.
        ArgumentValueError: no file can be called `path`, or it is a device or a pipe.
        DisposedTensor: a tensor has been disposed.
        ModuleNotFoundError: the safetensors library is not installed.
        OSError: the file cannot be written: FileNotFoundError without a folder for it,
            IsADirectoryError if it is a folder, PermissionError, or another one if its name is too
            long or the disk is full.
    """
    if _is_path(tree) and not _is_path(path):
        raise ArgumentError(f"save: the path comes first, as in plugrad.save({str(tree)!r}, tree)")
    path = check_path(path, "save")
    library = _import_safetensors()
    writer = StructureWriter()
    try:
        text = json.dumps(
            {"version": FORMAT_VERSION, "tree": writer.describe(tree)}, separators=(",", ":")
        )
    except RecursionError:
        raise ArgumentError(
            "save: the tree contains itself, or has more levels than Python's recursion allows"
        ) from None
    with replace_atomically(path, "save") as new:
        _write_arrays(new, writer.arrays, {STRUCTURE_METADATA_KEY: text})
        try:
            with library.safe_open(new, "np"):  # whatever cannot be read replaces nothing
                pass
        except library.SafetensorError as error:
            raise OSError(f"save: {path} cannot be written: {error}") from error


def _write_arrays(
    path: str, arrays: Mapping[str, StoredArray], metadata: Mapping[str, str]
) -> None:
    """Write arrays in the order in which their backends deliver them.

    The library's own function wants all of them on the host.
    """
    # The greatest elements come first, so that all of them lie where their dtypes want them.
    ordered = sorted(arrays.items(), key=lambda item: (-item[1].dtype.itemsize, item[1].dtype.str))
    header: dict[str, Any] = {"__metadata__": metadata}
    end = 0
    for name, (dtype, shape, _) in ordered:
        start, end = end, end + dtype.itemsize * prod(shape)
        code = "BF16" if dtype.name == BFLOAT16 else SAFETENSORS_CODE_OF_DTYPE[dtype]
        header[name] = {"dtype": code, "shape": shape, "data_offsets": (start, end)}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb", WRITE_BUFFER_BYTES) as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for (backend, _), group in groupby(
            (array.data for _, array in ordered), _backend_and_dtype
        ):
            parts = _iter_values(list(group), backend)
            with closing(parts):
                for part in parts:
                    little = np.asarray(part, part.dtype.newbyteorder("<"), order="C")
                    file.write(little.reshape(-1).view(np.uint8).data)


def _backend_and_dtype(data: Tensor | NDArray[Any]) -> tuple[Backend | None, Any]:
    """Return an array's backend, None for a host array, and its dtype."""
    return (data.backend if isinstance(data, Tensor) else None), data.dtype


def _iter_values(sources: Sequence[Any], backend: Backend | None) -> Generator[NDArray[Any]]:
    """Yield the values of arrays of one dtype, which are on a backend or, if that is None, on the host.

    Raises:
        BackendFailed: the backend does not give them.
    """
    if backend is None:
        yield from sources
        return
    check_device_alive(backend, "save")
    left, dtype = sum(prod(x.shape) for x in sources), sources[0].dtype.numpy
    try:
        with closing(backend.read(x.array for x in sources)) as parts:
            for part in parts:
                left -= part.size
                if left < 0 or part.dtype != dtype:
                    raise make_invalid_result_error(
                        backend, "read()", part, f"{left + part.size} values of {dtype}"
                    )
                yield part
    except PlugradError as error:
        mark_device_lost(error, backend)
        raise
    except BaseException as error:
        if must_propagate(error, backend):
            raise
        raise make_backend_failed_error(backend, "read()", error) from error
    if left:
        raise make_invalid_result_error(backend, "read()", None, f"{left} more values of {dtype}")


def load(path: str | PathLike[str], *, device: DeviceLike | None = None) -> Any:
    """The nested container that `save` wrote; see `save` for an example.

    Tensors and variables are made on one device, wherever they were when they were saved. NumPy's
    arrays, numbers and strings are as they were. NumPy's scalars come back as Python's numbers.

    A safetensors file of another program gives a dict of tensors by name; its bfloat16 becomes float32,
    which holds the same numbers, so that it can be read without the package ml-dtypes.

    Each tensor is read and copied to the device before the next one. The file may be replaced or deleted
    meanwhile. Nothing in it is executed. It must be complete, and its parts must fit together; there is no
    checksum over the values.

    Args:
        path: the name of the file.
        device: where the tensors go, such as "webgpu"; by default to the active backend.

    Raises:
        ArgumentError, ArgumentValueError: `path` is not a path, or no file can be called so.
        DamagedFile: the file is cut off, or is not what `save` or another program has written.
        UnsupportedDtype: plugrad does not have the dtype of a tensor, or the plugin that brings it is not
            loaded; or the backend does not have it, and the setting ``unsupported_dtype`` is "error".
        BackendNotFound, BackendUnavailable: `device` names no backend, or one that cannot start.
        OSError: the file cannot be read: FileNotFoundError if there is none, IsADirectoryError if it is
            a folder, PermissionError, or another one if its name is too long.
    """
    path = check_path(path, "load")
    with open(path, "rb") as file:
        try:
            arrays = TensorFile(file)
            backend = resolve_backend(device)
            if STRUCTURE_METADATA_KEY not in arrays.metadata:
                return {name: asarray(values, device=backend) for name, values in arrays.items()}
            return StructureReader(arrays, backend).rebuild(
                _read_structure(arrays.metadata[STRUCTURE_METADATA_KEY])
            )
        except UnsupportedDtype as error:
            raise UnsupportedDtype(f"load: {path}: {error}") from None
        except DamagedFile as error:
            raise DamagedFile(
                f"load: {path} is damaged, or is not a safetensors file: {error}"
            ) from None


def _read_structure(metadata_entry: str) -> Any:
    """Return the tree structure in a file's metadata."""
    try:
        match json.loads(metadata_entry):
            case {"version": 1, "tree": tree}:
                return tree
            case {"version": int(version)}:
                raise DamagedFile(
                    f"it has version {version} of the format, of which this plugrad knows 1"
                )
            case other:
                raise DamagedFile(f"{short_repr(other)} is not the structure of a tree")
    except (ValueError, RecursionError) as error:
        raise DamagedFile(f"the structure of the tree is not JSON: {error}") from None


def _is_path(x: object) -> bool:
    """Return whether x is a string or a path object."""
    return isinstance(x, str | os.PathLike)


def _import_safetensors() -> Any:
    """Import safetensors on first use and return it."""
    try:
        import safetensors
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            'save needs the library safetensors, which is not installed; run: pip install "plugrad[save]"'
        ) from None
    return safetensors
