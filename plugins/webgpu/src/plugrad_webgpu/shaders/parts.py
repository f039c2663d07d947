"""Shaders for arrays that are larger than a device can bind at once: their buffers are bound in parts.

The shader is that of the program, with each access of such an array replaced by one of the part that has the
element.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Final

from plugrad.extend import OutOfMemory
from plugrad_webgpu.driver.comments import remove_comments
from plugrad_webgpu.driver.limits import CPU_REMEDY

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

BINDING_PATTERN: Final = re.compile(
    r"@group\(0\) @binding\((\d+)\) var<storage, (\w+)> (\w+): array<(.+)>;"
)
"""Matches the declaration of an array; the groups are its binding, access mode, name and element type."""
_NUMBER_TYPE_PATTERN: Final = re.compile(r"(?:vec(\d)|mat(\d)x2)(?:<(\w+)>|([fiuh]))|([fiu]32|f16)")
"""Matches the WGSL type of a vector, matrix or number."""
_ARRAY_TYPE_PATTERN: Final = re.compile(r"array<(.+), (\d+)>")
"""Matches the WGSL type of an array; the groups are the element type and the length."""
_ATOMIC_TYPE_PATTERN: Final = re.compile(r"atomic<([iu]32)>")
"""Matches the WGSL type of an atomic integer; the group is the type of the integer."""
_ATOMIC_OPERATIONS: Final = ("Load", "Add", "Sub", "Max", "Min", "And", "Or", "Xor", "Exchange")
"""The names of WGSL's atomic functions without "atomic"."""
_ASSIGNMENT_PATTERN: Final = re.compile(r"(?:\.\w+|\[\w+\])*\s*(?:[-+*/%&|^]|<<|>>)?=(?!=)")
"""Matches what follows an indexed array in an assignment, up to the equals sign."""


def split_bindings(source: str, label: str, part_counts: Sequence[int], part_bytes: int) -> str:
    """Return a shader's source with its operands bound in several parts each.

    Args:
        source: WGSL that declares its operands as ``@group(0) @binding(0) var<storage, read> x: array<f32>;``.
        label: What an error calls the program.
        part_counts: The number of parts of each operand.
        part_bytes: The size of all parts but the last one of an operand.

    Raises:
        OutOfMemory: the shader takes the address of an element, other than for an atomic operation with one value,
            or has elements of an unknown size.
    """
    source = remove_comments(source)
    names: dict[str, tuple[int, int]] = {}
    functions: list[str] = []

    def replace_declaration(match: re.Match[str]) -> str:
        binding, access, name, kind = int(match[1]), match[2], match[3], match[4]
        # Another entry point of the shader may have more operands.
        first = sum(part_counts[:binding]) + max(0, binding - len(part_counts))
        count = part_counts[binding] if binding < len(part_counts) else 1
        parts = [name] if count == 1 else [f"{name}_{i}" for i in range(count)]
        if count > 1:
            nbytes, needed = _type_size_in_bytes(kind), _access_functions(name, kind, source)
            if nbytes is None or needed is None:
                raise OutOfMemory(
                    f"webgpu: the program {label!r} takes {name!r} only as a whole, but it exceeds the {part_bytes} "
                    f"bytes that this device can bind at once; split it into smaller arrays, or {CPU_REMEDY}"
                )
            names[name] = count, part_bytes // nbytes
            functions.extend(function(count, part_bytes // nbytes) for function in needed)
        return "\n".join(
            f"@group(0) @binding({i}) var<storage, {access}> {part}: array<{kind}>;"
            for i, part in enumerate(parts, first)
        )

    text = BINDING_PATTERN.sub(replace_declaration, source)
    return "\n".join([_replace_accesses(text, names), *functions])


def _access_functions(
    array_name: str, element_type: str, source: str
) -> list[Callable[[int, int], str]] | None:
    """Return the generators of WGSL functions that access elements of a split array, or None if unsupported."""
    address = rf"(?:\batomic(\w+)\s*\(|[(,=]|\breturn\b)\s*&\s*{array_name}\b\s*(\[?)"
    operations = set(re.findall(address, source))
    atomic = _ATOMIC_TYPE_PATTERN.fullmatch(element_type)
    if atomic is None:
        if operations:
            return None
        if "array" in element_type or "mat" in element_type:  # which cannot be selected
            return [
                partial(_access_function, array_name, f"of_{array_name}", element_type, "", "{}")
            ]
        return [partial(_load_function, array_name, element_type)]
    if not operations <= {(operation, "[") for operation in _ATOMIC_OPERATIONS}:
        return None
    functions: list[Callable[[int, int], str]] = []
    for operation, _ in sorted(operations):
        value, given = ("", "") if operation == "Load" else (f", value: {atomic[1]}", ", value")
        call = f"atomic{operation}(&{{}}{given})"
        functions.append(
            partial(
                _access_function,
                array_name,
                f"atomic{operation}_of_{array_name}",
                atomic[1],
                value,
                call,
            )
        )
    return functions


def _load_function(array_name: str, element_type: str, part_count: int, part_elements: int) -> str:
    """Return a WGSL function that loads the element at an index.

    It loads from every part and selects, because compilers follow each path of a branch wherever it is inlined. Outside
    a part, a checked load gives any value, which nobody uses.
    """
    parts = "".join(
        f"  value = select(value, {array_name}_{i}[index - {i * part_elements}u], index >= {i * part_elements}u);\n"
        for i in range(1, part_count)
    )
    return (
        f"fn of_{array_name}(index: u32) -> {element_type} {{\n"
        f"  var value = {array_name}_0[index];\n{parts}  return value;\n}}\n"
    )


def _access_function(
    array_name: str,
    function_name: str,
    result_type: str,
    value_parameter: str,
    access_template: str,
    part_count: int,
    part_elements: int,
) -> str:
    """Return a WGSL function that accesses an element, by index, of an array split over several bindings."""
    cases = "".join(
        f"    {f'case {i}u' if i else 'default'} "
        f"{{ return {access_template.format(f'{array_name}_{i}[index - {i * part_elements}u]')}; }}\n"
        for i in reversed(range(part_count))
    )
    return (
        f"fn {function_name}(index: u32{value_parameter}) -> {result_type} {{\n"
        f"  switch index / {part_elements}u {{\n{cases}  }}\n}}\n"
    )


def _replace_accesses(source: str, part_counts_and_lengths: dict[str, tuple[int, int]]) -> str:
    """Return WGSL in which function calls access split arrays, given the parts of each array and their lengths."""
    if not part_counts_and_lengths:
        return source
    access = re.compile(
        rf"(?:\b(atomic\w+)\s*\(\s*&\s*)?(?<![\w.])({'|'.join(part_counts_and_lengths)})\["
    )
    done: list[str] = []
    at = 0
    while found := access.search(source, at):
        name, end = found[2], find_closing_bracket(source, found.end())
        done.append(source[at : found.start()])
        index = _replace_accesses(source[found.end() : end], part_counts_and_lengths)
        at = end + 1
        if found[1]:
            done.append(f"{found[1]}_of_{name}(u32({index})")
        elif _ASSIGNMENT_PATTERN.match(source, at):
            stop = source.index(";", at)
            done.append(
                _assignment_call(
                    name,
                    index,
                    _replace_accesses(source[at:stop], part_counts_and_lengths),
                    *part_counts_and_lengths[name],
                )
            )
            at = stop + 1
        else:
            done.append(f"of_{name}(u32({index}))")
    return "".join(done) + source[at:]


def _assignment_call(
    array_name: str, index: str, assignment: str, part_count: int, part_elements: int
) -> str:
    """Return the WGSL block that assigns to an element of a split array, in place of `assignment`."""
    cases = " ".join(
        f"{f'case {i}u' if i else 'default'} "
        f"{{ {array_name}_{i}[place_in_{array_name} - {i * part_elements}u]{assignment}; }}"
        for i in reversed(range(part_count))
    )
    return (
        f"{{ let place_in_{array_name} = u32({index}); "
        f"switch place_in_{array_name} / {part_elements}u {{ {cases} }} }}"
    )


def find_closing_bracket(text: str, start: int) -> int:
    """Return the position of the bracket that closes the one before `start`."""
    depth = 1
    for at in range(start, len(text)):
        depth += {"[": 1, "]": -1}.get(text[at], 0)
        if not depth:
            return at
    raise AssertionError(text[start:])  # it would not compile


def _type_size_in_bytes(wgsl_type: str) -> int | None:
    """Return the size of a WGSL number, vector, two-row matrix or array, or None for another type."""
    if _ATOMIC_TYPE_PATTERN.fullmatch(wgsl_type):
        return 4
    array = _ARRAY_TYPE_PATTERN.fullmatch(wgsl_type)
    if array is not None:
        nbytes = _type_size_in_bytes(array[1])
        return None if nbytes is None else nbytes * int(array[2])
    match = _NUMBER_TYPE_PATTERN.fullmatch(wgsl_type)
    if match is None or match[1] == "3":  # which takes the room of four
        return None
    vector, columns, of, suffix, scalar = match.groups()
    size = 2 if "f16" in (of, scalar) or suffix == "h" else 4
    return size * (int(vector) if vector else 2 * int(columns) if columns else 1)
