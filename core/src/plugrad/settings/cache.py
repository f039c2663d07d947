"""Files that plugins keep in the user's cache directory, such as compiled code."""

from __future__ import annotations

import os
import stat
import sys
import threading
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

try:
    from _blake2 import blake2b
except ImportError:
    from hashlib import blake2b  # the same function; with OpenSSL it takes 4 ms to load

from plugrad.interruptions import is_interruption, suppress_failures

if TYPE_CHECKING:
    from collections.abc import Iterator

DIGEST_BYTES: Final = 32
"""The number of bytes of the checksum (BLAKE2b) with which a file begins."""


class UserCache:
    """A cache of bytes by key, in files that only the user can change, which plugins keep between processes.

    A file is read if it and its directories belong to the user, nobody else can write to them, and its
    digest, which covers the key, is right. So a plugin can even keep machine code here. What is absent,
    damaged or not safe is None, and what cannot be written is not kept: a plugin must work without its
    cache.

    >>> cache = UserCache("plugrad-example")
    >>> cache.write("answer", b"42")
    >>> cache.read("answer"), cache.read("question")
    (b'42', None)
    """

    def __init__(self, name: str) -> None:
        """Use the directory `name` in plugrad's own; the name of the distribution is a good one."""
        self._name = name

    @cached_property
    def folder(self) -> Path | None:
        """The directory, or None if there is none that only the user can write to."""
        for base in cache_directories():
            folder = base / self._name
            with suppress_failures(OSError):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                if _is_private(base) and _is_private(folder):
                    return folder
        return None

    def read(self, key: str | bytes) -> bytes | None:
        """Return the content stored under a key, or None."""
        file = self._file_path(key)
        try:
            data = file.read_bytes() if file is not None and _is_private(file) else b""
        except OSError as error:
            if is_interruption(error):
                raise
            return None
        content = data[DIGEST_BYTES:]
        return content if data[:DIGEST_BYTES] == _content_digest(key, content) else None

    def write(self, key: str | bytes, content: bytes) -> None:
        """Store `content` under a key; readers in other processes see all of it or nothing."""
        file = self._file_path(key)
        if file is None:
            return
        part = file.with_suffix(f".{os.getpid()}-{threading.get_ident()}")
        with suppress_failures(OSError):
            try:
                descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                with open(descriptor, "wb") as target:
                    target.write(_content_digest(key, content) + content)
                part.replace(file)
            finally:
                part.unlink(missing_ok=True)

    def _file_path(self, key: str | bytes) -> Path | None:
        """Return the path of the file for a key."""
        return self.folder and self.folder / f"{_content_digest(key).hex()}.bin"


def _content_digest(key: str | bytes, content: bytes = b"") -> bytes:
    """Return a checksum of a key and its content (BLAKE2, RFC 7693), which detects incomplete files."""
    digest = blake2b(key.encode() if isinstance(key, str) else key, digest_size=DIGEST_BYTES)
    digest.update(content)
    return digest.digest()


def cache_directories() -> Iterator[Path]:
    """Yield the directories that may hold the caches, the best one first.

    The last one, among the temporary files, is for users without a home that they can write to.
    """
    with suppress_failures(RuntimeError):  # there is no home
        if sys.platform == "win32":
            yield Path(os.environ.get("LOCALAPPDATA") or Path.home()) / "plugrad"
        elif sys.platform == "darwin":
            yield Path.home() / "Library" / "Caches" / "plugrad"
        else:
            yield Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "plugrad"
    import tempfile  # takes a while, and most users have a home

    user = os.getuid() if sys.platform != "win32" else "cache"
    yield Path(tempfile.gettempdir()) / f"plugrad-{user}"


def _is_private(path: Path) -> bool:
    """Return whether a file or directory belongs to the user, is no link, and is not writable by others."""
    if sys.platform == "win32":
        return True  # the directories of users are private
    found = path.lstat()
    is_plain = stat.S_ISDIR(found.st_mode) or stat.S_ISREG(found.st_mode)
    return is_plain and found.st_uid == os.getuid() and not found.st_mode & 0o022
