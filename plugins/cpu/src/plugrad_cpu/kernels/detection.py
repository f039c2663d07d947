"""The selection of boxes: what core has for every backend, which is NumPy already."""

from plugrad.extend import host_bodies
from plugrad.kernels import detection
from plugrad_cpu.declare import table

table.update(host_bodies(detection))
