"""Products of matrices."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from plugrad.extend import broadcast
from plugrad.kernels import linalg
from plugrad_webgpu.buffers import shared
from plugrad_webgpu.copying import View, copied
from plugrad_webgpu.declare import table
from plugrad_webgpu.elements import NUMBERS, require
from plugrad_webgpu.layout import broadcast_strides
from plugrad_webgpu.product import Matrices, multiply

if TYPE_CHECKING:
    from plugrad_webgpu.buffers import GpuArray
    from plugrad_webgpu.layout import Shape


@table.implements(linalg.matmul)
def matmul(a: GpuArray, b: GpuArray, *, transpose_a: bool, transpose_b: bool) -> GpuArray:
    """Return the products of the matrices in the last two axes; the axes before them are broadcast."""
    require(a.dtype, NUMBERS, "the webgpu kernel BatchMatMul")
    batch = broadcast(a.shape[:-2], b.shape[:-2])
    left = _matrices(a, batch, transpose_a)
    right = _matrices(b, batch, transpose_b)
    if right.batch == 1 and not transpose_a and left.batch > 1:
        # Many matrices times one matrix: a single product of all rows.
        left = Matrices(a, 1, left.batch * left.rows, left.columns)
    output = multiply(left, right)
    rows = a.shape[-1] if transpose_a else a.shape[-2]
    return shared(output, (*batch, rows, right.columns))


def _matrices(x: GpuArray, batch: Shape, is_transposed: bool) -> Matrices:
    """Return an operand as one matrix, or as one for each of the batch, copying it only if necessary."""
    count = math.prod(x.shape[:-2])
    if count != 1 and x.shape[:-2] != batch:
        shape = (*batch, *x.shape[-2:])
        x = copied(x, shape, View(0, broadcast_strides(x.shape, shape)), "BatchMatMul on webgpu")
        count = math.prod(batch)
    rows, columns = x.shape[-2:]
    if is_transposed:
        rows, columns = columns, rows
    return Matrices(x, count, rows, columns, is_transposed)
