"""Every kernel that is written as nodes comes back, values and gradients to the bit, on the rows of the kit."""

import numpy as np
import pytest

pytest.importorskip("onnx")

import onnx

import plugrad
import plugrad_onnx
from plugrad.discovery.loading import open_backend
from plugrad.testing.checks import (
    as_tensors,
    differentiated_inputs,
    is_differentiable,
    main_dtype,
    run_row,
)
from plugrad.testing.tables import rows
from plugrad_onnx.exporting.writer import EXPORT_RULES

EXPORTABLE_CASES = [row for row in rows() if row.kernel.name in EXPORT_RULES]


def test_every_written_kernel_has_a_row():
    assert {row.kernel.name for row in EXPORTABLE_CASES} == {*EXPORT_RULES}


@pytest.mark.rows("row", EXPORTABLE_CASES, ids=str)
def test_exported_kernels_compute_the_same_when_loaded(row, tmp_path):
    with plugrad.use("cpu"):
        is_shift = row.kernel.name.endswith("Shift")  # which ONNX has for unsigned integers only
        dtype = "uint32" if is_shift else main_dtype(row, open_backend("cpu"))
        given = as_tensors(row.draw_inputs(dtype))
        places = [place for place, x in enumerate(given) if x is not None]

        def function(*tensors):
            filled = [None] * len(given)
            for place, x in zip(places, tensors, strict=True):
                filled[place] = x
            return run_row(row, filled, dtype)

        present = [given[place] for place in places]
        plugrad_onnx.export(function, *present, path=tmp_path / "f.onnx", dynamic=())
        onnx.checker.check_model(tmp_path / "f.onnx", full_check=True)
        model = plugrad_onnx.load(tmp_path / "f.onnx")
        assert_same_results(function(*present), as_list(model(*present)))
        if not is_differentiable(row):
            return
        chosen = [place for place in differentiated_inputs(row) if given[place] is not None]
        assert_same_results(
            weighted_gradients(function, present, chosen, places),
            weighted_gradients(model, present, chosen, places),
        )


def weighted_gradients(function, present, chosen, places):
    """Return the gradients of a weighted sum of a function's results."""

    def loss(*tensors):
        filled = list(present)
        for place, x in zip(chosen, tensors, strict=True):
            filled[places.index(place)] = x
        parts = [
            plugrad.sum(plugrad.sin(y)) for y in as_list(function(*filled)) if y.dtype.is_inexact
        ]
        return sum(parts[1:], parts[0])

    own = [present[places.index(place)] for place in chosen]
    found = plugrad.grads(loss, allow_unused=True)(*own)
    return [plugrad.zeros_like(x) if g is None else g for x, g in zip(own, found, strict=True)]


def as_list(results):
    return list(results) if isinstance(results, (list, tuple)) else [results]


def assert_same_results(expected, found):
    for one, two in zip(expected, found, strict=True):
        np.testing.assert_array_equal(two.numpy(), one.numpy(), strict=True)
