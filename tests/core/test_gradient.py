"""The gradient registry: the table form, the explicit form, and what both refuse."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest

import plugrad
from plugrad import GradientConfig, KernelConfig
from plugrad.errors import (
    ArgumentError,
    DTypeError,
    GradientNotFound,
    RegistrationError,
    ShapeError,
)
from plugrad.extend import Shaped, Spec, gradient, kernel, not_differentiable
from plugrad.kernels import activation, decomposition, unary

tensor = plugrad.asarray


@pytest.fixture
def wave_kernel():
    @kernel("Wave", family="tests")
    def wave(x: Spec, speed: Spec, *, height: float = 1.0) -> Spec:
        return Shaped(x.shape, x.dtype)

    plugrad.register_kernel(
        KernelConfig("Wave", "cpu", lambda x, speed, *, height: height * x * speed)
    )
    return wave


def wave_gradients(wave, height=2.0):
    """Return the gradients of the kernel Wave at x = 3, speed = 5."""
    f = plugrad.grad(lambda x, speed: wave(x, speed, height=height), (0, 1))
    return [g.item() for g in f(3.0, 5.0)]


# --- the table form -------------------------------------------------------------------------------


def test_rules_receive_the_values_that_they_name(wave_kernel):
    seen = {}

    def rule_of_x(dy, x, speed, out, height, attrs, x_spec, speed_spec):
        seen.update(locals())
        return dy * speed * height

    gradient(wave_kernel, x=rule_of_x, speed=lambda dy, x, height: dy * x * height)
    assert wave_gradients(wave_kernel) == [10.0, 6.0]
    assert (seen["x"].item(), seen["speed"].item(), seen["out"].item()) == (3.0, 5.0, 30.0)
    assert (seen["height"], seen["attrs"]) == (2.0, {"height": 2.0})
    assert (seen["x_spec"].shape, seen["speed_spec"].dtype) == ((), plugrad.float32)


def test_a_list_behind_other_inputs_has_one_rule():
    @kernel("Weighted", family="tests")
    def weighted(x: Spec, *weights: Spec) -> Spec:
        return Shaped(x.shape, x.dtype)

    plugrad.register_kernel(KernelConfig("Weighted", "cpu", lambda x, *weights: x * sum(weights)))
    specs = []

    def rule_of_weights(dy, x, weights_spec):
        specs.extend(weights_spec)
        return [plugrad.sum(dy * x) for _ in weights_spec]

    gradient(weighted, x=lambda dy, weights: dy * plugrad.add_n(weights), weights=rule_of_weights)
    x, a, b = tensor([1.0, 2.0]), tensor(3.0), tensor(4.0)
    gradients = plugrad.grads(lambda x, a, b: plugrad.sum(weighted(x, a, b)))(x, a, b)
    assert [g.tolist() for g in gradients] == [[7.0, 7.0], 3.0, 3.0]
    assert [spec.shape for spec in specs] == [(), ()]
    second = plugrad.grad(plugrad.grad(lambda a: plugrad.sum(weighted(x * a, a, b))))(a)
    assert second.item() == 6.0  # of sum(x) (a^2 + 4 a)


def test_only_the_rules_of_differentiated_inputs_are_applied(wave_kernel):
    def never(dy):
        raise AssertionError

    gradient(wave_kernel, x=lambda dy, speed: dy * speed, speed=never)
    assert plugrad.grad(lambda x: wave_kernel(x, tensor(5.0)))(3.0).item() == 5.0


def test_only_values_named_by_rules_are_saved(wave_kernel):
    gradient(wave_kernel, x=lambda dy, speed: dy * speed, speed=lambda dy, x: dy * x)
    calls = []

    def f(x):
        y = wave_kernel(x, tensor(5.0))
        calls.append(y.node)
        return y

    plugrad.grad(f)(3.0)
    (call,) = calls
    assert [a.item() for a in call.saved] == [5.0]
    assert not hasattr(call, "outputs")


def test_input_without_a_rule_contributes_nothing(wave_kernel):
    gradient(wave_kernel, x=lambda dy, speed: dy * speed)
    f = plugrad.grad(lambda x, s: wave_kernel(x, s), (0, 1), allow_unused=True)
    assert [g.item() for g in f(3.0, 5.0)] == [5.0, 0.0]


@pytest.mark.parametrize(
    ("rules", "unknown"),
    [
        ({"y": lambda dy: dy}, r"unknown \['y'\]"),
        ({"x": lambda dy, z: dy}, r"unknown \['z'\]"),
        ({"x": lambda dy, widths, z: dy}, r"unknown \['widths', 'z'\]"),
    ],
)
def test_unknown_names_fail_at_declaration(wave_kernel, rules, unknown):
    with pytest.raises(
        RegistrationError,
        match=rf"gradient of Wave: {unknown}; known are \['absent', 'attrs', 'dy'",
    ):
        gradient(wave_kernel, **rules)
    assert plugrad.get_gradient("Wave") is None


def test_rules_may_request_which_outputs_are_unused():
    seen = []

    def rule(dy, absent):
        seen.append(set(absent))
        return dy[0]

    x = plugrad.eye(2, device="cpu")
    with plugrad.override_gradient(decomposition.qr, input=rule):
        plugrad.grad(lambda x: plugrad.sum(plugrad.linalg.qr(x).Q))(x)
        plugrad.grad(lambda x: plugrad.sum(plugrad.matmul(*plugrad.linalg.qr(x))))(x)
    assert seen == [{1}, set()]


def test_rules_of_a_kernel_with_input_dy_call_it_dy_input():
    x = tensor([-1.0, 2.0])
    f = lambda dy: plugrad.sum(activation.elu_gradient(dy, x) * dy)  # noqa: E731
    assert plugrad.grad(f)(tensor([1.0, 3.0])).tolist() == [0.0, 6.0]


def test_second_gradient_for_a_kernel_is_refused(wave_kernel):
    gradient(wave_kernel, x=lambda dy: dy)
    with pytest.raises(
        RegistrationError, match="'Wave' has a gradient already; pass replace=True, or use"
    ):
        gradient(wave_kernel, x=lambda dy: dy * 2)
    gradient(wave_kernel, x=lambda dy: dy * 2, replace=True)
    assert plugrad.grad(lambda x: wave_kernel(x, tensor(1.0)))(1.0).item() == 2.0


def test_not_differentiable_is_never_an_error_by_itself(wave_kernel):
    not_differentiable(wave_kernel, because="it is flat")
    assert plugrad.grad(lambda x: x * 3 + wave_kernel(x, x))(1.0).item() == 3.0


# --- the explicit form ----------------------------------------------------------------------------


def test_function_gets_dy_saved_and_attributes(wave_kernel):
    def grad_func(dy, saved, attrs):
        x, speed, y = saved
        assert y.item() == 30.0
        return {
            "x": lambda: dy * speed * attrs["height"],
            "speed": lambda: dy * x * attrs["height"],
        }

    plugrad.register_gradient(GradientConfig("Wave", grad_func, ("x", "speed"), (True,)))
    assert wave_gradients(wave_kernel) == [10.0, 6.0]
    assert plugrad.get_gradient("Wave").kernel_name == "Wave"


def test_saved_inputs_have_the_requested_order(wave_kernel):
    def grad_func(dy, saved, attrs):
        speed, x = saved
        return {"x": dy * speed, "speed": dy * x}

    plugrad.register_gradient(GradientConfig("Wave", grad_func, ("speed", "x")))
    assert wave_gradients(wave_kernel) == [5.0, 3.0]


def test_gradient_functions_of_undifferentiated_inputs_are_not_called(wave_kernel):
    def never():
        raise AssertionError

    plugrad.register_gradient(
        GradientConfig("Wave", lambda dy, saved, attrs: {"x": lambda: dy, "speed": never})
    )
    assert plugrad.grad(lambda x: wave_kernel(x, tensor(5.0)))(3.0).item() == 1.0


def test_explicit_form_is_differentiated_again(wave_kernel):
    plugrad.register_gradient(
        GradientConfig(
            "Wave",
            lambda dy, saved, attrs: {"x": dy * saved[1], "speed": dy * saved[0]},
            ("x", "speed"),
        )
    )
    f = lambda x: wave_kernel(x, x * x)  # x^3  # noqa: E731
    assert plugrad.grad(plugrad.grad(f))(2.0).item() == 12.0


def test_list_inputs_are_named_by_position():
    config = GradientConfig(
        "AddN", lambda dy, saved, attrs: {str(i): dy * (i + 1) for i in range(3)}
    )
    with plugrad.override_gradient(config):
        f = plugrad.grad(lambda a, b, c: plugrad.add_n([a, b, c]), (0, 1, 2))
        assert [g.item() for g in f(1.0, 1.0, 1.0)] == [1.0, 2.0, 3.0]


def test_kernel_by_name_need_not_be_declared():
    plugrad.register_kernel(KernelConfig("Stretched", "cpu", lambda x, *, factor: x * factor))
    plugrad.register_gradient(
        GradientConfig("Stretched", lambda dy, saved, attrs: {"x": dy * attrs["factor"]})
    )
    f = lambda x: plugrad.run_kernel("Stretched", {"x": x}, {"factor": 7.0})  # noqa: E731
    assert plugrad.grad(f)(1.0).item() == 7.0
    assert plugrad.unregister_gradient("Stretched").kernel_name == "Stretched"
    with pytest.raises(GradientNotFound, match="kernel 'Stretched' lies between"):
        plugrad.grad(f)(1.0)


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (
            dict,
            RegistrationError,
            r"function of Wave does not have an entry for input 'x'; it has \[\]",
        ),
        (
            lambda: {"y": 1},
            RegistrationError,
            r"does not have an entry for input 'x'; it has \['y'\]",
        ),
        (lambda: {"x": lambda: 3.0}, ArgumentError, "returned a float for input 'x', not a tensor"),
        (lambda: {"x": None}, ArgumentError, "returned a NoneType for input 'x', not a tensor"),
        (lambda: {"x": tensor(1)}, DTypeError, "returned int32 for input 'x', which is float32"),
        (
            lambda: {"x": tensor([1.0, 2.0])},
            ShapeError,
            r"Wave for input 'x' has shape \(2,\); .* \(3,\)",
        ),
    ],
)
def test_results_of_gradient_functions_are_checked(wave_kernel, answer, error, message):
    plugrad.register_gradient(GradientConfig("Wave", lambda dy, saved, attrs: answer()))
    with pytest.raises(error, match=message):
        plugrad.grad(lambda x: plugrad.sum(wave_kernel(x, tensor(5.0))))(tensor([1.0, 2.0, 3.0]))


def test_unknown_inputs_to_save_are_refused(wave_kernel):
    with pytest.raises(
        RegistrationError, match=r"inputs_to_save has \['z'\]; the inputs are \['x', 'speed'\]"
    ):
        plugrad.register_gradient(GradientConfig("Wave", lambda dy, saved, attrs: {}, ("z",)))


def test_gradients_must_have_the_table_form_or_the_explicit_form():
    with pytest.raises(ArgumentError, match="takes a GradientConfig or a kernel, not str"):
        plugrad.register_gradient("Wave")


# --- override and unregister ----------------------------------------------------------------------


def test_override_holds_inside_its_block():
    f = plugrad.grad(lambda x: plugrad.sign(x) * x)
    assert f(2.0).item() == 1.0
    with plugrad.override_gradient(unary.sign, x=lambda dy: dy):
        assert f(2.0).item() == 3.0
    assert f(2.0).item() == 1.0


def fail_unless(is_wrong):
    assert not is_wrong
    raise ZeroDivisionError


def test_override_ends_when_its_block_raises():
    before = plugrad.get_gradient("Exp")
    override = GradientConfig("Exp", lambda dy, saved, attrs: {"x": dy})
    with pytest.raises(ZeroDivisionError), plugrad.override_gradient(override):
        fail_unless(plugrad.grad(plugrad.exp)(2.0).item() != 1.0)
    assert plugrad.get_gradient("Exp") is before


def test_override_without_earlier_entry_leaves_no_entry(wave_kernel):
    with plugrad.override_gradient(wave_kernel, x=lambda dy: dy):
        assert plugrad.get_gradient("Wave") is not None
    assert plugrad.get_gradient("Wave") is None


def test_recorded_call_keeps_its_gradient_after_a_change():
    def f(x):
        with plugrad.override_gradient(unary.sign, x=lambda dy: dy * 5):
            return plugrad.sign(x)

    assert plugrad.grad(f)(2.0).item() == 5.0


def test_unregistering_an_unknown_entry_raises():
    with pytest.raises(
        GradientNotFound, match="kernel 'Nothing' has no gradient; nothing to unregister"
    ):
        plugrad.unregister_gradient("Nothing")
    assert plugrad.get_gradient("Nothing") is None


def test_replacing_is_a_warning_in_debug_mode(wave_kernel):
    gradient(wave_kernel, x=lambda dy, x: dy)
    plugrad.config.set("debug", True)
    try:
        with pytest.warns(RuntimeWarning, match="the gradient of Wave is replaced"):
            plugrad.register_gradient(wave_kernel, x=lambda dy, x: dy * 2, replace=True)
        with (
            pytest.warns(RuntimeWarning, match="Abs on backend 'cpu' is replaced"),
            plugrad.override_kernel("Abs", "cpu", np.abs),
        ):
            pass
    finally:
        plugrad.config.reset("debug")
    plugrad.register_gradient(wave_kernel, x=lambda dy, x: dy, replace=True)  # in silence


def test_every_gradient_is_listed():
    listed = plugrad.get_gradients()
    assert listed["Exp"] is plugrad.get_gradient("Exp")
    assert listed["Floor"].because
    assert listed["Conv2D"].inputs == ("x", "filter")
    listed.clear()
    assert plugrad.get_gradient("Exp") is not None


# --- plugrad's own gradients, which are imported when they are asked for ---------------------------


def run_in_new_process(program):
    """Run a program in a new process, where no gradient rules are loaded yet."""
    program = textwrap.dedent(program)
    subprocess.run([sys.executable, "-c", program], check=True)


def test_registering_a_gradient_conflicts_with_one_that_is_not_loaded_yet():
    run_in_new_process("""
        import plugrad
        from plugrad.kernels import unary

        try:
            plugrad.register_gradient(unary.exp, x=lambda dy: dy * 7)
        except plugrad.errors.RegistrationError as error:
            assert "kernel 'Exp' has a gradient already" in str(error)
        else:
            raise AssertionError
        with plugrad.override_gradient(unary.log, x=lambda dy: dy * 7):
            assert plugrad.grad(plugrad.log)(2.0).item() == 7
        assert plugrad.grad(plugrad.log)(2.0).item() == 0.5
        plugrad.unregister_gradient("Sqrt")
        assert plugrad.get_gradient("Sqrt") is None
    """)


def test_gradients_loaded_by_a_plugin_are_not_attributed_to_it():
    run_in_new_process("""
        import plugrad
        from plugrad.registry.gradients import gradients
        from plugrad.settings import journal

        def interrupt(*arguments):
            if arguments[1] == "FusedConv2D":  # the rules of products, which it needs, are there
                raise KeyboardInterrupt
            put(*arguments)

        journal.put_table_entry, put = interrupt, journal.put_table_entry
        try:
            plugrad.get_gradient("_FusedMatMul")
        except KeyboardInterrupt:
            assert not gradients
        else:
            raise AssertionError
        journal.put_table_entry = put
        with journal.record_registrations() as changes:
            assert plugrad.get_gradient("_FusedMatMul") and plugrad.get_gradient("BatchMatMul")
            assert plugrad.get_gradient("Relu").inputs == ("x",)
        changes.undo()
        assert plugrad.grad(plugrad.relu)(2.0).item() == 1
    """)


def test_contracts_loaded_by_a_plugin_are_not_attributed_to_it():
    run_in_new_process("""
        import sys
        import plugrad
        from plugrad.contract.kernel import KERNELS
        from plugrad.settings import journal

        assert "TopK" not in KERNELS
        with journal.record_registrations() as changes:
            assert plugrad.get_gradient("TopK") and plugrad.sort([2, 1]).tolist() == [1, 2]
        assert not [c.subject for c in changes.changes if c.subject[0] == "contract"]
        changes.undo()
        assert plugrad.top_k([1, 3], 1).values.item() == 3

        # An import that was interrupted is repeated.
        del sys.modules["plugrad.kernels.sorting"], plugrad.kernels.sorting
        assert plugrad.kernels.sorting.top_k is KERNELS["TopK"]
    """)


def test_threads_find_a_gradient_that_another_thread_is_importing():
    run_in_new_process("""
        import sys, threading, plugrad

        sys.setswitchinterval(1e-6)
        ready = threading.Barrier(4)
        found = []

        def ask(name):
            ready.wait()
            found.append(plugrad.get_gradient(name))

        names = ["Relu", "Elu", "Selu", "Sigmoid"]
        threads = [threading.Thread(target=ask, args=(name,)) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 4 and all(found)
    """)


def test_on_gradient_is_called_with_each_complete_gradient():
    a, b, c = (plugrad.Variable(x, name=n) for n, x in (("a", 2.0), ("b", 3.0), ("c", 4.0)))
    unused = plugrad.Variable(1.0, name="unused")
    told = []

    def function():
        x = plugrad.sin(a * b)  # b is needed here and at the end: its gradient is complete here
        return x * c + b

    _, gradients = plugrad.variable_grads(
        function,
        [a, b, c, unused],
        allow_unused=True,
        on_gradient=lambda v, g: told.append((v.name, g.item())),
    )
    by_name = dict(zip("abc", gradients, strict=False))
    assert [name for name, _ in told] in (["c", "a", "b"], ["c", "b", "a"])
    assert dict(told) == {name: g.item() for name, g in by_name.items()}
    assert gradients[3].item() == 0


def test_on_gradient_for_a_variable_that_is_the_result_and_for_conjugates():
    z = plugrad.Variable(plugrad.asarray(1.0 + 2.0j))
    told = []
    _, (gradient,) = plugrad.variable_grads(
        lambda: plugrad.real(z * z), [z], on_gradient=lambda _, g: told.append(g.item())
    )
    assert told == [gradient.item()] == [2 - 4j]
    w = plugrad.Variable(1.0)
    plugrad.variable_grads(lambda: w, [w], on_gradient=lambda _, g: told.append(g.item()))
    assert told[1:] == [1.0]
    with pytest.raises(ArgumentError, match="variable_grads"):
        plugrad.variable_grads(lambda: w, [w], on_gradient=3)
