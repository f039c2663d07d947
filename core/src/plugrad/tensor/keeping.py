"""Objects that are kept alive as long as others."""

from __future__ import annotations

from functools import partial
from itertools import count
from typing import Any
from weakref import ref


def keep_alive(value: object, owner: object) -> None:
    """Keep an object alive as long as another one.

    `weakref.finalize` would call Python code then, in which Python drops what a handler of signals raises.
    """
    number = next(_next_object_key)
    _kept_objects[number] = ref(owner, partial(_kept_objects.pop, number)), value


_next_object_key = count()
"""Gives each kept object a number of its own, by `next`."""
_kept_objects: dict[int, tuple[ref[Any], object]] = {}
"""Weak references to the owners, with the objects that are kept alive for them."""
