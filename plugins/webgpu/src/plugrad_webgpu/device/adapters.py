"""Choose adapters and open devices through wgpu-py."""

# wgpu describes adapters in plain dicts without types for the values.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import os
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import wgpu
from wgpu.backends.wgpu_native.extras import set_instance_extras

from plugrad.extend import (
    ArgumentError,
    ArgumentValueError,
    BackendUnavailable,
    is_interruption,
    suppress_failures,
)
from plugrad_webgpu.algorithms.tiles import load_tiles
from plugrad_webgpu.device.device import Device
from plugrad_webgpu.device.listing import (
    INSTALL_HINT,
    REQUIRED_FEATURE,
    SUPPORTED_WGPU_VERSION,
    is_software_adapter,
    select_usable_adapters,
    suppress_wayland_warning,
)
from plugrad_webgpu.driver import portable
from plugrad_webgpu.driver.forks import device_in_fork_error
from plugrad_webgpu.driver.limits import MAX_IMMEDIATE_BYTES

if TYPE_CHECKING:
    from wgpu import GPUAdapter, GPUDevice

    from plugrad_webgpu.driver.interface import Driver, RawDevice

SUBGROUP_FEATURE = "subgroup"
"""The feature by which shaders use subgroups, if the adapter has it."""
SOFTWARE_FEATURES = ("shader-int64", "shader-f64")
"""The features that shaders use on software devices: integers and floats of 64 bits."""
# The kernels use more than the limits that WebGPU guarantees, which are lower than what every desktop driver has.
REQUESTED_LIMITS = (
    "max-buffer-size",
    "max-storage-buffer-binding-size",
    "max-storage-buffers-per-shader-stage",
    "max-compute-workgroup-storage-size",
    "max-compute-invocations-per-workgroup",
    "max-compute-workgroup-size-x",
)
"""The names of the limits that are requested as high as the adapter allows."""


def list_usable_adapters() -> tuple[GPUAdapter, ...]:
    """Return the usable adapters, GPUs before software devices.

    Raises:
        BackendUnavailable: this process is a forked child of one that has asked already.
    """
    process, found = _list_adapters_in_process()
    if process != os.getpid():
        raise device_in_fork_error()
    return found


@cache
def _list_adapters_in_process() -> tuple[int, tuple[GPUAdapter, ...]]:
    """Return the id of this process, in which alone the adapters can be used, and the usable adapters."""
    if wgpu.version_info[:2] == SUPPORTED_WGPU_VERSION:
        # Imported here, because other versions may lack what it imports.
        with suppress(ImportError, AttributeError):
            from plugrad_webgpu.driver.parsing import cache_parsed_types

            cache_parsed_types()
    # OpenGL lists every device a second time, slower and with lower limits. The choice must be made
    # before the first adapter of the process, so another user of wgpu may have made it already.
    with suppress_failures(RuntimeError):
        set_instance_extras(backends=["Vulkan", "Metal", "DX12"])
    with suppress_wayland_warning():
        return os.getpid(), select_usable_adapters(wgpu.gpu.enumerate_adapters_sync())


ADAPTER_TYPES_BY_PREFERENCE = {"high-performance": "DiscreteGPU", "low-power": "IntegratedGPU"}
"""The type of adapter for each preference; where there is none of the type, the best adapter is chosen."""


def choose_adapter(selector: str) -> tuple[GPUAdapter, int]:
    """Return the adapter that an index, a preference or a part of its name selects, and its index.

    Args:
        selector: ``""`` for the best adapter, an index, a preference, or ``"name=part of its name"``.

    Raises:
        BackendUnavailable: there is no such adapter; the message lists the adapters.
    """
    found = list_usable_adapters()
    if not found:
        raise BackendUnavailable(
            f"webgpu: no adapter with compute shaders was found; {INSTALL_HINT}"
        )
    if selector in ADAPTER_TYPES_BY_PREFERENCE:
        kinds = [adapter.info["adapter_type"] for adapter in found]
        index = (
            kinds.index(ADAPTER_TYPES_BY_PREFERENCE[selector])
            if ADAPTER_TYPES_BY_PREFERENCE[selector] in kinds
            else 0
        )
        return found[index], index
    for index, adapter in enumerate(found):
        name = adapter.info["device"].lower()
        is_named = selector.startswith("name=") and selector.removeprefix("name=").lower() in name
        if selector in ("", str(index)) or is_named:
            return adapter, index
    listed = ", ".join(f"{i} ({a.info['device']})" for i, a in enumerate(found))
    raise BackendUnavailable(
        f"webgpu: there is no device {selector!r}; choose one of {listed}, "
        f"{', '.join(ADAPTER_TYPES_BY_PREFERENCE)}, or name=<part of a name>"
    )


def required_features(adapter: GPUAdapter) -> dict[str, Any]:
    """Return the features and limits that the kernels use, as arguments for `request_device_sync`."""
    limits = {name: adapter.limits[name] for name in REQUESTED_LIMITS if name in adapter.limits}
    limits["max-immediate-size"] = MAX_IMMEDIATE_BYTES
    useful = [SUBGROUP_FEATURE, *(SOFTWARE_FEATURES if is_software_adapter(adapter) else ())]
    features = [REQUIRED_FEATURE, *[name for name in useful if name in adapter.features]]
    return {"required_features": features, "required_limits": limits}


def open_device(selector: str) -> tuple[Device, str]:
    """Return a device and its name: a new one of the selected adapter, or the one that the program has supplied.

    Raises:
        BackendUnavailable: there is no such device, or the driver refuses.
    """
    if shared_device and selector in ("", SHARED_DEVICE_NAME):
        return wrap_device(shared_device[0]), SHARED_DEVICE_NAME
    adapter, index = choose_adapter(selector)
    try:
        device = adapter.request_device_sync(label="plugrad", **required_features(adapter))
    except (RuntimeError, wgpu.GPUError) as failure:
        if is_interruption(failure):
            raise
        raise BackendUnavailable(
            f"webgpu: {adapter.info['device']} cannot be opened: {failure}; choose another device"
        ) from failure
    return wrap_device(device), str(index)


def wrap_device(device: GPUDevice) -> Device:
    """Wrap an opened wgpu device as the `Device` that the kernels use."""
    limits = device.limits
    largest = limits["max-buffer-size"]
    # A power of two, so that a part holds a whole number of elements of any dtype.
    part_bytes = 1 << (min(limits["max-storage-buffer-binding-size"], largest).bit_length() - 1)
    driver, raw = choose_driver(device)
    made = Device(driver, raw, largest, part_bytes, is_software=is_software_adapter(device.adapter))
    made.tiles = load_tiles(device.adapter.info)
    return made


def choose_driver(device: GPUDevice) -> tuple[Driver, RawDevice]:
    """Return the fastest driver that this version of wgpu-py supports, and the device wrapped for this driver."""
    if wgpu.version_info[:2] == SUPPORTED_WGPU_VERSION:
        # Imported here, because other versions may lack what it imports.
        with suppress(ImportError, AttributeError):
            from plugrad_webgpu.driver import native

            return native, native.NativeDevice(device)
    return portable, portable.PortableDevice(device)


shared_device: Final[list[GPUDevice]] = []
"""The device that the program has opened, if it has given it to plugrad."""

SHARED_DEVICE_NAME: Final = "shared"
"""The name under which plugrad lists the device that the program has opened."""


def check_shared_device(device: object) -> None:
    """Raise unless the kernels can use a device of the program.

    Raises:
        ArgumentError: it is not a device.
        ArgumentValueError: it lacks something.
    """
    if not isinstance(device, wgpu.GPUDevice):
        raise ArgumentError(f"use_device: device={device!r} must be a wgpu.GPUDevice")
    has_room = device.limits.get("max-immediate-size", 0) >= MAX_IMMEDIATE_BYTES
    if REQUIRED_FEATURE not in device.features or not has_room:
        raise ArgumentValueError(
            f"use_device: the device lacks the feature {REQUIRED_FEATURE!r} with {MAX_IMMEDIATE_BYTES} bytes; "
            "open it with "
            "adapter.request_device_sync(**plugrad_webgpu.requirements(adapter))"
        )
