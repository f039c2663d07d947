"""Epilogues: convolutions that add a bias and limit their results, and products that are added to other arrays.

Other products are left alone: the loop over what follows them also makes the calls behind a bias and an activation.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from plugrad.extend import Call, float32
from plugrad.kernels import activation, binary, convolution, depthwise, fused, linalg
from plugrad_native.kernels.fused import CLAMPING_ACTIVATIONS
from plugrad_native.programs.calls import get_inputs
from plugrad_native.programs.lowering import lower_call

if TYPE_CHECKING:
    from collections.abc import Mapping

    from plugrad.extend import Graph, Kernel, Shaped, Value

_FUSED_CONVOLUTIONS: Final = frozenset({fused.conv2d, fused.depthwise_conv2d})
"""The kernels of convolutions with a bias and an activation."""
_EPILOGUE_KERNELS: Final[frozenset[Kernel[..., Any]]] = frozenset(
    {
        *(convolution.conv2d, depthwise.depthwise_conv2d, *_FUSED_CONVOLUTIONS),
        *(binary.add, activation.relu, activation.relu6),
    }
)
"""The kernels of convolutions, and of the elementwise calls that C computes with them."""


def can_join_epilogue(
    call: Call, specs: Mapping[Value, Shaped], accumulators: Mapping[Value, Value | None]
) -> bool:
    """Return whether a kernel call is a product, a convolution or an epilogue that C computes in one pass.

    `find_accumulators` returns the accumulators.
    """
    spec = specs[call.outputs[0]]
    if call.kernel is linalg.matmul:
        return spec.dtype is float32
    if call.kernel is fused.matmul:
        return _is_accumulated(call, accumulators) and lower_call(call, specs) is not None
    if call.kernel not in _EPILOGUE_KERNELS or spec.dtype is not float32:
        return False
    if call.kernel not in _FUSED_CONVOLUTIONS:
        return True
    _, _, *bias = get_inputs(call)
    is_clamped = call.attrs["activation"] in CLAMPING_ACTIVATIONS
    return is_clamped and all(specs[v].shape == spec.shape[-1:] for v in bias)


def find_accumulators(graph: Graph, carry_count: int) -> dict[Value, Value | None]:
    """Return the values that only one call reads, so that a product may be added to them in place.

    Such are the results of other products, and the carry of a loop: the first `carry_count` arguments, each of which
    is mapped to the result that it must become.
    """
    reads = Counter(v for step in graph.steps for v in step.inputs)
    found: dict[Value, Value | None] = {
        step.outputs[0]: None
        for step in graph.steps
        if isinstance(step, Call) and step.kernel in (linalg.matmul, fused.matmul)
    }
    for value, following in zip(graph.arguments[:carry_count], graph.results, strict=False):
        if graph.results.count(following) == 1:
            found[value] = following
    return {v: end for v, end in found.items() if reads[v] == 1 and v not in graph.results}


def find_accumulated_products(graph: Graph, carry_count: int = 0) -> dict[Value, Value]:
    """Return by result of a product the value to which the product is added in place."""
    accumulators = find_accumulators(graph, carry_count)
    return {
        step.outputs[0]: step.inputs[2]
        for step in graph.steps
        if isinstance(step, Call)
        and step.kernel is fused.matmul
        and step.inputs[2] is not None
        and _is_accumulated(step, accumulators)
    }


def _is_accumulated(call: Call, accumulators: Mapping[Value, Value | None]) -> bool:
    """Return whether a call's product may be added in place to its bias, as one of the `accumulators`."""
    bias = call.inputs[2]
    if bias is None or bias not in accumulators:
        return False
    return accumulators[bias] in (None, call.outputs[0])
