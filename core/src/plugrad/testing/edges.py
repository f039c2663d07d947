"""Edge cases that come from the tables: odd shapes, broadcasting, special values, views and sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from plugrad.errors import ShapeError
from plugrad.kernels import binary, indexing, linalg, movement, reduction, unary
from plugrad.ops.creation import asarray
from plugrad.ops.movement import flip, permute_dims
from plugrad.testing.checks import (
    as_tensors,
    check_values,
    main_dtype,
    require_dtypes,
    require_kernel,
    run_row,
)
from plugrad.testing.lifecycle import main_number_dtype
from plugrad.testing.rows import (
    FLOATING_DTYPES,
    ROW_DTYPE,
    STRING_DTYPE,
    Array,
    Row,
    arbitrary_numbers,
    integers,
    numbers,
)
from plugrad.testing.tables import rows
from plugrad.types.dtype import as_dtype
from plugrad.types.specs import Shape, Shaped

if TYPE_CHECKING:
    from plugrad.tensor.backend import Backend
    from plugrad.tensor.tensor import Tensor

EDGE_SHAPES: Final[list[Shape]] = [(), (1,), (0,), (2, 0, 3), (1, 1, 1), (2, 3, 2, 1, 3), (70_001,)]
"""The shapes of inputs for which elementwise kernels are compared: of each rank, empty, and large."""
BROADCAST_SHAPES: Final[list[tuple[Shape, ...]]] = [
    ((3, 1), (1, 5)),
    ((5,), (2, 3, 5)),
    ((), (3, 5)),
    ((2, 1, 4), (3, 1)),
    ((2, 3, 4, 5), (3, 1, 5)),
    ((0, 1), (1, 3)),
    ((1,), (1, 1, 1)),
]
"""Shapes that broadcast together, for the inputs of one call."""
SPECIAL_NUMBERS: Final = [
    np.nan,
    np.inf,
    -np.inf,
    0.0,
    -0.0,
    1.0,
    -1.0,
    2.5,
    -2.5,
    0.5,
    6.0,
    100.0,
    -100.0,
]
"""The NaN, infinities, zeros and large numbers that special inputs combine."""

first_row_of_each_kernel: Final = [row for row in rows() if row.row_number == 1]
"""The rows with number 1."""
elementwise_rows: Final = [
    row for row in first_row_of_each_kernel if row.kernel.is_elementwise and row.inputs
]
"""The first row of each elementwise kernel that has inputs."""


def is_broadcasting(row: Row) -> bool:
    """Return whether a kernel broadcasts its inputs."""
    dtypes = [
        as_dtype(row.tested_dtypes[0] if x.dtype == ROW_DTYPE else x.dtype) for x in row.inputs if x
    ]
    shapes = [(2, 1), *[(1, 3)] * (len(dtypes) - 1)]
    try:
        out = row.kernel.infer(*map(Shaped, shapes, dtypes), **row.attributes(row.tested_dtypes[0]))
    except ShapeError:
        return False
    return out.shape == (2, 3)


broadcasting_rows: Final = [row for row in elementwise_rows if is_broadcasting(row)]
"""The elementwise rows whose kernel broadcasts its inputs."""
special_value_rows: Final = [
    row
    for row in elementwise_rows
    if row.is_special and {"float32", "float64"} & set(row.tested_dtypes)
]
"""The elementwise rows whose reference is right for NaN and infinities."""
rows_with_views: Final = [
    row
    for row in first_row_of_each_kernel
    if any(x and x.shape and x.dtype == ROW_DTYPE for x in row.inputs)
]
"""Rows whose inputs may be views, such as transposed ones."""


def check_shapes(row: Row, backend: Backend) -> None:
    """Compare a row's values on a backend for every rank, for empty inputs and for many elements."""
    dtype = main_dtype(row, backend)
    for shape in EDGE_SHAPES:
        other = row.with_shapes(*[shape] * len(row.inputs))
        check_values(other, dtype, other.draw_inputs(dtype))


def check_broadcasting(row: Row, backend: Backend) -> None:
    """Compare a row's values on a backend for inputs of different shapes, in each order."""
    dtype = main_dtype(row, backend)
    count = len(row.inputs)
    for pair in BROADCAST_SHAPES:
        for shapes in {
            (*pair, *[pair[0]] * count)[:count],
            (*pair[::-1], *[pair[1]] * count)[:count],
        }:
            other = row.with_shapes(*shapes)
            check_values(other, dtype, other.draw_inputs(dtype))


def check_incompatible_shapes_raise(row: Row, backend: Backend) -> None:
    """Check that a backend's implementation of a row's kernel raises an error for incompatible shapes.

    The engine reads the contract only after a kernel has failed.
    """
    dtype = main_dtype(row, backend)
    for shapes in [((3,), (4,)), ((2, 3), (3, 2)), ((0,), (3,))]:
        other = row.with_shapes(*shapes, *[shapes[0]] * (len(row.inputs) - 2))
        tensors = as_tensors(other.draw_inputs(dtype))
        try:
            result = run_row(other, tensors, dtype)[0]
        except ShapeError:
            continue
        raise AssertionError(
            f"{row.kernel.name} of shapes {shapes[0]} and {shapes[1]} gave shape {result.shape}; "
            "the implementation must fail where shapes do not fit"
        )


def special_inputs(row: Row, dtype: str) -> list[Array | None]:
    """Return NaN, infinities, zeros and large numbers in every combination, limited to what the contract allows."""
    count = sum(1 for x in row.inputs if x and x.dtype == ROW_DTYPE)
    grids = iter(np.meshgrid(*[np.array(SPECIAL_NUMBERS, dtype)] * count))
    size = len(SPECIAL_NUMBERS) ** count
    return [
        next(grids).reshape(-1).clip(*x.allowed_range)
        if x and x.dtype == ROW_DTYPE
        else x and x.draw(np.random.default_rng(0), (size,), x.dtype)
        for x in row.inputs
    ]


def check_special_values(row: Row, backend: Backend) -> None:
    """Compare a row's values on a backend for NaN, infinities, zeros and large numbers in every combination."""
    require_kernel(row.kernel, backend)
    dtypes = [
        d for d in FLOATING_DTYPES[:2] if d in row.tested_dtypes and as_dtype(d) in backend.dtypes()
    ]
    require_dtypes(dtypes or FLOATING_DTYPES[:1], backend)
    for dtype in dtypes:
        check_values(row, dtype, special_inputs(row, dtype))


def _transposed_view(array: Array) -> Tensor:
    """Return a tensor with the values of an array, as a transposed view."""
    order = tuple(reversed(range(array.ndim)))
    return permute_dims(asarray(array.transpose(order)), order)


def _flipped_view(array: Array) -> Tensor:
    """Return a tensor with the values of an array, as a view with all axes reversed."""
    return flip(asarray(np.flip(array)))


def _strided_view(array: Array) -> Tensor:
    """Return the values as every second element from the middle of a larger tensor."""
    larger = np.resize(array, [2 * n + 3 for n in array.shape])
    place = tuple(slice(1, 1 + 2 * n, 2) for n in array.shape)
    larger[place] = array
    return asarray(larger)[place]


def check_views(row: Row, backend: Backend) -> None:
    """Compare a row's values on a backend for inputs that may be views: transposed, reversed, or cut out of tensors."""
    dtype = main_dtype(row, backend)
    arrays = row.draw_inputs(dtype)
    for view in (_transposed_view, _flipped_view, _strided_view):
        tensors = [
            x if x is None else view(x) if x.ndim and x.dtype != STRING_DTYPE else asarray(x)
            for x in arrays
        ]
        check_values(row, dtype, arrays, tensors)


MANY_ELEMENTS: Final = 1_000_003
"""A number of elements that no block or workgroup size divides."""

LARGE_ROWS: Final = [
    Row(unary.negative, np.negative, [arbitrary_numbers(5_000_000)]),
    Row(binary.add, np.add, [arbitrary_numbers(3_000, 1), arbitrary_numbers(1, 1_001)]),
    Row(
        reduction.sum,
        np.sum,
        [numbers(0, 1, shape=(MANY_ELEMENTS,))],
        {"axis": (0,)},
        tolerance_factor=10,
    ),
    Row(
        reduction.sum,
        lambda x: np.sum(x, (0, 2)),
        [numbers(0, 1, shape=(70, 9, 800))],
        {"axis": (0, 2)},
        tolerance_factor=10,
        row_number=2,
    ),
    Row(reduction.max, np.max, [arbitrary_numbers(MANY_ELEMENTS)], {"reduction_indices": (0,)}),
    Row(reduction.argmax, np.argmax, [arbitrary_numbers(MANY_ELEMENTS)], {"axis": 0}),
    Row(
        linalg.matmul,
        np.matmul,
        [arbitrary_numbers(257, 513), arbitrary_numbers(513, 129)],
        tolerance_factor=4,
    ),
    Row(movement.transpose, np.transpose, [arbitrary_numbers(1_025, 2_049)], {"perm": (1, 0)}),
    Row(
        indexing.gather,
        lambda x, i: x[i],
        [arbitrary_numbers(100_000, 7), integers(0, 99_999, 90_000)],
        {"axis": 0},
    ),
]
"""Rows whose inputs are so large that kernels need more than one pass, block or dispatch."""


def check_large(row: Row, backend: Backend) -> None:
    """Compare a row's values on a backend for inputs that take more than one pass, block or dispatch."""
    dtype = main_dtype(row, backend)
    check_values(row, dtype, row.draw_inputs(dtype))


def check_positions_out_of_range(backend: Backend) -> None:
    """Check that on a backend a position out of range is an error or reads zeros, but never another tensor's memory."""
    require_kernel(indexing.gather, backend)
    require_dtypes(["int32", main_number_dtype(backend)], backend)
    others = [asarray(np.full(1000, 7, main_number_dtype(backend))) for _ in range(3)]
    x = asarray(np.full(5, 3, main_number_dtype(backend)))
    try:
        y = indexing.gather(x, asarray(np.array([1, 5, 900, -900], "int32")), axis=0, batch_dims=0)
        values = y.numpy().tolist()
    except IndexError:
        return
    if values != [3, 0, 0, 0]:
        raise AssertionError(f"elements 1, 5, 900 and -900 of five are {values}, not 3, 0, 0, 0")
    del others
