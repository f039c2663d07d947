"""Programs and plans: what can be compiled, and what one call of it needs.

A `Program` is a shader with its interface; a `Plan` is a program with the parameters, the grid and
the output of one call. Kernels memoise their plans by shape, so that a call like one before costs a
look-up, a buffer from the pool and five native calls. Nothing here needs a device.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from plugrad_webgpu.buffers import nbytes_of, size_class

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from plugrad.extend import DType
    from plugrad_webgpu.buffers import Shape

Grid = tuple[int, int, int]

IMMEDIATE_BYTES = 128  # of parameters: what every adapter offers
MOST_GROUPS = 65_535  # per dimension of a grid
MOST_LOOPS = 65_535  # steps of all loops of one invocation: lavapipe silently stops after these


class Program:
    """A compute shader: how to write its source, its entry point and its workgroup size.

    The operands are the inputs, bound in order from 0, and one output after them.
    """

    __slots__ = ("entry_point", "label", "source", "workgroup")

    def __init__(
        self,
        label: str,
        source: Callable[[], str],
        *,
        entry_point: str = "main",
        workgroup: int = 64,
    ) -> None:
        self.label = label
        self.source = source
        self.entry_point = entry_point
        self.workgroup = workgroup


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """One call of a program: its parameters, its grid and what it returns."""

    program: Program
    parameters: bytes
    grid: Grid | None
    shape: Shape
    dtype: DType
    size: int
    """The size class of the output's buffer."""


def plan(
    program: Program,
    parameters: Sequence[int | float],
    invocations: int,
    shape: Shape,
    dtype: DType,
) -> Plan:
    """Return the plan of a program with one invocation per item; without items it has no grid.

    Parameters become 32-bit words in order: ints as u32 or i32, floats as f32.
    """
    grid = grid_of(-(-invocations // program.workgroup)) if invocations else None
    return Plan(program, packed(parameters), grid, shape, dtype, size_class(nbytes_of(shape)))


def packed(parameters: Sequence[int | float]) -> bytes:
    """Return ints and floats as little-endian 32-bit words."""
    data = b"".join(_word(p) for p in parameters)
    if len(data) > IMMEDIATE_BYTES:
        raise ValueError(
            f"a webgpu kernel needs {len(data)} bytes of parameters, more than {IMMEDIATE_BYTES}: "
            "the array has too many axes; merge some with reshape"
        )
    return data


def _word(value: int | float) -> bytes:
    if isinstance(value, float):
        with np.errstate(over="ignore"):  # beyond float32 is infinity
            return np.float32(value).tobytes()
    return (value & 0xFFFFFFFF).to_bytes(4, "little")


def grid_of(groups: int) -> Grid:
    """Return a grid of at least so many workgroups; beyond 65,535 it has several rows.

    >>> grid_of(10), grid_of(70_000)
    ((10, 1, 1), (35000, 2, 1))
    """
    rows = -(-groups // MOST_GROUPS)
    return -(-groups // rows), rows, 1
