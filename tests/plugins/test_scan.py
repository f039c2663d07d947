"""The scan of installed distributions: what it finds, what it forgives, and how long it takes."""

import shutil
import sys
import time

import importlib_metadata
import pytest

import plugrad
from plugins.hostile import write_backend, write_distribution
from plugrad.discovery.listing import shadowed_distributions
from plugrad.discovery.scan import EntryPoint, scan_distributions
from plugrad.discovery.state import state


def scan_plugins(site):
    site.refresh()
    return [e for e in state.scan.entry_points if e.distribution.startswith("acme")]


def test_one_scan_finds_every_group(site):
    groups = {
        "plugrad.backends": {"toy": "acme:backend"},
        "plugrad.kernels": {"toy.more": "acme:kernels"},
        "plugrad.ops": {"acme": "acme.ops"},
        "plugrad.plugins": {"acme": "acme.hooks"},
        "console_scripts": {"acme": "acme:main"},
    }
    write_distribution(site.folder, "acme", entry_points=groups, files={"acme/__init__.py": ""})
    assert scan_plugins(site) == [
        EntryPoint(group, name, target, "acme", "1.2")
        for group, entries in list(groups.items())[:4]
        for name, target in entries.items()
    ]
    listed = [(p.kind, p.name) for p in plugrad.plugins() if p.distribution == "acme"]
    assert listed == [
        ("backend", "toy"),
        ("kernels", "toy.more"),
        ("ops", "acme"),
        ("hooks", "acme"),
    ]
    ops = [p.name for p in plugrad.plugins("ops") if p.distribution == "acme"]
    assert ops == ["acme"]


def test_scan_is_cached_until_refreshed(site):
    before = state.scan
    write_backend(site.folder, "toy")
    assert plugrad.plugins()
    assert state.scan is before
    site.refresh()
    plugrad.plugins()
    assert {e.name for e in state.scan.entry_points} - {e.name for e in before.entry_points} == {
        "toy"
    }


MALFORMED_ENTRY_POINTS = {
    "no target": "[plugrad.backends]\ntoy\n",
    "empty target": "[plugrad.backends]\ntoy =\n",
    "no identifier": "[plugrad.backends]\ntoy = a b:c\n",
    "nothing after the colon": "[plugrad.backends]\ntoy = acme_toy:\n",
    "a path": "[plugrad.backends]\ntoy = ../acme_toy:backend\n",
}


@pytest.mark.parametrize("text", MALFORMED_ENTRY_POINTS.values(), ids=MALFORMED_ENTRY_POINTS)
def test_malformed_entry_is_reported(site, text):
    write_backend(site.folder, "toy")
    (site.folder / "acme_toy-1.2.dist-info" / "entry_points.txt").write_text(text)
    site.refresh()
    (toy,) = [b for b in plugrad.backends() if b.name == "toy"]
    assert toy.status == "failed"
    assert "must be like 'package.module:object'" in toy.reason


@pytest.mark.parametrize("text", ["", "plugrad.backends", "toy = a:b\n[plugrad.x]", "[plugrad.y"])
def test_file_without_entries_is_passed_over(site, text):
    write_backend(site.folder, "toy")
    (site.folder / "acme_toy-1.2.dist-info" / "entry_points.txt").write_text(text)
    assert scan_plugins(site) == []


def test_comments_spaces_and_extras_are_read(site):
    write_backend(site.folder, "toy")
    text = "# a comment\n\n[ignored]\nx = y\n[plugrad.backends]\n; another\n toy =  a.b:c [extra]\n"
    (site.folder / "acme_toy-1.2.dist-info" / "entry_points.txt").write_text(text)
    assert scan_plugins(site) == [EntryPoint("plugrad.backends", "toy", "a.b:c", "acme-toy", "1.2")]


def test_distribution_without_metadata_is_listed(site):
    write_backend(site.folder, "toy")
    (site.folder / "acme_toy-1.2.dist-info" / "METADATA").unlink()
    site.refresh()
    (entry,) = [e for e in state.scan.entry_points if e.name == "toy"]
    assert entry.distribution == "a distribution without a name"


def test_hidden_copy_of_a_distribution_is_reported(site, tmp_path, monkeypatch):
    further = tmp_path / "further down"
    further.mkdir()
    monkeypatch.setattr("sys.path", [*sys.path, str(further)])
    write_backend(site.folder, "toy")
    write_distribution(
        further,
        "ACME-toy",
        entry_points={"plugrad.backends": {"toy": "old:b"}},
        files={},
        version="1.0",
    )
    assert [e.target for e in scan_plugins(site)] == ["acme_toy:backend"]
    hidden = [s for s in shadowed_distributions() if s.distribution == "ACME-toy"]
    assert [(s.version, s.path) for s in hidden] == [("1.0", str(further))]


def test_folder_that_is_on_the_path_twice_counts_once(site, monkeypatch):
    write_backend(site.folder, "toy")
    monkeypatch.setattr(
        "sys.path", [*sys.path, str(site.folder / "." / "..") + f"/{site.folder.name}"]
    )
    assert len(scan_plugins(site)) == 1
    assert [s for s in shadowed_distributions() if s.distribution == "acme-toy"] == []


def test_an_archive_and_a_finder_have_distributions_too(site, tmp_path, monkeypatch):
    for kind in ("archive", "finder"):
        groups = {"plugrad.ops": {kind: "acme"}}
        write_distribution(tmp_path / kind, f"acme-{kind}", entry_points=groups, files={})
    archive = shutil.make_archive(str(tmp_path / "packed"), "zip", tmp_path / "archive")
    monkeypatch.setattr("sys.path", [*sys.path, archive])
    assert [e.name for e in scan_plugins(site)] == ["archive"]

    class Finder:
        def find_spec(self, *_):
            return None

        def find_distributions(self, context):
            information = tmp_path / "finder" / "acme_finder-1.2.dist-info"
            return [importlib_metadata.PathDistribution(information)]

    monkeypatch.setattr("sys.meta_path", [*sys.meta_path, Finder()])
    assert sorted(e.name for e in scan_plugins(site)) == ["archive", "finder"]


def test_two_hundred_distributions_take_little_time(site):
    """It took 4 ms on the machine where this was written; ten times that would delay each start."""
    for i in range(200):
        groups = (
            {"plugrad.ops": {f"acme_{i}": "acme"}}
            if i % 20 == 0
            else {"console_scripts": {"a": "b:c"}}
        )
        write_distribution(site.folder, f"acme-{i}", entry_points=groups, files={})

    def seconds():
        start = time.process_time()
        scan_distributions()
        return time.process_time() - start

    assert min(seconds() for _ in range(10)) < 0.04
    assert len(scan_plugins(site)) == 10


# --- manifests where packages are no plain folders ------------------------------------------------

RAISING_SOURCE = "raise ImportError('a plugin is listed without being imported')"


def test_manifest_in_a_namespace_package(site):
    """Two distributions share the namespace package; neither is imported."""
    for name in ("first", "second"):
        write_distribution(
            site.folder,
            f"acme-{name}",
            entry_points={"plugrad.backends": {name: f"acme.{name}.device:backend"}},
            files={
                f"acme/{name}/__init__.py": RAISING_SOURCE,
                f"acme/{name}/plugrad-backend.toml": f'api = "1.0"\nsummary = "the {name}"\n',
            },
        )
    site.refresh()
    found = {b.name: (b.status, b.manifest.summary) for b in plugrad.backends()}
    assert found["first"] == ("available", "the first")
    assert found["second"] == ("available", "the second")
    assert not {"acme", "acme.first"} & sys.modules.keys()


def test_a_namespace_package_without_a_manifest(site):
    write_distribution(
        site.folder,
        "acme-third",
        entry_points={
            "plugrad.backends": {"third": "acme.third:backend", "none": "acme.none:backend"}
        },
        files={"acme/third/__init__.py": RAISING_SOURCE},
    )
    site.refresh()
    reasons = {b.name: b.reason for b in plugrad.backends() if b.distribution == "acme-third"}
    assert reasons["third"].startswith("package 'acme.third' does not have plugrad-backend.toml")
    assert reasons["none"] == "package 'acme.none' is not installed"


@pytest.mark.parametrize("package", ["acme_zipped", "acme/zipped"])
def test_manifest_in_a_zip_file(site, tmp_path, monkeypatch, package):
    target = package.replace("/", ".")
    write_distribution(
        tmp_path / "source",
        "acme-zipped",
        entry_points={
            "plugrad.backends": {
                "zipped": f"{target}:backend",
                **{name: f"{name}:backend" for name in ("bare", "broken", "large")},
            }
        },
        files={
            f"{package}/__init__.py": RAISING_SOURCE,
            f"{package}/plugrad-backend.toml": 'api = "1.0"\nsummary = "zipped"\n',
            "bare/__init__.py": RAISING_SOURCE,
            "broken/__init__.py": RAISING_SOURCE,
            "broken/plugrad-backend.toml": "api = 1",
            "large/__init__.py": RAISING_SOURCE,
            "large/plugrad-backend.toml": "#" * 10**7,
        },
    )
    archive = shutil.make_archive(str(tmp_path / "packed"), "zip", tmp_path / "source")
    monkeypatch.syspath_prepend(archive)
    site.refresh()
    found = {b.name: b for b in plugrad.backends() if b.distribution == "acme-zipped"}
    assert (found["zipped"].status, found["zipped"].manifest.summary) == ("available", "zipped")
    assert "package 'bare' does not have plugrad-backend.toml" in found["bare"].reason
    assert "plugrad-backend.toml: api = 1 must be a version" in found["broken"].reason
    assert "it is larger than 64 KiB" in found["large"].reason
    assert target not in sys.modules
