"""Which tensors the current `tidy` block has made: what `Tensor` needs to know of `plugrad.memory`."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING
from weakref import ref

if TYPE_CHECKING:
    from plugrad.tensor import Tensor


class Scope:
    """The tensors made inside one `tidy` block, by identity; they are not kept alive."""

    __slots__ = ("made", "parent")

    def __init__(self, parent: Scope | None) -> None:
        """Open a scope inside `parent`."""
        self.made: dict[int, ref[Tensor]] = {}
        self.parent = parent

    def track(self, tensor: Tensor) -> None:
        """Remember a tensor."""
        self.made[id(tensor)] = ref(tensor)


scope_variable: ContextVar[Scope | None] = ContextVar("plugrad_scope", default=None)
active_scope = scope_variable.get
