"""TOML files that anybody may have written: reading them neither waits nor takes long, and fails with a ValueError."""

from __future__ import annotations

import os
import re
import stat
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pathlib import Path

MAX_TOML_BYTES: Final = 64 * 1024
"""The largest file, in bytes, that is read, unless a caller allows more."""
MAX_KEY_DOTS: Final = 64
"""The maximum number of dots in a key: between two of the characters ``= , [ ] { }`` or the ends of a line."""


def parse_toml(content: bytes) -> dict[str, Any]:
    """Parse the bytes of a TOML file.

    Raises:
        ValueError: they are not TOML, or nested too deeply; the message is the end of a sentence.
    """
    import tomllib  # slow to import, and files are rarely there

    # A key like a.b.c, of as many parts as fit into the file, would take tomllib minutes.
    if any(part.count(b".") > MAX_KEY_DOTS for part in re.split(rb"[\n=,{}\[\]]", content)):
        raise ValueError(f"a key or a value has more than {MAX_KEY_DOTS} dots")
    try:
        return tomllib.loads(content.decode("utf-8"))
    except RecursionError:
        raise ValueError("its values are nested too deeply") from None


def read_regular_file(path: Path, max_bytes: int = MAX_TOML_BYTES) -> bytes:
    """Return the bytes of a regular file of limited size; a pipe is refused without waiting for a writer.

    Raises:
        ValueError: it is not a regular file, or larger.
        OSError: it cannot be read.
    """
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    number = os.open(path, flags)
    try:
        if not stat.S_ISREG(os.fstat(number).st_mode):
            raise ValueError("it is not a regular file")
        with os.fdopen(number, "rb", closefd=False) as file:
            return check_size(file.read(max_bytes + 1), max_bytes)
    finally:
        os.close(number)


def check_size(content: bytes, max_bytes: int = MAX_TOML_BYTES) -> bytes:
    """Return the bytes of a file unless there are more than `max_bytes`.

    Raises:
        ValueError: there are.
    """
    if len(content) > max_bytes:
        raise ValueError(f"it is larger than {max_bytes // 1024} KiB")
    return content
