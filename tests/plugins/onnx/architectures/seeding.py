"""Weights of ONNX models by their names, so that files need not have them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

SEEDED_MIN_ELEMENTS = 8
"""How many numbers a weight has at least; with fewer, it is a constant of the network."""
FLOAT_DATA_TYPE = 1
"""ONNX's number for float32."""


def is_seeded(tensor: Any) -> bool:
    """Whether `seeded_weights` replaces an initializer."""
    return tensor.data_type == FLOAT_DATA_TYPE and int(np.prod(tensor.dims)) >= SEEDED_MIN_ELEMENTS


def input_image(network: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Return the input image of a network."""
    return np.random.default_rng(crc32(network.encode())).normal(size=shape).astype(np.float32)


def seeded_weights(name: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Return random weights that preserve the scale of activations; vectors are positive, as variances are."""
    rng = np.random.default_rng(crc32(name.encode()))
    if len(shape) == 1:
        return rng.uniform(0.5, 1.5, shape).astype(np.float32)
    scale = (2 / max(int(np.prod(shape)) // max(shape[0], shape[-1]), 1)) ** 0.5
    return rng.normal(0, scale, shape).astype(np.float32)
