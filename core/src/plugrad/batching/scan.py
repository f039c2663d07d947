"""Batching rules of running sums and products, whose axis is one further back."""

from plugrad.kernels import scan
from plugrad.registry.batching import register_batching, shift_axes_rule

register_batching(scan.cumsum, shift_axes_rule("axis"))
register_batching(scan.cumprod, shift_axes_rule("axis"))
