"""Elementwise kernels made of one WGSL expression, with broadcasting.

>>> from plugrad_webgpu import elementwise
>>> rectify = elementwise("select(0.0, x, x > 0.0)")  # an implementation: array in, array out
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from plugrad.extend import broadcast, complex64, float32, int32, uint32
from plugrad_webgpu.elements import NUMBERS, STORED, VALUE, require, typed, vector
from plugrad_webgpu.layout import broadcast_strides, merged
from plugrad_webgpu.limits import check_axes
from plugrad_webgpu.program import Plan, Program, plan
from plugrad_webgpu.shaders import shader

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from plugrad.extend import DType
    from plugrad_webgpu.buffers import GpuArray
    from plugrad_webgpu.layout import Shape

Mode = Literal["vectors", "scalar"]
MOST_PLANS = 4096


def numbers(expression: str) -> dict[DType, str]:
    """Return a table that has one expression for all number dtypes."""
    return dict.fromkeys(NUMBERS, expression)


def inexact(floating: str, of_complex: str) -> dict[DType, str]:
    """Return a table of the expressions for float32 and complex64, which is a `vec2f` of the parts."""
    return {float32: floating, complex64: of_complex}


def real(floating: str, signed: str, unsigned: str) -> dict[DType, str]:
    """Return a table of the expressions for float32, int32 and uint32."""
    return {float32: floating, int32: signed, uint32: unsigned}


def elementwise(
    expression: str | Mapping[DType, str],
    inputs: Sequence[str] = ("x",),
    *,
    result: DType | None = None,
    attributes: Sequence[str] = (),
) -> Callable[..., GpuArray]:
    """Return an implementation that evaluates a WGSL expression for every element.

    Args:
        expression: WGSL over the names in `inputs`, for float32; or a mapping from dtypes to such
            expressions, from which the dtype of the last input chooses. It may call the functions
            of snippets.wgsl, accurate.wgsl and complex.wgsl.
        inputs: The names of the inputs, which are broadcast.
        result: The dtype of the result; None means that of the last input.
        attributes: The names of numeric attributes, which the expression reads as
            ``parameters.name``.

    Returns:
        A function of arrays, with the attributes as keywords.

    The function raises UnsupportedDtype for a dtype without an expression, and ShapeError where
    the inputs are broadcast over more axes than the parameters of a shader can describe.
    """
    expressions = {float32: expression} if isinstance(expression, str) else dict(expression)
    kernel = _Elementwise(expressions, tuple(inputs), result, tuple(attributes))
    return _specialised(kernel)


class _Elementwise:
    """The plans and programs of one kernel."""

    def __init__(
        self,
        expressions: dict[DType, str],
        inputs: tuple[str, ...],
        result: DType | None,
        attributes: tuple[str, ...],
    ) -> None:
        self.plans: dict[Any, Plan] = {}  # keys are shapes and dtypes, by the number of inputs
        self.inputs = inputs
        self.attributes = attributes
        self._expressions = expressions
        self._result = result
        self._programs: dict[tuple[Any, ...], Program] = {}

    def plan(self, key: Any, arrays: Sequence[GpuArray], values: Sequence[float] = ()) -> Plan:
        """Make the plan for inputs of these shapes and dtypes, keep it and return it."""
        if len(self.plans) >= MOST_PLANS:
            self.plans.clear()
        made = self.plans[key] = self._make_plan(
            [x.shape for x in arrays], [x.dtype for x in arrays], values
        )
        return made

    def _make_plan(
        self, shapes: Sequence[Shape], dtypes: Sequence[DType], values: Sequence[float]
    ) -> Plan:
        dtype = dtypes[-1]
        what = f"the webgpu kernel {next(iter(self._expressions.values()))!r}"
        require(dtype, self._expressions, what)
        out = broadcast(*shapes)
        loop = merged(out, *[broadcast_strides(s, out) for s in shapes])
        rank = len(loop.sizes)
        if rank > 1:
            others = 1 + len(values)  # the count and the attributes
            check_axes(what, loop.sizes[::-1], len(shapes), others)
        # A single run may write past its end, into the padding of its buffer; rows may not.
        width = 4 if rank == 1 or loop.sizes[0] % 4 == 0 else 1
        modes: list[Mode] = ["vectors" if s[0] == 1 else "scalar" for s in loop.strides]
        sizes = (-(-loop.sizes[0] // width), *loop.sizes[1:])
        count = 0 if 0 in out else -(-loop.steps // width)
        parameters: list[int | float | complex] = [count]
        if rank > 1:
            parameters += sizes
            for strides, mode in zip(loop.strides, modes, strict=True):
                step = width if mode == "vectors" else 1
                parameters += [strides[0], *[s // step for s in strides[1:]]]
        parameters += [typed(v, dtype) for v in values]
        program = self._program(tuple(dtypes), tuple(modes), rank, width)
        return plan(program, parameters, count, out, self._result or dtype)

    def _program(
        self, dtypes: tuple[DType, ...], modes: tuple[Mode, ...], rank: int, width: int
    ) -> Program:
        key = (dtypes, modes, rank, width)
        program = self._programs.get(key)
        if program is None:
            expression = self._expressions[dtypes[-1]]
            source = partial(self._source, expression, dtypes, modes, rank, width)
            program = self._programs[key] = Program(expression, source)
        return program

    def _source(
        self,
        expression: str,
        dtypes: tuple[DType, ...],
        modes: tuple[Mode, ...],
        rank: int,
        width: int,
    ) -> str:
        operands = list(zip(self.inputs, dtypes, modes, strict=True))
        result = self._result or dtypes[-1]
        axes = rank if rank > 1 else 0
        return shader(
            "elementwise",
            expression=expression,
            axes=str(axes),
            arguments=", ".join(f"{name}: {VALUE[dtype]}" for name, dtype, _ in operands),
            result=VALUE[result],
            fields=_fields(self.inputs, axes, [(a, STORED[dtypes[-1]]) for a in self.attributes]),
            bindings=_bindings(operands, result, width),
            loads="\n".join(
                _load(name, dtype, mode, axes, width) for name, dtype, mode in operands
            ),
            values=_values(operands, result, width),
        )


def _fields(inputs: Sequence[str], axes: int, attributes: Sequence[tuple[str, str]]) -> str:
    arrays = ["sizes", *[f"{name}_strides" for name in inputs]] if axes else []
    lines = [f"  {name}: array<u32, {axes}>," for name in arrays]
    return "\n".join([*lines, *[f"  {name}: {kind}," for name, kind in attributes]])


def _bindings(operands: Sequence[tuple[str, DType, Mode]], result: DType, width: int) -> str:
    kinds = [
        ("read", f"{name}_values", vector(STORED[dtype], width if mode == "vectors" else 1))
        for name, dtype, mode in operands
    ]
    kinds.append(("read_write", "output", vector(STORED[result], width)))
    return "\n".join(
        f"@group(0) @binding({i}) var<storage, {access}> {name}: array<{kind}>;"
        for i, (access, name, kind) in enumerate(kinds)
    )


def _load(name: str, dtype: DType, mode: Mode, axes: int, width: int) -> str:
    steps = " + ".join(f"at{axis} * parameters.{name}_strides[{axis}]" for axis in range(axes))
    offset = steps or ("index" if mode == "vectors" else "0u")
    value = f"{name}_values[{offset}]"
    if mode == "vectors" or width == 1:
        return f"  let {name} = {value};"
    one = f"  let {name}_value = {value};\n"
    repeated = ", ".join([f"{name}_value"] * width)
    return f"{one}  let {name} = {vector(STORED[dtype], width)}({repeated});"


def _values(operands: Sequence[tuple[str, DType, Mode]], result: DType, width: int) -> str:
    def call(lane: str) -> str:
        arguments = ", ".join(f"{VALUE[dtype]}({name}{lane})" for name, dtype, _ in operands)
        return f"{STORED[result]}(apply({arguments}))"

    lanes = [""] if width == 1 else [f"[{lane}]" for lane in range(width)]
    return f"{vector(STORED[result], width)}({', '.join(call(lane) for lane in lanes)})"


def _specialised(kernel: _Elementwise) -> Callable[..., GpuArray]:
    """Return the shortest function for the parameters of a kernel, since every call of a small op runs it."""
    plans = kernel.plans
    attributes = kernel.attributes

    def unary(x: GpuArray) -> GpuArray:
        key = (x.shape, x.dtype)
        return x.buffer.device.launch(plans.get(key) or kernel.plan(key, (x,)), x)

    def binary(a: GpuArray, b: GpuArray) -> GpuArray:
        key = (a.shape, b.shape, b.dtype)
        return a.buffer.device.launch(plans.get(key) or kernel.plan(key, (a, b)), a, b)

    def general(*arrays: GpuArray, **values: float) -> GpuArray:
        attributed = [values[name] for name in attributes]
        key = (*[(x.shape, x.dtype) for x in arrays], *attributed)
        made = plans.get(key) or kernel.plan(key, arrays, attributed)
        return arrays[0].buffer.device.launch(made, *arrays)

    if attributes or len(kernel.inputs) > 2:
        return general
    return unary if len(kernel.inputs) == 1 else binary
