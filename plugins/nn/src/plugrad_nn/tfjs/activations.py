"""The names that Keras has for functions of activations."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import plugrad

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugrad import Tensor

    Function: TypeAlias = Callable[[Any], Tensor]
    """A function of a tensor."""


def hard_sigmoid(x: Any) -> Tensor:
    """Keras 2's piecewise linear approximation of the logistic function: ``x / 5 + 1 / 2`` clipped to [0, 1].

    >>> from plugrad_nn import tfjs
    >>> tfjs.hard_sigmoid(plugrad.asarray([-3.0, 0.0, 1.0, 3.0])).tolist()
    [0.0, 0.5, 0.699999988079071, 1.0]

    `plugrad.hard_sigmoid` is ``x / 6 + 1 / 2``, as others have it.
    """
    return plugrad.clip(plugrad.asarray(x) * 0.2 + 0.5, 0.0, 1.0)


approximate_gelu: Final = partial(plugrad.gelu, approximate=True)
ACTIVATIONS_BY_KERAS_NAME: Final[dict[str, Function]] = {
    "elu": plugrad.elu,
    "exponential": plugrad.exp,
    "gelu": plugrad.gelu,
    "gelu_new": approximate_gelu,
    "hard_sigmoid": hard_sigmoid,
    "log_softmax": plugrad.log_softmax,
    "mish": plugrad.mish,
    "relu": plugrad.relu,
    "relu6": plugrad.relu6,
    "selu": plugrad.selu,
    "sigmoid": plugrad.sigmoid,
    "softmax": plugrad.softmax,
    "softplus": plugrad.softplus,
    "softsign": plugrad.softsign,
    "swish": plugrad.silu,
    "tanh": plugrad.tanh,
}
"""Activation functions by their name in Keras, except "linear"."""


def activation_name(function: Any) -> str:
    """Return Keras's name of an activation function, or an empty string if it has none."""
    if function is None:
        return "linear"
    return next(
        (name for name, known in ACTIVATIONS_BY_KERAS_NAME.items() if known is function), ""
    )
