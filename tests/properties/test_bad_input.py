"""Ops and kernels accept any argument value or raise an error of plugrad.

What is wrong is a `PlugradError`; a raw error of NumPy or Python is a defect, and so is a thing of no
sensible kind that is taken in silence. MemoryError is NumPy's word for too much, and will do.
"""

from collections import defaultdict
from functools import reduce

import numpy as np
import pytest

import plugrad
from consistency.coverage import core_kernels
from plugrad.errors import PlugradError
from plugrad.extend import KERNELS
from plugrad.testing.checks import as_tensors
from plugrad.testing.tables import rows
from plugrad.types.dtype import DTYPES
from properties.calls import CALLS, EXPLICIT_CALLS, calls_from_cases, public_ops

OPS = public_ops()


class MeaninglessObject:
    """An object that is not valid as any argument."""


SENSELESS_VALUES = [MeaninglessObject(), {"a": 1}, {1}, [MeaninglessObject()], object]
TEXTS = ["text", "", b"bytes", b"\xff"]
NUMBERS = [
    0,
    1,
    -1,
    2,
    -(2**40),
    2**63,
    2**70,  # 2**31 would be taken, and take long
    10**400,
    1.5,
    2.0,
    float("nan"),
    float("inf"),
]
OTHER_VALUES = [
    None,
    True,
    False,
    -float("inf"),
    1j,
    np.float32(1.5),
    np.int64(1),
    np.array(1),
    np.ones(2),
    np.array([1, 2]),
    Ellipsis,
    slice(0, 1),
    len,
    "float32",
    "float33",
    "nope",
]
LISTS = [
    [],
    (),
    [None],
    ["a"],
    [1.5],
    [[1]],
    [[]],
    [[1, 2]],
    [[1, 2], [3]],
    (1,) * 7,
    range(2),
    (-1, -1),
    (0, 0),
    (0,),
    (1,),
    (-1,),
    (0, 1),
    (1, 2, 3),
    (2**70,),
    (float("nan"),) * 2,
]
VALUES_THAT_ARE_NO_TENSORS = [
    np.array([None, 1], object),
    np.array(["2020-01-01"], "datetime64[D]"),
    np.zeros(2, "i4,f4"),
    np.ones(2, np.longdouble),
    [1, "a"],
    [[1.0], [1.0, 2.0]],
    reduce(lambda inner, _: [inner], range(70), 1),
]


@pytest.fixture(autouse=True, scope="module")
def on_cpu():
    """Run the test on the cpu; the other backends share its ops and contracts."""
    with plugrad.use("cpu"), np.errstate(all="ignore"):
        yield


def as_input(value):
    """Return arrays as tensors, also those in a list, and other values unchanged."""
    if isinstance(value, list) and value and isinstance(value[0], np.ndarray):
        return [plugrad.asarray(x) for x in value]
    return plugrad.asarray(value) if isinstance(value, np.ndarray) else value


def iter_wrong_tensors(right):
    """Yield tensors of each dtype, of many shapes, and with values that are no index or size."""
    is_text = right.dtype.kind == "T"
    for dtype in DTYPES:
        filling = "a" if dtype == "string" else 1
        yield plugrad.asarray(np.full(right.shape, filling, dtype.numpy))
    shapes = [(size,) * rank for rank in range(7) for size in (0, 1, 2)]
    for axis, size in enumerate(right.shape):
        shapes += [(*right.shape[:axis], n, *right.shape[axis + 1 :]) for n in (0, size + 1)]
    for shape in shapes:
        yield plugrad.asarray(np.full(shape, "a" if is_text else 1, right.dtype))
    extremes = {"i": (-1, -100, 100), "f": (np.nan, np.inf, -1e30), "c": (np.nan,)}
    for value in extremes.get(right.dtype.kind, ()):
        yield plugrad.asarray(np.full(right.shape, value, right.dtype))


def iter_wrong_values(right):
    """Yield wrong values to pass in place of an argument."""
    if isinstance(right, np.ndarray):
        yield from [
            *iter_wrong_tensors(right),
            *TEXTS,
            *VALUES_THAT_ARE_NO_TENSORS,
            *NUMBERS,
            *OTHER_VALUES,
            *LISTS,
        ]
        return
    if isinstance(right, list) and right and isinstance(right[0], np.ndarray):
        yield from ([as_input(right[0]), x] for x in iter_wrong_tensors(right[0]))
    yield from [*TEXTS, *NUMBERS, *OTHER_VALUES, *LISTS]


def raised_error(function, *args, **kwargs):
    """Return the error other than plugrad's that a call raises, or None."""
    try:
        function(*args, **kwargs)
    except (PlugradError, MemoryError):
        return None
    except Exception as error:
        return error
    return None


def replace_argument(call, place, value):
    """Return the arguments of a call with one of them replaced."""
    args, kwargs = call
    if isinstance(place, str):
        return args, {**kwargs, place: value}
    return [*args[:place], value, *args[place + 1 :]], kwargs


def with_tensors(call):
    args, kwargs = call
    return [as_input(x) for x in args], {name: as_input(x) for name, x in kwargs.items()}


def iter_arguments(call):
    """Yield the position or name of each argument of a call, and its value."""
    args, kwargs = call
    yield from enumerate(args)
    yield from kwargs.items()


def test_every_op_has_a_call():
    missing = sorted(OPS.keys() - CALLS.keys())
    assert not missing, (
        f"no case in the tables of families has every argument of {missing}: write a Row with "
        "op=..., or a case in tests/families, or else a call in tests/properties/calls.py"
    )
    assert OPS.keys() >= CALLS.keys()


def test_hand_written_calls_cover_ops_missing_in_the_tables():
    known = sorted(EXPLICIT_CALLS.keys() & calls_from_cases().keys())
    assert not known, f"take {known} out of WRITTEN in tests/properties/calls.py"


@pytest.mark.parametrize("name", CALLS)
def test_valid_calls_of_the_table_work(name):
    args, kwargs = CALLS[name]
    OPS[name](*args, **kwargs)
    args, kwargs = with_tensors(CALLS[name])
    OPS[name](*args, **kwargs)


def accepts_function(name, place, right):
    """Return whether an argument may be a function, such as a seed."""
    return callable(right) or place == "seed" or name == "random.seed"


@pytest.mark.parametrize("name", CALLS)
def test_no_raw_error_leaves_an_op(name):
    raw = []
    call = with_tensors(CALLS[name])
    for place, right in iter_arguments(CALLS[name]):
        for value in iter_wrong_values(right):
            if callable(value) and accepts_function(name, place, right):
                continue  # what a function of the user raises is the user's
            args, kwargs = replace_argument(call, place, value)
            error = raised_error(OPS[name], *args, **kwargs)
            if error is not None:
                raw.append(f"{place}={value!r:.60}: {error!r}")
    assert not raw, "\n".join(raw)


@pytest.mark.parametrize("name", CALLS)
def test_every_argument_rejects_invalid_values(name):
    call = with_tensors(CALLS[name])
    taken = []
    for place, right in iter_arguments(CALLS[name]):
        for value in SENSELESS_VALUES:
            if callable(value) and accepts_function(name, place, right):
                continue
            args, kwargs = replace_argument(call, place, value)
            try:
                OPS[name](*args, **kwargs)
            except PlugradError:
                continue
            taken.append(f"{place}={value!r}")
    assert not taken


def conformance_cases_by_kernel():
    """Return conformance cases by kernel, one for each choice of present inputs."""
    found = defaultdict(dict)
    for row in rows():
        if not row.is_edge:
            present = tuple(x is not None for x in row.inputs)
            found[row.kernel.name].setdefault(present, row)
    return {name: list(some.values()) for name, some in sorted(found.items())}


KERNEL_ROWS = conformance_cases_by_kernel()


def run_by_name(kernel, inputs, attrs):
    if kernel.is_variadic:
        return plugrad.run_kernel(kernel.name, inputs, attrs)
    named = dict(zip(kernel.inputs, inputs[: kernel.input_count], strict=False))
    if kernel.takes_list:
        named[kernel.inputs[-1]] = inputs[kernel.input_count :]
    return plugrad.run_kernel(kernel.name, named, attrs)


def test_every_contract_is_given_bad_input():
    missing = sorted(set(core_kernels()) - KERNEL_ROWS.keys())
    assert not missing, f"write a Row for {missing} in a table of core/src/plugrad/testing/tables"


@pytest.mark.parametrize("name", KERNEL_ROWS)
def test_no_raw_error_leaves_a_kernel(name):
    kernel, raw = KERNELS[name], []
    for row in KERNEL_ROWS[name]:
        dtype = row.tested_dtypes[0]
        inputs, attrs = (
            as_tensors(row.draw_inputs(dtype)),
            kernel.fill_defaults(row.attributes(dtype)),
        )
        run_by_name(kernel, inputs, attrs)
        for attr, right in attrs.items():
            shorter_and_longer = [right[:-1], right + right[-1:]] if type(right) is tuple else []
            for value in [
                *SENSELESS_VALUES,
                *TEXTS,
                *NUMBERS,
                *OTHER_VALUES,
                *LISTS,
                *shorter_and_longer,
            ]:
                error = raised_error(run_by_name, kernel, inputs, {**attrs, attr: value})
                raw += [] if error is None else [f"{row} {attr}={value!r:.60}: {error!r}"]
        for i, right in enumerate(inputs):
            if right is None:
                continue
            for value in [None, [], [None], *iter_wrong_tensors(right.numpy())]:
                error = raised_error(
                    run_by_name, kernel, [*inputs[:i], value, *inputs[i + 1 :]], attrs
                )
                raw += [] if error is None else [f"{row} input {i}={value!r:.60}: {error!r}"]
    assert not raw, "\n".join(raw)


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (300, "int8"),
        ([300], "int8"),
        (np.array([300]), "int8"),
        (-1, "uint8"),
        ([-1], "uint8"),
        (float("nan"), "int32"),
        ([1e20], "int32"),
        (float("inf"), "uint8"),
        ([-1.5], "uint8"),
        (10**400, "float32"),
        ([10**400], "float64"),
        ([1j], "float32"),
        (2**70, "uint64"),
    ],
)
def test_numbers_do_not_wrap_around(value, dtype):
    with pytest.raises(plugrad.errors.ArgumentValueError, match=f"does not fit {dtype}; ask for"):
        plugrad.asarray(value, dtype=dtype)


def test_numbers_at_the_limits_fit():
    assert plugrad.asarray([-128, 127], dtype="int8").tolist() == [-128, 127]
    assert plugrad.asarray([-0.5, 255.9], dtype="uint8").tolist() == [0, 255]
    assert plugrad.asarray(-(2.0**63), dtype="int64").item() == -(2**63)
    assert plugrad.asarray(2**64 - 1, dtype="uint64").item() == 2**64 - 1


def test_input_that_is_left_out_at_the_end_is_absent():
    counts = plugrad.kernels.reduction.bincount(plugrad.asarray([1, 2, 2]), size=4)
    assert counts.tolist() == [0, 1, 2, 0]
    window = plugrad.extend.sliding_window((2, 2), (1, 1), (1, 1), "valid")
    with pytest.raises(plugrad.errors.ArgumentError, match=r"inputs \['filter'\] are missing"):
        plugrad.kernels.convolution.conv2d(plugrad.ones((1, 2, 2, 1)), window=window)
