"""Pictures in and out: what core has for every backend, which is NumPy already."""

from plugrad.extend import host_bodies
from plugrad.kernels import pixels
from plugrad_cpu.declare import table

table.update(host_bodies(pixels))
