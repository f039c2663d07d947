"""Shaders for software devices, which run an invocation in each lane of a vector of the processor.

Such a device loads one number after the other, lane by lane. If the address is a constant, one load serves all lanes,
but only where no lane can be inactive: before the first branch or loop of the entry point. So parameters and elements
at a constant index are loaded there, into private variables.

It also divides integers lane by lane, and numbers of 64 bits at once: the quotient of two integers of 32 bits is exact.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from plugrad_webgpu.driver.comments import remove_comments
from plugrad_webgpu.shaders.parts import BINDING_PATTERN

if TYPE_CHECKING:
    from collections.abc import Callable

_PARAMETERS_PATTERN: Final = re.compile(r"var<(immediate|storage, read)> parameters: (\w+);")
"""Matches the declaration of a shader's parameters; the groups are the address space and the struct."""
_ENTRY_POINT_PATTERN: Final = re.compile(r"@compute[^{]*\{")
"""Matches the head of an entry point up to the opening brace."""
_ARRAY_LENGTH_PATTERN: Final = re.compile(r"\barray<[^,{}]+, (\d+)>")
"""Matches the type of an array; the group is its length."""
_QUOTIENT_PATTERN: Final = re.compile(r"(fn quotient\([^{]*\{\s*)return a / b;")
"""Matches the body of the snippet `quotient`; the group is what precedes the division."""

MAX_COPIED_NUMBERS: Final = 64
"""The largest number of numbers in arrays of parameters that are copied to private memory.

Compilers for processors make a chain of branches of each access to a private array: a thousand numbers take minutes.
"""


def choose_lane_rewrites(has_doubles: bool) -> tuple[Callable[[str], str], ...]:
    """Return the functions that rewrite shaders for a software device, with or without floats of 64 bits."""
    return (load_uniforms_first, divide_in_doubles) if has_doubles else (load_uniforms_first,)


def load_uniforms_first(source: str) -> str:
    """Return a shader's source whose entry points begin with the loads of values that are the same for all lanes.

    Args:
        source: WGSL that declares its operands as ``@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;``.
    """
    text = remove_comments(source)
    declarations: list[str] = []
    loads: list[str] = []

    def replace_parameters(match: re.Match[str]) -> str:
        if _count_array_numbers(match[2], text) > MAX_COPIED_NUMBERS:
            return match[0]
        declarations.append(f"var<private> parameters: {match[2]};")
        loads.append("parameters = given_parameters;")
        return f"var<{match[1]}> given_parameters: {match[2]};"

    text = _PARAMETERS_PATTERN.sub(replace_parameters, text)
    for _, access, name, kind in BINDING_PATTERN.findall(text):
        # Most operands have no such load. A search for the plain text is faster than for a pattern.
        if access != "read" or f"{name}[0u]" not in text or _is_shadowed(name, text):
            continue
        text, count = re.subn(rf"(?<![\w.&]){name}\[0u\]", f"first_of_{name}", text)
        if count:
            declarations.append(f"var<private> first_of_{name}: {kind};")
            loads.append(f"first_of_{name} = {name}[0u];")
    # In the same lines as before, by which compilers report errors.
    text = _ENTRY_POINT_PATTERN.sub(lambda match: " ".join([match[0], *loads]), text)
    return "\n".join([text, *declarations])


def _count_array_numbers(struct_name: str, source: str) -> int:
    """Return how many elements the arrays of a struct have together."""
    body = re.search(rf"\bstruct {struct_name}\s*{{([^}}]*)}}", source)
    return sum(map(int, _ARRAY_LENGTH_PATTERN.findall(body[1]))) if body else 0


def _is_shadowed(operand_name: str, source: str) -> bool:
    """Return whether a shader may use the name of an operand for a variable or a parameter of a function."""
    declaration = rf"\b{operand_name}\s*:|\b(?:let|var|const)\s+{operand_name}\s*="
    return len(re.findall(declaration, source)) > 1  # the operand itself is declared once


def divide_in_doubles(source: str) -> str:
    """Return a shader's source in which the snippet `quotient` divides floats of 64 bits."""
    return _QUOTIENT_PATTERN.sub(r"\1return u32(f64(a) / f64(b));", source)
