"""A backend for plugrad that compiles groups of elementwise calls with numexpr."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numexpr
from plugrad_acme_float64 import Float64
from plugrad_acme_float64.kernels import FUNCTIONS, counted

from plugrad.extend import Call, KernelTable, bool_, compile_replay, float64, fuse_groups
from plugrad.kernels import binary, unary

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from plugrad_acme_float64.memory import Array

    from plugrad.extend import Graph, Kernel

EXPRESSIONS: dict[Kernel[..., Any], str] = {
    unary.abs: "abs({})",
    unary.cos: "cos({})",
    unary.exp: "exp({})",
    unary.log: "log({})",
    unary.negative: "(-{})",
    unary.sin: "sin({})",
    unary.sqrt: "sqrt({})",
    binary.add: "({} + {})",
    binary.divide: "({} / {})",
    binary.less: "({} < {})",
    binary.multiply: "({} * {})",
    binary.select: "where({}, {}, {})",
    binary.subtract: "({} - {})",
}
MAX_INPUTS, MAX_TEXT = 30, 2000  # numexpr takes 31 arrays; what is read twice is written twice


class Numexpr(Float64):
    """The backend ``"acme_numexpr"``."""

    name: ClassVar[str] = "acme_numexpr"

    def open(self, device: str) -> KernelTable:
        """Open the only device, whose kernels are computed by numexpr where there is an expression."""
        super().open(device)
        table = KernelTable(self.name)
        own = {kernel: computed(kernel, FUNCTIONS[kernel]) for kernel in EXPRESSIONS}
        table.update({kernel: counted(kernel, f) for kernel, f in {**FUNCTIONS, **own}.items()})
        return table

    def compile(self, graph: Graph) -> Callable[..., list[Any]]:
        """Return a function that runs a graph: groups of elementwise calls by numexpr, the rest step by step."""

        def is_included(call: Call) -> bool:
            return is_known(call.kernel, [graph.specs[value] for value in call.inputs])

        fused = fuse_groups(graph, is_included=is_included)
        return compile_replay(fused, compile_body=self.compile_body)

    def compile_body(self, graph: Graph) -> Callable[..., list[Any]]:
        """Return a function that computes each result of a group by one expression."""
        known = {**dict.fromkeys(graph.arguments), **graph.constants}
        texts = {value: f"v{value}" for value in known}
        for step in graph.steps:
            if not isinstance(step, Call) or step.kernel not in EXPRESSIONS:
                return self.compile(graph)  # the body of a loop
            inputs = [texts[value] for value in step.inputs]
            texts[step.outputs[0]] = EXPRESSIONS[step.kernel].format(*inputs)
        results = [texts[value] for value in graph.results]
        if len(known) > MAX_INPUTS or max(map(len, results), default=0) > MAX_TEXT:
            return compile_replay(graph)

        def run(*arrays: Array) -> list[Array]:
            given = {**known, **dict(zip(graph.arguments, arrays, strict=True))}
            values = {texts[value]: array.values for value, array in given.items()}
            return [self.allocator.array(numexpr.evaluate(text, values, {})) for text in results]

        return run


def is_known(kernel: Kernel[..., Any], inputs: Sequence[Any]) -> bool:
    """Return whether there is an expression for a kernel of inputs of these shapes and dtypes."""
    flags = [bool_] if kernel is binary.select else []
    has_dtypes = [x.dtype for x in inputs] == flags + [float64] * (len(inputs) - len(flags))
    return kernel in EXPRESSIONS and has_dtypes and not any(0 in x.shape for x in inputs)


def computed(kernel: Kernel[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of NumPy's arrays that gives the bits of a fused call."""
    names = ["a", "b", "c"][: len(kernel.inputs)]
    text = EXPRESSIONS[kernel].format(*names)

    def run(*arrays: Any) -> Any:
        if is_known(kernel, arrays):
            return numexpr.evaluate(text, dict(zip(names, arrays, strict=True)), {})
        return function(*arrays)

    return run


def backend() -> Numexpr:
    """Return a backend that is not open yet."""
    return Numexpr()
