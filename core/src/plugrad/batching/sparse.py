"""Batching rules of sparse tensors: the only kernel whose shape does not depend on values."""

from plugrad.kernels import sparse
from plugrad.registry.batching import batched_by_loop

batched_by_loop(
    sparse.sparse_reshape,
    because="because one size of the new shape is computed on the host, for one call",
)
