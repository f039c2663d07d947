"""Fixtures: a folder in which a test installs plugins; everything is removed after the test."""

import copy
import gc
import importlib
import os
import sys
import textwrap

import pytest

import plugrad
from installed import open_installed
from plugins.hostile import write_backend, write_distribution
from plugrad.cli import jobs, main
from plugrad.discovery import hooks, listing, loading, packs
from plugrad.discovery.scan import scan_distributions
from plugrad.discovery.state import state
from plugrad.registry.transaction import snapshot_registries


class PluginFolder:
    """A folder on sys.path into which a test installs distributions by writing their files."""

    def __init__(self, folder):
        self.folder = folder
        self.packages = []

    def install(self, backend, source=None, **options):
        """Install a distribution with one backend."""
        self.packages.append(write_backend(self.folder, backend, source, **options))
        self.refresh()

    def install_pack(self, group, name, source, *, distribution=None, target="", files=()):
        """Install a distribution with one entry point in ``plugrad.<group>``, and one module."""
        distribution = distribution or f"acme-{name.replace('.', '-')}"
        package = distribution.replace("-", "_")
        write_distribution(
            self.folder,
            distribution,
            entry_points={f"plugrad.{group}": {name: package + target}},
            files={f"{package}/__init__.py": textwrap.dedent(source), **dict(files)},
        )
        self.packages.append(package)
        self.refresh()

    def refresh(self):
        importlib.invalidate_caches()
        plugrad.plugins(refresh=True)

    def imported(self):
        """Return the installed packages that have been imported."""
        return [name for name in self.packages if name in sys.modules]


@pytest.fixture
def without_garbage_collection():
    """Switch the garbage collector off during the test."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def scan_without_distributed_hooks():
    """Return the installed plugins without the hooks of plugrad-distributed."""
    found = scan_distributions()
    entries = [
        entry
        for entry in found.entry_points
        if (entry.group, entry.distribution) != ("plugrad.plugins", "plugrad-distributed")
    ]
    return found._replace(entry_points=tuple(entries))


@pytest.fixture
def site(tmp_path, monkeypatch):
    for name in os.environ:
        if name.startswith("PLUGRAD_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PLUGRAD_BACKEND", "cpu")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "no configuration"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(listing, "scan_distributions", scan_without_distributed_hooks)
    plugrad.config.reset()
    monkeypatch.syspath_prepend(str(tmp_path))
    plugrad.plugins(refresh=True)
    open_installed()
    before = loading.opened_backends()
    restore = snapshot_registries()
    site = PluginFolder(tmp_path)
    yield site
    monkeypatch.undo()
    plugrad.config.reset()
    for plugin in plugrad.plugins("hooks"):
        if plugin.status == "active" and plugin.distribution != "<this process>":
            hooks.unload_hooks(plugin)
    for name in list(state.brought):
        packs.unregister_plugin_kernels(name)
    for backend in loading.opened_backends():
        if backend not in before:
            plugrad.close_backend(backend)
    restore()
    for name in list(sys.modules):
        if name.partition(".")[0] in site.packages:
            del sys.modules[name]
    state.added.clear()
    importlib.invalidate_caches()
    plugrad.plugins(refresh=True)


def cache_job_outcomes(run, folder):
    """Return a replacement of `plugrad.cli.jobs.run_jobs` that runs each job once as long as nothing changes.

    A new process knows of this one no more than its path, the environment and what is installed.
    """
    outcomes = {}

    def run_once(todo, timeout):
        todo = list(todo)
        settings = {k: v for k, v in os.environ.items() if k != "PYTEST_CURRENT_TEST"}
        files = [
            (str(path), path.lstat().st_mtime_ns, path.lstat().st_size)
            for path in sorted(folder.rglob("*"))
            if "__pycache__" not in path.parts
        ]
        key = repr((todo, timeout, sys.path, os.getcwd(), settings, files))
        if key not in outcomes:
            outcomes[key] = run(todo, timeout)
        return copy.deepcopy(outcomes[key])

    return run_once


@pytest.fixture
def run_cli(site, capsys, monkeypatch):
    """A function that runs a ``plugrad`` command in this process, and returns the exit status and the output."""
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(jobs, "run_jobs", cache_job_outcomes(jobs.run_jobs, site.folder))

    def run(*arguments):
        try:
            status = main(arguments)
        except SystemExit as end:  # argparse
            status = end.code
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return run
