"""Reductions on software devices: columns are read several vectors at a time, rows in segments of whole pages."""

import numpy as np
import pytest

from plugrad.kernels import reduction
from plugrad_webgpu.algorithms import reduce


@pytest.fixture
def combines_lines(run, monkeypatch):
    """A list that records for each kernel whether it reads lines of several vectors."""
    monkeypatch.setattr(run.device, "is_software", True)
    record, found = run.device.record, []

    def note(plan, operands):
        found.append("combine_lines" in plan.program.source())
        record(plan, operands)

    monkeypatch.setattr(run.device, "record", note)
    return found


@pytest.mark.parametrize(
    ("shape", "axis", "expected"),
    [
        ((37, 160), (0,), True),
        ((700, 128), (0,), True),  # in segments
        ((3, 9, 64), (1,), True),
        ((3, 9, 4, 32), (0, 2), True),
        ((37, 168), (0,), False),
        ((3, 9, 16), (1,), False),  # too few for the lanes of the processor
        ((160, 37), (1,), False),
    ],
    ids=str,
)
def test_lines_of_columns(run, rng, combines_lines, shape, axis, expected):
    x = rng.standard_normal(shape, dtype=np.float32)
    np.testing.assert_allclose(run(reduction.sum, x, axis=axis), x.sum(axis), atol=1e-4)
    np.testing.assert_allclose(run(reduction.mean, x, axis=axis), x.mean(axis), atol=1e-5)
    assert any(combines_lines) is expected
    x[(0,) * len(shape)] = np.nan
    x[(-1,) * len(shape)] = np.inf
    np.testing.assert_array_equal(run(reduction.max, x, reduction_indices=axis), x.max(axis))
    for dtype in ("int32", "uint32"):
        n = rng.integers(0, 1 << 30, shape).astype(dtype)
        np.testing.assert_array_equal(run(reduction.sum, n, axis=axis), n.sum(axis, dtype=dtype))
    np.testing.assert_array_equal(run(reduction.all, n > 9, axis=axis), (n > 9).all(axis))


@pytest.mark.parametrize("shape", [(300_011,), (300_012,), (2, 150_004), (3, 100_003)], ids=str)
def test_segments_begin_with_pages(run, rng, monkeypatch, shape):
    """Each element is counted once when a software device rounds segments up to pages."""
    monkeypatch.setattr(run.device, "is_software", True)
    monkeypatch.setattr(reduce, "SOFTWARE_MAX_INVOCATIONS", 10)
    record, recorded = run.device.record, []

    def note(plan, operands):
        recorded.append(np.frombuffer(plan.parameters, np.uint32))
        record(plan, operands)

    monkeypatch.setattr(run.device, "record", note)
    n = rng.integers(-(2**30), 2**30, shape)
    for dtype in (np.int32, np.int64):
        of_dtype = n.astype(dtype)
        total = run(reduction.sum, of_dtype, axis=(len(shape) - 1,))
        np.testing.assert_array_equal(total, of_dtype.sum(-1, dtype))
    # The fifth number is the distance between segments, in elements or vectors.
    assert {int(numbers[4]) * 4 % 1024 for numbers in recorded[::2]} == {0}


@pytest.mark.parametrize(("rows", "dispatches"), [(64, 1), (1000, 2)])
def test_gpus_add_up_columns_in_few_dispatches(run, rng, monkeypatch, rows, dispatches):
    """On a GPU, a dispatch takes longer than a loop over the remaining sums."""
    monkeypatch.setattr(run.device, "is_software", False)
    assert run.device.subgroup_size >= 0  # it is found out by a dispatch of its own
    record, recorded = run.device.record, []

    def note(plan, operands):
        recorded.append(plan.shape)
        record(plan, operands)

    monkeypatch.setattr(run.device, "record", note)
    x = rng.standard_normal((rows, 8), dtype=np.float32)
    np.testing.assert_allclose(run(reduction.sum, x, axis=(0,)), x.sum(0), rtol=1e-3, atol=1e-3)
    assert len(recorded) == dispatches
