"""The tests of the package onnx run on every backend; those that do not pass are named with their reasons."""

import warnings

import pytest

pytest.importorskip("onnx")

from plugins.onnx.suite import EXCLUDED, cases, failures, with_own_dtypes

PARTS = 4
OWN = {
    "webgpu": {
        **dict.fromkeys(
            [
                "attention_local_window_gqa_rank4_mask",
                "attention_local_window_gqa_rank4_mask_expanded",
                "bitcast_float64_to_int64",
                "cast_FLOAT16_to_DOUBLE",
                "cast_FLOAT_to_DOUBLE",
                "castlike_FLOAT16_to_DOUBLE_expanded",
                "castlike_FLOAT_to_DOUBLE_expanded",
                "eyelike_with_dtype",
                "flexattention_double_expanded_ver26",
                "operator_add_broadcast",
                "operator_add_size1_right_broadcast",
                "operator_add_size1_singleton_broadcast",
                "operator_addconstant",
                *(
                    f"reduce_log_sum_exp_{rest}_expanded"
                    for rest in (
                        "default_axes_keepdims_example",
                        "default_axes_keepdims_random",
                        "do_not_keepdims_example",
                        "do_not_keepdims_random",
                        "empty_set",
                        "keepdims_example",
                        "keepdims_random",
                        "negative_axes_keepdims_example",
                        "negative_axes_keepdims_random",
                    )
                ),
            ],
            "needs float64, which WGSL does not have",
        ),
        **dict.fromkeys(
            [
                "bitcast_uint16_to_int16",
                "quantizelinear_blocked_symmetric",
                "quantizelinear_int16",
                "quantizelinear_uint16",
            ],
            "needs integers of 16 bits, which WGSL does not have",
        ),
    },
}
"""By backend: tests that do not pass there, and why."""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", range(PARTS))
def test_models_of_nodes(backend, part):
    every = list(cases("node").values())
    check(backend, every[part::PARTS], 1 if backend == "webgpu" else 2)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["simple", "pytorch-converted", "pytorch-operator"])
def test_models_of_files(backend, kind):
    check(backend, list(cases(kind).values()), 1)


def check(backend, chosen, times):
    excluded = EXCLUDED | OWN.get(backend, {})
    with with_own_dtypes(), warnings.catch_warnings(action="ignore"):
        failed, said = failures(chosen, excluded, times)
    assert said == []
    passing = {case.name for case in chosen} & set(excluded) - failed
    assert passing == set(), "these pass now: do not exclude them"


def test_most_of_the_suite_passes():
    names = set(cases("node"))
    assert len(names - set(EXCLUDED)) >= 1800
    assert len(names - set(EXCLUDED) - set(OWN["webgpu"])) >= 1770
