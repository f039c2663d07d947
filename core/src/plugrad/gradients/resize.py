"""Gradients of resizing, which is linear: each kernel of a pair is the transpose of the other."""

# The parameters of lambdas cannot be annotated.
# pyright: reportUnknownMemberType=false

from plugrad.kernels import resize
from plugrad.tape.rules import gradient

gradient(
    resize.resize_bilinear,
    images=lambda dy, images, attrs: resize.resize_bilinear_gradient(images, dy, **attrs),
)
gradient(resize.resize_bilinear_gradient, dy=lambda dy, attrs: resize.resize_bilinear(dy, **attrs))
gradient(
    resize.resize_nearest_neighbor,
    images=lambda dy, images, attrs: resize.resize_nearest_neighbor_gradient(images, dy, **attrs),
)
gradient(
    resize.resize_nearest_neighbor_gradient,
    dy=lambda dy, attrs: resize.resize_nearest_neighbor(dy, **attrs),
)
