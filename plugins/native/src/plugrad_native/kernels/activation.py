"""Activations: one pass over the elements, where NumPy takes several."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from plugrad.kernels import activation
from plugrad_cpu.extend import empty, numpy_implementation
from plugrad_native.declare import (
    FLOAT_DTYPES,
    INTEGER_DTYPES,
    MAX_ELEMENTS,
    PART_SIZE_MULTIPLE,
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
"""The names of the dtypes of integers and floats, except bfloat16."""
FLOAT_DTYPES_WITH_FLOAT16 = ("float16", *FLOAT_DTYPES)
"""The names of the dtypes of floats, except bfloat16."""
C_LEAKY_RELU = find_c_functions("leaky_relu", *FLOAT_DTYPES)
"""The C functions ``leaky_relu_…``, by dtype."""

numpy_leaky_relu: Final = numpy_implementation(activation.leaky_relu)
"""NumPy's implementation of the kernel `leaky_relu`."""


@table.implements(activation.leaky_relu)
def leaky_relu(x: Array, *, alpha: float) -> Array:
    """Return x where it is positive, else ``alpha * x``."""
    run = C_LEAKY_RELU.get(x.dtype)
    if run is None or x.size >= MAX_ELEMENTS:
        return numpy_leaky_relu(x, alpha=alpha)
    out = empty(x.shape, x.dtype)
    places = (as_contiguous(x), 1), (out, 1)
    parallel_for(run, places, x.size, alpha, work=x.size, part_size_multiple=PART_SIZE_MULTIPLE)
    return out


def make_unary_activation(name: str, *dtypes: str) -> Implementation:
    """Return the implementation of the kernel of one tensor called `name`, as its C functions are."""
    return make_unary_kernel(vars(activation)[name], find_c_functions(name, *dtypes))


def make_binary_activation(name: str) -> Implementation:
    """Return the implementation of the kernel of two tensors called `name`, as its C functions are."""
    return make_binary_kernel(
        vars(activation)[name],
        find_c_functions(name, *FLOAT_DTYPES_WITH_FLOAT16),
        find_c_functions(name, *FLOAT_DTYPES_WITH_FLOAT16, suffix="_broadcast"),
    )


ACTIVATIONS_OF_NUMBERS: Final = ("relu", "relu6")
"""Names of the activations that take integers and floats."""
ACTIVATIONS_OF_FLOATS: Final = ("elu", "selu", "sigmoid", "silu", "softplus", "gelu", "gelu_tanh")
"""Names of the activations that take floats."""
BINARY_ACTIVATIONS: Final = (
    *("prelu", "relu6_gradient", "sigmoid_gradient", "silu_gradient"),
    *("elu_gradient", "gelu_gradient", "gelu_tanh_gradient"),
)
"""Names of the activations and gradients that take two tensors."""

table.update(
    {
        **{
            vars(activation)[name]: make_unary_activation(name, *NUMBER_DTYPES)
            for name in ACTIVATIONS_OF_NUMBERS
        },
        **{
            vars(activation)[name]: make_unary_activation(name, *FLOAT_DTYPES_WITH_FLOAT16)
            for name in ACTIVATIONS_OF_FLOATS
        },
        **{vars(activation)[name]: make_binary_activation(name) for name in BINARY_ACTIVATIONS},
    }
)
