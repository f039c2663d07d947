"""Programs, which are compiled once, and plans, which are calls of programs with parameters and a grid.

A `Program` is a shader with its interface. A `Plan` is a program with the parameters, the grid and
the output of one call. Kernels keep their plans by shape, so that a repeated call costs a look-up,
a buffer from the pool and five native calls. Nothing here needs a device.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from plugrad_webgpu.driver.limits import MAX_GRID_SIZE, MAX_IMMEDIATE_BYTES, check_workgroup_count
from plugrad_webgpu.shaders.elements import TwoWordInteger, stored_nbytes
from plugrad_webgpu.shaders.layout import size_class

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from plugrad.extend import DType
    from plugrad_webgpu.driver.interface import Handle
    from plugrad_webgpu.shaders.layout import Shape

WorkgroupCounts = tuple[int, int, int]
"""The number of workgroups in each of the three dimensions of a grid."""


class Program:
    """A compute shader: the writer of its source, its entry point and its workgroup size.

    The operands are the inputs, bound in order from 0, followed by the outputs, of which there is
    usually one.
    """

    __slots__ = (
        "entry_point",
        "has_table",
        "label",
        "outputs",
        "source",
        "store_calls",
        "stored_elements",
        "workgroup",
    )

    def __init__(
        self,
        label: str,
        source: Callable[..., str],
        *,
        entry_point: str = "main",
        workgroup: int = 64,
        outputs: int = 1,
        stored_elements: int = 0,
        store_calls: int = 1,
    ) -> None:
        self.label: str = label
        self.source: Callable[..., str] = source
        self.entry_point: str = entry_point
        self.workgroup: int = workgroup
        self.outputs: int = outputs
        self.stored_elements: int = stored_elements
        """How many adjacent elements the shader's function `store` gets, which elementwise calls may replace; 0 if
        there is no such function. The source then takes the arguments `store` and `fields`."""
        self.store_calls: int = store_calls
        """In how many places the shader calls this function, which is compiled for each."""
        self.has_table: bool = False
        """Whether the parameters are in a buffer, because there are many; the first plan knows."""


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """A call of a program: its parameters, its grid and its result."""

    program: Program
    """The program that is called."""
    parameters: bytes
    """The packed parameters."""
    grid: WorkgroupCounts | None
    """The number of workgroups in each dimension, or None if there is no work."""
    shape: Shape
    """The shape of the output."""
    dtype: DType
    """The dtype of the output."""
    size: int
    """The size class of the output's buffer."""


class EncodedDispatch(NamedTuple):
    """A dispatch with its pipeline and bind group."""

    pipeline: Handle
    """The driver's handle of the compiled program."""
    bind_group: Handle
    """The driver's handle of the bound buffers."""
    parameter_bytes: bytes
    """The immediates; none if the parameters are in a buffer."""
    workgroup_counts: WorkgroupCounts
    """The number of workgroups in each dimension of the grid."""


def plan(
    program: Program,
    parameters: Sequence[int | float | complex],
    invocations: int,
    shape: Shape,
    dtype: DType,
) -> Plan:
    """Return the plan of a dispatch: the program, packed parameters, workgroups, and the spec of the output.

    Args:
        program: The program to call.
        parameters: Numbers that become 32-bit words in order: integers as u32 or i32, floats as f32,
            complex numbers as two of these, and a `TwoWordInteger` as two u32, the lower one first.
        invocations: The number of items to work on; without items the plan has no grid.
        shape: The shape of the result.
        dtype: The dtype of the result.

    Raises:
        ShapeError: the invocations do not fit a dispatch.
    """
    words = pack_parameters(parameters)
    program.has_table = len(words) > MAX_IMMEDIATE_BYTES
    groups = -(-invocations // program.workgroup)
    nbytes = stored_nbytes(shape, dtype)
    if nbytes < 1 << 40:  # the pool refuses a larger output, with a better message
        check_workgroup_count(program.label, groups)
    grid = workgroup_grid(groups) if groups else None
    return Plan(program, words, grid, shape, dtype, size_class(nbytes))


def extend_plan(
    base_plan: Plan,
    program: Program,
    parameters: Sequence[int | float | complex],
    result_plan: Plan,
) -> Plan:
    """Return a plan with the parameters of the base plan and more, and the output of the result plan."""
    words = base_plan.parameters + pack_parameters(parameters)
    program.has_table = len(words) > MAX_IMMEDIATE_BYTES
    return Plan(
        program, words, base_plan.grid, result_plan.shape, result_plan.dtype, result_plan.size
    )


def pack_parameters(parameters: Sequence[int | float | complex]) -> bytes:
    """Return numbers as little-endian 32-bit words, two for a complex number or a `TwoWordInteger`."""
    return b"".join(_to_words(p) for p in parameters)


def parameters_as_words(parameters: bytes) -> NDArray[Any]:
    """Return shader parameters that are too many for immediates as an array of 32-bit words."""
    return np.frombuffer(parameters, np.uint32)


def _to_words(value: int | float | complex) -> bytes:
    """Return a number as one or two little-endian 32-bit words."""
    if isinstance(value, TwoWordInteger):
        return value.to_bytes(8, "little", signed=True)
    with np.errstate(over="ignore"):  # beyond float32 is infinity
        if isinstance(value, float):
            return np.float32(value).tobytes()
        if isinstance(value, complex):
            return np.complex64(value).tobytes()
    return (value & 0xFFFFFFFF).to_bytes(4, "little")


def workgroup_grid(workgroup_count: int) -> WorkgroupCounts:
    """Return a grid of at least this many workgroups; above 65,535 it has several rows.

    >>> workgroup_grid(10), workgroup_grid(70_000)
    ((10, 1, 1), (35000, 2, 1))
    """
    rows = -(-workgroup_count // MAX_GRID_SIZE)
    return -(-workgroup_count // rows), rows, 1
