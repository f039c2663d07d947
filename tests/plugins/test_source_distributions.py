"""Distributions with C are built from a checkout without links, as on Windows, and from their sources alone."""

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("ziglang")
pytest.importorskip("hatchling")
pytest.importorskip("zopfli")

pytestmark = pytest.mark.long

PLUGINS_FOLDER = Path(__file__).parents[2] / "plugins"
BUILT_SUFFIXES = {".so", ".pyd", ".wasm", ".pyc"}


def copy_without_links(source, target):
    """Copy a folder as git checks it out without symbolic links: a link becomes a file with the target's path."""
    for folder, folders, files in os.walk(source):
        folders[:] = {*folders} - {"__pycache__", "build"}
        for entry in (*files, *(f for f in folders if (Path(folder) / f).is_symlink())):
            path = Path(folder) / entry
            if path.suffix in BUILT_SUFFIXES:
                continue
            copy = target / path.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(
                os.fsencode(os.readlink(path)) if path.is_symlink() else path.read_bytes()
            )


def build_distribution(kind, project, folder, **environment):
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(folder)]
    subprocess.run(
        command, cwd=project, check=True, capture_output=True, env=os.environ | environment
    )
    (path,) = folder.iterdir()
    return path


@pytest.fixture(scope="module", params=["native", "wasm"])
def unpacked_source_distribution(request, tmp_path_factory):
    """The folder of an unpacked source distribution that was built without symbolic links."""
    folder = tmp_path_factory.mktemp(request.param)
    for part in (request.param, "csrc"):
        copy_without_links(PLUGINS_FOLDER / part, folder / "checkout" / part)
    archive = build_distribution("sdist", folder / "checkout" / request.param, folder / "dist")
    with tarfile.open(archive) as files:
        files.extractall(folder, filter="data")
    return folder / archive.name.removesuffix(".tar.gz")


def test_source_distribution_holds_the_shared_sources(unpacked_source_distribution):
    shared = sorted(path.name for path in (PLUGINS_FOLDER / "csrc").iterdir())
    assert sorted(path.name for path in (unpacked_source_distribution / "csrc").iterdir()) == shared
    for name in shared:
        assert (unpacked_source_distribution / "csrc" / name).read_bytes() == (
            PLUGINS_FOLDER / "csrc" / name
        ).read_bytes()
    assert {"hatch_build.py", "LICENSE", "pyproject.toml", "src"} <= {
        path.name for path in unpacked_source_distribution.iterdir()
    }
    assert not [
        path for path in unpacked_source_distribution.rglob("*") if path.suffix in BUILT_SUFFIXES
    ]


def test_a_source_distribution_is_built_from_one_again(unpacked_source_distribution, tmp_path):
    with tarfile.open(build_distribution("sdist", unpacked_source_distribution, tmp_path)) as again:
        names = {name.partition("/")[2] for name in again.getnames()}
    assert {f"csrc/{path.name}" for path in (PLUGINS_FOLDER / "csrc").iterdir()} <= names


def test_a_wheel_is_compiled_from_the_source_distribution(unpacked_source_distribution, tmp_path):
    """One function of plugrad-native is compiled, to save time; the wasm module must equal the present one."""
    is_native = unpacked_source_distribution.name.startswith("plugrad_native")
    if is_native:
        (unpacked_source_distribution / "extension" / "exports.txt").write_text("copy_4\n")
        expected = "plugrad_native/_neon.abi3.so"
    else:
        expected = "plugrad_wasm/kernels.wasm"
    wheel = build_distribution(
        "wheel",
        unpacked_source_distribution,
        tmp_path,
        PLUGRAD_NATIVE_PLATFORM="manylinux_2_17_aarch64",
    )
    with zipfile.ZipFile(wheel) as archive:
        assert [n for n in archive.namelist() if n.endswith((".so", ".wasm"))] == [expected]
        code = archive.read(expected)
    assert code.startswith(b"\x7fELF" if is_native else b"\0asm")
    in_use = PLUGINS_FOLDER / "wasm" / "src" / expected
    inputs = (*(PLUGINS_FOLDER / "csrc").iterdir(), PLUGINS_FOLDER / "wasm" / "hatch_build.py")
    if not is_native and in_use.stat().st_mtime > max(path.stat().st_mtime for path in inputs):
        assert code == in_use.read_bytes()
