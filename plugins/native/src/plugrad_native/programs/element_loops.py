"""Loops over elements in program tables: elementwise calls, written by blocks that stay in the L1 cache."""

from __future__ import annotations

from math import lcm
from typing import TYPE_CHECKING, Final, NamedTuple

from plugrad.extend import count_elements
from plugrad_native.declare import describe_broadcast, describe_strided_operand
from plugrad_native.programs.blocks import BlockAllocator, get_step_array
from plugrad_native.programs.calls import (
    AnyCall,
    CCall,
    CountOperand,
    InputOperand,
    OutputOperand,
    StepOperand,
)
from plugrad_native.programs.lowering import C_EXPAND
from plugrad_native.programs.table import (
    ABSENT_ARG,
    ALIGNMENT_BYTES,
    COUNT_ARG,
    NUMBER_ARG,
    POSITION_ARG,
    Location,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence, Set

    from plugrad.extend import Shape, Value
    from plugrad_native.programs.groups import GroupCalls
    from plugrad_native.programs.writer import ProgramWriter

BLOCK_MAX_L1_BYTES: Final = 32_768
"""The maximum bytes of the L1 cache for all arrays of a block."""
MIN_BLOCK_BYTES: Final = 4096
"""The minimum bytes of one array of a block: for fewer, calls cost more than misses of the L1 cache."""
MIN_BLOCK_ELEMENTS, MAX_BLOCK_ELEMENTS = 256, 2048
"""The minimum and maximum elements of a block: a multiple of the minimum, so that results do not depend on it."""


def write_element_loop(
    writer: ProgramWriter,
    shape: Shape,
    group: GroupCalls,
    kept_values: Iterable[Value],
    first_element: int = 0,
    end_element: int | None = None,
) -> None:
    """Write elementwise calls that run by blocks, for the elements from `first_element` to before `end_element`.

    Values that only they read are in scratch memory, which stays in the cache; `kept_values` have locations.
    """
    if group.number_specs:
        writer.specs = {**writer.specs, **group.number_specs}
    count = (count_elements(shape) if end_element is None else end_element) - first_element
    loop = _ElementLoopWriter(writer, shape, group, frozenset(kept_values), first_element, count)
    words, number = loop.write()
    writer.table.add_loop(count, loop.block, number, words)


class _LoopOperand(NamedTuple):
    """The location of an operand of a loop, and its step per element."""

    location: Location
    """The location of the first element."""
    step_bytes: int
    """The bytes from one element to the next; 0 for a single number."""
    is_number: bool = False
    """Whether the operand is one number, not an array."""

    def encode(self) -> list[int]:
        """Return the integers that encode the operand."""
        return self.location.encode(self.step_bytes)


class _ElementLoopWriter:
    """Writes the calls of one loop over elements."""

    def __init__(
        self,
        writer: ProgramWriter,
        shape: Shape,
        group: GroupCalls,
        kept: frozenset[Value],
        first: int,
        count: int,
    ) -> None:
        self.writer, self.shape, self.group, self.first = writer, shape, group, first
        calls = group.loop_calls
        made = {o.value for call in calls for o in call.operands if isinstance(o, OutputOperand)}
        self.inner = made - kept
        """The values that only the loop reads."""
        self.read = dict.fromkeys(
            o.value
            for call in (*group.setup_calls, *calls)
            for o in call.operands
            if isinstance(o, InputOperand)
            and o.value not in made
            and o.value not in group.number_specs
        )
        """The values that the loop reads and does not make."""
        expanded = [v for v in self.read if not self._is_dense(v) and not self._is_scalar(v)]
        self.last_uses = {
            value: i for i, call in enumerate(calls) for value in _get_operand_values(call)
        }
        """The index of the last call that uses each value."""
        width = max(writer.specs[v].dtype.itemsize for v in (*made, *self.read))
        alive = _count_max_live_values(calls, self.inner, self.last_uses)
        arrays = len(expanded) + len(self.read) + len(made - self.inner) + alive
        block = _choose_block_size(width, arrays)
        self.periods = {v: p for v in expanded if (p := self._find_period(v))}
        """The periods of values that repeat, which are expanded once for all blocks."""
        common = lcm(MIN_BLOCK_ELEMENTS, *self.periods.values())
        if common <= MAX_BLOCK_ELEMENTS:
            block = max(block // common, 1) * common
        else:
            self.periods.clear()
        self.block = min(count, block)
        """The number of elements of a block."""
        block_bytes = -(-self.block * width // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        self.registers = BlockAllocator(writer, block_bytes)
        self.operands: dict[Value, _LoopOperand] = {}
        self.words: list[int] = []
        self.number = 0

    def write(self) -> tuple[list[int], int]:
        """Write what runs once before the loop, and return the encoded calls of the loop and their number."""
        for value in self.read:
            self.operands[value] = self._place_input(value)
        for call in self.group.setup_calls:
            result = next(o.value for o in call.operands if isinstance(o, OutputOperand))
            self.operands[result] = _LoopOperand(self.registers.allocate(), 0, is_number=True)
            self.writer.table.add_loop(1, 1, 1, self._encode_call(call))
        for index, call in enumerate(self.group.loop_calls):
            for operand in call.operands:
                if isinstance(operand, OutputOperand) and operand.value not in self.operands:
                    self.operands[operand.value] = self._place_result(operand.value)
            self._add_to_loop(self._encode_call(call))
            for value in _get_operand_values(call) & self.inner:
                if self.last_uses[value] == index:
                    self.registers.release(self.operands[value].location)
        return self.words, self.number

    def _add_to_loop(self, words: list[int]) -> None:
        """Add an encoded call to the loop."""
        self.words += words
        self.number += 1

    def _place_input(self, value: Value) -> _LoopOperand:
        """Return the operand of a value that the loop reads, which is expanded by blocks unless it is dense."""
        view = self.group.views.get(value)
        place = self.writer.locate(value if view is None else view.base)
        if view is not None:
            place = place.slice_bytes(view.offset_bytes, place.nbytes - view.offset_bytes)
        if self._is_dense(value):
            return self._begin_at_first(value, place)
        if self._is_scalar(value):
            return _LoopOperand(place, 0, is_number=True)
        descriptor = (
            describe_broadcast(self.shape, self.writer.specs[value].shape)
            if view is None
            else describe_strided_operand(self.shape, view.shape, view.strides)
        )
        target = self.registers.allocate()
        table = self.writer.table
        size = self.writer.specs[value].dtype.itemsize
        expand = [
            *(table.add_function(C_EXPAND[size]), *place.encode(), *target.encode()),
            *(COUNT_ARG, 1, POSITION_ARG, 1, self.first, *table.add_constant(descriptor).encode()),
        ]
        if value in self.periods:  # the same for all blocks
            table.add_loop(self.block, self.block, 1, expand)
        else:
            self._add_to_loop(expand)
        return _LoopOperand(target, 0)

    def _place_result(self, value: Value) -> _LoopOperand:
        """Return the operand of a value that the loop makes."""
        if value in self.inner:
            return _LoopOperand(self.registers.allocate(), 0)
        return self._begin_at_first(value, self.writer.locations[value])

    def _begin_at_first(self, value: Value, location: Location) -> _LoopOperand:
        """Return the operand of a dense array, beginning at the first element of the loop."""
        size = self.writer.specs[value].dtype.itemsize
        return _LoopOperand(location.slice_bytes(self.first * size, size), size)

    def _encode_call(self, call: AnyCall) -> list[int]:
        """Return the integers that encode a call, given the operand of each value."""
        table = self.writer.table
        if isinstance(call, CCall):
            words = [table.add_function(call.function)]
            for operand in call.operands:
                match operand:
                    case InputOperand(value) | OutputOperand(value):
                        words += self.operands[value].encode()
                    case StepOperand(value):
                        words += [NUMBER_ARG, int(not self.operands[value].is_number)]
                    case CountOperand():
                        words += [COUNT_ARG, 1]
                    case _:
                        words += self.writer.encode_operand(operand)
            return words
        steps: list[int] = []
        places: list[int] = []
        for operand in call.operands:
            assert isinstance(operand, InputOperand | OutputOperand)
            found = self.operands[operand.value]
            steps.append(0 if found.is_number else self.writer.specs[operand.value].dtype.itemsize)
            places += found.encode()
        step_array = table.add_constant(get_step_array(tuple(steps)))
        return [
            *(table.add_function((call.ufunc, call.loop_index)), COUNT_ARG, 1, ABSENT_ARG),
            *(*step_array.encode(), *places),
        ]

    def _is_dense(self, value: Value) -> bool:
        """Return whether a value has the elements of the shape, without gaps."""
        view = self.group.views.get(value)
        has_full_shape = self._count_elements(value) == count_elements(self.shape)
        return has_full_shape and (view is None or view.is_contiguous)

    def _is_scalar(self, value: Value) -> bool:
        """Return whether a value is a single number."""
        return self._count_elements(value) == 1

    def _count_elements(self, value: Value) -> int:
        """Return the number of elements of a value."""
        return count_elements(self.writer.specs[value].shape)

    def _find_period(self, value: Value) -> int:
        """Return after how many elements a value repeats, such as a broadcast row; 0 if it does not."""
        own, shape = self.writer.specs[value].shape, self.shape
        while own[:1] == (1,):
            own = own[1:]
        return count_elements(own) if own == shape[len(shape) - len(own) :] else 0


def _get_operand_values(call: AnyCall) -> set[Value]:
    """Return the values that a call reads or makes."""
    return {o.value for o in call.operands if isinstance(o, InputOperand | OutputOperand)}


def _count_max_live_values(
    calls: Sequence[AnyCall], loop_values: Set[Value], last_uses: Mapping[Value, int]
) -> int:
    """Return the largest number of `loop_values` alive at once, given the last call that uses each."""
    alive: set[Value] = set()
    most = 0
    for index, call in enumerate(calls):
        found = _get_operand_values(call) & loop_values
        alive |= found
        most = max(most, len(alive))
        alive -= {value for value in found if last_uses[value] == index}
    return most


def _choose_block_size(item_size: int, live_value_count: int) -> int:
    """Return the number of elements per block for which all live values fit the L1 cache."""
    fitting = max(BLOCK_MAX_L1_BYTES // max(1, live_value_count), MIN_BLOCK_BYTES) // item_size
    fitting -= fitting % MIN_BLOCK_ELEMENTS
    return min(max(fitting, MIN_BLOCK_ELEMENTS), MAX_BLOCK_ELEMENTS)
