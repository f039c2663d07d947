"""Measure the host's processor time for a step on webgpu, untraced and jitted, in one run.

    python benchmarks/host_time.py
    python benchmarks/host_time.py W1 digits --rounds 60

The device is idle when a turn begins, and works in other threads; a turn is three steps. The least of all turns counts.
"""

from __future__ import annotations

import argparse
import time

import jitted

import plugrad

CALLS = 3
"""The calls of one measurement."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", default=["W1", "digits", "W2", "characters"])
    parser.add_argument("--rounds", type=int, default=30)
    arguments = parser.parse_args()
    plugrad.use("webgpu")
    backend = plugrad.which().backend
    print(f"{'':12}{'untraced ms':>12}{'jit ms':>10}{'ratio':>8}")
    for name in arguments.names:
        work = jitted.WORKLOADS[name]()
        sides = {"untraced": work.function, "jit": plugrad.jit(work.function)}
        least = dict.fromkeys(sides, float("inf"))
        for _ in range(arguments.rounds):
            for side, function in sides.items():
                backend.synchronize()
                begin = time.thread_time()
                for _ in range(CALLS):
                    function(*work.args)
                least[side] = min(least[side], (time.thread_time() - begin) / CALLS * 1e3)
        untraced, traced = least.values()
        print(f"{name:12}{untraced:12.3f}{traced:10.3f}{traced / untraced:8.2f}", flush=True)


if __name__ == "__main__":
    main()
