"""Convolutions that add a bias and limit their results before they store them.

A product is left alone: the loop over what follows it also makes the calls behind a bias and an activation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from plugrad.extend import float32
from plugrad.kernels import activation, binary, convolution, depthwise, fused
from plugrad_native.kernels.fused import CLAMPING_ACTIVATIONS
from plugrad_native.programs.calls import get_inputs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from plugrad.extend import Call, Kernel, Shaped, Value

_FUSED_CONVOLUTIONS: Final = frozenset({fused.conv2d, fused.depthwise_conv2d})
_EPILOGUE_KERNELS: Final[frozenset[Kernel[..., Any]]] = frozenset(
    {
        *(convolution.conv2d, depthwise.depthwise_conv2d, *_FUSED_CONVOLUTIONS),
        *(binary.add, activation.relu, activation.relu6),
    }
)


def can_join_epilogue(call: Call, specs: Mapping[Value, Shaped]) -> bool:
    """Return whether a call is a convolution, or an epilogue of one, that C computes in one pass."""
    spec = specs[call.outputs[0]]
    if call.kernel not in _EPILOGUE_KERNELS or spec.dtype is not float32:
        return False
    if call.kernel not in _FUSED_CONVOLUTIONS:
        return True
    _, _, *bias = get_inputs(call)
    is_clamped = call.attrs["activation"] in CLAMPING_ACTIVATIONS
    return is_clamped and all(specs[v].shape == spec.shape[-1:] for v in bias)
