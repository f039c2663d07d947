"""Which tensors the current `tidy` block has made, and how many there are in all: what `Tensor` needs of `memory`."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING
from weakref import ref

if TYPE_CHECKING:
    from plugrad.tensor import Tensor


class Ledger:
    """The number of tensor handles that are alive and not disposed."""

    __slots__ = ("tensors",)

    def __init__(self) -> None:
        """Start at zero."""
        self.tensors = 0


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


ledger = Ledger()
scope_variable: ContextVar[Scope | None] = ContextVar("plugrad_scope", default=None)
active_scope = scope_variable.get
