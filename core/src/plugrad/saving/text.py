"""Strings as bytes, in the form of TensorFlow.js: each has its length before it, in four bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

WORD = 4
"""The number of bytes of a length, a little-endian unsigned integer."""


def packed(texts: Iterable[str]) -> bytes:
    r"""Return strings as bytes: for each the length of its UTF-8, and its UTF-8.

    >>> packed(["hi", ""])
    b'\x02\x00\x00\x00hi\x00\x00\x00\x00'
    """
    parts: list[bytes] = []
    for text in texts:
        data = text.encode()
        parts += (len(data).to_bytes(WORD, "little"), data)
    return b"".join(parts)


def unpacked(data: bytes | memoryview, count: int) -> tuple[list[str], int]:
    """Return the first `count` strings of bytes that `packed` has made, and the number of bytes that they take.

    >>> unpacked(packed(["hi", ""]), 2)
    (['hi', ''], 10)

    Raises:
        ValueError: the bytes end within a string, or are not UTF-8.
    """
    texts: list[str] = []
    at = 0
    for _ in range(count):
        start = at + WORD
        at = start + int.from_bytes(data[at:start], "little")
        if at > len(data) or start > len(data):
            raise ValueError(f"the bytes end within string {len(texts)} of {count}")
        texts.append(str(data[start:at], "utf-8"))
    return texts, at
