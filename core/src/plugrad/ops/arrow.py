"""Tensors as Arrow's arrays: the protocol ``__arrow_c_array__``.

Polars, pyarrow, DuckDB and others read what it returns: two structures of Arrow's C data interface
(https://arrow.apache.org/docs/format/CDataInterface.html), each in a capsule.
"""

from __future__ import annotations

import ctypes
from ctypes import CFUNCTYPE, POINTER, PYFUNCTYPE, Structure, c_char_p, c_int64, c_void_p
from itertools import count
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from plugrad.errors import DTypeError, ShapeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from plugrad.tensor.tensor import Tensor

ARROW_FORMAT_OF_DTYPE: Final = {
    "bool": "b",
    "string": "U",
    "int8": "c",
    "int16": "s",
    "int32": "i",
    "int64": "l",
    "uint8": "C",
    "uint16": "S",
    "uint32": "I",
    "uint64": "L",
    "float16": "e",
    "float32": "f",
    "float64": "g",
}
"""Arrow's format letters of element types, by the names of dtypes."""


class ArrowSchema(Structure):
    """Arrow's C structure that describes the type of an array."""


class ArrowArray(Structure):
    """Arrow's C structure that points to the values of an array."""


ReleaseCallback = CFUNCTYPE(None, c_void_p)
"""The type of the function in C that a consumer calls when it no longer needs a structure."""

ArrowSchema._fields_ = [
    *(("format", c_char_p), ("name", c_char_p), ("metadata", c_char_p), ("flags", c_int64)),
    *(("n_children", c_int64), ("children", POINTER(POINTER(ArrowSchema)))),
    *(("dictionary", c_void_p), ("release", c_void_p), ("private_data", c_void_p)),
]
ArrowArray._fields_ = [
    *(("length", c_int64), ("null_count", c_int64), ("offset", c_int64), ("n_buffers", c_int64)),
    *(("n_children", c_int64), ("buffers", POINTER(c_void_p))),
    *(("children", POINTER(POINTER(ArrowArray))), ("dictionary", c_void_p)),
    *(("release", c_void_p), ("private_data", c_void_p)),
]

_next_structure_number: Final = count(1)
"""Gives each structure a number of its own, by `next`."""
_kept_contents: Final[dict[int, object]] = {}
"""The objects to which each unreleased structure points, by the number in its ``private_data``."""
_live_structures: Final[dict[int, Structure]] = {}
"""The structures in capsules, by their addresses, which are kept alive until the capsule is destroyed."""


def _make_release_callback(structure_type: type[Any]) -> Any:
    """Return the function that consumers call to release a structure of a type."""

    def release(address: int) -> None:
        """Drop what a structure points to, and release its children, unless a consumer has moved them."""
        try:
            structure = structure_type.from_address(address)
        except BaseException:  # of the consumer, which calls this while it raises
            structure = structure_type.from_address(address)
        for i in range(structure.n_children):
            child = structure.children[i].contents
            if child.release:
                release(ctypes.addressof(child))
        structure.release = None
        _kept_contents.pop(structure.private_data, None)

    return ReleaseCallback(release)


_RELEASE_CALLBACKS: Final = {
    kind: _make_release_callback(kind) for kind in (ArrowSchema, ArrowArray)
}
"""The function in C that releases a structure, by the structure's type."""
_CAPSULE_NAMES: Final = {ArrowSchema: b"arrow_schema", ArrowArray: b"arrow_array"}
"""The name that Arrow prescribes for capsules, by the type of the structure in them."""
_get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_get_pointer.restype, _get_pointer.argtypes = c_void_p, [c_void_p, c_char_p]
_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype, _new_capsule.argtypes = ctypes.py_object, [c_void_p, c_char_p, c_void_p]


def _make_capsule_destructor(structure_type: type[Any]) -> Any:
    """Return the function that destroys a capsule with a structure of a type."""

    def destroy(capsule: int) -> None:
        """Drop the structure in a capsule, and release it unless a consumer has taken its contents."""
        address = _get_pointer(capsule, _CAPSULE_NAMES[structure_type])
        structure: Any = _live_structures.pop(address)
        if structure.release:
            _RELEASE_CALLBACKS[structure_type](address)

    return PYFUNCTYPE(None, c_void_p)(destroy)


_CAPSULE_DESTRUCTORS: Final = {
    kind: _make_capsule_destructor(kind) for kind in (ArrowSchema, ArrowArray)
}
"""The function in C that destroys a capsule, by the type of the structure in it."""


def _keep_contents_alive(structure: Any, contents: object) -> None:
    """Keep the objects to which a structure points alive until it is released."""
    structure.private_data = next(_next_structure_number)
    _kept_contents[structure.private_data] = contents
    structure.release = ctypes.cast(_RELEASE_CALLBACKS[type(structure)], c_void_p)


def _set_child(structure: Any, child: Any | None, *contents: object) -> Any:
    """Set a structure's only child, if any, keep its contents alive, and return the structure."""
    kind = cast("type[Any]", type(structure))
    if child is not None:
        structure.n_children = 1
        structure.children = (POINTER(kind) * 1)(ctypes.pointer(child))
    _keep_contents_alive(structure, (child, structure.children, contents))
    return structure


def _make_capsule(structure: Any) -> Any:
    """Return a Python capsule with a structure, which stays alive as long as the capsule."""
    kind = cast("type[Any]", type(structure))
    address = ctypes.addressof(structure)
    _live_structures[address] = structure
    return _new_capsule(
        address, _CAPSULE_NAMES[kind], ctypes.cast(_CAPSULE_DESTRUCTORS[kind], c_void_p)
    )


def _make_schema(element_format: str, list_sizes: Sequence[int]) -> Any:
    """Return the schema of an array of elements, nested in lists of the given fixed sizes, if any."""
    letters = (f"+w:{list_sizes[0]}" if list_sizes else element_format).encode()
    child = _make_schema(element_format, list_sizes[1:]) if list_sizes else None
    return _set_child(ArrowSchema(format=letters, name=b""), child, letters)


def _make_array(buffers: Sequence[NDArray[Any]], shape: Sequence[int]) -> Any:
    """Return the structure that points to the buffers of values of a shape, whose further axes are fixed-size lists."""
    length, sizes = shape[0], shape[1:]
    own = () if sizes else buffers  # in front of them, Arrow has a buffer of what is missing
    pointers = (c_void_p * (1 + len(own)))(None, *[b.ctypes.data for b in own])
    structure = ArrowArray(length=length, n_buffers=len(pointers), buffers=pointers)
    child = _make_array(buffers, (length * sizes[0], *sizes[1:])) if sizes else None
    return _set_child(structure, child, pointers, own)


def _as_arrow_buffers(values: NDArray[Any]) -> Sequence[NDArray[Any]]:
    """Return the elements as Arrow stores them: bools as bits, and strings one after the other, with their offsets."""
    flat = values.reshape(-1)
    if flat.dtype == np.bool_:
        return (np.packbits(flat, bitorder="little"),)
    if flat.dtype.kind != "T":
        return (flat,)
    texts = [text.encode() for text in flat.tolist()]
    offsets = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    return offsets, np.frombuffer(b"".join(texts) or b"\0", np.uint8)


def export_arrow(x: Tensor, requested_schema: object = None) -> tuple[Any, Any]:
    """Return the capsules of the type and of the values: the protocol ``__arrow_c_array__``.

    The first axis is that of the array; further ones are lists of fixed sizes. On the cpu backend, numbers share
    the tensor's memory, as they do with NumPy. `requested_schema` asks for a type, which the protocol lets a
    producer ignore; the consumer converts.

    Raises:
        ShapeError: the tensor has no axis.
        DTypeError: Arrow has no such type, as for complex numbers.
        GradientLost: the tensor is being differentiated; the array would have no gradient.
    """
    values = np.asarray(x.numpy(), order="C")
    if not values.ndim:
        raise ShapeError(
            "an array of Arrow has an axis, which this tensor has not; write x.reshape(1), or x.item()"
        )
    if x.dtype.name not in ARROW_FORMAT_OF_DTYPE:
        raise DTypeError(
            f"Arrow has no type for {x.dtype}; cast first, or split complex numbers with plugrad.real and plugrad.imag"
        )
    schema = _make_schema(ARROW_FORMAT_OF_DTYPE[x.dtype.name], values.shape[1:])
    return _make_capsule(schema), _make_capsule(
        _make_array(_as_arrow_buffers(values), values.shape)
    )
