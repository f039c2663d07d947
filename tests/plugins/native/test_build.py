"""Wheels of the pack; `test_source_distributions` builds one from the sources alone."""

import importlib.util
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("ziglang")
pytest.importorskip("hatchling")
pytest.importorskip("zopfli")

ROOT = Path(__file__).parents[3] / "plugins"


@pytest.fixture(scope="module")
def build_hook():
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "native" / "hatch_build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if module.find_target_platform() is None:
        pytest.skip("there is no native code for this platform")
    return module


def build_archive(hook, kind, folder):
    build = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(folder)]
    subprocess.run(build, cwd=hook.PROJECT_FOLDER, check=True, capture_output=True)
    (path,) = folder.iterdir()
    return path


def test_wheel_is_small_and_for_the_stable_abi_of_this_platform(build_hook, tmp_path):
    name = build_hook.find_target_platform()
    if build_hook.is_extension_stale(name):
        pytest.skip("a C source was edited after the last build")
    wheel = build_archive(build_hook, "wheel", tmp_path)
    abi = build_hook.get_target_abi()
    python = "cp311" if abi == "abi3" else abi.removesuffix("t")
    assert wheel.name == f"plugrad_native-0.1.0-{python}-{abi}-{name}.whl"
    assert wheel.stat().st_size <= 1_100_000
    with zipfile.ZipFile(wheel) as archive:
        assert archive.testzip() is None
        compiled = {n for n in archive.namelist() if n.endswith((".so", ".pyd"))}
    files = [
        build_hook.get_extension_path(name, variant)
        for variant in build_hook.PLATFORMS[name].variants
    ]
    assert compiled == {f"plugrad_native/{file.name}" for file in files}


def test_builds_are_equal_byte_by_byte(build_hook, tmp_path, monkeypatch):
    listed = tmp_path / "exports.txt"
    listed.write_text("copy_4\n")
    monkeypatch.setattr(build_hook, "EXPORTS_FILE", listed)
    monkeypatch.setattr(build_hook, "KERNEL_SOURCES", ("movement",))
    name = build_hook.find_target_platform()
    variant = next(iter(build_hook.PLATFORMS[name].variants))
    files = []
    for number in range(2):
        folder = tmp_path / f"caches {number}"
        folder.mkdir()
        files.append(folder / "extension")
        build_hook.compile_variants(name, {variant: files[-1]}, folder)
    assert files[0].read_bytes() == files[1].read_bytes()


@pytest.mark.parametrize(
    ("platform", "abi", "suffix"),
    [
        ("manylinux_2_17_x86_64", "abi3", ".abi3.so"),
        ("win_amd64", "abi3", ".pyd"),
        ("manylinux_2_17_aarch64", "cp314t", ".cpython-314t-aarch64-linux-gnu.so"),
        ("musllinux_1_2_x86_64", "cp313t", ".cpython-313t-x86_64-linux-musl.so"),
        ("macosx_11_0_arm64", "cp314t", ".cpython-314t-darwin.so"),
        ("win_amd64", "cp314t", ".cp314t-win_amd64.pyd"),
    ],
)
def test_extensions_have_the_names_that_interpreters_look_for(build_hook, platform, abi, suffix):
    assert build_hook.get_extension_suffix(platform, abi) == suffix
