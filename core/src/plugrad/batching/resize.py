"""Batching rules of kernels that change the size of images: the hidden axis is a part of their batch."""

from plugrad.kernels import resize
from plugrad.registry.batching import fold_batch_rule, register_batching

register_batching(resize.resize_bilinear, fold_batch_rule())
register_batching(resize.resize_bilinear_gradient, fold_batch_rule())
register_batching(resize.resize_nearest_neighbor, fold_batch_rule())
register_batching(resize.resize_nearest_neighbor_gradient, fold_batch_rule())
