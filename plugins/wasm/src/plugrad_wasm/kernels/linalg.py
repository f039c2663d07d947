"""Linear algebra."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from plugrad.extend import broadcast, size_of
from plugrad.kernels import linalg
from plugrad_wasm.bits import fill
from plugrad_wasm.declare import ExportNames, call, table
from plugrad_wasm.strides import collapsed, row_major

if TYPE_CHECKING:
    from plugrad_wasm.memory import WasmArray

Sizes = tuple[int, ...]
MATMUL = ExportNames("matmul")


class Product(NamedTuple):
    """The geometry of a batch of matrix products: (rows, depth) times (depth, columns)."""

    shape: Sizes
    rows: int
    columns: int
    depth: int
    a_strides: Sizes  # of rows and columns
    b_strides: Sizes
    descriptor: Sizes  # of the batch


@lru_cache(maxsize=4096)
def product(a: Sizes, b: Sizes, transpose_a: bool, transpose_b: bool) -> Product:
    """Return the geometry of the product of arrays of two shapes."""
    rows, depth = a[-2:][::-1] if transpose_a else a[-2:]
    columns = b[-2] if transpose_b else b[-1]
    batch = broadcast(a[:-2], b[:-2])
    axes = collapsed(batch, matrix_strides(a, batch), matrix_strides(b, batch))
    return Product(
        (*batch, rows, columns),
        rows,
        columns,
        depth,
        (1, a[-1]) if transpose_a else (a[-1], 1),
        (1, b[-1]) if transpose_b else (b[-1], 1),
        (len(axes[0]), *axes[0], *axes[1], *axes[2]),
    )


def matrix_strides(shape: Sizes, batch: Sizes) -> Sizes:
    """Return the strides from matrix to matrix in an array that is broadcast to the axes `batch`."""
    lead = (0,) * (len(batch) + 2 - len(shape))
    steps = zip(shape[:-2], row_major(shape)[:-2], strict=True)
    return lead + tuple(0 if n == 1 else step for n, step in steps)


@table.implements(linalg.matmul)
def matmul(a: WasmArray, b: WasmArray, *, transpose_a: bool, transpose_b: bool) -> WasmArray:
    """Return the products of the matrices in the last two axes."""
    plan = product(a.shape, b.shape, transpose_a, transpose_b)
    if plan.depth == 0:
        return fill(a.memory, plan.shape, a.dtype, 0)
    out = a.memory.empty(plan.shape, a.dtype)
    if out.size:
        descriptor = a.memory.store.descriptor(plan.descriptor)
        run = call(a, MATMUL[a.dtype], size_of(plan.shape) * plan.depth)
        run(
            a.address,
            b.address,
            out.address,
            plan.rows,
            plan.columns,
            plan.depth,
            *plan.a_strides,
            *plan.b_strides,
            descriptor.address,
        )
    return out
