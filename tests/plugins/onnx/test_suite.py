"""The tests of the package onnx run on every backend; those that do not pass are named with their reasons."""

import warnings

import pytest

pytest.importorskip("onnx")

from plugins.onnx.suite import (
    EXCLUDED_TESTS,
    RANDOM_REASON,
    convert_unsupported_dtypes,
    failed_tests,
    suite_cases,
)

PART_COUNT = 4
SUITE_KINDS = ("simple", "pytorch-converted", "pytorch-operator")


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", range(PART_COUNT))
def test_node_models_of_the_onnx_suite_pass(backend, part):
    every = list(suite_cases("node").values())
    assert_part_passes(backend, every[part::PART_COUNT], 1 if backend == "webgpu" else 2)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", SUITE_KINDS)
def test_file_models_of_the_onnx_suite_pass(backend, kind):
    assert_part_passes(backend, list(suite_cases(kind).values()), 1)


def assert_part_passes(backend, chosen, times):
    with convert_unsupported_dtypes(), warnings.catch_warnings(action="ignore"):
        failed, said = failed_tests(chosen, EXCLUDED_TESTS, times)
    assert said == []
    # What is drawn at random may be right.
    determined = {name for name, reason in EXCLUDED_TESTS.items() if reason != RANDOM_REASON}
    passing = {case.name for case in chosen} & determined - failed
    assert passing == set(), "these pass now: do not exclude them"


@pytest.mark.long  # so that the worker with the long tests above runs it: to make the cases takes 5 seconds
@pytest.mark.filterwarnings("ignore")  # the package makes its cases when they are first asked for
def test_most_of_the_suite_passes():
    assert len(set(suite_cases("node")) - set(EXCLUDED_TESTS)) >= 1800
    files = set().union(*map(suite_cases, SUITE_KINDS))
    assert len(files - set(EXCLUDED_TESTS)) >= 138
