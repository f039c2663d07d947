"""The rows of the conformance kit's tables, on every backend, through the ops that run their kernels.

Families that have their rows among their own cases run them there, in more shapes and layouts.
"""

from importlib import import_module

import pytest

from consistency.coverage import KERNEL_FAMILIES, iter_cases
from families.case import conformance_cases


def includes_conformance_cases(family):
    """Whether the test file of a family includes its cases of the conformance kit."""
    own = vars(import_module(f"families.test_{family}")).values()
    cases = {id(case) for value in own for case in iter_cases(value)}
    return cases >= {id(case) for case in conformance_cases(family)}


CASES = [
    case
    for family in KERNEL_FAMILIES
    if not includes_conformance_cases(family)
    for case in conformance_cases(family)
]


def case_id(case):
    return f"{case} {' '.join(map(str, case.shapes))}".replace(", ", ",")


@pytest.mark.rows("case", CASES, ids=case_id)
def test_values(case, backend, rng):
    case.check_values(rng, case.main_dtype)


@pytest.mark.rows("case", CASES, ids=case_id)
def test_values_of_other_dtypes(case, backend, rng):
    case.check_values_of_other_dtypes(rng)


@pytest.mark.rows("case", [c for c in CASES if c.is_differentiable], ids=case_id)
def test_gradient(case, backend, rng):
    case.check_gradient(rng, backend)
