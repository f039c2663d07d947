"""The page for authors of backends: its files are written, its commands run, and print what it says."""

import ast
import json
import re
import shlex
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from plugins.hostile import write_backend
from plugins.kit import clean_environment

pytestmark = pytest.mark.long

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "testing-a-backend.md"
PAGE_BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
COMMAND_ARGUMENTS = {
    "pytest": ["-m", "pytest", "-p", "no:cacheprovider"],
    "plugrad": ["-m", "plugrad"],
}
FAILING_COMMANDS = {"pytest -q --tb=line", 'pytest -q --plugrad-level=float32 -k "Relu. or Cos."'}


@pytest.fixture(scope="module")
def followed_page(tmp_path_factory):
    """The folder of the followed instructions, and (command, exit code, expected and actual output)."""
    folder = tmp_path_factory.mktemp("repository")
    site = tmp_path_factory.mktemp("site")
    write_backend(site, "acme")
    results = []
    for kind, text in PAGE_BLOCKS:
        named = re.match(r"# ([\w./-]+\.(?:py|toml))\n", text)
        if named:
            path = folder / named[1]
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        elif kind == "console":
            command, _, expected = text.removeprefix("$ ").partition("\n")
            program, *arguments = shlex.split(command)
            if program == "pip":
                continue
            done = subprocess.run(
                [sys.executable, *COMMAND_ARGUMENTS[program], *arguments],
                cwd=folder,
                env=clean_environment() | {"PYTHONPATH": str(site)},
                capture_output=True,
                text=True,
                check=False,
            )
            results.append((command, done.returncode, expected, done.stdout + done.stderr))
    return folder, results


def test_commands_print_the_output_shown_on_the_page(followed_page):
    _, results = followed_page
    assert len(results) == 5
    for command, code, expected, printed in results:
        assert code == (1 if command in FAILING_COMMANDS else 0), printed
        pattern = r"[\s\S]*?".join(
            r"\s+".join(map(re.escape, part.split())) for part in expected.split("...")
        )
        assert re.search(pattern, printed), f"{command} printed\n{printed}\ninstead of\n{expected}"


def test_report_and_badge_are_as_described(followed_page):
    folder, _ = followed_page
    report = json.loads((folder / "report.json").read_text("utf-8"))
    found = report["backends"]["acme"]
    page = PAGE.read_text("utf-8")
    keys = re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| (`.*?) \|", page, re.MULTILINE)))
    assert set(found) <= set(keys)
    (shown,) = re.findall(r"^{'passed'.*}$", page, re.MULTILINE)
    assert ast.literal_eval(shown).keys() == found["kernels"]["Add"].keys()
    assert ET.parse(folder / "badge.svg").getroot().tag.endswith("svg")
    assert set(report["levels"]) <= set(keys)
