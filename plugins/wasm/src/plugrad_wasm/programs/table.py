"""The tables of programs, as ``extension/program.c`` describes them."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from plugrad.extend import ArgumentValueError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from plugrad_wasm.runtime import ProgramFunction

NUMBER_BASE, ITEMS_BASE, SCRATCH_BASE, FRAME_BASE, FIRST_ARRAY_BASE = range(5)
"""The codes of what a number is added to: nothing, a block's items, scratch memory, a call's memory, or arrays.

They are: nothing, the items of a block, the scratch memory that loops use in turn, the memory of a call, and then its
arrays.
"""
MAX_CALL_OPERANDS: Final = 24
"""The maximum number of operands of a call."""
LOOP_STRUCT: Final = struct.Struct("<4i")
"""The format of a loop's head: the numbers of its items, of a block's items, of calls and of bytes."""
CALL_STRUCT: Final = struct.Struct("<4i")
"""The format of a call's head: the indices of its function and signature, the number of operands, and 0."""
OPERAND_STRUCT: Final = struct.Struct("<2iq")
"""The format of an operand: the code of its base, its step per item in bytes, and the bits of its number."""
MAX_LOOP_ITEMS: Final = (1 << 31) - 1
"""The maximum number of items, such as elements, over which a loop of a table runs: a signed 32-bit integer."""


class Operand(NamedTuple):
    """An operand of a program table: a number, or an address as a base, an offset and a step per item, in bytes."""

    base_index: int
    """The code of the base."""
    number: float
    """The number, or the offset from the base in bytes."""
    step_per_item: int = 0
    """The bytes by which the address grows from item to item."""


class TableCall(NamedTuple):
    """A call of an export, or without an export, a write of numbers to memory."""

    export: str | None
    """The name of the export, or None for a write."""
    operands: Sequence[Operand]
    """The arguments of the export; of a write, the address and then the numbers."""


TableLoops: TypeAlias = "list[tuple[int, int, list[TableCall]]]"
"""The type of loops: for each the number of items, the items of a block, and the calls for each block."""


def encode_table(
    loops: TableLoops,
    module: str,
    program_functions: Mapping[str, ProgramFunction],
    base_count: int,
) -> bytes:
    """Return loops of calls of one module's functions, encoded as a table for the program runner.

    Raises:
        ArgumentValueError: a number does not fit: nothing that is not in the table of the module, with its operands,
            can be called.
    """
    words: list[bytes] = []
    for items, block, calls in loops:
        if not (0 <= items <= MAX_LOOP_ITEMS and 0 < block <= MAX_LOOP_ITEMS):
            raise ArgumentValueError(
                f"wasm: a loop of {items} items in blocks of {block} cannot run"
            )
        body = b"".join(_encode_call(call, module, program_functions, base_count) for call in calls)
        words += LOOP_STRUCT.pack(items, block, len(calls), LOOP_STRUCT.size + len(body)), body
    return b"".join(words)


def _encode_call(
    call: TableCall, module: str, program_functions: Mapping[str, ProgramFunction], base_count: int
) -> bytes:
    """Return the bytes that encode a call, which the program runner in the sandbox reads."""
    export, operands = call
    if export is None:
        behind_functions = sum(function.module == module for function in program_functions.values())
        head, types = (behind_functions, 0), "i" * len(operands)
    else:
        function = program_functions.get(export)
        if function is None or function.module != module:
            raise ArgumentValueError(f"wasm: the module {module!r} has no function {export!r}")
        head, types = (
            (function.table_index, function.signature_index),
            function.parameter_type_letters,
        )
        if len(operands) != len(types) or len(types) > MAX_CALL_OPERANDS:
            raise ArgumentValueError(
                f"wasm: {export} takes {len(types)} operands, not {len(operands)}"
            )
    words = [CALL_STRUCT.pack(*head, len(operands), 0)]
    for (base, number, step), letter in zip(operands, types, strict=True):
        if not 0 <= base < base_count or (base and letter != "i"):
            raise ArgumentValueError(f"wasm: {export} cannot have an operand of the base {base}")
        words.append(OPERAND_STRUCT.pack(base, step, number_to_bits(number, letter)))
    return b"".join(words)


def number_to_bits(number: float, type_letter: str) -> int:
    """Return the bits of a number as an integer, given the letter of its WebAssembly type.

    >>> hex(number_to_bits(1.0, "f")), hex(number_to_bits(1.0, "d")), number_to_bits(True, "i")
    ('0x3f800000', '0x3ff0000000000000', 1)
    """
    if type_letter == "f":
        return int.from_bytes(struct.pack("<f", number), "little")
    if type_letter == "d":
        return int.from_bytes(struct.pack("<d", number), "little", signed=True)
    return int(number)
