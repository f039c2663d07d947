"""Random draws: what core has for every backend, which is NumPy already."""

from plugrad.extend import host_bodies
from plugrad.kernels import random
from plugrad_cpu.declare import table

table.update(host_bodies(random))
