"""``plugrad distributed check``: who the ranks are, what they compute on, and how fast they exchange."""

from __future__ import annotations

import json
import os
import platform
import time
from typing import TYPE_CHECKING, Any, Final

import numpy as np

import plugrad
from plugrad.extend import ArgumentValueError
from plugrad_distributed.discovery import describe_collectives
from plugrad_distributed.startup import close, init

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plugrad_distributed.world import World

LATENCY_TEST_BYTES: Final = 4096
MAX_TEST_MEGABYTES: Final = 10_000
"""The most megabytes that the option ``--megabytes`` accepts."""
MEASUREMENT_REPEATS: Final = 5
"""How often each exchange is measured; the least time counts."""


def check_world(
    collective: str | None = None,
    *,
    megabytes: float = 10.0,
    timeout: float = 60.0,
    as_json: bool = False,
) -> int:
    """Join this process's world, print a report on rank 0, and return the exit status.

    Raises:
        ArgumentValueError: `megabytes` is not positive, or too much.
        CollectiveNotFound, CollectiveUnavailable, CollectiveTimeout, CollectiveFailed: the ranks cannot exchange.
    """
    if not 0 < megabytes <= MAX_TEST_MEGABYTES:
        raise ArgumentValueError(
            f"distributed check: --megabytes={megabytes:g} must be positive, and at most {MAX_TEST_MEGABYTES}"
        )
    world = init(collective, timeout=timeout)
    found = _gather_findings(world, max(int(megabytes * 1e6) // 4 * 4, 4))
    if world.rank == 0:
        print(json.dumps(found, indent=2) if as_json else _format_report(found), flush=True)
    close()
    return int(bool(found["problems"]))


def _gather_findings(world: World, nbytes: int) -> dict[str, Any]:
    """Return the findings of all ranks; every rank calls this."""
    own = json.dumps(_describe_rank(world, nbytes))
    ranks = [json.loads(text) for text in world.submit(world.gather_texts, own).result()]
    exchanges = [
        world.submit(_measure_all_reduce, world, size).result()
        for size in sorted({LATENCY_TEST_BYTES, nbytes})
    ]
    return {
        "collective": world.collective.name,
        "reason": world.reason,
        "collectives": describe_collectives(),
        "ranks": ranks,
        "exchanges": exchanges,
        "problems": _find_problems(ranks, exchanges),
        "is_uniform": world.is_uniform,
    }


def _describe_rank(world: World, nbytes: int) -> dict[str, Any]:
    selection = plugrad.which()
    return {
        "rank": world.rank,
        "host": platform.node(),
        "process": os.getpid(),
        "device": selection.device,
        "description": selection.description,
        "copies": _measure_copies(nbytes),
        "plugrad": plugrad.__version__,
        "python": platform.python_version(),
    }


def _measure_copies(nbytes: int) -> float:
    """Return the seconds to copy bytes from the device to the host and back, as each step does with gradients."""
    values = np.ones(nbytes // 4, np.float32)
    least = float("inf")
    for _ in range(MEASUREMENT_REPEATS):
        on_device = plugrad.asarray(values) + 1
        on_device.backend.synchronize()
        start = time.perf_counter()
        plugrad.asarray(on_device.numpy())
        on_device.backend.synchronize()
        least = min(least, time.perf_counter() - start)
    return least


def _measure_all_reduce(world: World, nbytes: int) -> dict[str, Any]:
    """Return the seconds of an all-reduce, and whether its result is right."""
    expected = world.size * (world.size + 1) // 2
    least, is_right = float("inf"), True
    for _ in range(MEASUREMENT_REPEATS):
        array = np.full(nbytes // 4, world.rank + 1, np.float32)
        world.collective.barrier(timeout=world.timeout)
        start = time.perf_counter()
        world.collective.all_reduce(array, timeout=world.timeout)
        least = min(least, time.perf_counter() - start)
        is_right = is_right and bool((array == expected).all())
    sent = 2 * (world.size - 1) / world.size * nbytes
    slowest = world.collective.all_gather(np.array([least, is_right]), timeout=world.timeout)
    seconds = float(slowest[:, 0].max())
    return {
        "bytes": nbytes,
        "seconds": seconds,
        "bytes_a_second": sent / seconds,
        "is_right": bool(slowest[:, 1].all()),
    }


def _find_problems(
    rank_findings: Sequence[dict[str, Any]], exchange_findings: Sequence[dict[str, Any]]
) -> list[str]:
    problems = [
        f"the sum of {exchange['bytes']} bytes is wrong on a rank; test the collective with "
        "plugrad_distributed.testing.check_collective"
        for exchange in exchange_findings
        if not exchange["is_right"]
    ]
    for what in ("plugrad", "python"):
        for other in rank_findings:
            if other[what] != rank_findings[0][what]:
                problems.append(
                    f"rank {other['rank']} has {what} {other[what]} where rank 0 has "
                    f"{rank_findings[0][what]}; install the same"
                )
                break
    return problems


# --- words ----------------------------------------------------------------------------------------


def _format_report(findings: dict[str, Any]) -> str:
    ranks = findings["ranks"]
    largest = _format_bytes(findings["exchanges"][-1]["bytes"])
    lines = [
        f"{len(ranks)} {'rank' if len(ranks) == 1 else 'ranks'}, connected by {findings['collective']}; decided by "
        f"{findings['reason']}",
        "",
        *_format_columns(
            ["RANK", "HOST", "PROCESS", "DEVICE", f"{largest} TO THE HOST AND BACK", ""],
            [
                [
                    str(r["rank"]),
                    r["host"],
                    str(r["process"]),
                    r["device"],
                    f"{1e3 * r['copies']:.2f} ms",
                    r["description"],
                ]
                for r in ranks
            ],
        ),
        "",
    ]
    if len(ranks) == 1:
        lines += [
            *_format_columns(
                ["COLLECTIVE", ""], [list(item) for item in findings["collectives"].items()]
            ),
            "",
            "This process is alone. Start it as the program will be, as in `mpiexec -n 4 plugrad distributed check`.",
        ]
    else:
        lines += _format_columns(
            ["SUM OF", "TIME", "SENT BY A RANK"],
            [
                [
                    _format_bytes(e["bytes"]),
                    f"{1e3 * e['seconds']:.3f} ms",
                    f"{_format_bytes(e['bytes_a_second'])}/s",
                ]
                for e in findings["exchanges"]
            ],
        )
    if not findings["is_uniform"]:
        lines += [
            "",
            "The devices are of different kinds: each element is updated by one rank and sent to the others.",
        ]
    return "\n".join([*lines, *(f"problem: {text}" for text in findings["problems"])])


def _format_bytes(nbytes: float) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if nbytes >= size:
            return f"{nbytes / size:.3g} {unit}"
    return f"{nbytes:.0f} bytes"


def _format_columns(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return lines with aligned columns."""
    widths = [max(len(row[i]) for row in (headings, *rows)) for i in range(len(headings))]
    return [
        "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (headings, *rows)
    ]
