"""A release sets one version everywhere and makes the changelog of the fragments."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RELEASE_SCRIPT = ".ci/release.py"
FILES_WITH_VERSION = [
    "pyproject.toml",
    "core/pyproject.toml",
    "core/src/plugrad/__init__.py",
    "CITATION.cff",
    RELEASE_SCRIPT,
    "tests/consistency/extend_api.txt",
]


@pytest.fixture
def repository_copy(tmp_path):
    """A copy of the files that a release reads and writes."""
    plugins = [str(p.relative_to(ROOT)) for p in ROOT.glob("plugins/*/pyproject.toml")]
    for name in [*FILES_WITH_VERSION, *plugins]:
        target = tmp_path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, target)
    shutil.copytree(ROOT / "changes", tmp_path / "changes")
    return tmp_path


def run_release_script(folder, *arguments):
    command = [sys.executable, RELEASE_SCRIPT, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def named_versions(folder):
    """Return the versions of plugrad that the files contain."""
    found = set()
    for path in [p for p in folder.rglob("*") if p.suffix in {".toml", ".py", ".cff"}]:
        if path.name != "release.py":
            text = path.read_text("utf-8")
            found |= {*re.findall(r'^(?:__)?version(?:__)?(?: =|:) "?([\d.]+)', text, re.M)}
            found |= {*re.findall(r'"plugrad[\w-]*(?:\[[\w,]+\])?[=~]=([\d.]+)', text)}
    return found


def test_all_files_name_one_version():
    with_numbers = named_versions(ROOT / "core") | named_versions(ROOT / "plugins")
    assert len(with_numbers) == 1
    assert f"version: {with_numbers.pop()}\n" in (ROOT / "CITATION.cff").read_text("utf-8")


def test_release_sets_the_version_and_moves_the_fragments(repository_copy):
    kept = (repository_copy / "changes" / "README.md").read_text("utf-8")
    (repository_copy / "changes" / "900.fix.md").write_text("It is mended.\n")
    assert run_release_script(repository_copy, "1.2.3").returncode == 0
    assert named_versions(repository_copy) == {"1.2.3"}
    log = (repository_copy / "CHANGELOG.md").read_text("utf-8")
    assert re.match(r"# Changelog\n\n## 1\.2\.3 \(\d{4}-\d\d-\d\d\)\n\n### New\n\n", log)
    assert log.index("### Fixed") < log.index("It is mended.") < log.index("### For developers")
    assert [p.name for p in (repository_copy / "changes").iterdir()] == ["README.md"]
    api = (repository_copy / "tests/consistency/extend_api.txt").read_text("utf-8")
    assert re.match(r"plugin API [\d.]+, released with 1\.2\.3\n", api)
    assert (repository_copy / "changes" / "README.md").read_text("utf-8") == kept

    (repository_copy / "changes" / "901.feature.md").write_text("It is new.\n")
    assert run_release_script(repository_copy, "1.3.0").returncode == 0
    later = (repository_copy / "CHANGELOG.md").read_text("utf-8")
    assert later.index("It is new.") < later.index("## 1.2.3")
    assert later.count("# Changelog\n") == 1


def test_release_rejects_wrong_versions_and_fragments(repository_copy):
    before = named_versions(repository_copy)
    (repository_copy / "changes" / "902.feat.md").write_text("A kind that does not exist.\n")
    for arguments in ([], ["1.2"], ["1.2.3"]):
        assert run_release_script(repository_copy, *arguments).returncode == 1
    assert named_versions(repository_copy) == before
    assert not (repository_copy / "CHANGELOG.md").exists()
