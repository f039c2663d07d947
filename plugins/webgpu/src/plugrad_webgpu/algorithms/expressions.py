"""Elementwise kernels made of one WGSL expression, with broadcasting.

>>> from plugrad_webgpu import elementwise
>>> rectify = elementwise("select(0.0, x, x > 0.0)")  # an implementation: array in, array out
"""

from __future__ import annotations

from functools import cache
from math import prod
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

from plugrad.extend import broadcast, complex64, float32, int32, int64, uint32
from plugrad_webgpu.memory.buffers import host_values_or_none
from plugrad_webgpu.shaders.chains import (
    MAX_CALL_INPUTS,
    ElementwiseCall,
    Formula,
    cached_input_access,
    estimate_compile_weight,
    find_fusion_limits,
    lay_out_chain,
    single_call_program,
)
from plugrad_webgpu.shaders.elements import (
    HALF_DTYPES,
    NUMBER_DTYPES,
    WGSL_STORAGE_TYPES,
    as_parameter,
    require_dtype,
    with_narrow_dtypes,
)
from plugrad_webgpu.shaders.layout import broadcast_strides
from plugrad_webgpu.shaders.program import plan

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from plugrad.extend import DType
    from plugrad_webgpu.algorithms.bodies import HostFunction
    from plugrad_webgpu.memory.buffers import GpuArray
    from plugrad_webgpu.shaders.chains import InputAccess
    from plugrad_webgpu.shaders.layout import Shape


MAX_CACHED_CALLS = 1024
"""The number of prepared calls that an elementwise kernel keeps."""


def per_number_dtype(expression: str) -> dict[DType, str]:
    """Return a dictionary with the same WGSL expression for every number dtype."""
    return dict.fromkeys(NUMBER_DTYPES, expression)


def per_inexact_dtype(float32_expression: str, complex64_expression: str) -> dict[DType, str]:
    """Return a dictionary of WGSL expressions for float32 and for complex64, a `vec2f` of real and imaginary part."""
    return {float32: float32_expression, complex64: complex64_expression}


def per_real_dtype(
    float32_expression: str, int32_expression: str, uint32_expression: str, int64_expression: str
) -> dict[DType, str]:
    """Return a dictionary of WGSL expressions for float32, int32, uint32 and int64, which is a `vec2u` of words."""
    return {
        float32: float32_expression,
        int32: int32_expression,
        uint32: uint32_expression,
        int64: int64_expression,
    }


def elementwise(
    expression: str | Mapping[DType, str],
    inputs: Sequence[str] = ("x",),
    *,
    result: DType | None = None,
    attributes: Sequence[str] = (),
    body: HostFunction | Mapping[DType, HostFunction] | None = None,
) -> Callable[..., GpuArray]:
    """Return an implementation that evaluates a WGSL expression of named inputs for every element.

    Args:
        expression: WGSL over the names in `inputs`, for float32; or a mapping from dtypes to such
            expressions, from which the dtype of the last input chooses. It may call the functions
            of snippets.wgsl, accurate.wgsl, complex.wgsl and long.wgsl. Narrow dtypes and halves take
            the expression for the dtype in which they are computed.
        inputs: The names of the inputs, which are broadcast.
        result: The dtype of the result; None means that of the last input.
        attributes: The names of numeric attributes, which the expression reads as
            ``parameters.name``.
        body: A function of NumPy's arrays and the attributes, in order, which computes small arrays
            that are on the host, or one for each dtype. It must give the same to the last bit, which no
            compiler of shaders promises for more than one rounding. One function for all dtypes leaves
            out complex numbers.

    Returns:
        A function of arrays, with the attributes as keywords.

    The function raises UnsupportedDtype for a dtype without an expression.
    """
    expressions = {float32: expression} if isinstance(expression, str) else expression
    kernel = _ElementwiseKernel(
        with_narrow_dtypes(expressions, result), tuple(inputs), result, tuple(attributes), body
    )
    implementation = _specialize_call(kernel)
    _ELEMENTWISE_IMPLEMENTATIONS.add(implementation)
    return implementation


def is_elementwise(function: object) -> bool:
    """Return whether a function was made by `elementwise`."""
    return function in _ELEMENTWISE_IMPLEMENTATIONS


_ELEMENTWISE_IMPLEMENTATIONS: Final[WeakSet[Callable[..., Any]]] = WeakSet()
"""The functions that `elementwise` has made."""


class _ElementwiseKernel:
    """An elementwise kernel, with its prepared calls by shapes and dtypes."""

    def __init__(
        self,
        expressions: dict[DType | str, str],
        inputs: tuple[str, ...],
        result: DType | None,
        attributes: tuple[str, ...],
        body: HostFunction | Mapping[DType, HostFunction] | None,
    ) -> None:
        self.steps: dict[
            Any, ElementwiseCall
        ] = {}  # keys are shapes and dtypes, by the number of inputs
        self.inputs = inputs
        self.attributes = attributes
        self._expressions = expressions
        self._result = result
        if callable(body):
            body = dict.fromkeys(self._expressions.keys() - {complex64, *HALF_DTYPES}, body)
        self._bodies: Mapping[Any, HostFunction] = body or {}
        self._formula: Callable[[tuple[DType, ...]], Formula] = cache(self._make_formula_for_dtypes)

    def find_call(
        self, cache_key: Any, arrays: Sequence[GpuArray], attribute_values: Sequence[float] = ()
    ) -> ElementwiseCall:
        """Return the prepared call for arrays of these shapes and dtypes, which is cached under `cache_key`."""
        if len(self.steps) >= MAX_CACHED_CALLS:
            self.steps.clear()
        made = self._make_call(
            [x.shape for x in arrays], [x.dtype for x in arrays], attribute_values
        )
        # Whatever is wrong with the expression is an error of this call, although it may be recorded later.
        if made.host_function is None or host_values_or_none(arrays[0]) is None:
            arrays[0].buffer.device.prepare(made.single_call_plan.program, len(arrays) + 1)
        self.steps[cache_key] = made
        return made

    def _make_call(
        self, shapes: Sequence[Shape], dtypes: Sequence[DType], attribute_values: Sequence[float]
    ) -> ElementwiseCall:
        """Return the prepared call for inputs of the given shapes and dtypes, and numbers for the attributes."""
        dtype = dtypes[-1]
        what = f"the webgpu kernel {next(iter(self._expressions.values()))!r}"
        require_dtype(dtype, self._expressions, what)
        out = broadcast(*shapes)
        formula = self._formula(tuple(dtypes))
        readings = tuple(_input_access(s, out, d) for s, d in zip(shapes, dtypes, strict=True))
        numbers = tuple(as_parameter(v, dtype) for v in attribute_values)
        inputs = tuple(~i for i in range(len(shapes)))
        layout = lay_out_chain(out, [(formula, numbers, inputs)], readings, (0,))
        loop = out if any(r.strides for r in readings) else None
        planned = plan(
            single_call_program(layout.shader_key),
            layout.parameter_values,
            layout.invocation_count,
            out,
            formula.result_dtype,
        )
        return ElementwiseCall(
            formula,
            readings,
            numbers,
            out,
            formula.result_dtype,
            prod(out),
            estimate_compile_weight(formula),
            loop,
            find_fusion_limits(formula, loop),
            planned,
            planned.grid is not None and len(shapes) <= MAX_CALL_INPUTS,
            self._bodies.get(dtype),
        )

    def _make_formula_for_dtypes(self, dtypes: tuple[DType, ...]) -> Formula:
        """Return the formula for inputs of the given dtypes."""
        dtype = dtypes[-1]
        return Formula(
            self._expressions[dtype],
            tuple(zip(self.inputs, dtypes, strict=True)),
            self._result or dtype,
            tuple((name, _attribute_wgsl_type(dtype)) for name in self.attributes),
        )


def _attribute_wgsl_type(dtype: DType) -> str:
    # A vector would have to begin at an even word.
    """Return the WGSL type of an attribute among the parameters of a shader that computes in a dtype."""
    return (
        "array<u32, 2>"
        if dtype == int64
        else "f32"
        if dtype in HALF_DTYPES
        else WGSL_STORAGE_TYPES[dtype]
    )


def _input_access(shape: Shape, output_shape: Shape, dtype: DType) -> InputAccess:
    """Return how a call reads an input that is broadcast to the shape of the output."""
    size = prod(shape)
    if size == prod(output_shape):
        return cached_input_access(dtype, None)
    return cached_input_access(dtype, broadcast_strides(shape, output_shape) if size > 1 else ())


def _specialize_call(kernel: _ElementwiseKernel) -> Callable[..., GpuArray]:
    """Return the function that calls an elementwise kernel; it saves time in Python by a fixed number of inputs."""
    steps = kernel.steps
    attributes = kernel.attributes

    def unary(x: GpuArray) -> GpuArray:
        key = (x.shape, x.dtype)
        return x.buffer.device.call(steps.get(key) or kernel.find_call(key, (x,)), x)

    def binary(a: GpuArray, b: GpuArray) -> GpuArray:
        key = (a.shape, b.shape, b.dtype)
        return a.buffer.device.call(steps.get(key) or kernel.find_call(key, (a, b)), a, b)

    def run(*arrays: GpuArray, **attribute_values: float) -> GpuArray:
        attributed = [attribute_values[name] for name in attributes]
        # The text of a number tells 0.0 from -0.0, which are equal as numbers.
        key = (*[(x.shape, x.dtype) for x in arrays], *map(repr, attributed))
        made = steps.get(key) or kernel.find_call(key, arrays, attributed)
        return arrays[0].buffer.device.call(made, *arrays)

    if attributes or len(kernel.inputs) > 2:
        return run
    return unary if len(kernel.inputs) == 1 else binary
