"""Strings as bytes, in the form of TensorFlow.js: each has its length before it, in four bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

STRING_LENGTH_BYTES = 4
"""The number of bytes of a length, a little-endian unsigned integer."""


def pack_strings(texts: Iterable[str]) -> bytes:
    r"""Encode strings as bytes: for each string, its length in bytes and its UTF-8.

    >>> pack_strings(["hi", ""])
    b'\x02\x00\x00\x00hi\x00\x00\x00\x00'
    """
    parts: list[bytes] = []
    for text in texts:
        data = text.encode()
        parts += (len(data).to_bytes(STRING_LENGTH_BYTES, "little"), data)
    return b"".join(parts)


def unpack_strings(data: bytes | memoryview, count: int) -> tuple[list[str], int]:
    """Decode the first `count` strings from the bytes that `pack_strings` made; also return the number of bytes read.

    >>> unpack_strings(pack_strings(["hi", ""]), 2)
    (['hi', ''], 10)

    Raises:
        ValueError: the bytes end within a string, or are not UTF-8.
    """
    texts: list[str] = []
    at = 0
    for _ in range(count):
        start = at + STRING_LENGTH_BYTES
        at = start + int.from_bytes(data[at:start], "little")
        if at > len(data) or start > len(data):
            raise ValueError(f"the bytes end within string {len(texts)} of {count}")
        texts.append(str(data[start:at], "utf-8"))
    return texts, at
