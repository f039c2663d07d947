"""Every kernel has a gradient that finite differences confirm to second order, or a reason for none."""

import pytest

import plugrad
from consistency.derivatives import gradient_cases_by_kernel
from families.case import Case
from plugrad.extend import KERNELS

CORE_KERNELS = [
    k.name for k in KERNELS.values() if k.rule.__module__.startswith("plugrad.kernels.")
]
DIFFERENTIABLE_KERNELS = [n for n in CORE_KERNELS if not plugrad.get_gradient(n).because]
CASES_PER_KERNEL = 3


def distinct_cases(cases: list[Case]) -> list[Case]:
    """Return test cases that differ in attributes or shapes, as long as there are any."""
    kept: list[Case] = []
    for case in cases:
        if not any((c.attrs, c.shapes) == (case.attrs, case.shapes) for c in kept):
            kept.append(case)
    return (kept + [c for c in cases if c not in kept])[:CASES_PER_KERNEL]


@pytest.mark.parametrize("name", DIFFERENTIABLE_KERNELS)
def test_gradient_agrees_with_finite_differences_to_second_order(name, rng):
    cases = distinct_cases(gradient_cases_by_kernel().get(name, []))
    assert len(cases) >= CASES_PER_KERNEL, f"only {len(cases)} rows differentiate through {name}"
    with plugrad.use("cpu"):
        for case in cases:
            case.check_gradient(rng, "cpu")


KERNELS_TESTED_IN_FLOAT64 = {"Cast": "its rows cast to float64"}


@pytest.mark.parametrize(
    "name", [n for n in DIFFERENTIABLE_KERNELS if n not in KERNELS_TESTED_IN_FLOAT64]
)
def test_gradient_agrees_with_finite_differences_in_single_precision(name, backend, rng):
    cases = gradient_cases_by_kernel()[name]
    single = [c for c in cases if {"float32", "complex64"} & set(c.dtypes)] or cases
    stored = {"float32", "complex64"} & plugrad.which().backend.dtypes()
    if backend != "cpu" and not stored & set(single[0].dtypes):
        pytest.skip(f"{backend} has neither float64 nor complex numbers")
    single[0].check_first_gradient(rng)


@pytest.mark.parametrize("name", sorted(set(CORE_KERNELS) - set(DIFFERENTIABLE_KERNELS)))
def test_kernel_without_gradient_says_why(name):
    assert len(plugrad.get_gradient(name).because) > 10
    assert plugrad.get_gradient(name).inputs == ()


def test_few_kernels_have_no_gradient():
    assert len(DIFFERENTIABLE_KERNELS) >= 0.7 * len(CORE_KERNELS)
