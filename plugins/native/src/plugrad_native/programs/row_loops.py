"""Loops over rows in program tables: steps that are independent along the first axis, written by blocks of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from plugrad.extend import count_elements
from plugrad_native.declare import describe_broadcast
from plugrad_native.programs.blocks import BlockAllocator, get_step_array
from plugrad_native.programs.calls import (
    AnyCall,
    CountOperand,
    InputOperand,
    OutputOperand,
    StepOperand,
    UfuncCall,
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
    from collections.abc import Iterable, Sequence

    from plugrad.extend import Shape, Value
    from plugrad_native.programs.rows import RowStep
    from plugrad_native.programs.writer import ProgramWriter

ROWS_MAX_L2_BYTES: Final = 1 << 17
"""The maximum bytes of the L2 cache for the rows of a block."""
ASSUMED_LIVE_ROW_ARRAYS: Final = 8
"""The number of arrays of rows that are assumed to be alive at once."""
ROW_BLOCK_MULTIPLE: Final = 8
"""The number of rows of which a block has a multiple, because a reduction may add them side by side."""


def write_row_loop(
    writer: ProgramWriter,
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
    loop = _RowLoopWriter(writer, row_count, steps, frozenset(kept_values), first_row, count)
    words, number = loop.write()
    writer.table.add_loop(count, loop.block, number, words)


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
        self.registers = BlockAllocator(
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
        """Return the encoded location of a value broadcast to a result, and whether it is one number for all rows.

        With `is_array`, a number is broadcast to an array, too.
        """
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
            table = writer.table.add_constant(get_step_array(tuple(steps))).encode()
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
