"""The ops, which users call. They convert their arguments to the form that the contracts require."""

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
    return contracts.swiglu(*_broadcast_inputs(gate, up))


def geglu(gate: plugrad.Tensor, up: plugrad.Tensor) -> plugrad.Tensor:
    """The gated unit ``gelu(gate) * up``, with broadcasting.

    >>> import plugrad, plugrad_acme_ops
    >>> plugrad_acme_ops.geglu(plugrad.asarray([0.0, 100.0]), plugrad.asarray(2.0))
    tensor([  0., 200.], dtype=float32)

    Args:
        gate: a floating-point tensor.
        up: a tensor of the same dtype.

    Raises:
        ShapeError: the shapes do not broadcast.
        DTypeError: the dtypes differ, or are not floating-point dtypes.
    """
    return contracts.geglu(*_broadcast_inputs(gate, up))


def _broadcast_inputs(*inputs: plugrad.Tensor) -> list[plugrad.Tensor]:
    """Return the inputs in the one shape to which they broadcast."""
    tensors = [plugrad.asarray(x) for x in inputs]
    shape = plugrad.broadcast_shapes(*[x.shape for x in tensors])
    return [plugrad.broadcast_to(x, shape) for x in tensors]
