"""Batching rules of kernels that order elements."""

from plugrad.kernels import sorting
from plugrad.registry.batching import along, leading, register_batching

register_batching(sorting.sort, along("axis"))
register_batching(sorting.argsort, along("axis"))
register_batching(sorting.top_k, leading)
register_batching(sorting.search_sorted, leading)
register_batching(sorting.lower_bound, leading)
register_batching(sorting.upper_bound, leading)
