"""Tests that the replacement runs, is correct, and can be disabled."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import plugrad
from plugrad.errors import CANNOT_RUN_ERRORS

# The two implementations round at least one of these numbers differently.
INPUTS = np.linspace(-9, 9, 1001, dtype=np.float32)


@pytest.fixture(autouse=True)
def webgpu():
    """Run every test on the backend for which the pack is written."""
    try:
        using = plugrad.use("webgpu")
    except CANNOT_RUN_ERRORS as error:
        pytest.skip(str(error))
    with using as selection:
        yield selection.backend


def test_pack_is_listed_as_active():
    (pack,) = [p for p in plugrad.plugins("kernels") if p.name == "webgpu.acme"]
    assert (pack.status, pack.backend_name) == ("active", "webgpu")


def test_the_replacement_runs(webgpu):
    compiled = plugrad.get_kernel("Sigmoid", "webgpu").kernel_func
    ran = []

    def watched(x):
        ran.append(x.shape)
        return compiled(x)

    with plugrad.override_kernel("Sigmoid", "webgpu", watched):
        result = plugrad.sigmoid(plugrad.asarray(INPUTS)).numpy()
    assert ran == [(1001,)]
    np.testing.assert_allclose(
        result, 1 / (1 + np.exp(-INPUTS.astype(float))), rtol=3e-6, atol=1e-7
    )


def sigmoids_of_new_process(**variables):
    """Return the sigmoids that a new process computes, and whether it imported the pack."""
    program = """
        import json, sys, numpy as np, plugrad
        x = plugrad.asarray(np.linspace(-9, 9, 1001, dtype=np.float32), device="webgpu")
        print(json.dumps([plugrad.sigmoid(x).tolist(), "plugrad_acme_kernels" in sys.modules]))
    """
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(line.strip() for line in program.strip().splitlines())],
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def test_disabled_pack_leaves_the_kernel_of_the_backend_in_effect():
    replaced, was_imported = sigmoids_of_new_process()
    own, is_imported = sigmoids_of_new_process(PLUGRAD_PLUGINS_DISABLE="plugrad-acme-kernels")
    assert (was_imported, is_imported) == (True, False)
    assert replaced != own  # both are correct, but rounded differently
    np.testing.assert_allclose(replaced, own, rtol=3e-6, atol=1e-7)
