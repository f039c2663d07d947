"""Every validation rule of TensorFlow.js is one of plugrad's, or plugrad takes what it refuses, for a reason.

A message names the culprit, the value that was given, what is expected and the remedy. A call that
works stands for a reason, so that none can outlive its truth.
"""

import pytest

import plugrad
from consistency.rules.row import called, changed, tensors
from consistency.rules.strings import LABEL
from consistency.rules.table import RULES, counts, labels
from consistency.tfjs import places
from plugrad.errors import PlugradError

ROWS = [(row, op) for row in RULES for op in row.names]


@pytest.fixture(autouse=True, scope="module")
def on_cpu():
    """Other backends have the same ops and contracts."""
    with plugrad.use("cpu"):
        yield


def names(argument):
    return argument if isinstance(argument, str) else argument.label


@pytest.mark.parametrize(("row", "op"), ROWS, ids=names)
def test_rule(row, op):
    row.check(op)


@pytest.mark.parametrize("op", sorted({op for row in RULES for op in row.names if not row.call}))
def test_call_that_is_changed_works(op):
    called(op, changed(op, {}))


def test_every_rule_has_a_row():
    assert {op: len(found) for op, found in labels().items()} == counts()
    assert counts().keys() <= places().keys()
    assert sum(counts().values()) == 614


def test_rows_say_everything():
    for row in RULES:
        if row.error is None:
            assert row.because, row.label
            continue
        assert not row.because
        assert row.culprit.strip(), row.label
        assert row.value.strip(), row.label
        assert row.remedy.strip(), row.label
        # Python itself says what arguments there are.
        assert issubclass(row.error, PlugradError) or row.error is TypeError


def test_rows_change_what_is_there():
    for row, op in ROWS:
        if row.error is not TypeError and row.call is None:
            assert row.change.keys() <= places()[op].parameters.keys(), f"{row.label}: {op}"


@pytest.mark.parametrize("op", sorted(op for op, found in labels().items() if LABEL in found))
def test_strings_are_given_for_every_tensor(op):
    given = {name for row in RULES if row.label == LABEL and op in row.names for name in row.change}
    assert tensors(op)
    assert set(tensors(op)) <= given
