"""Every kernel gives the recorded values, on every backend; see README.md beside this file."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

import plugrad
from conformance.deviations import DEVIATIONS, deviation, wanted_dtype
from conformance.forms import forms, inputs
from conformance.reader import Record, records
from consistency.coverage import core_kernels
from consistency.tfjs import tfjs_kernels
from plugrad import Tensor
from plugrad.errors import DTypeError, KernelNotFound, UnsupportedDtype

RECORDS = records("kernels")
TOLERANCE = 1e-3  # of the tests that were recorded
UNRECORDED = {  # of TensorFlow.js's kernels; those that plugrad adds have no records either
    "BroadcastTo": "TensorFlow.js broadcasts with Tile",
    "Draw": "TensorFlow.js draws in a browser",
    "FlipLeftRight": "TensorFlow.js tests it with a picture, which is too large to record",
    "FromPixels": "TensorFlow.js takes pixels from a browser",
    "LogicalXor": "TensorFlow.js composes it from the other three",
    "LogSoftmax": "TensorFlow.js composes it from Softmax's parts",
    "LowerBound": "no backend of TensorFlow.js has it: it runs SearchSorted",
    "MatrixBandPart": "no backend of TensorFlow.js has it: it composes band_part",
    "Pool": "TensorFlow.js pools with AvgPool and MaxPool",
    "UpperBound": "no backend of TensorFlow.js has it: it runs SearchSorted",
}


def built(record: Record, dtype: str | None = None) -> Any:
    """Return the recorded inputs as tensors, all of them cast to a dtype if one is given."""

    def tensor(x: np.ndarray) -> Tensor:
        return plugrad.asarray(x if dtype is None else x.astype(dtype))

    given = inputs(record)
    if isinstance(given, list):
        return [tensor(x) for x in given]
    return {
        name: [tensor(part) for part in x] if isinstance(x, list) else tensor(x)
        for name, x in given.items()
    }


def arrays(record: Record, result: Any, cast_to: str | None) -> list[np.ndarray]:
    """Return the results; bools that were cast for the kernel come back as bools, as its op gives them."""
    results = [y.numpy() for y in (result if isinstance(result, list) else [result])]
    bools = len(record.outputs) == 1 and record.outputs[0].dtype == bool
    is_back = cast_to == "int32" and bools and record.x.dtype == bool
    return [y.astype(bool) for y in results] if is_back else results


def difference(actual: list[np.ndarray], expected: list[np.ndarray], kernel: str) -> str | None:
    """Return in words how results differ, or None."""
    if len(actual) != len(expected):
        return f"{len(actual)} results instead of {len(expected)}"
    for y, right in zip(actual, expected, strict=True):
        if kernel == "StridedSlice":  # masks that drop axes are the business of indexing
            y = y.reshape(right.shape)
        is_random = kernel == "Multinomial"  # whose distribution is tested in tests/families
        if (y.shape, y.dtype) != (right.shape, right.dtype):
            return f"{y.dtype}{y.shape} instead of {right.dtype}{right.shape}"
        if right.dtype.kind == "T":
            is_right = np.array_equal(y, right)
        else:
            is_right = np.allclose(y, right, TOLERANCE, TOLERANCE, equal_nan=True)
        if not (is_right or is_random):
            return f"{y.ravel()[:8]} instead of {right.ravel()[:8]}"
    return None


def lacks(parts: Iterable[np.ndarray]) -> set[str]:
    """Return the dtypes of arrays that the active backend does not store."""
    dtypes = {x.dtype.name for x in parts if x.dtype.kind != "T"}
    return dtypes - set(plugrad.which().backend.dtypes())


def failure(record: Record) -> str | None:
    """Replay a record; return in words what went wrong, or None.

    Inputs and attributes are built before anything may raise: only the kernel's own errors count.
    """
    if lacks(record.arrays):
        with pytest.raises(UnsupportedDtype):
            built(record)
        return None
    excuse = deviation(record)
    expected = record.outputs if excuse is None else excuse.expected
    if not record.is_odd and lacks(record.outputs):
        expected = (UnsupportedDtype,)
    elif callable(expected):
        right = expected(record)
        expected = right if isinstance(right, list) else [right]
    attrs, wanted = forms(record), wanted_dtype(record)
    if wanted is not None:  # the contract does not take the recorded dtype: the op casts
        tensors = built(record)
        with pytest.raises(DTypeError):
            plugrad.run_kernel(record.kernel, tensors, attrs)
    tensors = built(record, wanted)
    try:
        result = plugrad.run_kernel(record.kernel, tensors, attrs)
    except KernelNotFound:
        raise
    except Exception as error:
        is_right = isinstance(expected, tuple) and type(error) in expected
        return None if is_right else repr(error)
    if isinstance(expected, tuple):
        return f"no error instead of {expected}"
    return difference(arrays(record, result, wanted), expected, record.kernel)


@pytest.mark.parametrize("kernel", sorted(RECORDS))
def test_kernel_gives_the_recorded_values(kernel, backend):
    with np.errstate(all="ignore"):  # records divide by 0 on purpose
        failures = [(r, why) for r in RECORDS[kernel] if (why := failure(r)) is not None]
    listed = "\n".join(f"  {r.id} ({r.test}) {r.attrs}: {why}" for r, why in failures[:20])
    assert not failures, f"{len(failures)} of {len(RECORDS[kernel])} records differ:\n{listed}"


def test_every_kernel_of_tensorflow_js_has_records_or_a_reason():
    unrecorded = set(core_kernels()) - RECORDS.keys()
    assert unrecorded & tfjs_kernels() == UNRECORDED.keys()


def test_only_kernels_of_tensorflow_js_have_records():
    assert RECORDS.keys() <= tfjs_kernels() & set(core_kernels())


@pytest.mark.parametrize("excuse", DEVIATIONS, ids=lambda excuse: excuse.reason)
def test_deviation_excuses_some_record(excuse):
    assert any(deviation(r) is excuse for rs in RECORDS.values() for r in rs)


def test_deviations_are_few():
    excused = sum(deviation(r) is not None for rs in RECORDS.values() for r in rs)
    assert excused <= 0.01 * sum(map(len, RECORDS.values()))
