"""Gradients of the kernels that make tensors: they look at shapes, never at values."""

from plugrad.kernels import creation
from plugrad.tape.rules import not_differentiable

not_differentiable(
    creation.zeros_like, creation.ones_like, because="the values of the input do not matter"
)
not_differentiable(
    creation.fill,
    creation.range,
    creation.linspace,
    because="there are no tensors among the inputs",
)
