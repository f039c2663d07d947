"""Threads share NumPy's elementwise functions, whatever the layout of the operands."""

import numpy as np
import pytest

import plugrad
from plugrad_cpu.threads import thread_pool

ROW_COUNT, COLUMN_COUNT = 200, 500  # more elements than one part has
LAYOUTS = {
    "dense": lambda x: x,
    "transposed": lambda x: x.T,
    "strided": lambda x: np.repeat(x, 2, axis=1)[:, ::2],
    "a row": lambda x: x[:1],
    "a column": lambda x: x[:, :1],
    "a number": lambda x: x[:1, :1],
}


@pytest.mark.parametrize("function", ["add", "less"])
@pytest.mark.parametrize(
    ("left", "right"),
    [("dense", name) for name in LAYOUTS] + [("transposed", "transposed"), ("a row", "a column")],
)
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_operands_of_any_layout_are_shared(left, right, function, dtype, rng, monkeypatch):
    parts = []
    count_parts = thread_pool.count_parts

    def count_and_note(*given):
        parts.append(count_parts(*given))
        return parts[-1]

    monkeypatch.setattr(thread_pool, "count_parts", count_and_note)
    monkeypatch.setattr(thread_pool, "part_min_work", 1 << 14)
    size = (
        (max(ROW_COUNT, COLUMN_COUNT),) * 2
        if "transposed" in (left, right)
        else (ROW_COUNT, COLUMN_COUNT)
    )
    x, y = (rng.integers(1, 100, size).astype(dtype) for _ in range(2))
    x, y = LAYOUTS[left](x), LAYOUTS[right](y)
    found = []
    for count in (1, 3):
        monkeypatch.setattr(thread_pool, "count", count)
        with plugrad.use("cpu"):
            found.append(getattr(plugrad, function)(plugrad.asarray(x), plugrad.asarray(y)).numpy())
    np.testing.assert_array_equal(*found)
    np.testing.assert_array_equal(found[0], getattr(np, function)(x, y))
    assert max(parts, default=0) > 3 or left == "a row" or "strided" in (left, right)
