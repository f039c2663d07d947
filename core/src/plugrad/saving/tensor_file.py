"""Reading safetensors files: a header of JSON, and the values of the tensors behind it.

The file is read, not mapped: the end of a mapped file that another program cuts off would end this process by SIGBUS.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import numpy as np

from plugrad.errors import DamagedFile, UnsupportedDtype, short_repr

if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import BufferedReader

    from numpy.typing import NDArray

DTYPE_OF_SAFETENSORS_CODE: Final[dict[str, np.dtype[Any]]] = {
    "BOOL": np.dtype("?"),
    **{
        f"{kind.upper()}{8 * size}": np.dtype(f"<{kind}{size}")
        for kind in "iu"
        for size in (1, 2, 4, 8)
    },
    **{f"F{8 * size}": np.dtype(f"<f{size}") for size in (2, 4, 8)},
    "C64": np.dtype("<c8"),
    "BF16": np.dtype("<u2"),
}
"""NumPy's dtypes by the codes of the file format; bfloat16 is read as integers."""
UNSUPPORTED_DTYPE_CODES: Final = frozenset(
    ("F4", "F6_E2M3", "F6_E3M2", "F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ")
)
"""The codes of dtypes that the file format has, but plugrad does not."""
HEADER_MAX_BYTES: Final = 100_000_000
"""The most bytes of a header, as the safetensors library allows them."""
MAX_AXES: Final = 64
"""The most axes of an array of NumPy."""


class _HeaderEntry(NamedTuple):
    """The position of a tensor among the bytes after the header, its dtype and its shape."""

    start_byte: int
    """The position of the first byte, counted from the end of the header."""
    end_byte: int
    """The position after the last byte, counted from the end of the header."""
    dtype_code: str
    """The file format's code of the dtype."""
    shape: tuple[int, ...]


class TensorFile(Mapping[str, "NDArray[Any]"]):
    """The arrays of an open file by name, each read on access. `metadata` holds texts by name."""

    def __init__(self, file: BufferedReader) -> None:
        """Read the header, and check that the values of all tensors fill the rest of the file.

        Raises:
            DamagedFile: the file is cut off, or is not one of safetensors.
            UnsupportedDtype: plugrad does not have the dtype of a tensor.
        """
        self._file = file
        size = os.fstat(file.fileno()).st_size
        length = int.from_bytes(self._read_bytes(8), "little")
        if length > min(size - 8, HEADER_MAX_BYTES):
            raise DamagedFile(f"its header would have {length} bytes, and the file has {size}")
        self._start = 8 + length
        header = _parse_header(self._read_bytes(length))
        self.metadata: dict[str, str] = _check_metadata(header.pop("__metadata__", {}))
        self._places = {name: _parse_header_entry(name, entry) for name, entry in header.items()}
        ends = [(0, 0), *sorted(place[:2] for place in self._places.values())]
        gap = any(start != end for (_, end), (start, _) in pairwise(ends))
        if gap or self._start + ends[-1][1] != size:
            raise DamagedFile("the values of its tensors do not fill it")

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Read an array.

        Raises:
            KeyError: there is none of this name.
            DamagedFile: the file has become shorter since its header was read.
        """
        place = self._places[name]
        values = np.empty(place.shape, DTYPE_OF_SAFETENSORS_CODE[place.dtype_code])
        self._file.seek(self._start + place.start_byte)
        if self._file.readinto(values.reshape(-1).view(np.uint8).data) != values.nbytes:
            raise DamagedFile(f"it was cut off while tensor {short_repr(name)} was read")
        if place.dtype_code == "BF16":
            return (values.astype(np.uint32) << 16).view(np.float32)
        return values

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def _read_bytes(self, byte_count: int) -> bytes:
        """Return the next bytes of the header; raise if the file ends before."""
        data = self._file.read(byte_count)
        if len(data) < byte_count:
            raise DamagedFile("it is empty" if not data else "it ends in its header")
        return data


def _parse_header(header_bytes: bytes) -> dict[str, Any]:
    """Return the entries of a header by the tensors' names."""
    try:
        header: object = json.loads(
            header_bytes.decode(), object_pairs_hook=_dict_without_duplicates
        )
    except (ValueError, RecursionError) as error:
        raise DamagedFile(f"its header is not JSON: {error}") from None
    if not isinstance(header, dict):
        raise DamagedFile(f"its header is {short_repr(header)}, and no table")
    return cast("dict[str, Any]", header)


def _dict_without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object's pairs as a dict; raise ValueError if a name occurs twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name is there twice")
    return found


def _check_metadata(metadata: object) -> dict[str, str]:
    """Return the metadata of a file after a check that they are texts by name."""
    if isinstance(metadata, dict):
        texts = cast("dict[str, Any]", metadata)
        if all(isinstance(text, str) for text in texts.values()):
            return texts
    raise DamagedFile(f"its metadata are {short_repr(metadata)}, and no texts")


def _parse_header_entry(tensor_name: str, entry: Any) -> _HeaderEntry:
    """Return the position, dtype and shape of a tensor, parsed from its header entry."""
    match entry:
        case {
            "dtype": str(code),
            "shape": [*shape],
            "data_offsets": [int(start), int(end)],
            **nothing,
        } if not nothing and len(shape) <= MAX_AXES and all(map(_is_size, (*shape, start, end))):
            if code in UNSUPPORTED_DTYPE_CODES:
                raise UnsupportedDtype(
                    f"tensor {short_repr(tensor_name)} is {code}, which plugrad does not have; convert it "
                    "with the program that wrote it, to float32 for example"
                )
            dtype = DTYPE_OF_SAFETENSORS_CODE.get(code)
            if dtype is not None and end - start == prod(shape) * dtype.itemsize:
                return _HeaderEntry(start, end, code, tuple(shape))
        case _:
            pass
    raise DamagedFile(f"{short_repr(entry)} describes no tensor, as {short_repr(tensor_name)}")


def _is_size(value: object) -> bool:
    """Return whether a value from JSON can be a size: an integer from 0 to 2**63 - 1."""
    return type(value) is int and 0 <= value < 2**63
