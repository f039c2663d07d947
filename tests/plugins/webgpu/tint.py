"""Tint, the shader compiler of Chrome, through Dawn, on a device that computes nothing and needs no driver.

It has the limits that WebGPU guarantees, and of the optional features only subgroups.
"""

import ctypes

from pydawn import utils, webgpu


def open_dawn_device():
    options = webgpu.WGPURequestAdapterOptions()
    options.backendType = webgpu.WGPUBackendType_Null
    found = []
    callback = webgpu.WGPURequestAdapterCallbackInfo()
    callback.mode = webgpu.WGPUCallbackMode_WaitAnyOnly
    callback.callback = webgpu.WGPURequestAdapterCallback(
        lambda _status, adapter, _message, _data: found.append(adapter)
    )
    utils.wait(webgpu.wgpuInstanceRequestAdapterF(utils.instance, options, callback))
    received = []
    device_callback = webgpu.WGPURequestDeviceCallbackInfo()
    device_callback.mode = webgpu.WGPUCallbackMode_WaitAnyOnly
    device_callback.callback = webgpu.WGPURequestDeviceCallback(
        lambda _status, device, _message, _data: received.append(device)
    )
    features = (webgpu.WGPUFeatureName * 1)(webgpu.WGPUFeatureName_Subgroups)
    descriptor = webgpu.WGPUDeviceDescriptor()
    descriptor.requiredFeatureCount = len(features)
    descriptor.requiredFeatures = features
    utils.wait(webgpu.wgpuAdapterRequestDeviceF(found[0], descriptor, device_callback))
    return received[0]


def tint_error(device, code, entry_point):
    """Return Tint's error message for an entry point, or None."""
    # This Tint does not know immediates. A buffer that is only read has the same layout, and is as
    # uniform. The bindings of Dawn count characters, not bytes.
    code = code.replace(
        "var<immediate> parameters", "@group(1) @binding(0) var<storage, read> parameters"
    )
    code = code.encode("ascii", "replace").decode()
    if "subgroup" in code:  # wgpu does not know the directive
        code = f"enable subgroups;\n{code}"
    try:
        module = utils.create_shader_module(device, code)
    except RuntimeError as error:
        return str(error)
    descriptor = webgpu.WGPUComputePipelineDescriptor()
    descriptor.compute.module = module
    descriptor.compute.entryPoint = utils.to_wgpu_str(entry_point)
    webgpu.wgpuDevicePushErrorScope(device, webgpu.WGPUErrorFilter_Validation)
    pipeline = webgpu.wgpuDeviceCreateComputePipeline(device, ctypes.byref(descriptor))
    webgpu.wgpuComputePipelineRelease(pipeline)
    webgpu.wgpuShaderModuleRelease(module)
    return utils.pop_error(device)
