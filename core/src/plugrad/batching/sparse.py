"""The batching rule of the only sparse kernel whose result has a shape that does not depend on values."""

from plugrad.kernels import sparse
from plugrad.registry.batching import batched_by_loop

batched_by_loop(
    sparse.sparse_reshape,
    because="because one size of the new shape is computed on the host, for one call",
)
