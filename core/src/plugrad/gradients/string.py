"""Gradients of the string kernels: there are none."""

from plugrad.kernels import string
from plugrad.tape.rules import not_differentiable

not_differentiable(
    string.static_regex_replace,
    string.string_to_hash_bucket_fast,
    string.string_split,
    string.string_n_grams,
    because="text does not change smoothly",
)
