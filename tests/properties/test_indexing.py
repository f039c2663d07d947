"""Whatever the key, ``x[key]`` is what NumPy gives, or both refuse it; a gradient goes where its element came from."""

import hypothesis.extra.numpy as arrays
import numpy as np
from hypothesis import HealthCheck, given, settings, strategies as some

import plugrad

often, seldom = (
    settings(
        derandomize=True,
        deadline=None,
        max_examples=examples,
        suppress_health_check=[HealthCheck.function_scoped_fixture],  # it tells the backend
    )
    for examples in (100, 30)
)

SHAPES = arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)


def given_as(values):
    """The values as an array, a tensor, or a list, which tells their shape and kind unless it is empty."""
    lists = [values.tolist()] if values.size or values.dtype != bool else []
    return some.sampled_from([values, plugrad.asarray(values), *lists])


@some.composite
def positions(draw, size, common):
    """Positions on an axis, in a shape that broadcasts to a common one."""
    shape = draw(arrays.broadcastable_shapes(common, max_dims=len(common), max_side=3))
    if size == 0:
        shape = (*shape[:-1], 0)
    inside = some.integers(-size, max(size - 1, 0))
    return draw(given_as(draw(arrays.arrays("int32", shape, elements=inside))))


@some.composite
def mixed(draw, shape):
    """Parts of all kinds in any order, for some of the axes."""
    parts, axis = [], 0
    common = draw(arrays.array_shapes(max_dims=2, max_side=3))
    kinds = ["new", "number", "slice", "positions", "positions", "mask", "...", "stop"]
    while axis < len(shape) and (kind := draw(some.sampled_from(kinds))) != "stop":
        size, span = shape[axis], 1
        if kind == "new":
            span = 0
            parts.append(draw(some.sampled_from([None, True, False, np.array(True)])))
        elif kind == "...":
            span = draw(some.integers(0, len(shape) - axis))
            parts.append(...)
            kinds = kinds[:-2]  # what follows is about all axes that are left
        elif kind == "mask":
            span = draw(some.integers(1, len(shape) - axis))
            parts.append(draw(given_as(draw(arrays.arrays(bool, shape[axis : axis + span])))))
        elif kind == "positions":
            parts.append(draw(positions(size, common)))
        elif kind == "number" and size:
            parts.append(draw(some.integers(-size, size - 1)))
        else:
            parts.append(draw(some.slices(size)))
        axis += span
    return tuple(parts)


@some.composite
def shapes_and_keys(draw, keys):
    shape = draw(SHAPES)
    return shape, draw(keys(shape))


BASIC = shapes_and_keys(lambda shape: arrays.basic_indices(shape, allow_newaxis=True))
MIXED = shapes_and_keys(mixed)


def on_host(key):
    """Return a key that NumPy takes."""
    parts = key if isinstance(key, tuple) else (key,)
    return tuple(part.numpy() if isinstance(part, plugrad.Tensor) else part for part in parts)


def picked(x, key):
    """Return ``x[key]`` as a tensor or an array has it, or the kind of error that it raises."""
    try:
        return np.asarray(x[key])
    except IndexError:
        return IndexError


def check_values(shape, key):
    host = np.arange(np.prod(shape), dtype="int32").reshape(shape)
    expected, actual = picked(host, on_host(key)), picked(plugrad.asarray(host), key)
    assert (actual is IndexError) == (expected is IndexError)
    np.testing.assert_array_equal(actual, expected, strict=expected is not IndexError)


@often
@given(drawn=BASIC)
def test_numbers_and_slices(drawn, backend):
    check_values(*drawn)


@often
@given(drawn=MIXED)
def test_arrays_beside_all_others(drawn, backend):
    check_values(*drawn)


@seldom
@given(drawn=BASIC | MIXED)
def test_gradient(drawn, backend):
    shape, key = drawn
    expected = np.zeros(shape, "float32")
    if (weights := picked(expected, on_host(key))) is IndexError:
        return
    weights = np.arange(1, weights.size + 1, dtype="float32").reshape(weights.shape)
    np.add.at(expected, on_host(key), weights)
    pulled = plugrad.grad(lambda x: plugrad.sum(x[key] * plugrad.asarray(weights)))
    np.testing.assert_array_equal(pulled(plugrad.zeros(shape)).numpy(), expected)


@seldom
@given(data=some.data())
def test_taking_along_an_axis(data, backend):
    shape = data.draw(arrays.array_shapes(max_dims=3, max_side=4))
    axis = data.draw(some.integers(-len(shape), len(shape) - 1))
    count = data.draw(some.integers(0, 4))
    lines = [count if i == axis % len(shape) else n for i, n in enumerate(shape)]
    inside = some.integers(-shape[axis], shape[axis] - 1)
    places = data.draw(arrays.arrays("int32", lines, elements=inside))
    host = np.arange(np.prod(shape), dtype="int32").reshape(shape)
    actual = plugrad.take_along_axis(plugrad.asarray(host), places, axis=axis)
    np.testing.assert_array_equal(actual.numpy(), np.take_along_axis(host, places, axis))
    common = data.draw(some.lists(some.integers(-shape[axis], shape[axis] - 1), max_size=4))
    taken = plugrad.take(plugrad.asarray(host), common, axis=axis)
    np.testing.assert_array_equal(taken.numpy(), np.take(host, np.array(common, int), axis))
