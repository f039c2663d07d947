"""Batching rules of kernels of text that treat each string alike."""

from plugrad.kernels import string
from plugrad.registry.batching import leading, register_batching

register_batching(string.static_regex_replace, leading)
register_batching(string.string_to_hash_bucket_fast, leading)
