"""Caches of validated attributes let no wrong arguments pass, and confuse no shapes or dtypes."""

import numpy as np
import pytest

import plugrad
from plugrad.errors import AxisError

OPS_WITH_AXIS = [
    plugrad.softmax,
    plugrad.log_softmax,
    plugrad.sort,
    plugrad.argsort,
    plugrad.argmax,
    plugrad.argmin,
    plugrad.cumulative_sum,
    plugrad.expand_dims,
    plugrad.squeeze,
    plugrad.layer_norm,
    plugrad.unstack,
    lambda x, axis: plugrad.concat([x, x], axis=axis),
    lambda x, axis: plugrad.stack([x, x], axis=axis),
]


def result_arrays(result):
    """Return a tensor, or several of equal shape, as one array with a new first axis."""
    parts = result if isinstance(result, tuple | list) else [result]
    return np.stack([part.numpy() for part in parts])


@pytest.mark.parametrize("op", OPS_WITH_AXIS)
def test_floats_and_bools_equal_to_a_cached_axis_are_rejected(op):
    x = plugrad.asarray([[1.0], [3.0]])
    expected = result_arrays(op(x, axis=1))
    for wrong in (1.0, 1 + 0j, "1"):
        with pytest.raises(AxisError):
            op(x, axis=wrong)
    for same in (np.int64(1), 1):
        np.testing.assert_array_equal(result_arrays(op(x, axis=same)), expected)


@pytest.mark.parametrize("op", OPS_WITH_AXIS)
def test_an_axis_out_of_range_is_an_error_in_every_call(op):
    x = plugrad.asarray([[1.0], [3.0]])
    for _ in range(2):
        with pytest.raises(AxisError, match="axis=9 is out of range"):
            op(x, axis=9)


def test_permute_dims_rejects_axes_that_are_no_integers_in_every_call():
    x = plugrad.asarray([[1.0, 2.0]])
    assert plugrad.permute_dims(x, (1, 0)).shape == (2, 1)
    assert plugrad.permute_dims(x, [-1, 0]).shape == (2, 1)
    for wrong in ((1.0, 0), (1, 0, 0), (1, 1)):
        with pytest.raises(AxisError):
            plugrad.permute_dims(x, wrong)


def test_cached_roll_plans_depend_on_shape_and_dtype():
    for array in (np.arange(6.0).reshape(2, 3), np.arange(6).reshape(3, 2), np.zeros((0, 2))):
        for shift, axis in ((1, 0), (-1, 1), ((1, 2), (0, 1)), ((1, 1), (0, 0)), (0, 0)):
            y = plugrad.roll(plugrad.asarray(array), shift, axis=axis)
            np.testing.assert_array_equal(y.numpy(), np.roll(array, shift, axis))
            assert y.numpy().dtype == array.dtype


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
@pytest.mark.parametrize(
    ("shape", "axis"), [((40, 33), 0), ((3, 20, 16), 1), ((5, 7, 3), 1), ((9, 50), 1)]
)
def test_positions_of_extremes_in_wide_and_narrow_columns(shape, axis, dtype):
    array = np.random.default_rng(0).integers(-9, 9, shape).astype(dtype)  # with many equal ones
    if dtype.startswith("float"):
        array[-1, -2] = np.nan
    x = plugrad.asarray(array, device="cpu")
    np.testing.assert_array_equal(plugrad.argmax(x, axis=axis).numpy(), np.argmax(array, axis))
    np.testing.assert_array_equal(plugrad.argmin(x, axis=axis).numpy(), np.argmin(array, axis))
