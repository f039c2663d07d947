"""Strings: implementations of the core, which are written in NumPy."""

from plugrad.extend import host_implementations
from plugrad.kernels import string
from plugrad_cpu.declare import table

table.update(host_implementations(string))
