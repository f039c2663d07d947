"""The kernel registry: what can be registered, looked up, replaced and undone."""

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import plugrad
from plugrad import KernelConfig
from plugrad.discovery.loading import close_backend, open_backend
from plugrad.errors import DisposedTensor, KernelNotFound, RegistrationError
from plugrad.registry.kernels import register_kernels


def double(x):
    return x + x


def run_kernel_on_list(name, values=(1.0, 2.0)):
    return plugrad.run_kernel(name, {"x": plugrad.asarray(list(values))}).tolist()


def test_registered_kernel_is_found_and_runs():
    config = KernelConfig("Double", "cpu", double)
    plugrad.register_kernel(config)
    assert plugrad.get_kernel("Double", "cpu") is config
    assert config in plugrad.get_kernels_for_backend("cpu")
    assert run_kernel_on_list("Double") == [2.0, 4.0]


def test_lookup_of_an_unknown_kernel_returns_none():
    assert plugrad.get_kernel("Double", "cpu") is None
    assert plugrad.get_kernel("Add", "nowhere") is None
    assert plugrad.get_kernels_for_backend("nowhere") == []


def test_unregistered_kernel_is_not_found():
    plugrad.register_kernel(KernelConfig("Double", "cpu", double))
    assert plugrad.unregister_kernel("Double", "cpu").kernel_func is double
    assert plugrad.get_kernel("Double", "cpu") is None
    with pytest.raises(KernelNotFound, match="no kernel is called 'Double'"):
        run_kernel_on_list("Double")


def test_unregistering_an_unknown_entry_raises():
    with pytest.raises(KernelNotFound, match="'Double' is registered for backend 'cpu'; nothing"):
        plugrad.unregister_kernel("Double", "cpu")


def test_registering_twice_raises_and_keeps_the_first():
    plugrad.register_kernel(KernelConfig("Double", "cpu", double))
    with pytest.raises(
        RegistrationError, match="already; pass replace=True, or use override_kernel"
    ):
        plugrad.register_kernel(KernelConfig("Double", "cpu", np.negative))
    assert run_kernel_on_list("Double") == [2.0, 4.0]


def test_replacing_takes_effect_at_once():
    plugrad.register_kernel(KernelConfig("Double", "cpu", double))
    assert run_kernel_on_list("Double") == [2.0, 4.0]
    plugrad.register_kernel(KernelConfig("Double", "cpu", lambda x: -x), replace=True)
    assert run_kernel_on_list("Double") == [-1.0, -2.0]


def test_keys_are_tuples_so_backend_names_may_have_underscores():
    config = KernelConfig("Double_It", "my_own_gpu", double)
    plugrad.register_kernel(config)
    try:
        assert plugrad.get_kernels_for_backend("my_own_gpu") == [config]
        assert plugrad.get_kernels_for_backend("my") == []
        plugrad.copy_registered_kernels("my_own_gpu", "your_own_gpu")
        copied = plugrad.unregister_kernel("Double_It", "your_own_gpu")
        assert (copied.backend_name, copied.kernel_func) == ("your_own_gpu", double)
    finally:
        plugrad.unregister_kernel("Double_It", "my_own_gpu")


def test_copying_carries_setup_and_dispose_along():
    def setup(backend):
        pass

    plugrad.register_kernel(KernelConfig("Double", "one_gpu", double, setup, setup))
    plugrad.copy_registered_kernels("one_gpu", "other_gpu")
    plugrad.unregister_kernel("Double", "one_gpu")
    config = plugrad.unregister_kernel("Double", "other_gpu")
    assert (config.setup_func, config.dispose_func) == (setup, setup)


def test_copying_kernels_to_a_taken_key_registers_none():
    for name in ("First", "Second"):
        plugrad.register_kernel(KernelConfig(name, "one_gpu", double))
    plugrad.register_kernel(KernelConfig("Second", "other_gpu", np.negative))
    with pytest.raises(RegistrationError, match="'Second' is registered for backend 'other_gpu'"):
        plugrad.copy_registered_kernels("one_gpu", "other_gpu")
    assert plugrad.get_kernel("First", "other_gpu") is None
    plugrad.copy_registered_kernels("one_gpu", "other_gpu", replace=True)
    assert {c.kernel_func for c in plugrad.get_kernels_for_backend("other_gpu")} == {double}
    for backend in ("one_gpu", "other_gpu"):
        for name in ("First", "Second"):
            plugrad.unregister_kernel(name, backend)


def test_override_holds_inside_its_block_for_ops_too():
    x = plugrad.asarray([1.0, 2.0])
    with plugrad.override_kernel("Add", "cpu", np.subtract):
        assert (x + x).tolist() == [0.0, 0.0]
        with plugrad.override_kernel("Add", "cpu", np.multiply):
            assert (x + x).tolist() == [1.0, 4.0]
        assert (x + x).tolist() == [0.0, 0.0]
    assert (x + x).tolist() == [2.0, 4.0]


def test_override_restores_setup_and_dispose():
    config = KernelConfig("Double", "cpu", double, print, print)
    plugrad.register_kernel(config)
    with plugrad.override_kernel("Double", "cpu", np.negative):
        pass
    assert plugrad.get_kernel("Double", "cpu") is config


def test_override_without_earlier_entry_leaves_no_entry():
    with plugrad.override_kernel("Double", "cpu", double):
        assert run_kernel_on_list("Double") == [2.0, 4.0]
    assert plugrad.get_kernel("Double", "cpu") is None


def test_override_ends_when_its_block_raises():
    with pytest.raises(ZeroDivisionError), plugrad.override_kernel("Add", "cpu", np.subtract):
        raise ZeroDivisionError
    assert (plugrad.asarray([1.0]) + 1).tolist() == [2.0]


def test_register_kernels_registers_all_or_none():
    good = KernelConfig("Good", "cpu", double)
    bad = KernelConfig("Relu", "other_gpu", lambda: None)
    with pytest.raises(RegistrationError, match="Relu on 'other_gpu'"):
        register_kernels([good, bad])
    assert plugrad.get_kernel("Good", "cpu") is None
    with pytest.raises(RegistrationError, match="twice at once"):
        register_kernels([good, good])
    assert plugrad.get_kernel("Good", "cpu") is None


@pytest.mark.parametrize(
    ("kernel", "function", "message"),
    [
        ("Relu", lambda: None, r"takes 0 positional parameters; the contract's are \(x\)"),
        ("Relu", lambda x, y: x, r"takes 2 positional parameters; the contract's are \(x\)"),
        ("Add", lambda a: a, r"the contract's are \(a, b\)"),
        ("Sum", lambda x, *, axis: x, r"keyword-only parameters \['keep_dims'\] are unknown or"),
        ("Sum", lambda x, axis, keep_dims: x, r"takes 3 positional parameters"),
        ("Relu", lambda x, *, slope: x, r"keyword-only parameters \['slope'\]"),
        ("Concat", lambda a, b, *, axis: a, r"must take its inputs as \*inputs"),
        ("Fill", lambda *, shape, value, dtype: None, r"the contract's are \(backend\)"),
        ("Relu", 3, "3 is not callable"),
    ],
)
def test_implementation_that_does_not_fit_its_contract_is_refused(kernel, function, message):
    with pytest.raises(RegistrationError, match=message):
        plugrad.register_kernel(KernelConfig(kernel, "other_gpu", function))
    assert plugrad.get_kernel(kernel, "other_gpu") is None


@pytest.mark.parametrize(
    ("kernel", "function"),
    [
        ("Relu", lambda x, *, fast=True: x),  # an option of the implementation's own
        ("Relu", lambda values: values),  # inputs come by position: their names are free
        ("Sum", lambda x, **attrs: x),
        ("Sum", lambda *inputs, axis, keep_dims: inputs),
        ("Add", np.add),
        ("Concat", lambda *parts, axis: parts),
        ("Fill", lambda backend, *, shape, value, dtype: None),
    ],
)
def test_implementation_that_fits_its_contract_is_accepted(kernel, function):
    plugrad.register_kernel(KernelConfig(kernel, "other_gpu", function))
    assert plugrad.unregister_kernel(kernel, "other_gpu").kernel_func is function


def test_setup_and_dispose_functions_run_once_for_each_opened_device(
    fake_backend_name, fake_backend_class
):
    first = open_backend(fake_backend_name)
    assert fake_backend_class.events == [("setup", first)]
    assert open_backend(fake_backend_name) is open_backend(fake_backend_name, "0") is first
    second = open_backend(fake_backend_name, "1")
    assert fake_backend_class.events == [("setup", first), ("setup", second)]
    del fake_backend_class.events[:]
    close_backend(second)
    assert fake_backend_class.events == [("dispose", second), ("close", second)]
    again = open_backend(fake_backend_name, "1")
    assert again is not second
    assert fake_backend_class.events[2:] == [("setup", again)]


def test_kernel_registered_before_its_backend_is_opened_is_set_up_with_it(fake_backend_name):
    ready = []
    plugrad.register_kernel(KernelConfig("Double", fake_backend_name, double, ready.append))
    backend = open_backend(fake_backend_name)
    assert ready == [backend]
    x = plugrad.asarray([1.0], device=fake_backend_name)
    assert plugrad.run_kernel("Double", {"x": x}).tolist() == [2.0]


def test_backend_with_a_failing_setup_registers_no_kernel(register_for_test, fake_backend_class):
    def broken(backend):
        raise OSError("no such chip")

    class Broken(fake_backend_class):
        name = "broken_device"

        def open(self, device):
            table = plugrad.extend.KernelTable(self.name)
            table.implements(plugrad.kernels.unary.exp, setup=broken)(np.exp)
            return table

    register_for_test("broken_device", Broken)
    with pytest.raises(plugrad.errors.BackendUnavailable, match="OSError: no such chip"):
        open_backend("broken_device")
    assert plugrad.get_kernels_for_backend("broken_device") == []
    assert (plugrad.asarray([1.0]) + 1).tolist() == [2.0]  # the others keep working


# --- in any order ---------------------------------------------------------------------------------


def run_in_new_process(program, *, warnings="error"):
    """Run a program in a new process and return its output."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PLUGRAD_")}
    environment |= {"PLUGRAD_BACKEND": "cpu"}
    done = subprocess.run(
        [sys.executable, "-W", warnings, "-c", textwrap.dedent(program)],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split(), done.stderr


def test_replacing_before_the_backend_is_loaded_takes_effect():
    printed, _ = run_in_new_process("""
        import plugrad
        from plugrad import KernelConfig
        plugrad.register_kernel(KernelConfig("Square", "cpu", lambda x: x + 100), replace=True)
        print(plugrad.square(plugrad.asarray(2.0)).item(), plugrad.which().device)
        plugrad.unregister_kernel("Square", "cpu")
        print(plugrad.square(plugrad.asarray(2.0)).item())
    """)
    assert printed == ["102.0", "cpu:0", "4.0"]


def test_override_before_the_backend_is_loaded_ends_with_its_block():
    printed, _ = run_in_new_process("""
        import plugrad
        with plugrad.override_kernel("Square", "cpu", lambda x: x + 100):
            print(plugrad.square(plugrad.asarray(2.0)).item())
        print(plugrad.square(plugrad.asarray(2.0)).item(), plugrad.which().device)
    """)
    assert printed == ["102.0", "4.0", "cpu:0"]


def test_registering_over_a_backends_own_kernel_warns():
    printed, error = run_in_new_process(
        """
        import plugrad
        from plugrad import KernelConfig
        plugrad.register_kernel(KernelConfig("Square", "cpu", lambda x: x + 100))
        plugrad.register_kernel(KernelConfig("ThirdPower", "cpu", lambda x: x**3))
        x = plugrad.asarray(2.0)
        print(plugrad.square(x).item(), plugrad.run_kernel("ThirdPower", {"x": x}).item())
        """,
        warnings="always",
    )
    assert printed == ["4.0", "8.0"]
    assert "backend 'cpu' has its own kernel 'Square'" in error
    assert "pass replace=True" in error


def test_overrides_end_in_any_order():
    first = plugrad.override_kernel("Abs", "cpu", lambda x: x + 1)
    second = plugrad.override_kernel("Abs", "cpu", lambda x: x + 2)
    x = plugrad.asarray(-1.0)
    first.__enter__()
    second.__enter__()
    assert plugrad.abs(x).item() == 1
    first.__exit__(None, None, None)
    assert plugrad.abs(x).item() == 1
    second.__exit__(None, None, None)
    assert plugrad.abs(x).item() == 1.0
    assert plugrad.get_kernel("Abs", "cpu").kernel_func is np.abs


# --- kernels of opened devices --------------------------------------------------------------------


@pytest.fixture
def device_bound_backend(register_for_test, fake_backend_class):
    """A backend whose kernels belong to an opened device and count their calls."""

    class DeviceBoundBackend(fake_backend_class):
        name = "bound_device"

        def open(self, device):
            super().open(device)
            self.calls = 0
            table = plugrad.extend.KernelTable(self.name)
            table.update({plugrad.kernels.unary.exp: self.exp})
            if self.device == "1":
                table.update({plugrad.kernels.unary.negative: np.negative})
            return table

        def exp(self, x):
            self.calls += 1
            return np.exp(x)

    register_for_test("bound_device", DeviceBoundBackend)
    return "bound_device"


def test_a_kernel_runs_with_the_device_it_belongs_to(device_bound_backend):
    first, second = open_backend(device_bound_backend), open_backend(device_bound_backend, "1")
    for device in (second, first, second):
        plugrad.exp(plugrad.asarray([0.0], device=device))
    assert (first.calls, second.calls) == (1, 2)


def test_a_reopened_device_runs_its_own_kernels(device_bound_backend):
    first = open_backend(device_bound_backend)
    plugrad.exp(plugrad.asarray([0.0], device=first))
    close_backend(first)
    again = open_backend(device_bound_backend)
    plugrad.exp(plugrad.asarray([0.0], device=again))
    assert (first.calls, again.calls) == (1, 1)


def test_devices_may_have_different_kernels(device_bound_backend):
    first, second = open_backend(device_bound_backend), open_backend(device_bound_backend, "1")
    assert plugrad.negative(plugrad.asarray([1.0], device=second)).tolist() == [-1.0]
    with pytest.raises(KernelNotFound, match="'bound_device' does not implement kernel 'Neg'"):
        plugrad.negative(plugrad.asarray([1.0], device=first))


def test_lookup_by_name_gives_the_kernels_of_the_device_that_was_opened_first(device_bound_backend):
    assert plugrad.get_kernels_for_backend(device_bound_backend) == []
    first, second = open_backend(device_bound_backend), open_backend(device_bound_backend, "1")
    assert plugrad.get_kernel("Exp", device_bound_backend).kernel_func == first.exp
    assert {c.kernel_name for c in plugrad.get_kernels_for_backend(device_bound_backend)} == {
        "Exp",
        "Neg",
    }
    close_backend(first)
    assert plugrad.get_kernel("Exp", device_bound_backend).kernel_func == second.exp
    close_backend(second)
    assert plugrad.get_kernel("Exp", device_bound_backend) is None


def test_kernels_registered_by_programs_apply_to_all_devices(device_bound_backend):
    first, second = open_backend(device_bound_backend), open_backend(device_bound_backend, "1")
    with plugrad.override_kernel("Exp", device_bound_backend, lambda x: x + 100):
        for device in (first, second):
            assert plugrad.exp(plugrad.asarray([1.0], device=device)).tolist() == [101.0]
    plugrad.unregister_kernel("Exp", device_bound_backend)
    for device in (first, second):
        with pytest.raises(KernelNotFound):
            plugrad.exp(plugrad.asarray([1.0], device=device))


def test_replaced_kernel_of_an_open_backend_is_in_effect_again_when_the_replacement_is_gone():
    config = KernelConfig("Abs", "cpu", lambda x: x + 5)
    plugrad.register_kernel(config, replace=True)
    assert plugrad.abs(plugrad.asarray(-1.0)).item() == 4.0
    assert plugrad.unregister_kernel("Abs", "cpu") is config
    assert plugrad.abs(plugrad.asarray(-1.0)).item() == 1.0


def test_memory_limit_outlives_the_device(fake_backend_name):
    plugrad.set_memory_limit(1000, backend=fake_backend_name)
    close_backend(open_backend(fake_backend_name))
    assert open_backend(fake_backend_name).memory_limit == 1000
    assert open_backend(fake_backend_name, "1").memory_limit is None
    with plugrad.config.override("memory_limit", 77):
        assert open_backend(fake_backend_name).memory_limit == 77
        close_backend(open_backend(fake_backend_name))
        assert open_backend(fake_backend_name).memory_limit == 77
    assert open_backend(fake_backend_name).memory_limit is None
    close_backend(open_backend(fake_backend_name))
    assert open_backend(fake_backend_name).memory_limit is None


def test_tensors_of_a_closed_backend_are_refused(fake_backend_name):
    x = plugrad.asarray([1.0], device=fake_backend_name)
    close_backend(x.backend)
    y = plugrad.asarray([1.0], device=fake_backend_name)
    for attempt in (lambda: x + x, lambda: x + y, x.numpy, x.tolist, lambda: x.to("cpu")):
        with pytest.raises(DisposedTensor, match="lived on fake_device:0, which has been closed"):
            attempt()
    assert (y + y).tolist() == [2.0]


# --- what a backend prepares ----------------------------------------------------------------------


def test_wrap_implementation_is_given_the_implementation_itself(
    register_for_test, fake_backend_class
):
    seen = []

    class WrappingBackend(fake_backend_class):
        name = "preparing_device"

        def open(self, device):
            super().open(device)
            table = plugrad.extend.KernelTable(self.name)
            table.update({plugrad.kernels.binary.equal: np.equal})
            table.update({plugrad.kernels.unary.exp: np.exp}, on_host=True)
            return table

        def dtypes(self):
            return super().dtypes() | {plugrad.extend.string}

        def wrap_implementation(self, kernel_name, function):
            def implementation(*arrays, **attrs):
                seen.append((kernel_name, function, arrays[0].dtype.kind))
                return function(*arrays, **attrs)

            return implementation

    register_for_test("preparing_device", WrappingBackend)
    with plugrad.use("preparing_device"):
        x = plugrad.asarray([1.0])
        assert plugrad.equal(x, x).tolist() == [True]
        plugrad.exp(x)
        assert seen == [("Equal", np.equal, "f"), ("Exp", np.exp, "f")]
        words = plugrad.asarray(["a", "b"], dtype="string")
        assert plugrad.equal(words, words).tolist() == [True, True]
        assert len(seen) == 2  # strings are none of the backend's business


def test_devices_that_stay_open_have_the_settings_of_all_tests(backend):
    """Tests of core may open webgpu first; with their settings, shader tests ran on the host."""
    expected = {"webgpu": 0}.get(backend)  # the others have no such setting
    assert plugrad.which().backend.options.get("host_elements") == expected
