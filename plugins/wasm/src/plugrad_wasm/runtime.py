"""The interface of the store that runs the modules, for arrays and kernels; `module.Store` implements it.

The protocol lies below both sides, so that memory does not import wasmtime.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

Call: TypeAlias = Callable[..., None]

Chain: TypeAlias = Sequence[tuple[float, ...]]
"""The arguments of calls that are made in order, by one thread."""


class Function(NamedTuple):
    """A function as programs know it."""

    module: str
    number: int
    """Its place in the table of the module."""
    signature: int
    """The number of its types among those of the module."""
    types: str
    """The letters of the types of its parameters."""


class Located(Protocol):
    """Something that has an address in linear memory."""

    address: int


class Runtime(Protocol):
    """A store: the exports of the module, and the linear memory in which they compute."""

    @property
    def lock(self) -> AbstractContextManager[object]:
        """The lock to hold while wasmtime uses the store without the interpreter's lock."""
        ...

    @property
    def short(self) -> Mapping[str, Call]:
        """The exports, called without letting other threads run."""
        ...

    @property
    def long(self) -> Mapping[str, Call]:
        """The exports, called so that other threads run meanwhile."""
        ...

    @property
    def functions(self) -> Mapping[str, Function]:
        """The exports that programs call."""
        ...

    @property
    def threads(self) -> int:
        """The number of threads that compute the parts of one call at most."""
        ...

    @property
    def perform(self) -> Callable[..., None]:
        """The function (export, chains, held, scratch) that makes calls in several threads: `Workers.perform`."""
        ...

    @property
    def descriptor(self) -> Callable[[tuple[int, ...]], Located]:
        """The function that returns where integers lie in linear memory; it writes equal ones once."""
        ...

    @property
    def table(self) -> Callable[[str, tuple[int, ...], int], Located]:
        """The function (export, descriptor, size) that returns `size` bytes filled by an export."""
        ...

    @property
    def scratch_size(self) -> Callable[[str, tuple[int, ...], int], int]:
        """The function (export, descriptor, channels) that returns the elements of scratch memory to provide."""
        ...

    def compile_wat(self, source: str, *, is_long: bool = False) -> Call:
        """Return the export ``kernel`` of a module in text form."""
        ...

    def host_view(self) -> memoryview:
        """Return the linear memory as a host buffer that keeps it alive."""
        ...

    def host_address(self) -> int:
        """Return the address of linear memory on the host; it does not change."""
        ...

    def discard(self, address: int, size: int) -> None:
        """Give the memory of a span, whose contents are lost, back to the system if it takes it."""
        ...

    def memory_size(self) -> int:
        """Return the extent of linear memory in bytes."""
        ...

    def grow(self, size: int) -> bool:
        """Grow linear memory by at least `size` bytes; return whether there was room."""
        ...
