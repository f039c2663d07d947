"""The tests of the package onnx run on every backend; those that do not pass are named with their reasons."""

import warnings

import pytest

pytest.importorskip("onnx")

from plugins.onnx.suite import EXCLUDED, RANDOM, cases, failures, with_own_dtypes

PARTS = 4
FILES = ("simple", "pytorch-converted", "pytorch-operator")


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", range(PARTS))
def test_models_of_nodes(backend, part):
    every = list(cases("node").values())
    check(backend, every[part::PARTS], 1 if backend == "webgpu" else 2)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", FILES)
def test_models_of_files(backend, kind):
    check(backend, list(cases(kind).values()), 1)


def check(backend, chosen, times):
    with with_own_dtypes(), warnings.catch_warnings(action="ignore"):
        failed, said = failures(chosen, EXCLUDED, times)
    assert said == []
    # What is drawn at random may be right.
    determined = {name for name, reason in EXCLUDED.items() if reason != RANDOM}
    passing = {case.name for case in chosen} & determined - failed
    assert passing == set(), "these pass now: do not exclude them"


@pytest.mark.filterwarnings("ignore")  # the package makes its cases when they are first asked for
def test_most_of_the_suite_passes():
    assert len(set(cases("node")) - set(EXCLUDED)) >= 1800
    files = set().union(*map(cases, FILES))
    assert len(files - set(EXCLUDED)) >= 138
