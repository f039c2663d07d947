"""Binary functions broadcast any two shapes as NumPy does, and gradients are summed to the input shapes."""

import hypothesis.extra.numpy as arrays
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as some

import plugrad

many_examples, few_examples = (
    settings(
        derandomize=True,
        deadline=None,
        max_examples=examples,
        suppress_health_check=[HealthCheck.function_scoped_fixture],  # it tells the backend
    )
    for examples in (80, 25)
)

SHAPE_PAIRS = arrays.mutually_broadcastable_shapes(num_shapes=2, min_side=0, max_dims=4, max_side=4)
SHAPE_TRIPLES = arrays.mutually_broadcastable_shapes(
    num_shapes=3, min_side=0, max_dims=3, max_side=4
)
EXACT_FUNCTIONS = [  # all that a float32 holds exactly, of small whole numbers
    (plugrad.add, np.add),
    (plugrad.subtract, np.subtract),
    (plugrad.multiply, np.multiply),
    (plugrad.maximum, np.maximum),
    (plugrad.minimum, np.minimum),
    (plugrad.floor_divide, np.floor_divide),
    (plugrad.remainder, np.remainder),
    (plugrad.squared_difference, lambda a, b: np.square(a - b)),
    (plugrad.less, np.less),
    (plugrad.equal, np.equal),
]


def random_nonzero_integers(shape, start=1):
    """Return small integers of both signs without 0, with repetitions."""
    count = np.arange(start, start + np.prod(shape, dtype=int))
    return np.where(count % 3 == 0, -1, 1).astype("float32").reshape(shape) * (
        count.reshape(shape) % 7 + 1
    ).astype("float32")


def sum_to_shape(gradient, shape):
    """Return a gradient summed over the broadcast axes of a shape."""
    lead = gradient.ndim - len(shape)
    summed = gradient.sum(axis=tuple(range(lead)))
    stretched = tuple(i for i, n in enumerate(shape) if n == 1 and summed.shape[i] != 1)
    return summed.sum(axis=stretched, keepdims=True)


@many_examples
@given(drawn=SHAPE_PAIRS, functions=some.sampled_from(EXACT_FUNCTIONS))
def test_values(drawn, functions, backend):
    a, b = (random_nonzero_integers(shape, start) for start, shape in enumerate(drawn.input_shapes))
    op, reference = functions
    actual, expected = op(plugrad.asarray(a), plugrad.asarray(b)).numpy(), reference(a, b)
    assert actual.shape == drawn.result_shape
    np.testing.assert_array_equal(actual, np.asarray(expected), strict=True)


@many_examples
@given(drawn=SHAPE_TRIPLES)
def test_where(drawn, backend):
    c, a, b = (
        random_nonzero_integers(shape, start) for start, shape in enumerate(drawn.input_shapes)
    )
    chosen = plugrad.where(plugrad.asarray(c > 0), plugrad.asarray(a), plugrad.asarray(b))
    np.testing.assert_array_equal(chosen.numpy(), np.where(c > 0, a, b), strict=True)


@few_examples
@given(drawn=SHAPE_PAIRS, functions=some.sampled_from(EXACT_FUNCTIONS[:3]))
def test_gradients(drawn, functions, backend):
    a, b = (random_nonzero_integers(shape, start) for start, shape in enumerate(drawn.input_shapes))
    dy = random_nonzero_integers(drawn.result_shape, 5)
    op, reference = functions

    def weighted(x, y):
        return plugrad.sum(op(x, y) * plugrad.asarray(dy))

    gradients = plugrad.grad(weighted, (0, 1))(plugrad.asarray(a), plugrad.asarray(b))
    slopes = {
        np.add: (1, 1),
        np.subtract: (1, -1),
        np.multiply: (b, a),
    }[reference]
    for gradient, slope, x in zip(gradients, slopes, (a, b), strict=True):
        expected = sum_to_shape(dy * slope, x.shape).astype("float32")
        np.testing.assert_array_equal(gradient.numpy(), expected, strict=True)


@few_examples
@given(shapes=some.tuples(*[arrays.array_shapes(max_dims=3, max_side=3)] * 2))
def test_other_shapes_are_refused(shapes, backend):
    try:
        expected = np.broadcast_shapes(*shapes)
    except ValueError:
        with pytest.raises(ValueError, match="do not broadcast"):
            plugrad.ones(shapes[0]) + plugrad.ones(shapes[1])
    else:
        assert (plugrad.ones(shapes[0]) + plugrad.ones(shapes[1])).shape == expected
