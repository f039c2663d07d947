"""Activations: one pass over the elements, where NumPy takes several."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from plugrad.kernels import activation
from plugrad_cpu.extend import empty, numpy_implementation
from plugrad_native.declare import (
    FLOATS,
    GROUP,
    INTEGERS,
    LIMIT,
    combined,
    dense,
    exports,
    in_parts,
    mapped,
    table,
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
    if run is None or x.size >= LIMIT:
        return numpy_leaky_relu(x, alpha=alpha)
    out = empty(x.shape, x.dtype)
    places = (dense(x), 1), (out, 1)
    in_parts(run, places, x.size, alpha, work=x.size, multiple=GROUP)
    return out


def combined_of(name: str) -> Implementation:
    """Return the implementation of a kernel of two tensors, whose name in C is that in Python."""
    return combined(
        vars(activation)[name], exports(name, *HALVES), exports(name, *HALVES, suffix="_broadcast")
    )


table.update(
    {
        activation.relu: mapped(activation.relu, exports("relu", *NUMBERS)),
        activation.relu6: mapped(activation.relu6, exports("relu6", *NUMBERS)),
        activation.elu: mapped(activation.elu, exports("elu", *HALVES)),
        activation.selu: mapped(activation.selu, exports("selu", *HALVES)),
        activation.sigmoid: mapped(activation.sigmoid, exports("sigmoid", *HALVES)),
        activation.softplus: mapped(activation.softplus, exports("softplus", *HALVES)),
        activation.gelu: mapped(activation.gelu, exports("gelu", *HALVES)),
        activation.gelu_tanh: mapped(activation.gelu_tanh, exports("gelu_tanh", *HALVES)),
        activation.prelu: combined_of("prelu"),
        activation.relu6_gradient: combined_of("relu6_gradient"),
        activation.sigmoid_gradient: combined_of("sigmoid_gradient"),
        activation.elu_gradient: combined_of("elu_gradient"),
        activation.gelu_gradient: combined_of("gelu_gradient"),
        activation.gelu_tanh_gradient: combined_of("gelu_tanh_gradient"),
    }
)
