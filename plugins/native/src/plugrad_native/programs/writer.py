"""The table of a program, as ``extension/program.h`` describes it: calls of C become words."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from math import lcm
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from plugrad.extend import count_elements
from plugrad_native.declare import as_contiguous, broadcast_descriptor
from plugrad_native.programs.calls import (
    AnyCall,
    CCall,
    Constant,
    Count,
    Part,
    Read,
    Scratch,
    Step,
    UfuncCall,
    Written,
)
from plugrad_native.programs.lowering import EXPAND
from plugrad_native.variants import current_variant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence, Set

    from plugrad.extend import Shape, Shaped, Value
    from plugrad_native.declare import Array
    from plugrad_native.programs.calls import Operand

NUMBER, COUNT, POSITION, ABSENT, PLACE, LIST = range(6)
LARGE_ARENA: Final = 1 << 18
"""The bytes from which on the caller hands the arena in."""
ALIGNMENT: Final = 64
L1_BYTES: Final = 32_768
"""What the blocks of a loop should take of the first cache."""
MIN_BLOCK_BYTES: Final = 4096
"""What one array of a block has at least: below, calls cost more than the second cache does."""
MIN_BLOCK, MAX_BLOCK = 256, 2048
"""Elements; a multiple of the first one, so that no result depends on the division."""


class Place(NamedTuple):
    """Where an array lies: the slot, the offset in bytes, how many bytes it takes, and how far it moves each time."""

    slot: int
    offset: int
    nbytes: int
    turn: int = 0

    def part(self, offset: int, nbytes: int) -> Place:
        """Return the place of a part."""
        return self._replace(offset=self.offset + offset, nbytes=nbytes)


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
        self._part: list[int] = []
        """The words of the part that is being written, and how many loops they are."""
        self._loops = 0
        self.functions: dict[Any, int] = {}
        self.constants: list[Array] = []
        self._slots: dict[int, int] = {}

    def finish(self) -> Callable[..., None]:
        """Return the program as a function: of the inputs, the outputs, and the arena if it is large."""
        self.end_part()
        sizes = [self.arena_bytes, len(self.inputs), len(self.outputs), *self.inputs, *self.outputs]
        return current_variant().program(
            np.array(self.words, np.int64),
            np.array(sizes, np.int64),
            tuple(self.functions),
            tuple(self.constants),
            np.ufunc,
        )

    def end_part(self, times: int = 1) -> None:
        """Let what has been written since the last part run some times."""
        if self._loops:
            self.words += [times, self._loops, *self._part]
        self._part, self._loops = [], 0

    def add_loop(self, count: int, block: int, calls: int, words: Sequence[int]) -> None:
        """Add a loop to the part."""
        self._part += [count, block, calls, *words]
        self._loops += 1

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
            if isinstance(call, UfuncCall):
                words = [self.function((call.ufunc, call.loop)), NUMBER, 0]
                for numbers in (call.sizes, call.steps):
                    words += place_words(self.constant(np.array(numbers, np.int64)))
            else:
                words = [self.function(call.function)]
            for operand in call.operands:
                words += self.words_of(operand)
            self.add_loop(1, 1, 1, words)

    def write_copy(self, function: str, source: Place, target: Place) -> None:
        """Write a copy of the bytes of a place, by a function that reads broadcast arrays."""
        descriptor = np.array([1, source.nbytes, 1], np.int32)
        words = [
            self.function(function),
            *place_words(source),
            *place_words(target),
            NUMBER,
            source.nbytes,
        ]
        self.add_loop(1, 1, 1, [*words, NUMBER, 0, *place_words(self.constant(descriptor))])

    def words_of(self, operand: Operand) -> list[int]:
        """Return the words of an operand that does not move."""
        match operand:
            case None:
                return [ABSENT]
            case Read(value) | Written(value):
                return place_words(self.place(value))
            case Part(value, offset):
                place = self.place(value)
                return place_words(place.part(offset, place.nbytes - offset))
            case Constant(array):
                return place_words(self.constant(array))
            case Scratch(nbytes):
                return place_words(self.reserve(0, nbytes))
            case tuple() if not isinstance(operand, Step | Count):
                return [LIST, len(operand), *[w for o in operand for w in self.words_of(o)]]
            case int():
                return [NUMBER, int(operand)]
            case float():
                return [NUMBER, *struct.unpack("<q", struct.pack("<d", operand))]
            case _:
                raise TypeError(f"{operand!r} is for elementwise calls only")

    # --- loops --------------------------------------------------------------------------------------

    def write_loop(
        self,
        shape: Shape,
        calls: Sequence[AnyCall],
        kept: Iterable[Value],
        first: int = 0,
        last: int | None = None,
    ) -> None:
        """Write elementwise calls that run block by block, for the elements from `first` to `last`.

        What only they read lies in scratch memory, which stays in the cache, and `kept` at its place.
        """
        count = (count_elements(shape) if last is None else last) - first
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
        uses = {
            o.value: i
            for i, call in enumerate(calls)
            for o in call.operands
            if isinstance(o, Read | Written)
        }
        alive = _count_alive(calls, inner, uses)
        block = _block(width, len(expanded) + len(read) + len(made - inner) + alive)
        periods = {v: p for v in expanded if (p := self._period(v, shape))}
        common = lcm(MIN_BLOCK, *periods.values())
        if common <= MAX_BLOCK:
            block = max(block // common, 1) * common
        else:
            periods.clear()
        block = min(count, block)
        registers = Registers(self, -(-block * width // ALIGNMENT) * ALIGNMENT)
        operands: dict[Value, _Operand] = {}
        words: list[int] = []
        number = 0
        for value in read:
            place = self.place(value)
            size = self.specs[value].dtype.itemsize
            if self._is_whole(value, shape):
                operands[value] = _Operand(place.part(first * size, size), size)
            elif self._is_number(value):
                operands[value] = _Operand(place, 0, is_number=True)
            else:
                target = registers.take()
                descriptor = self.constant(broadcast_descriptor(shape, self.specs[value].shape))
                expand = [
                    *(self.function(EXPAND[size]), *place_words(place)),
                    *(*place_words(target), COUNT, 1, POSITION, 1, first, *place_words(descriptor)),
                ]
                operands[value] = _Operand(target, 0)
                if value in periods:  # the same for all blocks
                    self.add_loop(block, block, 1, expand)
                    continue
                words += expand
                number += 1
        for index, call in enumerate(calls):
            for o in call.operands:
                if isinstance(o, Written) and o.value not in operands:
                    size = self.specs[o.value].dtype.itemsize
                    if o.value in inner:
                        operands[o.value] = _Operand(registers.take(), 0)
                    else:
                        place = self.places[o.value]
                        operands[o.value] = _Operand(place.part(first * size, size), size)
            words += self._elementwise(call, operands)
            number += 1
            for value in {o.value for o in call.operands if isinstance(o, Read | Written)}:
                if value in inner and uses[value] == index:
                    registers.give_back(operands[value].place)
        self.add_loop(count, block, number, words)

    def _period(self, value: Value, shape: Shape) -> int:
        """Return after how many elements of a shape a value repeats as it is, such as a row of a matrix; else 0."""
        own = self.specs[value].shape
        while own[:1] == (1,):
            own = own[1:]
        return count_elements(own) if own == shape[len(shape) - len(own) :] else 0

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
                        words += place_words(*operands[value][:2])
                    case Step(value):
                        words += [NUMBER, int(not operands[value].is_number)]
                    case Count():
                        words += [COUNT, 1]
                    case _:
                        words += self.words_of(operand)
            return words
        steps: list[int] = []
        places: list[int] = []
        for operand in call.operands:
            assert isinstance(operand, Read | Written)
            found = operands[operand.value]
            steps.append(0 if found.is_number else self.specs[operand.value].dtype.itemsize)
            places += place_words(*found[:2])
        table = self.constant(step_table(tuple(steps)))
        return [
            *(self.function((call.ufunc, call.loop)), COUNT, 1, ABSENT),
            *(*place_words(table), *places),
        ]


class Registers:
    """Places for blocks, which are given back after their last use."""

    def __init__(self, writer: Writer, nbytes: int) -> None:
        self.writer = writer
        self.nbytes = nbytes
        self.free: list[Place] = []
        self.count = 0

    def take(self) -> Place:
        """Return the place of a block that nobody uses."""
        if self.free:
            return self.free.pop()
        self.count += 1
        return self.writer.reserve((self.count - 1) * self.nbytes, self.nbytes)

    def give_back(self, place: Place) -> None:
        """Let others have a place."""
        self.free.append(place)


_STEPS: dict[tuple[int, ...], Array] = {}


def step_table(steps: tuple[int, ...]) -> Array:
    """Return the steps of a loop of NumPy as an array, the same one for the same steps."""
    return _STEPS.setdefault(steps, np.array(steps, np.int64))


def place_words(place: Place, step: int = 0) -> list[int]:
    """Return the words of an operand that moves by a step for each item of its loop."""
    return [PLACE, place.slot, place.offset, step, place.turn, place.nbytes]


def _count_alive(calls: Sequence[AnyCall], inner: Set[Value], uses: Mapping[Value, int]) -> int:
    """Return the most of some values that are alive at once, by the last calls that use them."""
    alive: set[Value] = set()
    most = 0
    for index, call in enumerate(calls):
        found = {o.value for o in call.operands if isinstance(o, Read | Written)} & inner
        alive |= found
        most = max(most, len(alive))
        alive -= {value for value in found if uses[value] == index}
    return most


def _block(width: int, alive: int) -> int:
    """Return the elements of a block: as many as the first cache holds of what is alive at once."""
    fitting = max(L1_BYTES // max(1, alive), MIN_BLOCK_BYTES) // width // MIN_BLOCK * MIN_BLOCK
    return min(max(fitting, MIN_BLOCK), MAX_BLOCK)
