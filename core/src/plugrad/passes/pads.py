"""Sums of padded parts, such as the gradients of the slices of one array, which one concatenation replaces."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import copysign
from typing import TYPE_CHECKING, NamedTuple

from plugrad.graph.graph import Call, Graph, Value
from plugrad.kernels import binary, creation, movement
from plugrad.types.specs import Shaped

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from plugrad.graph.graph import Step


def concatenate_padded(graph: Graph) -> Graph:
    """Return the graph with sums of zero-padded arrays that do not overlap replaced by concatenations.

    The parts follow each other along one axis and fill it, and nothing else reads the padded arrays. 0 is added to each
    part, because -0.0 + 0 is 0.0.
    """
    if not any(isinstance(s, Call) and s.kernel is movement.pad for s in graph.steps):
        return graph
    calls = {s.outputs[0]: s for s in graph.steps if isinstance(s, Call) and not s.returns_list}
    uses = Counter(v for step in graph.steps for v in step.inputs if v is not None)
    uses.update((*graph.results, *[v for _, v in graph.updates]))
    finder = _PaddedPartFinder(calls, graph.specs, uses)
    inner = {v for step in calls.values() for v in finder.find_sums_of_padded_parts(step)}
    specs = dict(graph.specs)
    steps: list[Step] = []
    for step in graph.steps:
        if not isinstance(step, Call) or step.kernel is not binary.add:
            steps.append(step)
            continue
        parts = [] if step.outputs[0] in inner else finder.find_parts(step)
        steps += _concatenate(step, parts, specs) if parts else [step]
    return (
        replace(graph, specs=specs, steps=tuple(steps)) if len(specs) > len(graph.specs) else graph
    )


def _concatenate(
    step: Call, padded_parts: Sequence[_PaddedPart], specs: dict[Value, Shaped]
) -> list[Step]:
    """Return steps that compute a sum by concatenation of its parts; their new values are added to `specs`."""
    zero = max(specs) + 1
    spec = specs[zero] = Shaped((), specs[step.outputs[0]].dtype)
    attrs = {"shape": (), "value": 0, "dtype": spec.dtype}
    fill = replace(step, kernel=creation.fill, inputs=(), attrs=attrs, outputs=(zero,))
    sums: list[Step] = []
    for value, part in enumerate(padded_parts, zero + 1):
        specs[value] = specs[part.value]
        sums.append(replace(step, inputs=(part.value, zero), outputs=(value,)))
    values = tuple(range(zero + 1, zero + 1 + len(padded_parts)))
    joined = replace(
        step, kernel=movement.concat, inputs=values, attrs={"axis": padded_parts[0].axis}
    )
    return [fill, *sums, joined]


class _PaddedPart(NamedTuple):
    """An array that is zero-padded along one axis."""

    value: Value
    axis: int
    zeros_before: int
    zeros_after: int


class _PaddedPartFinder:
    """Finds the zero-padded arrays in a sum."""

    def __init__(
        self, calls: Mapping[Value, Call], specs: Mapping[Value, Shaped], uses: Counter[Value]
    ) -> None:
        self.calls, self.specs, self.uses = calls, specs, uses

    def find_sums_of_padded_parts(self, step: Call) -> list[Value]:
        """Return the operands of a sum that are sums of the same shape and are read nowhere else."""
        if step.kernel is not binary.add:
            return []
        shape = self.specs[step.outputs[0]].shape
        return [
            v
            for v in step.inputs
            if v is not None
            and v in self.calls
            and self.calls[v].kernel is binary.add
            and self.uses[v] == 1
            and self.specs[v].shape == shape
        ]

    def find_parts(self, step: Call) -> list[_PaddedPart]:
        """Return the padded parts of a sum in order, or an empty list if it has other operands."""
        shape = self.specs[step.outputs[0]].shape
        waiting, parts = [step], list[_PaddedPart]()
        while waiting:
            for value in waiting.pop().inputs:
                assert value is not None
                made = self.calls.get(value)
                if made is None or self.uses[value] != 1 or self.specs[value].shape != shape:
                    return []
                if made.kernel is binary.add:
                    waiting.append(made)
                    continue
                part = self._find_padded_part(made)
                if part is None:
                    return []
                parts.append(part)
        parts.sort(key=lambda part: part.zeros_before)
        axis, end = parts[0].axis, 0
        for part in parts:
            size = self.specs[part.value].shape[axis]
            if part.axis != axis or part.zeros_before != end or not size:
                return []
            end += size
        return parts if parts[-1].zeros_after == 0 else []

    def _find_padded_part(self, step: Call) -> _PaddedPart | None:
        """Return the part that a call pads with zeros along one axis, or None."""
        if step.kernel is not movement.pad:
            return None
        value, number = step.inputs[0], step.attrs.get("constant_value", 0)
        sides = step.attrs["paddings"]
        axes = [i for i, each in enumerate(sides) if any(each)]
        is_zero = number == 0 and copysign(1, number) > 0
        if value is None or not is_zero or len(axes) != 1:
            return None
        return _PaddedPart(value, axes[0], *sides[axes[0]])
