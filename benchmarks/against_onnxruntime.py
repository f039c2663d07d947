"""Compare plugrad with onnxruntime on models, in one process and on one thread.

`tests/plugins/onnx/architectures/build.py FOLDER` writes models; then
`python benchmarks/against_onnxruntime.py FOLDER --backend cpu` prints a line for each:
how far the outputs are from those of onnxruntime, relative to the largest; and the least times of loading
and of running, in milliseconds and as ratios. It needs onnxruntime, which the group `bench` brings.
"""

from __future__ import annotations

import argparse
import gc
import os
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import onnxruntime

import plugrad
import plugrad_onnx

if TYPE_CHECKING:
    from collections.abc import Callable


def make_session(path: Path) -> onnxruntime.InferenceSession:
    """Return an onnxruntime session of a model, limited to one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def measure_min_times(rounds: int, *functions: Callable[[], Any]) -> list[float]:
    """Return the minimum milliseconds of each function; the functions are called in turn."""
    least = [float("inf")] * len(functions)
    for _ in range(rounds):
        for place, function in enumerate(functions):
            gc.collect()
            start = perf_counter()
            function()
            least[place] = min(least[place], (perf_counter() - start) * 1e3)
    return least


def time_model(model_file: Path, rounds: int) -> str:
    """Return a table row that compares the times for a model."""
    peer = make_session(model_file)
    numbers = np.load(model_file.with_suffix(".npz"))
    rng = np.random.default_rng(0)
    inputs = {
        value.name: numbers[value.name]
        if value.name in numbers
        else rng.normal(size=value.shape).astype(np.float32)
        for value in peer.get_inputs()
    }
    (expected,) = peer.run(None, inputs)
    model = plugrad_onnx.load(model_file)
    tensors = [plugrad.asarray(inputs[name]) for name in model.inputs]
    compiled = plugrad.jit(model)
    error = max(
        np.abs(run(*tensors).numpy() - expected).max() / np.abs(expected).max()
        for run in (model, compiled)
    )
    ran = measure_min_times(
        rounds,
        lambda: peer.run(None, inputs),
        lambda: model(*tensors).numpy(),
        lambda: compiled(*tensors).numpy(),
    )
    loaded = measure_min_times(
        min(rounds, 3), lambda: make_session(model_file), lambda: plugrad_onnx.load(model_file)
    )
    return (
        f"{model_file.stem:14} {error:8.1e}   {loaded[0]:8.1f} {loaded[1]:8.1f} {loaded[1] / loaded[0]:6.2f}"
        f"   {ran[0]:8.2f} {ran[1]:8.2f} {ran[1] / ran[0]:6.2f} {ran[2]:8.2f} {ran[2] / ran[0]:6.2f}"
    )


def main() -> None:
    """Compare the given models, or all in a folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--rounds", type=int, default=20)
    arguments = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    names = arguments.names or sorted(path.stem for path in arguments.folder.glob("*.onnx"))
    print(
        f"{'':14} {'error':8}   {'load: peer, own, ratio':24}   run: peer, own, ratio, compiled, ratio"
    )
    with plugrad.use(arguments.backend):
        for name in names:
            print(time_model(arguments.folder / f"{name}.onnx", arguments.rounds), flush=True)


if __name__ == "__main__":
    main()
