"""The interface of the store that runs the modules, for arrays and kernels; `module.Store` implements it.

The protocol lies below both sides, so that memory does not import wasmtime.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

ExportFunction: TypeAlias = Callable[..., None]

CallChain: TypeAlias = Sequence[tuple[float, ...]]
"""The arguments of calls that are made in order, by one thread."""


class ProgramFunction(NamedTuple):
    """A function that programs can call."""

    module: str
    table_index: int
    """Its place in the table of the module."""
    signature_index: int
    """The number of its types among those of the module."""
    parameter_type_letters: str
    """The letters of the types of its parameters."""


class TableRun(NamedTuple):
    """A table of calls in linear memory, which the runner of its module reads."""

    module: str
    address: int
    nbytes: int
    releases_gil: bool
    """Whether other threads run meanwhile."""


class HasMemoryAddress(Protocol):
    """The interface of objects that have an address in linear memory."""

    address: int


class Runtime(Protocol):
    """The interface of a store: the exports of the module, and the linear memory."""

    @property
    def lock(self) -> AbstractContextManager[object]:
        """The lock to hold while wasmtime uses the store without the GIL."""
        ...

    @property
    def exports_holding_gil(self) -> Mapping[str, ExportFunction]:
        """The exports as functions that keep the GIL."""
        ...

    @property
    def exports_releasing_gil(self) -> Mapping[str, ExportFunction]:
        """The exports as functions that release the GIL."""
        ...

    @property
    def functions(self) -> Mapping[str, ProgramFunction]:
        """The functions that programs can call."""
        ...

    def bind_tables(self, tables: Sequence[TableRun]) -> Callable[[int], None]:
        """Return a function that runs tables in order, with the bases of their operands at an address."""
        ...

    @property
    def threads(self) -> int:
        """The maximum number of threads that share the parts of a call."""
        ...

    @property
    def run_in_threads(self) -> Callable[..., None]:
        """The function that runs chains of calls in several threads, with the arguments of `Workers.run_in_threads`."""
        ...

    @property
    def descriptor(self) -> Callable[[tuple[int, ...]], HasMemoryAddress]:
        """The function that returns the address of integers in linear memory; equal ones are written once."""
        ...

    @property
    def cached_table(self) -> Callable[[str, tuple[int, ...], int], HasMemoryAddress]:
        """The function (export, descriptor, size) that returns `size` bytes filled by an export."""
        ...

    @property
    def scratch_size(self) -> Callable[[str, tuple[int, ...], int], int]:
        """The function (export, descriptor, channels) that returns how many elements of scratch memory to provide."""
        ...

    def compile_wat(self, source: str, *, releases_gil: bool = False) -> ExportFunction:
        """Return the export ``kernel`` of a module in text form."""
        ...

    def compile_wat_copies(self, source: str, count: int) -> list[ExportFunction]:
        """Return the export ``kernel`` of several instances of a module in text form, one for each thread."""
        ...

    def host_view(self) -> memoryview:
        """Return the linear memory as a host buffer that keeps it alive."""
        ...

    def host_address(self) -> int:
        """Return the address of linear memory on the host; it does not change."""
        ...

    def release_pages(self, address: int, size: int) -> None:
        """Return the memory of a span, whose contents are lost, to the system if it takes it."""
        ...

    def memory_size(self) -> int:
        """Return the current size of linear memory in bytes."""
        ...

    def grow_memory(self, size: int) -> bool:
        """Grow linear memory by at least `size` bytes; return whether there was room."""
        ...
