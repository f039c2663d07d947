"""Strings: implementations of the core, which run on the host."""

from plugrad.extend import host_implementations
from plugrad.kernels import string
from plugrad_wasm.declare import table

table.update(host_implementations(string), on_host=True)
