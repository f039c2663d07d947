"""Random numbers: implementations of the core, which are written in NumPy."""

from plugrad.extend import host_bodies
from plugrad.kernels import random
from plugrad_cpu.declare import table

table.update(host_bodies(random))
