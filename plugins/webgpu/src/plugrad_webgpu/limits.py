"""What one shader or one dispatch can take, and the errors for what exceeds it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from plugrad.extend import ArgumentValueError, ShapeError

if TYPE_CHECKING:
    from plugrad.extend import Shape

IMMEDIATE_BYTES: Final = 128
"""The size of the parameters of a shader: what every adapter offers."""

WORD_BYTES: Final = 4

MOST_GROUPS: Final = 65_535
"""The largest size of a grid in each dimension."""

MOST_LOOPS: Final = 65_535
"""The steps of all loops of one invocation together: lavapipe silently stops after these."""

REMEDY: Final = "compute on the cpu backend, as in x.to('cpu')"


def check_axes(kernel: str, sizes: Shape, arrays: int, others: int) -> None:
    """Raise unless the loop of a kernel fits the parameters of a shader.

    Args:
        kernel: What the error calls the kernel.
        sizes: The sizes of the loop's axes, adjacent axes merged where the arrays allow it. Each
            axis takes a size and, for each array, a stride.
        arrays: The number of arrays with strides.
        others: The number of parameters besides sizes and strides.

    Raises:
        ShapeError: the loop has too many axes.
    """
    most = (IMMEDIATE_BYTES // WORD_BYTES - others) // (1 + arrays)
    if len(sizes) > most:
        raise ShapeError(
            f"{kernel}: the shapes need a loop over {len(sizes)} axes, of sizes {sizes}, but the parameters "
            f"of a shader ({IMMEDIATE_BYTES} bytes) hold only {most}; reshape the inputs to fewer axes, or {REMEDY}"
        )


def check_parameters(label: str, nbytes: int) -> None:
    """Raise unless the parameters of a program fit a shader.

    Raises:
        ArgumentValueError: they take more than `IMMEDIATE_BYTES`.
    """
    if nbytes > IMMEDIATE_BYTES:
        raise ArgumentValueError(
            f"webgpu: the program {label!r} takes {nbytes} bytes of parameters, more than the {IMMEDIATE_BYTES} of a "
            "shader; pass some of them as the elements of an input array"
        )


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
