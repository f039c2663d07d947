"""The commands on two pages of the guide run, in the order of the page, and print what it says.

They run in an environment of their own, where a package can be installed: it sees all that this
environment has.
"""

import doctest
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from plugins.running import clean_environment

pytestmark = pytest.mark.long

GUIDE_FOLDER = Path(__file__).parents[2] / "docs" / "guide"
OUTPUT_CHECKER = doctest.OutputChecker()
DOCTEST_FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@pytest.fixture(scope="module")
def programs_folder(tmp_path_factory):
    """A folder with the commands python, pip, pytest and plugrad."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin" / "python"
    ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
    own = subprocess.check_output([python, "-c", ask], text=True).strip()
    here = sysconfig.get_path("purelib")
    Path(own, "here.pth").write_text(f"import site; site.addsitedir({here!r})\n")
    for name, code in {
        "pip": "from pip._internal.cli.main import main",
        "pytest": "from pytest import console_main as main",
        "plugrad": "from _plugrad_command import main",
    }.items():
        script = folder / "bin" / name
        script.write_text(f"#!{python}\nimport sys\n{code}\nsys.exit(main())\n")
        script.chmod(0o755)
    return folder / "bin"


def code_blocks(page):
    """Yield (language, text) of each code block on a page."""
    return re.findall(
        r"^```(\w+)\n(.*?)^```$", (GUIDE_FOLDER / page).read_text("utf-8"), re.M | re.S
    )


class ShellSession:
    """Runs commands one after the other; the effects of ``cd`` and ``export`` last."""

    def __init__(self, programs, folder):
        self.folder = folder
        self.variables = clean_environment(
            PATH=f"{programs}:/usr/bin:/bin",
            PIP_NO_INDEX="1",
            PIP_NO_BUILD_ISOLATION="0",  # as pip spells yes
            PIP_DISABLE_PIP_VERSION_CHECK="1",
            HOME=str(folder),
            COLUMNS="120",
        )
        del self.variables["PYTHONPATH"]

    def run(self, command):
        if command.startswith("cd "):
            self.folder /= command.removeprefix("cd ")
        elif command.startswith("export "):
            name, _, value = command.removeprefix("export ").partition("=")
            self.variables[name] = value
        else:
            return subprocess.run(
                ["bash", "-c", command],
                env=self.variables,
                cwd=self.folder,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
                timeout=600,
            )
        return subprocess.CompletedProcess(command, 0, "")


def write_block(text, folder):
    """Write a code block into the file whose path its first comment names."""
    first, _, rest = text.partition("\n")
    if match := re.fullmatch(r"# ([\w/.-]+/[\w.]+)", first):
        (folder / match[1]).write_text(rest, "utf-8")


@pytest.mark.parametrize("page", ["cli.md", "writing-a-backend.md"])
def test_commands_print_the_output_shown_on_the_page(programs_folder, tmp_path, page):
    shell = ShellSession(programs_folder, tmp_path)
    count = 0
    for language, text in code_blocks(page):
        if language == "python":
            write_block(text, shell.folder)
        for step in re.split(r"^\$ ", text, flags=re.M)[1:] if language == "console" else ():
            command, _, expected = step.partition("\n")
            done = shell.run(command)
            assert done.returncode == 0, f"{command}\n{done.stdout}"
            assert OUTPUT_CHECKER.check_output(expected, done.stdout, DOCTEST_FLAGS), (
                f"{command}\n{done.stdout}"
            )
            count += 1
    assert count > 5
