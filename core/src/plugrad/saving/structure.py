"""The structure of a nested container as JSON, and the arrays in it by name.

JSON's null, booleans, numbers, strings and lists stand for themselves. An object has one of the keys
below and stands for what JSON does not have:

=============================================  ===================================================
``{"dict": [[key, part], …]}``                 a dict, whose keys are strings and integers
``{"tuple": [part, …]}``                       a tuple
``{"int": "0x…"}``                             an integer of more than 64 bits
``{"float": "nan"}``                           a float that is not finite
``{"complex": [part, part]}``                  a complex number
``{"tensor": name}``                           the tensor with the values of array `name`
``{"array": name}``                            NumPy's array with these values
``{"variable": name, "trainable": …, "name": …}``  a variable with these values
=============================================  ===================================================

An array whose dtype the file format does not have is stored as one of another dtype. Then there is
also a key ``"dtype"``: ``"complex128"`` for pairs of float64, ``"string"`` for bytes as in
`plugrad.saving.text`, with the ``"shape"``, and the name of a plugin's dtype for the bytes of each element.
"""

from __future__ import annotations

from math import isfinite, prod
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from plugrad.errors import ArgumentError, DamagedFile, UnsupportedDtype, short_repr
from plugrad.ops.creation import asarray
from plugrad.saving.text import pack_strings, unpack_strings
from plugrad.tensor.tensor import Tensor
from plugrad.transforms.variable import Variable
from plugrad.types.dtype import BFLOAT16, DTYPES, DType, complex128, every_dtype, string

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from plugrad.tensor.backend import Backend
    from plugrad.types.specs import Shape

    TreePath = tuple[str | int, ...]
    """The keys and indices that lead to a part of a tree."""

RESERVED_NAMES = {"", "__metadata__"}
"""Names that the file format does not allow for arrays."""
STORABLE_NUMPY_KINDS = "biufc"
"""NumPy's letters for the kinds of dtypes that the file format can hold, at least in some sizes."""


class StoredArray(NamedTuple):
    """An array as the file stores it: its dtype, its shape, and the tensor or array with the bytes."""

    dtype: np.dtype[Any]
    shape: Shape
    data: Tensor | NDArray[Any]
    """The tensor or NumPy array with the bytes."""


class StructureWriter:
    """Writes the structure of a tree, and collects its arrays without reading them from their devices."""

    def __init__(self) -> None:
        """Begin without arrays."""
        self.arrays: dict[str, StoredArray] = {}
        """The arrays by name: the keys that lead to them, joined by dots."""
        self._nodes: dict[int, dict[str, Any]] = {}

    def describe(self, part: Any, path: TreePath = ()) -> Any:
        """Return the structure of the part of the tree at a path, as values for JSON.

        Raises:
            ArgumentError: it is nothing that can be saved.
            DisposedTensor: a tensor has been disposed.
        """
        part = _as_python_number(part)
        kind = cast("type[Any]", type(part))
        if part is None or kind in (bool, str):
            return part
        if kind is int:
            return part if part.bit_length() <= 64 else {"int": hex(part)}
        if kind is float:
            return part if isfinite(part) else {"float": str(part)}
        if kind is complex:
            return {"complex": [self.describe(part.real), self.describe(part.imag)]}
        if kind in (list, tuple):
            parts = [self.describe(x, (*path, i)) for i, x in enumerate(part)]
            return parts if kind is list else {"tuple": parts}
        if kind is dict:
            return {"dict": [self._describe_entry(key, x, path) for key, x in part.items()]}
        if kind in (Tensor, Variable, np.ndarray, np.memmap):
            # One object in two places, such as a shared weight, stays one object.
            if id(part) not in self._nodes:
                self._nodes[id(part)] = self._describe_leaf(part, path)
            return self._nodes[id(part)]
        if isinstance(part, Tensor):
            _ = part.array  # raises if the tensor has been disposed
        raise ArgumentError(
            f"save: {_format_path(path)} is {short_repr(part)}; {_remedy_for_unstorable(part)}"
        )

    def _describe_entry(self, key: Any, entry_value: Any, path: TreePath) -> list[Any]:
        """Return the structure of an entry of a dict: its key, and the structure of its value."""
        if type(key) not in (str, int):
            raise ArgumentError(
                f"save: {_format_path(path)} has the key {short_repr(key)}; keys must be strings or integers"
            )
        return [key, self.describe(entry_value, (*path, key))]

    def _describe_leaf(self, leaf: Any, path: TreePath) -> dict[str, Any]:
        """Return the structure of a tensor, variable or array, whose values are added to `arrays`."""
        name = ".".join(map(str, path)).encode(errors="replace").decode()  # no half surrogate pairs
        while name in self.arrays or name in RESERVED_NAMES:
            name += "_"
        self.arrays[name], how = _encode_leaf(leaf, path)
        if isinstance(leaf, Variable):
            return {"variable": name, "trainable": leaf.trainable, "name": leaf.name, **how}
        return {"tensor" if isinstance(leaf, Tensor) else "array": name, **how}


def _as_python_number(part: Any) -> Any:
    """Convert a NumPy scalar to a Python number; return anything else unchanged."""
    return cast("np.generic[Any]", part).item() if isinstance(part, np.generic) else part


def _encode_leaf(leaf: Tensor | NDArray[Any], path: TreePath) -> tuple[StoredArray, dict[str, Any]]:
    """Return a leaf as an array that the file format can hold, and JSON entries that tell `_decode_leaf` its type."""
    dtype = leaf.dtype.numpy if isinstance(leaf, Tensor) else leaf.dtype
    shape = tuple(leaf.shape)
    if dtype == string.numpy:
        texts = leaf.numpy() if isinstance(leaf, Tensor) else leaf
        data = np.frombuffer(pack_strings(texts.ravel().tolist()), np.uint8)
        return StoredArray(data.dtype, data.shape, data), {"dtype": "string", "shape": list(shape)}
    if dtype.name == BFLOAT16:
        return StoredArray(dtype, shape, leaf), {"dtype": BFLOAT16}
    if added := _plugin_dtype(dtype):
        stored = StoredArray(np.dtype("u1"), (*shape, dtype.itemsize), leaf)
        return stored, {"dtype": added.name}
    little = dtype.newbyteorder("<")
    if dtype.kind not in STORABLE_NUMPY_KINDS or little.char in "gG":
        raise ArgumentError(
            f"save: {_format_path(path)} is an array of {dtype}, for which the file has no place; save numbers of "
            "a dtype that plugrad knows, as in x.astype('float32'), bools, or strings as plugrad.asarray(x) holds them"
        )
    if little == complex128.numpy:
        return StoredArray(np.dtype("<f8"), (*shape, 2), leaf), {"dtype": "complex128"}
    return StoredArray(little, shape, leaf), {}


def _plugin_dtype(numpy_dtype: np.dtype[Any]) -> DType | None:
    """Return the dtype that a plugin has registered for one of NumPy's, or None."""
    return next((d for d in every_dtype()[len(DTYPES) :] if d.numpy == numpy_dtype), None)


def _format_path(path: TreePath) -> str:
    """Return a path as an expression for messages, such as ``tree['w'][0]``."""
    return "tree" + "".join(f"[{short_repr(key)}]" for key in path)


def _remedy_for_unstorable(part: object) -> str:
    """Return the advice of an error about an object that cannot be saved: the object to save in its place."""
    if hasattr(part, "get_state"):
        return "save what its method get_state returns"
    if hasattr(part, "state"):
        return "save its attribute state"
    if hasattr(part, "__array__"):
        return "save plugrad.asarray(x)"
    bases = [t for t in (dict, list, tuple, str, int, float) if isinstance(part, t)]
    if bases:
        return f"subclasses of {bases[0].__name__} do not come back as such, so save {bases[0].__name__}(x)"
    return "save dicts, lists and tuples of tensors, arrays, numbers, strings and None"


class StructureReader:
    """Rebuilds a tree from its structure and its arrays."""

    def __init__(self, arrays: Mapping[str, NDArray[Any]], backend: Backend) -> None:
        """Read from arrays, each of which is new when it is asked for; tensors are made on `backend`."""
        self._arrays = arrays
        self._backend = backend
        self._leaves: dict[tuple[str, str], Any] = {}

    def rebuild(self, node: Any) -> Any:
        """Return the part of the tree that a structure describes.

        Raises:
            DamagedFile: it is not a structure, or does not fit the arrays.
            UnsupportedDtype: the backend does not have a dtype, or no loaded plugin brings it.
        """
        match node:
            case None | bool() | int() | float() | str():
                return node
            case list():
                return [self.rebuild(part) for part in cast("list[Any]", node)]
            case {"tuple": [*parts], **nothing} if not nothing:
                return tuple(self.rebuild(part) for part in parts)
            case {"dict": [*entries], **nothing} if not nothing:
                return dict(self._rebuild_entry(entry) for entry in entries)
            case {"int": str(digits), **nothing} if not nothing:
                return _parse_number(lambda text: int(text, 16), digits)
            case {"float": str(text), **nothing} if not nothing:
                return _parse_number(float, text)
            case {"complex": [real, imag], **nothing} if not nothing:
                return _parse_number(
                    lambda parts: complex(*parts), (self.rebuild(real), self.rebuild(imag))
                )
            case {"tensor": str(name), **how}:
                return self._rebuild_leaf("tensor", name, how)
            case {"variable": str(name), "trainable": bool(), "name": str(), **how}:
                return self._rebuild_leaf("variable", name, how, cast("dict[str, Any]", node))
            case {"array": str(name), **how}:
                return self._rebuild_leaf("array", name, how)
            case _:
                raise DamagedFile(f"{short_repr(node)} describes nothing that is saved")

    def _rebuild_entry(self, entry: Any) -> tuple[str | int, Any]:
        """Return the key and the value that an entry of a dict's structure describes."""
        match entry:
            case [str() | int() as key, part]:
                return key, self.rebuild(part)
            case _:
                raise DamagedFile(f"{short_repr(entry)} is not an entry of a dict")

    def _rebuild_leaf(
        self,
        leaf_type: str,
        array_name: str,
        conversion: Mapping[Any, Any],
        node: Mapping[str, Any] | None = None,
    ) -> Any:
        """Return the leaf whose array has a name, converted back as `conversion` says; the same object each time."""
        if (leaf := self._leaves.get((leaf_type, array_name))) is not None:
            return leaf
        if array_name not in self._arrays:
            raise DamagedFile(f"there is no array {short_repr(array_name)}")
        values = _decode_leaf(self._arrays[array_name], conversion, array_name)
        if leaf_type == "array":
            leaf = values
        else:
            leaf = asarray(values, device=self._backend)
            if node is not None:
                leaf = Variable(leaf, trainable=node["trainable"], name=node["name"])
        self._leaves[leaf_type, array_name] = leaf
        return leaf


def _parse_number(convert: Any, value: object) -> Any:
    """Return the converted value; raise DamagedFile if the conversion fails."""
    try:
        return convert(value)
    except (TypeError, ValueError):
        raise DamagedFile(f"{short_repr(value)} is not a number") from None


def _decode_leaf(
    stored_array: NDArray[Any], conversion: Mapping[Any, Any], array_name: str
) -> NDArray[Any]:
    """Return the leaf of which `_encode_leaf` has made a stored array and its entries for the conversion.

    Raises:
        DamagedFile: they are not stored so.
        UnsupportedDtype: the dtype belongs to a plugin that is not loaded.
    """
    match conversion:
        case {"dtype": "complex128", **nothing} if not nothing:
            if stored_array.dtype == np.float64 and stored_array.shape[-1:] == (2,):
                return np.ascontiguousarray(stored_array).view(np.complex128)[..., 0]
        case {"dtype": "string", "shape": [*sizes], **nothing} if not nothing:
            if stored_array.dtype == np.uint8 and all(type(n) is int and n >= 0 for n in sizes):
                try:
                    texts, used = unpack_strings(stored_array.tobytes(), prod(sizes))
                    if used == stored_array.size:
                        return np.array(texts, string.numpy).reshape(sizes)
                except ValueError as error:
                    raise DamagedFile(f"the strings of {short_repr(array_name)}: {error}") from None
        case {"dtype": "bfloat16", **nothing} if not nothing and stored_array.dtype == np.float32:
            return stored_array.astype(DType(BFLOAT16).numpy)
        case {"dtype": str(dtype), **nothing} if not nothing and stored_array.dtype == np.uint8:
            added = next((d for d in every_dtype()[len(DTYPES) :] if d.name == dtype), None)
            if added is None:
                raise UnsupportedDtype(
                    f"load: array {short_repr(array_name)} is {short_repr(dtype)}, a dtype that no loaded plugin "
                    "brings; open the backend or import the plugin that has registered it, then load again"
                )
            if stored_array.shape[-1:] == (added.itemsize,):
                return np.ascontiguousarray(stored_array).view(added.numpy)[..., 0]
        case {**nothing} if not nothing:
            return stored_array
        case _:
            pass
    raise DamagedFile(
        f"array {short_repr(array_name)} is not what {short_repr(dict(conversion))} says"
    )
