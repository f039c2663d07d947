"""Measure what threads gain: each kernel of the scan, and some programs, with one thread and with several.

    python benchmarks/threads.py                                on cpu, with two threads, everything
    python benchmarks/threads.py --backend wasm
    python benchmarks/threads.py required                       only what has a limit
    python benchmarks/threads.py reduction pool --threads 4     what has one of the words in its name or family
    python benchmarks/threads.py --busy                         on a machine where other programs run
    python benchmarks/threads.py --bits                         whether 1, 2 and 7 threads compute the same bits

A process for each number of threads takes turns with the others, so that BLAS, too, has so many. The ratio of the
least times counts. With `--busy`, a thread computes the parts of each call one after the other; the ratio
is that of processor times, in which of each divided call only the thread that takes longest counts. That leaves out
what threads share, such as memory, and the time to wake them.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MIN_MICROSECONDS: Final = 50
"""The time of a call from which on threads should help."""
NO_GAIN_MIN_RATIO: Final = 0.8
"""The ratio above which a call is reported to gain nothing from threads."""
MAX_RATIOS: Final = {
    "unet": 0.62,
    "GPT block": 0.62,
    "add 1e7": 0.75,
    "sum 1e7": 0.62,
    "batch norm": 0.62,
    "batch norm, gradient": 0.62,
    "filter gradient, 16 x 56² x 64": 0.62,
    "filter gradient, 64 x 28² x 16": 0.62,
}
"""By case: the maximum time with two threads, relative to that with one."""
BITWISE_TEST_THREADS: Final = (1, 2, 7)
"""The numbers of threads with which results must have the same bits."""


# --- what is measured ------------------------------------------------------------------------------


def required_cases() -> dict[str, Callable[[], Any]]:
    """Return the cases with limits."""
    import numpy as np
    import peer_plugrad
    import user_programs
    import user_programs_plugrad
    import workloads

    import plugrad

    rng = np.random.default_rng(0)

    def normal(*shape: int) -> plugrad.Tensor:
        return plugrad.asarray(rng.normal(size=shape).astype("f4"))

    unet = user_programs.map_arrays(user_programs.INPUTS_OF_PROGRAM["unet"](), plugrad.asarray)
    weights = {name: plugrad.asarray(value) for name, value in workloads.transformer().items()}
    block = plugrad.value_and_grad(lambda w: peer_plugrad.block_loss(w, workloads.ATTENTION_HEADS))
    a, b = normal(10_000_000), normal(10_000_000)
    images, scale = normal(16, 56, 56, 64), normal(64)
    dy = normal(16, 56, 56, 64)

    def norm(x: plugrad.Tensor, scale: plugrad.Tensor) -> plugrad.Tensor:
        return plugrad.batch_norm_training(x, scale, scale)[0]

    gradients = plugrad.grad(norm, (0, 1))

    def filter_gradient(x: plugrad.Tensor, filter: plugrad.Tensor) -> Callable[[], Any]:
        given = plugrad.ones((*x.shape[:-1], filter.shape[-1]))
        gradient = plugrad.grad(lambda f: plugrad.conv2d(x, f, padding="same"))
        return lambda: gradient(filter, dy=given)

    return {
        "unet": lambda: user_programs_plugrad.unet(**unet),
        "GPT block": lambda: block(weights),
        "add 1e7": lambda: a + b,
        "sum 1e7": lambda: plugrad.sum(a),
        "batch norm": lambda: norm(images, scale),
        "batch norm, gradient": lambda: gradients(images, scale, dy=dy),
        "filter gradient, 16 x 56² x 64": filter_gradient(images, normal(3, 3, 64, 64)),
        "filter gradient, 64 x 28² x 16": filter_gradient(
            normal(64, 28, 28, 16), normal(3, 3, 16, 32)
        ),
    }


def all_cases() -> dict[str, Callable[[], Any]]:
    """Return all functions by name; the names of kernels begin with their family."""
    import cases
    import kernels_of_arrays
    import kernels_of_networks
    import run

    found = {f"required: {name}": function for name, function in required_cases().items()}
    families = kernels_of_arrays.FAMILIES | kernels_of_networks.FAMILIES
    for case in cases.Cases(families, quick=False).found:
        found[f"{case.family}: {case.name}"] = lambda case=case: run.prepare_plugrad_call(case)[0]
    return found


# --- a process with a number of threads ------------------------------------------------------------


def answer_questions(backend: str, name_words: Sequence[str], is_busy: bool) -> None:
    """Print the names of the cases, then answer each line of standard input by a time or a digest of results."""
    import plugrad

    plugrad.use(backend)
    makers = {
        name: make
        for name, make in all_cases().items()
        if any(word in name.lower() for word in name_words or [""])
    }
    clock = CriticalPath(backend).seconds if is_busy else time.perf_counter
    synchronize = plugrad.which().backend.synchronize
    functions: dict[str, Callable[[], Any]] = {}

    def function(name: str) -> Callable[[], Any]:
        if name not in functions:
            functions.clear()  # one case at a time has its arrays
            made = makers[name]
            functions[name] = made if name.startswith("required") else made()
        return functions[name]

    print("\t".join(makers), flush=True)
    for line in sys.stdin:
        question, name, count = line.rstrip("\n").split("\t")
        call = function(name)
        if question == "digest":
            plugrad.random.seed(0)
            print(digest(call()), flush=True)
            continue
        begin = clock()
        for _ in range(int(count)):
            call()
        synchronize()
        print((clock() - begin) / int(count), flush=True)


def digest(result: Any) -> str:
    """Return a digest of the bits of all tensors of a result."""
    state = hashlib.sha1(usedforsecurity=False)

    def add(value: Any) -> None:
        if isinstance(value, dict):
            value = [value[name] for name in sorted(value)]
        if isinstance(value, list | tuple):
            for each in value:
                add(each)
        else:
            state.update(value.numpy().tobytes())

    add(result)
    return state.hexdigest()


class CriticalPath:
    """The processor time that a call would take if all threads computed at once.

    Divided calls are made here one after the other, and the time of all parts but the longest is taken off.
    """

    def __init__(self, backend: str) -> None:
        """Make a backend compute the parts of a call one after the other, instead of in threads."""
        self.saved = 0.0
        from functools import partial

        import plugrad_cpu.threads

        if backend == "cpu":
            pool = plugrad_cpu.threads.thread_pool
            if pool.compiled:
                pool.compiled = pool.compiled._replace(
                    run_calls=lambda calls, threads: False,
                    run_in_parts=partial(self._run_in_parts, pool.compiled.run_in_parts),
                )
            plugrad_cpu.threads.ThreadPool.run = lambda pool, calls: self._run_in_turn(
                [partial(*call) for call in calls], pool.count
            )
            return
        from plugrad_wasm import workers

        def run_in_turn(
            pool: Any,
            export: str,
            chains: Any,
            kept_objects: Any,
            scratch_blocks: Sequence[Any] = (),
        ) -> None:
            threads = pool.threads
            calls = pool._calls  # the caller's own
            last = [block.address for block in scratch_blocks[:1]]

            def run_chain(chain: Any) -> None:
                for arguments in chain:
                    calls[export](*arguments, *last)

            # A thread takes the next chain when it is ready; they take about equally long.
            groups = [chains[i::threads] for i in range(min(threads, len(chains)))]
            self._run_in_turn(
                [partial(lambda group: [run_chain(c) for c in group], g) for g in groups], threads
            )

        workers.Workers.run_in_threads = run_in_turn

    def _run_in_turn(self, calls: Sequence[Callable[[], Any]], thread_count: int) -> None:
        """Make the calls in turn, each in the simulated thread that would be free first."""
        spent = [0.0] * thread_count
        for call in calls:
            begin = time.thread_time()
            call()
            spent[spent.index(min(spent))] += time.thread_time() - begin
        self.saved += sum(spent) - max(spent)

    def _run_in_parts(self, function: Callable[..., bool], *arguments: Any) -> bool:
        """Run equal parts in one thread, but count only the time of the thread that would have most of them."""
        *others, parts, threads = arguments
        begin = time.thread_time()
        is_done = function(*others, parts, 1)
        if is_done:
            spent = time.thread_time() - begin
            self.saved += spent * (1 - -(-parts // threads) / parts)
        return is_done

    def seconds(self) -> float:
        """Return the processor seconds so far, without the time that more threads would save."""
        return time.thread_time() - self.saved


class Server:
    """A process with a number of threads."""

    def __init__(self, backend: str, threads: int, words: Sequence[str], is_busy: bool) -> None:
        """Start it."""
        variables = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
        counts = dict.fromkeys(
            (*variables, "PLUGRAD_CPU_THREADS", "PLUGRAD_WASM_THREADS"), str(threads)
        )
        if is_busy:  # BLAS has one: what its threads do would not be counted
            counts |= dict.fromkeys(variables, "1")
        how = ["--serve", *(["--busy"] if is_busy else []), "--backend", backend, *words]
        self._process = subprocess.Popen(
            [sys.executable, __file__, *how],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | counts,
        )
        self.names = self._read_answer().split("\t")

    def ask(self, question: str, case_name: str, call_count: int = 1) -> str:
        """Return the "seconds" of one of so many calls of a case, or the "digest" of its results."""
        assert self._process.stdin
        print(f"{question}\t{case_name}\t{call_count}", file=self._process.stdin, flush=True)
        return self._read_answer()

    def _read_answer(self) -> str:
        """Return the next line of the process."""
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            sys.exit("a process of the measurement has ended")
        return line.rstrip("\n")

    def end(self) -> None:
        """End the process."""
        self._process.communicate()


# --- the tables ------------------------------------------------------------------------------------


def compare_bits(servers: dict[int, Server]) -> None:
    """Print the cases whose bits depend on the number of threads."""
    first, *others = servers.values()
    different = 0
    for name in first.names:
        digests = [server.ask("digest", name) for server in (first, *others)]
        if len({*digests}) > 1:
            different += 1
            print(f"{name}: other bits with other numbers of threads", flush=True)
    print(
        f"{different} of {len(first.names)} cases depend on the number of threads {BITWISE_TEST_THREADS}"
    )
    if different:
        sys.exit(1)


def print_times(
    one_thread: Server, several_threads: Server, thread_count: int, rounds: int
) -> None:
    """Print the times and ratios of all cases."""
    print(f"{'microseconds':44} {'1 thread':>12} {thread_count:>5} threads  ratio")
    long: list[float] = []
    slow: list[str] = []
    missed: list[str] = []
    for name in one_thread.names:
        both = one_thread, several_threads
        for server in both:  # what is compiled or allocated once is not counted
            server.ask("seconds", name, 2)
        count = max(1, round(0.02 / max(float(one_thread.ask("seconds", name)), 1e-7)))
        count = min(count, 1000)
        least = [
            min(times)
            for times in zip(
                *([float(s.ask("seconds", name, count)) for s in both] for _ in range(rounds)),
                strict=True,
            )
        ]
        ratio = least[1] / least[0]
        limit = MAX_RATIOS.get(name.partition(": ")[2]) if name.startswith("required") else None
        mark = f"  limit {limit}" if limit else ""
        if least[0] * 1e6 >= MIN_MICROSECONDS and not limit:
            long.append(ratio)
            if ratio > NO_GAIN_MIN_RATIO:
                slow.append(name)
                mark = "  gains nothing"
        if limit and ratio > limit:
            missed.append(name)
        print(
            f"{name:44} {least[0] * 1e6:12.1f} {least[1] * 1e6:12.1f}  {ratio:6.2f}{mark}",
            flush=True,
        )
    if long:
        from measuring import geometric_mean

        print(
            f"{len(long)} kernels take {MIN_MICROSECONDS} µs or more: geometric mean {geometric_mean(long):.2f}, "
            f"{len(slow)} above {NO_GAIN_MIN_RATIO}"
        )
    if missed:
        print(f"above their limits: {'; '.join(missed)}")


def main() -> None:
    """Answer the questions of a measuring process, or measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("words", nargs="*", help="only what has one of them in its name or family")
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--busy", action="store_true", help="count processor time")
    parser.add_argument("--bits", action="store_true", help="compare bits, not times")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_intermixed_args()
    words = [word.lower() for word in options.words]
    if options.serve:
        answer_questions(options.backend, words, options.busy)
        return
    counts = BITWISE_TEST_THREADS if options.bits else (1, options.threads)
    servers = {n: Server(options.backend, n, words, options.busy) for n in counts}
    try:
        if options.bits:
            compare_bits(servers)
        else:
            print_times(*servers.values(), options.threads, options.rounds)
    finally:
        for server in servers.values():
            server.end()


if __name__ == "__main__":
    main()
