"""Program tables, described in ``extension/program.h``: integers that encode loops, calls and their arguments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from plugrad_native.declare import as_contiguous
from plugrad_native.variants import current_variant

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from plugrad_native.declare import Array

LOOP_NODE, REPEAT_NODE, CHOOSE_NODE, WHILE_NODE = range(4)
"""The codes of a program's nodes: a loop over blocks, a fixed number of repetitions, a choice, and a while loop."""
NUMBER_ARG, COUNT_ARG, POSITION_ARG, ABSENT_ARG, PLACE_ARG, LIST_ARG = range(6)
"""The codes of a call's arguments: a number, a count or position of items, nothing, an address, or a list."""
ALIGNMENT_BYTES: Final = 64
"""The alignment of arrays in the arena."""


class Location(NamedTuple):
    """The memory of an array: its buffer, its offset and size in bytes, and the bytes that it moves per iteration."""

    slot: int
    """The index of the buffer: the arena is 0, then come inputs, outputs and constants."""
    offset: int
    """The bytes before the array in the buffer."""
    nbytes: int
    """The size of the array in bytes."""
    bytes_per_iteration: int = 0
    """The bytes by which the location moves in each iteration of a loop."""

    def slice_bytes(self, offset: int, nbytes: int) -> Location:
        """Return the location of `nbytes` bytes of the array, after an offset in bytes."""
        return self._replace(offset=self.offset + offset, nbytes=nbytes)

    def encode(self, step_bytes: int = 0) -> list[int]:
        """Return the integers that encode the location, which moves by `step_bytes` for each item of a loop."""
        return [
            PLACE_ARG,
            self.slot,
            self.offset,
            step_bytes,
            self.bytes_per_iteration,
            self.nbytes,
        ]


class EncodedNodes(NamedTuple):
    """Encoded nodes of a program, such as loops: their number, and the integers that encode them."""

    node_count: int
    """The number of nodes."""
    words: list[int]
    """The integers that encode them."""


@dataclass
class ProgramTable:
    """A program under construction: its integer code, functions and constants."""

    inputs: Sequence[int]
    """The bytes of each input."""
    outputs: Sequence[int]
    """The bytes of each output."""
    arena_bytes: int = 0
    """The size of the scratch memory in bytes."""

    def __post_init__(self) -> None:
        """Begin an empty program."""
        self._nodes = EncodedNodes(0, [])
        self._functions: dict[Any, int] = {}
        self._constants: list[Array] = []
        self._slots: dict[int, int] = {}
        self._kept: list[Array] = []

    def make_function(self, *, is_indivisible: bool = False) -> Callable[..., None]:
        """Return the program as a function of inputs, outputs, and scratch memory unless the program has its own.

        If it is indivisible, no other thread of Python and no interrupt comes before it has ended.
        """
        sizes = [self.arena_bytes, len(self.inputs), len(self.outputs), *self.inputs, *self.outputs]
        return current_variant().make_program(
            np.array(self._nodes.words, np.int64),
            np.array(sizes, np.int64),
            tuple(self._functions),
            tuple(self._constants),
            np.ufunc,
            *([None] if is_indivisible else []),
        )

    # --- what calls name --------------------------------------------------------------------------

    def add_constant(self, array: Array) -> Location:
        """Return the location of a constant array."""
        slot = self._slots.get(id(array))
        if slot is None:
            slot = self._slots[id(array)] = len(self._constants)
            self._constants.append(as_contiguous(np.asarray(array)))
            self._kept.append(array)  # so that no other one gets its identity
        first = 1 + len(self.inputs) + len(self.outputs)
        return Location(first + slot, 0, self._constants[slot].nbytes)

    def add_function(self, key: Any) -> int:
        """Return the index of a function, given by `key`: a C function's name, or a ufunc and the index of its loop."""
        return self._functions.setdefault(key, len(self._functions))

    def reserve(self, offset: int, nbytes: int) -> Location:
        """Return the location of `nbytes` bytes at an offset in the arena, the program's scratch memory."""
        self.arena_bytes = max(
            self.arena_bytes, -(-(offset + nbytes) // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        )
        return Location(0, offset, nbytes)

    # --- nodes ------------------------------------------------------------------------------------

    def add_loop(
        self, item_count: int, block_size: int, call_count: int, call_words: Sequence[int]
    ) -> None:
        """Add a loop over blocks of `block_size` items, given the number and the encoding of its calls."""
        self._add_node([LOOP_NODE, item_count, block_size, call_count, *call_words])

    def add_repeat(self, repetitions: int, nodes: EncodedNodes) -> None:
        """Add a loop that runs encoded nodes a fixed number of times."""
        if nodes.node_count:
            self._add_node([REPEAT_NODE, repetitions, nodes.node_count, *nodes.words])

    def add_conditional(
        self, flag_location: Location, true_nodes: EncodedNodes, false_nodes: EncodedNodes
    ) -> None:
        """Add a node that runs one of two lists of nodes, depending on a flag in memory."""
        self._add_node(
            [
                CHOOSE_NODE,
                *flag_location.encode(),
                true_nodes.node_count,
                false_nodes.node_count,
                *true_nodes.words,
                *false_nodes.words,
            ]
        )

    def add_while(
        self, condition: EncodedNodes, flag_location: Location, body: EncodedNodes
    ) -> None:
        """Add a loop that runs `condition`, which sets a flag in memory, and while the flag is true, `body`."""
        self._add_node(
            [
                WHILE_NODE,
                condition.node_count,
                body.node_count,
                *condition.words,
                *flag_location.encode(),
                *body.words,
            ]
        )

    def collect_nodes(self, write_nodes: Callable[[], None]) -> EncodedNodes:
        """Return the nodes that the function `write_nodes` would add, without adding them."""
        outer, self._nodes = self._nodes, EncodedNodes(0, [])
        try:
            write_nodes()
            return self._nodes
        finally:
            self._nodes = outer

    def _add_node(self, words: Sequence[int]) -> None:
        """Add a node, given the integers that encode it."""
        self._nodes.words.extend(words)
        self._nodes = self._nodes._replace(node_count=self._nodes.node_count + 1)
