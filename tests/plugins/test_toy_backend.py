"""A backend outside the workspace: built as a wheel, installed, listed without being imported, selected, run."""

import json
import os
import shutil
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import pytest

TOY_FOLDER = Path(__file__).parent / "toy"


@pytest.fixture(scope="module")
def toy_project(tmp_path_factory):
    """A copy of the toy backend's sources outside of the repository."""
    return shutil.copytree(TOY_FOLDER, tmp_path_factory.mktemp("elsewhere") / "toy")


@pytest.fixture(scope="module")
def toy_wheel(toy_project):
    """The toy backend's wheel, built with hatchling in this environment without downloads."""
    out = toy_project.parent / "wheels"
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-build-isolation", "--no-deps"]
    subprocess.run([*build, "--wheel-dir", out, toy_project], check=True, env=clean_environment())
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed_toy(toy_wheel):
    """A folder in which the toy backend's wheel is installed."""
    target = toy_wheel.parent / "site"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*install, "--target", target, toy_wheel], check=True, env=clean_environment())
    return target


def clean_environment(**variables):
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("PLUGRAD_")}
    return inherited | {"PIP_DISABLE_PIP_VERSION_CHECK": "1"} | variables


def run_with_toy(site, program, **variables):
    """Run a program with the toy backend installed; return its JSON output."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(program)],
        env=clean_environment(PYTHONPATH=str(site), **variables),
        cwd=site.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_wheel_holds_the_package_and_its_manifest(toy_wheel):
    assert toy_wheel.name == "plugrad_toy-1.0-py3-none-any.whl"
    names = zipfile.ZipFile(toy_wheel).namelist()
    assert {"plugrad_toy/__init__.py", "plugrad_toy/plugrad-backend.toml"} <= set(names)


def test_toy_is_listed_without_being_imported(installed_toy):
    listed = run_with_toy(
        installed_toy,
        """
        import json, sys, plugrad
        toy = next(b for b in plugrad.backends() if b.name == "toy")
        print(json.dumps([toy.status, toy.manifest.summary, toy.distribution, "plugrad_toy" in sys.modules]))
        """,
    )
    assert listed == ["available", "NumPy, backwards", "plugrad-toy", False]


def test_toy_is_selected_by_the_environment_and_runs(installed_toy):
    result = run_with_toy(
        installed_toy,
        """
        import json, plugrad
        x = plugrad.asarray([1.0, 2.0, 3.0])
        gradient = plugrad.grad(lambda x: plugrad.sum(x * x * x))(x)
        used = plugrad.which()
        print(json.dumps([used.device, used.layer, (x * 2 + 1).tolist(), gradient.tolist(), gradient.device]))
        """,
        PLUGRAD_BACKEND="toy",
    )
    assert result == [
        "toy:0",
        "environment variable PLUGRAD_BACKEND",
        [3.0, 5.0, 7.0],
        [3.0, 12.0, 27.0],
        "toy:0",
    ]


def test_toy_is_never_chosen_automatically_unless_allowed(installed_toy):
    program = "import json, plugrad; print(json.dumps(plugrad.which().backend.name))"
    disabled = {"PLUGRAD_PLUGINS_DISABLE": "webgpu,wasm"}
    assert run_with_toy(installed_toy, program, **disabled) == "cpu"
    assert (
        run_with_toy(installed_toy, program, **disabled, PLUGRAD_PLUGINS_ALLOW_AUTO="plugrad-t*")
        == "toy"
    )


def test_kernels_missing_in_the_toy_raise_an_error_that_names_other_backends(installed_toy):
    message = run_with_toy(
        installed_toy,
        """
        import json, plugrad
        x = plugrad.asarray([1.0])
        plugrad.use("cpu")
        try:
            plugrad.log(x)
        except plugrad.errors.KernelNotFound as error:
            print(json.dumps(str(error)))
        """,
        PLUGRAD_BACKEND="toy",
    )
    assert message.startswith("backend 'toy' does not implement kernel 'Log'; 'cpu' does")


def test_toy_and_cpu_exchange_tensors(installed_toy):
    result = run_with_toy(
        installed_toy,
        """
        import json, plugrad
        x = plugrad.asarray([1.0, 2.0], device="cpu")
        f = lambda x: plugrad.sum(plugrad.exp(x).to("toy") * 3.0)
        print(json.dumps([plugrad.grad(f)(x).device, plugrad.grad(f)(x * 0).tolist()]))
        """,
        PLUGRAD_BACKEND="cpu",
    )
    assert result == ["cpu:0", [3.0, 3.0]]
