"""Activations: one pass over the elements, where NumPy takes several."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from plugrad.kernels import activation
from plugrad_cpu.extend import empty, numpy_implementation
from plugrad_native.declare import (
    BLOCK,
    FLOATS,
    INTEGERS,
    MAX_ELEMENTS,
    as_contiguous,
    binary_kernel,
    exports,
    parallel_for,
    table,
    unary_kernel,
)

if TYPE_CHECKING:
    from plugrad.extend import Implementation
    from plugrad_native.declare import Array

NUMBERS = ("float16", *FLOATS, *INTEGERS)
HALVES = ("float16", *FLOATS)
LEAKY_RELU = exports("leaky_relu", *FLOATS)

numpy_leaky_relu: Final = numpy_implementation(activation.leaky_relu)


@table.implements(activation.leaky_relu)
def leaky_relu(x: Array, *, alpha: float) -> Array:
    """Return x where it is positive, else ``alpha * x``."""
    run = LEAKY_RELU.get(x.dtype)
    if run is None or x.size >= MAX_ELEMENTS:
        return numpy_leaky_relu(x, alpha=alpha)
    out = empty(x.shape, x.dtype)
    places = (as_contiguous(x), 1), (out, 1)
    parallel_for(run, places, x.size, alpha, work=x.size, multiple=BLOCK)
    return out


def declare_binary(name: str) -> Implementation:
    """Declare a kernel of two tensors that has the same name in C and in Python."""
    return binary_kernel(
        vars(activation)[name], exports(name, *HALVES), exports(name, *HALVES, suffix="_broadcast")
    )


table.update(
    {
        activation.relu: unary_kernel(activation.relu, exports("relu", *NUMBERS)),
        activation.relu6: unary_kernel(activation.relu6, exports("relu6", *NUMBERS)),
        activation.elu: unary_kernel(activation.elu, exports("elu", *HALVES)),
        activation.selu: unary_kernel(activation.selu, exports("selu", *HALVES)),
        activation.sigmoid: unary_kernel(activation.sigmoid, exports("sigmoid", *HALVES)),
        activation.softplus: unary_kernel(activation.softplus, exports("softplus", *HALVES)),
        activation.gelu: unary_kernel(activation.gelu, exports("gelu", *HALVES)),
        activation.gelu_tanh: unary_kernel(activation.gelu_tanh, exports("gelu_tanh", *HALVES)),
        activation.prelu: declare_binary("prelu"),
        activation.relu6_gradient: declare_binary("relu6_gradient"),
        activation.sigmoid_gradient: declare_binary("sigmoid_gradient"),
        activation.elu_gradient: declare_binary("elu_gradient"),
        activation.gelu_gradient: declare_binary("gelu_gradient"),
        activation.gelu_tanh_gradient: declare_binary("gelu_tanh_gradient"),
    }
)
