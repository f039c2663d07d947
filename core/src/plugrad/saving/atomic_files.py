"""Atomic replacement of files."""

from __future__ import annotations

import os
import re
import sys
from contextlib import contextmanager
from errno import EISDIR
from stat import S_IMODE, S_ISDIR, S_ISREG
from typing import TYPE_CHECKING, Final

if sys.platform != "win32":
    import fcntl

from plugrad.errors import ArgumentError, ArgumentValueError, short_repr
from plugrad.interruptions import is_interruption

if TYPE_CHECKING:
    from collections.abc import Generator

LOCKS_UNSUPPORTED: Final = -1
"""The result of `_try_lock` where folders cannot be locked: on Windows, and on some network file systems."""


def check_path(path: object, op_name: str) -> str:
    """Return a path as a string; errors begin with `op_name`, the name of a public function.

    Raises:
        ArgumentError: it is not a path.
        ArgumentValueError: no file can have this name.
    """
    if not isinstance(path, str | os.PathLike):
        raise ArgumentError(
            f"{op_name}: path={short_repr(path)} must be a path: a string or a pathlib.Path"
        )
    text = os.fspath(path)  # pyright: ignore[reportUnknownVariableType] - of bytes or of text
    if not isinstance(text, str) or not text or "\0" in text:
        raise ArgumentValueError(f"{op_name}: path={short_repr(text)} is not the name of a file")
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        raise ArgumentValueError(
            f"{op_name}: path={text!r} is not the name of a file: it has half of a surrogate pair"
        ) from None
    return text


@contextmanager
def replace_atomically(path: str, op_name: str) -> Generator[str]:
    """Yield the path of a temporary file that replaces `path` if the block succeeds; errors begin with `op_name`.

    Until the new file is complete and on the disk, the old one stays as it is, whatever ends the process.
    It has the permissions of the old file.

    Raises:
        ArgumentValueError: `path` is a device or a pipe.
        FileNotFoundError: there is no folder for the file.
        IsADirectoryError: `path` is a folder.
        OSError: the file system does not allow the name, or the file cannot be written.
    """
    target = os.path.realpath(path)  # a link stays, and leads to the new file
    folder, name = os.path.split(target)
    os.stat(folder)  # raises an error that names the folder, and not the one that is made in it
    try:
        old = os.stat(target)
    except FileNotFoundError:
        old = None
    if old is not None and S_ISDIR(old.st_mode):
        raise IsADirectoryError(EISDIR, f"{op_name}: {os.strerror(EISDIR)}", path)
    if old is not None and not S_ISREG(old.st_mode):
        raise ArgumentValueError(
            f"{op_name}: path={short_repr(path)} is not a file, and is left as it is"
        )
    with _temporary_folder(folder, name) as workplace:
        new = os.path.join(workplace, "new")
        with open(new, "wb") as file:
            mode = S_IMODE((old or os.fstat(file.fileno())).st_mode)
        yield new
        os.chmod(new, mode)  # a library may have made it anew
        _sync_to_disk(new, os.O_RDWR)
        os.replace(new, target)
    if os.name == "posix":  # elsewhere, folders do not open
        _sync_to_disk(folder, os.O_RDONLY)


@contextmanager
def _temporary_folder(folder: str, file_name: str) -> Generator[str]:
    """Yield a new folder for unfinished files, and remove it on exit; also remove those that killed processes left.

    It is a folder, because libraries make temporary files of their own beside the one that they write. No two
    processes share it. Its name stays within the 255 bytes that file systems allow.
    """
    _remove_abandoned_folders(folder, file_name)
    workplace, lock = "", None
    while lock is None:
        workplace = os.path.join(folder, f".{file_name[:50]}.{os.urandom(6).hex()}.partial")
        os.mkdir(workplace)
        lock = _try_lock(workplace)  # before this, another process may take it for an abandoned one
    try:
        yield workplace
    finally:
        _remove_folder(workplace)
        _unlock(lock)


def _remove_abandoned_folders(folder: str, file_name: str) -> None:
    """Remove the folders of processes that were killed while they wrote a file of this name."""
    partial = re.compile(rf"\.{re.escape(file_name[:50])}\.[0-9a-f]{{12}}\.partial")
    for found in filter(partial.fullmatch, os.listdir(folder)):
        place = os.path.join(folder, found)
        lock = _try_lock(place)
        if lock is not None and lock != LOCKS_UNSUPPORTED:
            _remove_folder(place)
            _unlock(lock)


def _try_lock(folder: str) -> int | None:
    """Lock a folder until `_unlock`, or until the process ends.

    Returns:
        the lock; `LOCKS_UNSUPPORTED` where folders have none; None if another process has locked or removed it.
    """
    if sys.platform == "win32":
        return LOCKS_UNSUPPORTED
    try:
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    except OSError as error:
        if is_interruption(error):
            raise
        return LOCKS_UNSUPPORTED
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.isdir(folder):
            return lock
    except BlockingIOError:
        pass
    except OSError as error:  # a network file system without locks
        if is_interruption(error):
            raise
        os.close(lock)
        return LOCKS_UNSUPPORTED
    os.close(lock)
    return None


def _unlock(lock: int) -> None:
    """Release the lock of a folder, as `_try_lock` returned it."""
    if lock != LOCKS_UNSUPPORTED:
        os.close(lock)


def _remove_folder(folder: str) -> None:
    """Remove a folder and what is in it; failures are ignored."""
    from shutil import rmtree  # it imports compressors, which nothing else needs

    rmtree(folder, ignore_errors=True)


def _sync_to_disk(path: str, open_flags: int) -> None:
    """Wait until a file, or the list of the files in a folder, is on the disk; `open_flags` are those of `os.open`."""
    descriptor = os.open(path, open_flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
