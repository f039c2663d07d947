"""Kernels from other people's WebAssembly modules, each in a memory of its own and with limits.

A module that a C compiler has linked puts its stack and its data where it likes, so it cannot share
the memory of the backend. Its inputs are copied into its memory, and its outputs out of it. In
return, it can do no harm: it sees nothing but its inputs, and is stopped when it takes too long.

`plugrad_kernel.h` beside this file describes what a module exports and what its kernel receives.
"""

from __future__ import annotations

import atexit
import ctypes
import struct
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, cast
from weakref import WeakSet

import numpy as np

from plugrad.extend import (
    ArgumentError,
    ArgumentValueError,
    KernelFailed,
    OutOfMemory,
    as_dtype,
    count_elements,
    is_interruption,
)
from plugrad_wasm.compile_server import new_interruptible_engine
from plugrad_wasm.dtypes import as_supported_dtype
from plugrad_wasm.forks import ForkLock
from plugrad_wasm.stoppable import run_stoppable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import wasmtime

    from plugrad.extend import Kernel, Spec
    from plugrad_wasm.memory import LinearMemory, WasmArray

HEADER: Final = Path(__file__).with_name("plugrad_kernel.h")
"""The path of the header for kernels in C."""

ABI_VERSION: Final = 1
"""The version of the interface in the header."""
MAX_TABLE_ELEMENTS, MAX_TABLES = 1 << 20, 4
"""The maximum elements, of up to 16 bytes, of a module's table, and the maximum number of tables."""
ALIGNMENT_BYTES: Final = 64
"""The alignment of arrays in the module's memory, in bytes."""
PAGE_BYTES: Final = 1 << 16
"""The bytes of a page of WebAssembly."""
DTYPE_CODES: Final = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
)
"""The dtypes in the order of their codes in the header."""


def load_wasm_kernel(
    source: str | Path | bytes,
    contract: Kernel[..., Any],
    *,
    seconds: float = 60.0,
    memory: int = 1 << 30,
) -> Callable[..., Any]:
    """Return an implementation of a kernel that runs a WebAssembly module in a sandbox of its own.

    The module is compiled when the kernel first runs. The shapes and dtypes of the outputs are those
    of the contract. Each attribute is passed as a double, or as doubles if it is a tuple.

    Args:
        source: the path of a module, in binary or in text form; or the module itself.
        contract: the kernel that it implements.
        seconds: how long one call may take; the first one compiles the module. Ctrl-C stops it at any time.
        memory: how many bytes the module may use, inputs and outputs included.

    Raises:
        ArgumentError: there is no such file, or an argument has the wrong type.
        ArgumentValueError: a limit is not positive. When the kernel runs: the module is not valid,
            imports something, or does not export what the header says.
        KernelFailed: when the kernel runs: it trapped, reported a failure, or took too long.
        OutOfMemory: when the kernel runs: it needs more memory than it may use.
    """
    for name, limit in (("seconds", seconds), ("memory", memory)):
        if not isinstance(limit, int | float) or isinstance(limit, bool):  # pyright: ignore[reportUnnecessaryIsInstance] - people pass anything
            raise ArgumentError(f"load_wasm_kernel: {name}={limit!r} must be a number")
        if not limit > 0:
            raise ArgumentValueError(f"load_wasm_kernel: {name}={limit} must be positive")
    sandbox = SandboxedModule(contract.name, _read_module(source), float(seconds), int(memory))

    def implementation(*arrays: Any, **attrs: Any) -> Any:
        """Return the outputs of the module for arrays and attributes."""
        inputs: list[WasmArray | None] = [x if hasattr(x, "address") else None for x in arrays]
        home = next((x.memory for x in inputs if x is not None), None)
        linear: LinearMemory = (
            home or arrays[0].linear_memory
        )  # without inputs, the backend comes first
        promised = contract.infer(*(arrays if contract.inputs else ()), **attrs)
        specs = cast("list[Spec]", [promised] if hasattr(promised, "dtype") else [*promised])
        given = [
            None if x is None else linear.numpy_view(x.shape, np.dtype(x.dtype), x.address)
            for x in (inputs if contract.inputs else [])
        ]
        results = [linear.empty(s.shape, as_supported_dtype(s.dtype)) for s in specs]
        targets = [linear.numpy_view(y.shape, np.dtype(y.dtype), y.address) for y in results]
        sandbox.run(given, targets, attributes_as_numbers(contract, attrs))
        return results[0] if hasattr(promised, "dtype") else results

    return implementation


def attributes_as_numbers(contract: Kernel[..., Any], attrs: Mapping[str, Any]) -> list[float]:
    """Return the attributes as numbers in the contract's order.

    Raises:
        ArgumentError: one is neither a number nor a tuple of numbers.
    """
    numbers: list[float] = []
    for name in contract.attributes:
        value = attrs[name]
        items = cast("Sequence[Any]", value) if isinstance(value, tuple | list) else [value]
        try:
            numbers += map(float, items)
        except (TypeError, ValueError):
            raise ArgumentError(
                f"{contract.name}: the attribute {name}={value!r} cannot be passed to a module of WebAssembly; it "
                "must be a number or a tuple of numbers"
            ) from None
    return numbers


def _read_module(source: object) -> bytes:
    """Return the bytes of a module in binary or text form.

    Raises:
        ArgumentError: it is neither, and no path of a file.
    """
    if isinstance(source, bytes):
        return source
    if isinstance(source, str) and source.lstrip().startswith("("):
        return source.encode()
    if not isinstance(source, str | Path):
        raise ArgumentError(
            f"load_wasm_kernel: source={source!r} must be a path, bytes, or a module in text form"
        )
    try:
        return Path(source).read_bytes()
    except OSError as error:
        if is_interruption(error):
            raise
        raise ArgumentError(f"load_wasm_kernel: {source}: {error.strerror}") from None


class SandboxedModule:
    """A module with its own memory, which runs one call at a time."""

    def __init__(self, name: str, code: bytes, seconds: float, memory: int) -> None:
        """Remember the module and its limits; `name` is for messages."""
        self._name = name
        self._code = code
        self._seconds = seconds
        self._limit = memory
        self._lock = ForkLock()
        self._program: tuple[wasmtime.Engine, wasmtime.Module] | None = None
        self._instance: StoppableInstance | None = None
        _live_sandboxes.add(self)

    def close(self) -> None:
        """Release the module; the next call compiles it again."""
        self._program = self._instance = None

    def run(
        self,
        inputs: Sequence[np.ndarray[Any, Any] | None],
        outputs: Sequence[Any],
        attrs: list[float],
    ) -> None:
        """Call the kernel with copies of the inputs, and fill the arrays `outputs` with its results.

        Raises:
            KernelFailed: it trapped, reported a failure, or took too long.
            OutOfMemory: it may not use that much memory.
        """
        with self._lock:
            instance, self._instance = (
                self._instance,
                None,
            )  # nothing is known of it after a failure
            try:
                spent = 0.0 if self._program else self._compile()
                deadline = monotonic() + self._seconds - spent
                instance = instance or self._new_instance()
                instance.let_run()
                run_stoppable(
                    lambda: instance.call(inputs, outputs, attrs), instance.stop, deadline
                )
            except TimeoutError as error:
                if is_interruption(error):
                    raise
                raise self.kernel_failed_error(
                    f"was stopped after {self._seconds:g} seconds; load it with a larger seconds="
                ) from None
            if not instance.has_grown:
                self._instance = instance

    def _compile(self) -> float:
        """Compile the module, and return how many seconds that took, without the start of the process.

        Raises:
            ArgumentValueError: it cannot be used.
            TimeoutError: it takes more than the seconds of a call.
        """
        import wasmtime

        from plugrad_wasm.compiler import ModuleCompilationError, take_idle_compiler

        compiler = take_idle_compiler()
        begin = monotonic()
        try:
            code = compiler.compile(self._code, begin + self._seconds)
        except ModuleCompilationError as error:
            raise self.unusable_module_error(f"it is not a valid module: {error}") from None
        engine = new_interruptible_engine(
            parallel_compilation=False
        )  # a forked child does not have the threads for it
        module = wasmtime.Module.deserialize(engine, code)
        self._check_imports_and_exports(module)
        self._program = engine, module
        return monotonic() - begin

    def _new_instance(self) -> StoppableInstance:
        """Return a new instance of the compiled module."""
        assert self._program is not None
        return StoppableInstance(self, *self._program, self._limit)

    def _check_imports_and_exports(self, module: wasmtime.Module) -> None:
        """Raise unless a module imports nothing and has the required exports.

        Raises:
            ArgumentValueError: it does not.
        """
        import wasmtime

        imports = [f"{x.module}.{x.name}" for x in module.imports]
        if imports:
            raise self.unusable_module_error(
                f"it imports {', '.join(imports)}, and a kernel may import nothing"
            )
        exports = {x.name: x.type for x in module.exports}
        if not isinstance(exports.get("memory"), wasmtime.MemoryType):
            raise self.unusable_module_error("it does not export its memory as 'memory'")
        i32 = wasmtime.ValType.i32()
        signatures = {"plugrad_abi_version": [], "kernel": [i32], "scratch_size": [i32]}
        for name, parameters in signatures.items():
            kind = exports.get(name)
            if kind is None and name == "scratch_size":
                continue
            if not isinstance(kind, wasmtime.FuncType) or (kind.params, kind.results) != (
                parameters,
                [i32],
            ):
                takes = "one i32" if parameters else "nothing"
                raise self.unusable_module_error(
                    f"it must export {name!r}, a function of {takes} that returns an i32"
                )

    def unusable_module_error(self, reason: str) -> ArgumentValueError:
        """Return the error for a module that cannot be used, for a reason given as text."""
        return ArgumentValueError(f"{self._name} on wasm: the module cannot be used: {reason}")

    def kernel_failed_error(self, event: str) -> KernelFailed:
        """Return the error for a call that failed; `event` is a phrase such as "trapped" after the kernel's name."""
        return KernelFailed(f"{self._name} on wasm: the kernel {event}")

    def out_of_memory_error(self, needed_bytes: int) -> OutOfMemory:
        """Return the error for a call that needs more memory than the module may use."""
        return OutOfMemory(
            f"{self._name} on wasm: there is no room for {needed_bytes} bytes in the {self._limit} bytes that the "
            "module may use; load it with a larger memory="
        )


_live_sandboxes: Final[WeakSet[SandboxedModule]] = WeakSet()
"""The sandboxes whose modules must be released before the process ends."""


@atexit.register
def _close_all_sandboxes() -> None:
    """Release all modules while wasmtime can still delete them."""
    for sandbox in list(_live_sandboxes):
        sandbox.close()


class StoppableInstance:
    """An instance of a custom module that can be stopped."""

    def __init__(
        self, sandbox: SandboxedModule, engine: wasmtime.Engine, module: wasmtime.Module, limit: int
    ) -> None:
        """Prepare to instantiate the module; the first call does it."""
        from plugrad_wasm.module import QuietStore  # it imports wasmtime

        self._sandbox = sandbox
        self.has_grown: bool = False  # has the module put its own data behind that of the call?
        self._engine = engine
        self._module = module
        self._store = QuietStore(engine)
        self._store.set_limits(
            memory_size=limit, table_elements=MAX_TABLE_ELEMENTS, tables=MAX_TABLES, memories=1
        )
        self._exports: dict[str, Any] = {}

    def let_run(self) -> None:
        """Let the module run until it is stopped."""
        self._store.set_epoch_deadline(1)

    def stop(self) -> None:
        """Make the module trap."""
        self._engine.increment_epoch()

    def _instantiate(self) -> None:
        """Instantiate the module, which may run its start function.

        Raises:
            ArgumentValueError: it is for another version of plugrad.
        """
        import wasmtime

        exports = wasmtime.Instance(self._store, self._module, []).exports(self._store)
        self._exports = {name: exports[name] for name in exports}
        self._memory: wasmtime.Memory = self._exports["memory"]
        self._end = self._memory.data_len(self._store)  # of what belongs to the module
        version = self._exports["plugrad_abi_version"](self._store)
        if version != ABI_VERSION:
            raise self._sandbox.unusable_module_error(
                f"its plugrad_abi_version is {version}, and this plugrad's is {ABI_VERSION}"
            )

    def call(self, inputs: Sequence[Any], outputs: Sequence[Any], attrs: list[float]) -> None:
        """Run the kernel on copies of the inputs, and turn a trap into an error.

        Raises:
            KernelFailed: it trapped, or reported a failure.
        """
        import wasmtime

        try:
            self._call(inputs, outputs, attrs)
        except (wasmtime.Trap, wasmtime.WasmtimeError) as failure:
            reason = str(failure).strip().splitlines()[-1].strip()
            raise self._sandbox.kernel_failed_error(f"trapped: {reason}") from failure

    def _call(self, inputs: Sequence[Any], outputs: Sequence[Any], attrs: list[float]) -> None:
        """Copy the inputs to the module's memory, call the kernel, and copy its outputs."""
        if not self._exports:
            self._instantiate()
        # The numbers of the descriptor are known once every part has its place.
        arrays = [*inputs, *outputs]
        place = AddressAllocator(self._end)
        numbers = place.allocate(8 * len(attrs))
        data = [place.allocate(0 if x is None else x.nbytes) for x in arrays]
        shapes = [place.allocate(0 if x is None else 8 * x.ndim) for x in arrays]
        descriptor = place.allocate(28 + 28 * len(arrays))
        self._grow_memory_to(place.end)
        self._write(numbers, struct.pack(f"<{len(attrs)}d", *attrs))
        tensors = b""
        for x, address, shape in zip(arrays, data, shapes, strict=True):
            if x is None:
                tensors += bytes(28)
                continue
            steps = (np.array(x.strides, "int64") // x.itemsize) if x.size else np.zeros(x.ndim)
            self._write(shape, np.array([*x.shape, *steps]).astype("<i4").tobytes())
            code = DTYPE_CODES.index(str(as_dtype(x.dtype)))
            fields = (address, code, x.ndim, shape, shape + 4 * x.ndim, count_elements(x.shape), 0)
            tensors += struct.pack("<7I", *fields)
        for x, address in zip(inputs, data, strict=False):
            if x is not None and x.size:
                self._view_like(x, address)[...] = x
        head = [len(inputs), len(outputs), numbers, len(attrs), 0, 0, descriptor + 28]
        self._write(descriptor, struct.pack("<7I", *head) + tensors)
        if "scratch_size" in self._exports:
            needed = self._run("scratch_size", descriptor) & 0xFFFFFFFF
            head[4:6] = place.allocate(needed), needed
            self._grow_memory_to(place.end)
            self._write(descriptor, struct.pack("<7I", *head))
        extent = self._memory.data_len(self._store)
        status = self._run("kernel", descriptor)
        self.has_grown = self._memory.data_len(self._store) > extent
        if status:
            raise self._sandbox.kernel_failed_error(f"reported failure {status}")
        for x, address in zip(outputs, data[len(inputs) :], strict=True):
            if x.size:
                x[...] = self._view_like(x, address)

    def _run(self, name: str, descriptor: int) -> int:
        """Call the exported function `name` of the module with the address of a call's descriptor."""
        signed = descriptor - (1 << 32) if descriptor >= 1 << 31 else descriptor
        return self._exports[name](self._store, signed)

    def _grow_memory_to(self, end: int) -> None:
        """Grow the memory of the module up to the address `end`.

        Raises:
            OutOfMemory: it may not use that much.
        """
        import wasmtime

        missing = end - self._memory.data_len(self._store)
        if missing <= 0:
            return
        try:
            self._memory.grow(self._store, -(-missing // PAGE_BYTES))
        except wasmtime.WasmtimeError:
            raise self._sandbox.out_of_memory_error(end) from None

    def _host_address(self) -> int:
        """Return the host address of the memory, which changes when it grows."""
        return ctypes.addressof(self._memory.data_ptr(self._store).contents)

    def _write(self, address: int, data: bytes) -> None:
        """Copy data, as bytes, to an address of the module's memory."""
        ctypes.memmove(self._host_address() + address, data, len(data))

    def _view_like(self, array: Any, address: int) -> Any:
        """Return a view of the memory with the shape and dtype of an array."""
        buffer = (ctypes.c_char * array.nbytes).from_address(self._host_address() + address)
        return np.ndarray(array.shape, array.dtype, buffer)


class AddressAllocator:
    """Allocates consecutive addresses for the arrays of a call."""

    def __init__(self, start: int) -> None:
        """Begin at an address."""
        self.end = start

    def allocate(self, nbytes: int) -> int:
        """Return an aligned address with `nbytes` free bytes."""
        address = -(-self.end // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        self.end: int = address + nbytes
        return address
