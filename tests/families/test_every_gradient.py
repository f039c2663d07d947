"""Every kernel has a gradient that finite differences confirm to second order, or a reason for none."""

import pytest

import plugrad
from consistency.derivatives import checks
from families.case import Case
from plugrad.extend import KERNELS

CONTRACTS = [k.name for k in KERNELS.values() if k.rule.__module__.startswith("plugrad.kernels.")]
WITH_GRADIENT = [n for n in CONTRACTS if not plugrad.get_gradient(n).because]
CASES = 3


def different(cases: list[Case]) -> list[Case]:
    """Return rows that differ in attributes or shapes, as far as there are some."""
    kept: list[Case] = []
    for case in cases:
        if not any((c.attrs, c.shapes) == (case.attrs, case.shapes) for c in kept):
            kept.append(case)
    return (kept + [c for c in cases if c not in kept])[:CASES]


@pytest.mark.parametrize("name", WITH_GRADIENT)
def test_gradient_agrees_with_finite_differences_to_second_order(name, rng):
    cases = different(checks().get(name, []))
    assert len(cases) >= CASES, f"only {len(cases)} rows differentiate through {name}"
    with plugrad.use("cpu"):
        for case in cases:
            case.check_gradient(rng, "cpu")


@pytest.mark.parametrize("name", sorted(set(CONTRACTS) - set(WITH_GRADIENT)))
def test_kernel_without_gradient_says_why(name):
    assert len(plugrad.get_gradient(name).because) > 10
    assert plugrad.get_gradient(name).inputs == ()


def test_few_kernels_have_no_gradient():
    assert len(WITH_GRADIENT) >= 0.7 * len(CONTRACTS)
