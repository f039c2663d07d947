"""Kernels from other packages, written in WebAssembly's text form, without a C compiler."""

from __future__ import annotations

import re
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Final

from plugrad.extend import (
    ArgumentError,
    ArgumentValueError,
    ShapeError,
    UnsupportedDtype,
    float32,
)
from plugrad_wasm.declare import ELEMENTWISE_PART_STEPS, RELEASE_GIL_MIN_ELEMENTS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from plugrad_wasm.memory import WasmArray


MAX_EXPRESSION_CHARACTERS: Final = 500_000
"""The maximum characters of an expression, because nothing can stop its compilation, not even Ctrl-C."""
FORBIDDEN_INSTRUCTIONS: Final = re.compile(
    r"(?<![$.\w])"
    r"(loop|call\w*|return_call\w*|unreachable|(memory|table)\.\w+|\w+\.(atomic\.|load|store)[\w.]*"
    r"|i(32|64)\.(div|rem)_[su]|i(32|64)\.trunc_f(32|64)_[su])"
    r"(?![\w.])"
)
"""A regular expression for instructions that could run for ever, trap, or reach memory outside of arrays."""


def elementwise(expression: str, *, inputs: Sequence[str] = ("x",)) -> Callable[..., WasmArray]:
    """Return an implementation that applies `expression` to float32 arrays of equal shape.

    >>> cube = elementwise("(f32.mul (local.get $x) (f32.mul (local.get $x) (local.get $x)))")

    It is compiled when it first runs, and only once for equal expressions.

    Args:
        expression: an ``f32`` in WebAssembly's text form.
        inputs: the names of the inputs, which are locals in the expression.

    Raises:
        ArgumentValueError: there is no input, or the name of one is not an identifier; or the
            expression is very long, or has a loop, a call, an access to memory, or an integer division, which could
            run for ever, harm others, or end the process.
    """
    names = tuple(inputs)
    if len(expression) > MAX_EXPRESSION_CHARACTERS:
        raise ArgumentValueError(
            f"elementwise: the expression has {len(expression)} characters, more than the {MAX_EXPRESSION_CHARACTERS} "
            "that are compiled in an instant; use load_wasm_kernel"
        )
    if harmful := FORBIDDEN_INSTRUCTIONS.search(expression):
        raise ArgumentValueError(
            f"elementwise: {harmful[0]!r} is not possible in an expression, because it could run for ever or trap; "
            "use load_wasm_kernel"
        )
    if not names or not all(name.isidentifier() for name in names):
        raise ArgumentValueError(
            f"elementwise: inputs={names} must be one or more identifiers, such as ('x',)"
        )
    source = _format_module(expression, names)

    def implementation(*arrays: WasmArray) -> WasmArray:
        """Return the expression of arrays of one shape."""
        _check_inputs(names, arrays)
        first = arrays[0]
        out = first.memory.empty_like(first)
        store = first.memory.store
        run = store.compile_wat(source, releases_gil=first.size >= RELEASE_GIL_MIN_ELEMENTS)
        for begin in range(0, first.size, ELEMENTWISE_PART_STEPS.maximum):
            addresses = [array.address + 4 * begin for array in (*arrays, out)]
            run(*addresses, min(ELEMENTWISE_PART_STEPS.maximum, first.size - begin))
        return out

    # Registration compares the names of the inputs with those of the contract.
    parameters = [Parameter(name, Parameter.POSITIONAL_ONLY) for name in names]
    implementation.__dict__["__signature__"] = Signature(parameters)
    return implementation


def _check_inputs(input_names: tuple[str, ...], arrays: tuple[WasmArray, ...]) -> None:
    """Raise unless there is one float32 array for each name, all of equal shape."""
    if len(arrays) != len(input_names):
        raise ArgumentError(
            f"elementwise{input_names} takes {len(input_names)} arrays, not {len(arrays)}; name every input of "
            "the kernel in inputs="
        )
    if any(array.shape != arrays[0].shape for array in arrays):
        shapes = " and ".join(str(array.shape) for array in arrays)
        raise ShapeError(
            f"elementwise{input_names}: shapes {shapes} differ; use broadcast_to first"
        )
    wrong = next((array for array in arrays if array.dtype is not float32), None)
    if wrong is not None:
        raise UnsupportedDtype(
            f"elementwise{input_names} on wasm takes float32, not {wrong.dtype}; cast the input first, as in "
            "x.astype('float32')"
        )


def _format_module(expression: str, input_names: tuple[str, ...]) -> str:
    """Return the WebAssembly text of a module that computes an expression for each element of arrays.

    The parameters are the pointers to the inputs and to the output, and the number of elements.
    Their names begin with a dot, so that they differ from the names of all inputs.
    """
    pointers = [*(f"$.at_{name}" for name in input_names), "$.out"]
    loads = "\n".join(
        f"(local.set ${name} (f32.load (local.get $.at_{name})))" for name in input_names
    )
    steps = "\n".join(f"(local.set {p} (i32.add (local.get {p}) (i32.const 4)))" for p in pointers)
    return f"""
(module
  (import "plugrad" "memory" (memory 0 65535 shared))
  (func (export "kernel") {" ".join(f"(param {p} i32)" for p in pointers)} (param $.count i32)
    {" ".join(f"(local ${name} f32)" for name in input_names)}
    (block $done
      (loop $next
        (br_if $done (i32.eqz (local.get $.count)))
        {loads}
        (f32.store (local.get $.out)
          {expression})
        {steps}
        (local.set $.count (i32.sub (local.get $.count) (i32.const 1)))
        (br $next)))))
"""
