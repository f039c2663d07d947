"""Count the calls of libraries that take tensors, and give what they give for NumPy's arrays.

    python tests/libraries/dispatch.py                           SciPy and scikit-learn, on the cpu backend
    python tests/libraries/dispatch.py consumers                 further libraries, those that are installed
    python tests/libraries/dispatch.py sklearn --backend webgpu
    python tests/libraries/dispatch.py scipy --only stats        calls with this in their names

A call is *accepted* if it returns, and *right* if the values are also those that it returns for NumPy's
arrays. Every other call is named, with the reason; WRONG marks values that no error announces. Data are
float64 where the backend has complex128, which Fourier transforms of float64 are, else float32; whole
numbers are int64 where the backend has it.
"""

import argparse
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import plugrad

sys.path.insert(0, str(Path(__file__).parents[1]))

from libraries.comparing import TOLERANCE, Constructors, describe_difference, make_constructors


def run_calls(library: str, only: str = "") -> Iterator[tuple[str, bool, str]]:
    """Return (name, whether the call accepts tensors, description of the problem) for each call."""
    tensor, array, real = make_constructors()
    calls: dict[str, Callable[[Constructors], Any]] = import_module(
        f"libraries.{library}_calls"
    ).CALLS
    for name, call in calls.items():
        if only not in name:
            continue
        try:
            wanted = call(array)
        except ModuleNotFoundError as error:
            print(f"{name:40} left out: {error.name} is not installed")
            continue
        try:
            found = call(tensor)
        except Exception as error:  # whatever it is, it is reported
            yield name, False, f"{type(error).__name__}: {' '.join(str(error).split())}"
        else:
            yield name, True, describe_difference(found, wanted, TOLERANCE[real.name])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("libraries", nargs="*", default=["scipy", "sklearn"])
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--only", default="", help="calls with this text in their names")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    plugrad.config.set("unsupported_dtype", "always")
    plugrad.config.set("writable_arrays", True)
    plugrad.use(given.backend)
    if "consumers" not in given.libraries:
        os.environ["SCIPY_ARRAY_API"] = "1"  # SciPy reads it when it is imported
    for library in given.libraries:
        if library == "sklearn":
            import_module("sklearn").set_config(array_api_dispatch=True)
        rows = list(run_calls(library, given.only))
        for name, is_accepted, reason in rows:
            if reason:
                print(f"{name:40} {'WRONG: ' if is_accepted else ''}{reason[:200]}")
        count = len(rows)
        accepted = sum(is_accepted for _, is_accepted, _ in rows)
        right = sum(not reason for *_, reason in rows)
        print(
            f"{library} on {given.backend}: {count} calls, {accepted} accepted ({accepted / count:.1%}), "
            f"{right} right ({right / count:.1%})"
        )


if __name__ == "__main__":
    main()
