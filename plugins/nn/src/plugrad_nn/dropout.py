"""Dropout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import plugrad
from plugrad_nn.arguments import check_number
from plugrad_nn.layer import INFERENCE, Layer, Mode, Training

if TYPE_CHECKING:
    from plugrad import Tensor
    from plugrad_nn.parameters import Params


@dataclass(frozen=True, repr=False)
class Dropout(Layer):
    """In training, random elements set to 0 and the others divided by ``1 - rate`` (Srivastava et al., 2014).

    >>> layer = nn.Dropout(0.5)
    >>> layer({}, plugrad.ones((1, 4)))
    tensor([[1., 1., 1., 1.]], dtype=float32)
    >>> sorted(set(layer({}, plugrad.ones((1, 99)), nn.Training(seed=0))[0].tolist()))
    [0.0, 2.0]

    Args:
        rate: the probability with which an element is set to 0, at least 0 and less than 1.

    Raises:
        ArgumentError: the rate is not a number.
        ArgumentValueError: it is out of range.
        DTypeError: in a call, the input does not hold floats.
    """

    rate: float

    def __post_init__(self) -> None:
        check_number("Dropout", "rate", self.rate, least=0, below=1)

    def __call__(self, params: Params, x: Any, mode: Mode = INFERENCE) -> Tensor:
        """Return the result, of the shape of x."""
        self.check_mode(mode)
        if isinstance(mode, Training) and self.rate > 0:
            return plugrad.dropout(x, self.rate, seed=mode.generator())
        return plugrad.asarray(x)
