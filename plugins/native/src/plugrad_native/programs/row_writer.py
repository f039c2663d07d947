"""Loops over rows: calls that are independent along the first axis, for some rows at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from plugrad.extend import count_elements
from plugrad_native.declare import broadcast_descriptor
from plugrad_native.programs.calls import AnyCall, Count, Read, Step, UfuncCall, Written
from plugrad_native.programs.lowering import EXPAND
from plugrad_native.programs.writer import (
    ABSENT,
    ALIGNMENT,
    COUNT,
    NUMBER,
    POSITION,
    Place,
    Registers,
    Writer,
    place_words,
    step_table,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from plugrad.extend import Shape, Value

ROWS_BYTES: Final = 1 << 17
"""What the rows of a loop may take of the second cache."""
MOST_LIVE_ROWS: Final = 8
"""How many arrays of rows are taken to be alive at once."""
SIDE_BY_SIDE: Final = 8
"""The rows that a reduction may add side by side, of which a block has a multiple."""


class RowStep(NamedTuple):
    """A step of a loop over rows: calls of C that make a value, or a view of another one."""

    value: Value
    calls: Sequence[AnyCall]
    view_of: Value | None = None
    is_repeated: bool = False
    """Whether the view repeats elements of rows, instead of giving them another shape."""


def write_rows(
    writer: Writer,
    rows: int,
    steps: Sequence[RowStep],
    kept: Iterable[Value],
    first: int = 0,
    last: int | None = None,
) -> None:
    """Write calls that are independent along the first axis, for some rows at a time.

    Args:
        writer: collects the loops of the program.
        rows: the size of that axis.
        steps: what is computed, in its order.
        kept: the values that lie at their places; all others are made in scratch memory.
        first: the first row.
        last: the row after the last one.
    """
    count = (rows if last is None else last) - first
    loop = _Rows(writer, rows, steps, frozenset(kept), first, count)
    words, number = loop.write()
    writer.add_loop(count, loop.block, number, words)


class _Rows:
    """Writes the calls of one loop over rows."""

    def __init__(
        self,
        writer: Writer,
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
        widest = max(self._widest(step) for step in steps)
        operands = sum(len(self._values(step)) for step in steps)
        fitting = max(1, ROWS_BYTES // (widest * min(operands, MOST_LIVE_ROWS)))
        fitting -= fitting % SIDE_BY_SIDE if fitting > SIDE_BY_SIDE else 0
        self.block = min(count, fitting)
        self.registers = Registers(writer, -(-max(1, self.block) * widest // ALIGNMENT) * ALIGNMENT)
        self.operands: dict[Value, Place] = {}
        """Where the rows that are being made begin."""
        self.expanded: dict[tuple[Value, Shape, Shape], Place] = {}
        self.words: list[int] = []
        self.number = 0

    def _values(self, step: RowStep) -> list[Value]:
        """Return the values of a step that have the rows of the loop."""
        read = [o.value for c in step.calls for o in c.operands if isinstance(o, Read)]
        specs = self.writer.specs
        rows = [v for v in dict.fromkeys(read) if specs[v].shape[:1] == (self.rows,)]
        return [*rows, step.value]

    def _widest(self, step: RowStep) -> int:
        """Return the bytes of the widest row that a step reads or makes; it may read the shape of its result."""
        specs = self.writer.specs
        read = {o.value for c in step.calls for o in c.operands if isinstance(o, Read)}
        count = self.row_count(step.value)
        return max(
            *[self.row_bytes(v) for v in self._values(step)],
            *[count * specs[v].dtype.itemsize for v in read],
            0,
        )

    def row_bytes(self, value: Value) -> int:
        """Return the bytes of a row of a value."""
        return self.writer.nbytes(value) // self.rows

    def row_count(self, value: Value) -> int:
        """Return the elements of a row of a value."""
        return count_elements(self.writer.specs[value].shape) // self.rows

    def write(self) -> tuple[list[int], int]:
        """Return the words of all calls, and their number."""
        uses = self._last_uses()
        for index, step in enumerate(self.steps):
            value = step.value
            if step.view_of is not None:
                self._view(step, step.view_of)
            else:
                self.operands[value] = self._target(value)
                for call in step.calls:
                    self._call(call, value)
            self._release({v for v, last in uses.items() if last == index})
        return self.words, self.number

    def _last_uses(self) -> dict[Value, int]:
        """Return the last step that reads each value, be it through a view."""
        uses: dict[Value, int] = {}
        for index in reversed(range(len(self.steps))):
            step = self.steps[index]
            read = [o.value for c in step.calls for o in c.operands if isinstance(o, Read)]
            uses.setdefault(step.value, index)
            if step.view_of is not None:
                uses[step.view_of] = max(uses.get(step.view_of, index), uses[step.value])
            for value in read:
                uses.setdefault(value, index)
        return uses

    def _release(self, values: set[Value]) -> None:
        """Give back the scratch memory of values that are not needed any more."""
        for value in values & self.operands.keys():
            if value not in self.kept:
                self.registers.give_back(self.operands[value])
        for key in [key for key in self.expanded if key[0] in values]:
            self.registers.give_back(self.expanded.pop(key))

    def _target(self, value: Value) -> Place:
        """Return where the rows of a value are written."""
        if value not in self.kept:
            return self.registers.take()
        nbytes = self.row_bytes(value)
        return self.writer.places[value].part(self.first * nbytes, nbytes)

    def _step(self, value: Value) -> int:
        """Return how far the rows of a value move for each one; those in scratch memory stay."""
        return self.row_bytes(value) if value in self.kept or value not in self.made else 0

    def _view(self, step: RowStep, source: Value) -> None:
        root, shape = self.views.get(source, (source, self.writer.specs[source].shape))
        wanted = self.writer.specs[step.value].shape
        if step.is_repeated:
            self.views[step.value] = root, shape
        elif shape == self.writer.specs[source].shape:
            self.views[step.value] = root, wanted
        else:  # another shape of repeated elements
            self.operands[step.value] = target = self._target(step.value)
            like = self.writer.specs[source].shape
            self._expand(root, shape, like, target, self._step(step.value))
            return
        if step.value in self.kept:
            place = self._target(step.value)
            root, shape = self.views.pop(step.value, (step.value, wanted))
            self._expand(root, shape, wanted, place, self.row_bytes(step.value))
            self.operands[step.value] = place

    def _rows_of(self, value: Value) -> Place:
        """Return where the rows of a value begin that is made here, or given."""
        if value in self.operands:
            return self.operands[value]
        nbytes = self.row_bytes(value)
        return self.writer.place(value).part(self.first * nbytes, nbytes)

    def _expand(
        self, root: Value, shape: Shape, wanted: Shape, target: Place, step: int = 0
    ) -> None:
        """Write the rows of a value, seen in a shape, as those of a larger shape."""
        writer = self.writer
        size = writer.specs[root].dtype.itemsize
        factor = count_elements(wanted) // self.rows
        descriptor = place_words(writer.constant(broadcast_descriptor(wanted, shape)))
        if root in self.made:
            source, position = place_words(self._rows_of(root), self._step(root)), [NUMBER, 0]
        else:
            source = place_words(writer.place(root))
            position = [POSITION, factor, self.first * factor]
        self.words += [writer.function(EXPAND[size]), *source, *place_words(target, step)]
        self.words += [COUNT, factor, *position, *descriptor]
        self.number += 1

    def _operand(self, value: Value, like: Value) -> tuple[list[int], bool]:
        """Return the place of an operand in the shape of a result, and whether it is one number for all rows."""
        writer = self.writer
        root, shape = self.views.get(value, (value, writer.specs[value].shape))
        wanted = writer.specs[like].shape
        if root not in self.made and count_elements(shape) == 1:
            return place_words(writer.place(root)), True
        if count_elements(shape) == count_elements(wanted):
            return place_words(self._rows_of(root), self._step(root)), False
        key = root, shape, wanted
        target = self.expanded.get(key)
        if target is None:
            target = self.expanded[key] = self.registers.take()
            self._expand(root, shape, wanted, target)
        return place_words(target), False

    def _whole(self, value: Value) -> list[int]:
        """Return the place of the rows that a reduction reads."""
        root, shape = self.views.get(value, (value, self.writer.specs[value].shape))
        wanted = self.writer.specs[value].shape
        if count_elements(shape) == count_elements(wanted):
            return place_words(self._rows_of(root), self._step(root))
        target = self.registers.take()
        self._expand(root, shape, wanted, target)
        return place_words(target)

    def _call(self, call: AnyCall, value: Value) -> None:
        """Write a call that makes a value."""
        writer = self.writer
        made = place_words(self.operands[value], self._step(value))
        if isinstance(call, UfuncCall):
            steps: list[int] = []
            places: list[int] = []
            for operand in call.operands:
                assert isinstance(operand, Read | Written)
                found, is_number = (
                    (made, False) if operand.value == value else self._operand(operand.value, value)
                )
                places += found
                steps.append(0 if is_number else writer.specs[operand.value].dtype.itemsize)
            table = place_words(writer.constant(step_table(tuple(steps))))
            head = [writer.function((call.ufunc, call.loop)), COUNT, self.row_count(value), ABSENT]
            self.words += [*head, *table, *places]
            self.number += 1
            return
        is_elementwise = any(isinstance(o, Count) and not o.factor for o in call.operands)
        words: list[int] = []
        for operand in call.operands:
            match operand:
                case Written():
                    words += made
                case Read(read) if is_elementwise:
                    words += self._operand(read, value)[0]
                case Read(read):
                    words += self._whole(read)
                case Step(read):
                    words += [NUMBER, int(not self._operand(read, value)[1])]
                case Count(factor):
                    words += [COUNT, factor or self.row_count(value)]
                case _:
                    words += writer.words_of(operand)
        self.words += [writer.function(call.function), *words]
        self.number += 1
