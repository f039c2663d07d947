"""``plugrad new-backend`` and ``new-ops``: what they write is built, installed, and passes its own tests at once."""

import json
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from plugins.running import clean_environment, run_command_in_new_process
from plugrad.cli.projects import LICENCES, TEMPLATE_SUFFIX, TEMPLATES_FOLDER

pytestmark = pytest.mark.long

CORE_FOLDER = Path(__file__).parents[2] / "core"
PIP_COMMAND = [sys.executable, "-m", "pip", "--disable-pip-version-check"]


def build_wheel(project, folder):
    """Build a wheel with hatchling in this environment, without downloads."""
    wheel = [
        *PIP_COMMAND,
        "wheel",
        "--quiet",
        "--no-build-isolation",
        "--no-deps",
        "--wheel-dir",
        folder,
    ]
    subprocess.run([*wheel, project], check=True, env=clean_environment())
    (found,) = folder.glob("*.whl")
    return found


class InstalledProject:
    """A project made from a template, its wheel, and a folder where the wheel is installed."""

    def __init__(self, command, name, folder):
        done = run_command_in_new_process(command, name, folder=folder)
        assert (done.returncode, done.stderr) == (0, "")
        self.said = done.stdout
        (self.folder,) = folder.glob("plugrad-*")
        self.wheel = build_wheel(self.folder, folder / "wheels")
        self.site = folder / "site"
        install = [
            *PIP_COMMAND,
            "install",
            "--quiet",
            "--no-deps",
            "--no-index",
            "--target",
            self.site,
        ]
        subprocess.run([*install, self.wheel], check=True, env=clean_environment())


@pytest.fixture(scope="module")
def new_backend_project(tmp_path_factory):
    return InstalledProject("new-backend", "my_gpu", tmp_path_factory.mktemp("backend"))


@pytest.fixture(scope="module")
def new_ops_project(tmp_path_factory):
    return InstalledProject("new-ops", "smooth", tmp_path_factory.mktemp("ops"))


@pytest.fixture(params=["new_backend_project", "new_ops_project"])
def installed_project(request):
    return request.getfixturevalue(request.param)


# --- both kinds ------------------------------------------------------------------------------------


def test_new_project_command_prints_the_next_steps(installed_project):
    lines = installed_project.said.splitlines()
    assert lines[0].startswith("Wrote ")
    assert f"  cd {installed_project.folder.name}" in lines
    assert any(line.endswith('-m pip install -e ".[test]"') for line in lines)


def test_new_project_contains_no_template_words(installed_project):
    for path in installed_project.folder.rglob("*"):
        assert path.suffix != TEMPLATE_SUFFIX
        text = path.read_text("utf-8") if path.is_file() and path.name != "LICENSE" else ""
        assert not re.search("(?i:acme)|AUTHOR|LICENSE_ID|_VERSION", f"{path.name} {text}")


def test_new_project_has_the_files_of_a_repository(installed_project):
    for file in (
        ".gitignore",
        ".github/workflows/test.yml",
        "LICENSE",
        "README.md",
        "pyproject.toml",
    ):
        assert (installed_project.folder / file).is_file()


def test_wheel_holds_the_package_and_its_manifest(installed_project):
    package = installed_project.folder.name.replace("-", "_")
    assert installed_project.wheel.name == f"{package}-0.1.0-py3-none-any.whl"
    names = zipfile.ZipFile(installed_project.wheel).namelist()
    sources = installed_project.folder / "src"
    files = {str(path.relative_to(sources)) for path in sources.rglob("*") if path.is_file()}
    assert files <= set(names)
    assert any(name.endswith(".toml") for name in files)
    assert f"{package}/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)


def run_own_tests(project, *arguments):
    """Run the tests of a project made from a template; they must pass."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", *arguments],
        env=clean_environment(project.site),
        cwd=project.folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert " passed" in done.stdout


def test_ops_pass_their_own_tests(new_ops_project):
    run_own_tests(new_ops_project)


def test_new_backend_passes_its_tests_and_the_conformance_kit(new_backend_project, tmp_path):
    run_own_tests(new_backend_project, f"--plugrad-report={tmp_path / 'report.json'}")
    report = json.loads((tmp_path / "report.json").read_text("utf-8"))
    total = report["backends"]["my_gpu"]["total"]
    assert total["failed"] == 0
    assert total["passed"] > 40


def test_doctor_finds_no_problem_in_a_new_project(installed_project):
    done = run_command_in_new_process(
        "doctor", "--json", installed_project.folder.name, folder=installed_project.site
    )
    report = json.loads(done.stdout)
    assert [f for f in report["findings"] if f["level"] == "problem"] == []
    assert done.returncode == 0
    assert {p["health"] for p in report["plugins"]} <= {"ok", "note"}


def test_new_project_passes_ruff(installed_project):
    rules = "E,F,W,I,N,B,UP,SIM,RET,C4,PIE,PT,RUF,TC"
    for check in (
        ["check", "--no-cache", "--isolated", "--select", rules],
        ["format", "--isolated", "--check"],
    ):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *check, "--line-length", "100", "."],
            cwd=installed_project.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout


# --- each kind -------------------------------------------------------------------------------------


def test_backend_is_listed_without_being_imported_and_runs(new_backend_project):
    (listed,) = [
        p
        for p in json.loads(
            run_command_in_new_process("list", "--json", folder=new_backend_project.site).stdout
        )
        if p["name"] == "my_gpu"
    ]
    assert (listed["status"], listed["distribution"]) == ("available", "plugrad-my-gpu")
    program = (
        "import sys, plugrad; assert 'plugrad_my_gpu' not in sys.modules;"
        "x = plugrad.asarray([1.0, 2.0]); print(x * x + 1)"
    )
    done = run_command_in_new_process(
        program=program, folder=new_backend_project.site, PLUGRAD_BACKEND="my_gpu"
    )
    assert done.stdout == "tensor([2., 5.], dtype=float32, device='my_gpu:0')\n"


def test_ops_come_with_kernels_for_two_backends(new_ops_project):
    done = run_command_in_new_process(
        "kernels", "--json", "*Squareplus", folder=new_ops_project.site
    )
    (kernel,) = json.loads(done.stdout)["kernels"].values()
    assert kernel["family"] == "smooth"
    assert kernel["attributes"] == ["b"]
    assert kernel["backends"]["cpu"] == "own"
    if "webgpu" not in json.loads(done.stdout)["without"]:
        assert kernel["backends"]["webgpu"] == "own"


def test_ops_are_found_by_the_name_of_their_kernel(new_ops_project):
    program = (
        "import sys, plugrad; plugrad.use('cpu');"
        "x = plugrad.run_kernel('SmoothSquareplus', {'x': plugrad.asarray([1.5])}, {'b': 4.0});"
        "print(x, 'plugrad_smooth' in sys.modules)"
    )
    done = run_command_in_new_process(program=program, folder=new_ops_project.site)
    assert (done.stdout, done.stderr) == ("tensor([2.], dtype=float32) True\n", "")


# --- choices and refusals --------------------------------------------------------------------------


@pytest.mark.parametrize("licence", LICENCES)
def test_licence_and_author(run_cli, site, licence):
    folder = site.folder / "new"
    arguments = ["--directory", str(folder), "--license", licence, "--author", "Ann O'Hara"]
    assert run_cli("new-backend", "ann", *arguments)[0] == 0
    project = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["license"] == licence
    assert project["authors"] == [{"name": "Ann O'Hara"}]
    text = (folder / "LICENSE").read_text("utf-8")
    assert licence.partition("-")[0] in text
    assert ("Ann O'Hara" in text) == (licence != "Apache-2.0")


def test_json_output_lists_the_written_files(run_cli, site):
    status, printed, _ = run_cli("new-ops", "mine", "--json")
    written = json.loads(printed)
    assert status == 0
    assert written["folder"] == str(site.folder / "plugrad-mine")
    for file in written["files"]:
        assert (site.folder / "plugrad-mine" / file).is_file()


@pytest.mark.parametrize("name", ["Acme", "my-gpu", "9lives", "_x", "plugins", "a b"])
def test_invalid_plugin_name_is_refused(run_cli, name):
    status, _, error = run_cli("new-backend", name)
    assert status == 2
    assert f"NAME={name!r} must start with a lower-case letter" in error


def test_name_that_is_taken_is_refused(run_cli):
    status, _, error = run_cli("new-backend", "cpu")
    assert status == 2
    assert "backend 'cpu' (plugrad-cpu" in error
    assert "is installed already" in error


def test_author_that_would_break_the_metadata_is_refused(run_cli):
    status, _, error = run_cli("new-ops", "mine", "--author", 'Ann "A" Hara')
    assert status == 2
    assert "--author=" in error


def test_nonempty_folder_is_not_overwritten(run_cli, site):
    (site.folder / "plugrad-mine").mkdir()
    assert run_cli("new-ops", "mine")[0] == 0
    status, _, error = run_cli("new-ops", "mine")
    assert status == 2
    assert "exists and is not empty" in error


# --- in the wheel of core --------------------------------------------------------------------------


def test_core_wheel_contains_templates_and_the_command(tmp_path):
    names = set(zipfile.ZipFile(build_wheel(CORE_FOLDER, tmp_path)).namelist())
    templates = {
        f"plugrad/templates/{p.relative_to(TEMPLATES_FOLDER).as_posix()}"
        for p in TEMPLATES_FOLDER.rglob("*")
        if p.is_file()
    }
    assert len(templates) > 20
    assert templates <= names
    assert {"_plugrad_command.py", "plugrad/__main__.py", "plugrad/cli/__init__.py"} <= names
    assert {name.split("/")[0] for name in names if "dist-info" not in name} == {
        "plugrad",
        "_plugrad_command.py",
    }
