"""Hooks: what plugins may do besides bringing backends and kernels, and what happens when they fail."""

import subprocess
import sys
import warnings

import numpy as np
import pytest

import plugrad
from plugrad.discovery import hooks
from plugrad.discovery.hooks import HOOK_SPECIFICATIONS, call_hooks
from plugrad.engine import watching
from plugrad.errors import BackendNotFound, PluginNotFound, RegistrationError


def hook_plugin(name):
    (found,) = [p for p in plugrad.plugins("hooks") if p.name == name]
    return found


@pytest.fixture
def register_hooks(site):
    """A function that registers its arguments as hooks until the test ends."""
    names = []

    def register(name="acme", **functions):
        marked = {key: staticmethod(plugrad.hookimpl(f)) for key, f in functions.items()}
        plugin = type("Plugin", (), marked)()
        names.append(plugrad.register_plugin(plugin, name=name))
        return plugin

    yield register
    for name in names:
        if any(p.name == name for p in plugrad.plugins("hooks")):
            plugrad.unregister_plugin(name)


HOOKS_SOURCE = """
    import plugrad

    @plugrad.hookimpl
    def plugrad_doctor_section():
        return "acme", "all is well"
"""


# --- loading --------------------------------------------------------------------------------------


def test_hooks_are_loaded_when_one_is_called(site):
    site.install_pack("plugins", "acme", HOOKS_SOURCE)
    assert (hook_plugin("acme").status, site.imported()) == ("available", [])
    assert call_hooks("plugrad_doctor_section") == [("acme-acme::acme", ("acme", "all is well"))]
    assert hook_plugin("acme").status == "active"


def test_hooks_of_the_command_are_loaded_when_it_calls_them(site):
    manifest = 'api = "1.0"\nhooks = ["plugrad_doctor_section"]'
    files = {"acme_acme/plugrad-plugin.toml": manifest}
    site.install_pack("plugins", "acme", HOOKS_SOURCE, files=files)
    call_hooks("plugrad_backend_activated", backend=None)
    assert plugrad.config.get("fallback") is not None
    assert (hook_plugin("acme").status, site.imported()) == ("available", [])
    assert call_hooks("plugrad_doctor_section") == [("acme-acme::acme", ("acme", "all is well"))]
    assert hook_plugin("acme").status == "active"


@pytest.mark.parametrize(
    ("hooks", "message"),
    [
        (["plugrad_cli"], "add 'plugrad_doctor_section' to the hooks in its manifest"),
        (["plugrad_cly"], "lists the hook 'plugrad_cly' .did you mean 'plugrad_cli'"),
    ],
)
def test_hooks_that_a_manifest_does_not_list_are_an_error(site, hooks, message):
    files = {"acme_acme/plugrad-plugin.toml": f'api = "1.0"\nhooks = {hooks}'}
    site.install_pack("plugins", "acme", HOOKS_SOURCE, files=files)
    with pytest.warns(RuntimeWarning, match=message):
        assert call_hooks("plugrad_cli", subcommands=None) == []
    assert call_hooks("plugrad_doctor_section") == []


def test_pluggy_is_imported_for_a_plugin_only(site):
    program = "import sys, plugrad; plugrad.zeros(2) + 1; print('pluggy' in sys.modules)"

    def run():
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=site.folder,
            env={"PYTHONPATH": str(site.folder), "PATH": "", "PLUGRAD_BACKEND": "cpu"},
        )  # fmt: skip
        return done.stdout.strip()

    assert run() == "False"
    site.install_pack("plugins", "acme", HOOKS_SOURCE)
    assert run() == "True"


FAILING_PLUGINS = {
    "import error": ("import a_library_that_is_not_there", "ModuleNotFoundError"),
    "exits": ("raise SystemExit(3)", "SystemExit: 3"),
    "misspelt hook": (
        HOOKS_SOURCE.replace("doctor_section", "doctor_secton"),
        r"there is no hook 'plugrad_doctor_secton' \(did you mean 'plugrad_doctor_section'\?\); the hooks",
    ),
    "unknown argument": (
        HOOKS_SOURCE.replace("doctor_section()", "doctor_section(colour)"),
        r"hook 'plugrad_doctor_section'(?s:.*)colour",
    ),
    "not marked": (
        HOOKS_SOURCE.replace("@plugrad.hookimpl", ""),
        "mark plugrad_doctor_section with plugrad.hookimpl",
    ),
    "no hook": ("x = 1", "it does not have any hook; the hooks are plugrad_configure"),
    "wrapper": (
        "from pluggy import HookimplMarker\n"
        "@HookimplMarker('plugrad')(wrapper=True)\n"
        "def plugrad_doctor_section():\n    return (yield)",
        "a hook cannot wrap the hooks of other plugins",
    ),
    "gradients raise": (
        "import plugrad\n@plugrad.hookimpl\ndef plugrad_register_gradients():\n"
        "    yield plugrad.GradientConfig('Exp', lambda dy, saved, attrs: {})\n    1 / 0",
        "ZeroDivisionError",
    ),
}


@pytest.mark.parametrize(("source", "message"), FAILING_PLUGINS.values(), ids=FAILING_PLUGINS)
def test_plugin_that_fails_is_left_out_with_one_warning(site, source, message):
    site.install_pack("plugins", "bad", source)
    site.install_pack("plugins", "good", HOOKS_SOURCE)
    before = plugrad.get_gradient("Exp")
    with pytest.warns(
        RuntimeWarning, match=rf"hooks 'bad' \(acme-bad 1.2\) is failed.*{message}"
    ) as caught:
        assert [name for name, _ in call_hooks("plugrad_doctor_section")] == ["acme-good::good"]
    assert len(caught) == 1
    assert (plugrad.asarray([1.0]) + 1).tolist() == [2.0]  # a second warning would be an error
    assert hook_plugin("bad").status == "failed"
    assert "Traceback" in hook_plugin("bad").details
    assert plugrad.get_gradient("Exp") is before


def test_class_instead_of_an_object_is_an_error(site):
    source = HOOKS_SOURCE.replace("\n    @", "\n    class Plugin:\n     @").replace(
        "    def", "     def"
    )
    site.install_pack(
        "plugins", "acme", source.replace("        return", "         return"), target=":Plugin"
    )
    with pytest.warns(RuntimeWarning, match="acme_acme:Plugin is a class; name an instance of it"):
        assert call_hooks("plugrad_doctor_section") == []


@pytest.mark.parametrize("value", ["acme", "acme-acme", "acme-acme::acme"])
def test_disabled_plugin_is_not_imported(site, value):
    site.install_pack("plugins", "acme", HOOKS_SOURCE)
    plugrad.config.set("plugins.disable", value)
    assert call_hooks("plugrad_doctor_section") == []
    assert (hook_plugin("acme").status, site.imported()) == ("blocked", [])


def test_registered_plugin_is_listed_until_it_is_unregistered(register_hooks):
    plugin = register_hooks(plugrad_doctor_section=lambda: ("a", "b"))
    assert (hook_plugin("acme").status, hook_plugin("acme").distribution) == (
        "active",
        "<this process>",
    )
    assert call_hooks("plugrad_doctor_section") == [("<this process>::acme", ("a", "b"))]
    with pytest.raises(RegistrationError, match="hooks called 'acme' are registered already"):
        plugrad.register_plugin(plugin, name="acme")
    plugrad.unregister_plugin("acme")
    assert call_hooks("plugrad_doctor_section") == []
    with pytest.raises(PluginNotFound, match=r"called 'acme'; there are none"):
        plugrad.unregister_plugin("acme")


def test_name_is_that_of_the_class_or_module(site):
    class Watcher:
        @plugrad.hookimpl
        def plugrad_fallback(self, kernel_name):
            pass

    assert plugrad.register_plugin(Watcher()) == "Watcher"
    plugrad.unregister_plugin("Watcher")


def test_bad_plugin_of_this_process_is_an_error_at_once(site):
    with pytest.raises(RegistrationError, match="it does not have any hook"):
        plugrad.register_plugin(object(), name="empty")
    assert plugrad.plugins("hooks") == []


# --- calling --------------------------------------------------------------------------------------


@pytest.mark.parametrize("failure", [ValueError("oh"), SystemExit(3)])
def test_failing_hook_is_a_warning_that_names_the_plugin(register_hooks, failure):
    def fails():
        raise failure

    register_hooks("first", plugrad_doctor_section=lambda: ("first", ""))
    register_hooks("bad", plugrad_doctor_section=fails)
    register_hooks("last", plugrad_doctor_section=lambda: ("last", ""))
    message = (
        rf"hook plugrad_doctor_section failed: {type(failure).__name__}: .*'<this process>::bad'"
    )
    with pytest.warns(RuntimeWarning, match=message) as caught:
        results = call_hooks("plugrad_doctor_section")
    assert [title for _, (title, _) in results] == ["last", "first"]
    assert len(caught) == 1
    assert (hook_plugin("bad").status, "Traceback" in hook_plugin("bad").details) == (
        "active",
        True,
    )


def test_hook_may_take_fewer_arguments_and_return_none(register_hooks):
    seen = []
    register_hooks("a", plugrad_backend_activated=lambda: seen.append("a"))
    register_hooks("b", plugrad_backend_activated=lambda backend: seen.append(backend))
    assert call_hooks("plugrad_backend_activated", backend="x") == []
    assert seen == ["x", "a"]


def test_plugin_trace_setting_prints_imports_and_hook_calls(
    site, register_hooks, capsys, monkeypatch
):
    site.install("toy")
    register_hooks(plugrad_backend_activated=lambda backend: None)
    monkeypatch.setenv("PLUGRAD_PLUGINS_TRACE", "yes")
    plugrad.zeros(1, device="cpu").to("toy")
    lines = capsys.readouterr().err.splitlines()
    assert all(line.startswith("plugrad: ") for line in lines)
    trace = "\n".join(lines)
    assert "importing acme_toy:backend for backend 'toy' (acme-toy 1.2)" in trace
    assert "opened toy:0 of backend 'toy' (acme-toy 1.2) in " in trace
    assert "plugrad_backend_activated of <this process>::acme returned None" in trace
    monkeypatch.setenv("PLUGRAD_PLUGINS_TRACE", "no")
    call_hooks("plugrad_backend_activated", backend=None)
    assert capsys.readouterr().err == ""


# --- each hook ------------------------------------------------------------------------------------


def test_every_hook_has_a_manual():
    for name, hook in HOOK_SPECIFICATIONS.items():
        assert name.startswith("plugrad_")
        assert hook.__doc__
        assert hook is getattr(hooks, name)


def test_configure_hook_sets_only_settings_without_another_layer(register_hooks, monkeypatch):
    register_hooks(plugrad_configure=lambda config: {"memory_limit": "1MB", "fallback": "silent"})
    setting = plugrad.config.explain("memory_limit")
    assert (setting.value, setting.layer) == (10**6, "plugin <this process>::acme")
    monkeypatch.setenv("PLUGRAD_MEMORY_LIMIT", "2MB")
    assert plugrad.config.get("memory_limit") == 2 * 10**6
    plugrad.unregister_plugin("acme")
    assert plugrad.config.explain("fallback").layer == "default"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"memory_limt": 1}, "'memory_limt' is not a setting"),
        ({"memory_limit": "lots"}, "memory_limit='lots' is malformed"),
        ({"plugins": {"disable": "x"}}, "settings that start with 'plugins.' cannot be suggested"),
        (3, "AttributeError"),
    ],
)
def test_invalid_settings_of_a_configure_hook_are_a_warning(register_hooks, settings, message):
    register_hooks(plugrad_configure=lambda: settings)
    with pytest.warns(RuntimeWarning, match=rf"hook plugrad_configure failed: .*{message}"):
        assert plugrad.config.get("memory_limit") is None
    assert plugrad.config.get("memory_limit") is None


def test_configure_may_read_the_configuration(register_hooks):
    register_hooks(plugrad_configure=lambda config: {"fallback": config.get("fallback") and "warn"})
    assert plugrad.config.get("fallback") == "warn"


@pytest.fixture
def without_chosen_backend(site, monkeypatch):
    monkeypatch.delenv("PLUGRAD_BACKEND")
    plugrad.config.set("plugins.allow_auto", "acme-*")
    monkeypatch.setattr(
        "plugrad.discovery.selection.first_party_distributions", lambda: frozenset({"plugrad-cpu"})
    )
    site.install("toy")
    site.install("other_toy", distribution="other-toy")


def test_candidates_may_be_reordered_and_left_out(without_chosen_backend, register_hooks):
    seen = []

    def order(backends):
        seen.extend(b.name for b in backends)
        return ["toy"]

    assert plugrad.which().backend.name == "cpu"
    register_hooks(plugrad_backend_candidates=order)
    plugrad.config.set("fallback", "error")  # decisions are remembered until a setting changes
    assert plugrad.which().backend.name == "toy"
    assert seen == ["cpu", "toy"]


def test_candidates_cannot_be_allowed_by_a_plugin(without_chosen_backend, register_hooks):
    register_hooks(plugrad_backend_candidates=lambda backends: ["other_toy", "toy"])
    plugrad.config.set("fallback", "error")
    with pytest.warns(
        RuntimeWarning, match=r"plugrad_backend_candidates failed: .*\['other_toy'\] are not"
    ):
        assert plugrad.which().backend.name == "cpu"


def test_empty_candidate_list_leaves_no_backend(without_chosen_backend, register_hooks):
    def nobody(backends):
        return []

    register_hooks(plugrad_backend_candidates=nobody)
    plugrad.config.set("fallback", "error")
    with pytest.raises(BackendNotFound, match="no backend can be chosen automatically"):
        plugrad.zeros(1)


def add_config_with_offset(backend):
    return [plugrad.KernelConfig("Add", backend.name, lambda a, b: a + b + 100)]


def sum_of_ones(device):
    x = plugrad.asarray([1.0], device=device)
    return (x + x).tolist()


def test_kernels_of_a_plugin_replace_those_of_the_backend(site, register_hooks):
    site.install("toy")
    register_hooks(
        plugrad_register_kernels=lambda backend: (
            add_config_with_offset(backend) if backend.name == "toy" else None
        )
    )
    assert (sum_of_ones("toy"), sum_of_ones("toy:1"), sum_of_ones("cpu")) == (
        [102.0],
        [102.0],
        [2.0],
    )
    plugrad.unregister_plugin("acme")
    assert sum_of_ones("toy") == [2.0]


def test_kernels_of_a_plugin_that_comes_late_reach_open_backends(site, register_hooks):
    site.install("toy")
    assert sum_of_ones("toy") == [2.0]
    register_hooks(
        plugrad_register_kernels=lambda backend: (
            add_config_with_offset(backend) if backend.name == "toy" else None
        )
    )
    assert sum_of_ones("toy") == [102.0]


def test_invalid_kernels_of_a_hook_are_a_warning(site, register_hooks):
    site.install("toy")
    register_hooks(plugrad_register_kernels=lambda backend: [3] if backend.name == "toy" else None)
    with pytest.warns(
        RuntimeWarning, match=r"plugrad_register_kernels failed: TypeError: .*contains a int"
    ):
        assert sum_of_ones("toy") == [2.0]


def test_gradients_of_a_plugin_replace_others_until_it_is_gone(register_hooks):
    def gradient(dy, saved, attrs):
        return {"x": dy * 7}

    register_hooks(plugrad_register_gradients=lambda: [plugrad.GradientConfig("Exp", gradient)])
    x = plugrad.asarray([0.0])
    f = plugrad.grad(lambda x: plugrad.sum(plugrad.exp(x)))
    assert f(x).tolist() == [7.0]
    plugrad.unregister_plugin("acme")
    assert f(x).tolist() == [1.0]


def test_activation_hook_is_called_once_for_each_device(site, register_hooks):
    seen = []

    def activated(backend):
        seen.append((f"{backend.name}:{backend.device}", backend.functions["Exp"] is not None))
        plugrad.zeros(1, device="cpu").to(backend.name)  # it may use the backend

    site.install("toy")
    plugrad.zeros(1, device="cpu")  # so that it is open, in whatever order tests run
    register_hooks(plugrad_backend_activated=activated)
    for device in ("toy", "toy:0", "toy:1", "toy"):
        plugrad.zeros(1, device="cpu").to(device)
    assert seen == [("toy:0", True), ("toy:1", True)]


def test_fallback_hook_is_called(site, register_hooks):
    seen = []
    site.install("toy")
    register_hooks(
        plugrad_fallback=lambda kernel_name, source, target, nbytes: seen.append(
            (kernel_name, source, target, nbytes)
        )
    )
    plugrad.config.set("fallback", "silent")
    plugrad.config.set("fallback_order", "cpu")
    x = plugrad.asarray(np.ones(5, np.float32), device="toy")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plugrad.log(x)
    assert seen == [("Log", "toy", "cpu", 40)]


def test_each_kernel_call_is_reported_while_a_plugin_has_the_hook(register_hooks):
    seen = []

    def finished(kernel_name, backend, shapes, milliseconds):
        plugrad.zeros(2) + 1  # what the hook runs itself is not reported
        seen.append((kernel_name, backend.name, shapes, milliseconds >= 0))

    x = plugrad.asarray([[1.0, 2.0]], device="cpu")
    register_hooks(plugrad_kernel_finished=finished)
    with plugrad.use("cpu"):
        y = x + plugrad.ones(2)
    assert seen == [
        ("Fill", "cpu", (), True),
        ("Add", "cpu", ((1, 2), (2,)), True),
    ]
    plugrad.unregister_plugin("acme")
    assert watching.watchers == ()
    y * y
    assert len(seen) == 2


def test_kernels_are_not_watched_without_the_hook(register_hooks):
    register_hooks(plugrad_configure=lambda: None)
    assert watching.watchers == ()


def test_a_report_that_fails_does_not_stop_the_program(register_hooks):
    def finished(kernel_name):
        raise ValueError("no disk")

    register_hooks(plugrad_kernel_finished=finished)
    with pytest.warns(RuntimeWarning, match="plugrad_kernel_finished failed.*no disk"):
        assert (plugrad.asarray([1.0], device="cpu") + 1).tolist() == [2.0]


def test_plugin_that_uses_plugrad_while_it_is_imported(site):
    source = """
        import plugrad
        ONE = plugrad.asarray([1.0]) + plugrad.zeros(1)

        @plugrad.hookimpl
        def plugrad_configure():
            return {"fallback": "warn"}
    """
    site.install_pack("plugins", "acme", source)
    assert plugrad.config.get("fallback") == "warn"
    assert hook_plugin("acme").status == "active"


def test_what_a_program_overrides_stays_in_effect_when_a_plugin_comes(register_hooks):
    x = plugrad.asarray([1.0])
    with plugrad.override_kernel("Abs", "cpu", lambda x: x + 1):
        register_hooks(
            plugrad_register_kernels=lambda backend: (
                [plugrad.KernelConfig("Abs", "cpu", lambda x: x + 10)]
                if backend.name == "cpu"
                else []
            )
        )
        assert plugrad.abs(x).item() == 2
    assert plugrad.abs(x).item() == 11
