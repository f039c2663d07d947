"""The custom op with three kernels: one page, nothing of plugrad touched, right on each backend."""

import runpy
from pathlib import Path

import numpy as np
import pytest

import plugrad
from plugrad.extend import KERNELS
from plugrad.testing import check_gradient

EXAMPLE_FILE = Path(__file__).parents[2] / "examples" / "custom_op.py"


@pytest.fixture(scope="module")
def page():
    pytest.importorskip("plugrad_wasm", reason="the example has a kernel for wasm")
    pytest.importorskip("plugrad_webgpu", reason="the example has a kernel for webgpu")
    names = runpy.run_path(str(EXAMPLE_FILE))
    yield names
    for backend in names["IMPLEMENTATIONS"]:
        plugrad.unregister_kernel("Softsign", backend)
    plugrad.unregister_gradient("Softsign")
    del KERNELS["Softsign"]


def test_custom_op_takes_at_most_sixty_lines():
    assert len(EXAMPLE_FILE.read_text("utf-8").splitlines()) <= 60


def test_values(page, backend, rng):
    x = rng.standard_normal((3, 5), np.float32)
    y = page["softsign"](plugrad.asarray(x))
    np.testing.assert_allclose(y, x / (1 + np.abs(x)), rtol=1e-6)


def test_gradient_to_second_order(page, backend, rng):
    x = (rng.uniform(0.2, 2, (3, 5)) * rng.choice([-1, 1], (3, 5))).astype(np.float32)
    check_gradient(page["softsign"], x, order=2, dtype="float32")


def test_page_uses_no_private_names_of_plugrad(page):
    text = EXAMPLE_FILE.read_text("utf-8")
    assert "plugrad._" not in text
    assert "setattr" not in text
