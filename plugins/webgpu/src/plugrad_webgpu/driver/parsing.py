"""The C types of wgpu-native's calls, all parsed at once.

cffi parses the text of a type where it is first used, and declares every name of the header for it again, in 12 ms.
To open a device and run a kernel takes 40 types: parsing them one by one took four times as long as the rest.
"""

# `listing.SUPPORTED_WGPU_VERSION` is the version of wgpu-py whose calls use these types.
# pyright: reportPrivateUsage=false, reportMissingTypeStubs=false, reportUnknownMemberType=false

from __future__ import annotations

from typing import Any, Final

from wgpu.backends import wgpu_native

C_TYPES: Final = (
    *("char []", "char[]", "WGPUAdapter[]", "WGPUAdapterInfo *", "WGPUBindGroupDescriptor *"),
    *("WGPUBindGroupEntry[]", "WGPUBindGroupLayout[]", "WGPUBindGroupLayoutDescriptor *"),
    *("WGPUBindGroupLayoutEntry *", "WGPUBindGroupLayoutEntry[]", "WGPUBufferBindingLayout *"),
    *("WGPUBufferDescriptor *", "WGPUBufferMapCallbackInfo *", "WGPUChainedStruct *"),
    *("WGPUChainedStruct * ", "WGPUCommandBuffer[1]", "WGPUCommandBufferDescriptor *"),
    *("WGPUCommandEncoderDescriptor *", "WGPUComputePassDescriptor *"),
    *("WGPUComputePipelineDescriptor *", "WGPUDeviceDescriptor *", "WGPUDeviceExtras *"),
    *("WGPUDeviceLostCallbackInfo *", "WGPUFeatureName[]", "WGPUInstanceDescriptor *"),
    *("WGPUInstanceExtras *", "WGPULimits *", "WGPUNativeLimits *"),
    *("WGPUPipelineLayoutDescriptor *", "WGPUQueueDescriptor *", "WGPURequestDeviceCallbackInfo *"),
    *("WGPUShaderModuleDescriptor *", "WGPUShaderSourceWGSL *", "WGPUStringView *"),
    "WGPUUncapturedErrorCallbackInfo *",
    "void(WGPUDevice const *, WGPUDeviceLostReason, WGPUStringView, void *, void *)",
    "void(WGPUDevice const *, WGPUErrorType, WGPUStringView, void *, void *)",
    "void(WGPUMapAsyncStatus, WGPUStringView, void *, void *)",
    "void(WGPURequestDeviceStatus, WGPUDevice, WGPUStringView, void *, void *)",
)
"""The texts of the types, as wgpu-py and `native` write them."""


def cache_parsed_types() -> None:
    """Add the types to cffi's cache of parsed types.

    A cffi without the table parses each where it is used.
    """
    ffi: Any = wgpu_native.ffi
    parsed: dict[str, tuple[Any, bool]] | None = getattr(ffi, "_parsed_types", None)
    if parsed is None:
        return
    # The parameters of one function have the types. One that is an array would become a pointer.
    parameters = ", ".join(_parameter_type(text) for text in C_TYPES)
    found = ffi.typeof(f"void(*)({parameters})").args
    for text, type_ in zip(C_TYPES, found, strict=True):
        is_array, is_function = text.endswith("]"), text.endswith(")")
        parsed.setdefault(text, (type_.item if is_array else type_, is_function))


def _parameter_type(text: str) -> str:
    """Return the parsed C type of a parameter: an array becomes a pointer."""
    element, bracket, length = text.partition("[")
    return f"{element}(*)[{length}" if bracket else text
