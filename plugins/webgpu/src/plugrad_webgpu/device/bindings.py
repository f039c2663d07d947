"""Bind groups, which bind the buffers of a dispatch, and their cache."""

# pyright: reportMissingTypeStubs=false

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wgpu import GPUError

from plugrad.extend import ArgumentValueError
from plugrad_webgpu.driver.interrupts import uninterruptible
from plugrad_webgpu.driver.limits import foreign_buffer_error
from plugrad_webgpu.memory.buffers import ExternalBuffer

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from plugrad_webgpu.driver.interface import BindingLayout, Driver, Handle, RawDevice
    from plugrad_webgpu.memory.buffers import Allocator, Storage
    from plugrad_webgpu.shaders.program import Program

MAX_BIND_GROUPS: Final = 4096
"""The largest number of cached bind groups: with more, all are released."""


class BindGroups:
    """The cache of bind groups and layouts of a device; the caller holds the device's lock."""

    def __init__(self, owner: Allocator, driver: Driver, raw: RawDevice) -> None:
        """Begin without groups, for the buffers of `owner`."""
        self.generation: int = 0
        """How often groups have been released: who keeps the handles of groups keeps this, too."""
        self.in_use: int = 0
        """How many of the groups the recording that runs may still need."""
        self._owner = owner
        self._driver = driver
        self._raw = raw
        self._layouts: dict[tuple[int, int, bool], BindingLayout] = {}
        self._groups: dict[tuple[int, ...], Handle] = {}
        self._external_buffers: list[tuple[Handle, list[ExternalBuffer]]] = []

    def layout(
        self, operand_count: int, output_count: int, has_parameter_table: bool = False
    ) -> BindingLayout:
        """Return the bind group layout that all programs with as many operands and outputs share."""
        key = operand_count, output_count, has_parameter_table
        layout = self._layouts.get(key)
        if layout is None:
            layout = self._layouts[key] = self._driver.BindGroupLayout(self._raw.device, *key)
        return layout

    def find(self, program: Program, operands: Sequence[Storage]) -> Handle:
        """Return the bind group of the operands of a program.

        Raises:
            BackendUnavailable: one belongs to another device.
            ArgumentValueError: one belongs to other code and is destroyed or mapped.
        """
        key = tuple([s.serial for s in operands])
        if program.outputs > 1:
            key += (-program.outputs,)  # the same buffers in other roles are another group
        if program.has_table:
            key += (-1,)
        return self._groups.get(key) or self._bind(key, operands, program)

    def _bind(
        self, cache_key: tuple[int, ...], operands: Sequence[Storage], program: Program
    ) -> Handle:
        """Return a new bind group, which is cached under the key unless it has external buffers."""
        for storage in operands:
            if storage.owner is not self._owner:
                raise foreign_buffer_error()
        layout = self.layout(len(operands), program.outputs, program.has_table)
        external_buffers = [s for s in operands if isinstance(s, ExternalBuffer)]
        try:
            group = layout.bind(self._raw.handle, [(s.handle, s.offset, s.size) for s in operands])
        except GPUError:
            self.check_external_buffers(external_buffers)
            raise
        if external_buffers:  # the group would keep the buffers of others alive
            self._external_buffers.append((group, external_buffers))
        else:
            self._groups[cache_key] = group
        return group

    def check_external_buffers(self, external_buffers: Iterable[ExternalBuffer]) -> None:
        """Raise unless external buffers are still valid for the next submission.

        Raises:
            ArgumentValueError: one has been destroyed, or is mapped.
        """
        for external in external_buffers:
            with uninterruptible:
                whole_buffer = [(external.handle, 0, external.size)]
                is_usable = self.layout(1, 1).can_bind(self._raw.handle, whole_buffer)
            if not is_usable or external.buffer.map_state != "unmapped":
                raise ArgumentValueError(
                    f"webgpu: the buffer {external.buffer.label!r}, which was given to from_buffer, is destroyed or "
                    "mapped, so all work that was recorded with it is lost; keep it as long as its tensors are used"
                )

    def end_batch(self, encoder: Handle) -> None:
        """Check and forget the external buffers of a batch; release all bind groups if there are many."""
        if self._external_buffers:
            self._check_and_forget_external_buffers(encoder)
        if len(self._groups) > MAX_BIND_GROUPS + self.in_use:
            self.release_all()

    def _check_and_forget_external_buffers(self, encoder: Handle) -> None:
        """Check and forget the external buffers of a batch; release its encoder if one is not valid any more."""
        batch, self._external_buffers = self._external_buffers, []
        for group, _ in batch:
            self._driver.release_bind_group(group)
        try:
            self.check_external_buffers({x for _, buffers in batch for x in buffers})
        except ArgumentValueError:
            self._driver.release_encoder(encoder)
            raise

    def release(self, storages: Iterable[Storage]) -> None:
        """Release the bind groups of buffers, which keep the buffers alive."""
        serials = {s.serial for storage in storages for s in (storage, *storage.parts.values())}
        for key in [key for key in self._groups if not serials.isdisjoint(key)]:
            self.generation += 1
            self._driver.release_bind_group(self._groups.pop(key))

    def release_all(self) -> None:
        """Release all bind groups."""
        self.generation += 1
        for group in self._groups.values():
            self._driver.release_bind_group(group)
        self._groups.clear()

    def release_layouts(self) -> None:
        """Forget the layouts, which nothing uses any more."""
        self._layouts.clear()
