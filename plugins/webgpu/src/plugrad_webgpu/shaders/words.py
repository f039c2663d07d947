"""Vectors that a software device loads as words of 64 bits.

A software device runs an invocation in each lane of a vector of the processor, and loads one number after the other,
lane by lane. A word of 64 bits takes as long as one of 32. So a vector of four numbers is loaded as two words, which
are then taken apart in all lanes at once. Stores gain nothing from it.
"""

from __future__ import annotations

import re
from typing import Final

from plugrad_webgpu.driver.comments import remove_comments
from plugrad_webgpu.shaders.parts import BINDING_PATTERN, find_closing_bracket

_VECTOR_PATTERN: Final = re.compile(r"vec4(?:<([fiu]32)>|([fiu]))")
"""Matches the WGSL type of a vector of four numbers; the groups are the type of the numbers."""

# Every device is little-endian, so the lower half of a word is the first of its two numbers.
_UNPACK_FUNCTION: Final = """
fn vec4{0}_of_words(words: vec2<u64>) -> vec4<{0}> {{
  let low = vec2<u32>(words);
  let high = vec2<u32>(words >> vec2<u32>(32u));
  return bitcast<vec4<{0}>>(vec4<u32>(low.x, high.x, low.y, high.y));
}}"""
"""The WGSL template of a function that converts two 64-bit words to a vector of four numbers."""


def load_by_long_words(source: str) -> str:
    """Return a shader's source in which read-only vectors are loaded as 64-bit integers.

    Args:
        source: WGSL that declares its operands as ``@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;``.
    """
    source = remove_comments(source)
    numbers: dict[str, str] = {}  # of the arrays of vectors

    def replace_declaration(match: re.Match[str]) -> str:
        binding, access, name, kind = match.groups()
        vector = _VECTOR_PATTERN.fullmatch(kind)
        if access != "read" or vector is None or re.search(rf"&\s*{name}\b", source):
            return match[0]
        numbers[name] = vector[1] or vector[2] + "32"
        return f"@group(0) @binding({binding}) var<storage, read> {name}: array<vec2<u64>>;"

    text = BINDING_PATTERN.sub(replace_declaration, source)
    if not numbers:
        return source
    functions = [_UNPACK_FUNCTION.format(number) for number in sorted({*numbers.values()})]
    return "\n".join([_replace_loads(text, numbers), *functions])


def _replace_loads(source: str, number_types: dict[str, str]) -> str:
    """Return WGSL in which loads from arrays of 64-bit words unpack vectors, given the arrays' types of numbers."""
    access = re.compile(rf"(?<![\w.])({'|'.join(number_types)})\[")
    done: list[str] = []
    at = 0
    while found := access.search(source, at):
        end = find_closing_bracket(source, found.end())
        index = _replace_loads(source[found.end() : end], number_types)
        taken_apart = f"vec4{number_types[found[1]]}_of_words({found[1]}[{index}])"
        done.append(source[at : found.start()] + taken_apart)
        at = end + 1
    return "".join(done) + source[at:]
