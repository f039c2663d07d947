"""Movement ops of random arrays agree with NumPy's, and inverse ops restore the input."""

import hypothesis.extra.numpy as arrays
import numpy as np
import pytest
from hypothesis import given, settings, strategies as some

import plugrad

fixed_examples = settings(derandomize=True, deadline=None, max_examples=50)

DTYPES = ("float32", "float64", "float16", "int8", "int32", "uint64", "bool", "complex64")
SHAPES = arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)
SHIFTS = some.integers(-7, 7)


@pytest.fixture(autouse=True, scope="module")
def on_cpu():
    """Run the test on the cpu; tests/families covers the other backends."""
    with plugrad.use("cpu"):
        yield


def assert_same(actual, expected):
    """Raise unless values, shape and dtype are equal; NaN equals NaN."""
    values = actual.numpy()
    assert (values.shape, values.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_array_equal(values, expected)


def random_arrays(shapes=SHAPES):
    """Strategies for arrays of any dtype, about half of them views of a larger one."""
    any_array = some.sampled_from(DTYPES).flatmap(lambda dtype: arrays.arrays(dtype, shapes))
    return some.one_of(any_array, any_array.map(lambda x: x.T))


def random_arrays_with_axes(shapes=SHAPES):
    return random_arrays(arrays.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=4))


def draw_axis(data, x):
    return data.draw(some.integers(-x.ndim, x.ndim - 1), "axis")


def draw_axes(data, x):
    """Draw None, an axis, or several distinct axes."""
    several = some.permutations(range(x.ndim)).flatmap(
        lambda order: some.integers(0, x.ndim).map(lambda n: tuple(order[:n]))
    )
    return data.draw(some.one_of(some.none(), several), "axes")


@fixed_examples
@given(random_arrays(), some.data())
def test_reshape(x, data):
    sizes = data.draw(some.permutations([*x.shape, 1]), "shape")
    assert_same(plugrad.reshape(x, sizes), x.reshape(sizes))
    assert_same(plugrad.reshape(plugrad.reshape(x, sizes), x.shape), x)
    assert_same(plugrad.reshape(x, (x.size,)), x.reshape(-1))


@fixed_examples
@given(random_arrays(), some.data())
def test_permute_dims(x, data):
    axes = data.draw(some.permutations(range(x.ndim)), "axes")
    y = plugrad.permute_dims(x, axes)
    assert_same(y, x.transpose(axes))
    assert_same(plugrad.permute_dims(y, np.argsort(axes).tolist()), x)
    assert_same(plugrad.permute_dims(x), x.T)


@fixed_examples
@given(random_arrays_with_axes(), some.data())
def test_moveaxis(x, data):
    source, destination = draw_axis(data, x), draw_axis(data, x)
    assert_same(plugrad.moveaxis(x, source, destination), np.moveaxis(x, source, destination))


@fixed_examples
@given(random_arrays(), some.data())
def test_flip(x, data):
    axes = draw_axes(data, x)
    y = plugrad.flip(x, axis=axes)
    assert_same(y, np.flip(x, axes))
    assert_same(plugrad.flip(y, axis=axes), x)


@fixed_examples
@given(random_arrays_with_axes(), SHIFTS, some.data())
def test_roll(x, shift, data):
    axis = data.draw(some.one_of(some.none(), some.integers(-x.ndim, x.ndim - 1)), "axis")
    y = plugrad.roll(x, shift, axis=axis)
    assert_same(y, np.roll(x, shift, axis))
    assert_same(plugrad.roll(y, -shift, axis=axis), x)
    shifts = tuple(data.draw(SHIFTS) for _ in x.shape)
    axes = tuple(range(x.ndim))
    assert_same(plugrad.roll(x, shifts, axis=axes), np.roll(x, shifts, axes))


@fixed_examples
@given(random_arrays_with_axes(), some.data())
def test_split_and_concat(x, data):
    axis = draw_axis(data, x)
    size = x.shape[axis]
    cuts = sorted(data.draw(some.lists(some.integers(0, size), max_size=3), "cuts"))
    sizes = np.diff([0, *cuts, size]).tolist()
    parts = plugrad.split(x, sizes, axis)
    for part, expected in zip(parts, np.split(x, cuts, axis), strict=True):
        assert_same(part, expected)
    assert_same(plugrad.concat(parts, axis=axis), x)
    assert_same(
        plugrad.concat(parts, axis=None), np.concatenate([p.numpy() for p in parts], axis=None)
    )


@fixed_examples
@given(random_arrays_with_axes(), some.data())
def test_unstack_and_stack(x, data):
    axis = draw_axis(data, x)
    parts = plugrad.unstack(x, axis=axis)
    for part, expected in zip(parts, np.moveaxis(x, axis, 0), strict=True):
        assert_same(part, expected)
    if parts:
        assert_same(plugrad.stack(parts, axis=axis), x)


@fixed_examples
@given(random_arrays(), some.data())
def test_expand_dims_and_squeeze(x, data):
    axis = data.draw(some.integers(-x.ndim - 1, x.ndim), "axis")
    y = plugrad.expand_dims(x, axis)
    assert_same(y, np.expand_dims(x, axis))
    assert_same(plugrad.squeeze(y, axis), x)
    assert_same(plugrad.squeeze(x), x.squeeze())


@fixed_examples
@given(arrays.mutually_broadcastable_shapes(num_shapes=3, min_side=0, max_side=4), some.data())
def test_broadcasting(shapes, data):
    given = [
        data.draw(random_arrays(some.just(shape))).reshape(shape) for shape in shapes.input_shapes
    ]
    assert plugrad.broadcast_shapes(*shapes.input_shapes) == shapes.result_shape
    for y, expected in zip(
        plugrad.broadcast_arrays(*given), np.broadcast_arrays(*given), strict=True
    ):
        assert_same(y, expected)
    assert_same(
        plugrad.broadcast_to(given[0], shapes.result_shape),
        np.broadcast_to(given[0], shapes.result_shape),
    )
    a, b = shapes.input_shapes[:2]
    assert plugrad.broadcast_args(list(a), list(b)).tolist() == [*np.broadcast_shapes(a, b)]


@fixed_examples
@given(random_arrays_with_axes(), some.data())
def test_repeat(x, data):
    axis = data.draw(some.one_of(some.none(), some.integers(-x.ndim, x.ndim - 1)), "axis")
    count = data.draw(some.integers(0, 3), "count")
    assert_same(plugrad.repeat(x, count, axis=axis), np.repeat(x, count, axis))
    size = x.size if axis is None else x.shape[axis]
    counts = data.draw(some.lists(some.integers(0, 3), min_size=size, max_size=size), "counts")
    assert_same(plugrad.repeat(x, counts, axis=axis), np.repeat(x, np.asarray(counts, int), axis))


@fixed_examples
@given(random_arrays(), some.lists(some.integers(0, 3), max_size=5))
def test_tile(x, counts):
    assert_same(plugrad.tile(x, counts), np.tile(x, counts))


@fixed_examples
@given(random_arrays_with_axes(), some.data())
def test_pad(x, data):
    pair = some.tuples(some.integers(0, 3), some.integers(0, 3))
    paddings = [data.draw(pair) for _ in x.shape]
    value = data.draw(some.sampled_from([0, 1]))
    y = plugrad.pad(x, paddings, value)
    assert_same(y, np.pad(x, paddings, constant_values=value))
    assert_same(plugrad.slice(y, [before for before, _ in paddings], x.shape), x)


@fixed_examples
@given(random_arrays_with_axes(), some.sampled_from(["reflect", "symmetric"]), some.data())
def test_mirror_pad(x, mode, data):
    limits = [max(0, n - (mode == "reflect")) for n in x.shape]
    paddings = [data.draw(some.tuples(*[some.integers(0, limit)] * 2)) for limit in limits]
    assert_same(plugrad.mirror_pad(x, paddings, mode), np.pad(x, paddings, mode=mode))


@fixed_examples
@given(random_arrays_with_axes(), some.data())
def test_batch_to_space_restores_the_input(x, data):
    count = data.draw(some.integers(0, x.ndim - 1), "axes")
    blocks = [data.draw(some.integers(1, 3)) for _ in range(count)]
    before = [data.draw(some.integers(0, 2)) for _ in range(count)]
    paddings = [
        (b, -(b + n) % block)
        for b, n, block in zip(before, x.shape[1 : 1 + count], blocks, strict=True)
    ]
    y = plugrad.space_to_batch_nd(x, blocks, paddings)
    assert y.shape[0] == x.shape[0] * np.prod(blocks, dtype=int)
    assert_same(plugrad.batch_to_space_nd(y, blocks, paddings), x)


@fixed_examples
@given(random_arrays(), some.data())
def test_strided_slice(x, data):
    bound, step = some.integers(-6, 6), some.integers(-3, 3).filter(bool)
    rank = data.draw(some.integers(0, x.ndim))
    begin, end, strides = ([data.draw(s) for _ in range(rank)] for s in (bound, bound, step))
    masks = [data.draw(some.integers(0, 2**rank - 1)) for _ in range(2)]
    key = tuple(
        slice(None if masks[0] >> i & 1 else b, None if masks[1] >> i & 1 else e, s)
        for i, (b, e, s) in enumerate(zip(begin, end, strides, strict=True))
    )
    assert_same(plugrad.strided_slice(x, begin, end, strides, *masks), x[key])
