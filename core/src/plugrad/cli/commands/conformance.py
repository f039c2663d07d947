"""``plugrad conformance NAME``: run the conformance kit of `plugrad.testing` on a backend."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from plugrad.cli import layout
from plugrad.cli.jobs import describe_exit_code
from plugrad.cli.words import choice_type
from plugrad.discovery.listing import MODULE_PREFIX, find_plugin
from plugrad.errors import PluginUnavailable
from plugrad.testing.report import CONFORMANCE_LEVELS, FLOAT32_LEVEL

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

BOOTSTRAP_CODE: Final = (
    "import json, sys; request = json.loads(sys.argv[1]); sys.path[:] = request.pop('path'); "
    "from plugrad.testing import run_conformance; sys.exit(run_conformance(**request))"
)
"""The Python code that the separate process runs."""
EXIT_STATUS_OF_PYTEST: Final = {0: 0, 1: 1, 2: 130}
"""The command's exit status by pytest's: all passed, some failed, interrupted."""
PYTEST_NO_TESTS_COLLECTED: Final = 5
"""The exit status of pytest for a run without tests."""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``plugrad conformance`` to its parser."""
    parser.add_argument(
        "name", metavar="NAME", help="a backend or one of its devices, such as acme or acme:1"
    )
    parser.add_argument(
        "--level",
        type=choice_type((*CONFORMANCE_LEVELS, FLOAT32_LEVEL)),
        default=CONFORMANCE_LEVELS[-1],
        metavar="LEVEL",
        help=f"the last level to run: {', '.join(CONFORMANCE_LEVELS)} (default: all); or {FLOAT32_LEVEL}",
    )
    parser.add_argument(
        "-k", dest="only", metavar="WORDS", help="run only tests whose names match, as in pytest"
    )
    parser.add_argument(
        "--xfail",
        metavar="FILE",
        help="the tests that are expected to fail (default: plugrad-xfail.toml, if it exists)",
    )
    parser.add_argument("--report", metavar="FILE", help="write the results as JSON")
    parser.add_argument("--badge", metavar="FILE", help="write the result as an SVG badge")
    parser.add_argument("--json", action="store_true", help="print the results as JSON")


def run(arguments: Namespace) -> int:
    """Run the conformance kit with pytest in a separate process; return 1 if a test fails.

    Raises:
        BackendNotFound, BackendUnavailable: the backend cannot be used.
        PluginUnavailable: pytest is not installed.
    """
    name: str = arguments.name
    if not name.startswith(MODULE_PREFIX):
        distribution, colons, rest = name.rpartition("::")
        find_plugin(f"{distribution}{colons}{rest.partition(':')[0]}")
    if find_spec("pytest") is None:
        raise PluginUnavailable(
            "the conformance kit runs on pytest, which is not installed; "
            'run: pip install "plugrad-core[testing]"'
        )
    with TemporaryDirectory() as folder:
        report = Path(arguments.report or Path(folder) / "report.json")
        request = {
            "path": sys.path,
            "backend": name,
            "level": arguments.level,
            "report": str(report),
            "badge": arguments.badge,
            "xfail": arguments.xfail,
            "arguments": ["-q", "--tb=short", *(["-k", arguments.only] if arguments.only else [])],
        }
        code = subprocess.run(
            [sys.executable, "-c", BOOTSTRAP_CODE, json.dumps(request)],
            stdout=sys.stderr if arguments.json else None,
            check=False,
        ).returncode
        if code in (0, 1) and arguments.json:
            layout.print_line(report.read_text("utf-8").rstrip())
    if code == PYTEST_NO_TESTS_COLLECTED:
        print(
            f"plugrad: no test up to level {arguments.level} matches -k {arguments.only!r}",
            file=sys.stderr,
        )
    if code < 0:
        print(
            f"plugrad: backend {name!r} {describe_exit_code(code)} during the tests",
            file=sys.stderr,
        )
        return 1
    return EXIT_STATUS_OF_PYTEST.get(code, 2)
