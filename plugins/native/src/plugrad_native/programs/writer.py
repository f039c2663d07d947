"""The table of a program, as ``extension/program.h`` describes it: calls of C become words."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from plugrad.extend import count_elements
from plugrad_native.declare import as_contiguous, broadcast_descriptor
from plugrad_native.programs.calls import (
    AnyCall,
    CCall,
    Constant,
    Count,
    Read,
    Scratch,
    Step,
    UfuncCall,
    Written,
)
from plugrad_native.programs.lowering import EXPAND
from plugrad_native.variants import current_variant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from plugrad.extend import Shape, Shaped, Value
    from plugrad_native.declare import Array
    from plugrad_native.programs.calls import Operand

NUMBER, COUNT, POSITION, ABSENT, PLACE, LIST = range(6)
LARGE_ARENA: Final = 1 << 18
"""The bytes from which on the caller hands the arena in."""
ALIGNMENT: Final = 64
L1_BYTES: Final = 24_576
"""What the blocks of a loop may take of the cache; the rest is for what streams through."""
MIN_BLOCK, MAX_BLOCK = 256, 2048
"""Elements; a multiple of the first one, so that no result depends on the division."""
MAX_REPEATED: Final = 4096
"""The elements of a row, repeated to whole blocks, that are written once instead of for each block."""


class Place(NamedTuple):
    """Where an array lies: the slot, the offset in bytes, and how many bytes it takes."""

    slot: int
    offset: int
    nbytes: int


class _Operand(NamedTuple):
    """Where an operand of a loop lies, and how far it moves for each element."""

    place: Place
    step: int
    is_number: bool = False


@dataclass
class Writer:
    """Collects the loops of a program. Places of values are given; constants get slots of their own."""

    specs: Mapping[Value, Shaped]
    places: Mapping[Value, Place]
    inputs: Sequence[int]
    """The bytes of each."""
    outputs: Sequence[int]
    scratch: int
    """The offset in the arena from which on calls may use it."""
    given: Mapping[Value, Array]
    """The values that are parts of the program."""

    def __post_init__(self) -> None:
        """Begin an empty program."""
        self.arena_bytes = self.scratch
        self.words: list[int] = []
        self.functions: dict[Any, int] = {}
        self.constants: list[Array] = []
        self._slots: dict[int, int] = {}

    def finish(self) -> Callable[..., None]:
        """Return the program as a function: of the inputs, the outputs, and the arena if it is large."""
        sizes = [self.arena_bytes, len(self.inputs), len(self.outputs), *self.inputs, *self.outputs]
        return current_variant().program(
            np.array(self.words, np.int64),
            np.array(sizes, np.int64),
            tuple(self.functions),
            tuple(self.constants),
            np.ufunc,
        )

    # --- what calls consist of --------------------------------------------------------------------

    def constant(self, array: Array) -> Place:
        """Return the place of an array that is a part of the program."""
        slot = self._slots.get(id(array))
        if slot is None:
            slot = self._slots[id(array)] = len(self.constants)
            self.constants.append(as_contiguous(np.asarray(array)))
        first = 1 + len(self.inputs) + len(self.outputs)
        return Place(first + slot, 0, self.constants[slot].nbytes)

    def place(self, value: Value) -> Place:
        """Return where a value lies."""
        array = self.given.get(value)
        return self.places[value] if array is None else self.constant(array)

    def reserve(self, offset: int, nbytes: int) -> Place:
        """Return a place in the scratch memory, which all loops share."""
        start = self.scratch + offset
        self.arena_bytes = max(self.arena_bytes, -(-(start + nbytes) // ALIGNMENT) * ALIGNMENT)
        return Place(0, start, nbytes)

    def function(self, key: Any) -> int:
        """Return the number of a function in the program."""
        return self.functions.setdefault(key, len(self.functions))

    def nbytes(self, value: Value) -> int:
        """Return the bytes of a value."""
        shape, dtype = self.specs[value]
        return count_elements(shape) * dtype.itemsize

    # --- single calls ------------------------------------------------------------------------------

    def write_calls(self, calls: Iterable[AnyCall]) -> None:
        """Write calls that run once each."""
        for call in calls:
            self.words += [1, 1, 1, 1, 1]
            if isinstance(call, UfuncCall):
                self.words += [self.function((call.ufunc, call.loop)), NUMBER, 0]
                for numbers in (call.sizes, call.steps):
                    self.words += _place(self.constant(np.array(numbers, np.int64)))
                for operand in call.operands:
                    self.words += self._words_of(operand)
            else:
                self.words.append(self.function(call.function))
                for operand in call.operands:
                    self.words += self._words_of(operand)

    def _words_of(self, operand: Operand) -> list[int]:
        """Return the words of an operand that does not move."""
        match operand:
            case None:
                return [ABSENT]
            case Read(value) | Written(value):
                return _place(self.place(value))
            case Constant(array):
                return _place(self.constant(array))
            case Scratch(nbytes):
                return _place(self.reserve(0, nbytes))
            case tuple() if not isinstance(operand, Step | Count):
                return [LIST, len(operand), *[w for o in operand for w in self._words_of(o)]]
            case int():
                return [NUMBER, int(operand)]
            case float():
                return [NUMBER, *struct.unpack("<q", struct.pack("<d", operand))]
            case _:
                raise TypeError(f"{operand!r} is for elementwise calls only")

    # --- loops --------------------------------------------------------------------------------------

    def write_loop(self, shape: Shape, calls: Sequence[AnyCall], kept: Iterable[Value]) -> None:
        """Write elementwise calls that run block by block.

        What only they read lies in scratch memory, which stays in the cache, and `kept` at its place.
        """
        count = count_elements(shape)
        made = {o.value for call in calls for o in call.operands if isinstance(o, Written)}
        inner = made - set(kept)
        read = dict.fromkeys(
            o.value
            for call in calls
            for o in call.operands
            if isinstance(o, Read) and o.value not in made
        )
        expanded = [v for v in read if not self._is_whole(v, shape) and not self._is_number(v)]
        width = max(self.specs[v].dtype.itemsize for v in (*made, *read))
        block = min(count, _block(width, len(expanded) + len(read) + len(made)))
        registers = _Registers(self, -(-block * width // ALIGNMENT) * ALIGNMENT)
        operands: dict[Value, _Operand] = {}
        words: list[int] = []
        number = 0
        for value in read:
            place = self.place(value)
            size = self.specs[value].dtype.itemsize
            if self._is_whole(value, shape):
                operands[value] = _Operand(Place(place.slot, place.offset, size), size)
            elif self._is_number(value):
                operands[value] = _Operand(place, 0, is_number=True)
            else:
                target = registers.take()
                descriptor = self.constant(broadcast_descriptor(shape, self.specs[value].shape))
                expand = [
                    *(self.function(EXPAND[size]), *_place(place)),
                    *(*_place(target), COUNT, 1, POSITION, 1, *_place(descriptor)),
                ]
                operands[value] = _Operand(target, 0)
                words += expand
                number += 1
        last = {
            o.value: i
            for i, call in enumerate(calls)
            for o in call.operands
            if isinstance(o, Read | Written)
        }
        for index, call in enumerate(calls):
            for o in call.operands:
                if isinstance(o, Written) and o.value not in operands:
                    size = self.specs[o.value].dtype.itemsize
                    if o.value in inner:
                        operands[o.value] = _Operand(registers.take(), 0)
                    else:
                        place = self.places[o.value]
                        operands[o.value] = _Operand(Place(place.slot, place.offset, size), size)
            words += self._elementwise(call, operands)
            number += 1
            for value in {o.value for o in call.operands if isinstance(o, Read | Written)}:
                if value in inner and last[value] == index:
                    registers.give_back(operands[value].place)
        self.words += [1, 1, count, block, number, *words]

    def _is_whole(self, value: Value, shape: Shape) -> bool:
        return count_elements(self.specs[value].shape) == count_elements(shape)

    def _is_number(self, value: Value) -> bool:
        return count_elements(self.specs[value].shape) == 1

    def _elementwise(self, call: AnyCall, operands: Mapping[Value, _Operand]) -> list[int]:
        """Return the words of a call in a loop."""
        if isinstance(call, CCall):
            words = [self.function(call.function)]
            for operand in call.operands:
                match operand:
                    case Read(value) | Written(value):
                        words += _place(*operands[value][:2])
                    case Step(value):
                        words += [NUMBER, int(not operands[value].is_number)]
                    case Count():
                        words += [COUNT, 1]
                    case _:
                        words += self._words_of(operand)
            return words
        steps: list[int] = []
        places: list[int] = []
        for operand in call.operands:
            assert isinstance(operand, Read | Written)
            found = operands[operand.value]
            steps.append(0 if found.is_number else self.specs[operand.value].dtype.itemsize)
            places += _place(*found[:2])
        table = self.constant(_steps(tuple(steps)))
        return [
            *(self.function((call.ufunc, call.loop)), COUNT, 1, ABSENT),
            *(*_place(table), *places),
        ]


class _Registers:
    """Places for blocks, which are given back after their last use."""

    def __init__(self, writer: Writer, nbytes: int) -> None:
        self.writer = writer
        self.nbytes = nbytes
        self.free: list[Place] = []
        self.count = 0

    def take(self) -> Place:
        if self.free:
            return self.free.pop()
        self.count += 1
        return self.writer.reserve((self.count - 1) * self.nbytes, self.nbytes)

    def give_back(self, place: Place) -> None:
        self.free.append(place)


_STEPS: dict[tuple[int, ...], Array] = {}


def _steps(steps: tuple[int, ...]) -> Array:
    """Return the steps of a loop of NumPy as an array, the same one for the same steps."""
    return _STEPS.setdefault(steps, np.array(steps, np.int64))


def _place(place: Place, step: int = 0) -> list[int]:
    return [PLACE, place.slot, place.offset, step, 0, place.nbytes]


def _block(width: int, operands: int) -> int:
    """Return the elements of a block: as many as the first cache holds of all operands."""
    fitting = L1_BYTES // (width * max(1, operands)) // MIN_BLOCK * MIN_BLOCK
    return min(max(fitting, MIN_BLOCK), MAX_BLOCK)
