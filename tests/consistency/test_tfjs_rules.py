"""Every validation rule of TensorFlow.js is one of plugrad's, or plugrad takes what it refuses, for a reason.

A message names the culprit, the value that was given, what is expected and the remedy. A call that
works stands for a reason, so that none can outlive its truth.
"""

import pytest

import plugrad
from consistency.rules.row import call_op, changed_arguments, tensor_argument_names
from consistency.rules.strings import NO_STRINGS_LABEL
from consistency.rules.table import ALL_RULES, count_tfjs_rules, labels_by_op
from consistency.tfjs import tfjs_ops
from plugrad.errors import PlugradError

RULES_WITH_OPS = [(row, op) for row in ALL_RULES for op in row.names]


@pytest.fixture(autouse=True, scope="module")
def on_cpu():
    """Run the test on the cpu; the other backends share its ops and contracts."""
    with plugrad.use("cpu"):
        yield


def parameter_id(argument):
    return argument if isinstance(argument, str) else argument.label


@pytest.mark.parametrize(("row", "op"), RULES_WITH_OPS, ids=parameter_id)
def test_changed_call_behaves_as_the_rule_says(row, op):
    row.check(op)


@pytest.mark.parametrize(
    "op", sorted({op for row in ALL_RULES for op in row.names if not row.call})
)
def test_unchanged_call_of_a_rule_works(op):
    call_op(op, changed_arguments(op, {}))


def test_every_rule_has_a_row():
    assert {op: len(found) for op, found in labels_by_op().items()} == count_tfjs_rules()
    assert count_tfjs_rules().keys() <= tfjs_ops().keys()
    assert sum(count_tfjs_rules().values()) == 614


def test_rules_have_all_required_fields():
    for row in ALL_RULES:
        if row.error is None:
            assert row.because, row.label
            continue
        assert not row.because
        assert row.culprit.strip(), row.label
        assert row.value.strip(), row.label
        assert row.remedy.strip(), row.label
        # Python itself says what arguments there are.
        assert issubclass(row.error, PlugradError) or row.error is TypeError


def test_rules_change_arguments_of_the_valid_call():
    for row, op in RULES_WITH_OPS:
        if row.error is not TypeError and row.call is None:
            assert row.argument_changes.keys() <= tfjs_ops()[op].parameters.keys(), (
                f"{row.label}: {op}"
            )


@pytest.mark.parametrize(
    "op", sorted(op for op, found in labels_by_op().items() if NO_STRINGS_LABEL in found)
)
def test_strings_are_given_for_every_tensor(op):
    given = {
        name
        for row in ALL_RULES
        if row.label == NO_STRINGS_LABEL and op in row.names
        for name in row.argument_changes
    }
    assert tensor_argument_names(op)
    assert set(tensor_argument_names(op)) <= given
