"""Every kernel gives the recorded values, on every backend; see README.md beside this file."""

import numpy as np
import pytest

import plugrad
from conformance.deviations import DEVIATIONS, deviation, wanted_dtype
from conformance.forms import forms, inputs
from conformance.reader import Record, records
from plugrad import Tensor
from plugrad.errors import DTypeError, KernelNotFound, UnsupportedDtype
from plugrad.extend import KERNELS

RECORDS = records("kernels")
TOLERANCE = 1e-3  # of the tests that were recorded
UNRECORDED = {
    **dict.fromkeys(
        (
            *("BitwiseOr", "BitwiseXor", "Invert", "LeftShift", "RightShift"),
            *("Log2", "Log10", "Trunc", "SignBit", "Hypot", "LogAddExp", "NextAfter"),
        ),
        "TensorFlow.js has no such function",
    ),
    **dict.fromkeys(
        (
            *("Cholesky", "MatrixInverse", "MatrixSolve", "MatrixDeterminant", "Qr", "Svd"),
            *("LogMatrixDeterminant", "SelfAdjointEigV2", "Conj", "DiagPart"),
        ),
        "TensorFlow.js has no such kernel",
    ),
    "MatrixBandPart": "no backend of TensorFlow.js has it: it composes band_part",
    **dict.fromkeys(("Sort", "ArgSort"), "TensorFlow.js sorts with TopK"),
    "BroadcastTo": "TensorFlow.js broadcasts with Tile",
    "CropAndResizeGradImage": "TensorFlow.js cannot differentiate CropAndResize",
    "Draw": "TensorFlow.js draws in a browser",
    "FlipLeftRight": "TensorFlow.js tests it with a picture, which is too large to record",
    "FromPixels": "TensorFlow.js takes pixels from a browser",
    "LogicalXor": "TensorFlow.js composes it from the other three",
    "LogSoftmax": "TensorFlow.js composes it from Softmax's parts",
    "LowerBound": "no backend of TensorFlow.js has it: it runs SearchSorted",
    "Pool": "TensorFlow.js pools with AvgPool and MaxPool",
    "RotateWithOffsetGrad": "TensorFlow.js cannot differentiate RotateWithOffset",
    "StridedSliceGrad": "TensorFlow.js cannot differentiate StridedSlice",
    "TransformGrad": "TensorFlow.js cannot differentiate Transform",
    "UpperBound": "no backend of TensorFlow.js has it: it runs SearchSorted",
    "Where": "TensorFlow.js looks for true elements on the host",
}


def run(record: Record, dtype: str | None = None) -> list[np.ndarray]:
    """Run a kernel on the recorded inputs, all of them cast to a dtype if one is given."""

    def tensor(x: np.ndarray) -> Tensor:
        return plugrad.asarray(x if dtype is None else x.astype(dtype))

    given = inputs(record)
    if isinstance(given, list):
        tensors = [tensor(x) for x in given]
    else:
        tensors = {
            name: [tensor(part) for part in x] if isinstance(x, list) else tensor(x)
            for name, x in given.items()
        }
    result = plugrad.run_kernel(record.kernel, tensors, forms(record))
    return [y.numpy() for y in (result if isinstance(result, list) else [result])]


def run_after_cast(record: Record, dtype: str) -> list[np.ndarray]:
    """Run a kernel whose contract does not take the recorded dtype, as its op does; bools come back."""
    with pytest.raises(DTypeError):
        run(record)
    results = run(record, dtype)
    bools = record.x.dtype == bool and len(record.outputs) == 1 and record.outputs[0].dtype == bool
    return [y.astype(bool) for y in results] if bools and dtype == "int32" else results


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


def lacks(record: Record) -> set[str]:
    """Return the dtypes of a record that the active backend does not store."""
    arrays = record.arrays if record.is_odd else (*record.arrays, *record.outputs)
    dtypes = {x.dtype.name for x in arrays if x.dtype.kind != "T"}
    return dtypes - set(plugrad.which().backend.dtypes())


def failure(record: Record) -> str | None:
    """Replay a record; return in words what went wrong, or None."""
    excuse = deviation(record)
    expected = record.outputs if excuse is None else excuse.expected
    if lacks(record):
        expected = (UnsupportedDtype,)
    elif callable(expected):
        right = expected(record)
        expected = right if isinstance(right, list) else [right]
    wanted = wanted_dtype(record)
    try:
        actual = run(record) if wanted is None else run_after_cast(record, wanted)
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
    assert excused <= 0.01 * sum(map(len, RECORDS.values()))
