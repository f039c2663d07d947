"""Time `plugrad.save` and `load` of 1 GB against the safetensors library's own functions for NumPy's arrays.

    python benchmarks/saving.py /dev/shm /tmp

Each folder is measured by itself: the first is memory, and so shows the copies; the second is a disk.
All take turns, each with a file of its own, which a save replaces. Nothing that an earlier turn wrote
waits for the disk when a turn begins, and files are read from the cache of the system.

`plugrad.save` waits until its file is on the disk, which the library does not do, so there is a line
for the library's save and a wait as well: ratios are those of the medians, to the library alone and to
the library with the wait.
"""

# The types of safetensors leave out those of paths.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import argparse
import gc
import os
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import safetensors.numpy

import plugrad

if TYPE_CHECKING:
    from collections.abc import Callable

TENSOR_COUNT, ELEMENT_COUNT = 100, 2_500_000
"""The tensors in a file, and the elements of each."""


def time_call(function: Callable[[], Any], clock: Callable[[], float]) -> float:
    """Return the seconds of a call, without the time in which its result is released."""
    gc.collect()
    os.sync()
    start = clock()
    result = function()
    spent = clock() - start
    del result
    return spent


def wait_for_disk(path: Path) -> None:
    """Wait as `plugrad.save` does: for the file, and for the list of the files in its folder."""
    for name in (path, path.parent):
        descriptor = os.open(name, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)


def make_calls(
    folder: Path, backends: list[str]
) -> tuple[dict[str, Callable[[], Any]], dict[str, Callable[[], Any]], list[Path]]:
    """Return by name the functions that save and those that load, and the paths of the files."""
    rng = np.random.default_rng(0)
    arrays = {f"w{i}": rng.random(ELEMENT_COUNT, np.float32) for i in range(TENSOR_COUNT)}
    files = {name: folder / f"{name}.safetensors" for name in ["library", "waits", *backends]}

    def save_and_wait() -> None:
        safetensors.numpy.save_file(arrays, files["waits"])
        wait_for_disk(files["waits"])

    saves: dict[str, Callable[[], Any]] = {
        "library": lambda: safetensors.numpy.save_file(arrays, files["library"]),
        "library, waits": save_and_wait,
    }
    loads: dict[str, Callable[[], Any]] = {
        "library": lambda: safetensors.numpy.load_file(files["library"])
    }
    for name in backends:
        with plugrad.use(name):
            tensors = {key: plugrad.asarray(x) for key, x in arrays.items()}
        saves[name] = lambda name=name, tensors=tensors: plugrad.save(files[name], tensors)
        loads[name] = lambda name=name: load_onto_backend(files[name], name)
    return saves, loads, list(files.values())


def load_onto_backend(path: Path, backend: str) -> Any:
    """Load a file, and wait until its tensors are on a backend."""
    tree = plugrad.load(path, device=backend)
    plugrad.synchronize(backend)
    return tree


def print_times(
    title: str,
    functions: dict[str, Callable[[], Any]],
    rounds: int,
    clock: Callable[[], float],
) -> None:
    """Measure functions in turn, beginning with another one in each round, and print their times."""
    spent: dict[str, list[float]] = {name: [] for name in functions}
    names = list(functions)
    for name in names:
        functions[name]()  # files to replace, and memory to use again
    for turn in range(rounds):
        for i in range(len(names)):
            name = names[(turn + i) % len(names)]
            spent[name].append(time_call(functions[name], clock))
    medians = {name: statistics.median(times) for name, times in spent.items()}
    references = [name for name in names if name.startswith("library")]
    print(f"{title:20}{'least':>8}{'median':>8}" + "".join(f"  ÷ {name}" for name in references))
    for name, times in spent.items():
        ratios = (f"{medians[name] / medians[r]:{len(r) + 4}.2f}" for r in references)
        print(f"  {name:18}{min(times):8.3f}{medians[name]:8.3f}" + "".join(ratios), flush=True)


def main() -> None:
    """Print a table for each folder."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", nargs="*", type=Path, default=[Path("/tmp")])
    parser.add_argument("--backends", default="cpu,wasm,webgpu")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--busy", action="store_true", help="count processor time of all threads")
    arguments = parser.parse_args()
    clock = time.process_time if arguments.busy else time.perf_counter
    for folder in arguments.folders:
        saves, loads, files = make_calls(folder, arguments.backends.split(","))
        try:
            print(f"{folder}, seconds for {TENSOR_COUNT * ELEMENT_COUNT * 4 / 1e9:.0f} GB")
            print_times("save", saves, arguments.rounds, clock)
            saves.clear()  # with them, the tensors
            print_times("load", loads, arguments.rounds, clock)
        finally:
            for path in files:
                path.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
