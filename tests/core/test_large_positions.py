"""Positions and counts beyond int32 are int64: none becomes negative.

Arrays of so many elements do not fit into the memory of a test. So the contracts are asked about their shapes, and the
implementations run with a lower limit.
"""

import numpy as np
import pytest

import plugrad
from plugrad.kernels import indexing, pooling, reduction, sorting
from plugrad.types import dtype as dtypes
from plugrad.types.dtype import position_dtype
from plugrad.types.specs import Shaped
from plugrad.types.windows import sliding_window
from plugrad_cpu.extend import numpy_implementation

WINDOW = sliding_window((8, 8), (2, 2), (2, 2), "valid", (1, 1))
"""Makes 4 x 4 windows."""


def float32_spec(*shape, dtype=plugrad.float32):
    return Shaped(shape, dtype)


INDEX_RESULTS = {
    "argmax": lambda n: reduction.argmax.infer(float32_spec(2, n), axis=1),
    "argmin": lambda n: reduction.argmin.infer(float32_spec(n), axis=0),
    "argsort": lambda n: sorting.argsort.infer(
        float32_spec(n, 2), axis=0, descending=False, stable=True
    ),
    "top_k": lambda n: sorting.top_k.infer(float32_spec(n), k=1, sorted=True)[1],
    "unique": lambda n: sorting.unique.infer(float32_spec(2, n), axis=1)[1],
    "where": lambda n: indexing.where_true.infer(float32_spec(2, n, dtype=plugrad.bool)),
}
"""The positions of each kernel along an axis with n elements."""
COUNT_RESULTS = {
    "bincount": lambda n: reduction.bincount.infer(
        float32_spec(n, dtype=plugrad.int32), None, size=3
    ),
    "dense_bincount": lambda n: reduction.dense_bincount.infer(
        float32_spec(n, dtype=plugrad.int32), None, size=3, binary_output=False
    ),
    "search_sorted": lambda n: sorting.search_sorted.infer(
        float32_spec(n), float32_spec(2), side="left"
    ),
    "lower_bound": lambda n: sorting.lower_bound.infer(float32_spec(n), float32_spec(2)),
    "upper_bound": lambda n: sorting.upper_bound.infer(float32_spec(n), float32_spec(2)),
}
"""What may be as much as n."""


@pytest.mark.parametrize("name", INDEX_RESULTS)
def test_contracts_infer_an_index_dtype_that_is_wide_enough(name):
    for count, dtype in ((1, "int32"), (2**31, "int32"), (2**31 + 1, "int64"), (2**40, "int64")):
        assert INDEX_RESULTS[name](count).dtype == dtype
        assert np.iinfo(dtype).max >= count - 1


@pytest.mark.parametrize("name", COUNT_RESULTS)
def test_contracts_infer_a_count_dtype_that_is_wide_enough(name):
    for count, dtype in ((1, "int32"), (2**31 - 1, "int32"), (2**31, "int64"), (2**40, "int64")):
        assert COUNT_RESULTS[name](count).dtype == dtype
        assert np.iinfo(dtype).max >= count


ROW = np.array([[3, 1, 2, 5, 4, 9, 8, 7]], "float32")
SEGMENT_IDS = np.array([0, 2, 2, 1, 2, 2, 2, 2])
CALLS_BY_KERNEL = {
    reduction.argmax: ([ROW], {"axis": 1}),
    reduction.argmin: ([ROW], {"axis": 1}),
    sorting.argsort: ([ROW], {"axis": 1, "descending": True, "stable": True}),
    sorting.top_k: ([ROW], {"k": 2, "sorted": True}),
    sorting.unique: ([ROW], {"axis": 1}),
    indexing.where_true: ([ROW > 2], {}),
    reduction.bincount: ([SEGMENT_IDS, None], {"size": 3}),
    reduction.dense_bincount: ([SEGMENT_IDS[None], None], {"size": 3, "binary_output": False}),
    sorting.search_sorted: ([np.sort(ROW), ROW], {"side": "right"}),
    sorting.lower_bound: ([np.sort(ROW), ROW], {}),
    sorting.upper_bound: ([np.sort(ROW), ROW], {}),
    pooling.max_pool_with_argmax: (
        [np.arange(64, dtype="float32").reshape(1, 8, 8, 1)],
        {"window": WINDOW, "include_batch_in_index": False},
    ),
}


@pytest.mark.parametrize("kernel", CALLS_BY_KERNEL, ids=lambda kernel: kernel.name)
def test_implementations_return_the_position_dtype_of_the_contract(kernel, monkeypatch):
    arrays, attrs = CALLS_BY_KERNEL[kernel]
    run = numpy_implementation(kernel)
    usual = list_of_results(run(*arrays, **attrs))
    monkeypatch.setattr(dtypes, "INT32_MAX_ELEMENTS", 4)
    specs = [None if x is None else Shaped(x.shape, plugrad.as_dtype(x.dtype)) for x in arrays]
    promised, found = (
        list_of_results(kernel.infer(*specs, **attrs)),
        list_of_results(run(*arrays, **attrs)),
    )
    assert promised[-1].dtype == "int64"
    for wide, narrow, part in zip(found, usual, promised, strict=True):
        assert wide.dtype == part.dtype.numpy
        np.testing.assert_array_equal(wide, narrow)


def list_of_results(results):
    return (
        list(results)
        if isinstance(results, tuple) and not isinstance(results, Shaped)
        else [results]
    )


def test_ops_count_in_int64(monkeypatch):
    monkeypatch.setattr(dtypes, "INT32_MAX_ELEMENTS", 4)
    with plugrad.use("cpu"):
        x = plugrad.asarray([1.0, 0.0, 2.0, 2.0, 0.0, 3.0, 1.0, 1.0, 5.0])
        assert plugrad.count_nonzero(x).dtype == plugrad.sum(x > 0).dtype == "int64"
        assert plugrad.count_nonzero(x).item() == 7
        assert plugrad.unique_counts(x).counts.tolist() == [2, 3, 2, 1, 1]
        assert plugrad.take(x, [8, -1]).tolist() == [5, 5]


def test_the_dtype_of_positions():
    assert position_dtype(0) == position_dtype(2**31) == "int32"
    assert position_dtype(2**31 + 1) == "int64"
