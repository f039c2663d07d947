"""What kernels cost: how often each is called, how long it takes, and how many bytes it reads and writes."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from math import prod
from threading import get_ident
from typing import TYPE_CHECKING, Any, NamedTuple

from plugrad.contract.kernel import KERNELS
from plugrad.engine.implementations import unwatch, watch
from plugrad.engine.watching import Call, Watcher
from plugrad.errors import ArgumentError
from plugrad.types.arguments import flag
from plugrad.types.dtype import as_dtype

if TYPE_CHECKING:
    from collections.abc import Sequence
    from os import PathLike
    from types import TracebackType

    from plugrad.types.specs import Shape

Shapes = tuple["Shape", ...]


class KernelProfile(NamedTuple):
    """What the calls of one kernel on one backend cost together."""

    kernel: str
    backend: str
    calls: int
    seconds: float
    bytes: int
    """Those of the inputs and of the results."""
    shapes: dict[Shapes, int]
    """How many calls had inputs of these shapes; absent inputs are left out."""


class _Event(NamedTuple):
    kernel: str
    backend: str
    start: int
    end: int
    thread: int
    bytes: int
    shapes: Shapes
    dtypes: tuple[str, ...]


class profile:  # noqa: N801 - a context manager: it reads as a verb
    """Measure the kernels that run in a block, in all threads.

    >>> import plugrad
    >>> x = plugrad.ones((100, 100))
    >>> with plugrad.profile() as measured:
    ...     y = plugrad.sum(x @ x + x)
    >>> [(kernel.kernel, kernel.calls) for kernel in sorted(measured.kernels)]
    [('Add', 1), ('BatchMatMul', 1), ('Sum', 1)]
    >>> measured.kernels[0].bytes > 0
    True

    ``print(measured)`` shows a table, and ``measured.save("trace.json")`` writes a trace of all calls.
    Outside of the block, nothing is measured and nothing is slower.

    Args:
        synchronize: whether to wait for the device after each kernel. If not, the time of a kernel on a
            device that computes later is the time that it takes to start it.

    Raises:
        ArgumentError: `synchronize` is not a bool.
    """

    def __init__(self, *, synchronize: bool = True) -> None:
        """Prepare a measurement; it begins when the block is entered."""
        # A bound method is a new object each time, and a watcher ends by its identity.
        self._watcher = Watcher(self._note, flag(synchronize, "profile", "synchronize"))
        self._events: list[_Event] = []
        self._is_open = False

    def __enter__(self) -> profile:
        if self._is_open:
            raise ArgumentError("profile: the block is open already; use another profile() inside")
        self._is_open = True
        self._events.clear()
        watch(self._watcher)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_open = False
        unwatch(self._watcher)

    def _note(self, call: Call) -> None:
        has_inputs = call.kernel_name not in KERNELS or KERNELS[call.kernel_name].inputs
        inputs = [x for x in call.arrays if x is not None] if has_inputs else []
        is_list = isinstance(call.result, list | tuple)
        outputs: Sequence[Any] = call.result if is_list else [call.result]
        self._events.append(
            _Event(
                call.kernel_name,
                call.backend.label,
                call.start,
                call.end,
                get_ident(),
                sum(_bytes_of(x) for x in chain(inputs, outputs)),
                tuple(tuple(x.shape) for x in inputs),
                tuple(str(as_dtype(x.dtype)) for x in inputs),
            )
        )

    @property
    def kernels(self) -> list[KernelProfile]:
        """The kernels, the one that took most of the time first."""
        groups: dict[tuple[str, str], list[_Event]] = {}
        for event in self._events:
            groups.setdefault((event.kernel, event.backend), []).append(event)
        found = [
            KernelProfile(
                *key,
                len(events),
                sum(event.end - event.start for event in events) / 1e9,
                sum(event.bytes for event in events),
                dict(Counter(event.shapes for event in events).most_common()),
            )
            for key, events in groups.items()
        ]
        return sorted(found, key=lambda kernel: kernel.seconds, reverse=True)

    def __str__(self) -> str:
        """Return a table with a line for each kernel: calls, milliseconds, share of the time, MB and shapes."""
        rows = [("kernel", "backend", "calls", "ms", "%", "MB", "shapes of most calls")]
        kernels = self.kernels
        total = sum(kernel.seconds for kernel in kernels)
        for kernel in kernels:
            shapes = next(iter(kernel.shapes))
            others = f" and {len(kernel.shapes) - 1} more" if len(kernel.shapes) > 1 else ""
            rows.append(
                (
                    kernel.kernel,
                    kernel.backend,
                    f"{kernel.calls:,}",
                    f"{kernel.seconds * 1e3:,.3f}",
                    f"{100 * kernel.seconds / total if total else 0:.1f}",
                    f"{kernel.bytes / 1e6:,.3f}",
                    " ".join("×".join(map(str, s)) or "()" for s in shapes) + others,
                )
            )
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join(
            "  ".join(
                cell.ljust(width) if i in (0, 1, 6) else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        )

    def save(self, path: str | PathLike[str]) -> None:
        """Write all calls as a trace in the JSON form that Perfetto (ui.perfetto.dev) and Chrome open.

        Each thread is a row, and each call an event with the shapes and the dtypes of its inputs. See
        "Trace Event Format" of the Chromium project.
        """
        first = min((event.start for event in self._events), default=0)
        threads = {each: i for i, each in enumerate(dict.fromkeys(e.thread for e in self._events))}
        events = [
            {
                "name": event.kernel,
                "cat": event.backend,
                "ph": "X",  # a complete event, whose times are in microseconds
                "ts": (event.start - first) / 1e3,
                "dur": (event.end - event.start) / 1e3,
                "pid": 0,
                "tid": threads[event.thread],
                "args": {
                    "backend": event.backend,
                    "bytes": event.bytes,
                    "inputs": [
                        f"{dtype}{list(shape)}"
                        for dtype, shape in zip(event.dtypes, event.shapes, strict=True)
                    ],
                },
            }
            for event in self._events
        ]
        import json  # it makes `import plugrad` slower

        with open(path, "w", encoding="utf-8") as file:
            json.dump({"traceEvents": events, "displayTimeUnit": "ns"}, file)


def _bytes_of(x: Any) -> int:
    return prod(x.shape) * as_dtype(x.dtype).itemsize
