"""Activations: one pass over the elements, where NumPy takes several."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from plugrad.kernels import activation
from plugrad_native.declare import (
    FLOATS,
    LIMIT,
    combined,
    dense,
    exports,
    in_numpy,
    mapped,
    table,
)

if TYPE_CHECKING:
    from plugrad_native.declare import Array

NUMBERS = (*FLOATS, "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
LEAKY_RELU = exports("leaky_relu", *FLOATS)

numpy_leaky_relu = in_numpy(activation.leaky_relu)


@table.implements(activation.leaky_relu)
def leaky_relu(x: Array, *, alpha: float) -> Array:
    """Return x where it is positive, else ``alpha * x``."""
    run = LEAKY_RELU.get(x.dtype)
    if run is None or x.size >= LIMIT:
        return numpy_leaky_relu(x, alpha=alpha)
    out = np.empty(x.shape, x.dtype)
    run(dense(x), out, x.size, alpha)
    return out


table.update(
    {
        activation.relu: mapped(activation.relu, exports("relu", *NUMBERS)),
        activation.relu6: mapped(activation.relu6, exports("relu6", *NUMBERS)),
        activation.elu: mapped(activation.elu, exports("elu", *FLOATS)),
        activation.selu: mapped(activation.selu, exports("selu", *FLOATS)),
        activation.sigmoid: mapped(activation.sigmoid, exports("sigmoid", *FLOATS)),
        activation.softplus: mapped(activation.softplus, exports("softplus", *FLOATS)),
        activation.prelu: combined(activation.prelu, exports("prelu", *FLOATS)),
        activation.elu_gradient: combined(
            activation.elu_gradient, exports("elu_gradient", *FLOATS)
        ),
    }
)
