"""Write a new project from one of the two in ``plugrad/templates``, whose files end in ``.template``."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from plugrad.cli import layout
from plugrad.cli.environment import installed_version
from plugrad.cli.words import choice_type
from plugrad.discovery.listing import plugins
from plugrad.discovery.manifest import API_VERSION
from plugrad.errors import ArgumentValueError, PluginConflict

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

TEMPLATES_FOLDER: Final = Path(__file__).parents[1] / "templates"
"""The folder with the templates of projects."""
TEMPLATE_SUFFIX: Final = ".template"
LICENCES: Final = ("Apache-2.0", "MIT", "BSD-3-Clause")
"""The licences among which a new project chooses."""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments that both kinds of project take."""
    parser.add_argument("name", metavar="NAME", help="a name in lower case, such as acme or my_gpu")
    parser.add_argument(
        "--directory", metavar="D", help="the folder to write to (default: plugrad-NAME)"
    )
    parser.add_argument(
        "--license",
        type=choice_type(LICENCES),
        metavar="L",
        default=LICENCES[0],
        help=f"the licence: {', '.join(LICENCES)} (default: %(default)s)",
    )
    parser.add_argument("--author", metavar="A", help="the author in the licence and the metadata")
    parser.add_argument("--json", action="store_true", help="print JSON")


def write_project(template: str, arguments: Namespace) -> None:
    """Write a project from the template of this name, and print how to install and test it.

    Raises:
        ArgumentValueError: the name or the author is not valid, or the folder exists and is not empty.
        PluginConflict: an installed plugin of this kind has the name.
    """
    name: str = arguments.name
    author: str = arguments.author or f"The plugrad-{name} authors"
    _check_project_names(template, name, author)
    distribution = f"plugrad-{name.replace('_', '-')}"
    folder = Path(arguments.directory or distribution)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ArgumentValueError(
            f"--directory: {folder} exists and is not empty; name an empty or a new folder"
        )
    words = {
        "plugrad-acme": distribution,
        "ACME": name.upper(),
        "Acme": "".join(part.capitalize() for part in name.split("_")),
        "acme": name,
        "AUTHOR": author,
        "LICENSE_ID": arguments.license,
        "YEAR": time.strftime("%Y"),
        "CORE_VERSION": _installed_core_version(),
        "API_VERSION": ".".join(map(str, API_VERSION)),
    }
    files = {
        _fill_template(str(path.relative_to(TEMPLATES_FOLDER / template)), words): path
        for path in sorted((TEMPLATES_FOLDER / template).rglob(f"*{TEMPLATE_SUFFIX}"))
    }
    written = {
        file.removesuffix(TEMPLATE_SUFFIX).replace("dot_", "."): path.read_text("utf-8")
        for file, path in files.items()
    }
    written["LICENSE"] = (TEMPLATES_FOLDER / "licenses" / f"{arguments.license}.txt").read_text(
        "utf-8"
    )
    for file, text in written.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(_fill_template(text, words), "utf-8")
    if arguments.json:
        layout.print_json({"folder": str(folder.resolve()), "files": sorted(written)})
        return
    layout.print_line(
        f"Wrote {layout.format_count(len(written), 'file')} to {folder}. To install and test it:"
    )
    layout.print_line()
    python = Path(sys.executable).name
    for step in (f"cd {folder}", f'{python} -m pip install -e ".[test]"', f"{python} -m pytest"):
        layout.print_line(f"{layout.INDENT}{step}")
    layout.print_line()
    layout.print_line("Its README.md describes the next steps.")


def _check_project_names(template: str, name: str, author: str) -> None:
    """Raise unless the names of a project and of its author are valid for a template."""
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or name == "plugins":
        raise ArgumentValueError(
            f"NAME={name!r} must start with a lower-case letter, followed by lower-case letters, digits and _"
        )
    if not author.isprintable() or set(author) & set('"\\'):
        raise ArgumentValueError(
            f"--author={author!r} must be one line without quotation marks and backslashes"
        )
    for plugin in plugins():
        if plugin.kind == template and plugin.name == name:
            raise PluginConflict(f"{plugin} is installed already; choose another name")


def _fill_template(text: str, replacements: dict[str, str]) -> str:
    """Return a text in which each key of `replacements` is replaced by its value."""
    return re.sub(
        "|".join(map(re.escape, replacements)), lambda match: replacements[match[0]], text
    )


def _installed_core_version() -> str:
    """Return the version of plugrad-core, or ``"0"`` if it is not installed."""
    version = installed_version("plugrad-core")
    return version if version[:1].isdigit() else "0"
