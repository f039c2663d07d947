"""Activations: one pass over the elements, where NumPy takes several."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from plugrad.kernels import activation
from plugrad_cpu.extend import empty, numpy_implementation
from plugrad_native.declare import (
    FLOAT_DTYPES,
    INTEGER_DTYPES,
    MAX_ELEMENTS,
    PART_MULTIPLE_ELEMENTS,
    as_contiguous,
    find_c_functions,
    make_binary_kernel,
    make_unary_kernel,
    parallel_for,
    table,
)

if TYPE_CHECKING:
    from plugrad.extend import Implementation
    from plugrad_native.declare import Array

NUMBER_DTYPES = ("float16", *FLOAT_DTYPES, *INTEGER_DTYPES)
FLOAT_DTYPES_WITH_FLOAT16 = ("float16", *FLOAT_DTYPES)
C_LEAKY_RELU = find_c_functions("leaky_relu", *FLOAT_DTYPES)

numpy_leaky_relu: Final = numpy_implementation(activation.leaky_relu)


@table.implements(activation.leaky_relu)
def leaky_relu(x: Array, *, alpha: float) -> Array:
    """Return x where it is positive, else ``alpha * x``."""
    run = C_LEAKY_RELU.get(x.dtype)
    if run is None or x.size >= MAX_ELEMENTS:
        return numpy_leaky_relu(x, alpha=alpha)
    out = empty(x.shape, x.dtype)
    places = (as_contiguous(x), 1), (out, 1)
    parallel_for(run, places, x.size, alpha, work=x.size, multiple=PART_MULTIPLE_ELEMENTS)
    return out


def make_binary_activation(name: str) -> Implementation:
    """Return the implementation of a kernel of two tensors that has the same name in C."""
    return make_binary_kernel(
        vars(activation)[name],
        find_c_functions(name, *FLOAT_DTYPES_WITH_FLOAT16),
        find_c_functions(name, *FLOAT_DTYPES_WITH_FLOAT16, suffix="_broadcast"),
    )


table.update(
    {
        activation.relu: make_unary_kernel(
            activation.relu, find_c_functions("relu", *NUMBER_DTYPES)
        ),
        activation.relu6: make_unary_kernel(
            activation.relu6, find_c_functions("relu6", *NUMBER_DTYPES)
        ),
        activation.elu: make_unary_kernel(
            activation.elu, find_c_functions("elu", *FLOAT_DTYPES_WITH_FLOAT16)
        ),
        activation.selu: make_unary_kernel(
            activation.selu, find_c_functions("selu", *FLOAT_DTYPES_WITH_FLOAT16)
        ),
        activation.sigmoid: make_unary_kernel(
            activation.sigmoid, find_c_functions("sigmoid", *FLOAT_DTYPES_WITH_FLOAT16)
        ),
        activation.softplus: make_unary_kernel(
            activation.softplus, find_c_functions("softplus", *FLOAT_DTYPES_WITH_FLOAT16)
        ),
        activation.gelu: make_unary_kernel(
            activation.gelu, find_c_functions("gelu", *FLOAT_DTYPES_WITH_FLOAT16)
        ),
        activation.gelu_tanh: make_unary_kernel(
            activation.gelu_tanh, find_c_functions("gelu_tanh", *FLOAT_DTYPES_WITH_FLOAT16)
        ),
        activation.prelu: make_binary_activation("prelu"),
        activation.relu6_gradient: make_binary_activation("relu6_gradient"),
        activation.sigmoid_gradient: make_binary_activation("sigmoid_gradient"),
        activation.elu_gradient: make_binary_activation("elu_gradient"),
        activation.gelu_gradient: make_binary_activation("gelu_gradient"),
        activation.gelu_tanh_gradient: make_binary_activation("gelu_tanh_gradient"),
    }
)
