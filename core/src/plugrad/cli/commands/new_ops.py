"""``plugrad new-ops NAME``: create a project with an op, its kernels and its gradient."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugrad.cli import projects
from plugrad.cli.projects import add_arguments as add_arguments

if TYPE_CHECKING:
    from argparse import Namespace


def run(arguments: Namespace) -> None:
    """Write the files of a new op pack's project."""
    projects.write_project("ops", arguments)
