"""Optimizer states in parts: each rank updates its part of a variable, and sends it to the others (ZeRO, stage 1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

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


class OptimizerShards:
    """The parts of variables that this rank updates with one optimizer, which keeps a state for each of them.

    The optimizers of plugrad compute each element by itself, so that a part of the elements gets the same bits as the
    whole. A part has as many elements on each rank; those of the last ranks are padded.
    """

    def __init__(self, world: World) -> None:
        """Begin without parts."""
        self.world: Final = world
        self.parts: Final[dict[Variable, Variable]] = {}
        """This rank's part of each variable, as a vector."""

    def add_parts(self, optimizer: Optimizer, variables: Sequence[Variable]) -> None:
        """Make the parts of trained variables that have none; the optimizer's state of the variables moves to them.

        Raises:
            ArgumentError: there is such a state, and the step is traced.
        """
        new = [v for v in variables if v.trainable and v not in self.parts]
        if not new:
            return
        for variable in new:
            size = -(-variable.size // self.world.size)
            value = np.zeros(size, variable.dtype.numpy)
            part = plugrad.Variable(plugrad.asarray(value, device=variable.backend), name="shard")
            self.parts[variable] = part
        try:
            state = optimizer.get_state(new)
        except plugrad.errors.TracingError:
            for variable in new:
                del self.parts[variable]
            raise ArgumentError(
                "DataParallel: the optimizer has a state of whole variables, which a traced step cannot divide among "
                "the ranks; call prepare(variables) of this object before the first step"
            ) from None
        if any(entry["steps"] for entry in state["variables"]):
            self.set_state(optimizer, new, state)
            optimizer.discard_state(new)

    def apply(
        self,
        optimizer: Optimizer,
        variables: Sequence[Variable],
        buckets: Sequence[GradientBucket],
        flat_buckets: Sequence[Tensor],
    ) -> None:
        """Update this rank's parts with the reduced gradients, then gather all parts into the variables."""
        self.add_parts(optimizer, variables)
        pairs: list[tuple[Variable, Tensor]] = []
        for bucket, flat in zip(buckets, flat_buckets, strict=True):
            targets = [variables[i] for i in bucket.positions]
            gradients = split_flat(flat, [(v.size,) for v in targets])
            for variable, gradient in zip(targets, gradients, strict=True):
                part = self.parts[variable]
                part.assign(self._own_elements(variable.reshape(-1)))
                pairs.append((part, self._own_elements(gradient)))
        optimizer.apply_gradients(pairs)
        for bucket in buckets:
            self._gather_parts([variables[i] for i in bucket.positions])

    def _own_elements(self, flat: Tensor) -> Tensor:
        """Return the elements of a vector that belong to this rank, padded with zeros to the size of a part."""
        size = -(-flat.size // self.world.size)
        first = min(self.world.rank * size, flat.size)
        own = flat[first : first + size]
        return own if own.size == size else plugrad.pad(own, [(0, size - own.size)])

    def _gather_parts(self, variables: Sequence[Variable]) -> None:
        """Assign to variables of one dtype the parts of all ranks, which travel together."""
        parts = [self.parts[variable] for variable in variables]
        rows = plugrad.concat([+part for part in parts])
        if self.world.size > 1 and rows.size:
            ticket = kernels.make_call_ticket(rows.backend)
            rows = kernels.gather_shards(rows, ticket, world=self.world)
        rows = rows.reshape((self.world.size, -1)) if rows.size else rows.reshape((1, 0))
        start = 0
        for variable, part in zip(variables, parts, strict=True):
            whole = rows[:, start : start + part.size].reshape(-1)[: variable.size]
            variable.assign(whole.reshape(variable.shape))
            start += part.size

    # --- state -----------------------------------------------------------------------------------

    def get_state(self, optimizer: Optimizer, variables: Sequence[Variable]) -> dict[str, Any]:
        """Return the optimizer state for whole variables; all ranks call it."""
        self.add_parts(optimizer, variables)
        own = optimizer.get_state(self._find_targets(variables))
        entries: list[dict[str, Any]] = []
        for variable, entry in zip(variables, own["variables"], strict=True):
            if variable not in self.parts:
                entries.append(entry)
                continue
            found: dict[str, Any] = {"steps": entry["steps"]}
            for name, values in entry.items():
                if name != "steps":
                    whole = self.world.submit(self._gather_state_values, values).result()
                    found[name] = whole.reshape(-1)[: variable.size].reshape(variable.shape).copy()
            entries.append(found)
        return own | {"variables": entries}

    def _gather_state_values(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the values of all ranks as rows, after a check that they have one shape and dtype."""
        self.world.check_agreement(describe_arrays("the state of the optimizer", [values]))
        return self.world.gather(np.ascontiguousarray(values))

    def set_state(
        self, optimizer: Optimizer, variables: Sequence[Variable], state: Mapping[str, Any]
    ) -> None:
        """Keep this rank's parts of the optimizer state of whole variables.

        Raises:
            ArgumentError: the state belongs to other variables.
        """
        self.add_parts(optimizer, variables)
        entries = state.get("variables", ())
        if len(entries) != len(variables):
            raise ArgumentError(
                f"set_state: the state is that of {len(entries)} variables, but {len(variables)} are given"
            )
        size = self.world.size
        parts: list[dict[str, Any]] = []
        for variable, entry in zip(variables, entries, strict=True):
            if variable not in self.parts:
                parts.append(entry)
                continue
            own: dict[str, Any] = {"steps": entry.get("steps", 0)}
            for name in entry:
                if name != "steps":
                    whole = np.asarray(entry[name]).reshape(-1)
                    padded = np.zeros((size, -(-whole.size // size)), whole.dtype)
                    padded.reshape(-1)[: whole.size] = whole
                    own[name] = padded[self.world.rank]
            parts.append(own)
        optimizer.set_state(self._find_targets(variables), {**state, "variables": parts})

    def _find_targets(self, variables: Sequence[Variable]) -> list[Variable]:
        """Return this rank's part of each variable, or the variable itself if it was never trained."""
        return [self.parts.get(variable, variable) for variable in variables]


_shards_by_optimizer: Final[WeakKeyDictionary[Optimizer, OptimizerShards]] = WeakKeyDictionary()
"""By optimizer: the parts of its variables, which exist as long as the optimizer does."""


def find_shards(optimizer: Optimizer, world: World) -> OptimizerShards:
    """Return the parts of the variables of an optimizer in a world."""
    found = _shards_by_optimizer.get(optimizer)
    if found is None or found.world is not world:
        found = _shards_by_optimizer[optimizer] = OptimizerShards(world)
    return found
