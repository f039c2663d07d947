"""Smooth functions as polynomials on the pieces of an interval, which `coefficients.py` beside `src` computes."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

import plugrad
from plugrad.extend import DTypeError, float32, float64

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from plugrad import Tensor


@cache
def load_tables() -> dict[str, np.ndarray[Any, Any]]:
    """Return by name the polynomial coefficients, intervals and roots of all tabulated functions."""
    path = files("plugrad_numerics") / "coefficients.npz"
    with path.open("rb") as file, np.load(file) as arrays:
        return {name: arrays[name] for name in arrays.files}


def evaluate_table(table_name: str, x: Tensor) -> Tensor:
    """Return the values of a tabulated function at x, which is clipped to its interval; NaN stays NaN."""
    arrays = load_tables()
    start, pieces_per_unit = arrays[f"{table_name}.ends"]
    return evaluate_pieces(float(start), float(pieces_per_unit), arrays[table_name], x)


def evaluate_pieces(
    start: float, pieces_per_unit: float, coefficient_rows: np.ndarray[Any, Any], x: Tensor
) -> Tensor:
    """Return a piecewise polynomial at x, which is clipped to its interval; each piece has a row of coefficients."""
    return _evaluate_polynomial_rows(
        coefficient_rows, *_find_piece(start, pieces_per_unit, coefficient_rows.shape[0], x)
    )


def evaluate_first_matching(*cases: tuple[str, Tensor, Tensor]) -> Tensor:
    """For cases (table, condition, x), return elementwise the table of the first true condition at x, else the last.

    Only one polynomial is computed for each number, so this is faster than `evaluate_table` for each table.
    """
    arrays = load_tables()
    names = tuple(name for name, _, _ in cases)
    rows, firsts = _concatenate_tables(names)
    piece = t = None
    for first, (name, condition, x) in zip(firsts[::-1], cases[::-1], strict=True):
        start, pieces_per_unit = map(float, arrays[f"{name}.ends"])
        own = _find_piece(start, pieces_per_unit, arrays[name].shape[0], x)
        piece = own[0] + first if piece is None else plugrad.where(condition, own[0] + first, piece)
        t = own[1] if t is None else plugrad.where(condition, own[1], t)
    assert piece is not None
    assert t is not None
    return _evaluate_polynomial_rows(rows, piece, t)


@cache
def _concatenate_tables(table_names: tuple[str, ...]) -> tuple[np.ndarray[Any, Any], list[int]]:
    """Return several tables as one, padded with zeros to the highest degree, and the first row of each."""
    tables = [load_tables()[name] for name in table_names]
    width = max(table.shape[1] for table in tables)
    rows = [np.pad(table, ((0, 0), (0, width - table.shape[1]))) for table in tables]
    firsts = np.cumsum([0, *(len(table) for table in tables[:-1])])
    return np.concatenate(rows), firsts.tolist()


def _find_piece(
    start: float, pieces_per_unit: float, piece_count: int, x: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the index of the piece that contains x, and the position of x in it, from -1 to 1."""
    x = plugrad.clip(x, start, start + piece_count / pieces_per_unit)
    place = (x - start) * pieces_per_unit
    is_nan = plugrad.isnan(place)
    piece = plugrad.clip(plugrad.floor(plugrad.where(is_nan, 0.0, place)), 0, piece_count - 1)
    return piece, 2 * (place - piece) - 1


def _evaluate_polynomial_rows(
    coefficient_rows: np.ndarray[Any, Any], piece_index: Tensor, t: Tensor
) -> Tensor:
    """Return the values at t of the polynomials whose coefficients are the rows at `piece_index`."""
    positions = plugrad.stop_gradient(piece_index).astype("int32")
    found = None
    for column in coefficient_rows.T[::-1]:
        values = plugrad.asarray(column, dtype=t.dtype, device=t.device)
        coefficient = plugrad.take(values, positions)
        found = coefficient if found is None else found * t + coefficient
    assert found is not None
    return found


def find_distance_from_root(
    x: Tensor, table_name: str, root_indices: Tensor
) -> tuple[Tensor, Tensor]:
    """Return x minus the roots at some positions of a table, exact to more than x's precision, and these roots."""
    roots = load_tables()[f"{table_name}.roots"]
    high = roots[:, 0].astype(x.dtype.numpy).astype("float64")
    low = (roots[:, 0] - high) + roots[:, 1]
    root_indices = plugrad.stop_gradient(root_indices).astype("int32")
    high, low = (
        plugrad.take(plugrad.asarray(part, dtype=x.dtype, device=x.device), root_indices)
        for part in (high, low)
    )
    return (x - high) - low, high


def evaluate_polynomial(coefficients: Sequence[float], x: Tensor) -> Tensor:
    """Return the value of a polynomial at x by Horner's method; the coefficients begin with the constant one."""
    found = x * 0 + coefficients[-1]
    for c in reversed(coefficients[:-1]):
        found = found * x + c
    return found


def call_elementwise(
    op: str,
    function: Callable[..., Tensor],
    *xs: Any,
    refine: Callable[..., Tensor] | None = None,
) -> Tensor:
    """Apply a function to real tensors, in float64 if the device has it, and cast the result to their dtype.

    Float64 numbers take the value of `refine`, and the gradients of the function. Where `refine` gives no finite
    number, the value is that of the function, too.

    Raises:
        DTypeError: one holds complex numbers or strings.
    """
    tensors = as_floats(op, *xs)
    dtype = tensors[0].dtype
    wide = float64 if float64 in tensors[0].backend.dtypes() else float32
    found = function(*(x.astype(wide) for x in tensors)).astype(dtype)
    if refine is not None and dtype == float64:
        change = refine(*map(plugrad.stop_gradient, tensors)) - plugrad.stop_gradient(found)
        found = found + plugrad.where(plugrad.isfinite(change), change, 0)
    if len(tensors) > 1:
        return found
    return plugrad.where(plugrad.isnan(plugrad.stop_gradient(tensors[0])), plugrad.nan, found)


def as_floats(op: str, *xs: Any) -> list[Tensor]:
    """Return tensors of one floating dtype on one device; whole numbers become float32.

    Raises:
        DTypeError: one holds complex numbers or strings.
    """
    device = next((x.device for x in xs if isinstance(x, plugrad.Tensor)), None)
    tensors = [
        x if isinstance(x, plugrad.Tensor) else plugrad.asarray(x, device=device) for x in xs
    ]
    for x in tensors:
        if x.dtype.kind not in ("floating", "signed", "unsigned", "bool"):
            raise DTypeError(f"{op} does not take {x.dtype}; it takes real numbers")
    weak = [isinstance(x, int | float) for x in xs]
    strong = [t.dtype for t, is_weak in zip(tensors, weak, strict=True) if not is_weak]
    floats = [d for d in strong if d.kind == "floating"]
    dtype = plugrad.result_type(*floats) if floats else float32
    return [t.astype(dtype) for t in tensors]


def product_rounding_error(x: Tensor, factor: float, product: Tensor) -> Tensor:
    """Return the rounding error of a float64 product, ``x * factor - product`` exactly (Dekker 1971)."""
    split = 2.0**27 + 1
    x_high = x * split - (x * split - x)
    factor_high = factor * split - (factor * split - factor)
    x_low, factor_low = x - x_high, factor - factor_high
    error = x_high * factor_high - product
    error = error + x_high * factor_low + x_low * factor_high
    return error + x_low * factor_low
