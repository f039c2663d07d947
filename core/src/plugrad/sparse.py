"""Functions of sparse tensors, which are given as indices, values and a shape."""

from plugrad.ops.sparse import (
    FillEmptyRowsResult as FillEmptyRowsResult,
    SparseReshapeResult as SparseReshapeResult,
    sparse_fill_empty_rows as sparse_fill_empty_rows,
    sparse_reshape as sparse_reshape,
    sparse_segment_mean as sparse_segment_mean,
    sparse_segment_sum as sparse_segment_sum,
)
