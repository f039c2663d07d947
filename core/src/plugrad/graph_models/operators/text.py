"""Strings, and sparse and ragged tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugrad.graph_models.registry import register_operator
from plugrad.ops import ragged, sparse, string

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plugrad.tensor.tensor import Tensor


@register_operator("StaticRegexReplace")
def regex_replace(x: Tensor, *, pattern: str, rewrite: str, replace_global: bool = True) -> Tensor:
    """Replace matches of a regular expression."""
    return string.static_regex_replace(x, pattern, rewrite, replace_global)


@register_operator("StringToHashBucketFast")
def string_to_hash_bucket(x: Tensor, *, num_buckets: int) -> Tensor:
    """Hash each string into one of `num_buckets` buckets."""
    return string.string_to_hash_bucket_fast(x, num_buckets)


@register_operator("StringSplit", output_names=("indices", "values", "shape"))
def split_strings(x: Tensor, delimiter: Tensor, *, skip_empty: bool = True) -> tuple[Tensor, ...]:
    """Split strings at a delimiter into a sparse tensor."""
    return string.string_split(x, delimiter, skip_empty)


@register_operator("StringNGrams", output_names=("ngrams", "ngrams_splits"))
def n_grams(
    data: Tensor, splits: Tensor, *, separator: str, ngram_widths: Sequence[int], left_pad: str, right_pad: str,
    pad_width: int, preserve_short_sequences: bool,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Join neighbouring strings into n-grams."""
    return string.string_n_grams(
        data, splits, separator, ngram_widths, left_pad, right_pad, pad_width, preserve_short_sequences
    )  # fmt: skip


@register_operator(
    "SparseFillEmptyRows",
    output_names=("output_indices", "output_values", "empty_row_indicator", "reverse_index_map"),
)
def sparse_fill_empty_rows(
    indices: Tensor, values: Tensor, dense_shape: Tensor, default: Tensor
) -> tuple[Tensor, ...]:
    """Give each empty row of a sparse tensor one default element."""
    return sparse.sparse_fill_empty_rows(indices, values, dense_shape, default)


@register_operator("SparseReshape", output_names=("output_indices", "output_shape"))
def sparse_reshape(indices: Tensor, shape: Tensor, new_shape: Tensor) -> tuple[Tensor, ...]:
    """Reshape a sparse tensor."""
    return sparse.sparse_reshape(indices, shape, new_shape)


@register_operator("SparseSegmentMean")
def sparse_segment_mean(data: Tensor, indices: Tensor, segments: Tensor) -> Tensor:
    """Return the mean of the rows of each segment."""
    return sparse.sparse_segment_mean(data, indices, segments)


@register_operator("SparseSegmentSum")
def sparse_segment_sum(data: Tensor, indices: Tensor, segments: Tensor) -> Tensor:
    """Return the sum of the rows of each segment."""
    return sparse.sparse_segment_sum(data, indices, segments)


@register_operator("RaggedGather", output_names=("output_nested_splits", "output_dense_values"))
def ragged_gather(*inputs: Tensor, output_ragged_rank: int) -> tuple[Tensor, ...]:
    """Return rows of a ragged tensor."""
    *splits, values, indices = inputs
    found = ragged.ragged_gather(splits, values, indices, output_ragged_rank)
    return (*found.output_nested_splits, found.output_dense_values)


@register_operator("RaggedRange", output_names=("rt_nested_splits", "rt_dense_values"))
def ragged_range(starts: Tensor, limits: Tensor, deltas: Tensor) -> tuple[Tensor, ...]:
    """Return ranges of different lengths as a ragged tensor."""
    return ragged.ragged_range(starts, limits, deltas)


@register_operator("RaggedTensorToTensor")
def ragged_tensor_to_tensor(
    shape: Tensor, values: Tensor, default: Tensor, *partitions: Tensor, row_partition_types: Sequence[str]
) -> Tensor:  # fmt: skip
    """Convert a ragged tensor to a dense one; short rows are padded."""
    return ragged.ragged_tensor_to_tensor(shape, values, default, partitions, row_partition_types)
