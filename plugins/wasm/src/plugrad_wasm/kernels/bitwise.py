"""Bitwise kernels, all of which are exports of the module."""

from plugrad.kernels import bitwise
from plugrad_wasm.declare import declare_elementwise_exports

declare_elementwise_exports(bitwise)
