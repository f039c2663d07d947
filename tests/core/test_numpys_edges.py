"""What NumPy and the libraries around it do with tensors."""

import matplotlib as mpl
import numpy as np
import pytest

import plugrad
from plugrad.errors import ArgumentError

VALUES = np.array([[1.0, -2.0, 3.0], [0.5, 4.0, -6.0]], "float32")


def test_a_0d_tensor_is_not_iterable(backend):
    with pytest.raises(TypeError, match="0-d tensor"):
        iter(plugrad.asarray(1.0))
    assert np.iterable(plugrad.zeros(2))
    assert not np.iterable(plugrad.asarray(1.0))


@pytest.mark.parametrize("name", ["sum", "mean", "max", "min", "argmax"])
def test_numpys_functions_call_the_methods(name, backend):
    x, function = plugrad.asarray(VALUES), getattr(np, name)
    for given in ({}, {"axis": 1}, {"axis": 0, "keepdims": True}):
        result = function(x, **given)
        assert isinstance(result, plugrad.Tensor)
        np.testing.assert_allclose(result.numpy(), function(VALUES, **given), rtol=1e-6)
    with pytest.raises(ArgumentError, match=rf"{name}: out is a ndarray, .*y\[...\] = x.{name}"):
        getattr(x, name)(out=np.zeros(()))


def test_sums_and_means_take_a_dtype():
    x = plugrad.asarray(VALUES)
    assert np.sum(x, dtype="float64").dtype == "float64"
    assert x.mean(dtype="float64", axis=1).dtype == "float64"
    assert plugrad.asarray([1, 2]).sum(dtype="float32").dtype == "float32"


def test_matplotlib_draws_tensors(backend):
    mpl.use("agg")
    from matplotlib import pyplot  # once the backend of Matplotlib is chosen

    figure, axes = pyplot.subplots()
    x = plugrad.asarray(VALUES)
    counts, _, _ = axes.hist(x.reshape(-1), bins=3)
    np.testing.assert_array_equal(counts, np.histogram(VALUES, bins=3)[0])
    line = axes.axvline(x[0, 0])
    assert list(line.get_xdata()) == [1, 1]
    axes.plot(x[0], x[1])
    pyplot.close(figure)
