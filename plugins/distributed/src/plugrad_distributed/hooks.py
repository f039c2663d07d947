"""What plugrad-distributed adds to the command ``plugrad``: a section of the doctor, and ``distributed check``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from plugrad.extend import hookimpl
from plugrad_distributed.check import check_world
from plugrad_distributed.discovery import describe_collectives

if TYPE_CHECKING:
    from argparse import Namespace


@hookimpl
def plugrad_doctor_section() -> tuple[str, str]:
    """Return which collectives can start."""
    found = describe_collectives()
    width = max(map(len, found))
    lines = [f"{name:{width}}  {state}" for name, state in found.items()]
    return "Collectives, for training in many processes", "\n".join(lines)


@hookimpl
def plugrad_cli(subcommands: Any) -> None:
    """Add the command."""
    parser = subcommands.add_parser(
        "distributed",
        help="check the processes that train together",
        description="Check the processes that train together.",
    )
    parser.set_defaults(run=lambda _: parser.print_help())
    check = parser.add_subparsers(title="commands", metavar="COMMAND").add_parser(
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
    check.set_defaults(run=_run_check, command_parser=check)


def _run_check(given: Namespace) -> int:
    return check_world(
        given.collective, megabytes=given.megabytes, timeout=given.timeout, as_json=given.json
    )
