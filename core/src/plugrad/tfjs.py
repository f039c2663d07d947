"""Weights in the form of TensorFlow.js."""

from plugrad.saving.tfjs_weights import (
    decode_weights as decode_weights,
    encode_weights as encode_weights,
    read_weights as read_weights,
    write_weights as write_weights,
)
