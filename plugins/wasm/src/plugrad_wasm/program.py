"""The compiled kernels: several modules, each compiled when it is first needed, or taken from the cache.

A file in the package holds the modules, each in a custom section. They import one linear memory, in which they
share the stack, and each has a place for its data.
"""

from __future__ import annotations

import os
import platform
from contextlib import suppress
from functools import cache, cached_property
from pathlib import Path
from typing import Final

import wasmtime

from plugrad.extend import BackendUnavailable, UserCache, is_interruption
from plugrad_wasm.forks import ForkLock
from plugrad_wasm.runtime import ProgramFunction

KERNELS_WASM_FILE: Final = Path(__file__).with_name("kernels.wasm")
"""The path of the file with all modules."""
EXPORTS_SECTION: Final = "exports"
"""The name of the section with a line for each module: its name, and the names of its exports."""
FUNCTIONS_SECTION: Final = "functions"
"""The name of the section with a line for each module: its functions without a result, with type letters.

The letters of the parameters' types i32, i64, f32 and f64 are i, l, f and d. The functions are in the order of
the types.
"""
PAGES_SECTION: Final = "pages"
"""The name of the section with the pages of memory in which modules have their stack and their data."""

compile_lock: Final = ForkLock()
"""The lock to hold while wasmtime holds locks of its own, which a forked child must not inherit."""
_initial_process_id: Final = os.getpid()
"""The id of the process that imported this module."""


class KernelModules:
    """The WebAssembly modules of the kernels, and the engine that compiles them."""

    def __init__(self) -> None:
        """Compile the first module, which shows whether the modules can be used."""
        self.engine: wasmtime.Engine = new_engine()
        self._sections = read_custom_sections(KERNELS_WASM_FILE)
        self.pages: int = int(self._sections[PAGES_SECTION])
        self.modules: dict[str, str] = {}
        """The name of the module that has an export, by the export's name."""
        for line in self._sections[EXPORTS_SECTION].decode().splitlines():
            module, *exports = line.split()
            self.modules |= dict.fromkeys(exports, module)
        self._compiled: dict[str, wasmtime.Module] = {}
        self.module(next(iter(self.modules.values())))

    @cached_property
    def functions(self) -> dict[str, ProgramFunction]:
        """The functions that programs can call, by name."""
        found: dict[str, ProgramFunction] = {}
        for line in self._sections[FUNCTIONS_SECTION].decode().splitlines():
            module, *functions = line.split()
            signatures: dict[str, int] = {}
            for number, function in enumerate(functions):
                name, _, types = function.partition(":")
                signature = signatures.setdefault(types, len(signatures))
                found[name] = ProgramFunction(module, number, signature, types)
        return found

    def module(self, name: str) -> wasmtime.Module:
        """Return the module with this name, compiled on first use."""
        with compile_lock:
            if name not in self._compiled:
                self._compiled[name] = load_or_compile(self.engine, self._sections[name])
            return self._compiled[name]


@cache
def kernel_modules() -> KernelModules:
    """Return the modules of the kernels, which all stores of the process share.

    Raises:
        BackendUnavailable: the package lacks the modules, or they do not compile.
    """
    try:
        return KernelModules()
    except (OSError, wasmtime.WasmtimeError) as failure:
        if is_interruption(failure):
            raise
        raise BackendUnavailable(
            f"plugrad-wasm does not contain usable modules ({failure}); reinstall it, or "
            "build it with: python plugins/wasm/hatch_build.py"
        ) from failure


@cache
def exported_kernels() -> frozenset[str]:
    """Return the names of the kernels that have exports: ``add`` for ``add_float32``."""
    return frozenset(exported_dtypes_by_kernel())


@cache
def exported_dtypes_by_kernel() -> dict[str, set[str]]:
    """Return by kernel name the dtype suffixes of its exports, such as ``float32``."""
    found: dict[str, set[str]] = {}
    for name in read_custom_sections(KERNELS_WASM_FILE)[EXPORTS_SECTION].decode().split():
        kernel, _, end = name.rpartition("_")
        found.setdefault(kernel, set()).add(end)
    return found


@cache
def read_custom_sections(file: Path) -> dict[str, bytes]:
    """Return the custom sections of a file by name (WebAssembly core specification, 5.5.3)."""
    code = file.read_bytes()

    def read_number() -> int:
        """Return the next number of the file, which is a LEB128."""
        nonlocal position
        value = shift = 0
        while True:
            byte = code[position]
            position += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    found: dict[str, bytes] = {}
    position = 8  # after the magic number and the version
    while position < len(code):
        position += 1  # the kind of the section
        end = read_number()
        end += position
        start = read_number()
        start += position
        found[code[position:start].decode()] = code[start:end]
        position = end
    return found


def load_or_compile(engine: wasmtime.Engine, code: bytes) -> wasmtime.Module:
    """Return the compiled module for WebAssembly code, from the user's cache if it is there.

    Raises:
        WasmtimeError: the module is not valid.
    """
    cache = UserCache("plugrad-wasm")
    key = machine_code_key(code)
    machine_code = cache.read(key)
    if machine_code is not None:
        # It may be of another version, or for other processor features.
        with suppress(wasmtime.WasmtimeError):
            return wasmtime.Module.deserialize(engine, machine_code)
    module = compile_module(engine, code)
    cache.write(key, bytes(module.serialize()))
    return module


def compile_module(engine: wasmtime.Engine, code: bytes) -> wasmtime.Module:
    """Return the module compiled from WebAssembly code.

    wasmtime compiles in threads, which a forked child does not have: it would wait for them for ever.

    Raises:
        WasmtimeError: the module is not valid.
    """
    if os.getpid() == _initial_process_id:
        return wasmtime.Module(engine, code)
    alone = wasmtime.Module(new_engine(parallel_compilation=False), code)
    return wasmtime.Module.deserialize(engine, alone.serialize())


def new_engine(*, parallel_compilation: bool = True) -> wasmtime.Engine:
    """Return an engine for modules whose memory is shared."""
    config = wasmtime.Config()
    config.wasm_threads = True
    config.shared_memory = True
    config.parallel_compilation = parallel_compilation
    return wasmtime.Engine(config)


def machine_code_key(code: bytes) -> bytes:
    """Return the key in the cache of the machine code for WebAssembly code."""
    return platform.machine().encode() + code
