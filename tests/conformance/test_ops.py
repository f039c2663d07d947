"""Every op gives the recorded result, called through tests/consistency/tfjs_names.toml."""

import re

import numpy as np
import pytest

import plugrad
from conformance.op_deviations import DEVIATIONS, deviation
from conformance.op_forms import dtype_of, in_one_form, leaves, prepared
from conformance.op_refusals import OTHERS, WORDS, refusal
from conformance.reader import Record, records

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
    refusals: tuple[type[Exception] | None, ...] = ()
    if excuse is not None and isinstance(excuse.expected, tuple):
        refusals = excuse.expected
    elif excuse is None and record.error:
        refusals = (refusal(record),)
    call = prepared(record)  # whose own errors are defects of the forms, not refusals
    try:
        result = call()
    except Exception as error:
        return None if type(error) in refusals else f"{error!r} instead of {refusals}"
    if refusals:
        return f"no error; there: {record.error}"
    actual = in_one_form(record, result)
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


def errors_there() -> list[Record]:
    """Return the records of errors that no deviation answers."""
    return [r for rs in RECORDS.values() for r in rs if r.error and deviation(r) is None]


def test_every_recorded_error_has_one_here():
    unknown = [f"{r.kernel} {r.id}: {r.error:.80}" for r in errors_there() if refusal(r) is None]
    assert not unknown, "say in op_refusals.py what plugrad raises for:\n" + "\n".join(unknown)


@pytest.mark.parametrize("words", [w for patterns in WORDS.values() for w in patterns])
def test_words_are_of_some_recorded_error(words):
    assert any(re.search(words, r.error) for r in errors_there() if r.id not in OTHERS)


@pytest.mark.parametrize("name", OTHERS)
def test_other_errors_are_not_what_the_words_say(name):
    (record,) = [r for r in errors_there() if r.id == name]
    said = [e for e, patterns in WORDS.items() if any(re.search(p, record.error) for p in patterns)]
    assert OTHERS[name][0] not in said


@pytest.mark.parametrize("excuse", DEVIATIONS, ids=lambda excuse: excuse.reason)
def test_deviation_excuses_some_record(excuse):
    assert any(deviation(r) is excuse for rs in RECORDS.values() for r in rs)


def test_deviations_are_few():
    """Of 100 records at most 2 show a defect of TensorFlow.js, and at most 2 a choice of plugrad's."""
    all_of_them = [r for rs in RECORDS.values() for r in rs]
    excuses = [excuse for r in all_of_them if (excuse := deviation(r)) is not None]
    assert sum(excuse.is_choice for excuse in excuses) <= 0.02 * len(all_of_them)
    assert sum(not excuse.is_choice for excuse in excuses) <= 0.02 * len(all_of_them)
