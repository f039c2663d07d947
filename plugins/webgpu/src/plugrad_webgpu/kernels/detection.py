"""The selection of boxes: the implementations that core has for every backend, on the host."""

from plugrad.extend import host_bodies
from plugrad.kernels import detection
from plugrad_webgpu.declare import table

table.update(host_bodies(detection), on_host=True)
