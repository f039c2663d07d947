"""Profiles of kernels: how often each is called, how long it takes, and how many bytes it reads and writes."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from math import prod
from threading import get_ident
from typing import TYPE_CHECKING, Any, NamedTuple

from plugrad.contract.kernel import get_contract
from plugrad.discovery.loading import read_memory
from plugrad.engine.implementations import add_watcher, remove_watcher
from plugrad.engine.watching import Call, Event, Watcher
from plugrad.errors import ArgumentError
from plugrad.types.arguments import check_flag, check_path_suffix
from plugrad.types.dtype import as_dtype

if TYPE_CHECKING:
    from collections.abc import Sequence
    from os import PathLike
    from types import TracebackType

    from plugrad.tensor.backend import Backend
    from plugrad.types.specs import Shape

InputShapes = tuple["Shape", ...]
"""The shapes of a call's inputs."""


class KernelProfile(NamedTuple):
    """The total cost of the calls of one kernel on one backend."""

    kernel: str
    """The name of the kernel."""
    backend: str
    """The backend and device, such as ``"webgpu:0"``."""
    calls: int
    """The number of calls."""
    seconds: float
    """The duration of all calls together."""
    bytes: int
    """The bytes of the inputs and of the results, in all calls together."""
    shapes: dict[InputShapes, int]
    """How many calls had inputs of these shapes; absent inputs are left out."""
    steps: tuple[str, ...] = ()
    """The kernels that a fused step of a compiled graph computes; see `fused` of `profile`."""


class _RecordedCall(NamedTuple):
    """A call of a kernel, with its times in nanoseconds."""

    kernel: str
    """The name of the kernel."""
    backend: str
    """The backend and device, such as ``"webgpu:0"``."""
    start: int
    """When the call began, in nanoseconds."""
    end: int
    """When the call ended, in nanoseconds."""
    thread: int
    """The identifier of the thread."""
    bytes: int
    """The bytes of the inputs and of the results."""
    shapes: InputShapes
    """The shapes of the inputs."""
    dtypes: tuple[str, ...]
    """The names of the inputs' dtypes."""
    memory: int | None
    """The bytes in use on the device after the call, if they were measured."""
    steps: tuple[str, ...] = ()
    """The kernels of a fused step; empty for a call of one kernel."""

    @property
    def inputs(self) -> list[str]:
        """The dtypes and shapes of the inputs."""
        return [f"{d}{list(shape)}" for d, shape in zip(self.dtypes, self.shapes, strict=True)]


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

    ``print(measured)`` shows a table. ``measured.save("profile.html")`` writes a page with a timeline, the
    memory over time and a bar for each kernel, and ``measured.save("trace.json")`` a trace of all calls.
    Outside of the block, nothing is measured and nothing is slower.

    Args:
        synchronize: whether to wait for the device after each kernel. If not, the time of a kernel on a
            device that computes later is the time that it takes to start it, and memory is not measured.
        fused: whether functions under `jit` run compiled, so that steps which run as one are one row, with the names
            of their kernels in `steps`. If not, their kernels are called one by one.

    Raises:
        ArgumentError: `synchronize` or `fused` is not a bool.
    """

    def __init__(self, *, synchronize: bool = True, fused: bool = False) -> None:
        """Prepare a measurement; it begins when the block is entered."""
        # A bound method is a new object each time, and a watcher ends by its identity.
        waits = check_flag(synchronize, "profile", "synchronize")
        sees_fused = check_flag(fused, "profile", "fused")
        self._watcher = Watcher(self._record_call, waits, self._record_event, sees_fused)
        self._events: list[_RecordedCall] = []
        self._is_open = False

    def __enter__(self) -> profile:
        if self._is_open:
            raise ArgumentError("profile: the block is open already; use another profile() inside")
        self._is_open = True
        self._events.clear()
        add_watcher(self._watcher)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_open = False
        remove_watcher(self._watcher)

    def _record_call(self, call: Call) -> None:
        contract = get_contract(call.kernel_name)
        has_inputs = contract is None or contract.inputs
        inputs = [x for x in call.arrays if x is not None] if has_inputs else []
        is_list = isinstance(call.result, list | tuple)
        outputs: Sequence[Any] = call.result if is_list else [call.result]
        self._events.append(
            _RecordedCall(
                call.kernel_name,
                call.backend.label,
                call.start,
                call.end,
                get_ident(),
                sum(_count_bytes(x) for x in chain(inputs, outputs)),
                tuple(tuple(x.shape) for x in inputs),
                tuple(str(as_dtype(x.dtype)) for x in inputs),
                self._memory_in_use(call.backend),
            )
        )

    def _record_event(self, event: Event) -> None:
        name, place, nbytes, start, end, steps = event
        self._events.append(
            _RecordedCall(name, place, start, end, get_ident(), nbytes, (), (), None, steps)
        )

    def _memory_in_use(self, backend: Backend) -> int | None:
        """Return the bytes in use on a backend if memory is measured, or None."""
        # To ask a device that computes later makes it compute.
        used = read_memory(backend) if self._watcher.synchronizes else None
        return None if used is None else used.bytes

    @property
    def kernels(self) -> list[KernelProfile]:
        """The costs of the kernels, beginning with the one that took most of the time."""
        groups: dict[tuple[str, str, tuple[str, ...]], list[_RecordedCall]] = {}
        for event in self._events:
            groups.setdefault((event.kernel, event.backend, event.steps), []).append(event)
        found = [
            KernelProfile(
                kernel,
                backend,
                len(events),
                sum(event.end - event.start for event in events) / 1e9,
                sum(event.bytes for event in events),
                dict(Counter(event.shapes for event in events).most_common()),
                steps,
            )
            for (kernel, backend, steps), events in groups.items()
        ]
        return sorted(found, key=lambda kernel: kernel.seconds, reverse=True)

    def __str__(self) -> str:
        """Return a table with a line for each kernel: calls, milliseconds, share of the time, MB and shapes."""
        rows = [("kernel", "backend", "calls", "ms", "%", "MB", "shapes of most calls")]
        kernels = self.kernels
        total = sum(kernel.seconds for kernel in kernels)
        for kernel in kernels:
            rows.append(
                (
                    kernel.kernel,
                    kernel.backend,
                    f"{kernel.calls:,}",
                    f"{kernel.seconds * 1e3:,.3f}",
                    f"{100 * kernel.seconds / total if total else 0:.1f}",
                    f"{kernel.bytes / 1e6:,.3f}",
                    _most_frequent_shapes(kernel),
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
        """Write all calls to a file: a page to look at, or a trace.

        A name that ends in ``.html`` gives one page, which opens without a network: a timeline, the memory
        over time, and a bar for each kernel. One that ends in ``.json`` gives a trace in the JSON form that
        Perfetto (ui.perfetto.dev) and Chrome open: each thread is a row, and each call an event with the
        shapes and the dtypes of its inputs. See "Trace Event Format" of the Chromium project.

        Raises:
            ArgumentError: the path is none.
            ArgumentValueError: the name ends in something else.
        """
        path = check_path_suffix((".html", ".json"), path, "save", "path")
        text = self._format_page() if path.lower().endswith(".html") else self._format_trace()
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def _format_page(self) -> str:
        """Return the HTML text of a page with the calls."""
        # It makes `import plugrad` slower.
        from plugrad.pictures.timeline import format_profile_page

        first = min((event.start for event in self._events), default=0)
        kernels = self.kernels
        numbers = {(kernel.kernel, kernel.backend): i for i, kernel in enumerate(kernels)}
        rows: dict[str, int] = {}
        inputs: dict[str, int] = {}
        threads = self._number_threads()
        events = [
            (
                numbers[event.kernel, event.backend],
                rows.setdefault(f"{event.backend} thread {threads[event.thread]}", len(rows)),
                (event.start - first) / 1e3,
                (event.end - event.start) / 1e3,
                event.bytes,
                event.memory,
                inputs.setdefault(" ".join(event.inputs), len(inputs)),
            )
            for event in self._events
        ]
        totals = [
            {
                "name": kernel.kernel,
                "backend": kernel.backend,
                "calls": kernel.calls,
                "ms": kernel.seconds * 1e3,
                "bytes": kernel.bytes,
                "shapes": _most_frequent_shapes(kernel),
            }
            for kernel in kernels
        ]
        return format_profile_page(
            {"events": events, "kernels": totals, "rows": [*rows], "inputs": [*inputs]}
        )

    def _format_trace(self) -> str:
        """Return the JSON text of a trace in the format of Chrome's trace viewer."""
        import json  # it makes `import plugrad` slower

        first = min((event.start for event in self._events), default=0)
        threads = self._number_threads()
        names = [
            {"name": "process_name", "ph": "M", "pid": 0, "tid": 0, "args": {"name": "plugrad"}},
            *(
                {
                    "name": "thread_name",
                    "ph": "M",
                    "pid": 0,
                    "tid": i,
                    "args": {"name": f"thread {i}"},
                }
                for i in threads.values()
            ),
        ]
        events = [
            {
                "name": event.kernel,
                "cat": event.backend,
                "ph": "X",  # a complete event, whose times are in microseconds
                "ts": (event.start - first) / 1e3,
                "dur": (event.end - event.start) / 1e3,
                "pid": 0,
                "tid": threads[event.thread],
                "args": {"backend": event.backend, "bytes": event.bytes, "inputs": event.inputs},
            }
            for event in self._events
        ]
        memory = [
            {
                "name": f"memory of {event.backend}",
                "ph": "C",  # a counter
                "ts": (event.end - first) / 1e3,
                "pid": 0,
                "args": {"bytes": event.memory},
            }
            for event in self._events
            if event.memory is not None
        ]
        return json.dumps({"traceEvents": [*names, *events, *memory], "displayTimeUnit": "ns"})

    def _number_threads(self) -> dict[int, int]:
        """Return a number for each thread, in the order of their first calls."""
        return {each: i for i, each in enumerate(dict.fromkeys(e.thread for e in self._events))}


def _most_frequent_shapes(kernel: KernelProfile) -> str:
    """Return the most frequent input shapes of a kernel, and the number of other shapes."""
    others = f" and {len(kernel.shapes) - 1} more" if len(kernel.shapes) > 1 else ""
    shapes = next(iter(kernel.shapes))
    return " ".join("×".join(map(str, shape)) or "()" for shape in shapes) + others


def _count_bytes(x: Any) -> int:
    """Return the number of bytes of an array."""
    return prod(x.shape) * as_dtype(x.dtype).itemsize
