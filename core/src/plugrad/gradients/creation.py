"""Gradients of the kernels that make tensors: they look at shapes, never at values."""

from plugrad.gradient import not_differentiable
from plugrad.kernels import creation

not_differentiable(creation.zeros_like, creation.ones_like)
not_differentiable(creation.fill, creation.range, creation.linspace)
