"""The WebAssembly modules in their store, and the shortest way to call them.

wasmtime's own `Func.__call__` takes 64 µs; packing the arguments and calling wasmtime's C function
takes less than 1 µs. The format of the packed arguments follows from the type of each function,
because a wrong one would corrupt memory silently.

Threads: the instances of a thread run one function at a time. Short calls keep the interpreter's lock and
so exclude each other. Everything that releases it while it uses an instance, such as a long call, holds
`ModuleInstances.lock`; a short call waits for that lock if it is held. The memory is shared, so that parts of
a long call run in other instances meanwhile (`workers`).
"""

# The short way to call is not public: it follows wasmtime's own `Func.__call__`.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
from array import array
from ctypes import byref
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import wasmtime
from wasmtime._extern import wrap_extern
from wasmtime._ffi import (
    WASMTIME_EXTERN_SHAREDMEMORY,
    dll,
    wasm_trap_t,
    wasmtime_error_t,
    wasmtime_extern_t,
    wasmtime_extern_union,
)

from plugrad.extend import ArgumentValueError, UnsupportedDtype
from plugrad_wasm.forks import ForkLock
from plugrad_wasm.memory import (
    PAGE_BYTES,
    CachedBlock,
    DescriptorBlock,
    LinearMemory,
    view_host_memory,
)
from plugrad_wasm.program import KernelModules, compile_lock, compile_module, kernel_modules
from plugrad_wasm.runtime import ExportFunction, ProgramFunction, TableRun
from plugrad_wasm.workers import Workers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

# One argument is a slot of 16 bytes. An i32 may be a signed number or an address above 2 GiB:
# written as 64 bits, both have the right low half.
_ARGUMENT_SLOT_FORMATS: Final = {"i": "q8x", "l": "q8x", "f": "f12x", "d": "d8x"}
"""By type letter: the format of `struct` for an argument of wasmtime, which takes 16 bytes."""
_TYPE_LETTERS: Final = {
    "i32": "i",
    "i64": "l",
    "f32": "f",
    "f64": "d",
}
"""By WebAssembly type: its letter in `ProgramFunction.parameter_type_letters`."""

# error = call(context, function, arguments, their number, trap). Without declared parameter types,
# and with parameters that are converted beforehand, ctypes takes half as long.
_CALL_FUNCTION_ADDRESS: Final = ("wasmtime_func_call_unchecked", dll)
"""The C function of wasmtime that calls a WebAssembly function, as a name and a library."""
_call_holding_gil = ctypes.PYFUNCTYPE(ctypes.c_void_p)(_CALL_FUNCTION_ADDRESS)
"""`wasmtime_func_call_unchecked`, called while the GIL is held."""
_call_releasing_gil = ctypes.CFUNCTYPE(ctypes.c_void_p)(_CALL_FUNCTION_ADDRESS)
"""`wasmtime_func_call_unchecked`, called without the GIL."""

LINUX_PROCESSORS_FILE: Final = "/proc/cpuinfo"
"""The path of the file in which Linux describes the processors."""


def _has_slow_upper_halves() -> bool:
    """Return whether this processor becomes slow while upper halves of vector registers are in use."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return False
    if not os.access(LINUX_PROCESSORS_FILE, os.R_OK):
        return "AuthenticAMD" not in platform.processor()
    with open(LINUX_PROCESSORS_FILE, encoding="utf-8") as lines:
        return "AuthenticAMD" not in lines.read(1000)


# OpenBLAS 0.3.31 leaves the upper halves of the vector registers in use after a product of complex matrices.
# Intel's processors then take about 70 cycles each time that compiled WebAssembly, which uses both encodings
# of instructions, changes from one to the other: a product takes 80 times as long. A loop of NumPy ends with
# the instruction that frees them. AMD's processors take no time for such a change.
_HAS_SLOW_UPPER_HALVES: Final = _has_slow_upper_halves()
"""Whether this processor becomes slow while upper halves of vector registers are in use."""
_ONE_FLOAT32: Final = np.ones(1, "f4")
"""An array of one float32."""
_clear_avx_upper_halves = partial(np.negative, _ONE_FLOAT32, _ONE_FLOAT32)
"""A function that frees the upper halves of vector registers."""

# Advice for Linux about memory: its pages may be emptied, or be of 2 MiB, which are found and set up faster.
MADV_DONTNEED: Final = 4
"""The number of the advice that pages may be emptied."""
MADV_HUGEPAGE: Final = 14
"""The number of the advice that pages may have 2 MiB."""
HUGE_PAGES_MIN_OFFSET_BYTES: Final = 8 << 20
"""The bytes of linear memory before the first page of 2 MiB; small programs use few bytes."""

STACK_BYTES: Final = 40 * PAGE_BYTES
"""The size of an instance's stack in bytes, the same as in hatch_build.py."""
MAX_MEMORY_PAGES: Final = (1 << 16) - 1
"""The maximum number of pages of linear memory: a block must not end at 2^32, which is 0 as an address."""
MAX_CUSTOM_MODULES: Final = 256
"""The maximum number of compiled custom expressions that a store caches."""
MAX_CACHED_BLOCK_BYTES: Final = 1 << 24
"""The maximum bytes of a block that an export fills and a store caches."""


class LazyExports(dict[str, ExportFunction]):
    """The exports of the modules by name, bound on first use."""

    def __init__(self, bind: Callable[[str], ExportFunction]) -> None:
        super().__init__()
        self._bind = bind

    def __missing__(self, name: str) -> ExportFunction:
        call = self[name] = self._bind(name)
        return call


class SharedMemory(wasmtime.SharedMemory):
    """Linear memory that several instances import; its deallocation runs no Python code."""

    __slots__ = ("__del__",)

    def __init__(self, engine: wasmtime.Engine, kind: wasmtime.MemoryType) -> None:
        """Make a memory; never call its `close`, because a slot holds the C function that deletes it."""
        super().__init__(engine, kind)
        self.__del__: Callable[[], object] = partial(  # pyright: ignore[reportIncompatibleMethodOverride]
            dll.wasmtime_sharedmemory_delete, self.ptr()
        )

    def _as_extern(self) -> wasmtime_extern_t:  # that of wasmtime 50 has one pointer too many
        """Return the memory as an import of wasmtime."""
        value = wasmtime_extern_union(sharedmemory=self.ptr())
        return wasmtime_extern_t(WASMTIME_EXTERN_SHAREDMEMORY, value)


class QuietStore(wasmtime.Store):
    """A wasmtime store whose deallocation runs no Python code, so that exceptions of signal handlers are not lost."""

    __slots__ = ("__del__",)

    def __init__(self, engine: wasmtime.Engine) -> None:
        """Make a store; never call its `close`, because a slot holds the C function that deletes it."""
        super().__init__(engine)
        self.__del__: Callable[[], object] = partial(  # pyright: ignore[reportIncompatibleMethodOverride]
            dll.wasmtime_store_delete, self.ptr()
        )


class ModuleInstance:
    """One instance of a WebAssembly module in a wasmtime store of its own.

    It has its own store, because a trap in a store with two modules that import a shared memory would
    end the process.
    """

    def __init__(
        self, program: KernelModules, module: wasmtime.Module, memory: SharedMemory
    ) -> None:
        """Instantiate a module that imports nothing but the memory."""
        self.store: wasmtime.Store = QuietStore(program.engine)
        self._instance = wasmtime.Instance(self.store, module, [memory])
        self._context = ctypes.c_void_p.from_param(
            ctypes.cast(self.store._context(), ctypes.c_void_p).value
        )
        self._trap = array("Q", [0])
        self._trap_address = ctypes.c_void_p.from_param(self._trap.buffer_info()[0])
        self._bound: list[object] = []
        """What calls refer to, and objects of wasmtime that run Python code when they die."""
        self._stack_pointer = self.find_export("__stack_pointer")
        self._stack_top = self._stack_pointer.value(self.store) if self._stack_pointer else 0

    def find_export(self, name: str) -> Any:
        """Return the export with this name or None; wasmtime's own mapping would wrap all exports, which is slow."""
        item = wasmtime_extern_t()
        text = name.encode()
        found = dll.wasmtime_instance_export_get(
            self.store._context(), byref(self._instance._instance), text, len(text), byref(item)
        )
        return wrap_extern(item) if found else None

    def set_stack_top(self, top: int) -> None:
        """Set the address at which the stack begins; it grows downwards."""
        self._stack_top = top
        self._reset_stack()

    def _reset_stack(self) -> None:
        """Set the stack pointer to the top of the stack."""
        if self._stack_pointer:
            signed = self._stack_top - (self._stack_top >> 31 << 32)
            self._stack_pointer.set_value(self.store, wasmtime.Val.i32(signed))

    def bind(
        self,
        function: wasmtime.Func,
        lock: ForkLock,
        type_letters: Iterable[str] | None = None,
        *,
        releases_gil: bool = False,
    ) -> ExportFunction:
        """Return a Python function that packs its arguments and calls a WebAssembly function without a result."""
        self._bound.append(function)  # owns what `pointer` points to
        if type_letters is None:
            kind = function.type(self.store)
            parameters = kind.params
            type_letters = [_TYPE_LETTERS[str(parameter)] for parameter in parameters]
            self._bound += kind, parameters
        slots = [_ARGUMENT_SLOT_FORMATS[name] for name in type_letters]
        pack = struct.Struct("<" + "".join(slots)).pack
        count = ctypes.c_size_t.from_param(len(slots))
        pointer = ctypes.c_void_p.from_param(ctypes.addressof(function._func))
        context, trap, trap_address = self._context, self._trap, self._trap_address
        instance = self

        def call_holding_gil(*arguments: float) -> None:
            """Call the function without releasing the GIL."""
            packed = pack(*arguments)
            if lock.held:  # nothing can start between this test and the call
                with lock:
                    error = _call_holding_gil(context, pointer, packed, count, trap_address)
            else:
                error = _call_holding_gil(context, pointer, packed, count, trap_address)
            if error or trap[0]:
                instance.raise_failure(error, lock)

        def call_releasing_gil(*arguments: float) -> None:
            """Call the function without the GIL, while the store is locked."""
            packed = pack(*arguments)
            if _HAS_SLOW_UPPER_HALVES:
                _clear_avx_upper_halves()
            with lock:
                error = _call_releasing_gil(context, pointer, packed, count, trap_address)
                if error or trap[0]:
                    instance.raise_failure(error, lock)

        return call_releasing_gil if releases_gil else call_holding_gil

    def prepare_call(self, name: str) -> dict[str, Any]:
        """Return by variable name the objects with which generated code calls the export `name` through ctypes."""
        function = self.find_export(name)
        return {
            "context": self._context,
            "function": function,  # owns what `pointer` points to
            "pointer": ctypes.c_void_p.from_param(ctypes.addressof(function._func)),
            "trap": self._trap,
            "place": self._trap_address,
            "fail": self.raise_failure,
        }

    def call_returning_integer(
        self, function: wasmtime.Func, lock: ForkLock, *arguments: int
    ) -> int:
        """Call a function with integer arguments and return its 64-bit result.

        `wasmtime.Func` would make objects that run Python code when they die.
        """
        slots = array("q", [x for argument in arguments for x in (argument, 0)])
        pointer = ctypes.c_void_p.from_param(ctypes.addressof(function._func))
        place = ctypes.c_void_p.from_param(slots.buffer_info()[0])
        count = ctypes.c_size_t.from_param(len(arguments))
        error = _call_holding_gil(self._context, pointer, place, count, self._trap_address)
        if error or self._trap[0]:
            self.raise_failure(error, lock)
        return slots[0]

    def raise_failure(self, error: int | None, lock: ForkLock) -> None:
        """Raise an error or a trap of wasmtime as an exception; the store stays usable."""
        trap, self._trap[0] = self._trap[0], 0
        with lock:
            self._reset_stack()
        if error:
            pointer = ctypes.cast(error, ctypes.POINTER(wasmtime_error_t))
            raise wasmtime.WasmtimeError._from_ptr(pointer)
        raise wasmtime.Trap._from_ptr(ctypes.cast(trap, ctypes.POINTER(wasm_trap_t)))


MAX_LONG_TABLES_PER_LOCK: Final = 16
"""The maximum number of tables of long work that run before another thread can lock the store."""


class ModuleInstances:
    """One instance of each module for use by one thread at a time, made on first use.

    ``exports_holding_gil["add_float32"](a, b, out, count, 1, 1)`` calls an export; `exports_releasing_gil` has the
    same functions for calls that take long enough to let other threads run.
    """

    def __init__(
        self, program: KernelModules, memory: SharedMemory, stack: CachedBlock | None = None
    ) -> None:
        """Begin without an instance.

        Args:
            program: the modules.
            memory: what they import.
            stack: a block of `STACK_BYTES` bytes for the stack of all; None means the one of the linker.
        """
        self.lock: ForkLock = ForkLock()
        self.program = program
        self.memory = memory
        self._stack = stack
        self._instances: dict[str, ModuleInstance] = {}
        self.exports_holding_gil: LazyExports = LazyExports(self._bind)
        self.exports_releasing_gil: LazyExports = LazyExports(
            partial(self._bind, releases_gil=True)
        )

    def _bind(self, name: str, *, releases_gil: bool = False) -> ExportFunction:
        """Return the export with this name as a Python function."""
        with compile_lock, self.lock:
            instance = self.instance_with_export(name)
            known = self.program.functions.get(name)
            types = None if known is None else known.parameter_type_letters
            return instance.bind(
                instance.find_export(name), self.lock, types, releases_gil=releases_gil
            )

    def bind_tables(self, tables: Sequence[TableRun]) -> Callable[[int], None]:
        """Return a function that runs program tables in order, given the address of their operands' base addresses.

        It calls wasmtime directly, with arguments that it packs only when the address is another one: to bind each
        table takes twice as long. Python raises Ctrl-C between two of them.
        """
        pack = struct.Struct("<" + 3 * _ARGUMENT_SLOT_FORMATS["i"]).pack
        names: dict[str, Any] = {
            "clear": _clear_avx_upper_halves,
            "count": ctypes.c_size_t.from_param(3),
            "kept": [(-1,)],  # the address of the last call, and the packed arguments for it
            "lock": self.lock,
            "pack": pack,
        }
        packed = [f"pack({table.address}, {table.nbytes}, at)" for table in tables]
        lines = [
            "def run(at):",
            "    packed = kept[0]",
            "    if packed[0] != at:",
            f"        packed = kept[0] = at, {', '.join(packed)}",
        ]
        long = 0
        for number, table in enumerate(tables):
            if not number or (table.releases_gil and long % MAX_LONG_TABLES_PER_LOCK == 0):
                lines += ["    with lock:", *["        clear()"] * _HAS_SLOW_UPPER_HALVES]
            long += table.releases_gil
            module = table.module
            if f"context_{module}" not in names:
                with compile_lock, self.lock:
                    instance = self.instance_with_export(f"program_{module}")
                    names |= {
                        f"{key}_{module}": value
                        for key, value in instance.prepare_call(f"program_{module}").items()
                    }
            call = "call_releasing_gil" if table.releases_gil else "call_holding_gil"
            given = f"context_{module}, pointer_{module}, packed[{number + 1}], count"
            lines += [
                f"        error = {call}({given}, place_{module})",
                f"        if error or trap_{module}[0]: fail_{module}(error, lock)",
            ]
        names |= {
            "call_holding_gil": _call_holding_gil,
            "call_releasing_gil": _call_releasing_gil,
        }
        exec("\n".join(lines), names)
        return names.pop("run")  # so that the function does not refer to itself

    def instance_with_export(self, name: str) -> ModuleInstance:
        """Return the instance of the module that has an export with this name.

        Raises:
            UnsupportedDtype: there is none.
        """
        module = self.program.modules.get(name)
        if module is None:
            kernel, _, dtype = name.removesuffix("_broadcast").rpartition("_")
            raise UnsupportedDtype(
                f"the wasm backend does not have {kernel} for {dtype}; cast the input first, as in "
                "x.astype('float32'), or compute on the cpu backend, as in x.to('cpu')"
            )
        if module not in self._instances:
            made = ModuleInstance(self.program, self.program.module(module), self.memory)
            if self._stack is not None:
                made.set_stack_top(self._stack.address + STACK_BYTES)
            self._instances[module] = made
        return self._instances[module]


class Store:
    """The instances of the modules and the memory that they share; implements `runtime.Runtime`."""

    def __init__(self, threads: int = 1) -> None:
        """Make the memory, and the instance for calls from Python.

        Args:
            threads: how many threads compute the parts of one call at most.
        """
        self._program = kernel_modules()
        limits = wasmtime.Limits(self._program.pages, MAX_MEMORY_PAGES)
        with compile_lock:
            kind = wasmtime.MemoryType(limits, shared=True)
            self._linear = SharedMemory(self._program.engine, kind)
        self._instances = ModuleInstances(self._program, self._linear)
        self.lock: ForkLock = self._instances.lock
        self.exports_holding_gil: LazyExports = self._instances.exports_holding_gil
        self.exports_releasing_gil: LazyExports = self._instances.exports_releasing_gil
        self.bind_tables = self._instances.bind_tables
        self.memory: LinearMemory = LinearMemory(self, self._program.pages * PAGE_BYTES)
        self.threads = threads
        self.run_in_threads = Workers(
            threads, self.exports_releasing_gil, self._exports_for_thread, compile_lock
        ).run_in_threads
        self.descriptor: Callable[..., DescriptorBlock] = lru_cache(maxsize=1024)(
            self._make_descriptor_block
        )
        self._cached_filled_block = lru_cache(maxsize=8)(self._make_filled_block)
        self.scratch_size: Callable[..., int] = lru_cache(maxsize=1024)(self._scratch_size)
        self._custom = lru_cache(maxsize=MAX_CUSTOM_MODULES)(self._bind_custom)
        self._modules = lru_cache(maxsize=MAX_CUSTOM_MODULES)(self._compile_wat_module)

    def _scratch_size(self, export_name: str, descriptor: tuple[int, ...], channels: int) -> int:
        """Return how many elements of scratch memory an export needs, given a descriptor and a number of channels."""
        block = self.descriptor(descriptor)
        with compile_lock, self.lock:
            instance = self._instances.instance_with_export(export_name)
            function = instance.find_export(export_name)
            return instance.call_returning_integer(function, self.lock, block.address, channels)

    def _exports_for_thread(self) -> Mapping[str, ExportFunction]:
        """Return the exports of new instances for another thread, because threads cannot share instances."""
        return ModuleInstances(
            self._program, self._linear, CachedBlock(self.memory, STACK_BYTES)
        ).exports_releasing_gil

    def compile_wat(self, source: str, *, releases_gil: bool = False) -> ExportFunction:
        """Return the export ``kernel`` of a module, given in text form, whose one import is the memory.

        The import reads ``(import "plugrad" "memory" (memory 0 65535 shared))``. Equal sources are
        compiled once, unless there are many others.

        Raises:
            ArgumentValueError: the text is not such a module.
        """
        return self._custom(source)[releases_gil]

    def _bind_custom(self, source: str) -> tuple[ExportFunction, ExportFunction]:
        """Return the function of a module, given in text form, twice: holding the GIL, and releasing it."""
        try:
            instance, kernel = self._instantiate_wat(source)
        except (wasmtime.WasmtimeError, wasmtime.Trap) as failure:
            raise ArgumentValueError(
                "wasm: a custom kernel must be a module in WebAssembly's text form that imports "
                f"nothing but the memory of plugrad; this one cannot be compiled: {failure}"
            ) from failure
        if not isinstance(kernel, wasmtime.Func):
            raise ArgumentValueError(
                f"wasm: the export 'kernel' of a custom kernel is {kernel!r}; export a function "
                "under this name"
            )
        return instance.bind(kernel, self.lock), instance.bind(kernel, self.lock, releases_gil=True)

    def compile_wat_copies(self, source: str, thread_count: int) -> list[ExportFunction]:
        """Return the exports ``kernel`` of several instances of a module, given in text form, one for each thread."""
        copies: list[ExportFunction] = []
        with compile_lock:
            module = self._modules(source)
            for _ in range(thread_count):
                instance = ModuleInstance(self._program, module, self._linear)
                kernel = instance.find_export("kernel")
                copies.append(instance.bind(kernel, ForkLock(), releases_gil=True))
        return copies

    def _instantiate_wat(self, source: str) -> tuple[ModuleInstance, object]:
        """Return an instance of a module, given in text form, with its export ``kernel``, or None."""
        with compile_lock:
            instance = ModuleInstance(self._program, self._modules(source), self._linear)
            return instance, instance.find_export("kernel")

    def _compile_wat_module(self, source: str) -> wasmtime.Module:
        """Compile a module given in text form."""
        return compile_module(self._program.engine, bytes(wasmtime.wat2wasm(source)))

    @property
    def functions(self) -> Mapping[str, ProgramFunction]:
        """The functions that programs can call, by name."""
        return self._program.functions

    # ---- memory ----

    def _make_descriptor_block(self, values: tuple[int, ...]) -> DescriptorBlock:
        """Return a block of linear memory to which 32-bit integers are written."""
        return DescriptorBlock(self.memory, values)

    def filled_block(
        self, export_name: str, descriptor: tuple[int, ...], nbytes: int
    ) -> CachedBlock:
        """Return a block of `nbytes` bytes that an export fills, such as twiddle factors; small ones are cached."""
        return (
            self._cached_filled_block
            if nbytes <= MAX_CACHED_BLOCK_BYTES
            else self._make_filled_block
        )(export_name, descriptor, nbytes)

    def _make_filled_block(
        self, export_name: str, descriptor: tuple[int, ...], nbytes: int
    ) -> CachedBlock:
        """Return a new block of `nbytes` bytes that an export has filled."""
        block = CachedBlock(self.memory, nbytes)
        self.exports_releasing_gil[export_name](block.address, self.descriptor(descriptor).address)
        return block

    def host_view(self) -> memoryview:
        """Return the linear memory as a host buffer that keeps it alive."""
        return view_host_memory(self.host_address(), self._linear)

    def host_address(self) -> int:
        """Return the address of linear memory on the host; it does not change."""
        return ctypes.addressof(self._linear.data_ptr().contents)

    def release_pages(self, address: int, nbytes: int) -> None:
        """Return the whole pages of a range of bytes to the system, on Linux only."""
        first, end = (
            -(-address // PAGE_BYTES) * PAGE_BYTES,
            (address + nbytes) // PAGE_BYTES * PAGE_BYTES,
        )
        self._advise(first, end, MADV_DONTNEED)

    def _advise(self, start_address: int, end_address: int, advice: int) -> None:
        """Give Linux an advice about the pages between two addresses by madvise; do nothing on other systems."""
        if sys.platform == "linux" and start_address < end_address:
            advise = ctypes.CDLL(None).madvise
            address = ctypes.c_void_p(self.host_address() + start_address)
            advise(address, ctypes.c_size_t(end_address - start_address), ctypes.c_int(advice))

    def memory_size(self) -> int:
        """Return the current size of linear memory in bytes."""
        return self._linear.data_len()

    def grow_memory(self, nbytes: int) -> bool:
        """Grow linear memory by at least `nbytes` bytes; return whether there was room."""
        extent = self.memory_size()
        try:
            self._linear.grow(-(-nbytes // PAGE_BYTES))
        except wasmtime.WasmtimeError:
            return False
        self._advise(max(extent, HUGE_PAGES_MIN_OFFSET_BYTES), self.memory_size(), MADV_HUGEPAGE)
        return True
