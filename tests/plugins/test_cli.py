"""The command ``plugrad`` as a whole: help, exit statuses, terminals, the door, and the commands of plugins."""

import subprocess
import sys
from pathlib import Path

import pytest

from plugins.hostile import write_backend
from plugins.running import DOOR, in_new_process
from plugrad.cli import COMMANDS, layout

# --- the whole -----------------------------------------------------------------------------------


def test_without_a_command_it_explains_itself(command):
    status, printed, _ = command()
    assert status == 0
    assert all(f"    {name} " in printed for name in COMMANDS)
    assert "exit status:" in printed


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself_and_its_exit_statuses(command, name):
    status, printed, _ = command(name, "--help")
    assert status == 0
    assert printed.startswith(f"usage: plugrad {name} ")
    assert "exit status:" in printed
    assert "--json" in printed


def test_version(command):
    from importlib_metadata import version

    assert command("--version") == (0, f"plugrad {version('plugrad-core')}\n", "")


def test_unknown_command_names_the_known_ones(command):
    status, _, error = command("lits")
    assert status == 2
    assert "choose from" in error
    assert "list" in error


def test_wrong_argument_is_misuse(command):
    assert command("doctor", "--timeout", "soon")[0] == 2
    assert command("list", "--colour")[0] == 2


def test_reader_that_stops_early_is_no_error(site):
    shell = f"{sys.executable} -m plugrad kernels | head -n 1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("KERNEL")


def test_terminal_without_unicode_gets_codes(site):
    done = in_new_process("config", "--explain", PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert "x.to(\\u2026)" in done.stdout


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize(
    "name", ["", "kernels --help", "list", "config --explain", "devices cpu", "info cpu"]
)
def test_lines_fit_the_terminal(command, monkeypatch, width, name):
    monkeypatch.setenv("COLUMNS", str(width))
    _, printed, _ = command(*name.split())
    assert printed
    for line in printed.splitlines():
        has_long_word = max(map(len, line.split()), default=0) > width - 20  # such as a path
        assert len(line) <= width or has_long_word, line


def test_columns_line_up(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    layout.table(("NAME", "TEXT"), [("a", "word " * 20), ("longer", "x")], indent="")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "NAME    TEXT"
    assert all(
        line.startswith(("NAME    T", "a       w", " " * 8 + "w", "longer  x")) for line in lines
    )


# --- the door -------------------------------------------------------------------------------------


def test_script_is_the_door():
    import tomllib

    file = Path(__file__).parents[2] / "core" / "pyproject.toml"
    scripts = tomllib.loads(file.read_text("utf-8"))["project"]["scripts"]
    assert scripts == {"plugrad": "_plugrad_command:main"}


@pytest.mark.parametrize("arguments", [[], ["list"], ["list", "--json"], ["config"]])
def test_listing_imports_neither_numpy_nor_a_plugin(site, arguments):
    write_backend(site.folder, "exits", "raise SystemExit(3)")
    program = (
        f"{DOOR.replace('sys.exit(main())', 'main()')}\n"
        "print([m for m in ('numpy', 'pluggy', 'wgpu', 'wasmtime', 'plugrad.ops', 'plugrad_cpu', 'acme_exits')"
        " if m in sys.modules])"
    )
    done = in_new_process(*arguments, program=program, folder=site.folder)
    assert done.stderr == ""
    assert done.stdout.splitlines()[-1] == "[]"


def test_page_runs_when_a_plugin_needs_it(site):
    site.install_pack("plugins", "late", SAYS)
    done = in_new_process("acme", folder=site.folder)
    assert (done.returncode, done.stdout, done.stderr) == (3, "tensor([4.], dtype=float32)\n", "")


# --- commands of plugins --------------------------------------------------------------------------

SAYS = """
    import plugrad

    def say(arguments):
        with plugrad.use("cpu"):
            print(plugrad.asarray([arguments.number]) * 2)
        return 3

    @plugrad.hookimpl
    def plugrad_cli(subcommands):
        parser = subcommands.add_parser("acme", help="double a number")
        parser.add_argument("--number", type=float, default=2.0)
        parser.set_defaults(run=say)
"""


def test_plugin_brings_a_command(command, site):
    site.install_pack("plugins", "says", SAYS)
    assert "double a number" in command("--help")[1]
    assert command("acme") == (3, "tensor([4.], dtype=float32)\n", "")
    assert command("acme", "--number", "5")[1] == "tensor([10.], dtype=float32)\n"


def test_commands_of_ones_own_run_no_plugin(command, site):
    site.install_pack("plugins", "says", SAYS)
    assert command("list")[0] == 0
    assert site.imported() == []


def test_plugin_that_cannot_be_loaded_leaves_the_help_alone(command, site):
    site.install_pack("plugins", "broken", "raise SystemExit(9)")
    with pytest.warns(RuntimeWarning, match="broken"):
        assert command("--help")[0] == 0
