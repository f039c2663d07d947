"""Attention: in one shader on GPUs; else products and a softmax, for some queries at a time.

A product of a software device takes a fraction of the time of one that waits at barriers, and so does one with keys
that are too wide for the memory of a workgroup. Then the weights of some queries are in memory.
"""

from __future__ import annotations

import math
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING, Final, NamedTuple

from plugrad.extend import float32
from plugrad.kernels import attention as contracts
from plugrad_webgpu.algorithms.expressions import elementwise
from plugrad_webgpu.algorithms.product import sum_over_axes
from plugrad_webgpu.declare import table
from plugrad_webgpu.kernels.linalg import multiply_real_matrices
from plugrad_webgpu.kernels.normalization import softmax_or_zeros
from plugrad_webgpu.memory.copying import concatenate, full, slice_block
from plugrad_webgpu.shaders.program import Program, plan
from plugrad_webgpu.shaders.sources import shader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from plugrad_webgpu.memory.buffers import GpuArray
    from plugrad_webgpu.shaders.layout import Shape
    from plugrad_webgpu.shaders.program import Plan

MAX_ATTENTION_WEIGHTS: Final = {"hardware": 1 << 26, "software": 1 << 24}
"""The largest number of weights that exist at a time (256 or 64 MiB), unless one query of each batch has more."""

WORKGROUP_COLUMNS = 8
"""The number of columns of invocations in a workgroup."""
MAX_WORKGROUP_ROWS = 16
"""The largest number of rows of invocations in a workgroup."""
SHADER_SIZE_CANDIDATES: Final = (MAX_WORKGROUP_ROWS, 1, 2), (MAX_WORKGROUP_ROWS, 1, 1), (8, 1, 1)
"""The rows of invocations in a workgroup, and the blocks of rows and of keys of each invocation."""
MAX_VALUE_VECTORS_PER_INVOCATION = 4
"""The largest number of value vectors that an invocation sums for each row of a block, in its registers."""
MAX_LOOP_STEPS = 60_000
"""The largest number of steps of all loops of an invocation: drivers may stop after 65,535."""

_scale_kernel = elementwise("x * parameters.scale", attributes=("scale",))
"""The elementwise kernel that multiplies by a number."""
_addition_kernel = elementwise("a + b", ("a", "b"))
"""The elementwise kernel that adds two arrays."""
_multiplication_kernel = elementwise("a * b", ("a", "b"))
"""The elementwise kernel that multiplies two arrays."""
_softmax_gradient_kernel = elementwise(
    "parameters.scale * weights * (slopes - total)",
    ("weights", "total", "slopes"),
    attributes=("scale",),
)
"""The elementwise kernel that computes the gradient for the scores."""


@table.implements(contracts.attention)
def attention(
    q: GpuArray, k: GpuArray, v: GpuArray, mask: GpuArray | None, *, scale: float
) -> GpuArray:
    """Return softmax(scale q k^T + mask) v."""
    shape = (*q.shape[:-1], v.shape[-1])
    if 0 in (*shape, k.shape[-2]):
        return full(q.buffer.device, shape, 0, q.dtype)
    device = q.buffer.device
    if not device.is_software:
        form = _choose_shader_sizes(q.shape[-1], v.shape[-1], k.shape[-2], device.shared_bytes)
        has_few_weights = math.prod(q.shape[:-1]) * k.shape[-2] <= _max_weights(q)
        # Where all weights may exist, two products and a softmax take less time than the smallest shader on an H200.
        if form is not None and not (form.invocation_rows < MAX_WORKGROUP_ROWS and has_few_weights):
            given = [q, k, v] if mask is None else [q, k, v, mask]
            steps = None if mask is None else _mask_strides(mask.shape)
            return device.launch(
                _attention_plan(form, q.shape, k.shape[-2], v.shape[-1], steps, scale), *given
            )
    parts = [
        multiply_real_matrices(
            _attention_weights(some, k, _mask_rows(mask, first, count), scale), v, False, False
        )
        for some, first, count in _iter_query_groups(q, k)
    ]
    return parts[0] if len(parts) == 1 else concatenate(parts, len(shape) - 2)


@table.implements(contracts.attention_gradient)
def attention_gradient(
    dy: GpuArray,
    q: GpuArray,
    k: GpuArray,
    v: GpuArray,
    mask: GpuArray | None,
    *,
    scale: float,
) -> list[GpuArray]:
    """Return the gradients for q, k and v."""
    if 0 in (*q.shape[:-1], k.shape[-2]):
        return [full(x.buffer.device, x.shape, 0, x.dtype) for x in (q, k, v)]
    dqs: list[GpuArray] = []
    sums: list[GpuArray] = []
    for some, first, count in _iter_query_groups(q, k):
        weights = _attention_weights(some, k, _mask_rows(mask, first, count), scale)
        from_y = _slice_rows(dy, first, count)
        slopes = multiply_real_matrices(from_y, v, False, True)
        total = sum_over_axes(_multiplication_kernel(weights, slopes), (len(q.shape) - 1,), True)
        slopes = _softmax_gradient_kernel(weights, total, slopes, scale=scale)
        dqs.append(multiply_real_matrices(slopes, k, False, False))
        found = [
            multiply_real_matrices(slopes, some, True, False),
            multiply_real_matrices(weights, from_y, True, False),
        ]
        sums = [_addition_kernel(a, b) for a, b in zip(sums, found, strict=True)] if sums else found
    return [dqs[0] if len(dqs) == 1 else concatenate(dqs, len(q.shape) - 2), *sums]


class _AttentionShaderSizes(NamedTuple):
    """The sizes of the tiles of an attention shader."""

    invocation_rows: int
    """The rows of invocations in a workgroup."""
    row_blocks_per_invocation: int
    """The blocks of four rows that an invocation computes."""
    key_blocks_per_invocation: int
    """The blocks of four keys in shared memory, for each column of invocations."""
    query_vectors: int
    """The number of vectors of four elements in a query."""
    value_vectors: int
    """The number of vectors of four elements in a value."""
    has_whole_vectors: tuple[bool, bool]
    """Whether the sizes of queries and of values are multiples of 4."""

    @property
    def row_blocks(self) -> int:
        """The blocks of four rows that a workgroup computes."""
        return self.invocation_rows * self.row_blocks_per_invocation

    @property
    def key_blocks(self) -> int:
        """The blocks of four keys in shared memory."""
        return WORKGROUP_COLUMNS * self.key_blocks_per_invocation

    @property
    def value_vectors_per_invocation(self) -> int:
        """The number of vectors of a value that each invocation computes."""
        return -(-self.value_vectors // WORKGROUP_COLUMNS)

    @property
    def workgroup_size(self) -> int:
        """The number of invocations in a workgroup."""
        return WORKGROUP_COLUMNS * self.invocation_rows

    @property
    def shared_array_lengths(self) -> tuple[int, int, int]:
        """The lengths, in vectors of four, of a workgroup's arrays of queries, of keys or weights, and of values."""
        return (
            4 * self.query_vectors * self.row_blocks,
            4 * self.key_blocks * max(self.query_vectors, self.row_blocks),
            max(4 * self.key_blocks * self.value_vectors, WORKGROUP_COLUMNS * self.row_blocks),
        )


def _choose_shader_sizes(
    query_size: int, value_size: int, key_count: int, shared_bytes: int
) -> _AttentionShaderSizes | None:
    """Return the largest tile sizes for which a device has enough shared memory, or None."""
    whole = (query_size % 4 == 0, value_size % 4 == 0)
    for numbers in SHADER_SIZE_CANDIDATES:
        form = _AttentionShaderSizes(*numbers, -(-query_size // 4), -(-value_size // 4), whole)
        loads = (
            form.key_blocks * (form.query_vectors + 4 * form.value_vectors) // form.workgroup_size
            + 2
        )
        steps = -(-key_count // (4 * form.key_blocks)) * (
            form.query_vectors + form.key_blocks + loads
        )
        if (
            16 * sum(form.shared_array_lengths) <= shared_bytes
            and form.row_blocks_per_invocation * form.value_vectors_per_invocation
            <= MAX_VALUE_VECTORS_PER_INVOCATION
            and query_size > 0
            and steps <= MAX_LOOP_STEPS
        ):
            return form
    return None


def _mask_strides(shape: Shape) -> tuple[int, int, int]:
    """Return a mask's distances in elements between matrices, rows and keys; 0 where it is repeated."""
    rows, keys = shape[-2:]
    return (
        rows * keys if math.prod(shape[:-2]) > 1 else 0,
        keys if rows > 1 else 0,
        1 if keys > 1 else 0,
    )


@lru_cache(maxsize=1024)
def _attention_plan(
    sizes: _AttentionShaderSizes,
    query_shape: Shape,
    key_count: int,
    value_size: int,
    mask_strides: tuple[int, int, int] | None,
    scale: float,
) -> Plan:
    """Return the plan of attention in one shader."""
    *batch, queries, width = query_shape
    row_tiles = -(-queries // (4 * sizes.row_blocks))
    count = math.prod(batch) * row_tiles
    steps = mask_strides or (0, 0, 0)
    numbers = (
        count,
        row_tiles,
        queries,
        key_count,
        width,
        value_size,
        *steps,
        scale * math.log2(math.e),
    )
    program = _attention_program(sizes, mask_strides is not None)
    return plan(
        program, numbers, count * sizes.workgroup_size, (*batch, queries, value_size), float32
    )


@cache
def _attention_program(sizes: _AttentionShaderSizes, has_mask: bool) -> Program:
    """Return the program of attention in one shader."""
    q_whole, v_whole = sizes.has_whole_vectors
    has_vectors = {"q": q_whole, "k": q_whole, "v": v_whole}
    if has_mask:
        has_vectors["mask"] = False
    has_vectors["output"] = v_whole
    arrays = {name: "vec4f" if whole else "f32" for name, whole in has_vectors.items()}
    bindings = [
        f"@group(0) @binding({i}) var<storage, {'read_write' if name == 'output' else 'read'}> {name}: array<{kind}>;"
        for i, (name, kind) in enumerate(arrays.items())
    ]
    place = "batch * parameters.mask_batch + rows[{0}] * parameters.mask_row + known * parameters.mask_key"
    places = [f"mask[{place.format(i)}]" for i in range(4)]
    queries_length, tile_length, values_length = sizes.shared_array_lengths
    source = partial(
        shader,
        "attention",
        bindings="\n".join(bindings),
        lines=str(sizes.invocation_rows),
        rows=str(sizes.row_blocks),
        keys=str(sizes.key_blocks),
        down=str(sizes.row_blocks_per_invocation),
        across=str(sizes.key_blocks_per_invocation),
        width=str(sizes.query_vectors),
        size=str(sizes.value_vectors),
        columns=str(sizes.value_vectors_per_invocation),
        queries_length=str(queries_length),
        tile_length=str(tile_length),
        values_length=str(values_length),
        q_vector=_load_vector_expression("q", "width", q_whole),
        k_vector=_load_vector_expression("k", "width", q_whole),
        v_vector=_load_vector_expression("v", "size", v_whole),
        masked=f"{math.log2(math.e)} * vec4f({', '.join(places)}) + score" if has_mask else "score",
        store=_store_statements(v_whole),
    )
    return Program("attention", source, workgroup=sizes.workgroup_size)


def _load_vector_expression(array_name: str, size_name: str, has_whole_vectors: bool) -> str:
    """Return the WGSL of four elements of a row, whose length is `size_name`; zeros pad vectors that are not whole."""
    if has_whole_vectors:
        return f"{array_name}[row * {size_name.upper()} + vector]"
    length = f"parameters.{size_name}"
    lanes = [f"4u * vector + {lane}u" for lane in range(4)]
    items = [
        f"select(0.0, {array_name}[row * {length} + min({lane}, {length} - 1u)], {lane} < {length})"
        for lane in lanes
    ]
    return f"vec4f({', '.join(items)})"


def _store_statements(has_whole_vectors: bool) -> str:
    """Return the WGSL that stores four elements of a row; elements of vectors that are not whole are checked first."""
    if has_whole_vectors:
        return "output[start / 4u] = value;"
    return "\n  ".join(
        f"if (4u * vector + {lane}u < parameters.size) {{ output[start + {lane}u] = value[{lane}]; }}"
        for lane in range(4)
    )


def _iter_query_groups(q: GpuArray, k: GpuArray) -> Iterator[tuple[GpuArray, int, int]]:
    """Divide queries into groups whose weights fit in memory: yield the queries, the first index, and the count."""
    queries = q.shape[-2]
    height = max(1, _max_weights(q) // (math.prod(q.shape[:-2]) * k.shape[-2]))
    for first in range(0, queries, height):
        count = min(height, queries - first)
        yield _slice_rows(q, first, count), first, count


def _max_weights(x: GpuArray) -> int:
    """Return the largest number of attention weights that may exist at a time on the device of x."""
    return MAX_ATTENTION_WEIGHTS["software" if x.buffer.device.is_software else "hardware"]


def _slice_rows(x: GpuArray, first_row: int, row_count: int) -> GpuArray:
    """Return `row_count` rows of matrices, from `first_row` on."""
    axes = len(x.shape)
    begin = tuple(first_row if axis == axes - 2 else 0 for axis in range(axes))
    return slice_block(x, begin, (*x.shape[:-2], row_count, x.shape[-1]))


def _mask_rows(mask: GpuArray | None, first_row: int, row_count: int) -> GpuArray | None:
    """Return some rows of a mask, or its only row, which is for all queries."""
    return mask if mask is None or mask.shape[-2] == 1 else _slice_rows(mask, first_row, row_count)


def _attention_weights(q: GpuArray, k: GpuArray, mask: GpuArray | None, scale: float) -> GpuArray:
    """Return the softmax of the scores of queries and keys."""
    scores = multiply_real_matrices(_scale_kernel(q, scale=scale), k, False, True)
    if mask is not None:
        scores = _addition_kernel(mask, scores)
    return softmax_or_zeros(scores, len(scores.shape) - 1)
