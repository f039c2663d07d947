"""The bodies, composed of ops: they run on every backend for which this package has no implementation."""

import plugrad
from plugrad.extend import composite
from plugrad_acme_ops import contracts


@composite(contracts.swiglu)
def swiglu(gate: plugrad.Tensor, up: plugrad.Tensor) -> plugrad.Tensor:
    """Return ``gate * sigmoid(gate) * up``; the gradient is that of `gradients.py`, as on all backends."""
    return gate * plugrad.sigmoid(gate) * up


@composite(contracts.geglu)
def geglu(gate: plugrad.Tensor, up: plugrad.Tensor) -> plugrad.Tensor:
    """Return ``gelu(gate) * up``; the kernel has no gradient of its own, so this body is differentiated."""
    return plugrad.gelu(gate) * up
