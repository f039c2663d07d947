"""The distributions of examples/third_party as strangers have them: built, installed, tested from outside."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import plugrad
from plugrad.errors import CANNOT_RUN_ERRORS
from plugrad.testing.report import CONFORMANCE_LEVELS

FOLDER = Path(__file__).parents[2] / "examples" / "third_party"
PROJECTS = (
    "plugrad-acme-float64",
    "plugrad-acme-kernels",
    "plugrad-acme-numexpr",
    "plugrad-acme-ops",
    "plugrad-acme-telemetry",
    "plugrad-torch",
)


def clean_environment(**variables):
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("PLUGRAD_", "PYTEST_"))}
    # Else the plugin of Hypothesis would import all of it at the end of each run.
    own = {
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PYTEST_ADDOPTS": "-p no:hypothesispytest -p no:anyio",
    }
    return inherited | own | variables


@pytest.fixture(scope="module", params=PROJECTS)
def installed_project(request, tmp_path_factory):
    """A project away from the repository: its wheel in `site`, and in the folder nothing but its tests."""
    return install_once(request.param, tmp_path_factory)


folders_of_projects: dict[str, Path] = {}


def install_once(project, tmp_path_factory):
    """Return the folder of a project, which one process of the tests installs once."""
    if project not in folders_of_projects:
        folders_of_projects[project] = install_project(
            project, tmp_path_factory.mktemp("elsewhere")
        )
    return folders_of_projects[project]


def install_project(project, elsewhere):
    folder = elsewhere / project
    source = shutil.copytree(FOLDER / project, folder / "source")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-build-isolation", "--no-deps"]
    subprocess.run(
        [*build, "--no-index", "--wheel-dir", folder / "wheels", source],
        check=True,
        env=clean_environment(),
    )
    (wheel,) = (folder / "wheels").glob("*.whl")
    install_project = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run(
        [*install_project, "--target", folder / "site", wheel], check=True, env=clean_environment()
    )
    shutil.copytree(source / "tests", folder / "tests")
    shutil.copy(source / "pyproject.toml", folder)
    shutil.rmtree(source)
    return folder


def run_tests(folder, *arguments, others=()):
    """Run a project's tests on its installed wheel, and on those of other projects."""
    path = os.pathsep.join(str(each / "site") for each in (folder, *others))
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments],
        env=clean_environment(PYTHONPATH=path, PLUGRAD_TORCH_THREADS="1"),
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def skip_without_backend(backend):
    try:
        with plugrad.use(backend):
            pass
    except CANNOT_RUN_ERRORS as error:
        pytest.skip(str(error))


def test_project_passes_its_own_tests(installed_project, tmp_path_factory):
    if installed_project.name == "plugrad-acme-kernels":
        skip_without_backend("webgpu")
        done = run_tests(installed_project, "-k", "Sigmoid or sigmoid")
    elif installed_project.name == "plugrad-acme-numexpr":
        pytest.importorskip("numexpr", reason="numexpr is not installed")
        others = [install_once("plugrad-acme-float64", tmp_path_factory)]
        done = run_tests(installed_project, "-k", "test_groups or Exp.", others=others)
    elif installed_project.name == "plugrad-torch":
        pytest.importorskip("torch", reason="PyTorch is not installed")
        done = run_tests(installed_project, "--plugrad-report=report.json")
    elif installed_project.name == "plugrad-acme-float64":
        done = run_tests(installed_project, "--plugrad-report=report.json")
    else:
        done = run_tests(installed_project)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
    if installed_project.name == "plugrad-torch":
        report = json.loads((installed_project / "report.json").read_text("utf-8"))
        found = report["backends"]["torch"]
        assert list(found["levels"]) == list(CONFORMANCE_LEVELS)
        assert sum(1 for counts in found["kernels"].values() if counts["passed"]) >= 200
    if installed_project.name == "plugrad-acme-float64":
        _check_report(json.loads((installed_project / "report.json").read_text("utf-8")))


def _check_report(report):
    """The kit has run on all levels, and each kernel that the backend brings has passed."""
    found = report["backends"]["acme_float64"]
    assert found["versions"]["plugrad-acme-float64"] == "1.0"
    assert list(found["levels"]) == list(CONFORMANCE_LEVELS)
    passed = {name for name, counts in found["kernels"].items() if counts["passed"]}
    assert {"Exp", "BatchMatMul", "Sum", "Softmax"} <= passed
    assert len(passed) == 77


def test_composites_of_an_op_pack_run_on_a_backend_that_does_not_know_it(tmp_path_factory):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    ops, torch = (
        install_once(f"plugrad-{name}", tmp_path_factory) for name in ("acme-ops", "torch")
    )
    done = run_tests(ops, "-k", "torch", "-rs", others=[torch])
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the body runs on torch: no plugin brings AcmeSwiGLU for it" in done.stdout
    assert " 1 skipped" in done.stdout


def test_wheel_holds_the_package_and_its_manifest(installed_project):
    (wheel,) = (installed_project / "wheels").glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    package = installed_project.name.replace("-", "_")
    kind = (
        "backend" if installed_project.name.endswith(("float64", "numexpr", "torch")) else "plugin"
    )
    assert {f"{package}/__init__.py", f"{package}/plugrad-{kind}.toml"} <= names


def test_plugrad_lists_a_plugins_kernels_without_running_it(installed_project):
    program = (
        "import json, plugrad, sys\n"
        "found = [p for p in plugrad.plugins() if p.distribution.startswith(('plugrad-acme', 'plugrad-torch'))]\n"
        "loaded = [m for m in sys.modules if m.startswith(('plugrad_acme', 'plugrad_torch', 'torch'))]\n"
        "print(json.dumps([[(p.kind, p.name, p.status) for p in found], loaded]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=clean_environment(PYTHONPATH=str(installed_project / "site")),
        cwd=installed_project,
        capture_output=True,
        text=True,
        check=True,
    )
    listed, loaded = json.loads(done.stdout)
    assert loaded == []
    assert (
        sorted(map(tuple, listed))
        == {
            "plugrad-acme-float64": [("backend", "acme_float64", "available")],
            "plugrad-acme-kernels": [("kernels", "webgpu.acme", "available")],
            "plugrad-acme-numexpr": [("backend", "acme_numexpr", "available")],
            "plugrad-acme-ops": [
                ("kernels", "cpu.acme_ops", "available"),
                ("kernels", "wasm.acme_ops", "available"),
                ("kernels", "webgpu.acme_ops", "available"),
                ("ops", "acme", "available"),
            ],
            "plugrad-torch": [("backend", "torch", "available")],
            "plugrad-acme-telemetry": [("hooks", "acme_telemetry", "available")],
        }[installed_project.name]
    )
