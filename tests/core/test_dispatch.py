"""Dispatch: a call finds its implementation once, and the contract is checked."""

import gc
import traceback
import weakref

import numpy as np
import pytest

import plugrad
from plugrad.errors import (
    ArgumentError,
    AxisError,
    BackendMismatch,
    DTypeError,
    KernelFailed,
    OutOfMemory,
    ShapeError,
    TensorIndexError,
)
from plugrad.extend import KernelTable, Spec, kernel, register_kernel
from plugrad.kernels import binary, movement, unary


@pytest.fixture
def x():
    return plugrad.asarray([1.0, 2.0])


# --- once -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", [lambda x: x + x, plugrad.exp, lambda x: plugrad.concat([x, x])])
def test_an_implementation_that_fails_is_called_once(call, x):
    calls = []

    def broken(*arrays, **attrs):
        calls.append(arrays)
        raise LookupError("no such table")

    with (
        plugrad.override_kernel("Add", "cpu", lambda a, b: broken(a, b)),
        plugrad.override_kernel("Exp", "cpu", lambda x: broken(x)),
        plugrad.override_kernel("Concat", "cpu", lambda *inputs, axis: broken(*inputs)),
        pytest.raises(KernelFailed, match="LookupError: no such table"),
    ):
        call(x)
    assert len(calls) == 1


def test_an_implementation_is_called_once_for_strings(backend):
    x = plugrad.asarray(["a", "b"])
    assert plugrad.concat([x, x]).tolist() == ["a", "b", "a", "b"]
    assert (x == "a").tolist() == [True, False]


def test_strings_do_not_reach_an_implementation_on_a_device(backend):
    own = plugrad.get_kernel("Transpose", backend).kernel_func
    seen = []

    def watched(x, *, perm):
        seen.append(str(plugrad.as_dtype(x.dtype)))
        return own(x, perm=perm)

    with plugrad.override_kernel("Transpose", backend, watched):
        assert plugrad.asarray([["a", "b"]]).T.tolist() == [["a"], ["b"]]
        assert plugrad.asarray([[1.0, 2.0]]).T.tolist() == [[1], [2]]
    assert seen == (["string", "float32"] if backend == "cpu" else ["float32"])


# --- one text -------------------------------------------------------------------------------------


def test_kernels_with_equally_many_inputs_share_the_code_of_their_calls(x):
    unary.exp(x), unary.sin(x), binary.add(x, x)
    assert unary.exp.call.__code__ is unary.sin.call.__code__
    assert unary.exp.call.__code__ is not binary.add.call.__code__


def test_tracebacks_show_the_lines_of_a_call(x):
    def broken(x):
        raise LookupError("no such table")

    with plugrad.override_kernel("Exp", "cpu", broken), pytest.raises(KernelFailed) as raised:
        plugrad.exp(x.to("cpu"))
    lines = "".join(traceback.format_exception(raised.value))
    assert "result = function(array0)" in lines
    assert "Exp on backend 'cpu'" in lines


def test_a_kernel_takes_as_many_inputs_as_its_contract_says(x):
    with pytest.raises(ArgumentError, match="Add"):
        binary.add(x, x, x)
    with pytest.raises(ArgumentError, match="Exp"):
        unary.exp(x, x)
    assert x.tolist() == [1, 2]


# --- contracts of elementwise kernels -------------------------------------------------------------


def test_elementwise_kernels_take_one_dtype(backend):
    whole = plugrad.asarray([1, 2])
    with pytest.raises(DTypeError, match="Add: the inputs have dtypes float32, int32"):
        binary.add(plugrad.asarray([1.0, 2.0]), whole)
    with pytest.raises(DTypeError, match=r"Exp .*int32"):
        unary.exp(whole)
    with pytest.raises(DTypeError, match=r"condition.* float32"):
        binary.select(plugrad.asarray([1.0]), whole, whole)


def test_elementwise_kernels_broadcast_or_say_why_not(backend):
    with pytest.raises(ShapeError, match=r"\(2,\) and \(3,\) do not broadcast"):
        binary.add(plugrad.ones(2), plugrad.ones(3))


def test_operators_raise_the_errors_of_their_kernels(fake_backend_name, x):
    with pytest.raises(BackendMismatch, match=r"live on cpu:0 and fake_device:0"):
        x + x.to(fake_backend_name)


# --- the setting debug ----------------------------------------------------------------------------


@pytest.fixture
def debug_setting():
    plugrad.config.set("debug", True)
    yield
    plugrad.config.reset("debug")


def override_abs(function):
    """Override Abs without the warning of the setting `debug`."""
    return pytest.warns(RuntimeWarning, match="is replaced"), plugrad.override_kernel(
        "Abs", "cpu", function
    )


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: np.abs(x).astype("float64"), "returned float64; the contract says float32"),
        (lambda x: np.abs(x)[:1], r"returned shape \(1,\); the contract says \(2,\)"),
        (lambda x: [np.abs(x)] * 2, "a list, which does not have a shape and a dtype"),
        (lambda x: 3, "a int, which does not have a shape"),
        (lambda x: np.abs(x, out=x), "has changed its input 'x'"),
    ],
)
def test_results_that_break_the_contract_are_errors_in_debug_mode(function, message, debug_setting):
    x = plugrad.asarray([-1.0, 2.0])
    warns, override = override_abs(function)
    with warns, override, pytest.raises(KernelFailed, match=message) as raised:
        plugrad.abs(x)
    assert "Abs on backend 'cpu' (plugrad-cpu)" in str(raised.value)


def test_debug_mode_changes_no_value_and_ends(debug_setting, backend):
    x = plugrad.asarray([[3.0, -1.0], [np.nan, 2.0]])
    checked = [plugrad.abs(x), plugrad.top_k(x)[0], plugrad.sum(x, axis=0), plugrad.ones((2, 1))]
    plugrad.config.reset("debug")
    plain = [plugrad.abs(x), plugrad.top_k(x)[0], plugrad.sum(x, axis=0), plugrad.ones((2, 1))]
    for a, b in zip(checked, plain, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
    with plugrad.override_kernel("Abs", backend, lambda x: x):  # without a warning
        plugrad.abs(x)


# --- devices --------------------------------------------------------------------------------------


def test_a_closed_backend_is_not_kept_alive(register_for_test, fake_backend_class):
    class MinimalBackend(fake_backend_class):
        def open(self, device):
            self.device = "0"
            table = KernelTable(self.name)
            table.update({binary.add: np.add})
            return table

    register_for_test("fake_device", MinimalBackend)
    with plugrad.use("fake_device"):
        x = plugrad.asarray([1.0]) + 1.0  # makes a constant on the device
        backend = weakref.ref(x.backend)
        plugrad.close_backend(x.backend)
    del x
    fake_backend_class.events.clear()
    plugrad.config.reset()
    gc.collect()
    assert backend() is None


def test_limit_from_the_settings_reaches_open_backends(backend):
    with plugrad.config.override("memory_limit", "1MB"):
        assert plugrad.memory().backends[f"{backend}:0"].limit == 1_000_000
        with pytest.raises(OutOfMemory, match="limit"):
            plugrad.zeros((1000, 1000)) + 1.0
    assert plugrad.memory().backends[f"{backend}:0"].limit is None
    plugrad.config.set("memory_limit", "2MB")
    assert plugrad.memory().backends[f"{backend}:0"].limit == 2_000_000
    plugrad.config.reset()
    assert plugrad.memory().backends[f"{backend}:0"].limit is None


def test_device_arguments_take_a_backend(backend):
    x = plugrad.asarray([1.0])
    assert plugrad.zeros(2, device=x.backend).device == x.device
    assert plugrad.asarray([1.0], device=x.backend).backend is x.backend
    assert x.to(x.backend).array is x.array


def test_kernels_without_inputs_run_on_the_backend_that_is_given(fake_backend_name):
    with plugrad.use(fake_backend_name):
        backend = plugrad.which().backend
    made = plugrad.kernels.creation.fill.on(
        backend, shape=(2,), value=1.0, dtype=plugrad.as_dtype("float32")
    )
    assert (made.device, made.tolist()) == ("fake_device:0", [1.0, 1.0])


def test_calls_of_user_defined_kernels_are_checked(x):
    @kernel("Mine", family="example", is_elementwise=True)
    def mine(a: Spec, b: Spec) -> Spec:
        return a

    register_kernel(plugrad.KernelConfig("Mine", "cpu", np.subtract))
    assert mine(x, x).tolist() == [0, 0]
    assert plugrad.run_kernel("Mine", {"a": x, "b": x}).tolist() == [0, 0]
    assert movement.reshape(mine(x, x), shape=(2, 1)).shape == (2, 1)


# --- remembered -----------------------------------------------------------------------------------


def test_cached_valid_arguments_do_not_let_invalid_ones_pass():
    """True, 1 and 1.0 are equal in Python, and so are (0, 1) and (0.0, 1.0)."""
    x = plugrad.asarray([[1.0, 2.0], [3.0, 4.0]])
    right_and_wrong = [
        (lambda n: plugrad.zeros(n), 2, 2.0, ShapeError),
        (lambda n: plugrad.ones(n), (2, 3), (2.0, 3), ShapeError),
        (lambda n: x.reshape(n), (1, 4), (1.0, 4), ShapeError),
        (lambda n: plugrad.sum(x, axis=n), 0, 0.0, AxisError),
        (lambda n: plugrad.max(x, axis=n), (0, 1), (0.0, 1), AxisError),
        (lambda n: plugrad.mean(x, keepdims=n), True, 1.5, ArgumentError),
        (lambda n: x[n], 1, 1.0, TensorIndexError),
        (lambda n: x[:n], 1, 1.0, TensorIndexError),
    ]
    for call, right, wrong, error in right_and_wrong:
        for _ in range(2):
            call(right)
            with pytest.raises(error):
                call(wrong)
    x[1], x[0, 1]
    assert x[True].shape == (1, 2, 2)
    assert x[0, True].shape == (1, 2)


def test_cached_calls_depend_on_the_dtype_and_the_backend():
    x = plugrad.asarray([[1, 2], [3, 4]])
    floats, booleans = plugrad.astype(x, "float32"), x > 2
    for _ in range(2):
        assert plugrad.sum(x, axis=0).dtype is plugrad.int32
        assert plugrad.sum(floats, axis=0).dtype is plugrad.float32
        assert plugrad.max(booleans, axis=0).tolist() == [True, True]
        with pytest.raises(DTypeError, match="mean does not take string"):
            plugrad.mean(plugrad.asarray([["a", "b"]]), axis=0)
        with pytest.raises(ShapeError, match=r"MatMul|matmul"):
            floats @ plugrad.zeros((3, 2))
        assert (floats @ floats).tolist() == [[7, 10], [15, 22]]


def test_gradient_functions_cannot_change_cached_attributes():
    x = plugrad.asarray([[1.0, 2.0], [3.0, 4.0]])

    def pull(dy, attrs):
        attrs["shape"] = ()
        return plugrad.reshape(dy, (2, 2))

    def pull_all(dy, saved, attrs):
        return {"x": pull(dy, attrs)}

    for how in (
        plugrad.override_gradient(plugrad.GradientConfig("Reshape", pull_all)),
        plugrad.override_gradient(movement.reshape, x=pull),
    ):
        with how:
            assert plugrad.grad(lambda x: plugrad.sum(x.reshape(4)))(x).shape == (2, 2)
        assert x.reshape(4).shape == (4,)
