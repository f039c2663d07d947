"""Counts the calls and milliseconds of each kernel, and prints them when the program ends."""

import atexit
import sys
from collections import Counter

from plugrad.extend import Backend, hookimpl

calls: Counter[tuple[str, str]] = Counter()
totals: Counter[tuple[str, str]] = Counter()


@hookimpl
def plugrad_kernel_finished(kernel_name: str, backend: Backend, milliseconds: float) -> None:
    """Add a call to the totals of its kernel and backend."""
    calls[kernel_name, backend.name] += 1
    totals[kernel_name, backend.name] += milliseconds


@atexit.register
def report() -> None:
    """Print the kernels, the one that took the most time first."""
    for (kernel, backend), total in totals.most_common():
        line = f"{kernel} on {backend}: {calls[kernel, backend]} calls, {total:.3f} ms"
        print(line, file=sys.stderr)
