"""Kernels from other packages, in WGSL: the value of each element, or a whole shader.

The declarations that a shader needs are made from the contract: buffers, sizes and attributes. They
follow the text of the author, so that the lines in the compiler's messages are the author's.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache, partial
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast, get_args

import numpy as np

from plugrad.extend import (
    ArgumentError,
    ArgumentValueError,
    Shaped,
    as_dtype,
    count_elements,
    is_interruption,
)
from plugrad_webgpu.algorithms.expressions import elementwise
from plugrad_webgpu.driver.comments import remove_comments
from plugrad_webgpu.shaders.elements import (
    NUMBER_DTYPES,
    SHADER_DTYPES,
    WGSL_STORAGE_TYPES,
    WGSL_VALUE_TYPES,
    WORD_DTYPES_BY_NARROW_DTYPE,
    require_dtype,
)
from plugrad_webgpu.shaders.program import Program, plan
from plugrad_webgpu.shaders.sources import linked

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from plugrad.extend import DType, Kernel
    from plugrad_webgpu.memory.buffers import GpuArray
    from plugrad_webgpu.shaders.program import Plan

    SourceWriter = Callable[["Interface"], str]
    """A function that returns the WGSL of a kernel with the given interface."""

STENCIL_WORKGROUP_SIZE: Final = 64
"""The number of invocations in a workgroup of a stencil."""
_wrap_narrow_integers: Final = elementwise(dict.fromkeys(NUMBER_DTYPES, "x"))
"""The elementwise kernel that wraps integers to a narrow dtype after words have computed them."""

_ENTRY_POINT_PATTERN = re.compile(r"@compute\b[^{;]*?\bfn\s+(\w+)")
"""Matches an entry point of a shader; the group is its name."""
_WORKGROUP_SIZE_PATTERN = re.compile(r"@workgroup_size\s*\(([^)]*)\)")
"""Matches a workgroup size in a shader; the group has its numbers."""


def stencil(body: str, contract: Kernel[..., Any]) -> Callable[..., GpuArray]:
    """Return an implementation that computes each output element by WGSL statements.

    >>> from plugrad.extend import Shaped, Spec, kernel
    >>> from plugrad_webgpu import stencil
    >>> @kernel("acme>Differences")
    ... def differences(x: Spec) -> Spec:
    ...     return Shaped((x.shape[0] - 1,), x.dtype)
    >>> implementation = stencil("return x_at(at[0] + 1) - x_at(at[0]);", differences)

    The statements may use what `load_wgsl_kernel` declares, and in addition:

    - ``at``, the position of the element, an ``array<i32, n>``, and ``index``, its number in the output;
    - for each input a function such as ``x_at``, which takes a position, one ``i32`` for each axis,
      and returns the element there, or 0 outside the array.

    Args:
        body: WGSL that returns the element; its loops must end.
        contract: the kernel that it implements.

    Raises:
        ArgumentError: the contract takes a list of inputs, or an argument has the wrong type.
        ArgumentValueError: see `load_wgsl_kernel`.
    """
    text = _check_source(contract, body, "stencil: body")
    write = partial(_stencil_source, text)
    return _make_implementation(contract, write, "main", STENCIL_WORKGROUP_SIZE, None)


def load_wgsl_kernel(
    source: str | Path,
    contract: Kernel[..., Any],
    *,
    invocations: Callable[..., int] | None = None,
) -> Callable[..., GpuArray]:
    """Return an implementation of a kernel by a compute shader, given as WGSL or as the path of a file.

    The source has one entry point, and may use the functions of snippets.wgsl, accurate.wgsl and
    complex.wgsl. These are declared for it:

    - each input, under its name, as an ``array`` in a storage buffer, and ``output``, which it fills;
      bools are ``u32``, complex numbers ``vec2<f32>``, int64 ``vec2<u32>``, and narrow dtypes the wide
      ones; ``T`` is the type of the values of the first input;
    - ``parameters.size``, the number of elements of the output, and ``parameters.x_shape`` for each input
      with axes and ``parameters.output_shape``: arrays of ``u32``;
    - ``parameters.name`` for each attribute: an ``f32``, an ``i32``, a ``u32`` for a bool, or an ``array``
      of these for a tuple.

    The shader is compiled when the kernel first runs, once for all sizes.

    Args:
        source: the path of a file, or WGSL.
        contract: the kernel that it implements, with one output.
        invocations: a function of the inputs' specs and of the attributes, as the contract is, that
            returns how many invocations are started at least; by default one for each element of
            the output. More may run: compare `linear_index` with ``parameters.size``.

    Raises:
        ArgumentError: there is no such file, the contract takes a list of inputs, or an argument has
            the wrong type. When the kernel runs: an attribute is neither a number nor a tuple.
        ArgumentValueError: the source does not have one entry point whose workgroup size is written
            in digits. When the kernel runs: the shader does not compile.
    """
    text = _check_source(contract, _read_source(source), "load_wgsl_kernel: source")
    plain = remove_comments(text)
    names, sizes = _ENTRY_POINT_PATTERN.findall(plain), _WORKGROUP_SIZE_PATTERN.findall(plain)
    if len(names) != 1 or len(sizes) != 1:
        raise ArgumentValueError(
            f"{contract.name}: the source has {len(names)} entry points; a kernel has one, such as "
            "'@compute @workgroup_size(64) fn main(...)'"
        )
    digits = [size.strip() for size in sizes[0].split(",") if size.strip()]
    if not digits or not all(size.isdecimal() for size in digits):
        raise ArgumentValueError(
            f"{contract.name}: @workgroup_size({sizes[0]}) must be written in digits, such as (64)"
        )
    workgroup = prod(map(int, digits))

    def write(interface: Interface) -> str:
        return f"{text}\n{interface.declarations}"

    return _make_implementation(contract, write, names[0], workgroup, invocations)


class Interface(NamedTuple):
    """The interface of a custom shader: the ranks and dtypes of its arrays, and the types of its attributes."""

    inputs: tuple[tuple[str, DType, int], ...]
    """The name, the dtype and the number of axes of each input."""
    output_dtype: DType
    output_rank: int
    """The number of axes of the output."""
    attributes: tuple[tuple[str, str], ...]
    """The name and the WGSL type of each attribute."""

    @property
    def shapes(self) -> list[tuple[str, int]]:
        """The name and the number of axes of each array that has axes, inputs first, then the output."""
        ranks = [*((name, rank) for name, _, rank in self.inputs), ("output", self.output_rank)]
        return [(name, rank) for name, rank in ranks if rank]

    @property
    def declarations(self) -> str:
        """The WGSL declarations that are appended to the source."""
        arrays = [(name, "read", dtype) for name, dtype, _ in self.inputs]
        arrays.append(("output", "read_write", self.output_dtype))
        return "\n".join(
            [
                f"alias T = {WGSL_VALUE_TYPES[arrays[0][2]]};",
                "struct Parameters {",
                "  size: u32,",
                *(f"  {name}_shape: array<u32, {rank}>," for name, rank in self.shapes),
                *(f"  {name}: {kind}," for name, kind in self.attributes),
                "}",
                "var<immediate> parameters: Parameters;",
                *(
                    f"@group(0) @binding({i}) var<storage, {access}> {name}: array<{WGSL_STORAGE_TYPES[dtype]}>;"
                    for i, (name, access, dtype) in enumerate(arrays)
                ),
                "",
            ]
        )


def _stencil_source(body: str, interface: Interface) -> str:
    """Return the WGSL of a shader that computes each element by the statements of a stencil."""
    rank = max(interface.output_rank, 1)
    value = WGSL_VALUE_TYPES[interface.output_dtype]
    places = [
        f"  at[{axis}] = i32(rest % parameters.output_shape[{axis}]);\n"
        f"  rest /= parameters.output_shape[{axis}];"
        for axis in reversed(range(interface.output_rank))
    ]
    return "\n".join(
        [
            f"fn element(index: u32, at: array<i32, {rank}>) -> {value} {{{body}",
            "}",
            *(_reader_function(*x) for x in interface.inputs),
            f"@compute @workgroup_size({STENCIL_WORKGROUP_SIZE})",
            "fn main(@builtin(global_invocation_id) id: vec3u, @builtin(num_workgroups) groups: vec3u) {",
            f"  let index = linear_index(id, groups, {STENCIL_WORKGROUP_SIZE}u);",
            "  if (index >= parameters.size) { return; }",
            f"  var at: array<i32, {rank}>;",
            "  var rest = index;",
            *places,
            f"  output[index] = {WGSL_STORAGE_TYPES[interface.output_dtype]}(element(index, at));",
            "}",
            interface.declarations,
        ]
    )


def _reader_function(name: str, dtype: DType, rank: int) -> str:
    """Return a WGSL function that reads an element of an array, and 0 outside of it."""
    axes = range(rank)
    arguments = ", ".join(f"i{axis}: i32" for axis in axes)
    # A negative position is a large one as a u32.
    outside = " || ".join(f"u32(i{axis}) >= parameters.{name}_shape[{axis}]" for axis in axes)
    place = "0u"
    for axis in axes:
        place = f"({place} * parameters.{name}_shape[{axis}] + u32(i{axis}))"
    value = WGSL_VALUE_TYPES[dtype]
    return (
        f"fn {name}_at({arguments}) -> {value} {{\n  if ({outside or 'false'}) {{ return {value}(); }}\n"
        f"  return {value}({name}[{place}]);\n}}"
    )


def _make_implementation(
    contract: Kernel[..., Any],
    write_source: SourceWriter,
    entry_point: str,
    workgroup_size: int,
    invocations: Callable[..., int] | None,
) -> Callable[..., GpuArray]:
    """Return an implementation of a contract by the shader that `write_source` returns for an interface."""

    @cache
    def program(interface: Interface) -> Program:
        """Return the program for an interface."""

        def source() -> str:
            """Return the WGSL of the shader."""
            return linked(write_source(interface))

        return Program(contract.name, source, entry_point=entry_point, workgroup=workgroup_size)

    @lru_cache(maxsize=1024)
    def plan_for(
        specs: tuple[Shaped, ...], attrs: tuple[tuple[str, Any], ...], _attrs_text: str
    ) -> Plan:
        """Return the plan of a call with inputs of these specs.

        The text of the attributes tells apart what is equal as keys of the cache: 1, 1.0 and True, or 0.0 and -0.0.
        """
        values = dict(attrs)
        out = contract.infer(*specs, **values)
        if not hasattr(out, "dtype"):
            raise ArgumentValueError(
                f"{contract.name} has {len(out)} outputs, but a shader has one; declare a kernel for each"
            )
        for spec in (*specs, out):
            require_dtype(spec.dtype, SHADER_DTYPES, f"{contract.name} on webgpu")
        said = contract.annotations
        numbers = {
            name: _attribute_type_and_numbers(contract.name, name, values[name], said.get(name))
            for name in contract.attributes
        }
        interface = Interface(
            tuple(
                (name, x.dtype, len(x.shape))
                for name, x in zip(contract.inputs, specs, strict=True)
            ),
            out.dtype,
            len(out.shape),
            tuple((name, kind) for name, (kind, _) in numbers.items()),
        )
        shapes = [size for x in (*specs, out) for size in x.shape]
        attributes = [number for _, items in numbers.values() for number in items]
        size = count_elements(out.shape)
        count = size if invocations is None else int(invocations(*specs, **values))
        parameters = (size, *shapes, *attributes)
        return plan(program(interface), parameters, count, out.shape, out.dtype)

    def implementation(*arrays: Any, **attrs: Any) -> GpuArray:
        inputs: Sequence[GpuArray] = arrays if contract.inputs else ()
        if any(x is None for x in inputs):
            raise ArgumentValueError(
                f"{contract.name} on webgpu: all inputs must be given; a shader has no optional ones"
            )
        device = inputs[0].buffer.device if inputs else arrays[0].active_device
        specs = tuple([Shaped(x.shape, as_dtype(x.dtype)) for x in inputs])
        result = device.launch(plan_for(specs, tuple(attrs.items()), str(attrs)), *inputs)
        return (
            _wrap_narrow_integers(result) if result.dtype in WORD_DTYPES_BY_NARROW_DTYPE else result
        )

    return implementation


def _attribute_type_and_numbers(
    kernel_name: str, name: str, value: Any, annotation: Any
) -> tuple[str, list[int] | list[float]]:
    """Return an attribute's WGSL type and its numbers; integers become floats where the contract says float.

    Raises:
        ArgumentError: it is neither a number nor a tuple of numbers.
        ArgumentValueError: it is an empty tuple, or an integer that does not fit 32 bits.
    """
    items = cast("tuple[Any, ...]", value if isinstance(value, tuple) else (value,))
    if not items:
        raise ArgumentValueError(
            f"{kernel_name}: the attribute {name}=() cannot be passed to a shader, which has no empty arrays"
        )
    if not all(isinstance(x, int | float | np.integer | np.floating | np.bool_) for x in items):
        raise ArgumentError(
            f"{kernel_name}: the attribute {name}={value!r} cannot be passed to a shader; it must be a number or a "
            "tuple of numbers"
        )
    has_floats = any(isinstance(x, float | np.floating) for x in items)
    if has_floats or float in (annotation, *get_args(annotation)):
        kind, numbers = "f32", [float(x) for x in items]
    else:
        kind = "u32" if all(isinstance(x, bool | np.bool_) for x in items) else "i32"
        numbers = [int(x) for x in items]
        if not all(-(2**31) <= x < 2**31 for x in numbers):
            raise ArgumentValueError(
                f"{kernel_name}: the attribute {name}={value!r} does not fit the 32 bits of an integer in a shader"
            )
    return (f"array<{kind}, {len(items)}>" if isinstance(value, tuple) else kind), numbers


def _read_source(source: object) -> object:
    """Return the source; a path is read from its file.

    Raises:
        ArgumentError: there is no such file.
    """
    if isinstance(source, str) and "{" in source:
        return source
    if not isinstance(source, str | Path):
        return source
    try:
        return Path(source).read_text("utf-8")
    except (OSError, ValueError) as error:
        if is_interruption(error):
            raise
        raise ArgumentError(f"load_wgsl_kernel: {source}: {error}") from None


def _check_source(contract: Kernel[..., Any], source: object, argument_name: str) -> str:
    """Return the source after a check that a shader can implement the contract.

    Raises:
        ArgumentError: it is not a string, or the contract takes a list of inputs.
    """
    if not isinstance(source, str):
        raise ArgumentError(f"{argument_name}={source!r} must be a string of WGSL")
    if contract.takes_list:
        raise ArgumentError(
            f"{argument_name}: {contract.name} takes a list of inputs, but a shader has a fixed number of buffers"
        )
    return source
