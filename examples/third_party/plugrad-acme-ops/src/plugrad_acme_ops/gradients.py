"""The gradient: one rule per input, composed of ops, so that it runs on every backend and can be differentiated."""

import plugrad
from plugrad.extend import gradient
from plugrad_acme_ops import contracts


def gate_gradient(dy: plugrad.Tensor, gate: plugrad.Tensor, up: plugrad.Tensor) -> plugrad.Tensor:
    """Return dy times the derivative of ``gate * sigmoid(gate)``, times up."""
    s = plugrad.sigmoid(gate)
    return dy * up * (s + gate * s * (1 - s))


def up_gradient(dy: plugrad.Tensor, gate: plugrad.Tensor) -> plugrad.Tensor:
    """Return dy times ``gate * sigmoid(gate)``."""
    return dy * gate * plugrad.sigmoid(gate)


gradient(contracts.swiglu, gate=gate_gradient, up=up_gradient)
