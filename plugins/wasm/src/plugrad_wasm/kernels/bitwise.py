"""Bitwise kernels, all of which are exports of the module."""

from plugrad.kernels import bitwise
from plugrad_wasm.declare import declare_exports

declare_exports(bitwise)
