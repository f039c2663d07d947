"""Gradients of pixels: there are none."""

from plugrad.gradient import not_differentiable
from plugrad.kernels import pixels

not_differentiable(pixels.from_pixels, pixels.draw, because="bytes do not change smoothly")
