"""Kernels for fixed shapes: a kernel runs once on a recorder, and each call repeats the requests that were recorded.

A replay of a graph calls them. What follows from shapes, dtypes and attributes is then decided once.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from plugrad.extend import is_interruption
from plugrad_webgpu.memory.buffers import GpuArray
from plugrad_webgpu.narrow import configs_by_kernel_name
from plugrad_webgpu.recording.recorder import (
    ConstantPlaceholder,
    RecordedDispatch,
    Recorder,
)
from plugrad_webgpu.shaders.elements import STORED_DTYPES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from plugrad.extend import DType, Implementation, Shape, Shaped
    from plugrad_webgpu.device.device import Device
    from plugrad_webgpu.memory.buffers import Buffer
    from plugrad_webgpu.recording.recorder import RecordedCopy

    DeviceRequest = tuple[Callable[..., GpuArray], tuple[int, ...]]
    """A function that lets the device compute an array, and the numbers of its inputs (see `_list_requests`)."""
    OutputSpec = tuple[int, Shape, DType]
    """The number of the array that has the buffer of an output, and the output's shape and dtype."""


def specialize(
    kernel_name: str,
    function: Implementation,
    specs: Sequence[Shaped | None],
    attrs: Mapping[str, Any],
    device: Device,
) -> Implementation | None:
    """Return a version of an implementation of this package for fixed shapes, or None if it does more than dispatch.

    `Backend.specialize` describes the arguments.
    """
    config = configs_by_kernel_name().get(kernel_name)
    if config is None or config.kernel_func is not function:
        return None
    given = [spec for spec in specs if spec is not None]
    if any(spec.dtype not in STORED_DTYPES for spec in given):
        return None
    recorder = Recorder(device)
    inputs = [None if spec is None else recorder.empty(*spec) for spec in specs]
    try:
        found = function(*inputs, **attrs)
    except Exception as failure:  # it needs values, or has to fail when the program runs
        if is_interruption(failure):
            raise
        return None
    requests, constants, numbers = _list_requests(recorder, inputs)
    outputs: list[Any] = [found] if isinstance(found, GpuArray) else [*found]
    if any(x.buffer not in numbers for x in outputs):
        return None
    if not _is_elementwise(recorder.work) and all(device.hosting.has_room(x.shape) for x in given):
        return None  # if the inputs are on the host, so may the results be
    output_specs: list[OutputSpec] = [(numbers[x.buffer], x.shape, x.dtype) for x in outputs]
    every = tuple(range(len(inputs)))
    if (
        [reads for _, reads in requests] == [every]
        and output_specs[0][0] == len(inputs)
        and len(output_specs) == 1
    ):
        return _reshape_result(requests[0][0], outputs[0])
    return _make_request_runner(
        requests, constants, output_specs, returns_list=not isinstance(found, GpuArray)
    )


def _list_requests(
    recorder: Recorder, inputs: Sequence[GpuArray | None]
) -> tuple[list[DeviceRequest], list[GpuArray], dict[Buffer, int]]:
    """Return a kernel's recorded requests, the constants that they read, and the number of each array by its buffer.

    The buffer of an array that is filled by and by, or copied to, gets no number.
    """
    device = recorder.device
    numbers: dict[Buffer, int] = {x.buffer: i for i, x in enumerate(inputs) if x is not None}
    constants: list[GpuArray] = []
    for x in [x for each in recorder.work for x in each.reads]:
        if isinstance(x, ConstantPlaceholder) and x not in numbers:
            numbers[x] = len(inputs) + len(constants)
            constants.append(x.array)
    requests: list[DeviceRequest] = []
    for each in recorder.work:
        if not isinstance(each, RecordedDispatch) or not numbers.keys() >= {*each.reads}:
            return [], [], {}
        if each.writes[0] in numbers:
            return [], [], {}
        call = each.elementwise_call
        ask = partial(device.launch, each.plan) if call is None else partial(device.call, call)
        requests.append((ask, tuple([numbers[x] for x in each.reads])))
        numbers[each.writes[0]] = len(inputs) + len(constants) + len(requests) - 1
    return requests, constants, numbers


def _is_elementwise(recorded_work: Sequence[RecordedDispatch | RecordedCopy]) -> bool:
    """Return whether recorded work is a single elementwise call."""
    first = recorded_work[0] if len(recorded_work) == 1 else None
    return isinstance(first, RecordedDispatch) and first.elementwise_call is not None


def _reshape_result(request: Callable[..., GpuArray], output: GpuArray) -> Implementation:
    """Return a function that calls `request`, and gives its result the shape and dtype of `output`."""
    shape, dtype = output.shape, output.dtype

    def run(*arrays: GpuArray) -> GpuArray:
        return GpuArray(shape, dtype, request(*arrays).buffer)

    return run


def _make_request_runner(
    requests: Sequence[DeviceRequest],
    constants: Sequence[GpuArray],
    output_specs: Sequence[OutputSpec],
    *,
    returns_list: bool,
) -> Implementation:
    """Return a function of the inputs that lets the device compute the requested arrays, and returns the outputs."""
    last = {i: index for index, (_, reads) in enumerate(requests) for i in reads}
    kept = {i for i, _, _ in output_specs}
    steps = [
        (ask, reads, [i for i in {*reads} - kept if last[i] == index])
        for index, (ask, reads) in enumerate(requests)
    ]

    def run(*arrays: GpuArray) -> Any:
        made: list[Any] = [*arrays, *constants]
        for ask, reads, dying in steps:
            made.append(ask(*[made[i] for i in reads]))
            for i in dying:
                made[i] = None
        results = [GpuArray(shape, dtype, made[i].buffer) for i, shape, dtype in output_specs]
        return results if returns_list else results[0]

    return run
