"""The rows of all tables under `plugrad.vmap`: many examples at once give what the loop over them gives."""

import pytest

import plugrad
from consistency.coverage import core_kernels
from plugrad.discovery.loading import open_backend
from plugrad.registry.batching import find_batching
from plugrad.testing.batched import check_batched
from plugrad.testing.checks import NotClaimed, is_differentiable
from plugrad.testing.tables import rows

TESTED_KERNELS = list(dict.fromkeys(row.kernel.name for row in rows()))
TEST_INTERVAL_BY_BACKEND = {"cpu": 1, "wasm": 3}
"""One of so many kernels runs on a backend: calls of the others take longer. The kit runs all of them."""
DEFAULT_TEST_INTERVAL = 12

INEXACT_FAMILIES = {
    *("attention", "convolution", "convolution3d", "depthwise", "fused", "linalg"),
    "normalization",
}
"""The families of which one call for all examples adds in another order than one for each."""
INEXACT_KERNELS = {
    *("ApplyAdadelta", "ApplyAdam", "ApplyAdamax", "ApplyCenteredRMSProp", "ApplyMomentum"),
    *("ApplyRMSProp", "ComplexAbs", "CropAndResize", "Exp", "GatherV2Grad", "RandomNormal"),
}
"""Others that, on some backend, compute what whole vectors leave over in another way, or add in any order."""
KERNELS_WITH_INEXACT_GRADIENTS = {
    "BroadcastTo",
    "CropAndResizeGradImage",
    "Mean",
    "Prod",
    "SparseToDense",
    "Sum",
    "SylvesterSolve",
    "Variance",
}
"""Those whose gradient adds, or gets the derivatives of sums, in another order."""


def expected_exactness(kernel):
    """Return whether the batched values and gradients of a kernel equal those of the loop bit by bit."""
    is_exact = kernel.family not in INEXACT_FAMILIES and kernel.name not in INEXACT_KERNELS
    return {
        "is_value_exact": is_exact,
        "is_gradient_exact": is_exact and kernel.name not in KERNELS_WITH_INEXACT_GRADIENTS,
    }


@pytest.mark.parametrize("name", TESTED_KERNELS)
def test_batched_rows_match_loops_over_examples(name, backend):
    if TESTED_KERNELS.index(name) % TEST_INTERVAL_BY_BACKEND.get(backend, DEFAULT_TEST_INTERVAL):
        pytest.skip(f"a part of the kernels runs on {backend}; plugrad-test runs all of them")
    found = [row for row in rows() if row.kernel.name == name]
    smooth = [row for row in found if is_differentiable(row)]
    for row in found if backend == "cpu" else (smooth or found)[:1]:
        try:
            check_batched(row, open_backend(backend), **expected_exactness(row.kernel))
        except NotClaimed as reason:
            pytest.skip(str(reason))


def test_few_kernels_run_as_loops():
    loops = [n for n in core_kernels() if (entry := find_batching(n)) and entry.rule is None]
    assert loops == ["BroadcastArgs", "SparseReshape"]
    assert all(len(find_batching(name).because) > 20 for name in loops)


def test_a_kernel_of_dynamic_shape_says_that_it_cannot_be_batched():
    x = plugrad.asarray([[1.0, 0.0], [2.0, 3.0]])
    with pytest.raises(plugrad.errors.TracingError, match=r"Where depends on values.*Use a mask"):
        plugrad.vmap(plugrad.nonzero)(x)
    assert len(plugrad.vmap(lambda y: plugrad.nonzero(x)[0] + y)(plugrad.ones(4, dtype="int32")))
