"""What one shader or one dispatch can take, and the errors for what exceeds it."""

from __future__ import annotations

import re
from typing import Final

from plugrad.extend import ArgumentValueError, BackendUnavailable, ShapeError

IMMEDIATE_BYTES: Final = 128
"""The parameters that a call brings along, which every adapter allows; more are in a buffer."""

MOST_GROUPS: Final = 65_535
"""The largest size of a grid in each dimension."""

MOST_LOOPS: Final = 65_535
"""The steps of all loops of one invocation together: lavapipe silently stops after these."""

MOST_NESTING: Final = 127
"""How deeply brackets and types may be nested in a shader, and how many branches an `if` may have."""

MOST_OPERATORS: Final = 500
"""How many operators one statement of a shader may have."""

_COMMENT: Final = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_OPERATOR: Final = re.compile(r"[-+*/%&|^<>=!]+")

REMEDY: Final = "compute on the cpu backend, as in x.to('cpu')"


def check_operands(label: str, operands: int, most: int) -> None:
    """Raise unless a device can bind the inputs and the output of a program.

    Raises:
        ArgumentValueError: there are more than `most`.
    """
    if operands > most:
        raise ArgumentValueError(
            f"webgpu: the program {label!r} has {operands} operands, inputs and output, more than the {most} that this "
            f"device can bind; combine the inputs in several steps, or {REMEDY}"
        )


def check_groups(label: str, groups: int) -> None:
    """Raise unless a grid can hold the workgroups of a program.

    Raises:
        ShapeError: there are too many for a grid of two dimensions.
    """
    if groups > MOST_GROUPS * MOST_GROUPS:
        raise ShapeError(
            f"webgpu: the program {label!r} needs {groups} workgroups, more than the {MOST_GROUPS} x {MOST_GROUPS} of "
            f"a dispatch; split the inputs into smaller arrays, or {REMEDY}"
        )


def check_source(label: str, source: str) -> None:
    """Raise unless a compiler can read a source without running out of stack, which ends the process.

    Raises:
        ArgumentValueError: it is nested too deeply, has too long a statement, or is not Unicode.
    """
    plain = _COMMENT.sub("", source)
    depth = deepest = 0
    for sign in re.findall(r"[()\[\]{}]", plain):
        depth += 1 if sign in "([{" else -1
        deepest = max(deepest, depth)
    statements = re.split(r"[;{}]", plain)
    counts = {
        "brackets inside each other": (deepest, MOST_NESTING),
        "branches after 'else if'": (len(re.findall(r"\belse\s+if\b", plain)), MOST_NESTING),
        "arrays in one type": (max(x.count("array<") for x in statements), MOST_NESTING),
        "operators in one statement": (
            max(len(_OPERATOR.findall(x)) for x in statements),
            MOST_OPERATORS,
        ),
    }
    for what, (count, most) in counts.items():
        if count > most:
            raise ArgumentValueError(
                f"webgpu: the shader {label!r} has {count} {what}, more than the {most} that compilers are "
                "trusted with; split it into functions or statements"
            )
    try:
        source.encode()
    except UnicodeEncodeError as error:
        raise ArgumentValueError(
            f"webgpu: the shader {label!r} is not Unicode text: {error}"
        ) from None


def foreign() -> BackendUnavailable:
    """Return the error for an array whose buffer is no buffer of the device that computes."""
    return BackendUnavailable(
        "webgpu: a kernel got an array of another device, or of one that is closed; copy it to the device of the "
        "other arrays, as in x.to('webgpu:1')"
    )
