"""Gradients of the pixel kernels: there are none."""

from plugrad.kernels import pixels
from plugrad.tape.rules import not_differentiable

not_differentiable(pixels.from_pixels, pixels.draw, because="bytes do not change smoothly")
