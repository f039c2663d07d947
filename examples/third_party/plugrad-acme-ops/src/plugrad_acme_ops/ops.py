"""The op, which users call. It converts its arguments to the form that the contract requires."""

import plugrad
from plugrad_acme_ops import contracts


def swiglu(gate: plugrad.Tensor, up: plugrad.Tensor) -> plugrad.Tensor:
    """The gated unit ``gate * sigmoid(gate) * up``, with broadcasting.

    >>> import plugrad, plugrad_acme_ops
    >>> plugrad_acme_ops.swiglu(plugrad.asarray([[0.0], [100.0]]), plugrad.asarray([1.0, 2.0]))
    tensor([[  0.,   0.],
            [100., 200.]], dtype=float32)

    Args:
        gate: a floating-point tensor.
        up: a tensor of the same dtype.

    Raises:
        ShapeError: the shapes do not broadcast.
        DTypeError: the dtypes differ, or are not floating-point dtypes.
    """
    gate, up = plugrad.asarray(gate), plugrad.asarray(up)
    shape = plugrad.broadcast_shapes(gate.shape, up.shape)
    return contracts.swiglu(plugrad.broadcast_to(gate, shape), plugrad.broadcast_to(up, shape))
