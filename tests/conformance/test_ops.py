"""Every op gives the recorded result, called through tests/consistency/tfjs_names.toml."""

import re

import numpy as np
import pytest

import plugrad
from conformance.op_deviations import DEVIATIONS, find_deviation
from conformance.op_forms import dtype_name, flatten_result, normalize_result, prepare_call
from conformance.op_refusals import ERROR_AND_REASON_BY_RECORD, ERROR_OF_MESSAGE, expected_error
from conformance.reader import Record, read_records

RECORDS = read_records("ops")
TOLERANCE = 1e-3  # of the tests that were recorded


def describe_difference(actual: list[np.ndarray], expected: list[np.ndarray]) -> str | None:
    """Return a description of how results differ, or None."""
    if len(actual) != len(expected):
        return f"{len(actual)} results instead of {len(expected)}"
    for y, right in zip(actual, expected, strict=True):
        if (y.shape, dtype_name(y)) != (right.shape, dtype_name(right)):
            return f"{y.dtype}{y.shape} instead of {right.dtype}{right.shape}"
        if dtype_name(y) == "string":
            same = y.tolist() == right.tolist()
        else:
            same = np.allclose(y, right, TOLERANCE, TOLERANCE, equal_nan=True)
        if not same:
            return f"{y.ravel()[:8]} instead of {right.ravel()[:8]}"
    return None


def replay(record: Record) -> str | None:
    """Replay a record; return a description of the failure, or None."""
    excuse = find_deviation(record)
    refusals: tuple[type[Exception] | None, ...] = ()
    if excuse is not None and isinstance(excuse.expected, tuple):
        refusals = excuse.expected
    elif excuse is None and record.error:
        refusals = (expected_error(record),)
    call = prepare_call(record)  # whose own errors are defects of the forms, not refusals
    try:
        result = call()
    except Exception as error:
        return None if type(error) in refusals else f"{error!r} instead of {refusals}"
    if refusals:
        return f"no error; there: {record.error}"
    actual = normalize_result(record, result)
    if record.is_random and excuse is None:
        shapes = [(y.shape, dtype_name(y)) for y in actual]
        wanted = [(y.shape, dtype_name(y)) for y in flatten_result(record.result)]
        return None if shapes == wanted else f"{shapes} instead of {wanted}"
    expected = (
        normalize_result(record, record.result) if excuse is None else excuse.expected(record)
    )
    return describe_difference(actual, [np.asarray(part) for part in expected])


@pytest.mark.parametrize("op", sorted(RECORDS))
def test_op_gives_the_recorded_results(op):
    with plugrad.use("cpu"), np.errstate(all="ignore"):  # records divide by 0 on purpose
        failures = [(r, why) for r in RECORDS[op] if (why := replay(r)) is not None]
    listed = "\n".join(f"  {r.id} ({r.test}): {why}" for r, why in failures[:20])
    assert not failures, f"{len(failures)} of {len(RECORDS[op])} records differ:\n{listed}"


def records_of_errors() -> list[Record]:
    """Return the records of errors that no deviation explains."""
    return [r for rs in RECORDS.values() for r in rs if r.error and find_deviation(r) is None]


def test_every_recorded_error_has_an_expected_error():
    unknown = [
        f"{r.kernel} {r.id}: {r.error:.80}"
        for r in records_of_errors()
        if expected_error(r) is None
    ]
    assert not unknown, "say in op_refusals.py what plugrad raises for:\n" + "\n".join(unknown)


@pytest.mark.rows("words", [w for patterns in ERROR_OF_MESSAGE.values() for w in patterns])
def test_message_patterns_match_a_recorded_error(words):
    assert any(
        re.search(words, r.error)
        for r in records_of_errors()
        if r.id not in ERROR_AND_REASON_BY_RECORD
    )


@pytest.mark.parametrize("name", ERROR_AND_REASON_BY_RECORD)
def test_records_listed_by_id_match_no_message_pattern(name):
    (record,) = [r for r in records_of_errors() if r.id == name]
    said = [
        e
        for e, patterns in ERROR_OF_MESSAGE.items()
        if any(re.search(p, record.error) for p in patterns)
    ]
    assert ERROR_AND_REASON_BY_RECORD[name][0] not in said


@pytest.mark.parametrize("excuse", DEVIATIONS, ids=lambda excuse: excuse.reason)
def test_each_deviation_matches_a_record(excuse):
    assert any(find_deviation(r) is excuse for rs in RECORDS.values() for r in rs)


def test_few_records_deviate():
    """At most 2 % of the records show a defect of TensorFlow.js, and at most 2 % a decision of plugrad."""
    all_of_them = [r for rs in RECORDS.values() for r in rs]
    excuses = [excuse for r in all_of_them if (excuse := find_deviation(r)) is not None]
    assert sum(excuse.is_choice for excuse in excuses) <= 0.02 * len(all_of_them)
    assert sum(not excuse.is_choice for excuse in excuses) <= 0.02 * len(all_of_them)
