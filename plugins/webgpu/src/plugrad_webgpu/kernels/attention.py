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
from plugrad_webgpu.algorithms.product import sum_axes
from plugrad_webgpu.declare import table
from plugrad_webgpu.kernels.linalg import products
from plugrad_webgpu.kernels.normalization import softmax_or_zero
from plugrad_webgpu.memory.copying import concatenate, full, slice_block
from plugrad_webgpu.shaders.program import Program, plan
from plugrad_webgpu.shaders.sources import shader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from plugrad_webgpu.memory.buffers import GpuArray
    from plugrad_webgpu.shaders.layout import Shape
    from plugrad_webgpu.shaders.program import Plan

MAX_WEIGHTS: Final = {"hardware": 1 << 26, "software": 1 << 24}
"""How many weights exist at a time, or those of one query in each batch: 256 or 64 MiB."""

LANES = 8  # invocations beside each other
MAX_LINES = 16
FORMS: Final = (MAX_LINES, 1, 2), (MAX_LINES, 1, 1), (8, 1, 1)
"""The invocations below each other, and the blocks of rows and of keys of each."""
MAX_VALUE_VECTORS = 4
"""For each line of a block, the vectors of values that an invocation adds up; more do not fit in its registers."""
MAX_LOOP_STEPS = 60_000
"""Of all loops of an invocation: drivers may stop after 65,535."""

_scaled = elementwise("x * parameters.scale", attributes=("scale",))
_add = elementwise("a + b", ("a", "b"))
_product = elementwise("a * b", ("a", "b"))
_slopes = elementwise(
    "parameters.scale * weights * (slopes - total)",
    ("weights", "total", "slopes"),
    attributes=("scale",),
)


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
        form = _form(q.shape[-1], v.shape[-1], k.shape[-2], device.shared_bytes)
        has_few_weights = math.prod(q.shape[:-1]) * k.shape[-2] <= _max_weights(q)
        # Where all weights may exist, two products and a softmax take less time than the smallest shader on an H200.
        if form is not None and not (form.lines < MAX_LINES and has_few_weights):
            given = [q, k, v] if mask is None else [q, k, v, mask]
            steps = None if mask is None else _mask_steps(mask.shape)
            return device.launch(
                _plan(form, q.shape, k.shape[-2], v.shape[-1], steps, scale), *given
            )
    parts = [
        products(_weights(some, k, _mask_rows(mask, first, count), scale), v, False, False)
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
        weights = _weights(some, k, _mask_rows(mask, first, count), scale)
        from_y = _slice_rows(dy, first, count)
        slopes = products(from_y, v, False, True)
        total = sum_axes(_product(weights, slopes), (len(q.shape) - 1,), True)
        slopes = _slopes(weights, total, slopes, scale=scale)
        dqs.append(products(slopes, k, False, False))
        found = [products(slopes, some, True, False), products(weights, from_y, True, False)]
        sums = [_add(a, b) for a, b in zip(sums, found, strict=True)] if sums else found
    return [dqs[0] if len(dqs) == 1 else concatenate(dqs, len(q.shape) - 2), *sums]


class _Form(NamedTuple):
    """The sizes of a shader."""

    lines: int
    """The invocations below each other."""
    down: int
    """The blocks of four rows of each."""
    across: int
    """The blocks of four keys of an invocation, of those that are in shared memory at a time."""
    width: int
    """The vectors of a query."""
    size: int
    """The vectors of a value."""
    is_whole: tuple[bool, bool]
    """Whether queries and values have no part of a vector."""

    @property
    def rows(self) -> int:
        """The blocks of rows of a workgroup."""
        return self.lines * self.down

    @property
    def keys(self) -> int:
        """The blocks of keys in shared memory."""
        return LANES * self.across

    @property
    def columns(self) -> int:
        """The vectors of values of an invocation."""
        return -(-self.size // LANES)

    @property
    def workgroup(self) -> int:
        """The invocations of a workgroup."""
        return LANES * self.lines

    @property
    def lengths(self) -> tuple[int, int, int]:
        """The lengths, in vectors of four, of a workgroup's arrays of queries, of keys or weights, and of values."""
        return (
            4 * self.width * self.rows,
            4 * self.keys * max(self.width, self.rows),
            max(4 * self.keys * self.size, LANES * self.rows),
        )


def _form(width: int, size: int, keys: int, shared_bytes: int) -> _Form | None:
    """Return the largest shader that a device has room for, or None."""
    whole = (width % 4 == 0, size % 4 == 0)
    for numbers in FORMS:
        form = _Form(*numbers, -(-width // 4), -(-size // 4), whole)
        loads = form.keys * (form.width + 4 * form.size) // form.workgroup + 2
        steps = -(-keys // (4 * form.keys)) * (form.width + form.keys + loads)
        if (
            16 * sum(form.lengths) <= shared_bytes
            and form.down * form.columns <= MAX_VALUE_VECTORS
            and width > 0
            and steps <= MAX_LOOP_STEPS
        ):
            return form
    return None


def _mask_steps(shape: Shape) -> tuple[int, int, int]:
    """Return the steps of a mask from one matrix, row and key to the next; 0 where all have the same one."""
    rows, keys = shape[-2:]
    return (
        rows * keys if math.prod(shape[:-2]) > 1 else 0,
        keys if rows > 1 else 0,
        1 if keys > 1 else 0,
    )


@lru_cache(maxsize=1024)
def _plan(
    form: _Form,
    shape: Shape,
    keys: int,
    size: int,
    mask: tuple[int, int, int] | None,
    scale: float,
) -> Plan:
    *batch, queries, width = shape
    row_tiles = -(-queries // (4 * form.rows))
    count = math.prod(batch) * row_tiles
    steps = mask or (0, 0, 0)
    numbers = (count, row_tiles, queries, keys, width, size, *steps, scale * math.log2(math.e))
    program = _program(form, mask is not None)
    return plan(program, numbers, count * form.workgroup, (*batch, queries, size), float32)


@cache
def _program(form: _Form, has_mask: bool) -> Program:
    q_whole, v_whole = form.is_whole
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
    queries_length, tile_length, values_length = form.lengths
    source = partial(
        shader,
        "attention",
        bindings="\n".join(bindings),
        lines=str(form.lines),
        rows=str(form.rows),
        keys=str(form.keys),
        down=str(form.down),
        across=str(form.across),
        width=str(form.width),
        size=str(form.size),
        columns=str(form.columns),
        queries_length=str(queries_length),
        tile_length=str(tile_length),
        values_length=str(values_length),
        q_vector=_vector("q", "width", q_whole),
        k_vector=_vector("k", "width", q_whole),
        v_vector=_vector("v", "size", v_whole),
        masked=f"{math.log2(math.e)} * vec4f({', '.join(places)}) + score" if has_mask else "score",
        store=_store_statements(v_whole),
    )
    return Program("attention", source, workgroup=form.workgroup)


def _vector(name: str, size: str, is_whole: bool) -> str:
    """Return a WGSL expression for four elements of a row; unless `is_whole`, it pads them with zeros at the end."""
    if is_whole:
        return f"{name}[row * {size.upper()} + vector]"
    length = f"parameters.{size}"
    lanes = [f"4u * vector + {lane}u" for lane in range(4)]
    items = [
        f"select(0.0, {name}[row * {length} + min({lane}, {length} - 1u)], {lane} < {length})"
        for lane in lanes
    ]
    return f"vec4f({', '.join(items)})"


def _store_statements(is_whole: bool) -> str:
    if is_whole:
        return "output[start / 4u] = value;"
    return "\n  ".join(
        f"if (4u * vector + {lane}u < parameters.size) {{ output[start + {lane}u] = value[{lane}]; }}"
        for lane in range(4)
    )


def _iter_query_groups(q: GpuArray, k: GpuArray) -> Iterator[tuple[GpuArray, int, int]]:
    """Yield some queries, the number of the first one, and how many they are."""
    queries = q.shape[-2]
    height = max(1, _max_weights(q) // (math.prod(q.shape[:-2]) * k.shape[-2]))
    for first in range(0, queries, height):
        count = min(height, queries - first)
        yield _slice_rows(q, first, count), first, count


def _max_weights(x: GpuArray) -> int:
    return MAX_WEIGHTS["software" if x.buffer.device.is_software else "hardware"]


def _slice_rows(x: GpuArray, first: int, count: int) -> GpuArray:
    """Return some rows of matrices."""
    axes = len(x.shape)
    begin = tuple(first if axis == axes - 2 else 0 for axis in range(axes))
    return slice_block(x, begin, (*x.shape[:-2], count, x.shape[-1]))


def _mask_rows(mask: GpuArray | None, first: int, count: int) -> GpuArray | None:
    """Return the rows of a mask for some queries, or the only one, which is for all of them."""
    return mask if mask is None or mask.shape[-2] == 1 else _slice_rows(mask, first, count)


def _weights(q: GpuArray, k: GpuArray, mask: GpuArray | None, scale: float) -> GpuArray:
    scores = products(_scaled(q, scale=scale), k, False, True)
    if mask is not None:
        scores = _add(mask, scores)
    return softmax_or_zero(scores, len(scores.shape) - 1)
