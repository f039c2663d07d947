"""For random keys, ``x[key]`` matches NumPy in values and errors; gradients reach the selected elements."""

from functools import cache
from typing import Any, NamedTuple

import hypothesis.extra.numpy as arrays
import numpy as np
from hypothesis import HealthCheck, given, settings, strategies as some

import plugrad

SHAPES = arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)


class TensorPlaceholder(NamedTuple):
    """A placeholder in a key for a tensor of the active backend; examples are drawn once for all backends."""

    values: Any


def given_as(values):
    """Return a strategy that gives values as an array, a tensor, or a nonempty list."""
    lists = [values.tolist()] if values.size or values.dtype != bool else []
    return some.sampled_from([values, TensorPlaceholder(values), *lists])


@some.composite
def index_arrays(draw, size, common):
    """Strategies for indices along an axis, with a shape that broadcasts to a common one."""
    shape = draw(arrays.broadcastable_shapes(common, max_dims=len(common), max_side=3))
    if size == 0:
        shape = (*shape[:-1], 0)
    inside = some.integers(-size, max(size - 1, 0))
    return draw(given_as(draw(arrays.arrays("int32", shape, elements=inside))))


@some.composite
def mixed_keys(draw, shape):
    """Strategies for keys with parts of all kinds, for some of the axes."""
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
            parts.append(draw(index_arrays(size, common)))
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


BASIC_KEYS = shapes_and_keys(lambda shape: arrays.basic_indices(shape, allow_newaxis=True))
MIXED_KEYS = shapes_and_keys(mixed_keys)
ALL_KEYS = BASIC_KEYS | MIXED_KEYS


@cache
def draw_examples(keys, count):
    """Return examples of shapes and keys; drawing them takes longer than testing them."""
    found = []

    @settings(derandomize=True, deadline=None, max_examples=count)
    @given(drawn=keys)
    def draw(drawn):
        found.append(drawn)

    draw()
    return found


def check_all(check, keys, count):
    """Check each shape and key, and name the one that fails."""
    for shape, key in draw_examples(keys, count):
        try:
            check(shape, key)
        except Exception as failure:
            failure.add_note(f"The shape is {shape}, the key {key!r}.")
            raise


def convert_key(key, convert):
    """Return a key with its tensor placeholders converted by a function."""
    parts = key if isinstance(key, tuple) else (key,)
    return tuple(
        convert(part.values) if isinstance(part, TensorPlaceholder) else part for part in parts
    )


def numpy_key(key):
    """Return a key for NumPy."""
    return convert_key(key, np.asarray)


def tensor_key(key):
    """Return a key with its placeholders replaced by tensors of the active backend."""
    parts = key if isinstance(key, tuple) else ()
    return (
        convert_key(key, plugrad.asarray)
        if any(isinstance(x, TensorPlaceholder) for x in parts)
        else key
    )


def index_or_error(x, key):
    """Return ``x[key]`` of a tensor or an array, or the type of the error that it raises."""
    try:
        return np.asarray(x[key])
    except IndexError:
        return IndexError


def key_with_tensors(key):
    """Return a key with its arrays converted to tensors."""
    parts = key if isinstance(key, tuple) else (key,)
    return tuple(
        TensorPlaceholder(part) if isinstance(part, np.ndarray) else part for part in parts
    )


def check_values(shape, key):
    host = np.arange(np.prod(shape), dtype="int32").reshape(shape)
    expected = index_or_error(host, numpy_key(key))
    for given_key in (key, key_with_tensors(key)):
        actual = index_or_error(plugrad.asarray(host), tensor_key(given_key))
        assert (actual is IndexError) == (expected is IndexError)
        np.testing.assert_array_equal(actual, expected, strict=expected is not IndexError)


def test_numbers_and_slices(backend):
    check_all(check_values, BASIC_KEYS, 100)


def test_array_keys_beside_other_keys(backend):
    check_all(check_values, MIXED_KEYS, 100)


def check_gradient(shape, key):
    expected = np.zeros(shape, "float32")
    if (weights := index_or_error(expected, numpy_key(key))) is IndexError:
        return
    weights = np.arange(1, weights.size + 1, dtype="float32").reshape(weights.shape)
    np.add.at(expected, numpy_key(key), weights)
    given_key = tensor_key(key)
    pulled = plugrad.grad(lambda x: plugrad.sum(x[given_key] * plugrad.asarray(weights)))
    np.testing.assert_array_equal(pulled(plugrad.zeros(shape)).numpy(), expected)


def test_gradient(backend):
    check_all(check_gradient, ALL_KEYS, 30)


@settings(
    derandomize=True,
    deadline=None,
    max_examples=30,
    suppress_health_check=[HealthCheck.function_scoped_fixture],  # it tells the backend
)
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
