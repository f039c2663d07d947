"""Optimizer states in parts: each rank updates its part of all elements, and sends it to the others (ZeRO, stage 1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import plugrad
from plugrad.extend import ArgumentError
from plugrad_distributed import kernels
from plugrad_distributed.reduction import GradientBucket, split_flat
from plugrad_distributed.world import World, describe_arrays

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from plugrad import Tensor, Variable
    from plugrad.optimizers import Optimizer


class _BucketPart(NamedTuple):
    """This rank's part of a bucket: its elements from `first_element` on, padded to the same number on each rank."""

    bucket: GradientBucket
    first_element: int
    element_count: int
    variable: Variable


class OptimizerShards:
    """The parts of variables that this rank updates.

    The optimizers of plugrad compute each element by itself, so that a part of the elements gets the same bits as the
    whole.
    """

    def __init__(
        self, world: World, variables: Sequence[Variable], buckets: Sequence[GradientBucket]
    ) -> None:
        """Divide each bucket among the ranks."""
        self.world = world
        self.variables = variables
        self.parts: list[_BucketPart] = []
        for bucket in buckets:
            size = -(-bucket.element_count // world.size)
            backend = variables[bucket.positions[0]].backend
            value = np.zeros(size, plugrad.as_dtype(bucket.dtype).numpy)
            own = plugrad.Variable(plugrad.asarray(value, device=backend), name="shard")
            self.parts.append(_BucketPart(bucket, world.rank * size, size, own))

    def apply(self, optimizer: Optimizer, flat_buckets: Sequence[Tensor]) -> None:
        """Update this rank's parts with the reduced gradients, then gather all parts into the variables."""
        pairs: list[tuple[Variable, Tensor]] = []
        for part, flat in zip(self.parts, flat_buckets, strict=True):
            part.variable.assign(self._own_elements(part))
            pairs.append(
                (
                    part.variable,
                    _pad_to_part_size(
                        flat[part.first_element : part.first_element + part.element_count], part
                    ),
                )
            )
        optimizer.apply_gradients(pairs)
        for part in self.parts:
            whole = +part.variable
            if self.world.size > 1:
                ticket = kernels.make_call_ticket(whole.backend)
                whole = kernels.gather_shards(whole, ticket, world=self.world)
            targets = [self.variables[i] for i in part.bucket.positions]
            values = split_flat(whole, [v.shape for v in targets])
            for target, value in zip(targets, values, strict=True):
                target.assign(value)

    def _own_elements(self, part: _BucketPart) -> Tensor:
        """Return the present values of the bucket elements that belong to this rank, as a vector."""
        found: list[Tensor] = []
        start, end = part.first_element, part.first_element + part.element_count
        position = 0
        for i in part.bucket.positions:
            variable = self.variables[i]
            first, last = max(start - position, 0), min(end - position, variable.size)
            if first < last:
                found.append(variable.reshape(-1)[first:last])
            position += variable.size
        if not found:
            return plugrad.zeros_like(part.variable)
        return _pad_to_part_size(found[0] if len(found) == 1 else plugrad.concat(found), part)

    # --- state -----------------------------------------------------------------------------------

    def get_state(self, optimizer: Optimizer) -> dict[str, Any]:
        """Return the optimizer state for whole variables; all ranks call it."""
        own = optimizer.get_state([part.variable for part in self.parts])
        entries: dict[int, dict[str, Any]] = {}
        for part, entry in zip(self.parts, own["variables"], strict=True):
            positions = part.bucket.positions
            shapes = [self.variables[i].shape for i in positions]
            for i in positions:
                entries[i] = {"steps": entry["steps"]}
            for name, values in entry.items():
                if name == "steps":
                    continue
                whole = self.world.submit(self._gather_state_values, values).result().reshape(-1)
                for i, value in zip(positions, split_flat(whole, shapes), strict=True):
                    entries[i][name] = value.copy()
        return own | {"variables": [entries[i] for i in range(len(self.variables))]}

    def _gather_state_values(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the values of all ranks as rows, after a check that they have one shape and dtype."""
        self.world.check_agreement(describe_arrays("the state of the optimizer", [values]))
        return self.world.gather(np.ascontiguousarray(values))

    def set_state(self, optimizer: Optimizer, state: Mapping[str, Any]) -> None:
        """Keep this rank's parts of the optimizer state of whole variables.

        Raises:
            ArgumentError: the state belongs to other variables.
        """
        entries = state.get("variables", ())
        if len(entries) != len(self.variables):
            raise ArgumentError(
                f"set_state: the state is that of {len(entries)} variables, but {len(self.variables)} are given"
            )
        parts: list[dict[str, Any]] = []
        for part in self.parts:
            found = [entries[i] for i in part.bucket.positions]
            own: dict[str, Any] = {"steps": found[0].get("steps", 0)}
            for name in found[0]:
                if name == "steps":
                    continue
                whole = np.concatenate([np.asarray(entry[name]).reshape(-1) for entry in found])
                padded = np.zeros(part.element_count * self.world.size, whole.dtype)
                padded[: whole.size] = whole
                own[name] = padded[part.first_element : part.first_element + part.element_count]
            parts.append(own)
        variables = [part.variable for part in self.parts]
        optimizer.set_state(variables, {**state, "variables": parts})


def _pad_to_part_size(x: Tensor, part: _BucketPart) -> Tensor:
    """Pad elements with zeros to the size of a part."""
    missing = part.element_count - x.size
    return x if missing == 0 else plugrad.pad(x, [(0, missing)])
