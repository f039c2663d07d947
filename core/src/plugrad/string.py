"""Functions of strings: replacing, splitting, hashing, and joining to n-grams."""

from plugrad.ops.string import (
    NGramsResult as NGramsResult,
    StringSplitResult as StringSplitResult,
    static_regex_replace as static_regex_replace,
    string_n_grams as string_n_grams,
    string_split as string_split,
    string_to_hash_bucket_fast as string_to_hash_bucket_fast,
)
