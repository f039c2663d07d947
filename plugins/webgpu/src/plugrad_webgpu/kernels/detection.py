"""The selection of boxes: the implementations that core has for every backend, on the host."""

from plugrad.extend import host_implementations
from plugrad.kernels import detection
from plugrad_webgpu.declare import table

table.update(host_implementations(detection), on_host=True)
