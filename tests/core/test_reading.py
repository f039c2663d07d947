"""Reading values during differentiation: no way of reading loses a gradient without an error or a warning."""

import asyncio
import ctypes
import pickle
import threading
import warnings

import numpy as np
import pytest

import plugrad
from plugrad.errors import GradientLost

REMEDY_PATTERN = r"plugrad\.stop_gradient\(x\)\.numpy\(\)"
ARRAY_READERS = {
    "numpy": lambda x: x.numpy(),
    "numpy_async": lambda x: asyncio.run(x.numpy_async()),
    "asarray": lambda x: np.asarray(x),
    "array of a list": lambda x: np.array([x, x]),
    "assignment to an array": lambda x: np.zeros(2).__setitem__(slice(None), x),
    "dlpack": lambda x: np.from_dlpack(x),
    "interface": lambda x: x.__array_interface__,
    "ctypes": lambda x: x.ctypes.data_as(ctypes.c_void_p),
    "tobytes": lambda x: x.tobytes(),
    "tolist": lambda x: x.tolist(),
    "pickle": pickle.dumps,
    "fill value": lambda x: plugrad.full((), x[0]),
}
SCALAR_READERS = {
    "item": lambda x: x[0].item(),
    "float": lambda x: float(x[0]),
    "int": lambda x: int(x[0]),
    "complex": lambda x: complex(x[0]),
    "bool": lambda x: bool(x[0]),
    "repr": repr,
    "format": lambda x: f"{x[0]:.3f} {x}",
    "html": lambda x: x._repr_html_(),
}


def read_during_grad(call, x=None):
    """Return the value that a call reads inside of a function that is being differentiated."""
    found = []

    def function(x):
        found.append(call(x * 2))
        return plugrad.sum(x * x)

    assert plugrad.grad(function)(plugrad.asarray([1.0, 2.0])).tolist() == [2, 4]
    return found[0]


@pytest.mark.parametrize("name", ARRAY_READERS)
def test_conversion_of_a_differentiated_tensor_to_an_array_is_an_error(name, backend):
    with pytest.raises(GradientLost, match=REMEDY_PATTERN):
        read_during_grad(ARRAY_READERS[name])
    read_during_grad(lambda x: ARRAY_READERS[name](plugrad.stop_gradient(x)))
    ARRAY_READERS[name](plugrad.asarray([1.0, 2.0]))


@pytest.mark.parametrize("name", SCALAR_READERS)
def test_reading_scalars_during_differentiation_warns_in_debug_mode(name, backend):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_during_grad(SCALAR_READERS[name]) == SCALAR_READERS[name](
            plugrad.asarray([2.0, 4.0])
        )
    with (
        plugrad.config.override("debug", True),
        pytest.warns(RuntimeWarning, match=r"being differentiated gives a constant.*setting debug"),
    ):
        read_during_grad(SCALAR_READERS[name])


def test_tensors_are_saved_during_differentiation(tmp_path):
    read_during_grad(lambda x: plugrad.save(tmp_path / "x", {"x": x}))
    assert plugrad.load(tmp_path / "x")["x"].tolist() == [2, 4]
    read_during_grad(lambda x: np.save(tmp_path / "x.npy", x))
    assert np.load(tmp_path / "x.npy").tolist() == [2, 4]


def test_values_without_a_gradient_are_read(backend):
    assert read_during_grad(lambda x: (x > 3).numpy().tolist()) == [False, True]
    assert read_during_grad(lambda x: plugrad.argmax(x).numpy()) == 1
    assert read_during_grad(lambda x: x.astype("int32").tolist()) == [2, 4]
    assert read_during_grad(lambda x: x[x > 3].shape) == (1,)
    assert read_during_grad(lambda x: plugrad.ones(2).tolist()) == [1, 1]


def test_tensors_that_outlive_a_differentiated_function_are_readable(backend):
    """Tensors that outlive a differentiated function can be read, because its tape has ended."""
    left = []

    def function(x):
        left.append(x * 3)
        return plugrad.sum(x * x)

    plugrad.grad(function)(plugrad.asarray([1.0, 2.0]))
    assert left.pop().tolist() == [3, 6]
    y, pull = plugrad.vjp(function, plugrad.asarray([1.0, 2.0]))
    assert (left.pop().tolist(), y.item()) == ([3, 6], 5)
    assert pull(plugrad.asarray(1.0))[0].tolist() == [2, 4]
    with pytest.raises(ZeroDivisionError):
        plugrad.grad(lambda x: left.append(x * 3) or 1 / 0)(plugrad.asarray([1.0]))
    assert left.pop().tolist() == [3]


def test_an_inner_function_that_has_ended_leaves_the_outer_one(backend):
    """The outer function still differentiates the inner gradient, whose own tape has ended."""

    def outer(x):
        inner = plugrad.grad(lambda z: z**3)(x)
        with pytest.raises(GradientLost):
            inner.numpy()
        left.append(inner)
        constant = plugrad.grad(lambda z: z**3)(plugrad.stop_gradient(x))
        return inner * plugrad.asarray(constant.numpy())

    left = []
    assert plugrad.grad(outer)(2.0).item() == 12 * 12
    assert left[0].numpy() == 12


def test_reading_variables_during_differentiation(backend):
    w = plugrad.Variable([1.0, 2.0])
    fixed = plugrad.Variable([3.0, 4.0], trainable=False)
    with pytest.raises(GradientLost, match=REMEDY_PATTERN):
        plugrad.variable_grads(lambda: plugrad.sum(w * w.numpy()), [w, fixed])
    _, (dw,) = plugrad.variable_grads(lambda: plugrad.sum(w * fixed.numpy()), [w, fixed])
    assert dw.tolist() == fixed.tolist()
    assert w.numpy().tolist() == [1, 2]


def test_a_function_with_its_own_gradient_reads_its_arguments(backend):
    """The result has the custom gradient, even if the function read values on the host."""

    @plugrad.custom_grad
    def cube(x, save):
        save(x)
        inner = plugrad.grad(lambda z: z * z)
        with pytest.raises(GradientLost):
            plugrad.grad(lambda z: z * float(z.numpy()))(plugrad.asarray(1.0))
        assert inner(plugrad.asarray(3.0)).item() == 6
        return plugrad.asarray(x.numpy() ** 3), lambda dy, saved: dy * 3 * saved[0] ** 2

    assert plugrad.grad(cube)(2.0).item() == 12
    assert plugrad.grad(plugrad.grad(cube))(2.0).item() == 12
    with pytest.raises(GradientLost):  # a second derivative would lack what the first one read
        plugrad.grad(plugrad.grad(wrong_second_derivative))(2.0)


@plugrad.custom_grad
def wrong_second_derivative(x, save):
    save(x)
    return x**3, lambda dy, saved: dy * plugrad.asarray(3 * saved[0].numpy() ** 2)


@pytest.mark.parametrize("transform", [plugrad.checkpoint, lambda f: f])
def test_reading_inside_checkpoints_and_jvps(transform, backend):
    f = transform(lambda x: plugrad.sum(x * x.numpy()))
    with pytest.raises(GradientLost):
        plugrad.grad(f)(plugrad.asarray([1.0, 2.0]))
    with pytest.raises(GradientLost):
        plugrad.jvp(f, [plugrad.asarray([1.0])], [plugrad.asarray([1.0])])


def test_decompositions_decide_by_values_also_in_second_derivatives(backend):
    x = plugrad.asarray([[2.0, 0.5], [0.5, 1.0]])
    second = plugrad.grad(
        lambda x: plugrad.sum(plugrad.grad(lambda x: plugrad.linalg.slogdet(x)[1])(x)[0])
    )
    assert np.isfinite(second(x).numpy()).all()
    push = plugrad.jvp(lambda x: plugrad.linalg.eigh(x)[0], [x], [plugrad.eye(2)])
    np.testing.assert_allclose(push[1].numpy(), [1, 1], rtol=1e-5)


def test_threads_differentiate_their_functions_independently(backend):
    constant, barrier, found = plugrad.ones(2) * 3, threading.Barrier(2, timeout=60), []

    def function(x):
        barrier.wait()
        found.append(constant.tolist())  # while the other thread differentiates
        with pytest.raises(GradientLost):
            (x * 2).numpy()
        barrier.wait()
        return plugrad.sum(x)

    threads = [
        threading.Thread(
            target=plugrad.carry_context(lambda: plugrad.grad(function)(plugrad.ones(2)))
        )
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[3, 3], [3, 3]]
