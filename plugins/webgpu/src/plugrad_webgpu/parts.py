"""Shaders for arrays that are larger than a device can bind at once: their buffers are bound in parts.

The shader is that of the program, with each access of such an array replaced by one of the part that has the
element.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from plugrad.extend import OutOfMemory
from plugrad_webgpu.limits import REMEDY

if TYPE_CHECKING:
    from collections.abc import Sequence

_BINDING: Final = re.compile(
    r"@group\(0\) @binding\((\d+)\) var<storage, (\w+)> (\w+): array<(.+)>;"
)
_COMMENT: Final = re.compile(r"//.*")
_LANES: Final = re.compile(r"(?:vec(\d)|mat(\d)x2)(?:<(\w+)>|([fiuh]))|([fiu]32|f16)")
_ASSIGNED: Final = re.compile(r"(?:\.\w+|\[\w+\])*\s*(?:[-+*/%&|^]|<<|>>)?=(?!=)")


def bound_in_parts(source: str, label: str, counts: Sequence[int], part_bytes: int) -> str:
    """Return the source of a shader whose operands are bound in several parts each.

    Args:
        source: WGSL that declares its operands as ``@group(0) @binding(0) var<storage, read> x: array<f32>;``.
        label: What an error calls the program.
        counts: The number of parts of each operand.
        part_bytes: The size of all parts but the last one of an operand.

    Raises:
        OutOfMemory: the shader takes the address of an element, or has elements of an unknown size.
    """
    source = _COMMENT.sub("", source)
    names: dict[str, tuple[int, int]] = {}
    functions: list[str] = []

    def declared(match: re.Match[str]) -> str:
        binding, access, name, kind = int(match[1]), match[2], match[3], match[4]
        first, count = sum(counts[:binding]), counts[binding]
        if count == 1:
            return f"@group(0) @binding({first}) var<storage, {access}> {name}: array<{kind}>;"
        nbytes = _nbytes(kind)
        if nbytes is None or re.search(rf"&\s*{name}\b", source):
            raise OutOfMemory(
                f"webgpu: the program {label!r} takes {name!r} only as a whole, but it exceeds the {part_bytes} bytes "
                f"that this device can bind at once; split it into smaller arrays, or {REMEDY}"
            )
        elements = part_bytes // nbytes
        names[name] = count, elements
        cases = "".join(
            f"    case {i}u {{ return {name}_{i}[index - {i * elements}u]; }}\n"
            for i in range(1, count)
        )
        functions.append(
            f"fn of_{name}(index: u32) -> {kind} {{\n  switch index / {elements}u {{\n{cases}"
            f"    default {{ return {name}_0[index]; }}\n  }}\n}}\n"
        )
        return "\n".join(
            f"@group(0) @binding({first + i}) var<storage, {access}> {name}_{i}: array<{kind}>;"
            for i in range(count)
        )

    text = _BINDING.sub(declared, source)
    return "\n".join([_replaced(text, names), *functions])


def _replaced(text: str, names: dict[str, tuple[int, int]]) -> str:
    """Return WGSL in which the accesses of some arrays are replaced."""
    if not names:
        return text
    access = re.compile(rf"(?<![\w.])({'|'.join(names)})\[")
    done: list[str] = []
    at = 0
    while found := access.search(text, at):
        name, end = found[1], _closing(text, found.end())
        done.append(text[at : found.start()])
        index = _replaced(text[found.end() : end], names)
        at = end + 1
        if _ASSIGNED.match(text, at):
            stop = text.index(";", at)
            done.append(_assignment(name, index, _replaced(text[at:stop], names), *names[name]))
            at = stop + 1
        else:
            done.append(f"of_{name}(u32({index}))")
    return "".join(done) + text[at:]


def _assignment(name: str, index: str, rest: str, count: int, elements: int) -> str:
    cases = " ".join(
        f"{f'case {i}u' if i else 'default'} {{ {name}_{i}[place_in_{name} - {i * elements}u]{rest}; }}"
        for i in reversed(range(count))
    )
    return f"{{ let place_in_{name} = u32({index}); switch place_in_{name} / {elements}u {{ {cases} }} }}"


def _closing(text: str, start: int) -> int:
    """Return where the bracket is closed that is open at a place."""
    depth = 1
    for at in range(start, len(text)):
        depth += {"[": 1, "]": -1}.get(text[at], 0)
        if not depth:
            return at
    raise AssertionError(text[start:])  # it would not compile


def _nbytes(kind: str) -> int | None:
    """Return the size of a number, a vector or a matrix of two rows of WGSL; None for anything else."""
    match = _LANES.fullmatch(kind)
    if match is None or match[1] == "3":  # which takes the room of four
        return None
    vector, columns, of, suffix, scalar = match.groups()
    size = 2 if "f16" in (of, scalar) or suffix == "h" else 4
    return size * (int(vector) if vector else 2 * int(columns) if columns else 1)
