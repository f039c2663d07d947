"""Run the command ``plugrad`` in a process of its own, as people do."""

import os
import subprocess
import sys

COMMAND_PROGRAM = "import sys; from _plugrad_command import main; sys.exit(main())"
INTERRUPTIBLE_COMMAND_PROGRAM = (
    f"import signal; signal.signal(signal.SIGINT, signal.default_int_handler); {COMMAND_PROGRAM}"
)
"""The door for a test that interrupts: whoever started the tests in the background has SIGINT ignored."""


def clean_environment(folder="", **variables):
    """Return the environment without plugrad's settings, with the plugins of one folder."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("PLUGRAD_")}
    plain = {"PYTHONPATH": str(folder), "COLUMNS": "100", "NO_COLOR": "1"}
    # Else Hypothesis would be imported at the end of each run of the kit, and anyio look at each fixture.
    plain["PYTEST_ADDOPTS"] = "-p no:hypothesispytest -p no:anyio"
    return inherited | plain | variables


def run_command_in_new_process(*arguments, program=COMMAND_PROGRAM, folder="", **variables):
    """Run a plugrad command in a new process, as its script does."""
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env=clean_environment(folder, **variables),
        cwd=folder or None,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
