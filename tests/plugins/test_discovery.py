"""Plugins that misbehave, each in its own way: listed without being run, named in one error, harmless to others."""

import importlib
import os
import sys
import textwrap

import pytest

import plugrad
from plugrad import discovery
from plugrad.errors import (
    BackendNotFound,
    BackendUnavailable,
    KernelNotFound,
    PluginConflict,
    PlugradError,
)

GOOD_MANIFEST = (
    'api = "1.0"\npriority = 5\nsummary = "a toy"\ndevices = ["0"]\ndtypes = ["float32"]\n'
)
GOOD_PLUGIN = """
    import numpy as np
    from plugrad.extend import Backend, DeviceInfo, KernelTable, Memory, Probe, float32, int32
    from plugrad.kernels import binary, unary

    class Toy(Backend):
        name = "{name}"

        def devices(self):
            return (DeviceInfo("0", "a toy"),)

        def probe(self):
            {probe}
            return Probe(ok=True, devices=self.devices())

        def open(self, device):
            self.device = device or "0"
            table = KernelTable(self.name)
            table.update({{binary.add: np.add, unary.exp: {implementation}}})
            return table

        def dtypes(self):
            return frozenset({{float32, int32}})

        def from_numpy(self, array):
            return array.copy()

        def to_numpy(self, array):
            return np.array(array)

        def synchronize(self):
            pass

        def memory(self):
            return Memory(0, 0, 0)

        def set_memory_limit(self, limit):
            self.limit = limit

        def close(self):
            pass

    def backend():
        return {returned}
"""


def plugin(name, *, probe="pass", implementation="np.exp", returned="Toy()"):
    """Return the source of a plugin that works unless it is told otherwise."""
    return textwrap.dedent(GOOD_PLUGIN).format(
        name=name, probe=probe, implementation=implementation, returned=returned
    )


class Site:
    """A folder on sys.path where distributions are installed by writing their files."""

    def __init__(self, folder):
        self.folder = folder
        self.packages = []

    def install(
        self,
        backend,
        source="",
        *,
        manifest=GOOD_MANIFEST,
        distribution=None,
        package=None,
        target=None,
    ):
        """Install a distribution that brings one backend."""
        distribution = distribution or f"acme-{backend}"
        package = package or distribution.replace("-", "_").lower()
        module = self.folder / package
        module.mkdir()
        (module / "__init__.py").write_text(source or plugin(backend))
        if manifest is not None:
            (module / "plugrad-backend.toml").write_text(manifest)
        information = self.folder / f"{distribution.replace('-', '_')}-1.2.dist-info"
        information.mkdir()
        (information / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.2\n"
        )
        (information / "entry_points.txt").write_text(
            f"[plugrad.backends]\n{backend} = {target or f'{package}:backend'}\n"
        )
        self.packages.append(package)
        importlib.invalidate_caches()
        plugrad.backends(refresh=True)

    def imported(self):
        """Return which of the installed packages have been imported."""
        return [name for name in self.packages if name in sys.modules]


@pytest.fixture
def site(tmp_path, monkeypatch):
    for name in os.environ:
        if name.startswith("PLUGRAD_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PLUGRAD_BACKEND", "cpu")
    plugrad.config.reset()
    monkeypatch.syspath_prepend(str(tmp_path))
    before = discovery.opened_backends()
    discovery.open_backend("cpu")
    site = Site(tmp_path)
    yield site
    for backend in discovery.opened_backends():
        if backend not in before and backend.name != "cpu":
            discovery.close_backend(backend)
            for config in plugrad.get_kernels_for_backend(backend.name):
                plugrad.unregister_kernel(config.kernel_name, backend.name)
    for name in site.packages:
        sys.modules.pop(name, None)
    monkeypatch.undo()
    importlib.invalidate_caches()
    plugrad.config.reset()
    plugrad.backends(refresh=True)


def candidate(name):
    (found,) = [c for c in plugrad.backends() if c.name == name]
    return found


def test_good_plugin_is_listed_without_being_run_and_then_works(site):
    site.install("toy")
    listed = candidate("toy")
    assert (listed.status, listed.distribution, listed.version) == ("available", "acme-toy", "1.2")
    assert (listed.manifest.priority, listed.manifest.summary) == (5, "a toy")
    assert (listed.manifest.devices, listed.manifest.dtypes) == (("0",), ("float32",))
    assert site.imported() == []
    with plugrad.use("toy"):
        assert (plugrad.asarray([1.0]) + 1).device == "toy:0"
    assert candidate("toy").status == "active"
    assert site.imported() == ["acme_toy"]


def test_entry_point_may_name_a_module_inside_the_package(site):
    site.install("toy", "raise AssertionError", target="acme_toy.inner:backend")
    (site.folder / "acme_toy" / "inner.py").write_text(plugin("toy"))
    (site.folder / "acme_toy" / "__init__.py").write_text("")
    assert candidate("toy").status == "available"
    with plugrad.use("toy"):
        assert plugrad.which().device == "toy:0"


# What is wrong: the arguments of `install`, and what the error says.
FAILS_WHEN_USED = {
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


@pytest.mark.parametrize(("wrong", "message"), FAILS_WHEN_USED.values(), ids=FAILS_WHEN_USED)
def test_plugin_that_fails_is_an_error_for_who_asked_and_nobody_else(site, wrong, message):
    options = {"name": "hostile", **wrong}
    source = options.pop("source", None) or plugin(**options)
    site.install("hostile", source)
    site.install("toy")
    assert candidate("hostile").status == "available"
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


def test_failure_keeps_its_traceback_and_says_how_to_switch_it_off(site):
    site.install("hostile", "import a_library_that_is_not_there")
    with pytest.raises(
        BackendUnavailable,
        match="Reinstall it, or switch it off with PLUGRAD_PLUGINS_DISABLE=hostile",
    ) as caught:
        plugrad.use("hostile")
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)
    failed = candidate("hostile")
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
    (site.folder / "acme_hostile" / "__init__.py").write_text(plugin("hostile"))
    importlib.invalidate_caches()
    plugrad.backends(refresh=True)
    with plugrad.use("hostile"):
        assert plugrad.which().device == "hostile:0"


BAD_MANIFESTS = {
    "absent": (None, "package 'acme_hostile' has no such file"),
    "no TOML": ("api = ", "plugrad-backend.toml: "),
    "no API version": ("priority = 3", "api=None must be a version such as '1.0'"),
    "strange API version": ('api = "one"', "api='one' must be a version"),
    "unknown key": ('api = "1.0"\npriorty = 3', r"unknown keys \['priorty'\]"),
    "priority is no number": ('api = "1.0"\npriority = "high"', "priority must be an integer"),
    "devices are no list": ('api = "1.0"\ndevices = "0"', "devices must be a list of strings"),
}


@pytest.mark.parametrize(("manifest", "message"), BAD_MANIFESTS.values(), ids=BAD_MANIFESTS)
def test_bad_manifest_is_reported_without_running_the_plugin(site, manifest, message):
    site.install("hostile", manifest=manifest)
    site.install("toy")
    assert candidate("hostile").status == "failed"
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
def test_another_api_version_names_what_to_upgrade(site, api, outdated):
    site.install("hostile", "raise AssertionError", manifest=f'api = "{api}"')
    assert candidate("hostile").status == "incompatible"
    with pytest.raises(
        BackendUnavailable,
        match=f"it needs plugin API {api} and this .* run: pip install --upgrade {outdated}",
    ):
        plugrad.use("hostile")
    assert site.imported() == []


@pytest.mark.parametrize("name", ["Hostile", "my-gpu", "9lives", "_hidden"])
def test_bad_name_is_reported(site, name):
    site.install(name, plugin("toy"), distribution="acme-named")
    assert candidate(name).status == "failed"
    with pytest.raises(BackendUnavailable, match=r"must match \[a-z\]\[a-z0-9_\]\*"):
        plugrad.use(name)
    assert site.imported() == []


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


def test_taking_the_name_of_a_first_party_backend_is_a_conflict(site):
    site.install("cpu", plugin("cpu"), distribution="acme-cpu")
    with pytest.raises(PluginConflict, match=r"choose .*'plugrad-cpu::cpu'"):
        plugrad.use("cpu:0")
    with plugrad.use("plugrad-cpu::cpu"):
        assert plugrad.zeros(2).device == "cpu:0"
    assert site.imported() == []


def test_disabled_plugin_is_listed_and_never_imported(site, monkeypatch):
    site.install("toy")
    for value in ("toy", "acme-toy", "acme-toy::toy"):
        monkeypatch.setenv("PLUGRAD_PLUGINS_DISABLE", value)
        assert candidate("toy").status == "blocked"
        with pytest.raises(
            BackendUnavailable,
            match=r"is blocked: plugins.disable in environment variable PLUGRAD_",
        ):
            plugrad.use("toy")
    monkeypatch.delenv("PLUGRAD_PLUGINS_DISABLE")
    assert candidate("toy").status == "available"
    assert site.imported() == []


def test_shadowed_copy_of_a_distribution_counts_once(site, tmp_path, monkeypatch):
    site.install("toy")
    copy = tmp_path / "further down"
    copy.mkdir()
    (site.folder / "acme_toy-1.2.dist-info").rename(copy / "acme_toy-1.1.dist-info")
    site.install("toy", package="acme_toy_new")
    monkeypatch.setattr(sys, "path", [*sys.path, str(copy)])
    plugrad.backends(refresh=True)
    assert candidate("toy").target == "acme_toy_new:backend"


def test_kernel_that_the_plugin_lacks_names_who_has_it(site):
    site.install("toy")
    x = plugrad.asarray([1.0], device="toy")
    with pytest.raises(
        KernelNotFound, match=r"'toy' does not implement kernel 'Multiply'; .*'cpu'"
    ):
        x * x


def test_hostile_plugins_together_leave_cpu_alone(site):
    for i, (options, _) in enumerate(FAILS_WHEN_USED.values()):
        options = {"name": f"hostile_{i}", **options}
        site.install(f"hostile_{i}", options.pop("source", None) or plugin(**options))
    for i, (manifest, _) in enumerate(BAD_MANIFESTS.values()):
        site.install(f"broken_{i}", manifest=manifest)
    names = {c.name for c in plugrad.backends()}
    assert len([n for n in names if n.startswith(("hostile_", "broken_"))]) == len(
        FAILS_WHEN_USED
    ) + len(BAD_MANIFESTS)
    assert site.imported() == []
    assert (plugrad.asarray([1.0]) + 1).tolist() == [2.0]
