"""The limits of a shader and of a dispatch, and the errors for exceeding them."""

from __future__ import annotations

import ast
import re
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from plugrad.extend import ArgumentValueError, BackendUnavailable, OutOfMemory, ShapeError
from plugrad_webgpu.driver.comments import remove_comments

MAX_IMMEDIATE_BYTES: Final = 128
"""The largest size of parameters in immediates, which every adapter allows; larger ones are in a buffer."""

MAX_GRID_SIZE: Final = 65_535
"""The largest number of workgroups along each dimension of a grid."""

MAX_LOOP_STEPS: Final = 65_535
"""The largest number of steps of all loops of an invocation: lavapipe silently stops after these."""

MAX_NESTING_DEPTH: Final = 127
"""How deeply brackets and types may be nested in a shader, and how many branches an `if` may have."""

MAX_PRIVATE_ARRAY_BYTES: Final = {"hardware": 8192, "software": 2048}
"""The largest size of an invocation's arrays: what WebGPU guarantees, and what is compiled in 10 seconds."""

LARGEST_MATRIX_BYTES: Final = 64
"""The size of the largest WGSL matrix: arrays that are not larger stay in registers."""

MAX_STATEMENT_OPERATORS: Final = 500
"""The largest number of operators in one statement of a shader."""

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# A pattern that begins with a word, and not with \b, is searched for several times as fast.
_STRUCT_PATTERN: Final = re.compile(r"struct(?<!\wstruct)\s+(\w+)\s*{([^}]*?),?\s*}")
_CONSTANT_PATTERN: Final = re.compile(r"\b(?:const|alias)\s+(\w+)\s*(?::[^=]*)?=\s*([^;]+?)\s*;")
"""Matches a constant or an alias of a type; the groups are its name and its value."""
_PRIVATE_VARIABLE_PATTERN: Final = re.compile(
    r"var(?<!\wvar)\s*(?:<\s*(?:private|function)\s*>)?\s+\w+\s*:\s*([^;={]+)"
)
"""Matches the declaration of a private or local variable; the group is its type."""
_ARRAY_VALUE_PATTERN: Final = re.compile(r"=\s*(array\s*<[^;()]+>)\s*\(")
"""Matches the construction of an array in an assignment; the group is its type."""
_WORKGROUP_VARIABLE_PATTERN: Final = re.compile(
    r"var(?<!\wvar)\s*<\s*workgroup\s*>\s*\w+\s*:\s*([^;=]+);"
)
_OPERATOR_PATTERN: Final = re.compile(r"[-+*/%&|^<>=!]+")
_ELSE_IF_PATTERN: Final = re.compile(r"else(?<!\welse)\s+if\b")
_STATEMENT_END_PATTERN: Final = re.compile(r"[;{}]")
_BRACKET_PATTERN: Final = re.compile(r"[()\[\]{}]")
_NESTING_CHANGE_BY_BRACKET: Final = {**dict.fromkeys("([{", 1), **dict.fromkeys(")]}", -1)}
"""By how much a bracket changes the depth of the text that follows."""

CPU_REMEDY: Final = "compute on the cpu backend, as in x.to('cpu')"
"""The remedy in errors for what this backend cannot compute."""


def check_operand_count(label: str, operand_count: int, max_operands: int) -> None:
    """Raise unless a device can bind the operands of a program.

    Raises:
        ArgumentValueError: there are more than `max_operands`.
    """
    if operand_count > max_operands:
        raise ArgumentValueError(
            f"webgpu: the program {label!r} has {operand_count} operands, inputs and output, more than the "
            f"{max_operands} that this device can bind; combine the inputs in several steps, or {CPU_REMEDY}"
        )


def check_operand_part_count(label: str, part_count: int, max_parts: int, part_bytes: int) -> None:
    """Raise unless a device can bind all parts of a program's operands.

    Raises:
        OutOfMemory: there are more than `max_parts`.
    """
    if part_count > max_parts:
        raise OutOfMemory(
            f"webgpu: the arrays of the program {label!r} have {part_count} parts of at most {part_bytes} bytes, more "
            f"than the {max_parts} that this device can bind at once; split them into smaller arrays, or {CPU_REMEDY}"
        )


def check_workgroup_count(label: str, workgroup_count: int) -> None:
    """Raise unless a grid can hold the workgroups.

    Raises:
        ShapeError: there are too many for a grid of two dimensions.
    """
    if workgroup_count > MAX_GRID_SIZE * MAX_GRID_SIZE:
        raise ShapeError(
            f"webgpu: the program {label!r} needs {workgroup_count} workgroups, more than the "
            f"{MAX_GRID_SIZE} x {MAX_GRID_SIZE} of "
            f"a dispatch; split the inputs into smaller arrays, or {CPU_REMEDY}"
        )


def check_shader(label: str, source: str, shared_bytes: int, *, is_software: bool) -> None:
    """Raise if a shader could crash the driver or the process.

    Raises:
        ArgumentValueError: its text or its variables are beyond what compilers bear, or do not fit the device,
            or it is not Unicode.
    """
    try:
        source.encode()
    except UnicodeEncodeError as error:
        raise ArgumentValueError(
            f"webgpu: the shader {label!r} is not Unicode text: {error}"
        ) from None
    uncommented_source = remove_comments(source)
    _check_nesting(label, uncommented_source)
    _check_shared_memory(label, uncommented_source, shared_bytes)
    _check_private_memory(label, uncommented_source, is_software=is_software)


def _check_nesting(label: str, source: str) -> None:
    """Raise if a source is nested so deeply that a compiler would overflow its stack, which ends the process.

    Raises:
        ArgumentValueError: it is nested too deeply, or has too long a statement.
    """
    depths = accumulate(
        map(_NESTING_CHANGE_BY_BRACKET.__getitem__, _BRACKET_PATTERN.findall(source))
    )
    # Most statements are too short to have many operators, and most shaders have few arrays: nothing else is counted.
    statements = _STATEMENT_END_PATTERN.split(source)
    long = [x for x in statements if len(x) > MAX_STATEMENT_OPERATORS]
    typed = statements if source.count("array<") > MAX_NESTING_DEPTH else []
    counts = {
        "brackets inside each other": (max(depths, default=0), MAX_NESTING_DEPTH),
        "branches after 'else if'": (len(_ELSE_IF_PATTERN.findall(source)), MAX_NESTING_DEPTH),
        "arrays in one type": (
            max([x.count("array<") for x in typed], default=0),
            MAX_NESTING_DEPTH,
        ),
        "operators in one statement": (
            max([len(_OPERATOR_PATTERN.findall(x)) for x in long], default=0),
            MAX_STATEMENT_OPERATORS,
        ),
    }
    for what, (count, most) in counts.items():
        if count > most:
            raise ArgumentValueError(
                f"webgpu: the shader {label!r} has {count} {what}, more than the {most} that compilers are "
                "trusted with; split it into functions or statements"
            )


def _check_shared_memory(label: str, source: str, max_bytes: int) -> None:
    """Raise if a shader's workgroup variables exceed shared memory, which some drivers do not check.

    Types whose size is not written in numbers are left to the compiler.

    Raises:
        ArgumentValueError: they take more than `max_bytes` bytes.
    """
    sizes = _type_sizes_in_bytes(_WORKGROUP_VARIABLE_PATTERN.findall(source), source)
    total = sum(-(-size // 16) * 16 for size in sizes)
    if total > max_bytes:
        raise ArgumentValueError(
            f"webgpu: the shader {label!r} has {total} bytes of shared memory in var<workgroup>, more than the "
            f"{max_bytes} of this device; use smaller arrays"
        )


def _check_private_memory(label: str, source: str, *, is_software: bool) -> None:
    """Raise if private arrays are so large that compilation would take very long.

    Compilers for processors make a chain of branches of each access to an array: 400 floats take 3 seconds and 512
    take 6, and the time grows with the square.

    Raises:
        ArgumentValueError: they take more bytes than `MAX_PRIVATE_ARRAY_BYTES`.
    """
    wgsl_types = [
        *_PRIVATE_VARIABLE_PATTERN.findall(source),
        *_ARRAY_VALUE_PATTERN.findall(source),
    ]
    total = sum(
        size for size in _type_sizes_in_bytes(wgsl_types, source) if size > LARGEST_MATRIX_BYTES
    )
    most = MAX_PRIVATE_ARRAY_BYTES["software" if is_software else "hardware"]
    if total > most:
        raise ArgumentValueError(
            f"webgpu: the shader {label!r} has {total} bytes of arrays in each invocation, more than the {most} that "
            "compilers for this device are trusted with; use smaller arrays, var<workgroup>, or another input"
        )


def _type_sizes_in_bytes(wgsl_types: Sequence[str], source: str) -> list[int]:
    """Return the sizes of WGSL types in bytes; they may refer to structs and constants of the source."""
    if not wgsl_types:
        return []
    structs, constants = (
        dict(_STRUCT_PATTERN.findall(source)),
        dict(_CONSTANT_PATTERN.findall(source)),
    )
    return [_size_and_alignment(kind, structs, constants)[0] for kind in wgsl_types]


def _size_and_alignment(
    wgsl_type: str, structs: dict[str, str], constants: dict[str, str]
) -> tuple[int, int]:
    """Return the size and the alignment of a WGSL type in bytes (WGSL specification, 14.4.1)."""
    wgsl_type = constants.get(wgsl_type.strip(), wgsl_type)
    wgsl_type = re.sub(r"\s+", "", wgsl_type)
    if array := re.fullmatch(r"array<(.+),([^,<>]+),?>", wgsl_type):
        size, alignment = _size_and_alignment(array[1], structs, constants)
        return -(-size // alignment) * alignment * _evaluate_constant(
            array[2], constants
        ), alignment
    if atomic := re.fullmatch(r"atomic<(\w+)>", wgsl_type):
        return _size_and_alignment(atomic[1], structs, constants)
    if vector := re.fullmatch(r"vec([234])(?:<(\w+)>|([fiuh]))", wgsl_type):
        word = _SCALAR_BYTES.get(vector[2] or vector[3], 4)
        return word * int(vector[1]), word * (2 if vector[1] == "2" else 4)
    if matrix := re.fullmatch(r"mat([234])x(([234])(<\w+>|[fh]))", wgsl_type):
        size, alignment = _size_and_alignment(f"vec{matrix[2]}", structs, constants)
        return -(-size // alignment) * alignment * int(matrix[1]), alignment
    if wgsl_type in structs:
        end, largest = 0, 1
        for member in re.split(r",(?![^<]*>)", structs[wgsl_type]):
            size, alignment = _size_and_alignment(member.rpartition(":")[2], structs, constants)
            end, largest = -(-end // alignment) * alignment + size, max(largest, alignment)
        return -(-end // largest) * largest, largest
    if not wgsl_type:  # after a comma at the end
        return 0, 1
    word = _SCALAR_BYTES.get(wgsl_type, 4)
    return word, word


_SCALAR_BYTES: Final = {"f16": 2, "h": 2, "i64": 8, "u64": 8, "f64": 8}
"""The sizes of numbers that do not have four bytes."""


def _evaluate_constant(expression: str, constants: dict[str, str], depth: int = 0) -> int:
    """Return the value of a constant integer expression, nested `depth` times in others, or 0 for anything else."""

    def evaluate_integer(match: re.Match[str]) -> str:
        if match[1]:
            return str(int(match[1], 0))
        return f"({_evaluate_constant(constants[match[0]], constants, depth + 1) if match[0] in constants else 'None'})"

    numeric_expression = re.sub(
        r"\b(0x[\da-f]+|\d+)[iu]?\b|\b[a-z_]\w*\b",
        evaluate_integer,
        expression.strip(),
        flags=re.IGNORECASE,
    )
    if (
        depth > MAX_NESTING_DEPTH
        or len(numeric_expression) > MAX_STATEMENT_OPERATORS
        or not re.fullmatch(r"[\d\s()*/%+<>-]+", numeric_expression)
    ):
        return 0
    try:
        return _evaluate_integers(
            ast.parse(numeric_expression.replace("/", "//"), mode="eval").body
        )
    except (SyntaxError, ArithmeticError, KeyError):
        return 0


def _evaluate_integers(node: ast.AST) -> int:
    """Evaluate an integer expression, given as Python's syntax tree."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.BinOp):
        return _INTEGER_OPERATORS[type(node.op)](
            _evaluate_integers(node.left), _evaluate_integers(node.right)
        )
    raise KeyError(node)


_INTEGER_OPERATORS: Final[dict[type[ast.operator], Callable[[int, int], int]]] = {
    ast.Add: int.__add__,
    ast.Sub: int.__sub__,
    ast.Mult: int.__mul__,
    ast.FloorDiv: int.__floordiv__,
    ast.Mod: int.__mod__,
}
"""The functions that compute Python's integer operators."""


def foreign_buffer_error() -> BackendUnavailable:
    """Return the error for an array whose buffer is no buffer of the device that computes."""
    return BackendUnavailable(
        "webgpu: a kernel got an array of another device, or of one that is closed; copy it to the device of the "
        "other arrays, as in x.to('webgpu:1')"
    )
