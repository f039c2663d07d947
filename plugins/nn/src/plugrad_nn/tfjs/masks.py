"""Masks of sequences in graphs of layers: a mask that Keras passes beside a tensor is a node of its own here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import plugrad

if TYPE_CHECKING:
    from plugrad import Tensor


@dataclass(frozen=True)
class NonzeroMask:
    """A mask that is true where integers are not 0, the index of padding."""

    def __call__(self, x: Any) -> Tensor:
        """Return bools of the shape of x."""
        return plugrad.asarray(x) != 0


@dataclass(frozen=True)
class ValueMask:
    """A mask that is false for the elements of sequences in which every feature equals `value`."""

    value: float

    def __call__(self, x: Any) -> Tensor:
        """Return bools of the shape of x without its last axis."""
        return plugrad.any(plugrad.asarray(x) != self.value, axis=-1)


@dataclass(frozen=True)
class Masking:
    """Sequences with zeros in place of the elements that `ValueMask` masks."""

    value: float

    def __call__(self, x: Any) -> Tensor:
        """Return the result, of the shape of x."""
        x = plugrad.asarray(x)
        present = plugrad.any(x != self.value, axis=-1, keepdims=True)
        return x * plugrad.astype(present, x.dtype)
