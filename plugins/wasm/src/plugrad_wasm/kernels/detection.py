"""Selection of boxes: implementations of the core, which run on the host."""

from plugrad.extend import host_bodies
from plugrad.kernels import detection
from plugrad_wasm.declare import table

table.update(host_bodies(detection), on_host=True)
