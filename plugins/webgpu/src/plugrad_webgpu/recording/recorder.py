"""The recorder: a replacement of the device that only records the dispatches and copies that kernels request.

Kernels run on it as on a device, because they do not look at values. One that does raises `HostValuesRequired`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from plugrad_webgpu.memory.buffers import Buffer, GpuArray
from plugrad_webgpu.shaders.elements import stored_nbytes
from plugrad_webgpu.shaders.layout import size_class

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from plugrad.extend import DType, Shape
    from plugrad_webgpu.device.device import Device
    from plugrad_webgpu.memory.buffers import Pool
    from plugrad_webgpu.shaders.chains import ElementwiseCall
    from plugrad_webgpu.shaders.program import Plan, Program


class HostValuesRequired(Exception):
    """Raised when a kernel needs values, so that the host must run it at each call."""


class PlaceholderBuffer(Buffer):
    """The placeholder of a buffer during recording: it has a size but no storage."""

    __slots__ = ("size",)

    size: int
    """The size class in bytes."""

    def __getattr__(self, name: str) -> NoReturn:
        """Raise for `storage`, which a placeholder does not have.

        Raises:
            HostValuesRequired: always.
        """
        raise HostValuesRequired(name)


class ConstantPlaceholder(PlaceholderBuffer):
    """The placeholder of an existing buffer, which is the same in every call."""

    __slots__ = ("array",)

    array: GpuArray
    """The array that has the existing buffer."""


@dataclass(eq=False, slots=True)
class RecordedDispatch:
    """One call of a program on buffers, some of which are placeholders."""

    plan: Plan
    """The program, its parameters and its workgroups."""
    reads: tuple[Buffer, ...]
    """The buffers of the inputs."""
    writes: tuple[PlaceholderBuffer, ...]
    """The buffers of the outputs."""
    elementwise_call: ElementwiseCall | None = None
    """The elementwise call that the dispatch computes, if it computes a single one."""
    fused_dispatches: tuple[RecordedDispatch, ...] = ()
    """The elementwise dispatches that were fused into this one."""


@dataclass(eq=False, slots=True)
class RecordedCopy:
    """A copy of bytes between buffers."""

    reads: tuple[Buffer]
    """The buffer that is copied from."""
    writes: tuple[PlaceholderBuffer]
    """The buffer that is copied to."""
    source_byte: int
    """The first byte to read."""
    target_byte: int
    """The first byte to write."""
    nbytes: int
    """The number of bytes to copy."""


AnyPlaceholder = TypeVar("AnyPlaceholder", bound=PlaceholderBuffer)
"""A placeholder, or one of its subclasses."""


class EmptyHostStore:
    """A host store without arrays, for recording."""

    def has_room(self, _shape: Shape) -> bool:
        """Return False, because no array is kept on the host."""
        return False


class Recorder:
    """Records the dispatches and copies that kernels request, in order."""

    def __init__(self, device: Device) -> None:
        """Begin with nothing recorded; kernels choose their schedules for this device."""
        self.device = device
        self.work: list[RecordedDispatch | RecordedCopy] = []
        self.hosting: EmptyHostStore = EmptyHostStore()
        self.is_software: bool = device.is_software
        self.loads_64_bit_words: bool = device.loads_64_bit_words
        self.shared_bytes: int = device.shared_bytes
        self.tiles: Mapping[str, str] = device.tiles
        self.pool: Pool = device.pool

    @property
    def active_device(self) -> Recorder:
        """The recorder itself, as the device of kernels without inputs, which get the backend."""
        return self

    @property
    def subgroup_size(self) -> int:
        """The number of invocations in a subgroup, or 0."""
        return self.device.subgroup_size

    def __getattr__(self, name: str) -> NoReturn:
        """Raise, because no other operation of a device can be recorded.

        Raises:
            HostValuesRequired: always.
        """
        raise HostValuesRequired(name)

    def create_placeholder(
        self, nbytes: int, buffer_type: type[AnyPlaceholder] = PlaceholderBuffer
    ) -> AnyPlaceholder:
        """Return a new placeholder of a size class."""
        buffer = buffer_type()
        buffer.device = self  # type: ignore[assignment] - as far as kernels go, it is a device
        buffer.size = nbytes
        return buffer

    def create_constant_placeholder(self, array: GpuArray) -> GpuArray:
        """Return the placeholder for an existing array."""
        buffer = self.create_placeholder(0, ConstantPlaceholder)
        buffer.array = array
        return GpuArray(array.shape, array.dtype, buffer)

    def empty(self, shape: Shape, dtype: DType) -> GpuArray:
        """Return a new array of a recorded graph; a placeholder stands for its buffer."""
        size = size_class(stored_nbytes(shape, dtype))
        return GpuArray(shape, dtype, self.create_placeholder(size))

    def constant(self, make: Callable[..., NDArray[Any]], *sizes: int) -> GpuArray:
        """Return an array that `make` computes from some sizes."""
        return self.create_constant_placeholder(self.device.constant(make, *sizes))

    def prepare(self, program: Program, operand_count: int) -> None:
        """Do nothing, because the program may be fused with others."""

    def call(self, prepared_call: ElementwiseCall, *inputs: GpuArray) -> GpuArray:
        """Record an elementwise call."""
        made = self.launch(prepared_call.single_call_plan, *inputs)
        if prepared_call.can_join_chain:
            noted = self.work[-1]
            assert isinstance(noted, RecordedDispatch)
            noted.elementwise_call = prepared_call
        return made

    def launch(self, plan: Plan, *inputs: GpuArray) -> GpuArray:
        """Record the dispatch of a plan and return its output."""
        buffer = self.create_placeholder(plan.size)
        self.work.append(RecordedDispatch(plan, tuple([x.buffer for x in inputs]), (buffer,)))
        return GpuArray(plan.shape, plan.dtype, buffer)

    def launch_into(self, plan: Plan, output: GpuArray, *inputs: GpuArray) -> None:
        """Record the dispatch of a plan that writes a part of an array under construction."""
        self.work.append(
            RecordedDispatch(plan, tuple([x.buffer for x in inputs]), (_as_placeholder(output),))
        )

    def copy(
        self, source: GpuArray, source_byte: int, target: GpuArray, target_byte: int, nbytes: int
    ) -> None:
        """Record a copy of bytes to an array under construction."""
        self.work.append(
            RecordedCopy(
                (source.buffer,),
                (_as_placeholder(target),),
                source_byte,
                target_byte,
                nbytes,
            )
        )

    def download(self, array: GpuArray, out: NDArray[Any], stored_dtype: np.dtype[Any]) -> NoReturn:
        """Raise, because a recording has no values.

        Raises:
            HostValuesRequired: always.
        """
        raise HostValuesRequired("download")


def _as_placeholder(output: GpuArray) -> PlaceholderBuffer:
    """Return the placeholder of an output; raise if the array exists already."""
    buffer = output.buffer
    if type(buffer) is not PlaceholderBuffer:
        raise HostValuesRequired("it writes to an array that exists")
    return buffer
