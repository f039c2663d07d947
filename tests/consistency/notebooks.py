"""Examples that are notebooks: in the program, ``# %%`` begins a cell, as in VS Code and Spyder.

``make pages`` writes the notebooks, without results; `make site` runs them and shows what comes out.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXAMPLE_NAMES = ("images", "pendulum", "reaction_diffusion")
CELL_MARK = re.compile(r"^# %%(.*)\n", re.M)


def read_example(name: str) -> str:
    """Return the source code of an example."""
    return (ROOT / "examples" / f"{name}.py").read_text("utf-8")


def iter_cells(name: str) -> Iterator[tuple[str, str]]:
    """Yield the kind of each cell, "markdown" or "code", and its text."""
    _, *parts = CELL_MARK.split(read_example(name))
    for kind, text in zip(parts[::2], parts[1::2], strict=True):
        if "[markdown]" in kind:
            yield "markdown", re.sub(r"^# ?", "", text.strip(), flags=re.M)
        else:
            yield "code", text.strip()


def make_notebook(name: str) -> str:
    """Return an example as a notebook in Jupyter's format 4.5."""
    made = []
    for number, (kind, text) in enumerate(iter_cells(name)):
        cell = {
            "cell_type": kind,
            "id": f"cell-{number}",
            "metadata": {},
            "source": text.splitlines(keepends=True),
        }
        made.append(cell | ({"execution_count": None, "outputs": []} if kind == "code" else {}))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    whole = {"cells": made, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def notebook_path(name: str) -> Path:
    """Return the path of an example's notebook."""
    return ROOT / "docs" / "examples" / f"{name}.ipynb"
