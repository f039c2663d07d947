"""Lazy imports of modules that many programs do not need.

A child that is forked while another thread imports a module would wait for that thread for ever, and the thread
does not exist in the child. So a fork waits for such imports first.
"""

from __future__ import annotations

import os
import sys
import time
from functools import cache
from importlib import import_module
from threading import get_ident
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from types import ModuleType

MAX_FORK_WAIT_SECONDS: Final = 5.0
"""How long a fork waits at most for imports in other threads."""
_importing_threads: Final[set[int]] = set()
"""The threads that import a module."""


def import_lazily(name: str) -> ModuleType:
    """Return a module by its dotted name, importing it on first use.

    >>> import_lazily("plugrad.linalg").__name__
    'plugrad.linalg'

    Raises:
        ImportError: there is no such module.
    """
    me = get_ident()
    if me in _importing_threads:  # the module that the thread imports needs another one
        return import_module(name)
    _importing_threads.add(me)
    try:
        return import_module(name)
    finally:
        _importing_threads.discard(me)


def is_installed(name: str) -> bool:
    """Return whether a top-level module is there, without importing it."""
    from importlib.util import find_spec  # few programs ask

    return find_spec(name) is not None


@cache
def list_module_names(package: str) -> tuple[str, ...]:
    """Return the names of the modules in an imported package, sorted.

    >>> import plugrad.host
    >>> "sparse" in list_module_names("plugrad.host"), "unary" in list_module_names("plugrad.host")
    (True, False)
    """
    path: list[str] = list(sys.modules[package].__path__)
    if all(map(os.path.isdir, path)):
        files = {file for folder in path for file in os.listdir(folder)}
        found = {file.partition(".")[0] for file in files if file.endswith((".py", ".pyc"))}
        return tuple(sorted(found - {"__init__"}))
    from pkgutil import iter_modules  # for archives: importing it takes long

    return tuple(sorted(module.name for module in iter_modules(path)))


def _wait_for_imports() -> None:
    """Wait until no other thread is importing a module, so that a fork is safe."""
    end = time.monotonic() + MAX_FORK_WAIT_SECONDS
    while _importing_threads - {get_ident()} and time.monotonic() < end:
        time.sleep(0.001)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_wait_for_imports,
        after_in_child=lambda: _importing_threads.intersection_update({get_ident()}),
    )
