"""Products of matrices: two schedules, and the packing that brings operands into their form."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from plugrad_webgpu.buffers import shared
from plugrad_webgpu.elements import NUMBERS, STORED
from plugrad_webgpu.program import Program, plan
from plugrad_webgpu.reduce import MOST_STEPS, reduction
from plugrad_webgpu.shaders import shader

if TYPE_CHECKING:
    from plugrad.extend import DType
    from plugrad_webgpu.buffers import GpuArray
    from plugrad_webgpu.device import Device

Schedule = Literal["direct", "outer", "shared"]


class Tile(NamedTuple):
    """What one invocation or workgroup computes, and how many invocations do so together."""

    rows: int
    vectors: int
    invocations: int


_TILES: Final[dict[Schedule, Tile]] = {
    "direct": Tile(8, 2, 1),
    "outer": Tile(8, 2, 1),
    "shared": Tile(64, 16, 256),
}
LEAST_SPLIT = 64  # steps: shorter sums are not worth a second dispatch
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
    schedule = _schedule(device, a, b)
    tile = _TILES[schedule]
    rows = min(tile.rows, _power_of_two(a.rows)) if schedule == "direct" else tile.rows
    vectors = -(-b.columns // 4)
    depth = a.columns if schedule == "outer" else -(-a.columns // 4)
    filled_depth = depth if schedule == "outer" else 4 * depth
    left = a.array if schedule == "outer" else _packed(a, a.rows, filled_depth)
    right = _packed(b, filled_depth, 4 * vectors)
    row_tiles, column_tiles = -(-a.rows // rows), -(-vectors // tile.vectors)
    tiles = batch * row_tiles * column_tiles
    splits = _splits(depth, tiles)
    parameters = (
        *(tiles * splits, a.rows, b.columns, vectors, depth, row_tiles, column_tiles, batch),
        0 if a.batch == 1 else a.rows * filled_depth // 4,
        0 if b.batch == 1 else filled_depth * vectors,
        -(-depth // splits),
    )
    program = _program(schedule, dtype, rows, b.columns % 4 == 0)
    invocations = tiles * splits * tile.invocations
    shape = (splits, batch, a.rows, b.columns)
    parts = device.launch(plan(program, parameters, invocations, shape, dtype), left, right)
    return add_parts(parts, (0,), False) if splits > 1 else shared(parts, shape[1:])


def _schedule(device: Device, a: Matrices, b: Matrices) -> Schedule:
    is_large = a.rows > _TILES["shared"].rows // 2 and b.columns > _TILES["shared"].rows // 2
    if is_large and not device.is_software:
        return "shared"
    return "outer" if a.is_transposed and a.rows % 4 == 0 else "direct"


def _power_of_two(rows: int) -> int:
    return 1 << max(rows - 1, 0).bit_length()


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
        "linalg_operands",
        f"linalg_{schedule}",
        T=stored,
        rows=str(rows),
        result=f"vec4<{stored}>" if is_whole else stored,
        store="output[offset / 4u] = value;" if is_whole else "\n  ".join(guarded),
    )
    return Program(f"multiply {schedule}", source, workgroup=256 if schedule == "shared" else 8)
