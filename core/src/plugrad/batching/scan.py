"""Batching rules of running sums and products, whose axis is one further back."""

from plugrad.kernels import scan
from plugrad.registry.batching import along, register_batching

register_batching(scan.cumsum, along("axis"))
register_batching(scan.cumprod, along("axis"))
