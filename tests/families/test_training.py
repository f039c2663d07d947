"""Functions that training loops use."""

import numpy as np
import pytest

import plugrad
from families.case import ErrorCase
from plugrad.errors import ArgumentError, ArgumentValueError, DTypeError, ShapeError
from plugrad.testing import check_gradient

# --- dropout --------------------------------------------------------------------------------------


def ones(*shape):
    return plugrad.ones(shape)


@pytest.mark.parametrize("rate", [0.25, 0.5, 0.9])
def test_dropout_zeroes_a_part_and_scales_the_rest(rate, backend):
    y = plugrad.dropout(ones(100, 200), rate, seed=0).numpy()
    kept = y != 0
    np.testing.assert_allclose(y[kept], np.float32(1 / (1 - rate)), rtol=1e-6)
    assert abs(kept.mean() - (1 - rate)) < 4 * np.sqrt(rate * (1 - rate) / y.size)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "complex64"])
def test_dropout_keeps_the_dtype(dtype, backend):
    if dtype not in plugrad.which().backend.dtypes():
        pytest.skip(f"{backend} has no {dtype}")
    y = plugrad.dropout(plugrad.ones((50,), dtype=dtype), 0.5, seed=0)
    assert (y.dtype, set(y.tolist())) == (dtype, {0, 2})


def test_rate_0_returns_the_tensor_and_draws_nothing(backend):
    x, generator = ones(3), plugrad.random.Generator(0)
    assert plugrad.dropout(x, 0, seed=generator).array is x.array
    assert generator.normal(2).tolist() == plugrad.random.Generator(0).normal(2).tolist()


@pytest.mark.parametrize("noise_shape", [(5, 1, 4), (1, 7, 1), (None, 1, None), (4,), (1,), ()])
def test_elements_share_the_mask_along_axes_of_size_1_in_the_noise_shape(noise_shape, backend):
    y = plugrad.dropout(ones(5, 7, 4), 0.5, noise_shape, seed=3).numpy()
    sizes = (1,) * (3 - len(noise_shape)) + noise_shape
    shared = tuple(axis for axis, size in enumerate(sizes) if size == 1)
    np.testing.assert_array_equal(y, np.broadcast_to(y.max(shared, keepdims=True), y.shape))
    np.testing.assert_array_equal(y, np.broadcast_to(y.min(shared, keepdims=True), y.shape))


def test_the_same_seed_drops_the_same_on_every_backend(backend):
    y = plugrad.dropout(ones(30), 0.5, seed=0)
    assert y.tolist() == plugrad.dropout(plugrad.ones(30, device="cpu"), 0.5, seed=0).tolist()
    assert y.tolist() == plugrad.dropout(ones(30), 0.5, seed=np.int64(0)).tolist()
    assert y.tolist() != plugrad.dropout(ones(30), 0.5, seed=1).tolist()


def test_without_a_seed_the_generator_of_the_module_decides(backend):
    plugrad.random.seed(0)
    first, second = (plugrad.dropout(ones(30), 0.5).tolist() for _ in range(2))
    assert first != second
    assert first == plugrad.dropout(ones(30), 0.5, seed=0).tolist()
    generator = plugrad.random.Generator(0)
    assert first == plugrad.dropout(ones(30), 0.5, seed=generator).tolist()
    assert second == plugrad.dropout(ones(30), 0.5, seed=generator).tolist()


def test_dropped_elements_are_0_even_if_not_finite(backend):
    y = plugrad.dropout(plugrad.asarray([np.inf, np.nan] * 20), 0.5, seed=0).numpy()
    assert (y == 0).sum() > 5
    assert plugrad.dropout(plugrad.zeros((0, 3)), 0.5).shape == (0, 3)


def test_gradient_flows_through_kept_elements(backend):
    x = plugrad.asarray([1.0, 2.0, 3.0, 4.0])
    kept = plugrad.dropout(ones(4), 0.5, seed=5)
    dx = plugrad.grad(lambda x: plugrad.sum(plugrad.dropout(x, 0.5, seed=5)))(x)
    assert dx.tolist() == kept.tolist()
    with plugrad.use("cpu"):
        for noise_shape in (None, (3, 1), (None, 4)):
            x = np.random.default_rng(0).normal(size=(3, 4))
            check_gradient(lambda x, n=noise_shape: plugrad.dropout(x, 0.4, n, seed=1) ** 2, x)


def test_the_mask_is_not_kept_for_the_backward_pass(backend):
    """The gradient draws the same words again."""
    x = plugrad.random.Generator(0).normal((1000, 100))
    found = []

    def loss(x):
        before = plugrad.memory().bytes
        y = plugrad.dropout(x, 0.25, seed=1)
        found.append(plugrad.memory().bytes - before)
        return plugrad.sum(y)

    one = plugrad.memory().bytes
    y = x + 1
    one = plugrad.memory().bytes - one
    plugrad.grad(loss)(x)
    assert found[0] < one + 1000
    del y


@pytest.mark.parametrize("noise_shape", [None, (1, 7)])
def test_later_derivatives_and_programs_take_the_same_mask(noise_shape, backend):
    x = plugrad.asarray(np.random.default_rng(0).normal(size=(5, 7)).astype("float32"))
    mask = plugrad.dropout(ones(5, 7), 0.5, noise_shape, seed=2).numpy()

    def cubes(x):
        return plugrad.sum(plugrad.dropout(x, 0.5, noise_shape, seed=2) ** 3)

    slope = plugrad.grad(cubes)
    second = plugrad.grad(lambda x: plugrad.sum(slope(x)))
    for first, then in ((slope, second), (plugrad.jit(slope), plugrad.jit(second))):
        np.testing.assert_allclose(first(x), 3 * mask**3 * x.numpy() ** 2, rtol=1e-5)
        np.testing.assert_allclose(then(x), 6 * mask**3 * x.numpy(), rtol=1e-5)
    np.testing.assert_array_equal(plugrad.grad(plugrad.jit(cubes))(x), slope(x))


@pytest.mark.parametrize("size", [8, 9])
def test_each_example_has_its_own_mask_also_in_the_gradient(size, backend):
    x = plugrad.asarray(np.random.default_rng(0).normal(size=(4, size)).astype("float32"))

    def make():
        generator = plugrad.random.Generator(3)
        return plugrad.grad(lambda x: plugrad.sum(plugrad.dropout(x, 0.5, seed=generator) * x))

    one_by_one = make()
    expected = [one_by_one(row).numpy() for row in x]
    found = plugrad.vmap(make(), randomness="different")(x)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert len({tuple(row) for row in found.numpy() == 0}) > 1


# --- moving_average -------------------------------------------------------------------------------


@pytest.mark.parametrize("wrap", [lambda f: f, plugrad.jit])
@pytest.mark.parametrize("levels", [1, 2])
def test_the_gradient_of_a_batch_has_a_mask_for_each_example(wrap, levels, backend):
    """Under a tape outside of `vmap`, all examples had the mask of the first one."""

    def drop(x):
        return plugrad.dropout(x, 0.5, seed=3)

    for _ in range(levels):
        drop = plugrad.vmap(drop, randomness="different")
    x = ones(*(4,) * levels, 20)
    masks = drop(x).numpy()
    assert len(np.unique(masks.reshape(-1, 20), axis=0)) == 4**levels
    slope = wrap(plugrad.grad(lambda x: plugrad.sum(drop(x) * x)))
    np.testing.assert_allclose(slope(x), 2 * masks, rtol=1e-6)


def test_moving_average_values(backend):
    average = plugrad.moving_average([1.0, 2.0], plugrad.asarray([3.0, 6.0]), 0.75)
    assert average.tolist() == [1.5, 3]
    assert plugrad.moving_average([1.0], [3.0], 1).tolist() == [1]


def test_average_of_equal_values_has_no_bias_with_a_step(backend):
    average = plugrad.zeros(1)
    for _ in range(3):
        average = plugrad.moving_average(average, [2.0], 0.5)
    assert average.tolist() == [1.75]
    assert plugrad.moving_average([0.0], [2.0], 0.5, step=1).tolist() == [2]


@pytest.mark.parametrize("decay", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("step", [1, 3])
def test_average_takes_the_step_and_the_decay_as_tensors(decay, step, backend):
    """So a traced program does not bake in those of its first call, and nothing waits for a device."""
    expected = plugrad.moving_average([1.0, 4.0], [2.0, 2.0], decay, step=step).numpy()
    for given in (
        (plugrad.asarray(decay), step),
        (decay, plugrad.asarray(step)),
        (plugrad.asarray(decay), plugrad.asarray(step)),
    ):
        found = plugrad.jit(lambda d, n: plugrad.moving_average([1.0, 4.0], [2.0, 2.0], d, step=n))(
            *given
        )
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)
        assert found.dtype is plugrad.float32


ERROR_CASES = [
    ErrorCase(lambda: plugrad.dropout(ones(2), 1), ArgumentValueError, ["dropout", "rate=1"]),
    ErrorCase(
        lambda: plugrad.dropout(ones(2), 1.5), ArgumentValueError, ["rate=1.5", "less than 1"]
    ),
    ErrorCase(
        lambda: plugrad.dropout(ones(2), -0.1), ArgumentValueError, ["rate=-0.1", "at least 0"]
    ),
    ErrorCase(lambda: plugrad.dropout(ones(2), np.nan), ArgumentValueError, ["rate=nan"]),
    ErrorCase(lambda: plugrad.dropout([1, 2], 0.5), DTypeError, ["dropout", "int32", "floating"]),
    ErrorCase(lambda: plugrad.dropout(ones(2), 0.5, (3,)), ShapeError, ["(2,)", "(3,)"]),
    ErrorCase(
        lambda: plugrad.dropout(ones(1), 0.5, (3,)), ShapeError, ["noise_shape=(3,)", "(1,)"]
    ),
    ErrorCase(lambda: plugrad.dropout(ones(2), 0.5, (1, None)), ShapeError, ["(1, None)", "(2,)"]),
    ErrorCase(lambda: plugrad.dropout(ones(2), 0.5, seed="a"), ArgumentError, ["seed='a'"]),
    ErrorCase(lambda: plugrad.dropout(ones(2), 0.5, seed=-1), ArgumentValueError, ["seed=-1"]),
    ErrorCase(lambda: plugrad.moving_average([1.0], [2.0], 2), ArgumentValueError, ["decay=2"]),
    ErrorCase(
        lambda: plugrad.moving_average([1.0], [2.0], 0.5, step=0), ArgumentValueError, ["step=0"]
    ),
    ErrorCase(
        lambda: plugrad.moving_average([1.0], [2.0, 3.0], 0.5),
        ShapeError,
        ["(1,)", "(2,)", "equal"],
    ),
]


@pytest.mark.rows("error_case", ERROR_CASES, ids=str)
def test_bad_input(error_case, backend):
    error_case.check()
