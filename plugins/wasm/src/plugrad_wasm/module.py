"""The WebAssembly module in its store, and the shortest way to call it.

wasmtime's own `Func.__call__` takes 64 µs; packing the arguments and calling wasmtime's C function
takes less than 1 µs. The format of the packed arguments follows from the type of each function,
because a wrong one would corrupt memory silently.

Threads: a store runs one function at a time. Short calls keep the interpreter's lock and so exclude
each other. Everything that releases it while it uses the store, such as a long call, holds
`Store.lock`; a short call waits for that lock if it is held.
"""

# The short way to call is not public: it follows wasmtime's own `Func.__call__`.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import ctypes
import platform
import struct
import sys
from array import array
from contextlib import suppress
from ctypes import byref
from functools import cache, lru_cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import wasmtime
from wasmtime._extern import wrap_extern
from wasmtime._ffi import dll, wasm_trap_t, wasmtime_error_t, wasmtime_extern_t

from plugrad.extend import ArgumentValueError, BackendUnavailable, UnsupportedDtype, UserCache
from plugrad_wasm.forks import ForkLock
from plugrad_wasm.memory import PAGE, CachedBlock, Descriptor, LinearMemory, host_buffer
from plugrad_wasm.runtime import Call

if TYPE_CHECKING:
    from collections.abc import Callable

# One argument is a slot of 16 bytes. An i32 may be a signed number or an address above 2 GiB:
# written as 64 bits, both have the right low half.
_SLOTS: Final = {"i32": "q8x", "i64": "q8x", "f32": "f12x", "f64": "d8x"}

# error = call(context, function, arguments, their number, trap). Without declared parameter types,
# and with parameters that are converted beforehand, ctypes takes half as long.
_ADDRESS: Final = ("wasmtime_func_call_unchecked", dll)
_call_holding_lock = ctypes.PYFUNCTYPE(ctypes.c_void_p)(_ADDRESS)
_call_releasing_lock = ctypes.CFUNCTYPE(ctypes.c_void_p)(_ADDRESS)

DONT_NEED: Final = 4  # an advice of Linux about memory, after which its pages are empty

EXPORT_SECTION: Final = 7
VARIANTS: Final = ("relaxed", "simd")  # the first one that this machine's wasmtime compiles

KEPT: Final = 1 << 24  # bytes of the largest table that a store keeps

# wasmtime has locks of its own, which a forked child must not inherit while they are held.
_compiling: Final = ForkLock()


class Calls(dict[str, Call]):
    """The exports of the module, bound when they are first asked for."""

    def __init__(self, bind: Callable[[str], Call]) -> None:
        super().__init__()
        self._bind = bind

    def __missing__(self, name: str) -> Call:
        call = self[name] = self._bind(name)
        return call


class Store:
    """One instance of the module with its memory; it implements `runtime.Runtime`.

    ``store.short["add_float32"](a, b, out, count, 1, 1)`` calls an export; `store.long` has the
    same functions for calls that take long enough to let other threads run.
    """

    def __init__(self) -> None:
        """Compile the module, or find it in wasmtime's cache, and instantiate it."""
        self.lock = ForkLock()
        self._engine, module = program(VARIANTS)
        with _compiling:
            self._store = wasmtime.Store(self._engine)
            instance = wasmtime.Instance(self._store, module, [])
        self._instance = instance
        self._linear = self._exported("memory")
        self._stack_pointer = self._exported("__stack_pointer")
        self._stack_top = self._stack_pointer.value(self._store)
        self._context = ctypes.c_void_p.from_param(
            ctypes.cast(self._store._context(), ctypes.c_void_p).value
        )
        self._trap = array("Q", [0])
        self._trap_address = ctypes.c_void_p.from_param(self._trap.buffer_info()[0])
        self.short = Calls(lambda name: self.bind(self._export(name)))
        self.long = Calls(lambda name: self.bind(self._export(name), is_long=True))
        self.memory = LinearMemory(self, self._exported("__heap_base").value(self._store))
        self.descriptor = lru_cache(maxsize=1024)(self._descriptor)
        self._table = lru_cache(maxsize=8)(self._filled)
        self.scratch_size = lru_cache(maxsize=1024)(self._scratch_size)
        self._bound: list[wasmtime.Func] = []
        self._custom: dict[str, tuple[Call, Call]] = {}

    def _exported(self, name: str) -> Any:
        """Return one export, or None; wasmtime's own mapping wraps all of them, which takes 15 ms."""
        item = wasmtime_extern_t()
        text = name.encode()
        found = dll.wasmtime_instance_export_get(
            self._store._context(), byref(self._instance._instance), text, len(text), byref(item)
        )
        return wrap_extern(item) if found else None

    def _export(self, name: str) -> wasmtime.Func:
        function = self._exported(name)
        if function is None:
            kernel, _, dtype = name.removesuffix("_broadcast").rpartition("_")
            raise UnsupportedDtype(
                f"the wasm backend does not have {kernel} for {dtype}; cast the input first, as in "
                "x.astype('float32'), or compute on the cpu backend, as in x.to('cpu')"
            )
        return function

    def _scratch_size(self, name: str, descriptor: tuple[int, ...], channels: int) -> int:
        """Return what an export says about the scratch memory that a kernel needs."""
        block = self.descriptor(descriptor)
        with self.lock:
            return self._exported(name)(self._store, block.address, channels)

    # ---- calls ----

    def bind(self, function: wasmtime.Func, *, is_long: bool = False) -> Call:
        """Return a function that packs its arguments and calls `function`, which has no result."""
        self._bound.append(function)  # owns what `pointer` points to
        types = [str(parameter) for parameter in function.type(self._store).params]
        pack = struct.Struct("<" + "".join(_SLOTS[name] for name in types)).pack
        count = ctypes.c_size_t.from_param(len(types))
        pointer = ctypes.c_void_p.from_param(ctypes.addressof(function._func))
        context, trap, trap_address = self._context, self._trap, self._trap_address
        store, lock = self, self.lock

        def short_call(*arguments: float) -> None:
            packed = pack(*arguments)
            if lock.held:  # nothing can start between this test and the call
                with lock:
                    error = _call_holding_lock(context, pointer, packed, count, trap_address)
            else:
                error = _call_holding_lock(context, pointer, packed, count, trap_address)
            if error or trap[0]:
                store.raise_failure(error)

        def long_call(*arguments: float) -> None:
            packed = pack(*arguments)
            with lock:
                error = _call_releasing_lock(context, pointer, packed, count, trap_address)
                if error or trap[0]:
                    store.raise_failure(error)

        return long_call if is_long else short_call

    def raise_failure(self, error: int | None) -> None:
        """Turn an error or a trap into an exception; afterwards the store can be used again."""
        trap, self._trap[0] = self._trap[0], 0
        with self.lock:
            self._stack_pointer.set_value(self._store, wasmtime.Val.i32(self._stack_top))
        if error:
            pointer = ctypes.cast(error, ctypes.POINTER(wasmtime_error_t))
            raise wasmtime.WasmtimeError._from_ptr(pointer)
        raise wasmtime.Trap._from_ptr(ctypes.cast(trap, ctypes.POINTER(wasm_trap_t)))

    def compile_wat(self, source: str, *, is_long: bool = False) -> Call:
        """Return the export ``kernel`` of a module in text form whose one import is the memory.

        The import reads ``(import "plugrad" "memory" (memory 0))``. Equal sources are compiled
        once.

        Raises:
            ArgumentValueError: the text is not such a module.
        """
        if source not in self._custom:
            try:
                kernel = self._compile(source)
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
            self._custom[source] = self.bind(kernel), self.bind(kernel, is_long=True)
        return self._custom[source][is_long]

    def _compile(self, source: str) -> object:
        """Return what a module in text form exports as ``kernel``, or None."""
        with _compiling:
            module = wasmtime.Module(self._engine, bytes(wasmtime.wat2wasm(source)))
            with self.lock:
                instance = wasmtime.Instance(self._store, module, [self._linear])
                exports = instance.exports(self._store)
                return {name: exports[name] for name in exports}.get("kernel")

    # ---- memory ----

    def _descriptor(self, values: tuple[int, ...]) -> Descriptor:
        return Descriptor(self.memory, values)

    def table(self, name: str, descriptor: tuple[int, ...], size: int) -> CachedBlock:
        """Return `size` bytes that an export fills; unless they are many, it does so once."""
        return (self._table if size <= KEPT else self._filled)(name, descriptor, size)

    def _filled(self, name: str, descriptor: tuple[int, ...], size: int) -> CachedBlock:
        block = CachedBlock(self.memory, size)
        self.long[name](block.address, self.descriptor(descriptor).address)
        return block

    def host_view(self) -> memoryview:
        """Return the linear memory as a host buffer that keeps the store alive."""
        return host_buffer(self.host_address(), self._store)

    def host_address(self) -> int:
        """Return the address of linear memory on the host; it does not change."""
        return ctypes.addressof(self._linear.data_ptr(self._store).contents)

    def discard(self, address: int, size: int) -> None:
        """Give the whole pages of a span back to the system on Linux; elsewhere they stay."""
        first, end = -(-address // PAGE) * PAGE, (address + size) // PAGE * PAGE
        if sys.platform == "linux" and first < end:
            advise = ctypes.CDLL(None).madvise
            advise(
                ctypes.c_void_p(self.host_address() + first),
                ctypes.c_size_t(end - first),
                DONT_NEED,
            )

    def memory_size(self) -> int:
        """Return the extent of linear memory in bytes."""
        return self._linear.data_len(self._store)

    def grow(self, size: int) -> bool:
        """Grow linear memory by at least `size` bytes; return whether there was room."""
        try:
            self._linear.grow(self._store, -(-size // PAGE))
        except wasmtime.WasmtimeError:
            return False
        return True


@cache
def program(variants: tuple[str, ...]) -> tuple[wasmtime.Engine, wasmtime.Module]:
    """Return the engine and the compiled module that all stores of this process share."""
    with _compiling:
        engine = wasmtime.Engine()
        return engine, compiled(engine, variants)


def binary(variant: str) -> bytes:
    """Return the module in WebAssembly's binary form."""
    return Path(__file__).with_name(f"kernels-{variant}.wasm").read_bytes()


def compiled(engine: wasmtime.Engine, variants: tuple[str, ...] = VARIANTS) -> wasmtime.Module:
    """Return the module in the first variant that the engine accepts.

    Raises:
        BackendUnavailable: the package lacks the module, or no variant compiles.
    """
    failures: list[str] = []
    for variant in variants:
        try:
            return from_cache(engine, binary(variant))
        except (OSError, wasmtime.WasmtimeError) as failure:
            failures.append(f"{variant}: {failure}")
    raise BackendUnavailable(
        f"plugrad-wasm does not contain a usable module ({'; '.join(failures)}); reinstall it, or "
        "build it with: python plugins/wasm/hatch_build.py"
    )


def from_cache(engine: wasmtime.Engine, code: bytes) -> wasmtime.Module:
    """Return a compiled module from the user's cache; if it is not there, compile it and put it there.

    Raises:
        WasmtimeError: the module is not valid.
    """
    cache = UserCache("plugrad-wasm")
    key = machine_code_key(code)
    machine_code = cache.read(key)
    if machine_code is not None:
        with suppress(
            wasmtime.WasmtimeError
        ):  # of another version, or for other processor features
            return wasmtime.Module.deserialize(engine, machine_code)
    module = wasmtime.Module(engine, code)
    cache.write(key, bytes(module.serialize()))
    return module


def machine_code_key(code: bytes) -> str:
    """Return the key of a compiled module; wasmtime itself checks its version and the processor."""
    return f"{sha256(code).hexdigest()} {platform.machine()}"


@cache
def exported_kernels() -> frozenset[str]:
    """Return the kernels that the module exports for some dtype: ``add`` for ``add_float32``."""
    names = export_names(binary(VARIANTS[0]))
    return frozenset(name.rpartition("_")[0] for name in names)


def export_names(code: bytes) -> list[str]:
    """Return the names of the exports of a module (WebAssembly core specification, 5.5.10)."""

    def number() -> int:
        nonlocal position
        value = shift = 0
        while True:
            byte = code[position]
            position += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    position = 8  # after the magic number and the version
    while position < len(code):
        section, size = number(), number()
        if section == EXPORT_SECTION:
            break
        position += size
    names: list[str] = []
    for _ in range(number()):
        length = number()
        names.append(code[position : position + length].decode())
        position += length + 1  # and the kind of the export
        number()
    return names
