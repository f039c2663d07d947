"""Batching rules of kernels that order elements."""

from plugrad.kernels import sorting
from plugrad.registry.batching import register_batching, run_with_leading_axis, shift_axes_rule

register_batching(sorting.sort, shift_axes_rule("axis"))
register_batching(sorting.argsort, shift_axes_rule("axis"))
register_batching(sorting.top_k, run_with_leading_axis)
register_batching(sorting.search_sorted, run_with_leading_axis)
register_batching(sorting.lower_bound, run_with_leading_axis)
register_batching(sorting.upper_bound, run_with_leading_axis)
