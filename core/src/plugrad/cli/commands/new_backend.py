"""``plugrad new-backend NAME``: create a project with a backend."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugrad.cli import projects
from plugrad.cli.projects import add_arguments as add_arguments

if TYPE_CHECKING:
    from argparse import Namespace


def run(arguments: Namespace) -> None:
    """Write the files of a new backend's project."""
    projects.write_project("backend", arguments)
