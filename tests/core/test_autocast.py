"""`plugrad.autocast`: which kernels compute in which dtype, where the block counts, and what gradients are."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import plugrad
from plugrad.engine.autocast import FLOAT32_KERNELS, HALF_PRECISION_KERNELS
from plugrad.errors import ArgumentValueError, DTypeError
from plugrad.extend import Spec, composite, kernel
from plugrad.settings.journal import record_registrations

HALF_DTYPES = ("bfloat16", "float16")


def random_normal(*shape, seed=0, dtype="float32"):
    return plugrad.random.Generator(seed).normal(shape, dtype=dtype)


@pytest.mark.parametrize("half", HALF_DTYPES)
def test_kernels_compute_in_the_dtype_of_the_table(backend, half):
    x, image = random_normal(4, 4), random_normal(1, 6, 6, 2)
    filters = random_normal(3, 3, 2, 4)
    narrow = x.astype(half)
    with plugrad.autocast(half):
        for y in (
            x @ x,
            plugrad.einsum("ij,jk->ik", x, narrow),
            plugrad.conv2d(image, filters),
            plugrad.fused.matmul(x, x, bias=x[0], activation="relu"),
            plugrad.attention(*[random_normal(1, 2, 3, 4)] * 3),
            plugrad.relu(narrow),
            plugrad.tanh(narrow),
            narrow + narrow,
            plugrad.max_pool(plugrad.conv2d(image, filters), 2, strides=2),
        ):
            assert y.dtype == half
        for y in (
            plugrad.sum(narrow),
            plugrad.mean(narrow),
            plugrad.exp(narrow),
            plugrad.log(plugrad.abs(narrow)),
            narrow**3,
            plugrad.softmax(narrow),
            plugrad.log_softmax(narrow),
            plugrad.layer_norm(narrow),
            plugrad.cumulative_sum(narrow, axis=0),
            plugrad.losses.mean_squared_error(narrow, narrow),
            narrow + x,
            plugrad.relu(x),
        ):
            assert y.dtype == "float32"
    assert not HALF_PRECISION_KERNELS & FLOAT32_KERNELS
    assert (x @ x).dtype == "float32"


def test_other_dtypes_are_not_cast():
    with plugrad.use("cpu"), plugrad.autocast("bfloat16"):
        x = random_normal(3, 3, dtype="float64")
        assert (x @ x).dtype == plugrad.exp(x).dtype == "float64"
        whole = plugrad.ones((2, 2), dtype="int32")
        assert (whole @ whole).dtype == plugrad.sum(whole).dtype == "int32"
        mixed = plugrad.ones((2, 2), dtype="float16") @ plugrad.ones((2, 2), dtype="bfloat16")
        assert mixed.dtype == "bfloat16"


def test_products_equal_products_of_cast_operands(backend):
    x, w = random_normal(5, 7), random_normal(7, 3, seed=1)
    with plugrad.autocast("bfloat16"):
        y = x @ w
    np.testing.assert_array_equal(y.numpy(), (x.astype("bfloat16") @ w.astype("bfloat16")).numpy())


def weighted_layer_norm(x, **parts):
    return plugrad.sum(plugrad.layer_norm(x, **parts) * random_normal(6, 8, seed=3))


@pytest.mark.parametrize("names", [(), ("scale",), ("offset",), ("offset", "scale")], ids=str)
@pytest.mark.parametrize("half", HALF_DTYPES)
def test_the_gradient_of_a_layer_norm_is_that_of_rounded_differences(backend, half, names):
    """Only the differences from the mean are rounded to half precision: a large mean costs no digits."""
    parts = {name: random_normal(8, seed=i + 1) for i, name in enumerate(names)}
    step = 2.0**-8 if half == "bfloat16" else 2.0**-11
    for x in (random_normal(6, 8), random_normal(6, 8) + 1000):
        given = {"x": x, **parts}
        slope = plugrad.grad(lambda given: weighted_layer_norm(**given))
        expected = slope(given)
        value, calls = weighted_layer_norm(**given), [slope, plugrad.jit(slope)]
        with plugrad.autocast(half):
            assert weighted_layer_norm(**given).numpy() == value.numpy()
            found = [call(given) for call in calls]
        for gradients in found:
            for name, g in gradients.items():
                assert g.dtype == "float32"
                wanted = expected[name].numpy()
                np.testing.assert_allclose(
                    g.numpy(), wanted, 0, 4 * step * np.abs(wanted).max(), err_msg=name
                )


@pytest.mark.parametrize("half", HALF_DTYPES)
def test_layer_norms_of_half_precision_and_of_zero_rows(backend, half):
    x = random_normal(6, 8).astype(half)
    expected = plugrad.grad(weighted_layer_norm)(x.astype("float32")).numpy()
    with plugrad.autocast(half):
        found = plugrad.grad(weighted_layer_norm)(x)
        empty = plugrad.grad(lambda x: plugrad.sum(plugrad.layer_norm(x)))(plugrad.zeros((0, 4)))
    assert (found.dtype, empty.shape) == (half, (0, 4))
    np.testing.assert_allclose(found.numpy().astype("float32"), expected, 0.02, 0.02)


def test_the_gradient_of_a_layer_norm_can_be_differentiated(backend):
    x, scale = random_normal(6, 8), random_normal(8, seed=1)

    def slope(x, scale):
        return plugrad.sum(plugrad.grad(lambda x: weighted_layer_norm(x, scale=scale))(x) ** 2)

    both = plugrad.grad(slope, argnums=(0, 1))
    expected = both(x, scale)
    with plugrad.autocast("float16"):
        found = both(x, scale)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), 0, 5e-3 * np.abs(b.numpy()).max())


def network(x, w, v):
    h = plugrad.tanh(x @ w)
    return plugrad.mean(plugrad.softmax(h @ v) ** 2)


@pytest.mark.parametrize("half", HALF_DTYPES)
def test_gradients_are_float32_and_close_to_those_without_autocast(backend, half):
    arguments = random_normal(6, 5), random_normal(5, 4, seed=1), random_normal(4, 3, seed=2)
    expected = plugrad.grads(network)(*arguments)
    with plugrad.autocast(half):
        found = plugrad.grads(network)(*arguments)
        value = network(*arguments)
    assert value.dtype == "float32"
    for g, right in zip(found, expected, strict=True):
        assert g.dtype == "float32"
        np.testing.assert_allclose(g.numpy(), right.numpy(), rtol=0.1, atol=2e-3)


def test_gradients_do_not_depend_on_where_the_backward_pass_runs(backend):
    x, w, v = random_normal(6, 5), random_normal(5, 4, seed=1), random_normal(4, 3, seed=2)

    def network_in_autocast(x):
        with plugrad.autocast("bfloat16"):
            return network(x, w, v)

    with plugrad.autocast("bfloat16"):
        around = plugrad.grad(lambda x: network(x, w, v))(x)
    np.testing.assert_array_equal(plugrad.grad(network_in_autocast)(x).numpy(), around.numpy())


def test_second_order_gradients_inside_autocast(backend):
    x = random_normal(3, 3)

    def slope(x):
        return plugrad.sum(plugrad.grad(lambda x: plugrad.sum(plugrad.tanh(x @ x)))(x))

    expected = plugrad.grad(slope)(x)
    with plugrad.autocast("bfloat16"):
        found = plugrad.grad(slope)(x)
    assert found.dtype == "float32"
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=0.1, atol=0.3)


def test_recomputation_in_the_backward_pass_uses_half_precision(backend):
    """A checkpoint computes the same values in the backward pass."""
    x, w, v = random_normal(6, 5), random_normal(5, 4, seed=1), random_normal(4, 3, seed=2)
    with plugrad.autocast("bfloat16"):
        plain = plugrad.grad(lambda x: network(x, w, v))(x)
        again = plugrad.grad(plugrad.checkpoint(lambda x: network(x, w, v)))(x)
    np.testing.assert_array_equal(again.numpy(), plain.numpy())


def test_a_traced_loop_and_its_gradient(backend):
    w, xs = random_normal(4, 4), random_normal(3, 2, 4, seed=1)

    def loss(w):
        def step(h, x):
            h = plugrad.tanh(h @ w + x).astype("float32")
            return h, h

        last, states = plugrad.scan(step, plugrad.zeros((2, 4)), xs)
        return plugrad.sum(last) + plugrad.mean(states)

    with plugrad.autocast("bfloat16"):
        plain = plugrad.grad(loss)(w)
        traced = plugrad.jit(plugrad.grad(loss))(w)
    assert traced.dtype == "float32"
    np.testing.assert_allclose(traced.numpy(), plain.numpy(), rtol=1e-5, atol=1e-6)


def test_traced_functions_are_traced_again_inside_autocast(backend):
    traces = []

    @plugrad.jit
    def product(x):
        traces.append(1)
        return x @ x

    x = random_normal(4, 4)
    for dtype in ("float32", *HALF_DTYPES, "float32", *HALF_DTYPES):
        with plugrad.autocast(dtype):
            assert product(x).dtype == dtype
    assert len(traces) == 3


def test_vmap_inside_autocast(backend):
    x, w = random_normal(5, 3, 4), random_normal(4, 2, seed=1)
    with plugrad.autocast("bfloat16"):
        found = plugrad.vmap(lambda row: plugrad.softmax(row @ w))(x)
        one = plugrad.stack([plugrad.softmax(row @ w) for row in x])
        inner = plugrad.vmap(lambda row: row @ w)(x)
    assert (found.dtype, inner.dtype) == ("float32", "bfloat16")
    np.testing.assert_allclose(found.numpy(), one.numpy(), rtol=1e-6)


def test_kernel_bodies_under_autocast_keep_the_contract(backend):
    with record_registrations() as journal:

        @kernel("AutocastExample", family="example")
        def example(x: Spec) -> Spec:
            return x

        @composite(example)
        def body(x):
            return x @ x + plugrad.sum(x)

    try:
        x = random_normal(3, 3)
        with plugrad.autocast("bfloat16"):
            assert example(x).dtype == "float32"
            assert example(x.astype("bfloat16")).dtype == "bfloat16"
            assert plugrad.grad(lambda x: plugrad.sum(example(x)))(x).dtype == "float32"
    finally:
        journal.undo()


def test_autocast_blocks_nest_and_end():
    with plugrad.use("cpu"):
        x = random_normal(2, 2)
        with plugrad.autocast("bfloat16"):
            with plugrad.autocast("float32"):
                assert (x @ x).dtype == "float32"
            with pytest.raises(KeyError), plugrad.autocast("float16"):
                raise KeyError
            assert (x @ x).dtype == "bfloat16"
        assert (x @ x).dtype == "float32"

        @plugrad.autocast("bfloat16")
        def product(x):
            return x @ x

        assert product(x).dtype == product(x).dtype == "bfloat16"


def test_autocast_affects_only_its_thread():
    with plugrad.use("cpu"), ThreadPoolExecutor(1) as pool:
        x = random_normal(2, 2)
        with plugrad.autocast("bfloat16"):
            assert pool.submit(lambda: (x @ x).dtype).result() == "float32"
            assert pool.submit(plugrad.carry_context(lambda: (x @ x).dtype)).result() == "bfloat16"


def test_autocast_affects_only_its_task():
    async def result_dtype_in_task(dtype):
        with plugrad.autocast(dtype):
            await asyncio.sleep(0)
            found = (x @ x).dtype
            await asyncio.sleep(0)
            return found

    async def run_tasks():
        return await asyncio.gather(
            result_dtype_in_task("bfloat16"),
            result_dtype_in_task("float16"),
            result_dtype_in_task("float32"),
        )

    with plugrad.use("cpu"):
        x = random_normal(2, 2)
        assert asyncio.run(run_tasks()) == ["bfloat16", "float16", "float32"]


@pytest.mark.parametrize(
    ("dtype", "error", "message"),
    [
        ("float64", ArgumentValueError, "must be 'bfloat16', 'float16' or 'float32'"),
        ("int8", ArgumentValueError, "must be 'bfloat16'"),
        ("half", DTypeError, "'half' is not a dtype"),
        (3, DTypeError, "3 is not a dtype"),
    ],
)
def test_invalid_autocast_dtypes(dtype, error, message):
    with pytest.raises(error, match=message), plugrad.autocast(dtype):
        pass
