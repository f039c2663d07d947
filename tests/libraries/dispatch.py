"""Count the calls of SciPy and scikit-learn that take tensors, and give what they give for NumPy's arrays.

    python tests/libraries/dispatch.py                           both, on the cpu backend
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

os.environ["SCIPY_ARRAY_API"] = "1"  # SciPy reads it when it is imported

import numpy as np

import plugrad

sys.path.insert(0, str(Path(__file__).parents[1]))

TOLERANCE = {"float64": 1e-6, "float32": 2e-3}
"""Relative to the greatest value of a result. Iterations stop earlier in float32."""

Made = Callable[[np.ndarray], Any]


def leaves(result: Any) -> Iterator[Any]:
    """Return the arrays and numbers in a result, which may be a tuple or a list."""
    if isinstance(result, tuple | list):
        for part in result:
            yield from leaves(part)
    else:
        yield result


def difference(found: Any, wanted: Any, tolerance: float) -> str:
    """Return how a result differs from another, "" if it does not."""
    found, wanted = list(leaves(found)), list(leaves(wanted))
    if len(found) != len(wanted):
        return f"{len(found)} results instead of {len(wanted)}"
    for a, b in zip(found, wanted, strict=True):
        if b is None and a is None:
            continue
        a, b = np.asarray(a), np.asarray(b)
        if a.shape != b.shape:
            return f"shape {a.shape} instead of {b.shape}"
        limit = tolerance * max(1e-30, float(np.max(np.abs(b), initial=0, where=np.isfinite(b))))
        if not np.allclose(a, b, rtol=tolerance, atol=limit, equal_nan=True):
            return f"differs by {np.nanmax(np.abs(a - b)):.3g}: {a.ravel()[:3]} instead of {b.ravel()[:3]}"
    return ""


def outcomes(library: str, only: str = "") -> Iterator[tuple[str, bool, str]]:
    """Return (name, whether it was accepted, what is wrong) for each call, on the active backend."""
    known = plugrad.which().backend.dtypes()
    real = plugrad.float64 if plugrad.complex128 in known else plugrad.float32
    kinds = {"f": real, "i": plugrad.int64 if plugrad.int64 in known else plugrad.int32}

    def tensor(values: np.ndarray) -> Any:
        return plugrad.asarray(values, dtype=kinds.get(values.dtype.kind))

    def array(values: np.ndarray) -> Any:
        return values.astype(real.name).astype(float) if values.dtype.kind == "f" else values

    calls: dict[str, Callable[[Made], Any]] = import_module(f"libraries.{library}_calls").CALLS
    for name, call in calls.items():
        if only not in name:
            continue
        wanted = call(array)
        try:
            found = call(tensor)
        except Exception as error:  # whatever it is, it is reported
            yield name, False, f"{type(error).__name__}: {' '.join(str(error).split())}"
        else:
            yield name, True, difference(found, wanted, TOLERANCE[real.name])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("libraries", nargs="*", default=["scipy", "sklearn"])
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--only", default="", help="calls with this text in their names")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    plugrad.config.set("unsupported_dtype", "silent")
    plugrad.use(given.backend)
    for library in given.libraries:
        if library == "sklearn":
            import_module("sklearn").set_config(array_api_dispatch=True)
        rows = list(outcomes(library, given.only))
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
