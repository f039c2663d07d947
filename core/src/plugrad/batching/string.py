"""Batching rules of kernels of text that treat each string alike."""

from plugrad.kernels import string
from plugrad.registry.batching import register_batching, run_with_leading_axis

register_batching(string.static_regex_replace, run_with_leading_axis)
register_batching(string.string_to_hash_bucket_fast, run_with_leading_axis)
