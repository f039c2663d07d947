"""Plugins that misbehave, each in its own way: listed without being run, named in one error, harmless to others."""

import importlib
import subprocess
import sys
import textwrap

import pytest

import plugrad
from plugins.hostile import backend_source
from plugrad.discovery.listing import first_party_distributions
from plugrad.discovery.selection import find_numpy_backend, list_automatic_candidates
from plugrad.discovery.state import fresh_state, state
from plugrad.errors import (
    BackendNotFound,
    BackendUnavailable,
    KernelNotFound,
    PluginConflict,
    PlugradError,
)
from plugrad.extend import DTYPES
from plugrad.registry.transaction import snapshot_registries


def backend_candidate(name):
    (found,) = [b for b in plugrad.backends() if b.name == name]
    return found


def test_good_plugin_is_listed_without_being_run_and_then_works(site):
    site.install("toy")
    listed = backend_candidate("toy")
    assert (listed.status, listed.distribution, listed.version) == ("available", "acme-toy", "1.2")
    assert (listed.manifest.priority, listed.manifest.summary) == (5, "a toy")
    assert (listed.manifest.devices, listed.manifest.dtypes) == (("0",), ("float32",))
    assert site.imported() == []
    with plugrad.use("toy"):
        assert (plugrad.asarray([1.0]) + 1).device == "toy:0"
    assert backend_candidate("toy").status == "active"
    assert site.imported() == ["acme_toy"]


def test_entry_point_may_name_a_module_inside_the_package(site):
    site.install("toy", "raise AssertionError", target="acme_toy.inner:backend")
    (site.folder / "acme_toy" / "inner.py").write_text(backend_source("toy"))
    (site.folder / "acme_toy" / "__init__.py").write_text("")
    assert backend_candidate("toy").status == "available"
    with plugrad.use("toy"):
        assert plugrad.which().device == "toy:0"


# What is wrong: the arguments of `install`, and what the error says.
PLUGINS_FAILING_IN_USE = {
    "import error": (
        {"source": "import a_library_that_is_not_there"},
        "ModuleNotFoundError: No module named 'a_library_that_is_not_there'",
    ),
    "exits on import": ({"source": "raise SystemExit(3)"}, "SystemExit: 3"),
    "syntax error": ({"source": "def backend(:"}, "SyntaxError"),
    "no such function": ({"source": "x = 1"}, "AttributeError: .*'backend'"),
    "factory raises": ({"returned": "1 / 0"}, "ZeroDivisionError"),
    "factory returns nonsense": ({"returned": "42"}, "returned int, not a plugrad Backend"),
    "factory exits": ({"returned": "exit(4)"}, "SystemExit: 4"),
    "another name": ({"name": "other"}, "returned a backend called 'other', not 'hostile'"),
    "probe raises": ({"probe": "raise OSError('bus error')"}, "OSError: bus error"),
    "probe says no": (
        {"probe": "return Probe(ok=False, reason='no chip')"},
        "cannot start here: no chip",
    ),
    "wrong parameters": (
        {"implementation": "lambda: None"},
        r"RegistrationError: Exp on 'hostile': .* takes 0 positional parameters; .*\(x\)",
    ),
}


@pytest.mark.parametrize(
    ("wrong", "message"), PLUGINS_FAILING_IN_USE.values(), ids=PLUGINS_FAILING_IN_USE
)
def test_failing_plugin_raises_only_for_its_user(site, wrong, message):
    options = {"name": "hostile", **wrong}
    source = options.pop("source", None) or backend_source(**options)
    site.install("hostile", source)
    site.install("toy")
    assert backend_candidate("hostile").status == "available"
    assert site.imported() == []

    for _ in range(2):  # the reason is kept
        with pytest.raises(BackendUnavailable, match=message) as caught:
            plugrad.use("hostile")
        assert isinstance(caught.value, PlugradError)
        assert "'hostile'" in str(caught.value)
    assert plugrad.get_kernels_for_backend("hostile") == []

    with plugrad.use("toy"):
        assert (plugrad.asarray([1.0]) + 1).tolist() == [2.0]
    assert plugrad.asarray([1.0]).device == "cpu:0"


def test_plugin_failure_keeps_its_traceback_and_says_how_to_disable_it(site):
    site.install("hostile", "import a_library_that_is_not_there")
    with pytest.raises(
        BackendUnavailable,
        match="Reinstall it, or switch it off with PLUGRAD_PLUGINS_DISABLE=hostile",
    ) as caught:
        plugrad.use("hostile")
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)
    failed = backend_candidate("hostile")
    assert (failed.status, failed.reason) == (
        "failed",
        "ModuleNotFoundError: No module named 'a_library_that_is_not_there'",
    )
    assert "Traceback" in failed.details
    assert "acme_hostile" in failed.details


def test_mended_plugin_works_after_a_refresh(site):
    site.install("hostile", "raise ImportError('half installed')")
    with pytest.raises(BackendUnavailable, match="half installed"):
        plugrad.use("hostile")
    (site.folder / "acme_hostile" / "__init__.py").write_text(backend_source("hostile"))
    importlib.invalidate_caches()
    plugrad.backends(refresh=True)
    with plugrad.use("hostile"):
        assert plugrad.which().device == "hostile:0"


BAD_MANIFESTS = {
    "absent": (
        None,
        "package 'acme_hostile' does not have plugrad-backend.toml next to its __init__.py",
    ),
    "no TOML": ("api = ", "plugrad-backend.toml: "),
    "no API version": ("priority = 3", "api = None must be a version such as '1.0'"),
    "strange API version": ('api = "one"', "api = 'one' must be a version"),
    "API version is a number": ("api = 1.0", "api = 1.0 must be a version"),
    "unknown key": ('api = "1.0"\npriorty = 3', "unknown key 'priorty' = 3; the keys are api,"),
    "priority is no number": (
        'api = "1.0"\npriority = "high"',
        "toml: priority = 'high' must be an integer",
    ),
    "priority is a boolean": ('api = "1.0"\npriority = true', "priority = True must be an integer"),
    "summary is no text": ('api = "1.0"\nsummary = 3', "summary = 3 must be a string"),
    "url is no text": ('api = "1.0"\nurl = []', r"url = \[\] must be a string"),
    "install is no text": ('api = "1.0"\ninstall = 1', "install = 1 must be a string"),
    "devices are no list": (
        'api = "1.0"\ndevices = "0"',
        "devices = '0' must be a list of strings",
    ),
    "dtypes are unknown": (
        'api = "1.0"\ndtypes = ["float8"]',
        r"\['float8'\] must be a list of dtypes",
    ),
    "kernels are no list": (
        'api = "1.0"\nkernels = [1]',
        r"kernels = \[1\] must be a list of strings",
    ),
    "capabilities are no list": (
        'api = "1.0"\ncapabilities = {}',
        "capabilities = .* must be a list",
    ),
    "options are no table": (
        'api = "1.0"\noptions = ["a"]',
        "options = .* must be a table from names",
    ),
    "option without a type": (
        'api = "1.0"\noptions.a = { summary = "a" }',
        "options = .* must be a table",
    ),
    "option of a strange type": (
        'api = "1.0"\noptions.a = { type = "date", summary = "a" }',
        "options = .* must be a table",
    ),
    "option with a bad default": (
        'api = "1.0"\noptions.a = { type = "integer", summary = "a", default = "x" }',
        "options = .* must be a table",
    ),
}


@pytest.mark.parametrize(("manifest", "message"), BAD_MANIFESTS.values(), ids=BAD_MANIFESTS)
def test_bad_manifest_is_reported_without_running_the_plugin(site, manifest, message):
    site.install("hostile", manifest=manifest)
    site.install("toy")
    assert backend_candidate("hostile").status == "failed"
    with pytest.raises(
        BackendUnavailable, match=rf"'hostile' \(acme-hostile 1.2\) is failed: .*{message}"
    ):
        plugrad.use("hostile")
    assert site.imported() == []
    with plugrad.use("toy"):
        pass


@pytest.mark.parametrize(
    ("api", "outdated"),
    [("2.0", "plugrad-core"), ("1.99", "plugrad-core"), ("0.9", "acme-hostile")],
)
def test_error_for_another_api_version_names_the_package_to_upgrade(site, api, outdated):
    site.install("hostile", "raise AssertionError", manifest=f'api = "{api}"')
    assert backend_candidate("hostile").status == "incompatible"
    with pytest.raises(
        BackendUnavailable,
        match=f"it needs plugin API {api} and this .* run: pip install --upgrade {outdated}",
    ):
        plugrad.use("hostile")
    assert site.imported() == []


@pytest.mark.parametrize("name", ["Hostile", "my-gpu", "9lives", "_hidden"])
def test_bad_name_is_reported(site, name):
    site.install(name, backend_source("toy"), distribution="acme-named")
    assert backend_candidate(name).status == "failed"
    with pytest.raises(BackendUnavailable, match=r"must match \[a-z\]\[a-z0-9_\]\*"):
        plugrad.use(name)
    assert site.imported() == []


def test_manifest_may_name_every_dtype(site):
    names = sorted(map(str, DTYPES))
    site.install("toy", manifest=f'api = "1.0"\ndtypes = {names}\n')
    assert backend_candidate("toy").manifest.dtypes == tuple(names)


def test_package_that_is_gone_is_reported(site):
    site.install("toy", target="a_package_that_is_gone:backend")
    with pytest.raises(
        BackendUnavailable, match="package 'a_package_that_is_gone' is not installed"
    ):
        plugrad.use("toy")


def test_two_distributions_with_one_name_are_a_conflict(site):
    site.install("toy", distribution="acme-toy")
    site.install("toy", distribution="other-toy")
    both = [c for c in plugrad.backends() if c.name == "toy"]
    assert [c.status for c in both] == ["conflict", "conflict"]
    with pytest.raises(
        PluginConflict,
        match="2 distributions bring a backend called 'toy'; choose 'acme-toy::toy' or",
    ):
        plugrad.use("toy")
    assert site.imported() == []
    with plugrad.use("other-toy::toy"):
        assert (plugrad.asarray([1.0]) + 1).device == "toy:0"
    assert site.imported() == ["other_toy"]
    with pytest.raises(BackendNotFound, match="called 'third::toy'"):
        plugrad.use("third::toy")


def test_switching_one_of_two_off_ends_the_conflict(site):
    site.install("toy", distribution="acme-toy")
    site.install("toy", distribution="other-toy")
    plugrad.config.set("plugins.disable", "acme-toy")
    try:
        both = {c.distribution: c.status for c in plugrad.backends() if c.name == "toy"}
        assert both == {"acme-toy": "blocked", "other-toy": "available"}
        with plugrad.use("toy"):
            assert site.imported() == ["other_toy"]
    finally:
        plugrad.config.reset("plugins.disable")
    status = {c.distribution: c.status for c in plugrad.backends() if c.name == "toy"}
    assert status == {"acme-toy": "conflict", "other-toy": "active"}


def test_the_name_of_a_first_party_backend_stays_its_own(site):
    site.install("cpu", backend_source("cpu"), distribution="acme-cpu")
    for name in ("cpu:0", "plugrad-cpu::cpu"):
        with plugrad.use(name) as used:
            assert used.backend.distribution == "plugrad-cpu"
            assert plugrad.zeros(2).device == "cpu:0"
    statuses = {b.distribution: b.status for b in plugrad.backends() if b.name == "cpu"}
    assert statuses == {"plugrad-cpu": "active", "acme-cpu": "conflict"}
    assert site.imported() == []


def test_disabled_plugin_is_listed_and_never_imported(site, monkeypatch):
    site.install("toy")
    for value in ("toy", "acme-toy", "acme-toy::toy"):
        monkeypatch.setenv("PLUGRAD_PLUGINS_DISABLE", value)
        assert backend_candidate("toy").status == "blocked"
        with pytest.raises(
            BackendUnavailable,
            match=r"is blocked: plugins.disable in environment variable PLUGRAD_",
        ):
            plugrad.use("toy")
    monkeypatch.delenv("PLUGRAD_PLUGINS_DISABLE")
    assert backend_candidate("toy").status == "available"
    assert site.imported() == []


def test_shadowed_copy_of_a_distribution_counts_once(site, tmp_path, monkeypatch):
    site.install("toy")
    copy = tmp_path / "further down"
    copy.mkdir()
    (site.folder / "acme_toy-1.2.dist-info").rename(copy / "acme_toy-1.1.dist-info")
    site.install("toy", package="acme_toy_new")
    monkeypatch.setattr(sys, "path", [*sys.path, str(copy)])
    plugrad.backends(refresh=True)
    assert backend_candidate("toy").target == "acme_toy_new:backend"


def test_error_for_a_missing_kernel_names_backends_that_have_it(site):
    site.install("toy")
    x = plugrad.asarray([1.0], device="toy")
    with pytest.raises(
        KernelNotFound, match=r"'toy' does not implement kernel 'Multiply'; .*'cpu'"
    ):
        x * x


# --- whose backends they are ----------------------------------------------------------------------


def test_core_itself_says_whose_backends_are_chosen_automatically(monkeypatch):
    """Backends may be installed one by one, so the choice does not depend on the meta-distribution."""
    import importlib_metadata

    required = importlib_metadata.requires

    def without_the_meta_distribution(name):
        if name == "plugrad":
            raise importlib_metadata.PackageNotFoundError(name)
        return required(name)

    monkeypatch.setattr(importlib_metadata, "requires", without_the_meta_distribution)
    first_party_distributions.cache_clear()
    try:
        assert {"plugrad-cpu", "plugrad-wasm", "plugrad-webgpu"} <= first_party_distributions()
        assert "plugrad-acme" not in first_party_distributions()
        chosen = {plugin.name for plugin in list_automatic_candidates()}
        assert "cpu" in chosen
        assert chosen <= {"cpu", "wasm", "webgpu"}
        assert find_numpy_backend().name == "cpu"
    finally:
        first_party_distributions.cache_clear()


def test_numbers_on_a_device_do_not_open_the_backend_that_computes_strings():
    program = """
        import sys, plugrad

        with plugrad.use("wasm"):
            ones = plugrad.ones(2)
            assert (plugrad.concat([ones, ones]) + 1).tolist() == [2.0] * 4
        assert "plugrad_cpu" not in sys.modules
        with plugrad.use("wasm"):
            assert plugrad.concat([["a"], ["b"]]).tolist() == ["a", "b"]
        assert "plugrad_cpu" in sys.modules
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True)


# --- the state of plugins -------------------------------------------------------------------------


def test_discovery_state_can_be_reset(site):
    site.install("toy")
    x = plugrad.asarray([1.0], device="toy")
    before = state.listing, dict(state.opened), state.generation
    restore = snapshot_registries()
    with fresh_state() as fresh:
        assert (fresh.listing, fresh.opened, fresh.generation, fresh.manager) == (None, {}, 0, None)
        assert [p.status for p in plugrad.backends() if p.name == "toy"] == ["available"]
        y = plugrad.asarray([1.0], device="toy")
        assert y.backend is not x.backend
        plugrad.close_backend(y.backend)
    restore()
    assert (state.listing, state.opened, state.generation) == before
    assert plugrad.exp(x).device == "toy:0"
