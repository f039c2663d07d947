"""Bitwise kernels: all of them are in C."""

from plugrad.kernels import bitwise
from plugrad_wasm.declare import declare_exports

declare_exports(bitwise)
