"""Invariances of results: memory layout, cutting, repetition and thread count must not change them.

Each property takes a row of the kit's tables and a dtype, and returns what is wrong, or "". No reference is
needed, so inputs hold every special value, and sizes go around every width of vectors.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import cycle, product
from typing import TYPE_CHECKING, Any, Final

import numpy as np

import plugrad
from plugrad.errors import DTypeError, PlugradError, UnsupportedDtype
from plugrad.kernels import random
from plugrad.testing.checks import run_row
from plugrad.testing.edges import is_broadcasting
from plugrad.testing.rows import INTEGER_DTYPES, ROW_DTYPE, STRING_DTYPE, Array, Row
from plugrad.testing.tables import rows
from plugrad.types.bits import RELATIVE_TOLERANCE_OF_DTYPE
from plugrad.types.dtype import as_dtype
from plugrad.types.shapes import broadcast
from plugrad.types.specs import Shaped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from plugrad.tensor.tensor import Tensor

PIECE_SIZES: Final = (*range(1, 71), 255, 256, 257, 511, 513, 1025)
"""Below, at and above one and several vectors of each dtype and instruction set, and around 1 KB."""
ELEMENT_COUNT: Final = sum(PIECE_SIZES)
SPECIAL_VALUES: Final = {
    "f": [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 3.0, 4.0, -2.5, 100.0, -100.0, np.nan, np.inf, -np.inf],
    "i": [0, 1, 2, 3, 7],
}
ROUNDING_UNITS: Final = 4
"""The units in the last place by which two ways to the same result may differ."""


@dataclass(frozen=True)
class Property:
    """An invariance: a transformation that must not change results, and the conformance cases that test it."""

    find_violation: Callable[[Row, str], str]
    applies_to: Callable[[Row], bool]

    def cases(self) -> dict[str, list[Row]]:
        """Return the conformance cases to test, by family."""
        found: dict[str, list[Row]] = {}
        for row in distinct_cases():
            if self.applies_to(row):
                found.setdefault(row.kernel.family, []).append(row)
        return found


PROPERTIES: Final[dict[str, Property]] = {}


def register_property(
    applies_to: Callable[[Row], bool],
) -> Callable[..., Callable[[Row, str], str]]:
    """Return a decorator that registers a function as a property, given a filter of conformance cases."""

    def add(function: Callable[[Row, str], str]) -> Callable[[Row, str], str]:
        PROPERTIES[function.__name__] = Property(function, applies_to)
        return function

    return add


def is_elementwise(row: Row) -> bool:
    """Return whether a conformance case is of an elementwise kernel."""
    return row.kernel.is_elementwise


@cache
def distinct_cases() -> list[Row]:
    """Return the conformance cases that differ in attributes, and in shapes unless the kernel is elementwise."""
    found: dict[tuple[object, ...], Row] = {}
    for row in rows():
        if row.inputs and not row.is_edge and row.kernel is not random.multinomial:
            shapes = [None if x is None or is_elementwise(row) else x.shape for x in row.inputs]
            found.setdefault((row.kernel.name, repr(row.attrs), *shapes), row)
    return list(found.values())


# --- inputs --------------------------------------------------------------------------------------


@cache
def special_values(dtype: str) -> Array:
    """Return the special values of a dtype."""
    kind = np.dtype(dtype).kind
    with np.errstate(all="ignore"):
        if kind == "b":
            return np.array([False, True])
        if kind in "iu":
            span = np.iinfo(dtype)
            least = [span.min, span.min + 1, -1, -3] if kind == "i" else []
            return np.array([*SPECIAL_VALUES["i"], *least, span.max - 1, span.max]).astype(dtype)
        limits = np.finfo(dtype)
        large = [limits.max, limits.min, limits.max / 3, limits.tiny, -limits.tiny]
        if kind == "c":
            parts = np.array([0.0, -0.0, 1.5, np.nan, np.inf, limits.max, limits.tiny])
            pairs = np.array(list(product(parts, parts)))
            return (pairs[:, 0] + 0j + 1j * pairs[:, 1]).astype(dtype)
        return np.array([*SPECIAL_VALUES["f"], *large, limits.smallest_subnormal * 3], dtype)


def elementwise_operands(row: Row, dtype: str, size: int) -> list[Array]:
    """Return the inputs of an elementwise case: all combinations of special values among random ones."""
    count = len(row.inputs)
    arrays = [x for x in row.with_shapes(*[(size,)] * count).draw_inputs(dtype) if x is not None]
    special = (
        special_values(dtype) if dtype != "string" else np.array(["", "a", "å\0"], STRING_DTYPE)
    )
    own = [i for i, x in enumerate(row.inputs) if x is not None and x.dtype == ROW_DTYPE]
    grids = list(np.meshgrid(*[np.arange(len(special))] * len(own))) if len(own) < 3 else []
    rng = np.random.default_rng(len(own))
    for i in own:
        places = (
            grids.pop().reshape(-1)[:size] if grids else rng.integers(0, len(special), size // 2)
        )
        arrays[i][: len(places)] = special[places]
    order = rng.permutation(size)
    return [x[order] for x in arrays]


# --- comparison ----------------------------------------------------------------------------------


def describe_difference(
    actual: Array, expected: Array, *, within: float = ROUNDING_UNITS, loose: float = 0
) -> str:
    """Return how arrays differ, or "": in NaN, in signs of zeros, or by more than some units in the last place.

    Args:
        actual: one array.
        expected: the other.
        within: units in the last place, 0 for the same bits except those of NaN.
        loose: a tolerance relative to the largest number, which takes the place of `within`.
    """
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return f"{actual.dtype}{actual.shape} instead of {expected.dtype}{expected.shape}"
    if actual.dtype.kind == "c":
        wrong = complex_mismatch(actual, expected, within, loose)
    elif actual.dtype.kind == "b":
        wrong = actual.view(np.uint8) != expected.view(np.uint8)
    elif actual.dtype.kind != "f":
        wrong = actual != expected
    else:
        if actual.tobytes() == expected.tobytes():
            return ""
        nans = np.isnan(expected)
        with np.errstate(all="ignore"):
            if loose:
                finite = np.isfinite(expected)
                allowed = loose * max(1.0, float(np.abs(expected[finite]).max(initial=1)))
                wrong = np.where(
                    finite, ~(np.abs(actual - expected) <= allowed), actual != expected
                )
            else:
                wrong = ulp_distance(actual, expected) > within
                wrong |= (
                    (actual == 0) & (expected == 0) & (np.signbit(actual) != np.signbit(expected))
                )
        wrong = np.where(nans, ~np.isnan(actual), wrong | np.isnan(actual) & ~nans)
    if not wrong.any():
        return ""
    where = tuple(int(n) for n in np.argwhere(wrong)[0])
    return f"{wrong.sum()} of {wrong.size} differ, at {where}: {actual[where]} is not {expected[where]}"


def complex_mismatch(actual: Array, expected: Array, within: float, loose: float) -> Array:
    """Return where complex numbers differ by more than some units in the last place of their absolute values."""
    with np.errstate(all="ignore"):
        size = np.abs(expected)
        unit = np.finfo(expected.dtype).eps * within * size + np.finfo(expected.dtype).tiny
        if loose:
            unit = loose * max(1.0, float(size[np.isfinite(size)].max(initial=1)))
        close = np.abs(actual - expected) <= unit
    both = [(part(actual), part(expected)) for part in (np.real, np.imag)]
    is_infinite = np.isinf(actual) & np.isinf(expected)
    same = [(x == y) | (np.isnan(x) & np.isnan(y)) for x, y in both]
    return ~(close | is_infinite | (same[0] & same[1]))


def ulp_distance(a: Array, b: Array) -> Array:
    """Return the number of floats between two numbers; both zeros count as one."""
    places: list[Array] = []
    for x in (a, b):
        bits = np.ascontiguousarray(x).view(f"i{x.itemsize}")
        places.append(np.where(bits < 0, np.iinfo(bits.dtype).min - bits, bits))
    first, second = places
    between = np.where(first > second, first - second, second - first)
    return between.view(
        f"u{a.itemsize}"
    )  # from one end to the other, it is more than signed numbers hold


def run_case(row: Row, arrays: Sequence[Array | Tensor | None], dtype: str) -> list[Array]:
    """Return the outputs of a conformance case, as arrays."""
    tensors = [plugrad.asarray(x) if isinstance(x, np.ndarray) else x for x in arrays]
    return [x.numpy() for x in run_row(row, tensors, dtype)]


def describe_first_difference(
    found: Sequence[Array], wanted: Sequence[Array], what: str, **options: float
) -> str:
    """Return the difference of the first of several outputs that differs."""
    for actual, expected in zip(found, wanted, strict=True):
        if wrong := describe_difference(actual, expected, **options):
            return f"{what}: {wrong}"
    return ""


# --- the properties ------------------------------------------------------------------------------


BROADCAST_LENGTHS: Final = (5, 16, 33, 70)
NUMBERS: Final = (-0.0, 0.5, -0.5, 1, 2, 3, 4, -1, -2, np.nan)
"""Scalars for which implementations have ways of their own, as for exponents."""


def iter_broadcast_shapes(
    count: int, columns: int, lengths: Iterator[int]
) -> Iterator[list[tuple[int, ...]]]:
    """Yield shapes to broadcast: columns with rows, and rows or scalars with matrices."""
    kinds = "crmn"
    for chosen in product(kinds, repeat=count):
        # Of three inputs, those that are alike for the first two are tried with the others only.
        if len(set(chosen)) == 1 or (count > 2 and "n" in chosen[:-1]):
            continue
        n = next(lengths)
        known = {"c": (columns, 1), "r": (1, n), "m": (columns, n), "n": ()}
        yield [known[kind] for kind in chosen]
    long = (2, *[1] * 15, 2, *[1] * 15, 3)
    yield [long if i % 2 else (1, 2, *[1] * 31) for i in range(count)]
    yield [(1,) * 33 if i % 2 else long for i in range(count)]


@register_property(lambda row: is_elementwise(row) and len(row.inputs) > 1 and is_broadcasting(row))
def broadcast_equals_materialized(row: Row, dtype: str) -> str:
    """Broadcast inputs give the same results as copies of the full shape."""
    count = len(row.inputs)
    pool = elementwise_operands(row, dtype, ELEMENT_COUNT)
    special = special_values(dtype) if dtype != "string" else pool[-1][:5]
    own = [x is not None and x.dtype == ROW_DTYPE for x in row.inputs]
    for shapes in iter_broadcast_shapes(count, len(special), cycle(BROADCAST_LENGTHS)):
        arrays = [
            np.resize(special if is_own and shape == (len(special), 1) else x, shape)
            for x, shape, is_own in zip(pool, shapes, own, strict=True)
        ]
        if wrong := compare_broadcast(row, dtype, arrays):
            return wrong
    if count == 2 and np.dtype(dtype).kind in "fic":
        for number, place in product(NUMBERS, range(2)):
            if np.dtype(dtype).kind == "i" and int(number if number == number else 0) != number:
                continue
            arrays = [pool[0], np.array(number, dtype)]
            if wrong := compare_broadcast(row, dtype, arrays if place else arrays[::-1]):
                return wrong
    return ""


def compare_broadcast(row: Row, dtype: str, arrays: Sequence[Array]) -> str:
    """Return how the results of broadcast inputs differ from those of copies of the full shape."""
    shape = broadcast(*(x.shape for x in arrays))
    full = [np.array(np.broadcast_to(x, shape)) for x in arrays]
    shapes = " and ".join(str(x.shape) for x in arrays)
    return describe_first_difference(
        run_case(row, arrays, dtype), run_case(row, full, dtype), f"of {shapes}"
    )


@register_property(is_elementwise)
def an_array_equals_its_pieces(row: Row, dtype: str) -> str:
    """A large array gives the same bits as its pieces of 1 to 1025 elements."""
    arrays = elementwise_operands(row, dtype, ELEMENT_COUNT)
    (whole,) = run_case(row, arrays, dtype)
    starts = np.cumsum([0, *PIECE_SIZES])
    pieces = [
        run_row(row, [plugrad.asarray(x[start : start + size]) for x in arrays], dtype)[0]
        for start, size in zip(starts, PIECE_SIZES, strict=False)
    ]
    return describe_difference(whole, plugrad.concat(pieces).numpy(), within=0)


def transposed_view(x: Array) -> Tensor:
    """Return the same values as a transposed view."""
    order = tuple(reversed(range(x.ndim)))
    return plugrad.permute_dims(plugrad.asarray(x.transpose(order)), order)


def reversed_view(x: Array) -> Tensor:
    """Return the same values as a reversed view."""
    return plugrad.flip(plugrad.asarray(np.flip(x)))


def strided_slice(x: Array) -> Tensor:
    """Return the same values as every second element from the middle of a larger tensor."""
    larger = np.resize(x, [2 * n + 3 for n in x.shape])
    middle = tuple(slice(1, 1 + 2 * n, 2) for n in x.shape)
    larger[middle] = x
    return plugrad.asarray(larger)[middle]


def unaligned_slice(x: Array) -> Tensor:
    """Return the same values as the end of a tensor with one more element."""
    return plugrad.reshape(
        plugrad.asarray(np.concatenate([x.reshape(-1)[:1], x.reshape(-1)]))[1:], x.shape
    )


VIEWS: Final = (transposed_view, reversed_view, strided_slice, unaligned_slice)


@register_property(lambda row: True)
def views_equal_contiguous(row: Row, dtype: str) -> str:
    """Views give the same results as contiguous inputs."""
    if row.kernel.is_elementwise:
        arrays: list[Array | None] = [
            x.reshape(5, 71) for x in elementwise_operands(row, dtype, 355)
        ]
    else:
        arrays = draw_inputs(row, dtype)
    wanted = run_case(row, arrays, dtype)
    for view in VIEWS:
        given = [
            view(x) if x is not None and x.ndim and x.size and x.dtype != STRING_DTYPE else x
            for x in arrays
        ]
        loose = {} if row.kernel.is_elementwise else tolerance(row, wanted)
        if wrong := describe_first_difference(
            run_case(row, given, dtype), wanted, view.__name__, **loose
        ):
            return wrong
    return ""


def tolerance(row: Row, found: Sequence[Array]) -> dict[str, float]:
    """Return the allowed error of sums in another order."""
    return {
        "loose": 4
        * row.tolerance_factor
        * max(RELATIVE_TOLERANCE_OF_DTYPE.get(str(x.dtype), 0) for x in found)
    }


REPEAT_COUNTS: Final = (2, 9, 33)
ROW_LENGTHS: Final = (None, 1, 9, 17, 33, 70)


@register_property(lambda row: not is_elementwise(row) and row.canonicalize is None)
def a_repeated_batch_equals_one(row: Row, dtype: str) -> str:
    """Inputs repeated along the first axis give repeated results, where the reference does too."""
    if dtype == "string":
        return ""
    choices = batch_inputs(row)
    single = len(row.inputs) == 1 and row.inputs[0] is not None and len(row.inputs[0].shape) > 1
    for length, chosen in product(ROW_LENGTHS if single else (None,), choices):
        case = row if length is None else with_last_axis_size(row, length)
        try:
            arrays = draw_inputs(case, dtype)
            infer_specs(case, arrays, dtype)
        except (PlugradError, ValueError):
            continue  # the attributes, or the reference's arguments, are for another length
        one = run_case(case, arrays, dtype)
        for times in REPEAT_COUNTS if length is None else REPEAT_COUNTS[-1:]:
            given = [
                repeat_first_axis(x, times) if i in chosen else x for i, x in enumerate(arrays)
            ]
            wanted = [repeat_first_axis(x, times) for x in one]
            what = f"length {length}, {times} times"
            found = run_case(case, given, dtype)
            if wrong := describe_first_difference(found, wanted, what, **tolerance(row, wanted)):
                return wrong
    return ""


def with_last_axis_size(row: Row, length: int) -> Row:
    """Return a conformance case of one input with another size of the last axis."""
    (x,) = row.inputs
    assert x is not None
    return row.with_shapes((*x.shape[:-1], length))


def infer_specs(row: Row, arrays: Sequence[Array | None], dtype: str) -> Any:
    """Return the specs that the contract promises for arrays."""
    specs = [x if x is None else Shaped(x.shape, as_dtype(x.dtype)) for x in arrays]
    return row.kernel.infer(*specs, **row.attributes(dtype))


_cached_inputs: dict[tuple[object, ...], list[Array | None]] = {}


def draw_inputs(row: Row, dtype: str) -> list[Array | None]:
    """Return the inputs of a conformance case as arrays, never as NumPy scalars; all machines get the same ones."""
    key = str(row), dtype, *[x and x.shape for x in row.inputs]
    if key not in _cached_inputs:
        _cached_inputs[key] = [x if x is None else np.asarray(x) for x in row.draw_inputs(dtype)]
    return list(_cached_inputs[key])


def repeat_first_axis(x: Array | None, times: int) -> Any:
    """Return an array repeated along the first axis."""
    return None if x is None else np.concatenate([x] * times)


_cached_batch_inputs: dict[str, list[tuple[int, ...]]] = {}


def batch_inputs(row: Row) -> list[tuple[int, ...]]:
    """Return the sets of inputs whose first axis is a batch axis of the reference."""
    if str(row) not in _cached_batch_inputs:
        dtype = row.tested_dtypes[0]
        arrays = draw_inputs(row, dtype)
        own = [i for i, x in enumerate(arrays) if x is not None and x.ndim]
        sets = {tuple(own), *[(i,) for i in own]} if len(own) < 6 else set[tuple[int, ...]]()
        _cached_batch_inputs[str(row)] = [
            chosen for chosen in sorted(sets) if is_batch_axis(row, arrays, chosen)
        ]
    return _cached_batch_inputs[str(row)]


def is_batch_axis(row: Row, arrays: Sequence[Array | None], chosen: tuple[int, ...]) -> bool:
    """Return whether the reference gives repeated results for inputs that are repeated along the first axis."""
    given = [repeat_first_axis(x, 2) if i in chosen else x for i, x in enumerate(arrays)]
    try:
        infer_specs(row, given, row.tested_dtypes[0])
        one, two = row.expected_outputs(arrays), row.expected_outputs(given)
    except (ValueError, IndexError, TypeError, np.linalg.LinAlgError, PlugradError):
        return False
    return all(
        x.ndim
        and y.shape == (2 * len(x), *x.shape[1:])
        and not describe_difference(y, repeat_first_axis(x, 2), loose=1e-9)
        for x, y in zip(one, two, strict=True)
    )


@register_property(lambda row: any(x is not None and x.dtype in INTEGER_DTYPES for x in row.inputs))
def positions_equal_int64_positions(row: Row, dtype: str) -> str:
    """Indices of each accepted dtype give the same results as int32 indices."""
    places = [i for i, x in enumerate(row.inputs) if x is not None and x.dtype in INTEGER_DTYPES]
    if dtype != row.tested_dtypes[0]:
        return ""
    arrays = draw_inputs(row, dtype)
    wanted = run_case(row, arrays, dtype)
    for other in INTEGER_DTYPES:
        given = list(arrays)
        for i in places:
            x = arrays[i]
            if x is not None and (other[0] != "u" or x.min(initial=0) >= 0):
                given[i] = x.astype(other)
        try:
            found = run_case(row, given, dtype)
        except (DTypeError, UnsupportedDtype):
            continue
        found = [x.astype(y.dtype) for x, y in zip(found, wanted, strict=True)]
        if wrong := describe_first_difference(found, wanted, other, **tolerance(row, wanted)):
            return wrong
    return ""


@register_property(
    lambda row: "bool" in row.tested_dtypes or any(x and x.dtype == "bool" for x in row.inputs)
)
def bytes_of_true_do_not_matter(row: Row, dtype: str) -> str:
    """Bools stored as bytes other than 0 and 1 give the same results as True."""
    arrays = draw_inputs(row, dtype)
    odd = [with_odd_bytes(x) if x is not None and x.dtype == bool else x for x in arrays]
    return describe_first_difference(
        run_case(row, odd, dtype), run_case(row, arrays, dtype), "other bytes"
    )


def with_odd_bytes(x: Array) -> Array:
    """Return bools in which True is stored as bytes other than 1."""
    return np.asarray(x.view(np.uint8) * np.resize(np.uint8([2, 255, 128, 3]), x.shape)).view(bool)


THREAD_COUNTS: Final = (1, 2, 7)


class ThreadSetting:
    """The setting for the number of threads; `set_count` is None if the backend has no threads."""

    set_count: Callable[[int], None] | None = None


threads: Final = ThreadSetting()


@register_property(lambda row: True)
def threads_equal_one(row: Row, dtype: str) -> str:
    """1, 2 and 7 threads give the same bits."""
    if row.kernel.is_elementwise:
        arrays: list[Array | None] = [*elementwise_operands(row, dtype, ELEMENT_COUNT)]
    else:
        chosen = max(batch_inputs(row), key=len, default=())
        arrays = [
            repeat_first_axis(x, 9) if i in chosen else x
            for i, x in enumerate(draw_inputs(row, dtype))
        ]
    wanted: list[Array] = []
    assert threads.set_count is not None
    for count in THREAD_COUNTS:
        threads.set_count(count)
        found = run_case(row, arrays, dtype)
        wanted = wanted or found
        if wrong := describe_first_difference(found, wanted, f"{count} threads", within=0):
            return wrong
    return ""
