"""Gradients of the kernels that make tensors: they look at shapes, never at values."""

from plugrad.gradient import not_differentiable
from plugrad.kernels import creation

not_differentiable(
    creation.zeros_like, creation.ones_like, because="the values of the input do not matter"
)
not_differentiable(
    creation.fill,
    creation.range,
    creation.linspace,
    because="there are no tensors among the inputs",
)
