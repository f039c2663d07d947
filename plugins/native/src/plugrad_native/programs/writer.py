"""The encoding of C calls in program tables."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from plugrad.extend import count_elements
from plugrad_native.programs.calls import (
    AnyCall,
    ConstantOperand,
    CountOperand,
    InputOperand,
    OffsetOperand,
    OutputOperand,
    ScratchOperand,
    StepOperand,
    UfuncCall,
)
from plugrad_native.programs.lowering import C_EXPAND
from plugrad_native.programs.table import (
    ABSENT_ARG,
    LIST_ARG,
    NUMBER_ARG,
    Location,
    ProgramTable,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from plugrad.extend import Shaped, Value
    from plugrad_native.declare import Array
    from plugrad_native.programs.calls import Operand

LARGE_ARENA_BYTES: Final = 1 << 18
"""The bytes of an arena from which on the caller allocates it; programs keep smaller ones."""


@dataclass
class ProgramWriter:
    """Writes the calls of one graph to a program table, given the locations of values."""

    table: ProgramTable
    specs: Mapping[Value, Shaped]
    """The shapes and dtypes of the values."""
    locations: Mapping[Value, Location]
    """The locations of the values in memory."""
    scratch_offset: int
    """The offset in the arena, in bytes, from which on calls may use it."""
    constants: Mapping[Value, Array]
    """The values whose arrays are parts of the program."""

    def locate(self, value: Value) -> Location:
        """Return the location of a value in memory."""
        array = self.constants.get(value)
        return self.locations[value] if array is None else self.table.add_constant(array)

    def reserve(self, offset: int, nbytes: int) -> Location:
        """Return the location of `nbytes` bytes at an offset in the scratch memory that all loops share."""
        return self.table.reserve(self.scratch_offset + offset, nbytes)

    def nbytes(self, value: Value) -> int:
        """Return the bytes of a value."""
        shape, dtype = self.specs[value]
        return count_elements(shape) * dtype.itemsize

    def write_calls(self, calls: Iterable[AnyCall]) -> None:
        """Write C calls that run once."""
        for call in calls:
            if isinstance(call, UfuncCall):
                words = [self.table.add_function((call.ufunc, call.loop_index)), NUMBER_ARG, 0]
                for numbers in (call.loop_sizes, call.step_bytes):
                    words += self.table.add_constant(np.array(numbers, np.int64)).encode()
            else:
                words = [self.table.add_function(call.function)]
            for operand in call.operands:
                words += self.encode_operand(operand)
            self.table.add_loop(1, 1, 1, words)

    def write_copy(self, source: Location, target: Location) -> None:
        """Write a copy of bytes from the source's location to the target's, unless they are the same."""
        if source == target:
            return
        descriptor = np.array([1, source.nbytes, 1], np.int32)
        words = [self.table.add_function(C_EXPAND[1]), *source.encode(), *target.encode()]
        words += [NUMBER_ARG, source.nbytes, NUMBER_ARG, 0]
        self.table.add_loop(1, 1, 1, [*words, *self.table.add_constant(descriptor).encode()])

    def encode_operand(self, operand: Operand) -> list[int]:
        """Return the integers that encode an operand with a fixed location."""
        match operand:
            case None:
                return [ABSENT_ARG]
            case InputOperand(value) | OutputOperand(value):
                return self.locate(value).encode()
            case OffsetOperand(value, offset):
                place = self.locate(value)
                return place.slice_bytes(offset, place.nbytes - offset).encode()
            case ConstantOperand(array):
                return self.table.add_constant(array).encode()
            case ScratchOperand(nbytes):
                return self.reserve(0, nbytes).encode()
            case tuple() if not isinstance(operand, StepOperand | CountOperand):
                words = [word for item in operand for word in self.encode_operand(item)]
                return [LIST_ARG, len(operand), *words]
            case int():
                return [NUMBER_ARG, int(operand)]
            case float():
                return [NUMBER_ARG, *struct.unpack("<q", struct.pack("<d", operand))]
            case _:
                raise TypeError(f"{operand!r} is for elementwise calls only")
