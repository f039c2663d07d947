"""Batching rules of kernels that change the size of images: the hidden axis is a part of their batch."""

from plugrad.kernels import resize
from plugrad.registry.batching import folding, register_batching

register_batching(resize.resize_bilinear, folding())
register_batching(resize.resize_bilinear_gradient, folding())
register_batching(resize.resize_nearest_neighbor, folding())
register_batching(resize.resize_nearest_neighbor_gradient, folding())
