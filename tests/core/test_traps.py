"""Mistakes that are easily made: each gets a message that says what to do instead."""

import re

import pytest

import plugrad
from plugrad import optimizers
from plugrad.errors import ArgumentError, DTypeError, KernelNotFound, RegistrationError
from plugrad.extend import (
    DeviceInfo,
    Memory,
    Probe,
    Spec,
    float32,
    gradient,
    kernel,
    not_differentiable,
)
from plugrad.kernels import activation, binary, movement, reduction, unary

KernelConfig, GradientConfig = plugrad.KernelConfig, plugrad.GradientConfig
VECTOR = [1.0, 2.0]


# --- tensors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("backward", r"plugrad\.grad\(f\)\(x\), or in optimizer\.minimize\(f, variables\)"),
        ("detach", r"plugrad\.stop_gradient\(x\)"),
        ("grad", r"plugrad\.grad\(f\)\(x\) returns"),
        ("clone", r"\+x is another tensor"),
        ("cuda", r'x\.to\("webgpu"\)'),
        ("requires_grad", r"plugrad\.variable_grads"),
    ],
)
def test_errors_for_attributes_of_other_frameworks_name_plugrads_counterpart(name, remedy):
    for x in (plugrad.asarray(VECTOR), plugrad.Variable(VECTOR)):
        with pytest.raises(AttributeError, match=f"tensors do not have '{name}': .*{remedy}"):
            getattr(x, name)
        assert not hasattr(x, name)


def test_errors_for_functions_of_other_frameworks_name_plugrads_counterpart():
    for name, remedy in (
        ("transpose", "permute_dims"),
        ("no_grad", "stop_gradient"),
        ("array", "asarray"),
        ("tensor", r"write plugrad\.asarray\(data\)"),
        ("nn", "import plugrad_nn as nn"),
        ("set_backend", r"plugrad\.use\(name\)"),
        ("randn", r"plugrad\.random\.normal"),
    ):
        with pytest.raises(AttributeError, match=f"plugrad does not have '{name}'.*{remedy}"):
            getattr(plugrad, name)
        assert not hasattr(plugrad, name)


@pytest.mark.parametrize(
    ("namespace", "name", "remedy"),
    [
        ("losses", "mse", "mean_squared_error"),
        ("losses", "huber", "did you mean 'huber_loss'"),
        ("random", "randint", r"random\.integers\(shape, least, end\)"),
        ("optimizers", "adam", "did you mean 'Adam'"),
        ("linalg", "inverse", "did you mean 'inv'"),
        ("fft", "qqqq", ""),
    ],
)
def test_errors_of_namespaces_suggest_their_names(monkeypatch, namespace, name, remedy):
    monkeypatch.delattr(plugrad, namespace, raising=False)  # as before its first use
    with pytest.raises(
        AttributeError, match=rf"plugrad\.{namespace} does not have '{name}'.*{remedy}"
    ):
        getattr(getattr(plugrad, namespace), name)


def test_optimizer_errors_name_the_replacement_of_step():
    optimizer = optimizers.SGD(0.1)
    for name in ("step", "zero_grad"):
        with pytest.raises(AttributeError, match=rf"'{name}': .*minimize\(f, variables\)"):
            getattr(optimizer, name)
    with pytest.raises(AttributeError, match=r"'SGD' object has no attribute 'qqq'$"):
        _ = optimizer.qqq


def test_functions_and_paths_in_the_wrong_place_are_named(tmp_path):
    with pytest.raises(ArgumentError, match=r"tidy: .*write tidy\(\)"):
        plugrad.tidy(lambda: 1)
    path = tmp_path / "w"
    for wrong in (path, str(path)):
        with pytest.raises(
            ArgumentError, match=r"the path comes first, as in plugrad\.save\('.*w', "
        ):
            plugrad.save({"w": plugrad.ones(2)}, wrong)
    plugrad.save(path, "text")
    assert plugrad.load(path) == "text"


def test_repr_of_plugins():
    shown = repr(plugrad.backends())
    assert re.search(r"<backend 'cpu' \(plugrad-cpu [\d.]+\): \w+>", shown)


# --- gradients of one's own -----------------------------------------------------------------------


def custom_gradient_at_x(function):
    f = plugrad.custom_grad(function)
    return plugrad.grad(lambda x: plugrad.sum(f(x)))(plugrad.asarray(VECTOR))


def test_save_takes_a_list_too():
    def square(x, save):
        save([x])
        return x * x, lambda dy, saved: dy * 2 * saved[0]

    assert custom_gradient_at_x(square).tolist() == [2.0, 4.0]


def make_saving_function(*values):
    def function(x, save):
        save(*values)
        return x, lambda dy, saved: dy

    return function


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            lambda x: (x, lambda dy, saved: dy),
            r"last, save, as in def f\(x, save\): .* 1 positional",
        ),
        (
            lambda x, save: (x, lambda dy: dy),
            r"must take dy and saved.*lambda dy, saved: dy: .* 1 pos",
        ),
        (lambda x, save: x, r"returned Tensor; .* return y, lambda dy, saved: dy"),
        (lambda x, save: {"value": x}, "returned dict; it must return a tensor and a gradient"),
        (lambda x, save: (x, 3), r"returned \(Tensor, int\); it must"),
        (
            lambda x, save: (x, lambda dy, saved: dy.numpy()),
            "is a ndarray.*convert it with asarray",
        ),
        (
            lambda x, save: (x, lambda dy, saved: [dy, dy]),
            "2 gradients for 1 arguments; return one",
        ),
        (make_saving_function(3.0), "save takes tensors, not 3.0; .* without saving"),
        (make_saving_function([3.0]), "save takes tensors, not 3.0"),
    ],
)
def test_errors_of_wrong_custom_gradients_show_the_right_form(function, message):
    with pytest.raises(ArgumentError, match=f"^custom_grad: .*{message}"):
        custom_gradient_at_x(function)


def test_errors_inside_of_custom_gradients_are_their_own():
    def fails(x, save):
        return x + None

    def fails_later(x, save):
        return x, lambda dy, saved: len(3)

    for function in (fails, fails_later):
        with pytest.raises(TypeError) as caught:
            custom_gradient_at_x(function)
        assert "must take" not in str(caught.value)


def test_error_of_minimize_without_variables_shows_the_arguments():
    for take in (plugrad.optimizers.SGD(0.1).minimize, plugrad.variable_grads):
        with pytest.raises(ArgumentError, match=rf"{take.__name__}\(f, \[w, b\]\)"):
            take(lambda: plugrad.ones(()))


def test_gradient_functions_are_checked_when_they_are_registered():
    with pytest.raises(
        RegistrationError,
        match=r"of Wave: grad_func must take dy, saved and attrs, as in lambda dy, saved, attrs",
    ):
        plugrad.register_gradient(GradientConfig("Wave", lambda dy, saved: {"x": dy}))


# --- declarations ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (
            lambda: KernelConfig(kernel_nam="Wave", backend_name="cpu", kernel_func=abs),
            r"KernelConfig: it has no argument 'kernel_nam' .did you mean 'kernel_name'..; write "
            r"KernelConfig\(kernel_name, backend_name, kernel_func, setup_func=None",
        ),
        (lambda: KernelConfig(kernelName="Wave"), "did you mean 'kernel_name'"),
        (lambda: KernelConfig("Wave", "cpu"), "missing .*'kernel_func'; write KernelConfig"),
        (lambda: KernelConfig("Wave", "cpu", abs, *[None] * 8), "too many .*; write"),
        (
            lambda: GradientConfig("Wave", abs, inputs_to_sav=("x",)),
            r"GradientConfig: .*did you mean 'inputs_to_save'.*write GradientConfig\(kernel_name, grad_func, inputs",
        ),
        (lambda: GradientConfig("Wave"), "missing .*'grad_func'; write GradientConfig"),
        (lambda: Probe(True, reson="x"), "did you mean 'reason'.*write Probe"),
        (lambda: DeviceInfo("0"), "missing .*'description'; write DeviceInfo"),
        (lambda: Memory(0, 0), "missing .*'peak'; write Memory"),
        (
            lambda: kernel("Wave", elementwise=True),
            r"kernel: .* 'elementwise' .did you mean 'is_elementwise'..; write kernel\(name, \*.*accepts=…\)$",
        ),
        (lambda: kernel(lambda x: x), r'kernel takes a name: write @kernel\("Name"\) above'),
        (lambda: kernel(3), "kernel: name=3 must be a string"),
        (lambda: gradient("Relu", x=abs), "gradient takes a kernel, such as .*, not 'Relu'"),
        (lambda: gradient(), r"missing .*; write gradient\(kernel, \*, replace=False, \*\*rules"),
        (lambda: not_differentiable("Relu", because=""), "not_differentiable takes a kernel"),
        (lambda: not_differentiable(unary.sign), r"write not_differentiable\(\*kernels, because"),
        (
            lambda: plugrad.register_kernel(KernelConfig("Wave", "cpu", abs), replase=True),
            r"did you mean 'replace'.*write register_kernel\(config, \*, replace=False\)",
        ),
        (
            lambda: plugrad.optimizers.Adam(lr=0.1),
            r"Adam: it has no argument 'lr'.*; write Adam\(learning_rate=0.001, ",
        ),
        (lambda: plugrad.optimizers.SGD(), r"write SGD\(learning_rate\)"),
        (lambda: plugrad.override_kernel("Relu", "cpu"), r"write override_kernel\(kernel_name, ba"),
    ],
)
def test_errors_of_wrong_declarations_show_the_right_form(declare, message):
    with pytest.raises(ArgumentError, match=message):
        declare()


# --- implementations ------------------------------------------------------------------------------


def test_backends_that_are_misspelt_get_a_suggestion():
    for name, meant in (("cpuu", "cpu"), ("webgup", "webgpu")):
        config = KernelConfig("Wave", name, abs)
        with pytest.raises(
            RegistrationError, match=f"called '{name}' .did you mean '{meant}'.*installed"
        ):
            plugrad.register_kernel(config)
        with pytest.raises(RegistrationError, match=meant), plugrad.override_kernel(*config[:3]):
            pass
    with pytest.raises(RegistrationError, match="'Relu' is the name of a kernel; it stands before"):
        plugrad.register_kernel(KernelConfig("cpu", "Relu", abs))
    plugrad.register_kernel(KernelConfig("Wave", "quantum", abs))  # may come later
    plugrad.unregister_kernel("Wave", "quantum")


@pytest.mark.parametrize(
    ("contract", "function", "line"),
    [
        (activation.leaky_relu, lambda x, alpha: x, "x, *, alpha"),
        (activation.leaky_relu, lambda x, *, alfa: x, "x, *, alpha"),
        (activation.leaky_relu, lambda x: x, "x, *, alpha"),
        (binary.add, lambda x: x, "a, b"),
        (movement.concat, lambda x, *, axis: x, "*x, axis"),
    ],
)
def test_implementations_that_do_not_fit_are_shown_one_that_does(contract, function, line):
    import re

    inputs = contract.inputs
    line = line.replace("*x", f"*{inputs[-1]}") if contract.takes_list else line
    with pytest.raises(
        RegistrationError, match=re.escape(f"Define it as in def implementation({line})")
    ):
        plugrad.register_kernel(KernelConfig(contract.name, "cpu", function), replace=True)


# --- contracts ------------------------------------------------------------------------------------


def test_attributes_among_the_inputs_of_a_contract_are_named():
    def scaled(x: Spec, factor: float) -> Spec:
        return x

    def textual(x: "Spec", axes: "tuple[int, ...]") -> "Spec":
        return x

    for rule, line in ((scaled, "factor: float"), (textual, "axes: tuple")):
        with pytest.raises(
            RegistrationError, match=rf"kernel Odd: {line}.*keyword-only.*\(x: Spec, \*, {line}"
        ):
            kernel("Odd", family="tests")(rule)

    def swapped(*, x: Spec) -> Spec:
        return x

    with pytest.raises(RegistrationError, match=r"kernel Odd: x: Spec stands where.*before the \*"):
        kernel("Odd", family="tests")(swapped)


def test_an_elementwise_contract_checks_the_dtypes_of_all_inputs():
    @kernel("Tide", family="tests", is_elementwise=True, accepts=frozenset({float32}))
    def tide(a: Spec, b: Spec) -> Spec:
        """Return a tide."""
        return a

    x, n = plugrad.ones(2), plugrad.arange(2)
    assert tide.infer(x, x).shape == (2,)
    for inputs in ((n, x), (x, n)):
        with pytest.raises(DTypeError, match="Tide does not take int32; it takes float32"):
            tide.infer(*inputs)


def test_suggestions_ignore_case():
    with pytest.raises(DTypeError, match="did you mean 'float32'"):
        plugrad.zeros(2, dtype="FLOAT32")
    with pytest.raises(KernelNotFound, match="did you mean 'Add'"):
        plugrad.run_kernel("ADD", {"a": plugrad.ones(2), "b": plugrad.ones(2)})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda x: reduction.sum(x, axes=(0,)),
            r"\['axes'\] .did you mean 'axis'.*takes \['axis', ",
        ),
        (
            lambda x: plugrad.run_kernel("Sum", {"x": x}, {"keepdims": True}),
            "did you mean 'keep_dims'",
        ),
        (lambda x: reduction.sum(x, (0,)), r"inputs must be tensors, not tuple"),
        (lambda x: unary.sin(x=x), r"Sin: no input is given; it takes \['x'\], by position"),
        (
            lambda x: plugrad.run_kernel("Sin", {"y": x}),
            r"\['x', 'y'\] are unknown or missing; it takes \['x'\]",
        ),
    ],
)
def test_keywords_that_a_kernel_does_not_have_get_a_suggestion(call, message):
    with pytest.raises(ArgumentError, match=message):
        call(plugrad.asarray(VECTOR, dtype=float32))
