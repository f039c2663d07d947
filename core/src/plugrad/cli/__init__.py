"""The command ``plugrad``: each of its commands is a module of `plugrad.cli.commands`.

Nothing here imports NumPy or a backend: the code of plugins runs in separate processes.
"""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from plugrad.cli import layout, package_import, words
from plugrad.errors import PluginUnavailable, PlugradError, describe_exception

if TYPE_CHECKING:
    from collections.abc import Sequence

EXIT_SUCCESS: Final = 0
EXIT_FINDING: Final = 1
"""The exit status of a command that has found a problem."""
EXIT_MISUSE: Final = 2
"""The exit status for wrong arguments."""
EXIT_INTERRUPTED: Final = 130
"""The exit status after Ctrl-C."""

COMMAND_SUMMARIES: Final = {
    "list": "list the installed plugins, and mark the active backend",
    "info": "show everything about one plugin, and load it to test it",
    "doctor": "check every plugin, and suggest a remedy for each problem",
    "devices": "list the devices of each backend",
    "kernels": "show which backend implements which kernel",
    "config": "show the settings, and which file or variable decides each",
    "conformance": "run the conformance kit on a backend",
    "new-backend": "create a project with a backend",
    "new-ops": "create a project with an op, its kernels and its gradient",
}
"""By command, what it does in a line."""
EXIT_STATUS_HELP: Final = """\
exit status:
  0    success
  1    a finding: a plugin or a test fails,
       or no backend is active
  2    the command cannot do what was asked: wrong argument,
       unknown name, malformed setting, missing package
  130  interrupted
"""
"""The text about exit statuses at the end of the help."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status: 0 for success, 1 for a finding, 2 for misuse."""
    argv = sys.argv[1:] if argv is None else list(argv)
    layout.forget_headings()
    try:
        arguments, unknown = _make_parser(argv).parse_known_args(argv)
        if unknown:
            words.fail_for_unknown_argument(arguments.command_parser, unknown[0])
        status = arguments.run(arguments)
        sys.stdout.flush()
    except PlugradError as error:
        print(f"plugrad: {error}", file=sys.stderr)
        return EXIT_MISUSE
    except BrokenPipeError:  # the reader has stopped, as in `plugrad kernels | head`
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_SUCCESS
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    return EXIT_SUCCESS if status is None else status


def _make_parser(argv: Sequence[str]) -> ArgumentParser:
    """Return the parser; of the commands, only the one in `argv` has its arguments."""
    command = next((word for word in argv if not word.startswith("-")), "")
    parser = ArgumentParser(
        "plugrad",
        description="Inspect and test plugrad's backends and other plugins.",
        epilog=f"`plugrad COMMAND --help` lists its arguments.\n\n{EXIT_STATUS_HELP}",
        formatter_class=_HelpFormatter,
    )
    parser.add_argument("--version", action="store_true", help="show the version and exit")

    def overview(arguments: Namespace) -> None:
        if arguments.version:
            _print_version()
        else:
            parser.print_help()

    parser.set_defaults(run=overview, command_parser=parser)
    subcommands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for name, summary in COMMAND_SUMMARIES.items():
        sub = _add_command(subcommands, name, summary)
        if name == command:
            _add_command_arguments(
                sub, import_module(f"plugrad.cli.commands.{name.replace('-', '_')}")
            )
    if command not in COMMAND_SUMMARIES and "--version" not in argv:
        _add_manifest_commands(subcommands, command)
        if command not in subcommands.choices:
            _add_hook_commands(subcommands)
        if command and command not in subcommands.choices:
            words.raise_unknown_command(command, subcommands.choices)
    return parser


def _add_command(subcommands: Any, command_name: str, summary: str) -> ArgumentParser:
    """Add a command whose arguments are not known yet, and return its parser."""
    return subcommands.add_parser(
        command_name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.",
        epilog=EXIT_STATUS_HELP,
        formatter_class=_HelpFormatter,
    )


def _add_command_arguments(parser: ArgumentParser, module: Any) -> None:
    """Add the arguments of a command, and the function that runs it, both of which its module has."""
    parser.set_defaults(run=module.run, command_parser=parser)
    module.add_arguments(parser)


def _add_manifest_commands(subcommands: Any, command: str) -> None:
    """Add the commands that manifests declare; only the module of the one named `command` is imported.

    Raises:
        PluginUnavailable: the module of `command` cannot be imported.
    """
    from plugrad.discovery.listing import plugins

    for plugin in plugins("ops"):
        if plugin.status not in ("available", "active"):
            continue
        for name, (summary, module) in plugin.manifest.commands.items():
            if name in subcommands.choices:
                continue
            sub = _add_command(subcommands, name, summary)
            if name == command:
                package_import.import_plugrad_package()
                try:
                    _add_command_arguments(sub, import_module(module))
                except ImportError as error:
                    raise PluginUnavailable(
                        f"{plugin} cannot run {name!r}: {describe_exception(error)}. Install "
                        f"{plugin.distribution} again, with what it requires."
                    ) from error


def _add_hook_commands(subcommands: object) -> None:
    """Add the commands of plugins' hooks; this runs the plugins' code in this process."""
    from plugrad.discovery.listing import plugins

    found = [plugin for plugin in plugins("hooks") if plugin.status != "blocked"]
    if any(plugin.manifest.may_have_hook("plugrad_cli") for plugin in found):
        package_import.import_plugrad_package()
        from plugrad.discovery import hooks

        hooks.call_hooks("plugrad_cli", subcommands=subcommands)


def _print_version() -> None:
    """Print the version of plugrad."""
    from plugrad.cli.environment import installed_version  # its imports are slow

    layout.print_line(f"plugrad {installed_version('plugrad-core')}")


class _HelpFormatter(RawDescriptionHelpFormatter):
    """A help formatter with lines as wide as all other output."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=28, width=layout.output_width())
        # argparse does not take into account that commands are indented once more than the rest.
        self._action_max_length = max(map(len, COMMAND_SUMMARIES)) + 4

    def _split_lines(self, text: str, width: int) -> list[str]:
        """Return the lines of a help text, wrapped to a width."""
        return layout.wrap_text(text, width)  # argparse splits names at hyphens
