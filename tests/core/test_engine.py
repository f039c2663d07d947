"""Calls of kernels: by name, by contract, with wrong inputs, on the wrong backend."""

import numpy as np
import pytest

import plugrad
from plugrad import KernelConfig
from plugrad.errors import (
    ArgumentError,
    AxisError,
    BackendMismatch,
    DisposedTensor,
    DTypeError,
    KernelFailed,
    KernelNotFound,
    OutOfMemory,
    ShapeError,
)
from plugrad.extend import KERNELS, Axis, Shaped, Spec, kernel
from plugrad.kernels import linalg, movement, unary


@pytest.fixture
def x():
    return plugrad.asarray([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])


# --- by name --------------------------------------------------------------------------------------


def test_inputs_are_a_mapping_in_any_order(x):
    y = plugrad.run_kernel("Sub", {"b": plugrad.asarray(1.0), "a": x})
    assert y.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]


def test_inputs_of_a_variadic_kernel_are_a_list(x):
    assert plugrad.run_kernel("Concat", [x, x], {"axis": 1}).shape == (2, 6)
    assert plugrad.run_kernel("AddN", (x, x, x)).tolist() == (x * 3).tolist()


@pytest.mark.parametrize(
    ("name", "attrs", "settled"),
    [
        ("Sum", {"axis": (-1,)}, {"axis": (2,)}),
        ("Mean", {"axis": (2, 0)}, {"axis": (0, 2)}),
        ("Max", {"reduction_indices": (-1, 0)}, {"reduction_indices": (0, 2)}),
        ("ArgMax", {"axis": -2}, {"axis": 1}),
        ("Softmax", {"dim": -1}, {"dim": 2}),
        ("Reverse", {"dims": (-1, 0)}, {"dims": (0, 2)}),
        ("ExpandDims", {"dim": -1}, {"dim": 3}),
    ],
)
def test_axes_count_from_either_end(name, attrs, settled, backend):
    values = plugrad.reshape(plugrad.arange(24.0), (2, 3, 4))
    given = {KERNELS[name].inputs[0]: values}
    found, expected = (plugrad.run_kernel(name, given, a).numpy() for a in (attrs, settled))
    np.testing.assert_array_equal(found, expected)


def test_lists_of_inputs_have_axes_that_count_from_either_end(x):
    assert plugrad.run_kernel("Concat", [x, x], {"axis": -1}).shape == (2, 6)
    assert plugrad.run_kernel("Pack", [x, x], {"axis": -1}).shape == (2, 3, 2)
    with pytest.raises(AxisError, match=r"Pack: axis=3 is out of range for rank 3"):
        plugrad.run_kernel("Pack", [x, x], {"axis": 3})


def test_contract_of_a_third_party_says_which_attributes_are_axes():
    @kernel("Turned")
    def turned(x: Spec, *, axis: Axis, dim: int) -> Spec:
        """Return x; `dim` is no axis."""
        return Shaped(x.shape, x.dtype)

    given = []

    def implementation(x, *, axis, dim):
        given.append((axis, dim))
        return x

    plugrad.register_kernel(KernelConfig("Turned", "cpu", implementation))
    x = plugrad.zeros((2, 3))
    plugrad.run_kernel("Turned", {"x": x}, {"axis": -1, "dim": -7})
    assert given == [(1, -7)]
    with pytest.raises(AxisError, match="Turned: axis=-1 must be 1 for a kernel"):
        turned(x, axis=-1, dim=-7)


def test_attributes_with_defaults_may_be_omitted(x):
    assert plugrad.run_kernel("Sum", {"x": x}, {"axis": (0,)}).tolist() == [5.0, 7.0, 9.0]
    assert plugrad.run_kernel("BatchMatMul", {"a": x, "b": x}, {"transpose_b": True}).shape == (
        2,
        2,
    )


def test_kernel_without_inputs_runs_on_the_active_backend():
    attrs = {"shape": (2,), "value": 7, "dtype": plugrad.int32}
    y = plugrad.run_kernel("Fill", {}, attrs)
    assert (y.tolist(), y.device) == ([7, 7], "cpu:0")


def test_several_outputs_are_a_list(x):
    parts = plugrad.run_kernel("SplitV", {"x": x}, {"num_or_size_splits": (1, 2), "axis": 1})
    assert [p.shape for p in parts] == [(2, 1), (2, 2)]


def test_single_output_of_a_list_kernel_is_a_list(x):
    parts = plugrad.run_kernel("SplitV", {"x": x}, {"num_or_size_splits": (3,), "axis": 1})
    assert isinstance(parts, list)
    assert [p.tolist() for p in parts] == [x.tolist()]
    assert plugrad.run_kernel("Unpack", {"value": plugrad.zeros((0, 2))}, {"axis": 0}) == []


@pytest.mark.parametrize(
    ("name", "inputs", "attrs", "message"),
    [
        ("Relu", {"y": 0}, {}, r"inputs \['x', 'y'\] are unknown or missing; it takes \['x'\]"),
        ("Add", {"a": 0}, {}, r"inputs \['b'\] are unknown or missing; it takes \['a', 'b'\]"),
        ("Relu", [0], {}, r"Relu takes a mapping of inputs \['x'\], not a list"),
        ("Concat", {"a": 0}, {"axis": 0}, "Concat takes a list of inputs, not a mapping"),
        ("Sum", {"x": 0}, {}, r"missing attributes \['axis'\]; it takes \['axis', 'keep_dims'\]"),
        ("Sum", {"x": 0}, {"axis": (0,), "dims": 1}, r"unknown attributes \['dims'\]"),
        ("Relu", {"x": 0}, {"alpha": 1}, r"unknown attributes \['alpha'\]"),
        ("Sum", {"x": 0}, {"axis": [0]}, r"Sum: axis=\[0\] must be a tuple"),
    ],
)
def test_errors_for_unknown_names_list_the_known_ones(x, name, inputs, attrs, message):
    inputs = [x] if isinstance(inputs, list) else dict.fromkeys(inputs, x)
    with pytest.raises(ArgumentError, match=message):
        plugrad.run_kernel(name, inputs, attrs)


def test_inputs_must_be_tensors(x):
    for wrong in (3.0, [1.0], np.ones((2, 3)), "x"):
        with pytest.raises(
            ArgumentError, match=r"must be tensors, not .*; convert them with plugrad.as"
        ):
            plugrad.run_kernel("Add", {"a": x, "b": wrong})
        with pytest.raises(ArgumentError, match="must be tensors"):
            plugrad.run_kernel("Relu", {"x": wrong})
    with pytest.raises(ArgumentError, match=r"Add: inputs \['b'\] are unknown or missing"):
        plugrad.run_kernel("Add", {"a": x, "b": None})


# --- kernels that nobody declared -----------------------------------------------------------------


def test_third_party_kernel_has_its_functions_parameters(x):
    def shift_and_scale(x, shift, *, factor, base=0.0):
        return (x + shift) * factor + base

    plugrad.register_kernel(KernelConfig("ShiftAndScale", "cpu", shift_and_scale))
    inputs = {"x": x, "shift": plugrad.asarray(1.0)}
    y = plugrad.run_kernel("ShiftAndScale", inputs, {"factor": 2.0})
    assert y.tolist() == [[4.0, 6.0, 8.0], [10.0, 12.0, 14.0]]
    y = plugrad.run_kernel("ShiftAndScale", inputs, {"factor": 0.0, "base": 3.0})
    assert y.tolist() == [[3.0] * 3] * 2
    with pytest.raises(ArgumentError, match=r"missing attributes \['factor'\]"):
        plugrad.run_kernel("ShiftAndScale", inputs)
    with pytest.raises(ArgumentError, match=r"inputs \['shift'\] are unknown or missing"):
        plugrad.run_kernel("ShiftAndScale", {"x": x}, {"factor": 2.0})


def test_third_party_kernel_may_take_a_list_or_return_several(x):
    plugrad.register_kernel(KernelConfig("Longest", "cpu", lambda *inputs: max(inputs, key=len)))
    assert plugrad.run_kernel("Longest", [x, plugrad.zeros(5)]).shape == (5,)
    plugrad.register_kernel(KernelConfig("Ends", "cpu", lambda x: (x[0], x[-1])))
    first, last = plugrad.run_kernel("Ends", {"x": x})
    assert (first.tolist(), last.tolist()) == ([1.0, 2.0, 3.0], [4.0, 5.0, 6.0])


# --- missing kernels ------------------------------------------------------------------------------


def test_unknown_kernel_suggests_the_nearest_name(x):
    with pytest.raises(
        KernelNotFound, match=r"no kernel is called 'Mutiply' \(did you mean 'Multiply'\?\)"
    ):
        plugrad.run_kernel("Mutiply", {"a": x, "b": x})


def test_error_for_a_missing_kernel_names_backends_that_have_it_and_the_remedy(fake_backend_name):
    y = plugrad.asarray([1.0], device=fake_backend_name)
    with pytest.raises(
        KernelNotFound,
        match=r"'fake_device' does not implement kernel 'Log'; .*'cpu'.*x\.to\('cpu'\)",
    ):
        plugrad.log(y)
    with pytest.raises(
        KernelNotFound, match="'fake_device' does not implement kernel 'Sub'; 'cpu'"
    ):
        y - y


def test_error_for_a_declared_kernel_without_any_implementation(x):
    @kernel("Forgotten", family="tests")
    def forgotten(x: Spec) -> Spec:
        return x

    with pytest.raises(
        KernelNotFound, match="'cpu' does not implement kernel 'Forgotten', nor does any other"
    ):
        forgotten(x)


# --- backends -------------------------------------------------------------------------------------


def test_inputs_on_two_backends_are_refused_with_the_remedy(x, fake_backend_name):
    y = plugrad.asarray([1.0, 2.0, 3.0], device=fake_backend_name)
    for call in (lambda: x + y, lambda: x < y, lambda: plugrad.concat([y, x[0]])):
        with pytest.raises(
            BackendMismatch, match=r"live on .*; move one of them, as in x\.to\('(cpu:0|fake)"
        ):
            call()
    with pytest.raises(BackendMismatch, match="live on cpu:0 and fake_device:0"):
        plugrad.run_kernel("Add", {"a": x, "b": y})


def test_inputs_on_two_devices_of_a_backend_are_refused(fake_backend_name):
    x, y = (
        plugrad.ones(3, device=fake_backend_name),
        plugrad.ones(3, device=f"{fake_backend_name}:1"),
    )
    with pytest.raises(BackendMismatch, match="fake_device:0 and fake_device:1"):
        x + y


def test_ops_run_where_their_inputs_live(x, fake_backend_name):
    y = plugrad.asarray([1.0, 2.0], device=fake_backend_name)
    with plugrad.use("cpu"):
        assert (y + y).device == "fake_device:0"
        assert (2 * y).tolist() == [2.0, 4.0]
        assert (y + np.ones(2, "float32")).device == "fake_device:0"
        assert plugrad.exp(y).device == "fake_device:0"
    with plugrad.use(fake_backend_name):
        assert (x * 2).device == "cpu:0"


# --- wrong inputs ---------------------------------------------------------------------------------


def test_disposed_input_is_refused(x):
    y = x + 1
    y.dispose()
    for call in (
        lambda: y + x,
        lambda: x + y,
        lambda: plugrad.exp(y),
        lambda: plugrad.concat([x, y]),
    ):
        with pytest.raises(
            DisposedTensor, match="has been disposed; return it from its tidy block, or"
        ):
            call()
    with pytest.raises(DisposedTensor):
        plugrad.run_kernel("Add", {"a": x, "b": y})


def add_by_name(a, b):
    return plugrad.run_kernel("Add", {"a": a, "b": b})


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: x + plugrad.zeros((4,)), ShapeError, r"\(2, 3\) and \(4,\) do not broadcast"),
        (
            lambda x: linalg.matmul(x, x),
            ShapeError,
            r"\(2, 3\) and \(2, 3\) do not match: 3 columns",
        ),
        (lambda x: add_by_name(x, x.astype("int32")), DTypeError, "dtypes float32, int32; cast th"),
        (lambda x: movement.transpose(x, perm=(0, 0)), ValueError, "must name each of the 2 axes"),
        (lambda x: plugrad.run_kernel("Exp", {"x": x.astype("int32")}), DTypeError, "Exp .*int32"),
        (lambda x: plugrad.run_kernel("LogicalNot", {"x": x}), DTypeError, "LogicalNot .*float32"),
        (lambda x: plugrad.run_kernel("IsNan", {"x": x > 0}), DTypeError, "IsNan .*bool"),
        (lambda x: movement.reshape(x, shape=(3, -1)), ShapeError, "negative size"),
    ],
)
def test_contract_violations_raise_the_errors_of_the_contract(x, call, error, message):
    with pytest.raises(error, match=message):
        call(x)


def test_shape_errors_of_ops_name_both_shapes_with_python_operands(x):
    with pytest.raises(
        ShapeError, match=r"shapes \(2, 3\) and \(2,\) do not broadcast: sizes \[2, 3\] meet"
    ):
        x * [1.0, 2.0]


def test_error_of_an_implementation_names_the_kernel_and_is_chained(x):
    def broken(x):
        raise LookupError("table is empty")

    with (
        plugrad.override_kernel("Exp", "cpu", broken),
        pytest.raises(
            KernelFailed, match=r"Exp on backend 'cpu' .*LookupError: table is"
        ) as raised,
    ):
        plugrad.exp(x)
    assert isinstance(raised.value.__cause__, LookupError)
    with (
        plugrad.override_kernel("Add", "cpu", lambda a, b: 1 / 0),
        pytest.raises(KernelFailed, match="ZeroDivisionError"),
    ):
        x + x


def test_out_of_memory_raises_an_error_of_plugrad(x):
    def greedy(x):
        raise MemoryError("cannot allocate 8 EiB")

    with (
        plugrad.override_kernel("Exp", "cpu", greedy),
        pytest.raises(
            OutOfMemory,
            match=r"Exp on backend 'cpu' \(plugrad-cpu\): cannot allocate 8 EiB; use smaller",
        ),
    ):
        plugrad.exp(x)


# --- optional inputs ------------------------------------------------------------------------------


@pytest.fixture
def scaled_kernel():
    @kernel("Scaled", family="tests")
    def scaled(x: Spec, scale: Spec | None = None, offset: Spec | None = None) -> Spec:
        return Shaped(x.shape, x.dtype)

    def implementation(x, scale, offset):
        y = x if scale is None else x * scale
        return y if offset is None else y + offset

    plugrad.register_kernel(KernelConfig("Scaled", "cpu", implementation))
    plugrad.register_gradient(
        scaled,
        x=lambda dy, scale: dy if scale is None else dy * scale,
        scale=lambda dy, x: dy * x,
        offset=lambda dy: dy,
    )
    return scaled


def test_optional_inputs_may_be_absent(x, scaled_kernel):
    two = plugrad.asarray(2.0)
    assert scaled_kernel.optional_inputs == {"scale", "offset"}
    assert plugrad.run_kernel("Scaled", {"x": x}).tolist() == x.tolist()
    assert plugrad.run_kernel("Scaled", {"x": x, "scale": two}).tolist() == (x * 2).tolist()
    assert plugrad.run_kernel("Scaled", {"x": x, "offset": two}).tolist() == (x + 2).tolist()
    assert scaled_kernel(x, None, two).tolist() == (x + 2).tolist()


def test_gradient_flows_past_absent_inputs(x, scaled_kernel):
    assert (
        plugrad.grad(lambda x: plugrad.sum(scaled_kernel(x, None, x * x)))(x).tolist()
        == (1 + 2 * x).tolist()
    )
    assert (
        plugrad.grad(lambda s: plugrad.sum(scaled_kernel(x, s, None)))(plugrad.asarray(3.0)).item()
        == 21.0
    )
    first = plugrad.grad(lambda y: plugrad.sum(scaled_kernel(y, y, None)))
    second = plugrad.grad(lambda x: plugrad.sum(first(x)))
    assert second(x).tolist() == [[2.0] * 3] * 2


# --- the contract itself --------------------------------------------------------------------------


def test_contract_infers_shapes_without_values():
    spec = unary.exp.infer(Shaped((2, 3), plugrad.float32))
    assert (spec.shape, spec.dtype) == ((2, 3), plugrad.float32)
    parts = movement.split.infer(Shaped((2, 3), plugrad.int32), num_or_size_splits=(1, 2), axis=1)
    assert [p.shape for p in parts] == [(2, 1), (2, 2)]


def test_declaring_a_name_twice_raises():
    with pytest.raises(plugrad.errors.RegistrationError, match="'Exp' is declared twice"):
        kernel("Exp", family="tests")(lambda x: x)


def test_implementations_never_see_the_shape_of_another_call(x):
    """Shape rules are memoised by shapes, dtypes and attributes."""
    assert plugrad.sum(x, axis=0).shape == (3,)
    assert plugrad.sum(x, axis=1).shape == (2,)
    assert plugrad.sum(x.astype("int32"), axis=1).dtype is plugrad.int32
    assert plugrad.sum(x[:1], axis=0, keepdims=True).shape == (1, 3)


def test_ufunc_is_a_kernel_without_contract():
    config = plugrad.KernelConfig("Negate", "cpu", np.negative)
    plugrad.register_kernel(config)
    x = plugrad.asarray([1.0, -2.0], device="cpu")
    np.testing.assert_array_equal(plugrad.run_kernel("Negate", {"x": x}), [-1, 2])
    with pytest.raises(plugrad.errors.ArgumentError, match="by"):
        plugrad.run_kernel("Negate", {"x": x}, {"by": 3})
