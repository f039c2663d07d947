"""Random numbers: implementations of the core, which run on the host."""

from plugrad.extend import host_bodies
from plugrad.kernels import random
from plugrad_wasm.declare import table

table.update(host_bodies(random), on_host=True)
