"""The command ``plugrad distributed``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugrad_distributed.check import check_world

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command ``check`` and its arguments."""
    check = parser.add_subparsers(title="commands", metavar="COMMAND", required=True).add_parser(
        "check",
        help="find ranks and devices, and measure exchanges",
        description=(
            "Join the world that this process was started in, show ranks and devices, and measure exchanges. "
            "Alone, show which collectives can start; start it as the program will be, such as "
            "`mpiexec -n 4 plugrad distributed check`, to check many ranks."
        ),
        epilog="exit status: 0 for success, 1 if ranks differ where they must not, 2 if no world can be joined",
    )
    check.add_argument("--collective", metavar="NAME", help="what connects the ranks")
    check.add_argument("--megabytes", type=float, default=10.0, help="of the largest sum (10)")
    check.add_argument(
        "--timeout", type=float, default=60.0, help="seconds to wait for a rank (60)"
    )
    check.add_argument("--json", action="store_true", help="print JSON")
    check.set_defaults(command_parser=check)


def run(arguments: Namespace) -> int:
    """Check the world, and return the exit status."""
    return check_world(
        arguments.collective,
        megabytes=arguments.megabytes,
        timeout=arguments.timeout,
        as_json=arguments.json,
    )
