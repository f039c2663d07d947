"""Products of matrices of 64-bit integers."""

from __future__ import annotations

from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING

from plugrad.extend import int64
from plugrad_webgpu.algorithms.reduce import count_splits
from plugrad_webgpu.algorithms.tiles import BROADCAST_SUBGROUP_SIZE, TILES_BY_NAME
from plugrad_webgpu.shaders.program import Program, plan
from plugrad_webgpu.shaders.sources import shader

if TYPE_CHECKING:
    from plugrad_webgpu.algorithms.tiles import ProductSizes
    from plugrad_webgpu.memory.buffers import CommandRecorder
    from plugrad_webgpu.shaders.program import Plan

ROWS_PER_INVOCATION = 4
"""The largest number of rows that an invocation computes if it loads all of them itself."""
COLUMNS_PER_INVOCATION = 4
"""The largest number of columns that an invocation computes."""
SPLIT_MIN_ELEMENTS = 64
"""The least number of elements in each part of a split sum: fewer do not justify a second dispatch."""

MatrixStrides = tuple[int, int]
"""The distances in elements between rows and between columns."""


def plan_int64_product(
    device: CommandRecorder,
    batch_sizes: tuple[int, int],
    product_sizes: ProductSizes,
    left_strides: MatrixStrides,
    right_strides: MatrixStrides,
) -> Plan:
    """Return the plan for a batch of int64 matrix products, with an output of shape (splits, batch, rows, columns).

    Args:
        device: The device that is to compute them.
        batch_sizes: The number of matrices of each operand; one is used for every matrix of the other operand.
        product_sizes: The rows, the length of a sum, and the columns.
        left_strides: The strides of the left operand.
        right_strides: The strides of the right operand.
    """
    rows, _, columns = product_sizes
    broadcasts_rows = (
        device.is_software
        and min(rows, columns) >= BROADCAST_SUBGROUP_SIZE
        and device.subgroup_size == BROADCAST_SUBGROUP_SIZE
    )
    return _plan_product(
        broadcasts_rows,
        device.loads_64_bit_words,
        batch_sizes,
        product_sizes,
        left_strides,
        right_strides,
    )


@lru_cache(maxsize=1024)
def _plan_product(
    broadcasts_rows: bool,
    loads_64_bit_words: bool,
    batch_sizes: tuple[int, int],
    product_sizes: ProductSizes,
    left_strides: MatrixStrides,
    right_strides: MatrixStrides,
) -> Plan:
    """Return the plan of int64 products; the flags say how shaders load rows, and that they have 64-bit integers."""
    rows, depth, columns = product_sizes
    batch = 0 if 0 in batch_sizes else max(batch_sizes)
    tile_rows = (
        BROADCAST_SUBGROUP_SIZE if broadcasts_rows else min(ROWS_PER_INVOCATION, max(rows, 1))
    )
    lanes = BROADCAST_SUBGROUP_SIZE if broadcasts_rows else 1
    tile_columns = min(COLUMNS_PER_INVOCATION, max(-(-columns // lanes), 1))
    row_tiles = -(-rows // tile_rows)
    stride = -(-columns // (tile_columns * lanes)) * lanes
    tiles = batch * row_tiles * stride
    splits = count_splits(
        depth, tiles, TILES_BY_NAME["direct"].min_tiles_to_fill_device * lanes, SPLIT_MIN_ELEMENTS
    )
    steps = (
        0 if count == 1 else n * depth
        for count, n in zip(batch_sizes, (rows, columns), strict=True)
    )
    left_step, right_step = steps
    parameters = (
        *(tiles * splits, rows, row_tiles, columns, stride, depth, -(-depth // splits), batch),
        *(left_step, *left_strides, right_step, *right_strides),
    )
    program = _product_program(broadcasts_rows, loads_64_bit_words, tile_rows, tile_columns)
    return plan(program, parameters, tiles * splits, (splits, batch, rows, columns), int64)


@cache
def _product_program(
    broadcasts_rows: bool, loads_64_bit_words: bool, tile_rows: int, tile_columns: int
) -> Program:
    """Return the program in which each invocation computes one tile, of `tile_rows` by `tile_columns` elements."""
    workgroup = BROADCAST_SUBGROUP_SIZE if broadcasts_rows else 64
    source = partial(
        shader,
        "linalg_long",
        **(_NATIVE_INT64_ARITHMETIC if loads_64_bit_words else _TWO_WORD_ARITHMETIC),
        **(_row_loads_by_broadcast() if broadcasts_rows else _row_loads_per_invocation(tile_rows)),
        rows=str(tile_rows),
        columns=str(tile_columns),
        workgroup=str(workgroup),
    )
    return Program("multiply long", source, workgroup=workgroup)


_TWO_WORD_ARITHMETIC = {
    "word": "vec2u",
    "halves": "word",
    "added": "sum_i64(sum, product_u32(a, b))",
    "zero": "vec2u()",
}
"""The template substitutions for 64-bit integers that are pairs of 32-bit words."""
_NATIVE_INT64_ARITHMETIC = {
    "word": "u64",
    "halves": "vec2u(u32(word), u32(word >> 32u))",
    "added": "sum + u64(a) * u64(b)",
    "zero": "0lu",
}
"""The template substitutions for devices whose shaders have 64-bit integers."""


def _row_loads_per_invocation(rows: int) -> dict[str, str]:
    """Return the WGSL by which each invocation loads all of its rows."""
    left = {f"left{i}": f"own{i}" for i in range(rows)}
    return {"lane": "", "loads": str(rows), **{f"own{i}": f"{i}u" for i in range(rows)}, **left}


def _row_loads_by_broadcast() -> dict[str, str]:
    """Return the WGSL by which each invocation of a subgroup loads one row and broadcasts it to the others."""
    broadcast = "vec2u(subgroupBroadcast(own0.x, {0}u), subgroupBroadcast(own0.y, {0}u))"
    left = {f"left{i}": broadcast.format(i) for i in range(BROADCAST_SUBGROUP_SIZE)}
    lane = "@builtin(subgroup_invocation_id) lane: u32,"
    return {"lane": lane, "loads": "1", "own0": "lane", **left}
