"""Gradients of the kernels of text: there are none."""

from plugrad.gradient import not_differentiable
from plugrad.kernels import string

not_differentiable(
    string.static_regex_replace,
    string.string_to_hash_bucket_fast,
    string.string_split,
    string.string_n_grams,
    because="text does not change smoothly",
)
