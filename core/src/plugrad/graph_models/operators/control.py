"""Branches, loops and calls of version 2: each runs graphs of the model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from plugrad.graph_models.host_values import as_python_bool
from plugrad.graph_models.registry import register_operator

if TYPE_CHECKING:
    from plugrad.graph_models.registry import AnyInput, FunctionRunner


@register_operator("If", "StatelessIf")
def run_branch(
    condition: AnyInput, *inputs: AnyInput, then_branch: str, else_branch: str, call: FunctionRunner
) -> tuple[Any, ...]:
    """Run one of two functions, given by name (If); `call` runs a function of the model."""
    return tuple(call(then_branch if as_python_bool(condition) else else_branch, list(inputs)))


@register_operator("While", "StatelessWhile")
def run_while_loop(
    *inputs: AnyInput, cond: str, body: str, call: FunctionRunner
) -> tuple[Any, ...]:
    """Run the function named `body` while the one named `cond` returns true (While); `call` runs a function."""
    state = list(inputs)
    while as_python_bool(call(cond, state)[0]):
        state = call(body, state)
    return tuple(state)


@register_operator("PartitionedCall", "StatefulPartitionedCall")
def run_function(*inputs: AnyInput, f: str, call: FunctionRunner) -> tuple[Any, ...]:
    """Run the function named `f` (PartitionedCall); `call` runs a function of the model."""
    return tuple(call(f, list(inputs)))


@register_operator("LoopCond")
def loop_condition(x: AnyInput) -> Any:
    """Return the condition unchanged (LoopCond)."""
    return x
