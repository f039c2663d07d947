"""Measure what it takes to install plugrad or a peer, and to import it: each in an environment of its own.

    make wheels && python benchmarks/install.py plugrad "plugrad[all]" tinygrad jax torch

Environments are in outputs/install/ and are made once; torch takes some gigabytes. Imports take turns,
and the least time of each counts.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from time import perf_counter

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "outputs" / "install"
PROGRAMS = {
    "plugrad": ("import plugrad", ["plugrad"]),
    "plugrad[all]": ("import plugrad", ["plugrad[all]"]),
    "tinygrad": ("from tinygrad import Tensor", ["tinygrad"]),
    "jax": ("import jax.numpy", ["jax"]),
    "torch": ("import torch", ["torch==2.13.0"]),  # the version of `make bench`
}
TURNS = 6


def installed(name: str) -> Path:
    """Return the interpreter of an environment with a library and nothing else."""
    python = FOLDER / name / "bin" / "python"
    if not python.exists():
        uv = Path(sys.executable).with_name("uv")
        subprocess.run([uv, "venv", "--quiet", FOLDER / name], check=True)
        packages = PROGRAMS[name][1]
        install = [uv, "pip", "install", "--quiet", "--python", python]
        subprocess.run([*install, "--find-links", ROOT / "dist", *packages], check=True)
    return python


def megabytes(name: str) -> float:
    """Return the size of the files of an environment, without bytecode."""
    (packages,) = (FOLDER / name).glob("lib/python*/site-packages")
    files = (p for p in packages.rglob("*") if p.is_file() and "__pycache__" not in p.parts)
    return sum(p.stat().st_size for p in files) / 1e6


def seconds(python: Path, program: str) -> float:
    """Return how long a process takes that imports something."""
    start = perf_counter()
    subprocess.run([python, "-c", program], check=True, stdout=subprocess.DEVNULL, env=PLAIN)
    return perf_counter() - start


PLAIN = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


def main() -> None:
    """Print a line for each library."""
    names = sys.argv[1:] or ["plugrad"]
    pythons = {name: installed(name) for name in names}
    least = dict.fromkeys(names, float("inf"))
    for _ in range(TURNS):
        for name, python in pythons.items():
            least[name] = min(least[name], seconds(python, PROGRAMS[name][0]))
    for name in names:
        print(f"{name:12} {megabytes(name):8.0f} MB {least[name]:6.2f} s")


if __name__ == "__main__":
    main()
