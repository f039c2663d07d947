"""Batching rules of the pooling of volumes: the hidden axis is a part of their batch."""

from plugrad.kernels import pooling3d
from plugrad.registry.batching import folding, register_batching

register_batching(pooling3d.max_pool3d, folding())
register_batching(pooling3d.max_pool3d_gradient, folding())
register_batching(pooling3d.avg_pool3d, folding())
register_batching(pooling3d.avg_pool3d_gradient, folding())
