"""The choice of the backend: `use`, the configuration, the automatic choice, and copies between backends."""

import asyncio
import threading
import warnings
from contextvars import Context
from itertools import permutations

import importlib_metadata
import numpy as np
import pytest

import plugrad
from plugrad.discovery import listing
from plugrad.discovery.listing import first_party_distributions
from plugrad.errors import BackendNotFound, BackendUnavailable, ConfigError, PluginConflict
from plugrad.extend import DeviceInfo, Probe


@pytest.fixture
def without_settings(monkeypatch, tmp_path):
    """Remove all settings, so that the backend is chosen automatically."""
    monkeypatch.delenv("PLUGRAD_BACKEND")
    monkeypatch.chdir(tmp_path)
    plugrad.config.reset()


def active_device():
    return plugrad.which().device


# --- use ------------------------------------------------------------------------------------------


def test_use_blocks_apply_inside_and_nest(fake_backend_name):
    assert active_device() == "cpu:0"
    with plugrad.use(fake_backend_name) as chosen:
        assert (chosen.device, chosen.layer) == ("fake_device:0", "plugrad.use")
        assert plugrad.zeros(2).device == active_device() == "fake_device:0"
        with plugrad.use("cpu"):
            assert plugrad.asarray([1.0]).device == active_device() == "cpu:0"
        assert active_device() == "fake_device:0"
    assert plugrad.ones(2).device == active_device() == "cpu:0"


def test_use_block_that_raises_restores_the_backend(fake_backend_name):
    with pytest.raises(KeyError), plugrad.use(fake_backend_name):
        raise KeyError
    assert active_device() == "cpu:0"


def test_use_block_may_be_entered_again(fake_backend_name):
    block = plugrad.use(fake_backend_name)
    for _ in range(2):
        with block:
            assert active_device() == "fake_device:0"
        assert active_device() == "cpu:0"


def test_blocks_end_in_any_order(fake_backend_name):
    chosen = ["cpu:0", "fake_device:0", "cpu:0"]
    for order in permutations(range(3)):
        with plugrad.use(fake_backend_name):
            blocks = [
                plugrad.use("cpu"),
                plugrad.use(fake_backend_name, transfer=True),
                plugrad.use("cpu"),
            ]
            for block in blocks:
                block.__enter__()
            running = [0, 1, 2]
            for i in order:
                assert active_device() == chosen[running[-1]]
                is_moved = (plugrad.ones(1, device="cpu") + 1).device == "fake_device:0"
                assert is_moved is (running[-1] == 1)
                blocks[i].__exit__(None, None, None)
                running.remove(i)
            assert active_device() == "fake_device:0"
        assert active_device() == "cpu:0"


def test_a_use_block_may_be_entered_inside_of_itself(fake_backend_name):
    block = plugrad.use(fake_backend_name)
    with block:
        with block, plugrad.use("cpu"):
            assert active_device() == "cpu:0"
        assert active_device() == "fake_device:0"
    assert active_device() == "cpu:0"


def test_use_inside_a_block_ends_with_the_block(fake_backend_name):
    with plugrad.use("cpu"):
        plugrad.use(fake_backend_name)
        inner = plugrad.use("cpu")
        inner.__enter__()
        assert active_device() == "cpu:0"
        inner.__exit__(None, None, None)
        assert active_device() == "fake_device:0"
    assert active_device() == "cpu:0"


def test_asynchronous_generator_with_a_use_block_may_be_closed_in_another_task(fake_backend_name):
    async def steps():
        with plugrad.use(fake_backend_name), plugrad.config.override("fallback", "silent"):
            yield

    async def main():
        running = steps()
        await anext(running)
        await asyncio.create_task(running.aclose())

    asyncio.run(main())


def test_use_without_a_block_stays_in_effect(fake_backend_name):
    def work():
        plugrad.use(fake_backend_name)
        assert active_device() == "fake_device:0"
        with plugrad.use("cpu"):
            pass
        return active_device()

    assert Context().run(work) == "fake_device:0"
    assert active_device() == "cpu:0"


def test_threads_choose_for_themselves(fake_backend_name):
    seen = []
    with plugrad.use(fake_backend_name):
        thread = threading.Thread(target=lambda: seen.append(active_device()))
        thread.start()
        thread.join(10)
    assert seen == ["cpu:0"]


def test_device_is_part_of_the_choice(fake_backend_name):
    with plugrad.use(f"{fake_backend_name}:1"):
        x = plugrad.ones(2)
        assert x.device == "fake_device:1"
        assert plugrad.which().description == "another fake"
        assert str(plugrad.which()) == "fake_device:1 (another fake), chosen by plugrad.use"
    assert plugrad.ones(2, device=f"{fake_backend_name}:1").backend is x.backend


def test_a_device_that_was_named_before_is_opened_again_after_it_was_closed(fake_backend_name):
    first = plugrad.ones(2, device=fake_backend_name).backend
    assert plugrad.ones(2, device=fake_backend_name).backend is first
    plugrad.close_backend(first)
    assert plugrad.ones(2, device=fake_backend_name).backend is not first


def test_failed_use_keeps_the_active_backend():
    with pytest.raises(BackendNotFound):
        plugrad.use("nowhere")
    assert active_device() == "cpu:0"


# --- errors ---------------------------------------------------------------------------------------


def test_unknown_backend_suggests_the_nearest_and_lists_the_installed():
    with pytest.raises(
        BackendNotFound, match=r"brings a backend called 'cpuu' \(did you mean 'cpu'\?\); .*cpu"
    ):
        plugrad.use("cpuu")
    with pytest.raises(BackendNotFound, match=r"called 'zzz'; installed are .*cpu"):
        plugrad.zeros(2, device="zzz")


def test_error_for_a_missing_backend_names_its_extra(monkeypatch):
    monkeypatch.setattr(
        listing, "first_party_distributions", lambda: frozenset({"plugrad-quantum"})
    )
    with pytest.raises(
        BackendNotFound,
        match=r'called \'quantum\'; install it with: pip install "plugrad\[quantum\]"',
    ):
        plugrad.use("quantum")


@pytest.mark.parametrize("spec", ["", " ", ":1", ","])
def test_empty_backend_names_are_rejected(spec):
    with pytest.raises(
        ConfigError, match="does not name a backend; expected is a name such as 'cpu', 'webgpu:1'"
    ):
        plugrad.use(spec)


def test_unknown_device_is_the_backends_own_error():
    with pytest.raises(BackendUnavailable, match="the cpu backend has one device, '0', not '7'"):
        plugrad.use("cpu:7")


def test_backend_that_cannot_start_gives_its_reason(register_for_test, fake_backend_class):
    class UnavailableBackend(fake_backend_class):
        name = "absent"

        def probe(self):
            return Probe(ok=False, reason="no driver; install one")

    register_for_test("absent", UnavailableBackend)
    with pytest.raises(
        BackendUnavailable, match="'absent' cannot start here: no driver; install one"
    ):
        plugrad.use("absent")


def test_run_time_backend_may_not_take_a_name(fake_backend_name):
    with pytest.raises(PluginConflict, match="called 'cpu' exists already; choose another name"):
        plugrad.register_backend("cpu", object)
    with pytest.raises(PluginConflict):
        plugrad.register_backend(fake_backend_name, object)


# --- layers ---------------------------------------------------------------------------------------


def test_configuration_layers_decide_in_order(
    fake_backend_name, register_for_test, fake_backend_class, monkeypatch, tmp_path
):
    (tmp_path / "plugrad.toml").write_text('backend = "fake_device"')
    monkeypatch.chdir(tmp_path)
    plugrad.config.reset()
    monkeypatch.setenv("PLUGRAD_BACKEND", "fake_device:1")
    assert (active_device(), plugrad.which().layer) == (
        "fake_device:1",
        "environment variable PLUGRAD_BACKEND",
    )
    monkeypatch.delenv("PLUGRAD_BACKEND")
    assert (active_device(), plugrad.which().layer) == (
        "fake_device:0",
        str(tmp_path / "plugrad.toml"),
    )
    plugrad.config.set("backend", "cpu")
    assert (active_device(), plugrad.which().layer) == ("cpu:0", "plugrad.config.set")
    with plugrad.use(fake_backend_name):
        assert plugrad.which().layer == "plugrad.use"
        assert plugrad.zeros(2, device="cpu").device == "cpu:0"


def test_environment_may_change_while_the_program_runs(fake_backend_name, monkeypatch):
    assert active_device() == "cpu:0"
    monkeypatch.setenv("PLUGRAD_BACKEND", fake_backend_name)
    assert active_device() == "fake_device:0"


# --- order of preference --------------------------------------------------------------------------


def test_first_choice_that_works_is_taken_with_one_warning(fake_backend_name):
    message = "'zzz,fake_device,cpu' gives 'fake_device', because .*'zzz'"
    with pytest.warns(RuntimeWarning, match=message) as caught:
        using = plugrad.use("zzz,fake_device,cpu")
    assert len(caught) == 1
    with using:
        assert plugrad.zeros(2).device == "fake_device:0"


def test_first_choice_gives_no_warning(fake_backend_name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with plugrad.use("cpu,zzz"):
            assert active_device() == "cpu:0"


def test_configured_preference_warns_once(monkeypatch):
    monkeypatch.setenv("PLUGRAD_BACKEND", "zzz,cpu")
    with pytest.warns(RuntimeWarning, match="PLUGRAD_BACKEND: 'zzz,cpu' gives 'cpu'") as caught:
        plugrad.zeros(2)
    assert len(caught) == 1
    assert plugrad.zeros(2).device == "cpu:0"  # a second warning would be an error


def test_single_name_never_falls_back(monkeypatch):
    monkeypatch.setenv("PLUGRAD_BACKEND", "zzz")
    for _ in range(2):
        with pytest.raises(BackendNotFound):
            plugrad.zeros(2)


def test_none_of_the_choices_lists_every_reason():
    with pytest.raises(BackendUnavailable, match=r"none of 'yyy,zzz' can be used: .*'yyy'.*'zzz'"):
        plugrad.use("yyy,zzz")


# --- automatic choice -----------------------------------------------------------------------------


@pytest.fixture
def offer_cpu_and_one(without_settings, monkeypatch):
    """A function that restricts the choice of backends to cpu and the given one."""
    monkeypatch.setattr(
        "plugrad.discovery.selection.first_party_distributions", lambda: frozenset({"plugrad-cpu"})
    )


def test_which_names_automatic_choice_as_the_layer(offer_cpu_and_one):
    assert (active_device(), plugrad.which().layer) == ("cpu:0", "automatic choice")


def test_third_partys_backend_must_be_allowed(
    offer_cpu_and_one, register_for_test, fake_backend_class
):
    register_for_test("fake_device", fake_backend_class, priority=1000)
    assert active_device() == "cpu:0"
    plugrad.config.set("plugins.allow_auto", "<this*")
    assert active_device() == "fake_device:0"


def test_software_device_is_never_chosen_automatically(
    offer_cpu_and_one, register_for_test, fake_backend_class
):
    class SoftwareDeviceBackend(fake_backend_class):
        def devices(self):
            return (DeviceInfo("0", "a renderer on the processor", is_software=True),)

    register_for_test("fake_device", SoftwareDeviceBackend, priority=1000)
    plugrad.config.set("plugins.allow_auto", "<this process>")
    assert active_device() == "cpu:0"


def test_backend_that_cannot_start_is_passed_over(
    offer_cpu_and_one, register_for_test, fake_backend_class
):
    class UnavailableBackend(fake_backend_class):
        def probe(self):
            raise OSError("no driver")

    register_for_test("fake_device", UnavailableBackend, priority=1000)
    plugrad.config.set("plugins.allow_auto", "<this process>")
    with pytest.warns(RuntimeWarning, match=r"runs on cpu:0: .*'fake_device'.*OSError: no driver"):
        assert active_device() == "cpu:0"


def test_switched_off_backend_is_listed_but_not_used(
    offer_cpu_and_one, monkeypatch, fake_backend_name
):
    plugrad.config.set("plugins.disable", fake_backend_name)
    (candidate,) = [c for c in plugrad.backends() if c.name == fake_backend_name]
    assert candidate.status == "blocked"
    with pytest.raises(
        BackendUnavailable, match=r"is blocked: plugins.disable in plugrad.config.set names it"
    ):
        plugrad.use(fake_backend_name)
    plugrad.config.reset("plugins.disable")
    with plugrad.use(fake_backend_name):
        assert active_device() == "fake_device:0"


def test_plugrads_own_backends_are_chosen_without_the_meta_distribution(
    without_settings, monkeypatch
):
    def requires(distribution):
        assert distribution == "plugrad-core"
        return importlib_metadata.distribution(distribution).requires

    first_party_distributions.cache_clear()
    monkeypatch.setattr(importlib_metadata, "requires", requires)
    assert first_party_distributions() >= {"plugrad-cpu", "plugrad-wasm", "plugrad-webgpu"}
    disabled = [p.name for p in plugrad.backends() if p.distribution != "plugrad-cpu"]
    plugrad.config.set("plugins.disable", disabled)
    assert active_device() == "cpu:0"


def test_error_without_a_usable_backend_lists_the_reasons_and_what_to_install(
    without_settings, monkeypatch
):
    monkeypatch.setattr("plugrad.discovery.selection.first_party_distributions", frozenset)
    with pytest.raises(
        BackendNotFound, match=r"no backend can be chosen automatically.*plugrad\.use.*pip install"
    ) as caught:
        plugrad.zeros(2)
    assert "cpu: plugins.allow_auto does not name plugrad-cpu" in str(caught.value)
    monkeypatch.setattr("plugrad.discovery.selection.backends", list)
    with pytest.raises(
        BackendNotFound, match=r"^no backend is installed; run: pip install plugrad$"
    ):
        plugrad.zeros(2)


# --- moving ---------------------------------------------------------------------------------------


def test_values_survive_a_round_trip_between_backends(fake_backend_name):
    x = plugrad.asarray([[1.0, 2.0], [3.0, 4.0]])
    y = x.to(fake_backend_name)
    assert (y.device, y.tolist(), y.dtype) == ("fake_device:0", x.tolist(), x.dtype)
    assert y.to(fake_backend_name).array is y.array
    assert y.to("cpu").tolist() == x.tolist()
    assert plugrad.to_device([1.0], fake_backend_name).device == "fake_device:0"
    assert plugrad.asarray(x, device=fake_backend_name).device == "fake_device:0"


def test_gradient_is_copied_back_to_the_original_device(fake_backend_name):
    def f(x):
        return plugrad.sum(plugrad.exp(x.to(fake_backend_name)).to("cpu") * x)

    x = plugrad.asarray([0.5, 1.0])
    gradient = plugrad.grad(f)(x)
    assert gradient.device == "cpu:0"
    assert gradient.numpy() == pytest.approx(np.exp([0.5, 1.0]) * [1.5, 2.0], rel=1e-6)
    second = plugrad.grad(lambda x: plugrad.sum(plugrad.grad(f)(x)))(x)
    assert second.numpy() == pytest.approx(np.exp([0.5, 1.0]) * [2.5, 3.0], rel=1e-6)


def test_gradient_runs_where_the_function_ran(fake_backend_name):
    gradient = plugrad.grad(lambda x: plugrad.sum(plugrad.exp(x)))(
        plugrad.ones(2, device=fake_backend_name)
    )
    assert gradient.device == "fake_device:0"


def test_transfer_copies_inputs_that_live_elsewhere(fake_backend_name):
    x, y = plugrad.asarray([1.0, 2.0]), plugrad.asarray([3.0, 0.0], device=fake_backend_name)
    with plugrad.use(fake_backend_name, transfer=True):
        assert ((x + y).tolist(), (x + y).device) == ([4.0, 2.0], "fake_device:0")
        assert (x + x).device == (x * 2).device == plugrad.exp(x).device == "fake_device:0"
        with plugrad.use("cpu", transfer=True):
            assert (x + y).device == "cpu:0"
        with plugrad.use("cpu"):
            assert (x + x).device == "cpu:0"
        assert (x + x).device == "fake_device:0"
    assert (x.device, (x + x).device) == ("cpu:0", "cpu:0")
    with pytest.raises(plugrad.errors.BackendMismatch):
        x + y


def test_gradient_flows_through_a_transfer(fake_backend_name):
    x, y = plugrad.asarray([1.0, 2.0]), plugrad.asarray([3.0, 4.0], device=fake_backend_name)
    with plugrad.use(fake_backend_name, transfer=True):
        dx, dy = plugrad.grad(lambda x, y: plugrad.sum(x * y), (0, 1))(x, y)
    assert (dx.tolist(), dy.tolist()) == ([3.0, 4.0], [1.0, 2.0])


def test_transfer_inside_tidy(fake_backend_name):
    x = plugrad.asarray([1.0, 2.0])
    with plugrad.tidy() as scope, plugrad.use(fake_backend_name, transfer=True):
        y = scope.keep(x + x)
        z = y + x
    assert (y.device, z.is_disposed, x.is_disposed) == ("fake_device:0", True, False)
