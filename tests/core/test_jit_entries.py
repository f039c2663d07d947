"""The fast path of jitted functions that are called repeatedly notices every change of arguments and context."""

import numpy as np
import pytest

import plugrad
from plugrad.discovery.loading import open_backend
from plugrad.errors import DisposedTensor
from plugrad.tracing.entry import ENTRY_MISS


@pytest.fixture
def jitted_double(backend):
    """A traced function whose fast path is in use, and its argument."""
    x = plugrad.asarray([1.0, -2.0, 3.0])
    f = plugrad.jit(lambda x, *others: x * 2 + sum(others, plugrad.asarray(0.0)))
    for _ in range(3):
        np.testing.assert_array_equal(f(x).numpy(), [2, -4, 6])
    assert f._enter((x,)) is not ENTRY_MISS
    return f, x


def assert_call_result(f, *args, expected=(2, -4, 6), **kwargs):
    for _ in range(3):
        np.testing.assert_allclose(f(*args, **kwargs).numpy(), expected)


def test_fast_path_handles_other_arguments(jitted_double):
    f, x = jitted_double
    assert_call_result(f, plugrad.asarray([1, -2, 3], dtype="int32"))
    assert_call_result(f, x)
    assert_call_result(f, x, x, expected=[3, -6, 9])
    assert_call_result(f, x[:2], expected=[2, -4])
    assert_call_result(f, np.array([1, -2, 3], "float32"))
    assert_call_result(f, plugrad.asarray(plugrad.Variable(x)))
    assert_call_result(f, x=x)
    assert_call_result(plugrad.jit(lambda xs: xs[0] * 2), [x])
    assert_call_result(plugrad.jit(lambda x, factor: x * factor), x, 2.0)
    assert_call_result(plugrad.jit(lambda: x * 2))
    assert_call_result(plugrad.jit(lambda x: (x * 2).astype("int32")), x)
    for shape in ((3, 1), (1, 3), (3,)):
        assert f(x.reshape(shape)).shape == shape


def test_fast_path_records_gradients(jitted_double):
    f, x = jitted_double
    v = plugrad.Variable(x)
    for _ in range(3):
        assert_call_result(plugrad.grad(lambda x: plugrad.sum(f(x) * x)), x, expected=4 * x.numpy())
        (slope,) = plugrad.variable_grads(lambda: plugrad.sum(f(x) * v), [v])[1]
        np.testing.assert_array_equal(slope.numpy(), [2, -4, 6])
    assert f._enter((x,)) is not ENTRY_MISS


def test_fast_path_respects_enclosing_blocks(jitted_double):
    f, x = jitted_double
    with plugrad.tidy():
        y = f(x)
    with pytest.raises(DisposedTensor):
        y.numpy()
    with plugrad.profile() as profile:
        f(x)
    assert {"Multiply"} <= {each.kernel for each in profile.kernels}
    assert_call_result(plugrad.jit(lambda x: f(x)), x)
    assert_call_result(plugrad.vmap(f), plugrad.stack([x, x]), expected=[[2, -4, 6]] * 2)
    if x.backend.name != "cpu":
        with plugrad.use("cpu", transfer=True):
            assert f(x).backend.name == "cpu"


def test_fast_path_respects_changes_between_calls(jitted_double):
    f, x = jitted_double
    backend = x.backend.name

    def replaced(a, b):
        return open_backend(backend).functions["Add"](a, b)

    with plugrad.override_kernel("Multiply", backend, replaced):
        assert_call_result(f, x, expected=[3, 0, 5])
    assert_call_result(f, x)
    with plugrad.config.override("jit", "off"):
        assert_call_result(f, x)
    with plugrad.config.override("debug", value=True):
        assert_call_result(f, x)


def test_variables_are_read_and_assigned():
    x, total = plugrad.asarray([1.0, 2.0]), plugrad.Variable([0.0, 0.0])

    @plugrad.jit
    def step(x):
        total.assign(total + x)
        return total * 10

    for count in range(1, 6):
        np.testing.assert_array_equal(step(x).numpy(), [10 * count, 20 * count])
        np.testing.assert_array_equal(total.numpy(), [count, 2 * count])
    assert step._enter is not None
    total.assign(total * 0)
    np.testing.assert_array_equal(step(x).numpy(), [10, 20])


def test_a_disposed_argument_and_a_closed_device():
    x = plugrad.asarray([1.0, 2.0])
    f = plugrad.jit(lambda x: x * 2)
    for _ in range(3):
        y = f(x)
    x.dispose()
    with pytest.raises(DisposedTensor):
        f(x)
    for _ in range(3):
        y = f(y)
    np.testing.assert_array_equal(y.numpy(), [16, 32])


def test_changed_optimizer_options_leave_the_fast_path():
    """A step of an optimizer has a fast path until an option changes, and then another one."""
    x, w = plugrad.asarray([1.0, 2.0]), plugrad.Variable([1.0, 1.0])
    optimizer = plugrad.optimizers.SGD(0.5)

    @plugrad.jit
    def step(x):
        optimizer.apply_gradients([(w, x)])
        return w + 0

    for count in range(1, 5):
        np.testing.assert_array_equal(step(x).numpy(), 1 - np.array([0.5, 1.0]) * count)
    assert step._enter is not ENTRY_MISS
    entered = step._enter((x,))
    np.testing.assert_array_equal(entered.numpy(), [-1.5, -4])
    optimizer.with_loss_scale(plugrad.optimizers.LossScale(4.0))
    assert step._enter((x,)) is ENTRY_MISS
    for count in range(1, 4):
        np.testing.assert_array_equal(step(x).numpy(), [-1.5 - count / 8, -4 - count / 4])
    optimizer.with_loss_scale(None)
    assert step._enter((x,)) is ENTRY_MISS
    np.testing.assert_array_equal(step(x).numpy(), [-2.375, -5.75])
