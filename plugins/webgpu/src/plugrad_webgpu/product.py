"""Products of matrices: the schedules, and the packing that brings the operands into their form."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from plugrad_webgpu.buffers import shared
from plugrad_webgpu.elements import NUMBERS, STORED
from plugrad_webgpu.program import Program, plan
from plugrad_webgpu.reduce import MOST_STEPS, reduction
from plugrad_webgpu.shaders import shader

if TYPE_CHECKING:
    from plugrad.extend import DType
    from plugrad_webgpu.buffers import GpuArray, Recorder
    from plugrad_webgpu.program import Plan

Schedule = Literal["direct", "outer", "shared"]


class Tile(NamedTuple):
    """The part of the output that one invocation or one workgroup computes, and how many invocations share it."""

    rows: int
    vectors: int
    invocations: int


_TILES: Final[dict[Schedule, Tile]] = {
    "direct": Tile(8, 2, 1),
    "outer": Tile(8, 2, 1),
    "shared": Tile(64, 16, 256),
}
LEAST_SPLIT = 64  # steps: shorter sums do not justify a second dispatch
BUSY = 128  # as many tiles keep every device busy

add_parts = reduction("a + b", dict.fromkeys(NUMBERS, 0))


@dataclass(frozen=True, slots=True)
class Matrices:
    """A batch of matrices in an array: their number, their sizes, and whether to transpose them."""

    array: GpuArray
    batch: int
    rows: int
    columns: int
    is_transposed: bool = False


def multiply(a: Matrices, b: Matrices) -> GpuArray:
    """Return the products as an array (batch, rows, columns); a batch of one is used for every matrix.

    The sizes of a transposed operand are those after the transposition.
    """
    device = a.array.buffer.device
    dtype = a.array.dtype
    schedule = _schedule(device, a, b)
    step = _plan(schedule, dtype, (a.batch, b.batch), (a.rows, a.columns, b.columns))
    depth = a.columns if schedule == "outer" else _whole(a.columns)
    left = a.array if schedule == "outer" else _packed(a, a.rows, depth)
    right = _packed(b, depth, _whole(b.columns))
    parts = device.launch(step, left, right)
    return add_parts(parts, (0,), False) if step.shape[0] > 1 else shared(parts, step.shape[1:])


@lru_cache(maxsize=1024)
def _plan(
    schedule: Schedule, dtype: DType, batches: tuple[int, int], sizes: tuple[int, int, int]
) -> Plan:
    """Return the plan whose output is (splits, batch, rows, columns)."""
    rows, inner, columns = sizes
    tile = _TILES[schedule]
    tile_rows = min(tile.rows, _power_of_two(rows)) if schedule == "direct" else tile.rows
    batch = 0 if 0 in batches else max(batches)
    vectors = _whole(columns) // 4
    depth, unit = (inner, 1) if schedule == "outer" else (_whole(inner) // 4, 4)
    row_tiles, column_tiles = -(-rows // tile_rows), -(-vectors // tile.vectors)
    tiles = batch * row_tiles * column_tiles
    splits = _splits(depth, tiles)
    left_step = 0 if batches[0] == 1 else rows * depth * unit // 4
    right_step = 0 if batches[1] == 1 else depth * unit * vectors
    parameters = (
        tiles * splits,
        rows,
        columns,
        vectors,
        depth,
        row_tiles,
        column_tiles,
        batch,
        left_step,
        right_step,
        -(-depth // splits),
    )
    program = _program(schedule, dtype, tile_rows, columns % 4 == 0)
    invocations = tiles * splits * tile.invocations
    return plan(program, parameters, invocations, (splits, batch, rows, columns), dtype)


def _whole(size: int) -> int:
    """Return the size rounded up to whole vectors."""
    return -(-size // 4) * 4


def _schedule(device: Recorder, a: Matrices, b: Matrices) -> Schedule:
    is_large = a.rows > _TILES["shared"].rows // 2 and b.columns > _TILES["shared"].rows // 2
    if is_large and not device.is_software:
        return "shared"
    return "outer" if a.is_transposed and a.rows % 4 == 0 else "direct"


def _power_of_two(rows: int) -> int:
    return 1 << max(rows - 1, 0).bit_length()


def _splits(depth: int, tiles: int) -> int:
    """Return the number of parts of the sums: enough work for the device, and loops within bounds."""
    wanted = min(BUSY // max(tiles, 1), depth // LEAST_SPLIT)
    return max(wanted, -(-depth // MOST_STEPS), 1)


def _packed(m: Matrices, rows: int, columns: int) -> GpuArray:
    """Return the matrices in row-major order and padded with zeros; the array itself if it is so already."""
    if (rows, columns) == (m.rows, m.columns) and not m.is_transposed:
        return m.array
    sizes = (rows, columns, m.rows, m.columns)
    packing = _packing(m.array.dtype, m.batch, sizes, m.is_transposed)
    return m.array.buffer.device.launch(packing, m.array)


@lru_cache(maxsize=1024)
def _packing(
    dtype: DType, batch: int, sizes: tuple[int, int, int, int], is_transposed: bool
) -> Plan:
    rows, columns, input_rows, input_columns = sizes
    strides = (1, input_rows) if is_transposed else (input_columns, 1)
    count = batch * rows * columns
    parameters = (count, *sizes, input_rows * input_columns, *strides)
    return plan(_PACK, parameters, count, (batch, rows, columns), dtype)


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
