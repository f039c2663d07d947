"""Batching rules of the pooling of volumes: the hidden axis is a part of their batch."""

from plugrad.kernels import pooling3d
from plugrad.registry.batching import fold_batch_rule, register_batching

register_batching(pooling3d.max_pool3d, fold_batch_rule())
register_batching(pooling3d.max_pool3d_gradient, fold_batch_rule())
register_batching(pooling3d.avg_pool3d, fold_batch_rule())
register_batching(pooling3d.avg_pool3d_gradient, fold_batch_rule())
