"""Every kernel has a gradient that finite differences confirm to second order, or a reason for none."""

import pytest

import plugrad
from consistency.derivatives import gradient_cases_by_kernel
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
    cases = different(gradient_cases_by_kernel().get(name, []))
    assert len(cases) >= CASES, f"only {len(cases)} rows differentiate through {name}"
    with plugrad.use("cpu"):
        for case in cases:
            case.check_gradient(rng, "cpu")


IN_DOUBLE = {"Cast": "its rows cast to float64"}


@pytest.mark.parametrize("name", [n for n in WITH_GRADIENT if n not in IN_DOUBLE])
def test_gradient_agrees_with_finite_differences_in_single_precision(name, backend, rng):
    cases = gradient_cases_by_kernel()[name]
    single = [c for c in cases if {"float32", "complex64"} & set(c.dtypes)] or cases
    stored = {"float32", "complex64"} & plugrad.which().backend.dtypes()
    if backend != "cpu" and not stored & set(single[0].dtypes):
        pytest.skip(f"{backend} has neither float64 nor complex numbers")
    single[0].check_first_gradient(rng)


@pytest.mark.parametrize("name", sorted(set(CONTRACTS) - set(WITH_GRADIENT)))
def test_kernel_without_gradient_says_why(name):
    assert len(plugrad.get_gradient(name).because) > 10
    assert plugrad.get_gradient(name).inputs == ()


def test_few_kernels_have_no_gradient():
    assert len(WITH_GRADIENT) >= 0.7 * len(CONTRACTS)
