"""Batching rules of the kernels between images and bytes: the examples are stacked along the height of one image."""

from plugrad.kernels import pixels
from plugrad.registry.batching import fold_batch_rule, register_batching

register_batching(pixels.from_pixels, fold_batch_rule())
register_batching(pixels.draw, fold_batch_rule())
