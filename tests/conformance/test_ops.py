"""Every op gives the recorded result, called through tests/consistency/tfjs_names.toml."""

import numpy as np
import pytest

import plugrad
from conformance.op_deviations import DEVIATIONS, deviation
from conformance.op_forms import called, dtype_of, in_one_form, leaves
from conformance.reader import Record, records
from plugrad.errors import PlugradError

RECORDS = records("ops")
TOLERANCE = 1e-3  # of the tests that were recorded


def difference(actual: list[np.ndarray], expected: list[np.ndarray]) -> str | None:
    """Return in words how results differ, or None."""
    if len(actual) != len(expected):
        return f"{len(actual)} results instead of {len(expected)}"
    for y, right in zip(actual, expected, strict=True):
        if (y.shape, dtype_of(y)) != (right.shape, dtype_of(right)):
            return f"{y.dtype}{y.shape} instead of {right.dtype}{right.shape}"
        if dtype_of(y) == "string":
            same = y.tolist() == right.tolist()
        else:
            same = np.allclose(y, right, TOLERANCE, TOLERANCE, equal_nan=True)
        if not same:
            return f"{y.ravel()[:8]} instead of {right.ravel()[:8]}"
    return None


def failure(record: Record) -> str | None:
    """Replay a record; return in words what went wrong, or None."""
    excuse = deviation(record)
    refusal: tuple[type[Exception], ...] = ()
    if excuse is not None and isinstance(excuse.expected, tuple):
        refusal = excuse.expected
    elif excuse is None and record.error:
        refusal = (PlugradError, TypeError)  # Python's own, for arguments that are missing
    try:
        actual = in_one_form(record, called(record))
    except Exception as error:
        return None if refusal and isinstance(error, refusal) else repr(error)
    if refusal:
        return f"no error; there: {record.error}"
    if record.is_random and excuse is None:
        shapes = [(y.shape, dtype_of(y)) for y in actual]
        wanted = [(y.shape, dtype_of(y)) for y in leaves(record.result)]
        return None if shapes == wanted else f"{shapes} instead of {wanted}"
    expected = in_one_form(record, record.result) if excuse is None else excuse.expected(record)
    return difference(actual, [np.asarray(part) for part in expected])


@pytest.mark.parametrize("op", sorted(RECORDS))
def test_op_gives_the_recorded_results(op):
    with plugrad.use("cpu"), np.errstate(all="ignore"):  # records divide by 0 on purpose
        failures = [(r, why) for r in RECORDS[op] if (why := failure(r)) is not None]
    listed = "\n".join(f"  {r.id} ({r.test}): {why}" for r, why in failures[:20])
    assert not failures, f"{len(failures)} of {len(RECORDS[op])} records differ:\n{listed}"


@pytest.mark.parametrize("excuse", DEVIATIONS, ids=lambda excuse: excuse.reason)
def test_deviation_excuses_some_record(excuse):
    assert any(deviation(r) is excuse for rs in RECORDS.values() for r in rs)


def test_deviations_are_few():
    """Of 100 records at most 2 show a defect of TensorFlow.js, and at most 2 a choice of plugrad's."""
    all_of_them = [r for rs in RECORDS.values() for r in rs]
    excuses = [excuse for r in all_of_them if (excuse := deviation(r)) is not None]
    assert sum(excuse.is_choice for excuse in excuses) <= 0.02 * len(all_of_them)
    assert sum(not excuse.is_choice for excuse in excuses) <= 0.02 * len(all_of_them)
