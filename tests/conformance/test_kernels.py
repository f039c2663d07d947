"""Every kernel gives the recorded values, on every backend; see README.md beside this file."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

import plugrad
from conformance.deviations import DEVIATIONS, accepted_dtype, find_deviation
from conformance.forms import plugrad_attributes, plugrad_inputs
from conformance.reader import Record, read_records
from consistency.coverage import core_kernels
from consistency.tfjs import tfjs_kernels
from plugrad import Tensor
from plugrad.errors import DTypeError, KernelNotFound, UnsupportedDtype

RECORDS = read_records("kernels")
TOLERANCE = 1e-3  # of the tests that were recorded
REASON_WITHOUT_RECORD = {  # of TensorFlow.js's kernels; those that plugrad adds have no records either
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


def make_inputs(record: Record, dtype: str | None = None) -> Any:
    """Return the recorded inputs as tensors, cast to a dtype if one is given."""

    def as_tensor(x: np.ndarray) -> Tensor:
        return plugrad.asarray(x if dtype is None else x.astype(dtype))

    given = plugrad_inputs(record)
    if isinstance(given, list):
        return [as_tensor(x) for x in given]
    return {
        name: [as_tensor(part) for part in x] if isinstance(x, list) else as_tensor(x)
        for name, x in given.items()
    }


def result_arrays(record: Record, result: Any, cast_to: str | None) -> list[np.ndarray]:
    """Return the results as arrays; results of cast bools become bools again, as the op returns them."""
    results = [y.numpy() for y in (result if isinstance(result, list) else [result])]
    bools = len(record.outputs) == 1 and record.outputs[0].dtype == bool
    is_back = cast_to == "int32" and bools and record.x.dtype == bool
    return [y.astype(bool) for y in results] if is_back else results


def describe_difference(
    actual: list[np.ndarray], expected: list[np.ndarray], kernel: str
) -> str | None:
    """Return a description of how results differ, or None."""
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


def unsupported_dtypes(parts: Iterable[np.ndarray]) -> set[str]:
    """Return the dtypes of arrays that the active backend does not support."""
    dtypes = {x.dtype.name for x in parts if x.dtype.kind != "T"}
    return dtypes - set(plugrad.which().backend.dtypes())


def replay(record: Record) -> str | None:
    """Replay a record; return a description of the failure, or None.

    Inputs and attributes are built before anything may raise: only the kernel's own errors count.
    """
    if unsupported_dtypes(record.arrays):
        with pytest.raises(UnsupportedDtype):
            make_inputs(record)
        return None
    excuse = find_deviation(record)
    expected = record.outputs if excuse is None else excuse.expected
    if not record.is_odd and unsupported_dtypes(record.outputs):
        expected = (UnsupportedDtype,)
    elif callable(expected):
        right = expected(record)
        expected = right if isinstance(right, list) else [right]
    attrs, wanted = plugrad_attributes(record), accepted_dtype(record)
    if wanted is not None:  # the contract does not take the recorded dtype: the op casts
        tensors = make_inputs(record)
        with pytest.raises(DTypeError):
            plugrad.run_kernel(record.kernel, tensors, attrs)
    tensors = make_inputs(record, wanted)
    try:
        result = plugrad.run_kernel(record.kernel, tensors, attrs)
    except KernelNotFound:
        raise
    except Exception as error:
        is_right = isinstance(expected, tuple) and type(error) in expected
        return None if is_right else repr(error)
    if isinstance(expected, tuple):
        return f"no error instead of {expected}"
    return describe_difference(result_arrays(record, result, wanted), expected, record.kernel)


@pytest.mark.parametrize("kernel", sorted(RECORDS))
def test_kernel_gives_the_recorded_values(kernel, backend):
    with np.errstate(all="ignore"):  # records divide by 0 on purpose
        failures = [(r, why) for r in RECORDS[kernel] if (why := replay(r)) is not None]
    listed = "\n".join(f"  {r.id} ({r.test}) {r.attrs}: {why}" for r, why in failures[:20])
    assert not failures, f"{len(failures)} of {len(RECORDS[kernel])} records differ:\n{listed}"


def test_every_kernel_of_tensorflow_js_has_records_or_a_reason():
    unrecorded = set(core_kernels()) - RECORDS.keys()
    assert unrecorded & tfjs_kernels() == REASON_WITHOUT_RECORD.keys()


def test_only_kernels_of_tensorflow_js_have_records():
    assert RECORDS.keys() <= tfjs_kernels() & set(core_kernels())


@pytest.mark.parametrize("excuse", DEVIATIONS, ids=lambda excuse: excuse.reason)
def test_each_deviation_matches_a_record(excuse):
    assert any(find_deviation(r) is excuse for rs in RECORDS.values() for r in rs)


def test_few_records_deviate():
    excused = sum(find_deviation(r) is not None for rs in RECORDS.values() for r in rs)
    assert excused <= 0.01 * sum(map(len, RECORDS.values()))
