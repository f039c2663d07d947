"""Selection of boxes: implementations of the core, which run on the host."""

from plugrad.extend import host_implementations
from plugrad.kernels import detection
from plugrad_wasm.declare import table

table.update(host_implementations(detection), on_host=True)
