"""Softmax of float64, by vectors: every length, rows with infinities and NaN, and each row alone as among others."""

import numpy as np
import pytest

import plugrad

ROW_LENGTHS = (1, 2, 3, 7, 8, 9, 15, 16, 17, 64, 1001)


@pytest.mark.parametrize("length", ROW_LENGTHS)
def test_rows_of_every_length(length, rng):
    x = rng.normal(size=(5, length)) * 30
    x[1] = -1e300
    x[2, 0] = -np.inf if length > 1 else 0.0
    x[3] += 1e4
    shifted = x - x.max(1, keepdims=True)
    with np.errstate(all="ignore"):
        powers = np.exp(shifted.astype(np.longdouble))
        expected = powers / powers.sum(1, keepdims=True)
        logarithms = shifted - np.log(powers.sum(1, keepdims=True))
    with plugrad.use("cpu"):
        found = plugrad.softmax(plugrad.asarray(x)).numpy()
        logs = plugrad.log_softmax(plugrad.asarray(x)).numpy()
        alone = [plugrad.softmax(plugrad.asarray(row)).numpy() for row in x]
    np.testing.assert_allclose(found, expected.astype("d"), rtol=2e-15, atol=5e-324)
    np.testing.assert_allclose(logs, logarithms.astype("d"), rtol=2e-15, atol=2e-15)
    assert found.tobytes() == np.stack(alone).tobytes()


@pytest.mark.parametrize("place", [0, 5, 12])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_softmax_of_nonfinite_rows_is_nan(place, value, rng):
    x = rng.normal(size=(2, 13))
    x[0, place] = value
    with plugrad.use("cpu"):
        for function in (plugrad.softmax, plugrad.log_softmax):
            found = function(plugrad.asarray(x)).numpy()
            assert np.isnan(found[0, place])
            assert np.isfinite(found[1]).all()
