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
"""The WGSL operators that combine bits with a parameter that is 0: the first for results, the others for operands."""
MAX_CALL_INPUTS: Final = len(OPAQUE_WGSL_OPERATORS)
"""The largest number of inputs of a call in a chain."""
MAX_COMPILE_WEIGHT: Final = 64
"""The largest weight of a chain's calls: an accurate function has 4 to 16, and the driver compiles it in 10 ms."""
ROUNDING_WEIGHT: Final = 2
"""The additional weight of a call whose result is rounded to a half."""

WORKGROUP_INVOCATIONS: Final = 256
"""The workgroup size of elementwise shaders: software devices start a workgroup in the time of two dozen loads."""

PACKED_HALVES_BIT: Final = 1
"""The bit among fusion limits of calls whose results are halves, which are written four at a time."""
ODD_ROWS_BIT: Final = 2
"""The bit among fusion limits of calls that repeat inputs along rows whose length is no multiple of 4."""
CONFLICTING_FUSION_LIMITS: Final = PACKED_HALVES_BIT | ODD_ROWS_BIT
"""The bits of fusion limits that calls in one chain must not have together."""

LeafAccessMode = Literal["whole", "vectors", "scalar", "one", "given"]
"""How a shader reads a leaf, an input of a chain: from a buffer in a certain layout, or as a function's argument."""
ParameterNumber = int | float | complex
"""A number that a shader reads as a parameter."""
OperandReferences = tuple[int, ...]
"""The operands of a call in a chain: earlier calls by their index, and leaves by the complement of their index."""


class Formula(NamedTuple):
    """The WGSL expression that a call computes for each element."""

    wgsl_expression: str
    """The expression of an element of each input, by the input's name."""
    input_names_and_dtypes: tuple[tuple[str, DType], ...]
    """The name and the dtype of each input."""
    result_dtype: DType
    """The dtype of the expression."""
    attribute_names_and_types: tuple[tuple[str, str], ...] = ()
    """The names and the WGSL types of the numbers that the expression reads as ``parameters.name``."""


@dataclass(slots=True, eq=False)
class InputAccess:
    """How a call reads an input of a dtype; the strides are None if the input is laid out like the result."""

    dtype: DType
    """The dtype of the input."""
    strides: Strides | None
    """The strides in elements, or none for a single element."""


cached_input_access: Callable[[DType, Strides | None], InputAccess] = lru_cache(maxsize=1024)(
    InputAccess
)
"""Return an `InputAccess`: for equal arguments the same object, which is quick to compare."""


@dataclass(slots=True, eq=False)
class ElementwiseCall:
    """An elementwise call for inputs of certain shapes and dtypes."""

    formula: Formula
    """The expression that the call computes."""
    input_accesses: tuple[InputAccess, ...]
    """How the call reads each input."""
    attribute_values: tuple[ParameterNumber, ...]
    """The values of the attributes, in order."""
    shape: Shape
    """The shape of the result."""
    dtype: DType
    """The dtype of the result."""
    element_count: int
    """The number of elements of the result."""
    compile_weight: int
    """How much the call adds to the compile time of a chain, relative to an addition."""
    broadcast_shape: Shape | None
    """The shape of the result if an input has to be repeated along its axes."""
    fusion_limits: int
    """The bits `PACKED_HALVES_BIT` and `ODD_ROWS_BIT`, which limit the calls that it can share a chain with."""
    single_call_plan: Plan
    """The plan of a dispatch of this call alone."""
    can_join_chain: bool
    """Whether the call may be part of a chain: it has work to do, and not too many inputs."""
    host_function: Callable[..., NDArray[Any]] | None
    """The function of NumPy's arrays and the attributes that gives the same bits on the host."""


class ChainShaderKey(NamedTuple):
    """Everything that determines the shader of a chain."""

    formulas: tuple[Formula, ...]
    """The expressions of the calls, in order."""
    operand_references: tuple[OperandReferences, ...]
    """The operands of each call."""
    input_dtypes_and_access_modes: tuple[tuple[DType, LeafAccessMode], ...]
    """How the shader reads each leaf."""
    output_call_indices: tuple[int, ...]
    """The indices of the calls whose results are written."""
    loop_axis_count: int
    """The number of axes of the loops over elements."""
    vector_width: int
    """The number of elements that an invocation computes."""


class ChainLayout(NamedTuple):
    """The shader of a chain, and the parameters of one call."""

    shader_key: ChainShaderKey
    """What determines the shader."""
    parameter_values: list[ParameterNumber]
    """The parameters of the shader, in order."""
    invocation_count: int
    """The number of invocations that the chain needs."""


def lay_out_chain(
    shape: Shape,
    calls: Sequence[tuple[Formula, Sequence[ParameterNumber], OperandReferences]],
    leaf_accesses: Sequence[InputAccess],
    output_call_indices: tuple[int, ...],
    vector_width: int | None = None,
) -> ChainLayout:
    """Return which elements an invocation computes in a chain of elementwise calls, and how it reads and writes them.

    Args:
        shape: The shape along which leaves are repeated; if none is, any with this number of elements.
        calls: The formula of each call, the values of its attributes, and its operands.
        leaf_accesses: How the leaves are read.
        output_call_indices: The indices of the calls whose results are written.
        vector_width: The number of elements that another shader gives at a time as the first leaf; None if all leaves
            are loaded.
    """
    spread = [r.strides for r in leaf_accesses if r.strides]
    loop = merge_axes(shape, *spread)
    rank = len(loop.sizes)
    axes = rank if rank > 1 else 0
    # A single run may write past its end, into the padding of its buffer; rows may not.
    is_given = vector_width is not None
    vector_width = vector_width or (4 if not axes or loop.sizes[0] % 4 == 0 else 1)
    count = 0 if 0 in shape else -(-loop.steps // vector_width)
    parameters: list[ParameterNumber] = [count]
    if len(calls) > 1:
        parameters.append(0)
    if axes:
        parameters += [-(-loop.sizes[0] // vector_width), *loop.sizes[1:-1]]
    advances = iter(loop.strides)
    modes: list[LeafAccessMode] = []
    for each in leaf_accesses:
        if not each.strides:
            modes.append("whole" if each.strides is None else "one")
            continue
        strides = next(advances)
        modes.append("vectors" if strides[0] == 1 else "scalar")
        if axes:
            step = vector_width if strides[0] == 1 else 1
            parameters += [strides[0], *[s // step for s in strides[1:]]]
    if is_given:
        modes[0] = "given"
    for _, values, _ in calls:
        parameters += values
    shader_key = ChainShaderKey(
        tuple(formula for formula, _, _ in calls),
        tuple(references for _, _, references in calls),
        tuple((each.dtype, mode) for each, mode in zip(leaf_accesses, modes, strict=True)),
        output_call_indices,
        axes,
        vector_width,
    )
    return ChainLayout(shader_key, parameters, count)


@cache
def estimate_compile_weight(formula: Formula) -> int:
    """Return the relative compile time of a formula; an addition is 1."""
    rounding = ROUNDING_WEIGHT if formula.result_dtype in HALF_DTYPES else 0
    return min(1 + rounding + len(linked(formula.wgsl_expression)) // 200, MAX_COMPILE_WEIGHT // 4)


def find_fusion_limits(formula: Formula, broadcast_shape: Shape | None) -> int:
    """Return, as bits, the kinds of calls that an elementwise call must not be fused with.

    >>> find_fusion_limits(Formula("x", (("x", float32),), float32), (2, 3)) == ODD_ROWS_BIT
    True
    """
    packs = PACKED_HALVES_BIT if formula.result_dtype in HALF_DTYPES else 0
    return packs | (ODD_ROWS_BIT if broadcast_shape is not None and broadcast_shape[-1] % 4 else 0)


@cache
def single_call_program(shader_key: ChainShaderKey) -> Program:
    """Return the shader program of an elementwise call that is not fused with others."""
    return chain_program(shader_key)


def chain_program(shader_key: ChainShaderKey) -> Program:
    """Return the shader program of a chain of fused calls; its operands are the inputs, then the outputs."""
    label = "; ".join(formula.wgsl_expression for formula in shader_key.formulas)
    return Program(
        label,
        partial(_chain_source, shader_key),
        workgroup=WORKGROUP_INVOCATIONS,
        outputs=len(shader_key.output_call_indices),
    )


# --- the shader


def plain_store_substitutions(binding: int, element: str) -> dict[str, str]:
    """Return the template substitutions of a function `store` that only writes WGSL elements to the output."""
    return {
        "fields": "",
        "store": f"@group(0) @binding({binding}) var<storage, read_write> output: array<{element}>;\n\n"
        f"fn store(at: u32, value: {element}) {{ output[at] = value; }}",
    }


def program_with_epilogue(
    program: Program, input_count: int, shader_key: ChainShaderKey
) -> Program:
    """Return a program that passes its results through a chain of elementwise calls before it stores them.

    Its operands are those inputs, the leaves that are not given, and the outputs.
    """
    label = "; ".join(
        [program.label, *[formula.wgsl_expression for formula in shader_key.formulas[1:]]]
    )
    dtype, _ = shader_key.input_dtypes_and_access_modes[0]
    element = vector_type(stored_type(dtype), shader_key.vector_width)
    parts = _chain_substitutions(shader_key, input_count)
    fields = parts.pop("fields")
    store = fill_templates("elementwise_store", element=element, **parts)
    return Program(
        label,
        partial(program.source, fields=fields, store=store),
        entry_point=program.entry_point,
        workgroup=program.workgroup,
        outputs=len(shader_key.output_call_indices),
    )


def _chain_source(shader_key: ChainShaderKey) -> str:
    """Return the WGSL of a chain's shader."""
    return shader(
        "elementwise", workgroup=str(WORKGROUP_INVOCATIONS), **_chain_substitutions(shader_key, 0)
    )


def _chain_substitutions(shader_key: ChainShaderKey, first_binding: int) -> dict[str, str]:
    """Return the template substitutions of a chain, whose arrays have the bindings from `first_binding` on."""
    functions, values = _functions_and_call_statements(shader_key)
    return {
        "fields": "\n".join(_parameter_fields(shader_key)),
        "bindings": "\n".join(_binding_declarations(shader_key, first_binding)),
        "functions": "\n".join(functions),
        "calls": fill_templates(
            "elementwise_calls",
            places=str(max(shader_key.loop_axis_count - 1, 0)),
            last=f"let at{shader_key.loop_axis_count - 1} = rest;"
            if shader_key.loop_axis_count
            else "",
            loads="\n".join(
                _load_statement(shader_key, number)
                for number in range(len(shader_key.input_dtypes_and_access_modes))
            ),
            values="\n".join(values),
            stores="\n".join(
                _format_store(shader_key, number, place)
                for number, place in enumerate(shader_key.output_call_indices)
            ),
        ),
    }


def _parameter_fields(shader_key: ChainShaderKey) -> list[str]:
    """Return the WGSL fields of the struct of a chain's parameters."""
    fields = ["zero: u32"] if len(shader_key.formulas) > 1 else []
    if shader_key.loop_axis_count:
        fields.append(f"sizes: array<u32, {shader_key.loop_axis_count - 1}>")
        fields += [
            f"strides{number}: array<u32, {shader_key.loop_axis_count}>"
            for number, (_, mode) in enumerate(shader_key.input_dtypes_and_access_modes)
            if mode in ("vectors", "scalar")
        ]
    for place, formula in enumerate(shader_key.formulas):
        fields += [f"{name}_{place}: {kind}" for name, kind in formula.attribute_names_and_types]
    return [f"  {field}," for field in fields]


def _binding_declarations(shader_key: ChainShaderKey, first_binding: int) -> list[str]:
    """Return the WGSL declarations of a chain's leaves and outputs."""
    arrays = [
        (
            "read",
            f"leaf{number}_values",
            dtype,
            shader_key.vector_width if mode in ("whole", "vectors") else 1,
        )
        for number, (dtype, mode) in enumerate(shader_key.input_dtypes_and_access_modes)
        if mode != "given"
    ]
    for number, place in enumerate(shader_key.output_call_indices):
        dtype = shader_key.formulas[place].result_dtype
        arrays.append(("read_write", f"output{number}", dtype, shader_key.vector_width))
    return [
        f"@group(0) @binding({i}) var<storage, {access}> {name}: array<{_bound_wgsl_type(dtype, width)}>;"
        for i, (access, name, dtype, width) in enumerate(arrays, first_binding)
    ]


def _bound_wgsl_type(dtype: DType, width: int) -> str:
    """Return the WGSL type of `width` elements in a buffer; for a single half, of the word that holds it."""
    if dtype in HALF_DTYPES:
        return vector_type("u32", (width + 1) // 2)
    return vector_type(WGSL_STORAGE_TYPES[dtype], width)


def _load_statement(shader_key: ChainShaderKey, leaf_index: int) -> str:
    """Return the WGSL that loads a leaf."""
    dtype, mode = shader_key.input_dtypes_and_access_modes[leaf_index]
    if mode == "given":
        return f"  let leaf{leaf_index} = value;"
    steps = [
        f"at{axis} * parameters.strides{leaf_index}[{axis}]"
        for axis in range(shader_key.loop_axis_count)
    ]
    offset = {"whole": "index", "one": "0u"}.get(mode) or " + ".join(steps)
    value = f"leaf{leaf_index}_values[{offset}]"
    is_vector = mode in ("whole", "vectors") and shader_key.vector_width > 1
    if dtype in HALF_DTYPES:
        value = (
            f"halves_of_words({value})"
            if is_vector
            else f"half_at(leaf{leaf_index}_values[({offset}) >> 1u], {offset})"
        )
    if is_vector or shader_key.vector_width == 1:
        return f"  let leaf{leaf_index} = {value};"
    repeated = ", ".join([f"leaf{leaf_index}_value"] * shader_key.vector_width)
    return (
        f"  let leaf{leaf_index}_value = {value};\n"
        f"  let leaf{leaf_index} = {vector_type(stored_type(dtype), shader_key.vector_width)}({repeated});"
    )


def _format_store(shader_key: ChainShaderKey, output_index: int, call_index: int) -> str:
    """Return the WGSL that stores the result of a call in an output."""
    value = f"value{call_index}"
    if shader_key.formulas[call_index].result_dtype in HALF_DTYPES:
        value = f"words_of_halves({value})"
    return f"  output{output_index}[index] = {value};"


def _functions_and_call_statements(shader_key: ChainShaderKey) -> tuple[list[str], list[str]]:
    """Return the WGSL functions of the calls, without duplicates, and the statements that call them."""
    names: dict[str, str] = {}
    values: list[str] = []
    for place, (formula, references) in enumerate(
        zip(shader_key.formulas, shader_key.operand_references, strict=True)
    ):
        expression = re.sub(
            r"\bparameters\.(\w+)", rf"parameters.\1_{place}", formula.wgsl_expression
        )
        arguments = ", ".join(
            f"{name}: {value_type(dtype)}" for name, dtype in formula.input_names_and_dtypes
        )
        function = f"({arguments}) -> {value_type(formula.result_dtype)} {{ return {expression}; }}"
        name = names.setdefault(function, f"call{place}")
        is_used = any(place in others for others in shader_key.operand_references[place + 1 :])
        stored = stored_type(formula.result_dtype)
        lanes = (
            [""]
            if shader_key.vector_width == 1
            else [f"[{lane}]" for lane in range(shader_key.vector_width)]
        )
        results: list[str] = []
        for lane in lanes:
            result = as_stored(
                formula.result_dtype, f"{name}({_call_arguments(formula, references, lane)})"
            )
            results.append(_opaque_expression(stored, result) if is_used else result)
        values.append(
            f"  let value{place} = {vector_type(stored, shader_key.vector_width)}({', '.join(results)});"
        )
    return [f"fn {name}{function}" for function, name in names.items()], values


def _call_arguments(formula: Formula, references: OperandReferences, lane_selector: str) -> str:
    """Return the WGSL arguments of a call, for a lane of vectors such as ``[0]``."""
    arguments: list[str] = []
    for k, ((_, dtype), reference) in enumerate(
        zip(formula.input_names_and_dtypes, references, strict=True)
    ):
        value = (
            f"value{reference}{lane_selector}"
            if reference >= 0
            else f"leaf{~reference}{lane_selector}"
        )
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


def _opaque_expression(
    stored_type: str, expression: str, operator: str = OPAQUE_WGSL_OPERATORS[0]
) -> str:
    """Return a WGSL expression with the same value that compilers cannot simplify."""
    bits = {"f32": "u32", "vec2<f32>": "vec2<u32>"}.get(stored_type)
    if bits is None:  # the arithmetic of integers is exact
        return expression
    return (
        f"bitcast<{stored_type}>(bitcast<{bits}>({expression}) {operator} {bits}(parameters.zero))"
    )
