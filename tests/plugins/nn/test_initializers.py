"""Initializers have the moments, the ranges and the shapes that their formulas promise."""

import numpy as np
import pytest

import plugrad
from plugrad.extend import ShapeError
from plugrad_nn import initializers

SHAPE = (3, 40, 60)  # fan_in 120, fan_out 180


@pytest.mark.parametrize(
    ("initializer", "variance"),
    [
        (initializers.glorot_uniform, 2 / 300),
        (initializers.glorot_normal, 2 / 300),
        (initializers.he_uniform, 2 / 120),
        (initializers.he_normal, 2 / 120),
        (initializers.lecun_uniform, 1 / 120),
        (initializers.lecun_normal, 1 / 120),
        (initializers.VarianceScaling(3.0, "out", "normal"), 3 / 180),
        (initializers.Uniform(-0.2, 0.2), 0.04 / 3),
        (initializers.Normal(0.0, 0.3), 0.09),
        (initializers.TruncatedNormal(0.0, 0.3), 0.09 * 0.7737413),
        (initializers.zeros, 0.0),
        (initializers.ones, 0.0),
    ],
    ids=str,
)
def test_variance_of_initializers(initializer, variance, backend):
    values = initializer(plugrad.random.Generator(1), SHAPE)
    assert (values.shape, values.dtype) == (SHAPE, plugrad.float32)
    found = values.numpy().astype(np.float64)
    assert abs(found.var() - variance) <= 0.05 * variance  # 7,200 numbers
    assert abs(found.mean() - (initializer is initializers.ones)) <= 0.05 * variance**0.5
    with plugrad.use("cpu"):
        theirs = initializer(plugrad.random.Generator(1), SHAPE)
        of_doubles = initializer(plugrad.random.Generator(1), SHAPE, "float64")
    np.testing.assert_array_max_ulp(values.numpy(), theirs.numpy(), 2)
    assert of_doubles.dtype == plugrad.float64
    assert abs(of_doubles.numpy().var() - variance) <= 0.05 * variance


@pytest.mark.parametrize("shape", [(4, 4), (6, 3), (3, 6), (2, 3, 4)])
def test_orthogonal_matrices(shape, backend):
    values = initializers.Orthogonal(2.0)(plugrad.random.Generator(0), shape).numpy()
    matrix = values.reshape(-1, shape[-1]).astype(np.float64)
    rows, columns = matrix.shape
    product = matrix.T @ matrix if rows >= columns else matrix @ matrix.T
    np.testing.assert_allclose(product, 4 * np.eye(min(rows, columns)), atol=1e-5)


def test_orthogonal_needs_a_matrix():
    with pytest.raises(ShapeError, match="two axes or more"):
        initializers.orthogonal(plugrad.random.Generator(0), (3,))
