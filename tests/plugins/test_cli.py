"""The command ``plugrad`` as a whole: help, exit statuses, terminals, the door, and the commands of plugins."""

import os
import pty
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from plugins.hostile import write_backend
from plugins.running import COMMAND_PROGRAM, clean_environment, run_command_in_new_process
from plugrad.cli import COMMAND_SUMMARIES, layout

# --- the whole -----------------------------------------------------------------------------------


def test_without_a_command_an_overview_is_printed(run_cli):
    status, printed, _ = run_cli()
    assert status == 0
    assert all(f"    {name} " in printed for name in COMMAND_SUMMARIES)
    assert "exit status:" in printed


@pytest.mark.parametrize("name", COMMAND_SUMMARIES)
def test_every_command_explains_itself_and_its_exit_statuses(run_cli, name):
    status, printed, _ = run_cli(name, "--help")
    assert status == 0
    assert printed.startswith(f"usage: plugrad {name} ")
    assert "exit status:" in printed
    assert "--json" in printed


def test_version_option_prints_the_version(run_cli):
    from importlib_metadata import version

    assert run_cli("--version") == (0, f"plugrad {version('plugrad-core')}\n", "")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("lst", "plugrad: no command called 'lst' (did you mean 'list'?); `plugrad --help` lists"),
        ("backends", "plugrad: no command called 'backends' (did you mean 'list'?); `plugrad"),
        ("qqq --json", "plugrad: no command called 'qqq'; `plugrad --help` lists"),
        ("--vresion", "plugrad: error: unknown argument '--vresion' (did you mean '--version'?)"),
        ("list --colour", "plugrad list: error: unknown argument '--colour'\n"),
        ("list toy", "plugrad list: error: unknown argument 'toy'\n"),
        ("kernels --backnd=cpu", "unknown argument '--backnd=cpu' (did you mean '--backend'?)"),
        ("--json list", "plugrad list: error: --json must come after the command"),
        ("doctor --timeout soon", "'soon' must be a number of seconds between 0 and a million"),
        ("info cpu --timeout 0", "'0' must be a number of seconds between 0 and a million"),
        ("conformance cpu --level ful", "must be one of lifecycle, core, gradients, full, edges"),
        ("conformance cpu --level ful", "(did you mean 'full'?)"),
        ("new-ops a --license MITT", "Apache-2.0, MIT, BSD-3-Clause (did you mean 'MIT'?)"),
    ],
)
def test_misspelt_arguments_exit_as_misuse_with_a_suggestion(run_cli, words, message):
    status, printed, error = run_cli(*words.split())
    assert (status, printed) == (2, "")
    assert message in error


def test_reader_that_stops_early_is_no_error(site):
    shell = f"{sys.executable} -m plugrad kernels | head -n 1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("KERNEL")


def test_terminal_without_unicode_gets_codes(site):
    done = run_command_in_new_process("config", "--explain", PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert "x.to(\\u2026)" in done.stdout


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize(
    "name", ["", "kernels --help", "list", "config --explain", "devices cpu", "info cpu"]
)
def test_lines_fit_the_terminal(run_cli, monkeypatch, width, name):
    monkeypatch.setenv("COLUMNS", str(width))
    _, printed, _ = run_cli(*name.split())
    assert printed
    for line in printed.splitlines():
        has_long_word = max(map(len, line.split()), default=0) > width - 20  # such as a path
        assert len(line) <= width or has_long_word, line


def test_table_columns_are_aligned(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    layout.print_table(("NAME", "TEXT"), [("a", "word " * 20), ("longer", "x")], indent="")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "NAME    TEXT"
    assert all(
        line.startswith(("NAME    T", "a       w", " " * 8 + "w", "longer  x")) for line in lines
    )


def test_names_are_never_split(run_cli, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    names = ["acme-" + "x" * 30, "acme_" + "y" * 30, "/a/path/" + "z" * 80]
    layout.print_table(("NAME", "FROM", "TEXT"), [(*names,), ("a b", "c", "d " * 40)])
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == names
    assert {line.find("d") for line in lines[2:]} == {lines[0].index("TEXT")}
    for width in range(60, 90):
        monkeypatch.setenv("COLUMNS", str(width))
        assert "plugrad-xfail.toml" in run_cli("conformance", "--help")[1]


@pytest.mark.parametrize(
    ("variables", "is_terminal", "is_coloured"),
    [
        ({"TERM": "xterm"}, True, True),
        ({"TERM": "xterm"}, False, False),
        ({"TERM": "dumb"}, True, False),
        ({"TERM": "dumb", "FORCE_COLOR": "1"}, False, True),
        ({"TERM": "xterm", "NO_COLOR": "1", "FORCE_COLOR": "1"}, True, False),
        ({"TERM": "xterm", "NO_COLOR": ""}, True, True),
    ],
)
def test_colour_is_for_terminals(capsys, monkeypatch, variables, is_terminal, is_coloured):
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)
    layout.print_table(
        ("NAME", "STATUS"), [("failed \x1b[31m", "failed"), ("cpu", "active")], indent=""
    )
    printed = capsys.readouterr().out
    red, green = "\x1b[31mfailed\x1b[0m", "\x1b[32mactive\x1b[0m"
    assert (red in printed, green in printed, "\x1b" in printed) == (is_coloured,) * 3
    plain = re.sub(r"\x1b\[\d*m", "", printed).splitlines()
    assert plain == ["NAME             STATUS", r"failed \x1b[31m  failed", f"{'cpu':17}active"]


def test_real_terminal_gets_colour():
    parent, child = pty.openpty()
    environment_ = clean_environment(TERM="xterm", NO_COLOR="", FORCE_COLOR="")
    done = subprocess.run(
        [sys.executable, "-m", "plugrad", "config"], stdout=child, env=environment_, check=True
    )
    os.close(child)
    assert done.returncode == 0
    assert os.read(parent, 200).startswith(b"\x1b[2mSETTING\x1b[0m ")
    os.close(parent)


# --- the door -------------------------------------------------------------------------------------


def test_console_script_calls_the_command_module():
    import tomllib

    file = Path(__file__).parents[2] / "core" / "pyproject.toml"
    scripts = tomllib.loads(file.read_text("utf-8"))["project"]["scripts"]
    assert scripts == {"plugrad": "_plugrad_command:main"}


@pytest.mark.parametrize("arguments", [[], ["list"], ["list", "--json"], ["config"]])
def test_listing_imports_neither_numpy_nor_a_plugin(site, arguments):
    write_backend(site.folder, "exits", "raise SystemExit(3)")
    program = (
        f"{COMMAND_PROGRAM.replace('sys.exit(main())', 'main()')}\n"
        "print([m for m in ('numpy', 'pluggy', 'wgpu', 'wasmtime', 'plugrad.ops', 'plugrad_cpu', 'acme_exits')"
        " if m in sys.modules])"
    )
    done = run_command_in_new_process(*arguments, program=program, folder=site.folder)
    assert done.stderr == ""
    assert done.stdout.splitlines()[-1] == "[]"


def test_package_is_imported_when_a_plugins_command_needs_it(site):
    site.install_pack("plugins", "late", COMMAND_SOURCE)
    done = run_command_in_new_process("acme", folder=site.folder)
    assert (done.returncode, done.stdout, done.stderr) == (3, "tensor([4.], dtype=float32)\n", "")


# --- commands of plugins --------------------------------------------------------------------------

COMMAND_SOURCE = """
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


def test_plugin_brings_a_command(run_cli, site):
    site.install_pack("plugins", "says", COMMAND_SOURCE)
    assert "double a number" in run_cli("--help")[1]
    assert run_cli("acme") == (3, "tensor([4.], dtype=float32)\n", "")
    assert run_cli("acme", "--number", "5")[1] == "tensor([10.], dtype=float32)\n"


def test_builtin_commands_import_no_command_plugin(run_cli, site):
    site.install_pack("plugins", "says", COMMAND_SOURCE)
    assert run_cli("list")[0] == 0
    assert site.imported() == []


COMMAND_MANIFEST = """
    api = "1.0"

    [commands.double]
    summary = "double a number"
    module = "acme_more.command"
"""
DOUBLE_COMMAND_SOURCE = """
    def add_arguments(parser):
        parser.add_argument("number", type=float)

    def run(arguments):
        print(arguments.number * 2)
        return 1
"""


@pytest.fixture
def install_double_command(site):
    def install(source):
        files = {"plugrad-plugin.toml": COMMAND_MANIFEST, "command.py": source}
        files = {f"acme_more/{name}": textwrap.dedent(text) for name, text in files.items()}
        site.install_pack("ops", "more", "", files=files)

    return install


def test_manifest_declares_a_command_and_help_imports_no_pack(
    run_cli, site, install_double_command
):
    install_double_command(DOUBLE_COMMAND_SOURCE)
    assert "double a number" in run_cli("--help")[1]
    assert site.imported() == []
    assert run_cli("double", "4") == (1, "8.0\n", "")
    status, _, said = run_cli("double")
    assert (status, "required: number" in said) == (2, True)
    assert "unknown argument" in run_cli("double", "4", "--more")[2]


def test_command_that_cannot_be_imported_names_its_plugin(run_cli, install_double_command):
    install_double_command("import nothing_of_this_name")
    status, _, said = run_cli("double")
    assert status == 2
    assert "(acme-more 1.2) cannot run 'double': ModuleNotFoundError" in said


def test_plugin_that_cannot_be_loaded_leaves_the_help_alone(run_cli, site):
    site.install_pack("plugins", "broken", "raise SystemExit(9)")
    with pytest.warns(RuntimeWarning, match="broken"):
        assert run_cli("--help")[0] == 0
