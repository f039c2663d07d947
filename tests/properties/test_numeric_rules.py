"""Extreme numbers follow the same rules on all backends, and the page of the rules is up to date."""

import numpy as np
import pytest

from consistency.generated import FOLDER
from plugrad.discovery.loading import open_backend
from plugrad.errors import BackendNotFound, BackendUnavailable
from properties.numeric_rules import (
    ABSENT,
    BACKENDS,
    REPETITIONS,
    RULES,
    evaluate,
    is_elementwise,
    results_agree,
    rules_page,
    run_rule,
    run_rule_on_many_elements,
)

REMEDY = "run `make docs` and commit what it writes"


@pytest.mark.rows("rule", RULES, ids=lambda rule: rule.call)
def test_numeric_argument_behaves_as_the_rule_says(rule, backend):
    found = run_rule(rule, backend)
    if found is ABSENT:
        pytest.skip(f"{backend} does not have the kernel or the dtype")
    assert results_agree(found, evaluate(rule.expected_on(backend)), rule.within), found
    if rule.difference and backend in rule.difference.backends:
        is_mended = results_agree(found, evaluate(rule.value), rule.within)
        assert not is_mended, f"remove {backend} from the difference, then {REMEDY}"


@pytest.mark.rows(
    "rule", [rule for rule in RULES if is_elementwise(rule)], ids=lambda rule: rule.call
)
def test_rule_of_many_elements(rule, backend):
    found = run_rule_on_many_elements(rule, backend)
    if found is ABSENT:
        pytest.skip(f"{backend} does not have the kernel or the dtype")
    assert results_agree(
        found, np.tile(evaluate(rule.expected_on(backend)), REPETITIONS), rule.within
    ), found


def test_most_rules_run_with_many_elements():
    assert sum(map(is_elementwise, RULES)) > 90


def test_page_is_up_to_date():
    for backend in BACKENDS:
        try:
            open_backend(backend)
        except (BackendNotFound, BackendUnavailable) as error:
            pytest.skip(f"the page is about three backends: {error}")
    assert (FOLDER / "numeric-rules.md").read_text("utf-8") == rules_page(), REMEDY
