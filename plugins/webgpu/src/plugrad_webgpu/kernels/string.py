"""Strings: the implementations that core has for every backend, on the host."""

from plugrad.extend import host_implementations
from plugrad.kernels import string
from plugrad_webgpu.declare import table

table.update(host_implementations(string), on_host=True)
