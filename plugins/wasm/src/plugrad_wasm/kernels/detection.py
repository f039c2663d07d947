"""The selection of boxes: what core has for every backend, on the host."""

from plugrad.extend import host_bodies
from plugrad.kernels import detection
from plugrad_wasm.declare import table

table.update(host_bodies(detection), on_host=True)
