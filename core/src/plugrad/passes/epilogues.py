"""Epilogues: a bias and an activation behind a product or a convolution are joined to it, as one call of a kernel."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from plugrad.graph.graph import Call, Graph, Step, Value
from plugrad.kernels import activation, binary, convolution, depthwise, fused, linalg
from plugrad.passes.groups import find_readers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from plugrad.contract.kernel import Kernel
    from plugrad.kernels.fused import Activation

_FUSED_KERNEL_OF_PRODUCT: Final[Mapping[Kernel[..., Any], Kernel[..., Any]]] = {
    linalg.matmul: fused.matmul,
    convolution.conv2d: fused.conv2d,
    depthwise.depthwise_conv2d: fused.depthwise_conv2d,
}
"""The kernel that also adds a bias and applies an activation, by that of the product or convolution."""
_NAME_OF_ACTIVATION: Final[Mapping[Kernel[..., Any], Activation]] = {
    activation.relu: "relu",
    activation.relu6: "relu6",
    activation.elu: "elu",
    activation.leaky_relu: "leakyrelu",
    activation.sigmoid: "sigmoid",
}
"""The value of the fused kernels' attribute ``activation``, by the kernel of the activation."""


def fuse_epilogues(graph: Graph, is_included: Callable[[Call], bool]) -> Graph:
    """Return the graph with products and convolutions joined to a bias and an activation that only they feed.

    >>> from plugrad.extend import fuse_epilogues
    >>> layer = lambda x, weights, bias: plugrad.relu(x @ weights + bias)
    >>> graph = plugrad.make_graph(layer)(
    ...     plugrad.ones((2, 3)), plugrad.ones((3, 4)), plugrad.ones(4)
    ... )
    >>> (step,) = fuse_epilogues(graph, lambda call: True).steps
    >>> step.kernel.name, step.attrs["activation"]
    ('_FusedMatMul', 'relu')

    Args:
        graph: the graph.
        is_included: says whether a call may take part: a product or a convolution, what follows it, and what they
            become. If what all of them become may not, the product may still be joined to the bias alone. A bias is
            what is added to the result and broadcasts to it, so it may be a residual of the same shape.
    """
    steps: list[Step | None] = [*graph.steps]
    readers = find_readers(graph)
    for index, step in enumerate(graph.steps):
        if isinstance(step, Call) and step.kernel in _FUSED_KERNEL_OF_PRODUCT and is_included(step):
            epilogue = _EpilogueFinder(graph, steps, readers, is_included)
            for joined, places in epilogue.find_fused_calls(step):
                if is_included(joined):
                    for place in (index, *places):
                        steps[place] = None
                    steps[places[-1]] = joined
                    break
    found = tuple([step for step in steps if step is not None])
    return replace(graph, steps=found) if len(found) < len(steps) else graph


class _EpilogueFinder:
    """Finds the bias and the activation that follow a product."""

    def __init__(
        self,
        graph: Graph,
        steps: Sequence[Step | None],
        readers: Mapping[Value, set[int]],
        is_included: Callable[[Call], bool],
    ) -> None:
        self.specs, self.steps, self.readers = graph.specs, steps, readers
        self.is_included = is_included

    def find_fused_calls(self, product: Call) -> list[tuple[Call, list[int]]]:
        """Return the fused calls that may replace a product, the longest first, each with its steps' indices."""
        found: list[tuple[Call, list[int]]] = []
        (value,) = product.outputs
        bias, places = None, list[int]()
        following = self._find_reader(value)
        if following is not None and following[1].kernel is binary.add:
            place, add = following
            others = [v for v in add.inputs if v != value]
            if len(others) == 1 and self.specs[add.outputs[0]] == self.specs[value]:
                (bias,), (value,) = others, add.outputs
                places.append(place)
                found.append((_make_fused_call(product, bias, value), [*places]))
                following = self._find_reader(value)
        if following is not None and following[1].kernel in _NAME_OF_ACTIVATION:
            place, last = following
            joined = _make_fused_call(product, bias, last.outputs[0], last)
            found.append((joined, [*places, place]))
        return found[::-1]

    def _find_reader(self, value: Value) -> tuple[int, Call] | None:
        """Return the index and the call of the only step that reads a value, or None if it cannot be fused."""
        places = self.readers.get(value, set())
        if len(places) != 1 or (place := min(places)) == len(self.steps):
            return None
        step = self.steps[place]
        return (place, step) if isinstance(step, Call) and self.is_included(step) else None


def _make_fused_call(
    product: Call, bias: Value | None, output: Value, activation_call: Call | None = None
) -> Call:
    """Return the fused call of a product, a bias and an activation, if any, whose output is `output`."""
    attrs = {
        **product.attrs,
        "activation": "linear"
        if activation_call is None
        else _NAME_OF_ACTIVATION[activation_call.kernel],
        "leakyrelu_alpha": 0.2
        if activation_call is None
        else activation_call.attrs.get("alpha", 0.2),
    }
    inputs = (*product.inputs, bias, None)
    return replace(
        product,
        kernel=_FUSED_KERNEL_OF_PRODUCT[product.kernel],
        inputs=inputs,
        attrs=attrs,
        outputs=(output,),
    )
