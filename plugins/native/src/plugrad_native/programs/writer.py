"""The encoding of C calls in program tables: single calls, and loops over elements or rows."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from math import lcm
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from plugrad.extend import count_elements
from plugrad_native.declare import describe_broadcast, describe_strided_operand
from plugrad_native.programs.calls import (
    AnyCall,
    CCall,
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
    ALIGNMENT_BYTES,
    COUNT_ARG,
    LIST_ARG,
    NUMBER_ARG,
    POSITION_ARG,
    Location,
    ProgramTable,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence, Set

    from plugrad.extend import Shape, Shaped, Value
    from plugrad_native.declare import Array
    from plugrad_native.programs.calls import Operand
    from plugrad_native.programs.groups import GroupCalls
    from plugrad_native.programs.rows import RowStep

LARGE_ARENA_BYTES: Final = 1 << 18
"""The bytes of an arena from which on the caller allocates it; programs keep smaller ones."""
BLOCK_MAX_L1_BYTES: Final = 32_768
"""The maximum bytes of the L1 cache for all arrays of a block."""
MIN_BLOCK_BYTES: Final = 4096
"""The minimum bytes of one array of a block: for fewer, calls cost more than misses of the L1 cache."""
MIN_BLOCK_ELEMENTS, MAX_BLOCK_ELEMENTS = 256, 2048
"""The minimum and maximum elements of a block: a multiple of the minimum, so that results do not depend on it."""
ROWS_MAX_L2_BYTES: Final = 1 << 17
"""The maximum bytes of the L2 cache for the rows of a block."""
ASSUMED_LIVE_ROW_ARRAYS: Final = 8
"""The number of arrays of rows that are assumed to be alive at once."""
ROW_BLOCK_MULTIPLE: Final = 8
"""The number of rows of which a block has a multiple, because a reduction may add them side by side."""


class _LoopOperand(NamedTuple):
    """The location of an operand of a loop, and its step per element."""

    location: Location
    """The location of the first element."""
    step_bytes: int
    """The bytes from one element to the next; 0 for a single number."""
    is_number: bool = False

    def encode(self) -> list[int]:
        """Return the integers that encode the operand."""
        return self.location.encode(self.step_bytes)


@dataclass
class ProgramWriter:
    """Writes the loops of one graph to a program table, given the locations of values."""

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

    # --- single calls ------------------------------------------------------------------------------

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

    # --- loops --------------------------------------------------------------------------------------

    def write_loop(
        self,
        shape: Shape,
        group: GroupCalls,
        kept_values: Iterable[Value],
        first_element: int = 0,
        end_element: int | None = None,
    ) -> None:
        """Write elementwise calls that run by blocks, for the elements from `first_element` to before `end_element`.

        Values that only they read are in scratch memory, which stays in the cache; `kept_values` have locations.
        """
        before, calls, numbers, views = group
        if numbers:
            self.specs = {**self.specs, **numbers}
        count = (count_elements(shape) if end_element is None else end_element) - first_element
        made = {o.value for call in calls for o in call.operands if isinstance(o, OutputOperand)}
        inner = made - set(kept_values)
        read = dict.fromkeys(
            o.value
            for call in (*before, *calls)
            for o in call.operands
            if isinstance(o, InputOperand) and o.value not in made and o.value not in numbers
        )
        dense = {
            v
            for v in read
            if self._has_full_shape(v, shape) and (v not in views or views[v].is_contiguous)
        }
        expanded = [v for v in read if v not in dense and not self._is_scalar(v)]
        width = max(self.specs[v].dtype.itemsize for v in (*made, *read))
        uses = {
            o.value: i
            for i, call in enumerate(calls)
            for o in call.operands
            if isinstance(o, InputOperand | OutputOperand)
        }
        alive = _count_max_live_values(calls, inner, uses)
        block = _choose_block_size(width, len(expanded) + len(read) + len(made - inner) + alive)
        periods = {v: p for v in expanded if (p := self._find_period(v, shape))}
        common = lcm(MIN_BLOCK_ELEMENTS, *periods.values())
        if common <= MAX_BLOCK_ELEMENTS:
            block = max(block // common, 1) * common
        else:
            periods.clear()
        block = min(count, block)
        registers = _BlockAllocator(self, -(-block * width // ALIGNMENT_BYTES) * ALIGNMENT_BYTES)
        operands: dict[Value, _LoopOperand] = {}
        words: list[int] = []
        number = 0
        for value in read:
            view = views.get(value)
            place = self.locate(value if view is None else view.base)
            if view is not None:
                place = place.slice_bytes(view.offset_bytes, place.nbytes - view.offset_bytes)
            size = self.specs[value].dtype.itemsize
            if value in dense:
                operands[value] = _LoopOperand(place.slice_bytes(first_element * size, size), size)
            elif self._is_scalar(value):
                operands[value] = _LoopOperand(place, 0, is_number=True)
            else:
                target = registers.allocate()
                descriptor = self.table.add_constant(
                    describe_broadcast(shape, self.specs[value].shape)
                    if view is None
                    else describe_strided_operand(shape, view.shape, view.strides)
                )
                expand = [
                    *(self.table.add_function(C_EXPAND[size]), *place.encode(), *target.encode()),
                    *(COUNT_ARG, 1, POSITION_ARG, 1, first_element, *descriptor.encode()),
                ]
                operands[value] = _LoopOperand(target, 0)
                if value in periods:  # the same for all blocks
                    self.table.add_loop(block, block, 1, expand)
                    continue
                words += expand
                number += 1
        for call in before:
            made_number = next(o.value for o in call.operands if isinstance(o, OutputOperand))
            operands[made_number] = _LoopOperand(registers.allocate(), 0, is_number=True)
            self.table.add_loop(1, 1, 1, self._encode_call(call, operands))
        for index, call in enumerate(calls):
            for o in call.operands:
                if isinstance(o, OutputOperand) and o.value not in operands:
                    size = self.specs[o.value].dtype.itemsize
                    if o.value in inner:
                        operands[o.value] = _LoopOperand(registers.allocate(), 0)
                    else:
                        place = self.locations[o.value]
                        operands[o.value] = _LoopOperand(
                            place.slice_bytes(first_element * size, size), size
                        )
            words += self._encode_call(call, operands)
            number += 1
            for value in {
                o.value for o in call.operands if isinstance(o, InputOperand | OutputOperand)
            }:
                if value in inner and uses[value] == index:
                    registers.release(operands[value].location)
        self.table.add_loop(count, block, number, words)

    def write_row_loop(
        self,
        row_count: int,
        steps: Sequence[RowStep],
        kept_values: Iterable[Value],
        first_row: int = 0,
        end_row: int | None = None,
    ) -> None:
        """Write steps that are independent along the first axis, for a range of rows.

        `kept_values` are written to their locations; all others are in scratch memory. `end_row` is not included.
        """
        count = (row_count if end_row is None else end_row) - first_row
        loop = _RowLoopWriter(self, row_count, steps, frozenset(kept_values), first_row, count)
        words, number = loop.write()
        self.table.add_loop(count, loop.block, number, words)

    def _find_period(self, value: Value, shape: Shape) -> int:
        """Return the period of a value that repeats, such as a broadcast row, else 0."""
        own = self.specs[value].shape
        while own[:1] == (1,):
            own = own[1:]
        return count_elements(own) if own == shape[len(shape) - len(own) :] else 0

    def _has_full_shape(self, value: Value, shape: Shape) -> bool:
        """Return whether a value has as many elements as a shape."""
        return count_elements(self.specs[value].shape) == count_elements(shape)

    def _is_scalar(self, value: Value) -> bool:
        """Return whether a value is a single number."""
        return count_elements(self.specs[value].shape) == 1

    def _encode_call(self, call: AnyCall, operands: Mapping[Value, _LoopOperand]) -> list[int]:
        """Return the integers that encode a call in a loop, given the operand of each value."""
        if isinstance(call, CCall):
            words = [self.table.add_function(call.function)]
            for operand in call.operands:
                match operand:
                    case InputOperand(value) | OutputOperand(value):
                        words += operands[value].encode()
                    case StepOperand(value):
                        words += [NUMBER_ARG, int(not operands[value].is_number)]
                    case CountOperand():
                        words += [COUNT_ARG, 1]
                    case _:
                        words += self.encode_operand(operand)
            return words
        steps: list[int] = []
        places: list[int] = []
        for operand in call.operands:
            assert isinstance(operand, InputOperand | OutputOperand)
            found = operands[operand.value]
            steps.append(0 if found.is_number else self.specs[operand.value].dtype.itemsize)
            places += found.encode()
        table = self.table.add_constant(_get_step_array(tuple(steps)))
        return [
            *(self.table.add_function((call.ufunc, call.loop_index)), COUNT_ARG, 1, ABSENT_ARG),
            *(*table.encode(), *places),
        ]


class _RowLoopWriter:
    """Writes the calls of one loop over rows."""

    def __init__(
        self,
        writer: ProgramWriter,
        rows: int,
        steps: Sequence[RowStep],
        kept: frozenset[Value],
        first: int,
        count: int,
    ) -> None:
        self.writer, self.rows, self.steps, self.kept = writer, rows, steps, kept
        self.first = first
        self.made = {step.value for step in steps}
        self.views: dict[Value, tuple[Value, Shape]] = {}
        """What lies in the memory of another value, and in what shape."""
        widest = max(self._find_widest_row_bytes(step) for step in steps)
        operands = sum(len(self._get_row_values(step)) for step in steps)
        fitting = max(1, ROWS_MAX_L2_BYTES // (widest * min(operands, ASSUMED_LIVE_ROW_ARRAYS)))
        fitting -= fitting % ROW_BLOCK_MULTIPLE if fitting > ROW_BLOCK_MULTIPLE else 0
        self.block = min(count, fitting)
        self.registers = _BlockAllocator(
            writer, -(-max(1, self.block) * widest // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        )
        self.operands: dict[Value, Location] = {}
        """Where the rows that are being made begin."""
        self.expanded: dict[tuple[Value, Shape, Shape], Location] = {}
        self.words: list[int] = []
        self.number = 0

    def _get_row_values(self, step: RowStep) -> list[Value]:
        """Return the values of a step that have one part for each row."""
        read = [o.value for c in step.calls for o in c.operands if isinstance(o, InputOperand)]
        specs = self.writer.specs
        rows = [v for v in dict.fromkeys(read) if specs[v].shape[:1] == (self.rows,)]
        return [*rows, step.value]

    def _find_widest_row_bytes(self, step: RowStep) -> int:
        """Return the size, in bytes, of the widest row that a step reads or writes."""
        specs = self.writer.specs
        read = {o.value for c in step.calls for o in c.operands if isinstance(o, InputOperand)}
        count = self.row_elements(step.value)
        return max(
            *[self.row_bytes(v) for v in self._get_row_values(step)],
            *[count * specs[v].dtype.itemsize for v in read],
            0,
        )

    def row_bytes(self, value: Value) -> int:
        """Return the size of a row of a value in bytes."""
        return self.writer.nbytes(value) // self.rows

    def row_elements(self, value: Value) -> int:
        """Return the number of elements in a row of a value."""
        return count_elements(self.writer.specs[value].shape) // self.rows

    def write(self) -> tuple[list[int], int]:
        """Return the encoded C calls of the row loop, and the number of calls."""
        uses = self._find_last_uses()
        for index, step in enumerate(self.steps):
            value = step.value
            if step.view_of is not None:
                self._write_view(step, step.view_of)
            else:
                self.operands[value] = self._place_result(value)
                for call in step.calls:
                    self._write_call(call, value)
            self._release_scratch({v for v, last in uses.items() if last == index})
        return self.words, self.number

    def _find_last_uses(self) -> dict[Value, int]:
        """Return by value the index of the last step that reads it, directly or through a view."""
        uses: dict[Value, int] = {}
        for index in reversed(range(len(self.steps))):
            step = self.steps[index]
            read = [o.value for c in step.calls for o in c.operands if isinstance(o, InputOperand)]
            uses.setdefault(step.value, index)
            if step.view_of is not None:
                uses[step.view_of] = max(uses.get(step.view_of, index), uses[step.value])
            for value in read:
                uses.setdefault(value, index)
        return uses

    def _release_scratch(self, values: set[Value]) -> None:
        """Release the scratch memory of values after their last use."""
        for value in values & self.operands.keys():
            if value not in self.kept:
                self.registers.release(self.operands[value])
        for key in [key for key in self.expanded if key[0] in values]:
            self.registers.release(self.expanded.pop(key))

    def _place_result(self, value: Value) -> Location:
        """Return the location to which the rows of a value are written."""
        if value not in self.kept:
            return self.registers.allocate()
        nbytes = self.row_bytes(value)
        return self.writer.locations[value].slice_bytes(self.first * nbytes, nbytes)

    def _get_row_stride(self, value: Value) -> int:
        """Return the bytes from one row of a value to the next; 0 for scratch memory."""
        return self.row_bytes(value) if value in self.kept or value not in self.made else 0

    def _write_view(self, step: RowStep, source: Value) -> None:
        """Record a step that views rows of a source, or write it if the elements are not in memory in this shape."""
        root, shape = self.views.get(source, (source, self.writer.specs[source].shape))
        wanted = self.writer.specs[step.value].shape
        if step.is_repeated:
            self.views[step.value] = root, shape
        elif shape == self.writer.specs[source].shape:
            self.views[step.value] = root, wanted
        else:  # another shape of repeated elements
            self.operands[step.value] = target = self._place_result(step.value)
            like = self.writer.specs[source].shape
            self._write_broadcast(root, shape, like, target, self._get_row_stride(step.value))
            return
        if step.value in self.kept:
            place = self._place_result(step.value)
            root, shape = self.views.pop(step.value, (step.value, wanted))
            self._write_broadcast(root, shape, wanted, place, self.row_bytes(step.value))
            self.operands[step.value] = place

    def _locate_rows(self, value: Value) -> Location:
        """Return the location of the rows of a value that the loop computes or reads."""
        if value in self.operands:
            return self.operands[value]
        nbytes = self.row_bytes(value)
        return self.writer.locate(value).slice_bytes(self.first * nbytes, nbytes)

    def _write_broadcast(
        self, value: Value, shape: Shape, result_shape: Shape, target: Location, step_bytes: int = 0
    ) -> None:
        """Write the rows of a value, reshaped and broadcast to a larger shape, to the target's location."""
        writer = self.writer
        size = writer.specs[value].dtype.itemsize
        factor = count_elements(result_shape) // self.rows
        descriptor = writer.table.add_constant(describe_broadcast(result_shape, shape)).encode()
        if value in self.made:
            source = self._locate_rows(value).encode(self._get_row_stride(value))
            position = [NUMBER_ARG, 0]
        else:
            source = writer.locate(value).encode()
            position = [POSITION_ARG, factor, self.first * factor]
        self.words += [writer.table.add_function(C_EXPAND[size]), *source]
        self.words += [*target.encode(step_bytes), COUNT_ARG, factor, *position, *descriptor]
        self.number += 1

    def _is_scalar(self, value: Value) -> bool:
        """Return whether a value is a single number for all rows."""
        root, shape = self.views.get(value, (value, self.writer.specs[value].shape))
        return root not in self.made and count_elements(shape) == 1

    def _encode_row_operand(
        self, value: Value, result: Value, *, is_array: bool = False
    ) -> tuple[list[int], bool]:
        """Return the encoded location of a value broadcast to a result, and whether it is one number for all rows."""
        writer = self.writer
        root, shape = self.views.get(value, (value, writer.specs[value].shape))
        wanted = writer.specs[result].shape
        if not is_array and self._is_scalar(value):
            return writer.locate(root).encode(), True
        if count_elements(shape) == count_elements(wanted):
            return self._locate_rows(root).encode(self._get_row_stride(root)), False
        key = root, shape, wanted
        target = self.expanded.get(key)
        if target is None:
            target = self.expanded[key] = self.registers.allocate()
            self._write_broadcast(root, shape, wanted, target)
        return target.encode(), False

    def _encode_reduction_source(self, value: Value) -> list[int]:
        """Return the encoded location of a value's rows, which a reduction reads."""
        root, shape = self.views.get(value, (value, self.writer.specs[value].shape))
        wanted = self.writer.specs[value].shape
        if count_elements(shape) == count_elements(wanted):
            return self._locate_rows(root).encode(self._get_row_stride(root))
        target = self.registers.allocate()
        self._write_broadcast(root, shape, wanted, target)
        return target.encode()

    def _write_call(self, call: AnyCall, value: Value) -> None:
        """Write a C call that computes a value row by row."""
        writer = self.writer
        made = self.operands[value].encode(self._get_row_stride(value))
        if isinstance(call, UfuncCall):
            steps: list[int] = []
            places: list[int] = []
            for operand in call.operands:
                assert isinstance(operand, InputOperand | OutputOperand)
                found, is_number = (
                    (made, False)
                    if operand.value == value
                    else self._encode_row_operand(operand.value, value)
                )
                places += found
                steps.append(0 if is_number else writer.specs[operand.value].dtype.itemsize)
            table = writer.table.add_constant(_get_step_array(tuple(steps))).encode()
            head = [
                writer.table.add_function((call.ufunc, call.loop_index)),
                COUNT_ARG,
                self.row_elements(value),
                ABSENT_ARG,
            ]
            self.words += [*head, *table, *places]
            self.number += 1
            return
        is_elementwise = any(isinstance(o, CountOperand) and not o.factor for o in call.operands)
        stepping = [o.value for o in call.operands if isinstance(o, StepOperand)]
        # Functions read numbers for steps of 0, but not for all of them.
        numbers = {v for v in stepping if self._is_scalar(v)}
        if len(numbers) == len({*stepping}):
            numbers.clear()
        words: list[int] = []
        for operand in call.operands:
            match operand:
                case OutputOperand():
                    words += made
                case InputOperand(read) if is_elementwise:
                    words += self._encode_row_operand(read, value, is_array=read not in numbers)[0]
                case InputOperand(read):
                    words += self._encode_reduction_source(read)
                case StepOperand(read):
                    words += [NUMBER_ARG, int(read not in numbers)]
                case CountOperand(factor):
                    words += [COUNT_ARG, factor or self.row_elements(value)]
                case _:
                    words += writer.encode_operand(operand)
        self.words += [writer.table.add_function(call.function), *words]
        self.number += 1


class _BlockAllocator:
    """Allocates scratch memory for the blocks of a loop, and reuses it after the last use."""

    def __init__(self, writer: ProgramWriter, nbytes: int) -> None:
        self.writer = writer
        self.nbytes = nbytes
        self.free_locations: list[Location] = []
        self.count = 0

    def allocate(self) -> Location:
        """Return the location of a free block, or of a new one."""
        if self.free_locations:
            return self.free_locations.pop()
        self.count += 1
        return self.writer.reserve((self.count - 1) * self.nbytes, self.nbytes)

    def release(self, location: Location) -> None:
        self.free_locations.append(location)


_CACHED_STEP_ARRAYS: dict[tuple[int, ...], Array] = {}
"""By the steps of a NumPy loop, as a tuple: the same steps as an array."""


def _get_step_array(steps: tuple[int, ...]) -> Array:
    """Return the strides of a NumPy loop's operands, in bytes, as an array, which is cached."""
    return _CACHED_STEP_ARRAYS.setdefault(steps, np.array(steps, np.int64))


def _count_max_live_values(
    calls: Sequence[AnyCall], loop_values: Set[Value], last_uses: Mapping[Value, int]
) -> int:
    """Return the largest number of `loop_values` alive at once, given the last call that uses each."""
    alive: set[Value] = set()
    most = 0
    for index, call in enumerate(calls):
        values = {o.value for o in call.operands if isinstance(o, InputOperand | OutputOperand)}
        found = values & loop_values
        alive |= found
        most = max(most, len(alive))
        alive -= {value for value in found if last_uses[value] == index}
    return most


def _choose_block_size(item_size: int, live_value_count: int) -> int:
    """Return the number of elements per block for which all live values fit the L1 cache."""
    fitting = max(BLOCK_MAX_L1_BYTES // max(1, live_value_count), MIN_BLOCK_BYTES) // item_size
    fitting -= fitting % MIN_BLOCK_ELEMENTS
    return min(max(fitting, MIN_BLOCK_ELEMENTS), MAX_BLOCK_ELEMENTS)
