"""The tests of the conformance kit: ``from plugrad.testing.suite import *`` in a test module runs them.

What a backend claims must work: the kernels in its table, on the dtypes that it stores. What it
does not claim is skipped, with the reason. Expected values are NumPy's, or recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

import pytest

from plugrad.errors import UnsupportedDtype
from plugrad.tensor.backend import Backend
from plugrad.testing import devices, edges, lifecycle
from plugrad.testing.batched import check_batched
from plugrad.testing.checks import (
    check_in_float32,
    check_row_gradient,
    check_values,
    is_differentiable,
    main_dtype,
    require_dtypes,
    require_kernel,
)
from plugrad.testing.ops import OP_CASES, OpCase, check_op
from plugrad.testing.tables import rows
from plugrad.testing.traced import TRACED_PROGRAMS, check_program, check_traced

if TYPE_CHECKING:
    from plugrad.testing.rows import Row

BackendCheck = Callable[[Backend, str], None]
"""The type of a check: a function of a backend and of its device spec, such as ``"webgpu:1"``."""

CORE_FAMILIES = frozenset(
    (
        "activation",
        "binary",
        "creation",
        "indexing",
        "linalg",
        "movement",
        "normalization",
        "reduction",
        "unary",
    )
)
"""The families that most programs need."""

ordinary_rows: Final = [row for row in rows() if not row.is_edge]
"""The test rows that are no edge cases."""
core_rows: Final = [row for row in ordinary_rows if row.kernel.family in CORE_FAMILIES]
rows_beyond_core: Final = [row for row in ordinary_rows if row.kernel.family not in CORE_FAMILIES]
edge_rows: Final = [row for row in rows() if row.is_edge]


def parametrize(
    argument: str, values: Iterable[Any], name_of: Callable[[Any], str]
) -> pytest.MarkDecorator:
    """Return a decorator that runs a test for each value of an argument; the value's name is the id of the test."""
    return pytest.mark.parametrize(argument, [pytest.param(x, id=name_of(x)) for x in values])


def parametrize_dtypes(rows: list[Row]) -> pytest.MarkDecorator:
    """Return a decorator that runs a test for each row and each of its dtypes."""
    cases = [
        pytest.param(row, dtype, id=f"{row}-{dtype}") for row in rows for dtype in row.tested_dtypes
    ]
    return pytest.mark.parametrize(("row", "dtype"), cases)


def parametrize_rows(rows: list[Row]) -> pytest.MarkDecorator:
    """Return a decorator that runs a test for each row."""
    return parametrize("row", rows, str)


def check_row(row: Row, dtype: str, backend: Backend) -> None:
    """Compare a row with NumPy on a backend; a kernel may refuse a dtype that is not its most important one."""
    require_kernel(row.kernel, backend)
    require_dtypes(row.required_dtypes(dtype), backend)
    try:
        check_values(row, dtype, row.draw_inputs(dtype))
    except UnsupportedDtype as refusal:
        if dtype == main_dtype(row, backend):
            raise
        pytest.skip(str(refusal))


@pytest.mark.plugrad_level("lifecycle")
@parametrize("check", lifecycle.LIFECYCLE_CHECKS, lambda check: check.__name__)
def test_lifecycle(check: BackendCheck, opened_backend: Backend, plugrad_backend: str) -> None:
    """Check one promise about opening, storing, memory or closing."""
    check(opened_backend, plugrad_backend)


@pytest.mark.plugrad_level("lifecycle")
@parametrize("dtype", lifecycle.DTYPE_NAMES, str)
def test_storing(dtype: str, opened_backend: Backend) -> None:
    """Store arrays of a dtype, and read back the same bits."""
    require_dtypes([dtype], opened_backend)
    lifecycle.check_storing(dtype, opened_backend)


@pytest.mark.plugrad_level("core")
@parametrize_dtypes(core_rows)
def test_core(row: Row, dtype: str, opened_backend: Backend) -> None:
    """Compare a kernel of the most important families with NumPy."""
    check_row(row, dtype, opened_backend)


@pytest.mark.plugrad_level("gradients")
@parametrize_rows([row for row in ordinary_rows if is_differentiable(row)])
def test_gradients(row: Row, opened_backend: Backend) -> None:
    """Compare the gradient of a kernel with finite differences."""
    check_row_gradient(row, opened_backend)


@pytest.mark.plugrad_level("full")
@parametrize_dtypes(rows_beyond_core)
def test_full(row: Row, dtype: str, opened_backend: Backend) -> None:
    """Compare a kernel of the remaining families with NumPy (level "full")."""
    check_row(row, dtype, opened_backend)


@pytest.mark.plugrad_level("full")
@parametrize("op", OP_CASES, str)
def test_ops(op: OpCase, opened_backend: Backend) -> None:
    """Compare an op, or a short program, with NumPy."""
    check_op(op, opened_backend)


@pytest.mark.plugrad_level("edges")
@parametrize_dtypes(edge_rows)
def test_edges(row: Row, dtype: str, opened_backend: Backend) -> None:
    """Compare a kernel with NumPy in an edge case."""
    check_row(row, dtype, opened_backend)


@pytest.mark.plugrad_level("edges")
@parametrize_rows(edges.elementwise_rows)
def test_shapes(row: Row, opened_backend: Backend) -> None:
    """Compare an elementwise kernel with NumPy for every rank, and for empty inputs."""
    edges.check_shapes(row, opened_backend)


@pytest.mark.plugrad_level("edges")
@parametrize_rows(edges.broadcasting_rows)
def test_broadcasting(row: Row, opened_backend: Backend) -> None:
    """Compare a kernel with NumPy for inputs that broadcast."""
    edges.check_broadcasting(row, opened_backend)


@pytest.mark.plugrad_level("edges")
@parametrize_rows(edges.broadcasting_rows)
def test_refusals(row: Row, opened_backend: Backend) -> None:
    """Check that a kernel refuses shapes that do not broadcast."""
    edges.check_incompatible_shapes_raise(row, opened_backend)


@pytest.mark.plugrad_level("edges")
def test_positions_out_of_range(opened_backend: Backend) -> None:
    """Check that positions out of range never read the memory of another tensor."""
    edges.check_positions_out_of_range(opened_backend)


@pytest.mark.plugrad_level("edges")
@parametrize_rows(edges.special_value_rows)
def test_special_values(row: Row, opened_backend: Backend) -> None:
    """Compare a kernel with NumPy for NaN, infinities and zeros."""
    edges.check_special_values(row, opened_backend)


@pytest.mark.plugrad_level("edges")
@parametrize_rows(edges.rows_with_views)
def test_views(row: Row, opened_backend: Backend) -> None:
    """Compare a kernel with NumPy for transposed, reversed and strided inputs."""
    edges.check_views(row, opened_backend)


@pytest.mark.plugrad_level("edges")
@parametrize_rows(edges.LARGE_ROWS)
def test_large(row: Row, opened_backend: Backend) -> None:
    """Compare a kernel with NumPy for many elements."""
    edges.check_large(row, opened_backend)


@pytest.mark.plugrad_level("reopening")
@parametrize("check", devices.REOPENING_CHECKS, lambda check: check.__name__)
def test_reopening(check: BackendCheck, opened_backend: Backend, plugrad_backend: str) -> None:
    """Check one promise about a backend that is closed and opened again."""
    check(opened_backend, plugrad_backend)


@pytest.mark.plugrad_level("devices")
@parametrize("check", devices.DEVICE_CHECKS, lambda check: check.__name__)
def test_devices(check: BackendCheck, opened_backend: Backend, plugrad_backend: str) -> None:
    """Check one promise about two devices of a backend."""
    check(opened_backend, plugrad_backend)


@pytest.mark.plugrad_level("traced")
@parametrize_rows(list(rows()))
def test_traced(row: Row, opened_backend: Backend) -> None:
    """Compare a kernel and its gradients, traced and untraced."""
    require_kernel(row.kernel, opened_backend)
    require_dtypes(row.required_dtypes(main_dtype(row, opened_backend)), opened_backend)
    check_traced(row, opened_backend)


@pytest.mark.plugrad_level("traced")
@parametrize("name", TRACED_PROGRAMS, str)
def test_traced_programs(name: str, opened_backend: Backend) -> None:
    """Compare the program called `name`, traced and untraced."""
    require_dtypes(["float32", "int32", "bool"], opened_backend)
    check_program(name)


@pytest.mark.plugrad_level("batched")
@parametrize_rows(list(rows()))
def test_batched(row: Row, opened_backend: Backend) -> None:
    """Compare a batched kernel and its gradient with a loop over examples."""
    require_kernel(row.kernel, opened_backend)
    require_dtypes(row.required_dtypes(main_dtype(row, opened_backend)), opened_backend)
    check_batched(row, opened_backend)


@pytest.mark.plugrad_level("float32")
@parametrize_rows(list(rows()))
def test_float32(row: Row, opened_backend: Backend) -> None:
    """Check a kernel and its gradient in a program of float32."""
    check_in_float32(row, opened_backend)
