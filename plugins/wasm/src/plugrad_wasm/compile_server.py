"""The program of a process that compiles foreign modules: it can be stopped, and its memory is limited.

It is run as a script, with the folder of wasmtime and a limit in bytes as arguments, and imports nothing
else, so that it starts quickly. A request is the size of a module and the module; the answer is a byte, a
size, and the machine code or a message.
"""

from __future__ import annotations

import struct
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import wasmtime

WASM_MAGIC_BYTES: Final = b"\0asm"
"""The bytes with which a module in binary form begins."""
MAX_STACK_BYTES: Final = 512 << 10
"""The maximum stack of a running module, in bytes."""
LENGTH_STRUCT: Final = struct.Struct("<Q")
"""The format of the number of bytes that precedes each request and each answer."""
READY_MESSAGE, COMPILED_MESSAGE, REFUSED_MESSAGE = b"R", b"C", b"E"
"""The first byte of each answer, which tells the kind of the answer."""


def new_interruptible_engine(*, parallel_compilation: bool) -> wasmtime.Engine:
    """Return a wasmtime engine for modules of users, whose execution can be stopped."""
    import wasmtime

    config = wasmtime.Config()
    config.epoch_interruption = True
    # A trap is not a signal here, because other handlers of signals, such as those of
    # faulthandler, would end the process.
    config.signals_based_traps = False
    config.parallel_compilation = parallel_compilation
    config.wasm_gc = False  # no limit holds for its objects
    config.wasm_memory64 = False
    config.max_wasm_stack = MAX_STACK_BYTES
    return wasmtime.Engine(config)


def compile_module(engine: wasmtime.Engine, source: bytes) -> tuple[bytes, bytes]:
    """Return COMPILED_MESSAGE and the machine code of a module, given as bytes, or REFUSED_MESSAGE and the error."""
    import wasmtime

    try:
        code = source if source.startswith(WASM_MAGIC_BYTES) else bytes(wasmtime.wat2wasm(source))
        return COMPILED_MESSAGE, bytes(wasmtime.Module(engine, code).serialize())
    except (wasmtime.WasmtimeError, UnicodeDecodeError) as error:
        return REFUSED_MESSAGE, str(error).encode()


def main() -> None:
    """Compile the modules that are read from standard input, and write results to standard output, until input ends."""
    folder, limit = sys.argv[1], int(sys.argv[2])
    sys.path.insert(0, folder)
    with suppress(ImportError, ValueError, OSError):  # not all systems limit memory
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    engine = new_interruptible_engine(parallel_compilation=True)
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    answers.write(READY_MESSAGE)
    answers.flush()
    while head := requests.read(LENGTH_STRUCT.size):
        kind, answer = compile_module(engine, requests.read(*LENGTH_STRUCT.unpack(head)))
        answers.write(kind + LENGTH_STRUCT.pack(len(answer)) + answer)
        answers.flush()


if __name__ == "__main__":
    main()
