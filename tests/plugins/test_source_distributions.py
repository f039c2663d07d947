"""Distributions with C are built from a checkout without links, as on Windows, and from their sources alone."""

import os
import runpy
import shutil
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
FIRST_WASM_MODULE = "elementwise"
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


def keep_first_module(project):
    """Remove the sources of all modules of plugrad-wasm but the first, whose data is where it is in all of them."""
    hook = project / "hatch_build.py"
    keep = f'MODULE_SOURCES = {{"{FIRST_WASM_MODULE}": MODULE_SOURCES["{FIRST_WASM_MODULE}"]}}\n'
    hook.write_text(f"{hook.read_text('utf-8')}\n\n{keep}", "utf-8")
    sources = runpy.run_path(str(hook))["MODULE_SOURCES"][FIRST_WASM_MODULE]
    for path in (project / "csrc").glob("*.c"):
        if path.stem not in sources:
            path.unlink()


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
    """One function of plugrad-native and one module of plugrad-wasm are compiled, to save time.

    The module must equal the present one.
    """
    project = tmp_path / "project"
    shutil.copytree(unpacked_source_distribution, project)
    is_native = unpacked_source_distribution.name.startswith("plugrad_native")
    if is_native:
        (project / "extension" / "exports.txt").write_text("copy_4\n")
        expected = "plugrad_native/_neon.abi3.so"
    else:
        keep_first_module(project)
        expected = "plugrad_wasm/kernels.wasm"
    wheel = build_distribution(
        "wheel",
        project,
        tmp_path / "dist",
        PLUGRAD_NATIVE_PLATFORM="manylinux_2_17_aarch64",
    )
    with zipfile.ZipFile(wheel) as archive:
        assert [n for n in archive.namelist() if n.endswith((".so", ".wasm"))] == [expected]
        code = archive.read(expected)
    assert code.startswith(b"\x7fELF" if is_native else b"\0asm")
    in_use = PLUGINS_FOLDER / "wasm" / "src" / expected
    inputs = (*(PLUGINS_FOLDER / "csrc").iterdir(), PLUGINS_FOLDER / "wasm" / "hatch_build.py")
    if not is_native and in_use.stat().st_mtime > max(path.stat().st_mtime for path in inputs):
        module = code[code.index(f"{FIRST_WASM_MODULE}\0asm".encode()) :]
        assert len(module) > 100_000
        assert module in in_use.read_bytes()
