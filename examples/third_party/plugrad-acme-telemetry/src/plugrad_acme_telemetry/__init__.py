"""Counts the calls and milliseconds of each kernel, and prints them when the program ends."""

import atexit
import sys
from collections import Counter

from plugrad.extend import Backend, hookimpl

call_counts: Counter[tuple[str, str]] = Counter()
total_milliseconds: Counter[tuple[str, str]] = Counter()


@hookimpl
def plugrad_kernel_finished(kernel_name: str, backend: Backend, milliseconds: float) -> None:
    """Add a call to the totals of its kernel and backend."""
    call_counts[kernel_name, backend.name] += 1
    total_milliseconds[kernel_name, backend.name] += milliseconds


@atexit.register
def report() -> None:
    """Print the kernels, the one that took the most time first."""
    for (kernel, backend), total in total_milliseconds.most_common():
        line = f"{kernel} on {backend}: {call_counts[kernel, backend]} calls, {total:.3f} ms"
        print(line, file=sys.stderr)
