"""Products and convolutions that take in the bias and the activation that follow them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from plugrad.extend import float32, fuse_epilogues, get_kernel
from plugrad.kernels import activation, binary, convolution, fused, linalg
from plugrad_webgpu.narrow import configs_by_kernel_name

if TYPE_CHECKING:
    from plugrad.extend import Call, Graph, Kernel

EPILOGUE_KERNELS: Final[frozenset[Kernel[..., Any]]] = frozenset(
    {
        *(linalg.matmul, convolution.conv2d, fused.matmul, fused.conv2d),
        *(binary.add, activation.relu, activation.relu6, activation.sigmoid),
    }
)
"""The kernels whose shaders can apply a bias and an activation."""


def attach_epilogues(graph: Graph) -> Graph:
    """Return the graph with products and convolutions merged with the epilogues that their shaders support.

    Kernels that a pack or the program has replaced are left alone.
    """

    def is_included(call: Call) -> bool:
        spec = graph.specs[call.outputs[0]]
        if (
            call.kernel not in EPILOGUE_KERNELS
            or spec.dtype != float32
            or not _uses_builtin_implementation(call.kernel, graph)
        ):
            return False
        if call.kernel not in (fused.matmul, fused.conv2d):
            return True
        bias = call.inputs[2]
        return bias is None or graph.specs[bias].shape in ((), (1,), spec.shape[-1:])

    return fuse_epilogues(graph, is_included)


def _uses_builtin_implementation(kernel: Kernel[..., Any], graph: Graph) -> bool:
    """Return whether the device runs a kernel by this package's implementation."""
    config = get_kernel(kernel.name, graph.backend.name)
    return (
        config is not None
        and config.kernel_func is configs_by_kernel_name()[kernel.name].kernel_func
    )
