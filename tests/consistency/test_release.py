"""A release sets one version everywhere and makes the changelog of the fragments."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = ".ci/release.py"
NAMED = [
    "pyproject.toml",
    "core/pyproject.toml",
    "core/src/plugrad/__init__.py",
    "CITATION.cff",
    PROGRAM,
    "tests/consistency/extend_api.txt",
]


@pytest.fixture
def copy(tmp_path):
    """What a release reads and writes."""
    plugins = [str(p.relative_to(ROOT)) for p in ROOT.glob("plugins/*/pyproject.toml")]
    for name in [*NAMED, *plugins]:
        target = tmp_path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, target)
    shutil.copytree(ROOT / "changes", tmp_path / "changes")
    return tmp_path


def run(folder, *arguments):
    command = [sys.executable, PROGRAM, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def versions(folder):
    """Return the versions of plugrad that the files name, without the numbers of other projects."""
    found = set()
    for path in [p for p in folder.rglob("*") if p.suffix in {".toml", ".py", ".cff"}]:
        if path.name != "release.py":
            text = path.read_text("utf-8")
            found |= {*re.findall(r'^(?:__)?version(?:__)?(?: =|:) "?([\d.]+)', text, re.M)}
            found |= {*re.findall(r'"plugrad[\w-]*(?:\[[\w,]+\])?[=~]=([\d.]+)', text)}
    return found


def test_all_files_name_one_version():
    with_numbers = versions(ROOT / "core") | versions(ROOT / "plugins")
    assert len(with_numbers) == 1
    assert f"version: {with_numbers.pop()}\n" in (ROOT / "CITATION.cff").read_text("utf-8")


def test_release_sets_the_version_and_moves_the_fragments(copy):
    kept = (copy / "changes" / "README.md").read_text("utf-8")
    (copy / "changes" / "900.fix.md").write_text("It is mended.\n")
    assert run(copy, "1.2.3").returncode == 0
    assert versions(copy) == {"1.2.3"}
    log = (copy / "CHANGELOG.md").read_text("utf-8")
    assert re.match(r"# Changelog\n\n## 1\.2\.3 \(\d{4}-\d\d-\d\d\)\n\n### New\n\n", log)
    assert log.index("### Fixed") < log.index("It is mended.") < log.index("### For developers")
    assert [p.name for p in (copy / "changes").iterdir()] == ["README.md"]
    api = (copy / "tests/consistency/extend_api.txt").read_text("utf-8")
    assert re.match(r"plugin API [\d.]+, released with 1\.2\.3\n", api)
    assert (copy / "changes" / "README.md").read_text("utf-8") == kept

    (copy / "changes" / "901.feature.md").write_text("It is new.\n")
    assert run(copy, "1.3.0").returncode == 0
    later = (copy / "CHANGELOG.md").read_text("utf-8")
    assert later.index("It is new.") < later.index("## 1.2.3")
    assert later.count("# Changelog\n") == 1


def test_release_refuses_what_makes_no_sense(copy):
    before = versions(copy)
    (copy / "changes" / "902.feat.md").write_text("A kind that does not exist.\n")
    for arguments in ([], ["1.2"], ["1.2.3"]):
        assert run(copy, *arguments).returncode == 1
    assert versions(copy) == before
    assert not (copy / "CHANGELOG.md").exists()
