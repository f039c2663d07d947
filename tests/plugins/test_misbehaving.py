"""Plugins that misbehave: other backends and the commands work, the error names the plugin, and it is rolled back."""

import json
import re

import pytest

import plugrad
from plugins.misbehaving import MISBEHAVING_PLUGINS, install_misbehaving
from plugins.running import run_command_in_new_process
from plugrad.discovery import hooks
from plugrad.discovery.loading import close_backend, opened_backends
from plugrad.discovery.state import state
from plugrad.errors import BackendFailed, BackendUnavailable, KernelFailed, PluginUnavailable
from plugrad.extend import KERNELS
from plugrad.registry import kernels
from plugrad.settings.keys import SETTING_KEYS


def registered_names():
    """Return the names of everything that a plugin can register, except the kernels of open backends."""
    settings = {key.name: plugrad.config.explain(key.name) for key in SETTING_KEYS.values()}
    manager = state.manager
    registry = kernels.take_snapshot()
    return {
        "contracts": dict(KERNELS),
        "gradients": plugrad.get_gradients(),
        "kernels": {k: e for k, e in registry.entries.items() if k[1] not in MISBEHAVING_PLUGINS},
        "devices": [
            (d, tables) for d, tables in registry.tables if d.name not in MISBEHAVING_PLUGINS
        ],
        "settings": settings,
        "hooks": [n for n, _ in manager.list_name_plugin()] if manager else [],
        "added": list(state.added),
        "brought": dict(state.brought),
    }


@pytest.fixture(scope="module")
def doctor_report(tmp_path_factory):
    """The doctor's report about all misbehaving plugins."""
    folder = tmp_path_factory.mktemp("misbehaving")
    for name in MISBEHAVING_PLUGINS:
        install_misbehaving(folder, name)
    done = run_command_in_new_process("doctor", "--json", *MISBEHAVING_PLUGINS, folder=folder)
    assert done.returncode == 1, done.stderr
    return json.loads(done.stdout)


# --- what a program does --------------------------------------------------------------------------


def use_backend(name, message):
    for _ in range(2):
        with pytest.raises(BackendUnavailable, match=message) as raised:
            plugrad.use(name)
    assert plugrad.get_kernels_for_backend(name) == []
    assert f"acme-{name}" in str(raised.value)


def tensor_on(name):
    return plugrad.asarray([1.0, 2.0], device=name)


def expect_error(error, name, message, call):
    with pytest.raises(error, match=message) as raised:
        call()
    assert f"'{name}' (acme-{name})" in str(raised.value)
    return raised.value


def count_memory(name, message):
    tensor_on(name)
    with pytest.warns(RuntimeWarning, match=message) as caught:
        used = plugrad.memory()
    assert f"'{name}' (acme-{name})" in str(caught[0].message)
    assert set(used.backends) == {b.label for b in opened_backends()} - {f"{name}:0"}
    assert "cpu:0" in used.backends


def close_device(name, message):
    backend = tensor_on(name).backend
    with pytest.raises(BackendFailed, match=message) as raised:
        close_backend(backend)
    assert f"acme-{name}" in str(raised.value)
    assert backend.is_closed
    close_backend(backend)  # it is closed
    assert backend not in opened_backends()
    assert tensor_on(name).backend is not backend  # and can be opened again
    with pytest.raises(BackendFailed):
        close_backend(tensor_on(name).backend)


def read_values(name, message):
    x = tensor_on(name)
    expect_error(BackendFailed, name, message, x.numpy)
    expect_error(BackendFailed, name, message, x.tolist)
    expect_error(BackendFailed, name, message, lambda: x.to("cpu"))


def store_values(name, message):
    expect_error(BackendFailed, name, message, lambda: tensor_on(name))
    expect_error(BackendFailed, name, message, lambda: plugrad.asarray([1.0]).to(name))


def compute_values(name, message):
    x = tensor_on(name)
    for _ in range(2):
        expect_error(KernelFailed, name, f"Exp on backend .*{message}", lambda: plugrad.exp(x))
    assert (x + x).tolist() == [2.0, 4.0]


def call_hooks(name, message):
    with pytest.warns(RuntimeWarning, match=message) as caught:
        hooks.load_new_hooks()
    hooks.load_new_hooks()  # a second warning would be an error
    assert f"acme-{name}" in str(caught[0].message)
    assert len(caught) == 1
    (plugin,) = [p for p in plugrad.plugins("hooks") if p.name == name]
    if plugin.status == "active":
        assert plugin.replaced == ("gradient Exp",)
        hooks.unload_hooks(plugin)
        plugin.status = "available"
        state.collected = state.generation


def load_op_pack(name, message):
    for _ in range(2):
        with pytest.raises(PluginUnavailable, match=message) as raised:
            plugrad.op_pack(name)
    assert f"acme-{name}" in str(raised.value)


def load_op_pack_with_warning(name, message):
    with pytest.warns(RuntimeWarning, match=message) as caught:
        plugrad.op_pack(name)
    plugrad.op_pack(name)  # a second warning would be an error
    assert f"acme-{name}" in str(caught[0].message)
    (plugin,) = [p for p in plugrad.plugins("ops") if p.name == name]
    assert plugin.replaced == ("kernel Exp of backend 'cpu'",)
    plugin.imported.undo()


PROVOKING_FUNCTIONS = {
    deed.__name__: deed
    for deed in (
        use_backend,
        count_memory,
        close_device,
        read_values,
        store_values,
        compute_values,
        call_hooks,
        load_op_pack,
        load_op_pack_with_warning,
    )
}


def check_other_backends():
    for backend in opened_backends():
        if backend.name in ("cpu", "wasm", "webgpu"):
            x = plugrad.asarray([1.0, 2.0], device=backend)
            assert (x + x).tolist() == [2.0, 4.0]
            assert plugrad.grad(lambda x: plugrad.sum(x * x))(x).tolist() == [2.0, 4.0]


# --- the table ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MISBEHAVING_PLUGINS)
def test_misbehaving_plugin_does_not_affect_others(site, run_cli, name):
    plugin = MISBEHAVING_PLUGINS[name]
    before = registered_names()
    site.packages.append(install_misbehaving(site.folder, name))
    site.refresh()
    status, printed, complaint = run_cli("list", "--json")
    assert (status, complaint) == (0, "")
    assert name in [plugin["name"] for plugin in json.loads(printed)]
    assert site.imported() == []
    PROVOKING_FUNCTIONS[plugin.provoke](name, plugin.message)
    after = registered_names()
    for kind, things in before.items():
        assert after[kind] == things, kind
    check_other_backends()
    assert run_cli("list")[0] == 0
    others = [p.status for p in plugrad.backends() if p.distribution.startswith("plugrad-")]
    assert set(others) <= {"active", "available"}


@pytest.mark.parametrize("name", MISBEHAVING_PLUGINS)
def test_doctor_names_each_misbehaving_plugin(doctor_report, name):
    plugin = MISBEHAVING_PLUGINS[name]
    found = [f for f in doctor_report["findings"] if f"acme-{name} " in f["subject"]]
    assert [f["level"] for f in found] == ["problem"], found
    assert re.search(plugin.doctor or plugin.message, found[0]["text"])


def test_at_least_25_misbehaving_plugins_are_tested():
    assert len(MISBEHAVING_PLUGINS) >= 25
