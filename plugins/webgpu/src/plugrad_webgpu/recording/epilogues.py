"""Products and convolutions that take in the bias and the activation that follow them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from plugrad.extend import Call, float32, get_kernel
from plugrad.kernels import activation, binary, convolution, fused, linalg
from plugrad_webgpu.narrow import own_configs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plugrad.extend import Graph, Kernel, Step, Value

FUSED: Final[dict[Kernel[..., Any], Kernel[..., Any]]] = {
    linalg.matmul: fused.matmul,
    convolution.conv2d: fused.conv2d,
}
ACTIVATIONS: Final[dict[Kernel[..., Any], str]] = {
    activation.relu: "relu",
    activation.relu6: "relu6",
    activation.sigmoid: "sigmoid",
}


def attach_epilogues(graph: Graph) -> Graph:
    """Return the graph with products and convolutions joined to a bias and an activation that only they feed.

    Kernels that a pack or the program has replaced are left alone.
    """
    readers = _readers(graph)
    steps: list[Step | None] = [*graph.steps]
    for index, step in enumerate(graph.steps):
        if isinstance(step, Call) and step.kernel in FUSED and _is_own(step.kernel, graph):
            joined, places = _with_epilogue(graph, step, readers)
            if joined is not None and _is_own(joined.kernel, graph):
                for place in (index, *places):
                    steps[place] = None
                steps[places[-1]] = joined
    return replace(graph, steps=tuple([step for step in steps if step is not None]))


def _readers(graph: Graph) -> dict[Value, list[int]]:
    """Return the places of the steps that read each value; -1 stands for the end."""
    readers: dict[Value, list[int]] = {}
    for index, step in enumerate(graph.steps):
        for value in step.inputs:
            if value is not None:
                readers.setdefault(value, []).append(index)
    for value in (*graph.results, *[value for _, value in graph.updates]):
        readers.setdefault(value, []).append(-1)
    return readers


def _with_epilogue(
    graph: Graph, product: Call, readers: dict[Value, list[int]]
) -> tuple[Call | None, list[int]]:
    """Return a product with what follows it, and the places of that; None if nothing does."""
    specs, (value,) = graph.specs, product.outputs
    spec = specs[value]
    places: list[int] = []
    bias, name = None, "linear"
    if spec.dtype != float32:
        return None, places
    following = _only_reader(graph, value, readers)
    if following is not None and following[1].kernel is binary.add:
        others = [v for v in following[1].inputs if v is not None and v != value]
        small = ((), (1,), spec.shape[-1:])
        if len(others) == 1 and specs[others[0]].shape in small and _is_own(binary.add, graph):
            (bias,) = others
            places.append(following[0])
            value = following[1].outputs[0]
            following = _only_reader(graph, value, readers)
    if following is not None and following[1].kernel in ACTIVATIONS:
        kernel = following[1].kernel
        if _is_own(kernel, graph):
            name = ACTIVATIONS[kernel]
            places.append(following[0])
            value = following[1].outputs[0]
    if not places:
        return None, places
    attrs = {**product.attrs, "activation": name, "leakyrelu_alpha": 0.2}
    joined = replace(
        product,
        kernel=FUSED[product.kernel],
        inputs=(*product.inputs, bias, None),
        attrs=attrs,
        outputs=(value,),
    )
    return joined, places


def _only_reader(
    graph: Graph, value: Value, readers: dict[Value, list[int]]
) -> tuple[int, Call] | None:
    """Return the place and the call that alone reads a value, if that is so."""
    found: Sequence[int] = readers.get(value, ())
    if len(found) != 1 or found[0] < 0:
        return None
    step = graph.steps[found[0]]
    return (found[0], step) if isinstance(step, Call) else None


def _is_own(kernel: Kernel[..., Any], graph: Graph) -> bool:
    """Return whether the device runs a kernel by this package's function."""
    config = get_kernel(kernel.name, graph.backend.name)
    return config is not None and config.kernel_func is own_configs()[kernel.name].kernel_func
