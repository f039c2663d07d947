"""The rows of a family whose implementations a backend specializes when a function is traced."""

from __future__ import annotations

import pytest

import plugrad
from plugrad.discovery.loading import open_backend
from plugrad.testing.checks import NotClaimed, as_tensors, main_dtype, run_row
from plugrad.testing.tables import rows


def assert_specialized_rows_keep_bits(family, backend_name, *, one_of_each_kernel=False):
    """Call the traced rows of a family twice, and compare both results with the untraced ones bit for bit."""
    backend = open_backend(backend_name)
    checked = set()
    for row in rows():
        is_done = one_of_each_kernel and row.kernel in checked
        if row.kernel.family != family or row.kernel.dynamic_shape or is_done:
            continue
        try:
            dtype = main_dtype(row, backend)
            given = as_tensors(row.draw_inputs(dtype))
            untraced = run_row(row, given, dtype)
        except (NotClaimed, plugrad.errors.UnsupportedDtype, plugrad.errors.KernelNotFound):
            continue
        places = [i for i, x in enumerate(given) if x is not None]

        def forward(*xs, row=row, given=given, places=places, dtype=dtype):
            inputs = [*given]
            for i, x in zip(places, xs, strict=True):
                inputs[i] = x
            return run_row(row, inputs, dtype)

        traced = plugrad.jit(forward)
        for _ in range(2):
            found = traced(*[x for x in given if x is not None])
            for x, y in zip(found, untraced, strict=True):
                assert x.numpy().tobytes() == y.numpy().tobytes(), row
        checked.add(row.kernel)
    if not checked:
        pytest.skip(f"no kernel of this family runs on {backend_name}")
