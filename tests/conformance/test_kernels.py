"""Every kernel gives the recorded values, on every backend; see README.md beside this file."""

import numpy as np
import pytest

import plugrad
from conformance.deviations import DEVIATIONS, deviation
from conformance.forms import forms, inputs
from conformance.reader import Record, records
from plugrad.errors import KernelNotFound, UnsupportedDtype
from plugrad.extend import KERNELS

RECORDS = records("kernels")
TOLERANCE = 1e-3  # of the tests that were recorded
UNRECORDED = {
    "BroadcastTo": "TensorFlow.js broadcasts with Tile",
    "LogicalXor": "TensorFlow.js composes it from the other three",
    "LogSoftmax": "TensorFlow.js composes it from Softmax's parts",
    "StridedSliceGrad": "TensorFlow.js cannot differentiate StridedSlice",
}


def run(record: Record) -> list[np.ndarray]:
    given = inputs(record)
    if isinstance(given, list):
        tensors = [plugrad.asarray(x) for x in given]
    else:
        tensors = {name: plugrad.asarray(x) for name, x in given.items()}
    result = plugrad.run_kernel(record.kernel, tensors, forms(record))
    return [y.numpy() for y in (result if isinstance(result, list) else [result])]


def difference(actual: list[np.ndarray], expected: list[np.ndarray], kernel: str) -> str | None:
    """Return in words how results differ, or None."""
    if len(actual) != len(expected):
        return f"{len(actual)} results instead of {len(expected)}"
    for y, right in zip(actual, expected, strict=True):
        if kernel == "StridedSlice":  # masks that drop axes are the business of indexing
            y = y.reshape(right.shape)
        if (y.shape, y.dtype) != (right.shape, right.dtype):
            return f"{y.dtype}{y.shape} instead of {right.dtype}{right.shape}"
        if not np.allclose(y, right, TOLERANCE, TOLERANCE, equal_nan=True):
            return f"{y.ravel()[:8]} instead of {right.ravel()[:8]}"
    return None


def lacks(record: Record) -> set[str]:
    """Return the dtypes of a record that the active backend does not store."""
    arrays = record.arrays if record.is_odd else (*record.arrays, *record.outputs)
    dtypes = {x.dtype.name for x in arrays if x.dtype != object}
    return dtypes - set(plugrad.which().backend.dtypes())


def failure(record: Record) -> str | None:
    """Replay a record; return in words what went wrong, or None."""
    excuse = deviation(record)
    expected = record.outputs if excuse is None else excuse.expected
    if lacks(record):
        expected = (UnsupportedDtype,)
    elif callable(expected):
        expected = [expected(record)]
    try:
        actual = run(record)
    except KernelNotFound:
        raise
    except Exception as error:
        if isinstance(expected, tuple) and isinstance(error, expected):
            return None
        return repr(error)
    if isinstance(expected, tuple):
        return f"no error instead of {expected}"
    return difference(actual, expected, record.kernel)


@pytest.mark.parametrize("kernel", sorted(RECORDS))
def test_kernel_gives_the_recorded_values(kernel, backend):
    with np.errstate(all="ignore"):  # records divide by 0 on purpose
        failures = [(r, why) for r in RECORDS[kernel] if (why := failure(r)) is not None]
    listed = "\n".join(f"  {r.id} ({r.test}) {r.attrs}: {why}" for r, why in failures[:20])
    assert not failures, f"{len(failures)} of {len(RECORDS[kernel])} records differ:\n{listed}"


def test_every_kernel_has_records_or_a_reason():
    contracts = [k for k in KERNELS.values() if k.rule.__module__.startswith("plugrad.kernels.")]
    declared = {kernel.name for kernel in contracts}
    assert declared == RECORDS.keys() | UNRECORDED.keys()
    assert not RECORDS.keys() & UNRECORDED.keys()


@pytest.mark.parametrize("excuse", DEVIATIONS, ids=lambda excuse: excuse.reason)
def test_deviation_excuses_some_record(excuse):
    assert any(deviation(r) is excuse for rs in RECORDS.values() for r in rs)


def test_deviations_are_few():
    excused = sum(deviation(r) is not None for rs in RECORDS.values() for r in rs)
    assert excused <= 0.02 * sum(map(len, RECORDS.values()))
