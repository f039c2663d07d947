"""The selection of a graph's steps that C can run, and their groups."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from plugrad.extend import (
    Call,
    Cond,
    Fused,
    Scan,
    While,
    count_elements,
    find_groups,
    fuse_epilogues,
    fuse_steps,
    get_kernel,
)
from plugrad_cpu.extend import thread_pool
from plugrad_native.declare import find_numpy_implementation, table
from plugrad_native.programs.broadcasts import bypass_broadcasts
from plugrad_native.programs.control import has_supported_sizes
from plugrad_native.programs.delays import find_delayed_results
from plugrad_native.programs.elementwise import find_ufunc_of_pack, lower_elementwise
from plugrad_native.programs.epilogues import can_join_epilogue, find_accumulators
from plugrad_native.programs.groups import can_join_loop, is_repeated_number
from plugrad_native.programs.images import (
    fits_in_image_group,
    is_image_group,
    lower_pooling_gradient,
)
from plugrad_native.programs.lookups import find_unproven_lookups
from plugrad_native.programs.lowering import (
    SLICE_OR_JOIN_KERNELS,
    VIEW_KERNELS,
    find_transposed_values,
    lower_call,
)
from plugrad_native.programs.products import match_factor_layouts, transpose_before_loops
from plugrad_native.programs.rows import fits_in_row_group, is_row_view, lower_rows
from plugrad_native.programs.views import absorb_slices, find_noncontiguous_views

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plugrad.extend import Graph, Group, Shape, Step, Value

SHARED_CALL_MIN_ELEMENTS: Final = 1 << 18
"""The minimum elements of a call for which threads that share it take less time than a program."""


class CompiledStepSelector:
    """Decides which steps C can run: calls whose implementation is this pack's or the backend's."""

    def __init__(self, graph: Graph, *, is_loop: bool = False, carry_count: int = 0) -> None:
        self.is_loop, self.carry_count = is_loop, carry_count
        self.backend = graph.backend.name
        self.specs = graph.specs
        self.known: dict[str, bool] = {}
        self.delayed: frozenset[Value] = frozenset()
        self.max_work = SHARED_CALL_MIN_ELEMENTS if thread_pool.count > 1 else None
        """The elements from which on Python gives a call to several threads."""
        self.gapped: frozenset[Value] = frozenset() if is_loop else find_noncontiguous_views(graph)
        """The values that no program takes."""
        self.transposed_values = find_transposed_values(graph, SHARED_CALL_MIN_ELEMENTS)
        """The values whose sums are added in the order of memory, whatever the number of threads."""
        self.unproven = find_unproven_lookups(graph)
        """The results of lookups at positions that may be out of range, which must be an error."""
        self.loops: set[int] = set()
        """The identities of the loops and choices that C runs, whose bodies have been prepared."""

    def prepare(self, graph: Graph) -> Graph:
        """Return the graph as C runs it, with fused groups, also in the bodies of control flow."""
        graph = transpose_before_loops(bypass_broadcasts(match_factor_layouts(graph)))
        self.specs = graph.specs
        accumulators = find_accumulators(graph, self.carry_count)
        graph = fuse_epilogues(
            graph,
            lambda call: (
                can_join_epilogue(call, self.specs, accumulators) and self.has_own_kernel(call)
            ),
        )
        steps = tuple([self._prepare_step(step) for step in graph.steps])
        return self.group_steps(replace(graph, steps=steps) if self.loops else graph)

    def _prepare_step(self, step: Step) -> Step:
        """Return control flow with prepared bodies if C can run all of them, and other steps unchanged."""
        if not isinstance(step, Scan | Cond | While) or not has_supported_sizes(step, self.specs):
            return step
        carries = 0 if isinstance(step, Cond) else len(step.carry)
        bodies = [prepare_body(graph, carries) for graph in step.graphs]
        ready = [body for body in bodies if body is not None]
        if len(ready) < len(bodies):
            return step
        step = _replace_bodies(step, ready)
        self.loops.add(id(step))
        return step

    def group_steps(self, graph: Graph) -> Graph:
        """Return the graph with groups of calls fused."""
        self.delayed = find_delayed_results(
            graph, lambda step: isinstance(step, Call) and self.is_groupable(step)
        )
        found = find_groups(
            graph,
            is_included=self.is_groupable,
            loop_key=self.get_loop_shape,
            fits=self.can_join_group,
            min_calls=1,
        )
        calls = [(group.steps, _get_group_calls(graph, group)) for group in found]
        loops = [steps for steps, made in calls if any(map(self.can_lower_in_loop, made))]
        return absorb_slices(fuse_steps(graph, loops), self.gapped, self.has_own_kernel)

    def is_groupable(self, call: Call) -> bool:
        """Return whether a call may be part of a loop over elements or rows."""
        is_free = is_row_view(call, self.specs) or is_repeated_number(call, self.specs)
        is_image_call = not self.is_loop and lower_pooling_gradient(call, self.specs) is not None
        is_lowered = is_free or is_image_call or self.can_lower_in_loop(call)
        return self.has_own_kernel(call) and is_lowered

    def can_lower_in_loop(self, call: Call) -> bool:
        """Return whether C can compute the elements or rows of a call."""
        specs = self.specs
        if call.outputs[0] in self.unproven:
            return False
        return lower_elementwise(call, specs) is not None or lower_rows(call, specs) is not None

    def get_loop_shape(self, call: Call) -> Shape | None:
        """Return the shape of the elementwise loops that a call can join, or None if it can join none or not all."""
        (y,) = call.outputs
        if y in self.delayed or not can_join_loop(call, self.specs):
            return None
        return self.specs[y].shape

    def can_join_group(self, call: Call, group: Sequence[Call]) -> bool:
        """Return whether a call may join a group; a delayed call may not join the group that computes its inputs."""
        if call.outputs[0] in self.delayed and any(
            made.outputs[0] in call.inputs and made.outputs[0] not in self.delayed for made in group
        ):
            return False
        if is_image_group((*group, call)):
            return fits_in_image_group((*group, call), self.specs)
        return fits_in_row_group(call, group, self.specs)

    def is_compiled(self, step: Step) -> bool:
        """Return whether C runs a step: a group, a supported call, or a view."""
        if not self.gapped.isdisjoint(step.inputs):
            return False  # or all that is in one program with it would be replayed
        if isinstance(step, Fused):
            return not self.is_shared_by_threads(step)
        if id(step) in self.loops:
            return True
        if not isinstance(step, Call) or not self.has_own_kernel(step):
            return False
        if step.kernel in VIEW_KERNELS and self.transposed_values.isdisjoint(step.inputs):
            return self.specs[step.outputs[0]].dtype.name != "string"
        return not self.is_shared_by_threads(step) and self._can_lower(step)

    def can_update_in_place(self, call: Call) -> bool:
        """Return whether an optimizer's call runs in one thread with the GIL held."""
        elements = sum(count_elements(self.specs[v].shape) for v in call.outputs)
        is_shared = self.max_work is not None and elements >= IN_PLACE_UPDATE_MAX_ELEMENTS
        return self.has_own_kernel(call) and not is_shared

    def has_own_kernel(self, call: Call) -> bool:
        """Return whether the kernel of a call is implemented by this pack or the backend, not by another plugin.

        Loops of the ufuncs of other packages count as the pack's own.
        """
        kernel = call.kernel
        is_own = self.known.get(kernel.name)
        if is_own is None:
            config = get_kernel(kernel.name, self.backend)
            is_own = self.known[kernel.name] = config is not None and (
                config in table
                or config.kernel_func is find_numpy_implementation(kernel)
                or find_ufunc_of_pack(kernel) is not None
            )
        return is_own

    def _can_lower(self, call: Call) -> bool:
        """Return whether a call has C calls; slices are copied only in loops, where Python costs more."""
        if call.outputs[0] in self.unproven:
            return False
        return (self.is_loop or call.kernel not in SLICE_OR_JOIN_KERNELS) and lower_call(
            call, self.specs
        ) is not None

    def is_shared_by_threads(self, call: Call | Fused) -> bool:
        """Return whether threads share the work of a call or group, or its bits depend on the order of axes."""
        values = [v for v in (*call.inputs, *call.outputs) if v is not None]
        if self.max_work is None:
            return not self.transposed_values.isdisjoint(values)
        return max(count_elements(self.specs[v].shape) for v in values) >= self.max_work


def prepare_body(body: Graph, carry_count: int) -> Graph | None:
    """Return the body of a loop or branch as C runs it, or None if C cannot run all of it.

    The first `carry_count` arguments become the first results.
    """
    own = CompiledStepSelector(body, is_loop=True, carry_count=carry_count)
    made = own.prepare(body)
    return made if all(map(own.is_compiled, made.steps)) else None


def _replace_bodies(step: Scan | Cond | While, bodies: Sequence[Graph]) -> Scan | Cond | While:
    """Return a loop or conditional with other bodies."""
    if isinstance(step, Scan):
        return replace(step, body=bodies[0])
    if isinstance(step, Cond):
        return replace(step, branches=(bodies[0], bodies[1]))
    return replace(step, condition=bodies[0], body=bodies[1])


def _get_group_calls(graph: Graph, group: Group) -> list[Call]:
    """Return the kernel calls of a group of steps."""
    return [step for i in group.steps if isinstance(step := graph.steps[i], Call)]


IN_PLACE_UPDATE_MAX_ELEMENTS: Final = 1 << 23
"""The elements of an optimizer step below which one thread updates in place, even if threads could share it.

In place, fewer bytes move, but nothing else runs for a few milliseconds.
"""
