"""Products of matrices, and of arrays that a shader reads as matrices, such as patches of images."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING, Final, NamedTuple

from plugrad.extend import int64
from plugrad_webgpu.algorithms.long_product import plan_int64_product
from plugrad_webgpu.algorithms.reduce import count_splits, reduction
from plugrad_webgpu.algorithms.subgroups import (
    subgroup_size_substitutions,
    uses_subgroups,
    workgroup_reduction_function,
)
from plugrad_webgpu.algorithms.tiles import SPLIT_MIN_STEPS, TILES_BY_NAME, choose_tile
from plugrad_webgpu.memory.buffers import reinterpret
from plugrad_webgpu.shaders.chains import plain_store_substitutions
from plugrad_webgpu.shaders.elements import NUMBER_DTYPES, WGSL_STORAGE_TYPES, vector_type
from plugrad_webgpu.shaders.program import Program, plan
from plugrad_webgpu.shaders.sources import shader

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from plugrad.extend import DType
    from plugrad_webgpu.algorithms.tiles import Tile
    from plugrad_webgpu.memory.buffers import GpuArray
    from plugrad_webgpu.shaders.program import Plan

SUM_EXPRESSIONS = dict.fromkeys(NUMBER_DTYPES, "a + b") | {int64: "sum_i64(a, b)"}
"""The WGSL sum of the elements `a` and `b`, by dtype."""
sum_over_axes: Final = reduction(SUM_EXPRESSIONS, dict.fromkeys(SUM_EXPRESSIONS, 0))
"""The function that sums an array over some of its axes."""


@dataclass(frozen=True, slots=True)
class Matrices:
    """A batch of matrices in an array: their number, their sizes, and whether to transpose them.

    The sizes of a transposed operand are those after the transposition.
    """

    array: GpuArray
    """The array that holds the elements of the matrices."""
    batch_size: int
    """The number of matrices."""
    rows: int
    """The number of rows of each matrix."""
    columns: int
    """The number of columns of each matrix."""
    is_transposed: bool = False
    """Whether the array holds each matrix transposed."""


class LeftOperandSource(NamedTuple):
    """The WGSL by which a shader reads the left operand of a product."""

    template_name: str
    """The name of the template shaders/templates/<name>.wgsl."""
    parameter_declarations: str = ""
    """The WGSL declarations of the shader parameters that only this source reads."""
    parameter_values: tuple[int, ...] = ()
    """The values of the declared parameters, in order."""
    transposed_stride_wgsl: str = ""
    """The WGSL distance, in items, between adjacent elements of a sum in a transposed operand."""
    template_substitutions: tuple[tuple[str, str], ...] = ()
    """Pairs of a placeholder's name in the template and the WGSL that replaces it."""
    needs_bounds_checks: bool = True
    """Whether the shader may ask for elements outside of the array or in the padding, which are 0."""
    runs_per_row: int = 1
    """The number of runs of adjacent elements that make up a row, such as the lines of a patch."""
    has_whole_vectors: bool = True
    """Whether adjacent elements come in multiples of 4, so that they are read as vectors."""


class Epilogue(NamedTuple):
    """The epilogue of a matrix product: a bias and an activation of each element `x`, applied before it is stored."""

    activation_expression: str
    """The WGSL activation of `x`; it may read ``parameters.alpha``, or `alpha` of the PReLU weights."""
    bias: GpuArray | None
    """The array that is added before the activation: one element for each column, or a single one."""
    prelu_weights: GpuArray | None
    """The values of `alpha`: one element for each column, or a single one."""
    activation_alpha: float | None
    """The number ``parameters.alpha``."""
    apply_to_array: Callable[[GpuArray], GpuArray]
    """A function that applies the epilogue to a whole array, for products whose partial sums are added later."""


class _EpilogueSource(NamedTuple):
    """The WGSL of an epilogue."""

    activation_expression: str = "x"
    """The WGSL activation of `x`."""
    bias_index_wgsl: str = ""
    """The WGSL index of the bias: ``column``, ``0u``, or empty without a bias."""
    prelu_weights_index_wgsl: str = ""
    """The WGSL index of the weights: ``column``, ``0u``, or empty without weights."""
    activation_alpha: str = ""
    """The number ``parameters.alpha``, if the activation reads it, as text, which tells 0.0 from -0.0."""


def multiply_matrices(a: Matrices, b: Matrices, epilogue: Epilogue | None = None) -> GpuArray:
    """Return matrix products of shape (batch, rows, columns); a single matrix is multiplied by all of the other."""
    if b.columns == 1 < a.rows:
        # One row of the transposed product: its operands are read in whole vectors.
        row = Matrices(b.array, b.batch_size, 1, b.rows)
        turned = Matrices(a.array, a.batch_size, a.columns, a.rows, not a.is_transposed)
        output = multiply_matrices(row, turned)
        output = reinterpret(output, (output.shape[0], a.rows, 1))
        return epilogue.apply_to_array(output) if epilogue is not None else output
    if a.array.dtype is int64:
        device, sizes = a.array.buffer.device, (a.rows, a.columns, b.columns)
        step = plan_int64_product(
            device, (a.batch_size, b.batch_size), sizes, _matrix_strides(a), _matrix_strides(b)
        )
        return _sum_splits(device.launch(step, a.array, b.array))
    return multiply_from_source(a, b, _matrix_source(a.rows, a.columns, a.is_transposed), epilogue)


@lru_cache(maxsize=1024)
def _matrix_source(rows: int, columns: int, is_transposed: bool) -> LeftOperandSource:
    """Return the `LeftOperandSource` that reads an ordinary matrix."""
    is_whole = (rows if is_transposed else columns) % 4 == 0
    unit = 4 if is_whole else 1
    start = "rows" if not is_whole else "rows / 4u"
    if not is_transposed:
        start = f"rows * (parameters.depth / {unit}u)"
    end = "parameters.depth" if is_transposed else f"parameters.depth / {unit}u"
    return LeftOperandSource(
        "linalg_matrix",
        transposed_stride_wgsl=f"i32(parameters.rows / {unit}u)",
        template_substitutions=(("a_start", start), ("a_end", end)),
        needs_bounds_checks=columns % 4 != 0,
        has_whole_vectors=is_whole,
    )


def multiply_from_source(
    a: Matrices, b: Matrices, source: LeftOperandSource, epilogue: Epilogue | None = None
) -> GpuArray:
    """Return matrix products whose left operand is read by the WGSL of a source, such as patches of images.

    The columns of `a` are the elements of one run; `b` has the rows of all runs.
    """
    device = a.array.buffer.device
    sizes = (a.rows, a.columns, b.columns)
    # Of few rows or columns: those of patches are not side by side, because each run begins elsewhere.
    is_along = source.runs_per_row == 1 and (
        b.is_transposed if a.rows < b.columns else not a.is_transposed
    )
    all_runs = (a.rows, source.runs_per_row * a.columns, b.columns)
    name = choose_tile(
        device, max(a.batch_size, b.batch_size), all_runs, has_contiguous_sums=is_along
    )
    is_transposed = (a.is_transposed, b.is_transposed)
    batches = (a.batch_size, b.batch_size)
    if epilogue is not None:
        step = _product_plan(
            TILES_BY_NAME[name],
            source,
            a.array.dtype,
            batches,
            sizes,
            is_transposed,
            _epilogue_source(epilogue),
            uses_subgroups(device),
        )
        if step.shape[0] == 1:
            beside = [x for x in (epilogue.bias, epilogue.prelu_weights) if x is not None]
            return _sum_splits(device.launch(step, a.array, b.array, *beside))
    step = _product_plan(
        TILES_BY_NAME[name],
        source,
        a.array.dtype,
        batches,
        sizes,
        is_transposed,
        _EpilogueSource(),
        uses_subgroups(device),
    )
    output = _sum_splits(device.launch(step, a.array, b.array))
    return epilogue.apply_to_array(output) if epilogue is not None else output


def _epilogue_source(epilogue: Epilogue) -> _EpilogueSource:
    """Return the WGSL of an epilogue, without its arrays."""

    def index_expression(x: GpuArray | None) -> str:
        if x is None:
            return ""
        return "0u" if x.shape in ((), (1,)) else "column"

    return _EpilogueSource(
        epilogue.activation_expression,
        index_expression(epilogue.bias),
        index_expression(epilogue.prelu_weights),
        "" if epilogue.activation_alpha is None else repr(float(epilogue.activation_alpha)),
    )


def _sum_splits(partial_sums: GpuArray) -> GpuArray:
    """Return the sum over the first axis, whose elements are partial sums of products."""
    return (
        sum_over_axes(partial_sums, (0,), False)
        if partial_sums.shape[0] > 1
        else reinterpret(partial_sums, partial_sums.shape[1:])
    )


@lru_cache(maxsize=1024)
def _product_plan(
    tile: Tile,
    source: LeftOperandSource,
    dtype: DType,
    batch_sizes: tuple[int, int],
    product_sizes: tuple[int, int, int],
    are_transposed: tuple[bool, bool],
    epilogue: _EpilogueSource,
    has_subgroups: bool,
) -> Plan:
    """Return the plan of matrix products, whose output has the shape (splits, batch, rows, columns)."""
    rows, depth, columns = product_sizes
    blocks, lines = tile.row_blocks, 4
    if tile.schedule in ("direct", "joined"):
        if rows <= 4:
            blocks, lines = 1, 4 if rows > 2 else max(rows, 1)
        if columns <= 4:
            tile = tile._replace(column_vectors=1)
    elif tile.schedule == "broadcast" and rows <= 4 * (tile.row_blocks // 2):
        blocks = tile.row_blocks // 2
    tile_rows = lines if blocks == 1 else 4 * blocks
    batch = 0 if 0 in batch_sizes else max(batch_sizes)
    row_tiles, column_tiles = -(-rows // tile_rows), -(-columns // (4 * tile.column_vectors))
    tiles = batch * row_tiles * column_tiles
    steps = source.runs_per_row * -(-depth // 4)
    lanes = tile.workgroup if tile.schedule == "joined" else 1
    # On a GPU, a few more workgroups than it runs at a time are better than a few less.
    busy = (
        tile.min_tiles_to_fill_device + max(tiles - 1, 0)
        if tile.schedule == "shared"
        else tile.min_tiles_to_fill_device
    )
    has_idle_lanes = tile.schedule == "direct" and tiles < tile.invocations
    min_steps = SPLIT_MIN_STEPS if has_idle_lanes else tile.split_min_steps
    # The sums are divided as for the narrowest tile, so that no bit depends on the choice of a tile.
    narrow_tiles = (
        tiles * tile.column_vectors_per_invocation if tile.schedule == "broadcast" else tiles
    )
    splits = count_splits(steps, narrow_tiles, busy, min_steps * lanes)
    is_whole = (depth if are_transposed[1] else columns) % 4 == 0
    a_unit, b_unit = (4 if each else 1 for each in (source.has_whole_vectors, is_whole))
    parameters = (
        tiles * splits,
        rows,
        columns,
        depth,
        row_tiles,
        column_tiles,
        batch,
        0 if batch_sizes[0] == 1 else rows * depth // a_unit,
        0 if batch_sizes[1] == 1 else depth * columns // b_unit,
        steps,
        -(-steps // splits),
        *source.parameter_values,
        *([float(epilogue.activation_alpha)] if epilogue.activation_alpha else []),
    )
    program = _product_program(
        tile,
        source._replace(parameter_values=(), runs_per_row=1),
        dtype,
        (blocks, lines),
        are_transposed,
        (is_whole, depth % 4 == 0, columns % 4 == 0),
        epilogue._replace(activation_alpha="0.0" if epilogue.activation_alpha else ""),
        has_subgroups and tile.schedule == "joined",
    )
    each = 1 if tile.schedule == "direct" else tile.workgroup
    shape = (splits, batch, rows, columns)
    return plan(program, parameters, tiles * splits * each, shape, dtype)


@cache
def _product_program(
    tile: Tile,
    source: LeftOperandSource,
    dtype: DType,
    block_count_and_block_rows: tuple[int, int],
    are_transposed: tuple[bool, bool],
    have_whole_vectors: tuple[bool, bool, bool],
    epilogue: _EpilogueSource,
    has_subgroups: bool,
) -> Program:
    """Return the program of a product; `have_whole_vectors` is for the rows of b, the sums and the output rows."""
    stored = WGSL_STORAGE_TYPES[dtype]
    b_whole, depth_whole, columns_whole = have_whole_vectors
    width = 4 if columns_whole else 1
    arrays = {
        "a": vector_type(stored, 4 if source.has_whole_vectors else 1),
        "b": vector_type(stored, 4 if b_whole else 1),
        **({"bias": stored} if epilogue.bias_index_wgsl else {}),
        **({"weights": stored} if epilogue.prelu_weights_index_wgsl else {}),
    }
    before = [
        f"let x = y + bias[{epilogue.bias_index_wgsl}];"
        if epilogue.bias_index_wgsl
        else "let x = y;"
    ]
    if epilogue.prelu_weights_index_wgsl:
        before.append(f"let alpha = weights[{epilogue.prelu_weights_index_wgsl}];")
    number = "\n  alpha: f32," if epilogue.activation_alpha else ""
    text = partial(
        shader,
        "linalg_operands",
        source.template_name,
        f"linalg_{tile.schedule}",
        T=stored,
        operand_fields=source.parameter_declarations + number,
        bindings=_binding_declarations(arrays),
        **plain_store_substitutions(len(arrays), vector_type(stored, width)),
        before="\n  ".join(before),
        epilogue=epilogue.activation_expression,
        store_vector=_store_statements(columns_whole),
        join=workgroup_reduction_function(
            "total", "a + b", f"vec4<{stored}>", has_subgroups, tile.workgroup
        ),
        **subgroup_size_substitutions(has_subgroups),
        **_left_operand_access(source, are_transposed[0], arrays["a"]),
        **_right_operand_access(are_transposed[1], b_whole, depth_whole, arrays["b"]),
        **dict(source.template_substitutions),
        **_tile_substitutions(tile, block_count_and_block_rows, are_transposed),
    )
    return Program(
        f"multiply {tile.schedule}",
        text,
        workgroup=tile.workgroup,
        stored_elements=width,
        store_calls=_count_store_calls(tile, block_count_and_block_rows) * (4 // width),
    )


def _count_store_calls(tile: Tile, block_count_and_block_rows: tuple[int, int]) -> int:
    """Return in how many places the shader of a tile stores a vector."""
    blocks, lines = block_count_and_block_rows
    if tile.schedule == "shared":
        blocks = tile.row_blocks_per_invocation
    vectors = (
        tile.column_vectors_per_invocation
        if tile.schedule in ("shared", "broadcast")
        else tile.column_vectors
    )
    return blocks * lines * vectors


def _tile_substitutions(
    tile: Tile, block_count_and_block_rows: tuple[int, int], are_transposed: tuple[bool, bool]
) -> dict[str, str]:
    """Return the template substitutions for the sizes of a tile and for the elements that each invocation loads."""
    blocks, lines = block_count_and_block_rows
    numbers = {
        "blocks": blocks,
        "lines": lines,
        "rows": tile.row_blocks
        if tile.schedule == "shared"
        else (lines if blocks == 1 else 4 * blocks),
        "vectors": tile.column_vectors,
        "steps": tile.shared_depth_blocks,
        "down": tile.row_blocks_per_invocation,
        "across": tile.column_vectors_per_invocation,
        "invocations": tile.workgroup,
    }
    along_a, along_b = ("local % {0}", "local / {0}"), ("b_local % {0}", "b_local / {0}")
    a_row, a_step = ("ROWS", along_a) if are_transposed[0] else ("STEPS", along_a[::-1])
    b_vector, b_step = ("STEPS", along_b[::-1]) if are_transposed[1] else ("VECTORS", along_b)
    return {name: str(number) for name, number in numbers.items()} | {
        "a_own_row": a_step[0].format(a_row),
        "a_own_step": a_step[1].format(a_row),
        "b_own_vector": b_step[0].format(b_vector),
        "b_own_step": b_step[1].format(b_vector),
    }


def _binding_declarations(element_types: Mapping[str, str]) -> str:
    """Return the WGSL declarations of input arrays, given the types of their elements by array name."""
    return "\n".join(
        f"@group(0) @binding({i}) var<storage, read> {name}: array<{kind}>;"
        for i, (name, kind) in enumerate(element_types.items())
    )


def _store_statements(has_whole_vectors: bool) -> str:
    """Return the WGSL that stores four columns of a row; columns of vectors that are not whole are checked first."""
    lanes = [f"apply_epilogue(value[{i}], 4u * vector + {i}u)" for i in range(4)]
    if has_whole_vectors:
        return f"store(offset / 4u, vec4({', '.join(lanes)}));"
    guarded = "if (4u * vector + {0}u < parameters.columns) {{ store(offset + {0}u, {1}); }}"
    return "\n  ".join(guarded.format(i, lane) for i, lane in enumerate(lanes))


def _left_operand_access(
    source: LeftOperandSource, is_transposed: bool, item_type: str
) -> dict[str, str]:
    """Return the template substitutions that read the left operand, by vectors or by elements of `item_type`."""
    guarded = f"select({item_type}(), a[select(0u, u32(at), is_real)], is_real)"
    item = "a_item(run.start[{0}] + {1}, ({2} >= run.first[{0}]) & ({2} < run.end[{0}]))"
    if is_transposed:
        place, along = "4u * step + i", f"k * {source.transposed_stride_wgsl}"
        items = [item.format(j, along, "k") for j in range(4)]
    else:
        place = "step" if source.has_whole_vectors else "4u * step"
        items = [item.format("i", f"k + {j}", f"k + {j}") for j in range(4)]
    return {
        "a_type": item_type,
        "a_item": guarded if source.needs_bounds_checks else "a[u32(at)]",
        "a_place": place,
        "a_line": items[0] if source.has_whole_vectors else f"vec4({', '.join(items)})",
        "a_turned": "flipped(block)" if is_transposed else "block",
        "a_as_columns": "block" if is_transposed else "flipped(block)",
    }


def _right_operand_access(
    is_transposed: bool, has_whole_vectors: bool, has_whole_depth: bool, item_type: str
) -> dict[str, str]:
    """Return the template substitutions that read the right operand; a whole depth needs no checks of bounds."""
    guarded = f"select({item_type}(), b[select(0u, at, is_real)], is_real)"
    if is_transposed:
        column, end, row = "4u * vector + i", "parameters.columns", "column * parameters.depth"
        place, items = (
            "4u * step",
            [f"b_item(start + {row} + k + {j}u, k + {j}u < parameters.depth)" for j in range(4)],
        )
        if has_whole_vectors:
            place, items = "step", [f"b_item(start + {row} / 4u + k, true)"]
    else:
        place = "4u * step + i"
        column, end = (
            ("vector", "parameters.columns / 4u")
            if has_whole_vectors
            else ("4u * vector", "parameters.columns")
        )
        width = "parameters.columns / 4u" if has_whole_vectors else "parameters.columns"
        last = "min(column + {0}u, parameters.columns - 1u)"
        columns = ["column"] if has_whole_vectors else [last.format(j) for j in range(4)]
        items = [
            f"b_item(start + k * ({width}) + {each}, k < parameters.depth)" for each in columns
        ]
    return {
        "b_type": item_type,
        "b_item": "b[at]" if has_whole_depth else guarded,
        "b_place": place,
        "b_column": column,
        "columns_end": end,
        "b_line": items[0] if has_whole_vectors else f"vec4({', '.join(items)})",
        "b_turned": "flipped(block)" if is_transposed else "block",
        "b_unit": "4" if has_whole_vectors else "1",
    }


def _matrix_strides(matrices: Matrices) -> tuple[int, int]:
    """Return the distances in elements between rows and between columns."""
    return (1, matrices.rows) if matrices.is_transposed else (matrices.columns, 1)
