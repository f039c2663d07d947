"""Products of matrices: two schedules, and the packing that brings operands into their form."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Literal

from plugrad_webgpu.buffers import shared
from plugrad_webgpu.elements import NUMBERS, STORED
from plugrad_webgpu.program import Program, plan
from plugrad_webgpu.reduce import MOST_STEPS, reduction
from plugrad_webgpu.shaders import shader

if TYPE_CHECKING:
    from plugrad.extend import DType
    from plugrad_webgpu.buffers import GpuArray
    from plugrad_webgpu.device import Device

Schedule = Literal["direct", "shared"]

TILE = 64  # of the shared schedule
LEAST_SPLIT = 64  # vectors of depth: shorter sums are not worth a second dispatch
BUSY = 128  # tiles that keep every device busy

add_parts = reduction("a + b", dict.fromkeys(NUMBERS, 0))


@dataclass(frozen=True, slots=True)
class Matrices:
    """A batch of matrices in an array: how many, their sizes, whether to transpose them."""

    array: GpuArray
    batch: int
    rows: int
    columns: int
    is_transposed: bool = False


def multiply(a: Matrices, b: Matrices) -> GpuArray:
    """Return a b as an array (batch, rows, columns); a batch of one is used for every matrix.

    The sizes of a transposed operand are those after transposing.
    """
    device = a.array.buffer.device
    dtype = a.array.dtype
    batch = max(a.batch, b.batch) if 0 not in (a.batch, b.batch) else 0
    depth = -(-a.columns // 4)
    vectors = -(-b.columns // 4)
    a_packed = _packed(a, a.rows, 4 * depth)
    b_packed = _packed(b, 4 * depth, 4 * vectors)
    schedule = _schedule(device, a.rows, b.columns)
    rows = TILE if schedule == "shared" else _rows_of_tile(a.rows)
    row_tiles = -(-a.rows // rows)
    column_tiles = -(-vectors // (TILE // 4 if schedule == "shared" else 2))
    tiles = batch * row_tiles * column_tiles
    splits = _splits(depth, tiles)
    run = -(-depth // splits)
    parameters = (
        *(tiles * splits, a.rows, b.columns, vectors, depth, row_tiles, column_tiles, batch),
        *(0 if a.batch == 1 else a.rows * depth, 0 if b.batch == 1 else 4 * depth * vectors, run),
    )
    program = _program(schedule, dtype, rows, b.columns % 4 == 0)
    # The shared schedule counts workgroups, the direct one invocations.
    invocations = tiles * splits * (program.workgroup if schedule == "shared" else 1)
    shape = (splits, batch, a.rows, b.columns)
    parts = device.launch(plan(program, parameters, invocations, shape, dtype), a_packed, b_packed)
    return add_parts(parts, (0,), False) if splits > 1 else shared(parts, shape[1:])


def _schedule(device: Device, rows: int, columns: int) -> Schedule:
    is_large = rows > TILE // 2 and columns > TILE // 2
    return "shared" if is_large and not device.is_software else "direct"


def _rows_of_tile(rows: int) -> int:
    return next(n for n in (1, 2, 4, 8) if n >= min(rows, 8))


def _splits(depth: int, tiles: int) -> int:
    """Return into how many parts to split the sums: enough work, loops within bounds."""
    wanted = min(BUSY // max(tiles, 1), depth // LEAST_SPLIT)
    return max(wanted, -(-depth // MOST_STEPS), 1)


def _packed(m: Matrices, rows: int, columns: int) -> GpuArray:
    """Return the matrices row-major and filled up with zeros; themselves if they are so already."""
    if (rows, columns) == (m.rows, m.columns) and not m.is_transposed:
        return m.array
    row_stride, column_stride = (1, m.rows) if m.is_transposed else (m.columns, 1)
    count = m.batch * rows * columns
    parameters = (
        count,
        rows,
        columns,
        m.rows,
        m.columns,
        m.rows * m.columns,
        row_stride,
        column_stride,
    )
    packing = plan(_PACK, parameters, count, (m.batch, rows, columns), m.array.dtype)
    return m.array.buffer.device.launch(packing, m.array)


_PACK = Program("pack", partial(shader, "linalg_pack"))


@cache
def _program(schedule: Schedule, dtype: DType, rows: int, is_whole: bool) -> Program:
    stored = STORED[dtype]
    columns = (
        "if (4u * column + {0}u < parameters.columns) {{ output[offset + {0}u] = value.{1}; }}"
    )
    guarded = [columns.format(i, lane) for i, lane in enumerate("xyzw")]
    source = partial(
        shader,
        f"linalg_{schedule}",
        T=stored,
        rows=str(rows),
        result=f"vec4<{stored}>" if is_whole else stored,
        store="output[offset / 4u] = value;" if is_whole else "\n  ".join(guarded),
    )
    return Program(
        f"multiply {schedule}", source, workgroup=TILE * 4 if schedule == "shared" else 8
    )
