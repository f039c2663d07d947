"""Gradients of the kernels that create tensors: none depends on the values of an input."""

from plugrad.kernels import creation
from plugrad.tape.rules import not_differentiable

not_differentiable(
    creation.zeros_like,
    creation.ones_like,
    because="the result does not depend on the values of the input",
)
not_differentiable(
    creation.fill,
    creation.range,
    creation.linspace,
    because="there are no input tensors",
)
