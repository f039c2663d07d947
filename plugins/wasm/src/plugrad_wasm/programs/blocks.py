"""Groups of elementwise calls that run block by block, so that their intermediate values stay in the L1 cache."""

from __future__ import annotations

from collections import Counter
from math import lcm
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from plugrad.extend import count_elements
from plugrad_wasm.declare import PART_MULTIPLE_ELEMENTS
from plugrad_wasm.memory import ALIGNMENT_BYTES, round_up_to_size_class
from plugrad_wasm.programs.recorder import (
    AdvancingArgument,
    BlockLength,
    BlockOffset,
    BlockwiseCalls,
    ExportCall,
    ScratchOffset,
    ThreadedChains,
)
from plugrad_wasm.strides import broadcast_strides, merge_axes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from plugrad.extend import Shape, Shaped
    from plugrad_wasm.programs.recorder import (
        BlockArgument,
        BlockCall,
        CallArgument,
        RecordedCall,
        RecordingMemory,
    )

ELEMENTWISE_MODULE: Final = "elementwise"
"""The name of the module with the elementwise exports."""
BROADCAST_SUFFIX: Final = "_broadcast"
"""The end of the names of exports that broadcast."""
L1_CACHE_BYTES: Final = 32_768
"""The maximum bytes of the L1 cache for the blocks of a loop."""
MIN_BLOCK_ELEMENTS, MAX_BLOCK_ELEMENTS = 512, 2048
"""The minimum and maximum elements of a block; with 256, calls would take a tenth of the time."""
ITEM_SIZES_BYTES: Final = (1, 2, 4, 8, 16)
"""The bytes of an element for which there are exports that move elements."""
BLOCK_LENGTH: Final = BlockLength()
"""The argument that is the number of elements in the current block."""


class ElementwiseCall(NamedTuple):
    """A call of an export that computes elements independently."""

    export: str
    """The name of the export."""
    operands: list[BlockOffset]
    """The inputs, followed by the result."""
    trailing_arguments: tuple[CallArgument, ...]
    """The arguments after the number of elements."""


def as_elementwise_calls(
    recorded_calls: Sequence[RecordedCall], program_functions: Mapping[str, Any]
) -> list[ElementwiseCall] | None:
    """Return the recorded calls of an implementation in elementwise form, or None if one cannot run by blocks."""
    calls = [_as_elementwise_call(call, program_functions) for call in recorded_calls]
    found = [call for call in calls if call is not None]
    return found if found and len(found) == len(calls) else None


def _as_elementwise_call(
    call: RecordedCall, program_functions: Mapping[str, Any]
) -> ElementwiseCall | None:
    """Return a recorded call in elementwise form, or None if it cannot run by blocks."""
    match call:
        case ExportCall(export, arguments, _):
            pass
        case ThreadedChains(
            export, chains, ()
        ):  # in parts, the first of which begins with the arrays
            arguments = chains[0][0]
        case _:
            return None
    places = _split_leading_addresses(arguments)
    rest = arguments[len(places) :]
    if program_functions[export].module != ELEMENTWISE_MODULE or any(
        isinstance(x, BlockOffset) for x in rest
    ):
        return None
    if export.endswith(BROADCAST_SUFFIX):
        return ElementwiseCall(export.removesuffix(BROADCAST_SUFFIX), places, (1, 1))
    moves_only = export.startswith(("copy_", "expand_"))
    return None if moves_only or not rest else ElementwiseCall(export, places, rest[1:])


def _split_leading_addresses(arguments: Sequence[CallArgument]) -> list[BlockOffset]:
    """Return the addresses at the start of a call's arguments."""
    places: list[BlockOffset] = []
    for argument in arguments:
        if not isinstance(argument, BlockOffset):
            break
        places.append(argument)
    return places


class GroupOperands(NamedTuple):
    """The inputs and outputs of a group of calls."""

    shape: Shape
    """The shape of all results."""
    specs: Mapping[BlockOffset, Shaped]
    """The shapes and dtypes of the values of the steps, by the locations of their arrays."""
    blocks_needed_later: frozenset[int]
    """The numbers of the memory blocks that are read after the group."""
    first_block: int
    """The number of the first memory block that the group makes."""


def build_blockwise_calls(
    calls: Sequence[ElementwiseCall], operands: GroupOperands, recording_memory: RecordingMemory
) -> BlockwiseCalls:
    """Return the calls of a group as one recorded call that runs them block by block on the operands."""
    return _BlockwiseGroup(calls, operands, recording_memory).build_calls()


def _join_steps_and_products(
    calls: Sequence[ElementwiseCall], is_internal: Callable[[BlockOffset], bool]
) -> list[ElementwiseCall]:
    """Return the calls, with each call of `step` joined to the multiplication that alone reads its result."""
    readers = Counter(place for call in calls for place in call.operands[:-1])
    steps: dict[BlockOffset, ElementwiseCall] = {}  # whose input no later call has overwritten
    joined: list[ElementwiseCall] = []
    for call in calls:
        *inputs, result = call.operands
        found = [steps[place] for place in inputs if place in steps]
        if call.export == "multiply_float32" and call.trailing_arguments == (1, 1) and found:
            step = found[0]
            (factor,) = (place for place in inputs if place != step.operands[-1])
            joined.remove(step)
            operands = [step.operands[0], factor, result]
            call = ElementwiseCall("multiply_by_step_float32", operands, step.trailing_arguments)
        joined.append(call)
        steps = {place: step for place, step in steps.items() if step.operands[0] != result}
        if call.export == "step_float32" and readers[result] == 1 and is_internal(result):
            steps[result] = call
    return joined


class _BlockwiseGroup:
    """Assigns each operand of a group an address that advances block by block, or a register in scratch memory."""

    def __init__(
        self,
        calls: Sequence[ElementwiseCall],
        operands: GroupOperands,
        recording_memory: RecordingMemory,
    ) -> None:
        self.operands, self.memory = operands, recording_memory
        self.calls = _join_steps_and_products(calls, self._is_internal)
        self.count = count_elements(operands.shape)
        self.places = [*dict.fromkeys(place for call in calls for place in call.operands)]
        self.sizes = {place: self._find_itemsize(place) for place in self.places}
        self.expanded = [p for p in self.places if self._is_expanded(p)]
        self.periods = {p: n for p in self.expanded if (n := self._find_period(p))}

    def build_calls(self) -> BlockwiseCalls:
        """Return the group as one recorded call by blocks, in which broadcast operands are expanded first."""
        registers = self._assign_registers()
        count = max(registers.values(), default=-1) + 1
        width = max(self.sizes.values())
        moving = [p for p in self.places if p not in registers and self._count_elements(p) > 1]
        block = self._choose_block_length(width * (count + len(moving)))
        nbytes = -(-block * width // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        found: dict[BlockOffset, BlockArgument] = {
            p: ScratchOffset(registers[p] * nbytes) if p in registers else self._make_argument(p)
            for p in self.places
        }
        once: list[BlockCall] = []
        each: list[BlockCall] = []
        for place in self.expanded:
            (once if place in self.periods else each).append(
                self._build_expand_call(place, found[place])
            )
        for export, places, rest in self.calls:
            each.append((export, (*(found[p] for p in places), BLOCK_LENGTH, *rest)))
        return BlockwiseCalls(
            ELEMENTWISE_MODULE, self.count, block, tuple(once), tuple(each), count * nbytes
        )

    def _assign_registers(self) -> dict[BlockOffset, int]:
        """Return the number of the register in scratch memory by value; values share a register one after another."""
        registers = {place: number for number, place in enumerate(self.expanded)}
        free: list[int] = []
        count = len(registers)
        last = {
            p: i for i, call in enumerate(self.calls) for p in call.operands if self._is_internal(p)
        }
        for index, call in enumerate(self.calls):
            for place in dict.fromkeys(call.operands):
                if place in last and place not in registers:
                    if not free:
                        free.append(count)
                        count += 1
                    registers[place] = free.pop()
            free += [registers[p] for p in dict.fromkeys(call.operands) if last.get(p) == index]
        return registers

    def _choose_block_length(self, bytes_per_element: int) -> int:
        """Return the number of elements per block, given the bytes of one element in all registers.

        Operands that are the same for all blocks are so only if a block has them a whole number of times.
        """
        fitting = min(
            max(L1_CACHE_BYTES // bytes_per_element, MIN_BLOCK_ELEMENTS), MAX_BLOCK_ELEMENTS
        )
        common = lcm(PART_MULTIPLE_ELEMENTS, *self.periods.values())
        if common > MAX_BLOCK_ELEMENTS:
            self.periods.clear()
            common = PART_MULTIPLE_ELEMENTS
        return min(self.count, max(fitting // common, 1) * common)

    def _is_internal(self, operand: BlockOffset) -> bool:
        """Return whether a value is made by the group and read only inside it."""
        block = operand.block_number
        return block >= self.operands.first_block and block not in self.operands.blocks_needed_later

    def _find_itemsize(self, operand: BlockOffset) -> int:
        """Return the bytes of an operand's element, derived from its memory block if no step knows its dtype."""
        spec = self.operands.specs.get(operand)
        if spec is not None:
            return spec.dtype.itemsize
        capacity = self.memory.capacities[operand.block_number]
        return next(
            n
            for n in reversed(ITEM_SIZES_BYTES)
            if round_up_to_size_class(n * self.count) <= capacity
        )

    def _count_elements(self, operand: BlockOffset) -> int:
        """Return the number of elements of an operand."""
        spec = self.operands.specs.get(operand)
        return self.count if spec is None else count_elements(spec.shape)

    def _is_expanded(self, operand: BlockOffset) -> bool:
        """Return whether an operand is broadcast, so that its elements are written out for each block."""
        return self._count_elements(operand) not in (1, self.count)

    def _make_argument(self, operand: BlockOffset) -> BlockArgument:
        """Return an operand's address as an argument, which advances with the blocks unless it is a single number."""
        is_number = self._count_elements(operand) == 1
        return operand if is_number else AdvancingArgument(operand, self.sizes[operand])

    def _find_period(self, operand: BlockOffset) -> int:
        """Return the number of elements after which a broadcast operand repeats, such as a row, or 0."""
        shape, own = self.operands.shape, self.operands.specs[operand].shape
        while own[:1] == (1,):
            own = own[1:]
        return count_elements(own) if own == shape[len(shape) - len(own) :] else 0

    def _build_expand_call(self, operand: BlockOffset, target: BlockArgument) -> BlockCall:
        """Return the call that writes a block of a broadcast operand to `target`."""
        shape = self.operands.shape
        strides = broadcast_strides(self.operands.specs[operand].shape, shape)
        axes = merge_axes(shape, strides)
        descriptor = self.memory.store.descriptor((len(axes[0]), *axes[0], *axes[1]))
        arguments = (operand, target, BLOCK_LENGTH, AdvancingArgument(0, 1), descriptor.address)
        return f"expand_{self.sizes[operand]}", arguments
