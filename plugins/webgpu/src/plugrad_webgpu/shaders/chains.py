"""Chains of elementwise calls: one shader computes several calls, and writes only the results that are needed.

A `ElementwiseCall` is one call with its shapes and dtypes. A chain is a list of steps that have the same number of
elements. Each refers to earlier steps, whose results lie as its own does, and to arrays, called leaves. A
single call is a chain of one step. Nothing here needs a device.

The results are those of separate calls to the last bit. Drivers compile with fast-math, which would turn
`(1 + x) - 1` into `x` and `a * b + c` into one rounding. So a shader passes on each float hidden: combined
with a zero that no compiler knows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from plugrad_webgpu.shaders.elements import (
    HALF_DTYPES,
    WGSL_STORAGE_TYPES,
    as_stored,
    as_value,
    stored_type,
    value_type,
    vector_type,
)
from plugrad_webgpu.shaders.layout import merge_axes
from plugrad_webgpu.shaders.program import Program
from plugrad_webgpu.shaders.sources import fill_templates, linked, shader

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from plugrad.extend import DType
    from plugrad_webgpu.shaders.layout import Shape, Strides
    from plugrad_webgpu.shaders.program import Plan

OPAQUE_WGSL_OPERATORS: Final = ("^", "+", "|", "-")
"""What combines bits with a zero: one operator for results, and others for the operands after the first."""
MAX_CALL_INPUTS: Final = len(OPAQUE_WGSL_OPERATORS)
"""The inputs of a call in a chain."""
MAX_COMPILE_WEIGHT: Final = 64
"""The weight of the calls in a chain: an accurate function has 4 to 16, and the driver takes 10 ms to compile it."""
ROUNDING_WEIGHT: Final = 2
"""The additional weight of a call whose result is rounded to a half."""

WORKGROUP_INVOCATIONS: Final = 256
"""Of an elementwise shader. A software device starts a workgroup in the time of two dozen loads of vectors."""

PACKED_HALVES_BIT: Final = 1
"""The results are halves, which are written four at a time."""
ODD_ROWS_BIT: Final = 2
"""Inputs are repeated along rows that are no multiple of 4, so that results are written one at a time."""
CONFLICTING_FUSION_LIMITS: Final = PACKED_HALVES_BIT | ODD_ROWS_BIT

LeafAccessMode = Literal["whole", "vectors", "scalar", "one", "given"]
"""How a leaf is loaded; one that is given is the argument of a function."""
ParameterNumber = int | float | complex
OperandReferences = tuple[int, ...]
"""What a step combines: earlier steps by their places from 0 on, and leaves by the complements of their numbers."""


class Formula(NamedTuple):
    """The WGSL expression that a call computes for each element."""

    wgsl_expression: str
    input_names_and_dtypes: tuple[tuple[str, DType], ...]
    result_dtype: DType
    attribute_names_and_types: tuple[tuple[str, str], ...] = ()
    """The names and the WGSL types of the numbers that the expression reads as ``parameters.name``."""


@dataclass(slots=True, eq=False)
class InputAccess:
    """How a call reads an input: its dtype and strides; None if it is laid out like the result."""

    dtype: DType
    strides: Strides | None
    """No strides at all for a single element."""


cached_input_access: Callable[[DType, Strides | None], InputAccess] = lru_cache(maxsize=1024)(
    InputAccess
)
"""Return an object for a way of reading: the same one as before, which is quick to compare."""


@dataclass(slots=True, eq=False)
class ElementwiseCall:
    """An elementwise call for inputs of certain shapes and dtypes."""

    formula: Formula
    input_accesses: tuple[InputAccess, ...]
    attribute_values: tuple[ParameterNumber, ...]
    """The attributes."""
    shape: Shape
    dtype: DType
    element_count: int
    """The number of elements of the result."""
    compile_weight: int
    """How much the call adds to the time that compiling a chain takes: 1 for an addition."""
    broadcast_shape: Shape | None
    """The shape of the result if an input has to be repeated along its axes."""
    fusion_limits: int
    """What a chain must not combine, as bits: `PACKED_HALVES_BIT` and `ODD_ROWS_BIT`."""
    single_call_plan: Plan
    """The call by itself."""
    can_join_chain: bool
    """Whether it may be part of a chain: it has work to do, and not too many inputs."""
    host_function: Callable[..., NDArray[Any]] | None
    """What gives the same on the host, of NumPy's arrays and the attributes."""


class ChainShaderKey(NamedTuple):
    """Everything that determines the shader of a chain."""

    formulas: tuple[Formula, ...]
    operand_references: tuple[OperandReferences, ...]
    input_dtypes_and_access_modes: tuple[tuple[DType, LeafAccessMode], ...]
    output_call_indices: tuple[int, ...]
    loop_axis_count: int
    vector_width: int


class ChainLayout(NamedTuple):
    """The form of a chain's shader, and the parameters of one call."""

    shader_key: ChainShaderKey
    parameter_values: list[ParameterNumber]
    invocation_count: int


def lay_out_chain(
    shape: Shape,
    calls: Sequence[tuple[Formula, Sequence[ParameterNumber], OperandReferences]],
    readings: Sequence[InputAccess],
    outputs: tuple[int, ...],
    width: int | None = None,
) -> ChainLayout:
    """Return which elements an invocation computes in a chain of elementwise calls, and how it reads and writes them.

    Args:
        shape: The shape along which leaves are repeated; if none is, any with this number of elements.
        calls: The formula of each step, the values of its attributes, and what it combines.
        readings: How the leaves are read.
        outputs: The places of the steps whose results are written.
        width: How many elements another shader gives at a time, whose result is the first leaf; None if all leaves are
            loaded.
    """
    spread = [r.strides for r in readings if r.strides]
    loop = merge_axes(shape, *spread)
    rank = len(loop.sizes)
    axes = rank if rank > 1 else 0
    # A single run may write past its end, into the padding of its buffer; rows may not.
    is_given = width is not None
    width = width or (4 if not axes or loop.sizes[0] % 4 == 0 else 1)
    count = 0 if 0 in shape else -(-loop.steps // width)
    parameters: list[ParameterNumber] = [count]
    if len(calls) > 1:
        parameters.append(0)
    if axes:
        parameters += [-(-loop.sizes[0] // width), *loop.sizes[1:-1]]
    advances = iter(loop.strides)
    modes: list[LeafAccessMode] = []
    for each in readings:
        if not each.strides:
            modes.append("whole" if each.strides is None else "one")
            continue
        strides = next(advances)
        modes.append("vectors" if strides[0] == 1 else "scalar")
        if axes:
            step = width if strides[0] == 1 else 1
            parameters += [strides[0], *[s // step for s in strides[1:]]]
    if is_given:
        modes[0] = "given"
    for _, values, _ in calls:
        parameters += values
    form = ChainShaderKey(
        tuple(formula for formula, _, _ in calls),
        tuple(references for _, _, references in calls),
        tuple((each.dtype, mode) for each, mode in zip(readings, modes, strict=True)),
        outputs,
        axes,
        width,
    )
    return ChainLayout(form, parameters, count)


@cache
def estimate_compile_weight(formula: Formula) -> int:
    """Return the relative compile time of a formula; an addition is 1."""
    rounding = ROUNDING_WEIGHT if formula.result_dtype in HALF_DTYPES else 0
    return min(1 + rounding + len(linked(formula.wgsl_expression)) // 200, MAX_COMPILE_WEIGHT // 4)


def find_fusion_limits(formula: Formula, loop: Shape | None) -> int:
    """Return, as bits, the kinds of calls that an elementwise call must not be fused with.

    >>> find_fusion_limits(Formula("x", (("x", float32),), float32), (2, 3)) == ODD_ROWS_BIT
    True
    """
    packs = PACKED_HALVES_BIT if formula.result_dtype in HALF_DTYPES else 0
    return packs | (ODD_ROWS_BIT if loop is not None and loop[-1] % 4 else 0)


@cache
def single_call_program(form: ChainShaderKey) -> Program:
    """Return the shader program of an elementwise call that is not fused with others."""
    return chain_program(form)


def chain_program(form: ChainShaderKey) -> Program:
    """Return the shader program of a chain of fused calls; its operands are the inputs, then the outputs."""
    label = "; ".join(formula.wgsl_expression for formula in form.formulas)
    return Program(
        label,
        partial(_chain_source, form),
        workgroup=WORKGROUP_INVOCATIONS,
        outputs=len(form.output_call_indices),
    )


# --- the shader


def plain_store_substitutions(binding: int, element: str) -> dict[str, str]:
    """Return the template substitutions of a store function that only writes elements to the output, unfused."""
    return {
        "fields": "",
        "store": f"@group(0) @binding({binding}) var<storage, read_write> output: array<{element}>;\n\n"
        f"fn store(at: u32, value: {element}) {{ output[at] = value; }}",
    }


def program_with_epilogue(program: Program, inputs: int, form: ChainShaderKey) -> Program:
    """Return a program that passes its results through a chain of elementwise calls before it stores them.

    Its operands are those inputs, the leaves that are not given, and the outputs.
    """
    label = "; ".join([program.label, *[formula.wgsl_expression for formula in form.formulas[1:]]])
    dtype, _ = form.input_dtypes_and_access_modes[0]
    element = vector_type(stored_type(dtype), form.vector_width)
    parts = _chain_substitutions(form, inputs)
    fields = parts.pop("fields")
    store = fill_templates("elementwise_store", element=element, **parts)
    return Program(
        label,
        partial(program.source, fields=fields, store=store),
        entry_point=program.entry_point,
        workgroup=program.workgroup,
        outputs=len(form.output_call_indices),
    )


def _chain_source(form: ChainShaderKey) -> str:
    return shader(
        "elementwise", workgroup=str(WORKGROUP_INVOCATIONS), **_chain_substitutions(form, 0)
    )


def _chain_substitutions(form: ChainShaderKey, first_binding: int) -> dict[str, str]:
    functions, values = _functions_and_call_statements(form)
    return {
        "fields": "\n".join(_parameter_fields(form)),
        "bindings": "\n".join(_binding_declarations(form, first_binding)),
        "functions": "\n".join(functions),
        "calls": fill_templates(
            "elementwise_calls",
            places=str(max(form.loop_axis_count - 1, 0)),
            last=f"let at{form.loop_axis_count - 1} = rest;" if form.loop_axis_count else "",
            loads="\n".join(
                _load_statement(form, number)
                for number in range(len(form.input_dtypes_and_access_modes))
            ),
            values="\n".join(values),
            stores="\n".join(
                _format_store(form, number, place)
                for number, place in enumerate(form.output_call_indices)
            ),
        ),
    }


def _parameter_fields(form: ChainShaderKey) -> list[str]:
    fields = ["zero: u32"] if len(form.formulas) > 1 else []
    if form.loop_axis_count:
        fields.append(f"sizes: array<u32, {form.loop_axis_count - 1}>")
        fields += [
            f"strides{number}: array<u32, {form.loop_axis_count}>"
            for number, (_, mode) in enumerate(form.input_dtypes_and_access_modes)
            if mode in ("vectors", "scalar")
        ]
    for place, formula in enumerate(form.formulas):
        fields += [f"{name}_{place}: {kind}" for name, kind in formula.attribute_names_and_types]
    return [f"  {field}," for field in fields]


def _binding_declarations(form: ChainShaderKey, first: int) -> list[str]:
    arrays = [
        (
            "read",
            f"leaf{number}_values",
            dtype,
            form.vector_width if mode in ("whole", "vectors") else 1,
        )
        for number, (dtype, mode) in enumerate(form.input_dtypes_and_access_modes)
        if mode != "given"
    ]
    for number, place in enumerate(form.output_call_indices):
        dtype = form.formulas[place].result_dtype
        arrays.append(("read_write", f"output{number}", dtype, form.vector_width))
    return [
        f"@group(0) @binding({i}) var<storage, {access}> {name}: array<{_bound_wgsl_type(dtype, width)}>;"
        for i, (access, name, dtype, width) in enumerate(arrays, first)
    ]


def _bound_wgsl_type(dtype: DType, width: int) -> str:
    """Return the type of `width` elements in a buffer; a single half is in one of two in a word."""
    if dtype in HALF_DTYPES:
        return vector_type("u32", (width + 1) // 2)
    return vector_type(WGSL_STORAGE_TYPES[dtype], width)


def _load_statement(form: ChainShaderKey, number: int) -> str:
    dtype, mode = form.input_dtypes_and_access_modes[number]
    if mode == "given":
        return f"  let leaf{number} = value;"
    steps = [
        f"at{axis} * parameters.strides{number}[{axis}]" for axis in range(form.loop_axis_count)
    ]
    offset = {"whole": "index", "one": "0u"}.get(mode) or " + ".join(steps)
    value = f"leaf{number}_values[{offset}]"
    is_vector = mode in ("whole", "vectors") and form.vector_width > 1
    if dtype in HALF_DTYPES:
        value = (
            f"halves_of_words({value})"
            if is_vector
            else f"half_at(leaf{number}_values[({offset}) >> 1u], {offset})"
        )
    if is_vector or form.vector_width == 1:
        return f"  let leaf{number} = {value};"
    repeated = ", ".join([f"leaf{number}_value"] * form.vector_width)
    return (
        f"  let leaf{number}_value = {value};\n"
        f"  let leaf{number} = {vector_type(stored_type(dtype), form.vector_width)}({repeated});"
    )


def _format_store(form: ChainShaderKey, number: int, place: int) -> str:
    value = f"value{place}"
    if form.formulas[place].result_dtype in HALF_DTYPES:
        value = f"words_of_halves({value})"
    return f"  output{number}[index] = {value};"


def _functions_and_call_statements(form: ChainShaderKey) -> tuple[list[str], list[str]]:
    """Return the WGSL functions of the steps, without duplicates, and the statements that call them."""
    names: dict[str, str] = {}
    values: list[str] = []
    for place, (formula, references) in enumerate(
        zip(form.formulas, form.operand_references, strict=True)
    ):
        expression = re.sub(
            r"\bparameters\.(\w+)", rf"parameters.\1_{place}", formula.wgsl_expression
        )
        arguments = ", ".join(
            f"{name}: {value_type(dtype)}" for name, dtype in formula.input_names_and_dtypes
        )
        function = f"({arguments}) -> {value_type(formula.result_dtype)} {{ return {expression}; }}"
        name = names.setdefault(function, f"call{place}")
        is_used = any(place in others for others in form.operand_references[place + 1 :])
        stored = stored_type(formula.result_dtype)
        lanes = (
            [""] if form.vector_width == 1 else [f"[{lane}]" for lane in range(form.vector_width)]
        )
        results: list[str] = []
        for lane in lanes:
            result = as_stored(
                formula.result_dtype, f"{name}({_call_arguments(formula, references, lane)})"
            )
            results.append(_opaque_expression(stored, result) if is_used else result)
        values.append(
            f"  let value{place} = {vector_type(stored, form.vector_width)}({', '.join(results)});"
        )
    return [f"fn {name}{function}" for function, name in names.items()], values


def _call_arguments(formula: Formula, references: OperandReferences, lane: str) -> str:
    arguments: list[str] = []
    for k, ((_, dtype), reference) in enumerate(
        zip(formula.input_names_and_dtypes, references, strict=True)
    ):
        value = f"value{reference}{lane}" if reference >= 0 else f"leaf{~reference}{lane}"
        # If a compiler finds that two operands are equal, x - x is 0, also where x is infinite.
        before = references[:k]
        if reference in before or (reference >= 0 and any(r >= 0 for r in before)):
            value = (
                f"({value} {OPAQUE_WGSL_OPERATORS[k]} parameters.zero)"
                if dtype in HALF_DTYPES
                else _opaque_expression(WGSL_STORAGE_TYPES[dtype], value, OPAQUE_WGSL_OPERATORS[k])
            )
        arguments.append(as_value(dtype, value))
    return ", ".join(arguments)


def _opaque_expression(stored: str, value: str, operator: str = OPAQUE_WGSL_OPERATORS[0]) -> str:
    """Return an expression with the same value that compilers cannot simplify."""
    bits = {"f32": "u32", "vec2<f32>": "vec2<u32>"}.get(stored)
    if bits is None:  # the arithmetic of integers is exact
        return value
    return f"bitcast<{stored}>(bitcast<{bits}>({value}) {operator} {bits}(parameters.zero))"
