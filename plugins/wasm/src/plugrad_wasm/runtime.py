"""The interface of the store that runs the modules, for arrays and kernels; `module.Store` implements it.

The protocol lies below both sides, so that memory does not import wasmtime.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

ExportFunction: TypeAlias = Callable[..., None]
"""The type of an export as a Python function, which returns nothing."""

CallChain: TypeAlias = Sequence[tuple[float, ...]]
"""The arguments of several calls, which one thread makes in order."""


class ProgramFunction(NamedTuple):
    """An export that programs can call: its module, its indices, and the types of its parameters."""

    module: str
    """The name of the module."""
    table_index: int
    """The index of the function in the module's function table."""
    signature_index: int
    """The index of the function's parameter types among those of the module's functions."""
    parameter_type_letters: str
    """The types of its parameters: i32, i64, f32 and f64 are i, l, f and d."""


class TableRun(NamedTuple):
    """A table of calls in linear memory, which the runner of its module reads."""

    module: str
    """The name of the module."""
    address: int
    """The address of the table."""
    nbytes: int
    """The bytes of the table."""
    releases_gil: bool
    """Whether other threads of Python may run during the call."""


class HasMemoryAddress(Protocol):
    """The interface of objects that have an address in linear memory."""

    address: int
    """The address."""


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
        """Return a function that runs program tables in order, given the address of their operands' base addresses."""
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
    def filled_block(self) -> Callable[[str, tuple[int, ...], int], HasMemoryAddress]:
        """The function (export name, descriptor, nbytes) that returns a block of bytes that an export fills."""
        ...

    @property
    def scratch_size(self) -> Callable[[str, tuple[int, ...], int], int]:
        """The function (export name, descriptor, channels) that returns the needed elements of scratch memory."""
        ...

    def compile_wat(self, source: str, *, releases_gil: bool = False) -> ExportFunction:
        """Return the export ``kernel`` of a module, given in text form."""
        ...

    def compile_wat_copies(self, source: str, thread_count: int) -> list[ExportFunction]:
        """Return the exports ``kernel`` of several instances of a module, given in text form, one for each thread."""
        ...

    def host_view(self) -> memoryview:
        """Return the linear memory as a host buffer that keeps it alive."""
        ...

    def host_address(self) -> int:
        """Return the address of linear memory on the host; it does not change."""
        ...

    def release_pages(self, address: int, nbytes: int) -> None:
        """Return the pages of a range of bytes, whose contents are lost, to the system if it takes them."""
        ...

    def memory_size(self) -> int:
        """Return the current size of linear memory in bytes."""
        ...

    def grow_memory(self, nbytes: int) -> bool:
        """Grow linear memory by at least `nbytes` bytes; return whether there was room."""
        ...
