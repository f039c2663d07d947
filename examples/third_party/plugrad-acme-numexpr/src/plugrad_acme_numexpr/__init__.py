"""A backend for plugrad that compiles groups of elementwise calls with numexpr."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numexpr
from plugrad_acme_float64 import Float64
from plugrad_acme_float64.kernels import NUMPY_FUNCTIONS, with_limit_check

from plugrad.extend import KernelTable, compile_replay, float64, fuse_groups
from plugrad.kernels import binary, unary

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from plugrad.extend import Graph, Kernel

OPERATOR_SIGNS = {binary.add: "+", binary.divide: "/", binary.multiply: "*", binary.subtract: "-"}
FUNCTION_NAMES = ("abs", "cos", "exp", "log", "sin", "sqrt")
EXPRESSIONS: dict[Kernel[..., Any], str] = {vars(unary)[n]: f"{n}({{}})" for n in FUNCTION_NAMES}
EXPRESSIONS |= {kernel: f"({{}} {sign} {{}})" for kernel, sign in OPERATOR_SIGNS.items()}
MAX_INPUTS, MAX_EXPRESSION_CHARACTERS = (
    30,
    2000,
)  # numexpr takes 31 arrays; what is read twice is written twice


class Numexpr(Float64):
    """The backend ``"acme_numexpr"``."""

    name: ClassVar[str] = "acme_numexpr"

    def open(self, device: str) -> KernelTable:
        """Open the only device, whose kernels are computed by numexpr where there is an expression."""
        super().open(device)
        table = KernelTable(self.name)
        table.update(
            {k: with_limit_check(k, with_numexpr(k, f)) for k, f in NUMPY_FUNCTIONS.items()}
        )
        return table

    def compile(self, graph: Graph) -> Callable[..., list[Any]]:
        """Return a function that runs a graph: groups of elementwise calls by numexpr, the rest step by step."""
        fused = fuse_groups(
            graph,
            is_included=lambda c: has_expression(c.kernel, [graph.specs[v] for v in c.inputs]),
        )
        return compile_replay(fused, compile_body=self.compile_body)

    def compile_body(self, graph: Graph) -> Callable[..., list[Any]]:
        """Return a function that computes each result of a group by one expression."""
        known = {**dict.fromkeys(graph.arguments), **graph.constants}
        texts = {value: f"v{value}" for value in known}
        for step in graph.steps:
            if getattr(step, "kernel", None) not in EXPRESSIONS:
                return self.compile(graph)  # the body of a loop
            inputs = [texts[value] for value in step.inputs]
            texts[step.outputs[0]] = EXPRESSIONS[step.kernel].format(*inputs)
        results = [texts[value] for value in graph.results]
        if len(known) > MAX_INPUTS or max(map(len, results), default=0) > MAX_EXPRESSION_CHARACTERS:
            return compile_replay(graph)

        def run(*arrays: Any) -> list[Any]:
            given = {**known, **dict(zip(graph.arguments, arrays, strict=True))}
            values = {texts[value]: array.values for value, array in given.items()}
            return [self.allocator.array(numexpr.evaluate(text, values, {})) for text in results]

        return run


def has_expression(kernel: Kernel[..., Any], inputs: Sequence[Any]) -> bool:
    """Return whether there is an expression for a kernel of inputs of these shapes and dtypes."""
    return kernel in EXPRESSIONS and all(x.dtype == float64 and 0 not in x.shape for x in inputs)


def with_numexpr(kernel: Kernel[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of NumPy arrays that gives the same bits as a fused call, where there is an expression."""

    def run(*arrays: Any, **attrs: Any) -> Any:
        if not has_expression(kernel, arrays):
            return function(*arrays, **attrs)
        values = {f"x{i}": x for i, x in enumerate(arrays)}
        return numexpr.evaluate(EXPRESSIONS[kernel].format(*values), values, {})

    return run


def backend() -> Numexpr:
    """Return a backend that is not open yet."""
    return Numexpr()
