"""Measure what it takes to install plugrad or a peer, and to import it: each in an environment of its own.

    make wheels && python benchmarks/install.py plugrad "plugrad[all]" tinygrad jax torch

Environments are in outputs/install/ and are made once, by the module venv and by pip, which writes bytecode; torch
takes some gigabytes. The first size is that of all files that were installed, the second one leaves out the
bytecode. Imports take turns, and the least time of each counts.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from time import perf_counter

ROOT = Path(__file__).parents[1]
ENVIRONMENTS_FOLDER = ROOT / "outputs" / "install"
PROGRAMS = {
    "plugrad": ("import plugrad", ["plugrad"]),
    "plugrad[all]": ("import plugrad", ["plugrad[all]"]),
    "tinygrad": ("from tinygrad import Tensor", ["tinygrad"]),
    "jax": ("import jax.numpy", ["jax"]),
    "torch": ("import torch", ["torch==2.13.0"]),  # the version of `make bench`
}
"""By name: the program that imports a library, and the packages to install."""
ROUNDS = 6


def make_environment(environment_name: str) -> Path:
    """Return the path of Python in a new environment in which only one library is installed."""
    python = ENVIRONMENTS_FOLDER / environment_name / "bin" / "python"
    if not python.exists():
        subprocess.run(
            [sys.executable, "-m", "venv", ENVIRONMENTS_FOLDER / environment_name], check=True
        )
        before = ENVIRONMENTS_FOLDER / f"{environment_name}.txt"  # what pip itself takes
        before.write_text(
            f"{sum(count_environment_bytes(environment_name))} {count_environment_bytes(environment_name)[1]}",
            "utf-8",
        )
        packages = PROGRAMS[environment_name][1]
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, "--find-links", ROOT / "dist", *packages], check=True)
    return python


def count_environment_bytes(environment_name: str) -> tuple[int, int]:
    """Return the bytes of the files in an environment that are no bytecode, and of bytecode."""
    (packages,) = (ENVIRONMENTS_FOLDER / environment_name).glob("lib/python*/site-packages")
    others = bytecode = 0
    for path in packages.rglob("*"):
        if path.is_file():
            if "__pycache__" in path.parts:
                bytecode += path.stat().st_size
            else:
                others += path.stat().st_size
    return others, bytecode


def count_installed_megabytes(environment_name: str) -> tuple[float, float]:
    """Return the installed size in megabytes, with and without bytecode."""
    everything, bytecode = map(
        int, (ENVIRONMENTS_FOLDER / f"{environment_name}.txt").read_text("utf-8").split()
    )
    others, compiled = count_environment_bytes(environment_name)
    return (others + compiled - everything) / 1e6, (others - everything + bytecode) / 1e6


def time_import(python_path: Path, program: str) -> float:
    """Return the seconds of a process that runs a program, which imports a library."""
    start = perf_counter()
    subprocess.run(
        [python_path, "-c", program], check=True, stdout=subprocess.DEVNULL, env=CLEAN_ENVIRONMENT
    )
    return perf_counter() - start


CLEAN_ENVIRONMENT = {
    name: value for name, value in os.environ.items() if not name.startswith("PYTHON")
}
"""The environment variables of this process, without those for Python."""


def main() -> None:
    """Print a line for each library."""
    names = sys.argv[1:] or ["plugrad"]
    pythons = {name: make_environment(name) for name in names}
    least = dict.fromkeys(names, float("inf"))
    for _ in range(ROUNDS):
        for name, python in pythons.items():
            least[name] = min(least[name], time_import(python, PROGRAMS[name][0]))
    for name in names:
        with_bytecode, without = count_installed_megabytes(name)
        print(
            f"{name:12} {with_bytecode:8.0f} MB, {without:.0f} MB without bytecode {least[name]:6.2f} s"
        )


if __name__ == "__main__":
    main()
