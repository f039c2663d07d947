"""Kernels of recurrent cells: the activations of all gates and the next state in one pass.

Args:
    gates: the gates before their activations, of shape (…, 4 * units): the input gate, the forget gate, the candidate
        and the output gate.
    x: the part of the gates before their activations that depends on the input, of shape (…, 3 * units): the update
        gate, the reset gate and the candidate.
    s: the part that depends on the state, likewise, of the dtype of x.
    c: the memory, of shape (…, units) and the dtype of the gates.
    h: the state, of shape (…, units) and the dtype of x.
    dh: the gradient of the output.
    dc: the gradient of the next memory.
    dy: the gradient of the next state.
"""

from plugrad.contract.kernel import check_same_dtype, kernel
from plugrad.errors import ShapeError
from plugrad.types.dtype import FLOATING
from plugrad.types.specs import Shaped, Spec


@kernel("LSTMCell", accepts=FLOATING)
def lstm_cell(gates: Spec, c: Spec) -> tuple[Spec, Spec]:
    """Return the next output and memory of a cell with long short-term memory (Hochreiter and Schmidhuber, 1997).

    With the gates split into i, f, g and o, the next memory is ``sigmoid(f) * c + sigmoid(i) * tanh(g)``, and the
    output is ``sigmoid(o)`` times its tanh.

    Returns:
        h: the output, of the shape and the dtype of c.
        next_c: the next memory, likewise.
    """
    _check_gates("gates", gates, 4, "c", c)
    state = Shaped(c.shape, check_same_dtype("LSTMCell", gates, c))
    return state, state


@kernel("LSTMCellGrad", accepts=FLOATING)
def lstm_cell_gradient(dh: Spec, dc: Spec, gates: Spec, c: Spec) -> tuple[Spec, Spec]:
    """Return the gradients of `lstm_cell` for the gates and for the memory.

    Returns:
        d_gates: the gradient for the gates, of their shape.
        d_c: the gradient for the memory, of its shape.
    """
    _check_gates("gates", gates, 4, "c", c)
    _check_equal_shapes(c=c, dh=dh, dc=dc)
    dtype = check_same_dtype("LSTMCellGrad", dh, dc, gates, c)
    return Shaped(gates.shape, dtype), Shaped(c.shape, dtype)


@kernel("GRUCell", accepts=FLOATING)
def gru_cell(x: Spec, s: Spec, h: Spec) -> Spec:
    """Return the next state of a gated recurrent unit that resets after the product (Cho et al., 2014).

    With x split into z, r and g, and s into z', r' and g', the next state is ``u * h + (1 - u) * n``, where u is
    ``sigmoid(z + z')`` and n is ``tanh(g + sigmoid(r + r') * g')``.

    Returns:
        the next state, of the shape and the dtype of h.
    """
    _check_gates("x", x, 3, "h", h)
    _check_equal_shapes(x=x, s=s)
    return Shaped(h.shape, check_same_dtype("GRUCell", x, s, h))


@kernel("GRUCellGrad", accepts=FLOATING)
def gru_cell_gradient(dy: Spec, x: Spec, s: Spec, h: Spec) -> tuple[Spec, Spec, Spec]:
    """Return the gradients of `gru_cell` for its inputs.

    Returns:
        d_x: the gradient for x, of its shape.
        d_s: the gradient for s, of its shape.
        d_h: the gradient for h, of its shape.
    """
    _check_gates("x", x, 3, "h", h)
    _check_equal_shapes(x=x, s=s)
    _check_equal_shapes(h=h, dy=dy)
    dtype = check_same_dtype("GRUCellGrad", dy, x, s, h)
    return Shaped(x.shape, dtype), Shaped(x.shape, dtype), Shaped(h.shape, dtype)


def _check_gates(
    gates_name: str, gates: Spec, gate_count: int, state_name: str, state: Spec
) -> None:
    """Raise unless the gates' last axis has the units of the state `gate_count` times."""
    if not state.shape or gates.shape != (*state.shape[:-1], gate_count * state.shape[-1]):
        raise ShapeError(
            f"{gates_name} and {state_name} have shapes {gates.shape} and {state.shape}; they must be "
            f"(…, {gate_count} * units) and (…, units)"
        )


def _check_equal_shapes(**specs: Spec) -> None:
    """Check that all inputs have the shape of the first one."""
    (first, x), *others = specs.items()
    for name, other in others:
        if other.shape != x.shape:
            raise ShapeError(
                f"{first} and {name} have shapes {x.shape} and {other.shape}; they must be equal"
            )
