"""Measure the cost of exchanging gradients between processes that have a core each.

    python benchmarks/exchanges.py mpi
    unshare -n sh -c "ip link set lo up; python benchmarks/exchanges.py gloo --ranks 3 --wire"

Milliseconds of a step with 0.04 and 10 MB of gradients, the least and the median of the rounds: of the optimizer
alone, of `dist.DataParallel`, and of the collective's own sum of as many bytes. They take turns; on cores that are not
idle, only the least mean something. Then the throughput of steps that compute for 100 milliseconds, as a multiple of
that of one process, and how much of four buckets was hidden behind the backward pass. --wire lets them exchange by TCP
and counts what the loopback device sends, which should be ``2 (N - 1) / N`` times the gradients; `unshare -n` gives the
ranks a loopback device of their own.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from argparse import ArgumentParser
from pathlib import Path
from statistics import median

import numpy as np

ELEMENT_COUNTS = {"0.04 MB": 10_000, "10 MB": 2_500_000}
"""By label: the elements of the exchanged gradients."""
VARIABLE_COUNT = 8
"""The variables into which the elements are divided."""
COMPUTE_SECONDS = 0.1
"""The seconds that a step computes when the throughput is measured."""
LAYER_ELEMENTS = 625_000
"""The elements of each layer when the throughput is measured."""


def main() -> None:
    parser = ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("collective", choices=["mpi", "gloo"])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--wire", action="store_true", help="exchange by TCP, and count the bytes")
    arguments = parser.parse_args()
    if {"PMI_RANK", "OMPI_COMM_WORLD_RANK", "RANK"} & set(os.environ):
        run_rank(arguments)
        return
    program = [sys.executable, *sys.argv]
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "PLUGRAD_BACKEND": "cpu"}
    if arguments.collective == "mpi":
        if arguments.wire:  # not by shared memory
            environment |= {"MPIR_CVAR_NOLOCAL": "1", "MPIR_CVAR_CH4_NETMOD": "ofi"}
            environment |= {"FI_PROVIDER": "tcp", "FI_TCP_IFACE": "lo"}
            environment |= {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "tcp,self"}  # Open MPI's words
            environment |= {"OMPI_MCA_btl_tcp_if_include": "lo"}
        mpiexec = str(Path(sys.executable).with_name("mpiexec"))
        command = [mpiexec, "-n", str(arguments.ranks), *program]
        sys.exit(subprocess.run(command, env=environment, check=False).returncode)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1])}
    ranks = [
        subprocess.Popen(
            program,
            env=environment
            | place
            | {"RANK": str(rank), "WORLD_SIZE": str(arguments.ranks), "GLOO_SOCKET_IFNAME": "lo"},
        )
        for rank in range(arguments.ranks)
    ]
    sys.exit(max(rank.wait() for rank in ranks))


def run_rank(arguments) -> None:
    import plugrad_distributed as dist

    cores = sorted(os.sched_getaffinity(0))
    names = ("PMI_RANK", "OMPI_COMM_WORLD_RANK", "RANK")
    rank = int(next(os.environ[name] for name in names if name in os.environ))
    os.sched_setaffinity(0, {cores[rank % len(cores)]})  # and the threads that are started later
    world = dist.init(arguments.collective)

    def print_on_rank_0(text):
        if world.rank == 0:
            print(text, flush=True)

    print_on_rank_0(f"{arguments.collective}, {world.size} ranks: least / median")
    print_on_rank_0(
        f"{'':10}{'alone ms':>16}{'together ms':>16}{'difference':>12}{'own sum ms':>16}"
    )
    for name, elements in ELEMENT_COUNTS.items():
        sides = make_sides(world, elements)
        taken = {side: [] for side in sides}
        for _ in range(arguments.rounds):
            for side, function in sides.items():
                dist.barrier()
                start = time.perf_counter()
                function()
                taken[side].append(1e3 * (time.perf_counter() - start))
        texts = [f"{min(t):.2f} / {median(t):.2f}" for t in taken.values()]
        difference = min(taken["together"]) - min(taken["alone"])
        print_on_rank_0(f"{name:10}{texts[0]:>16}{texts[1]:>16}{difference:12.2f}{texts[2]:>16}")
        if arguments.wire:
            count_sent_bytes(world, print_on_rank_0, sides["together"], elements * 4)
    throughput, *hidden = measure_throughput(world)
    print_on_rank_0(f"throughput: {throughput:.2f} times that of one process")
    print_on_rank_0(
        f"hidden of four buckets: {hidden[0]:.0%} at best, {hidden[1]:.0%} in the median"
    )


def make_sides(world, element_count):
    """Return an optimizer step of one rank, a step of all ranks, and an all-reduce of as many bytes."""
    import plugrad
    import plugrad_distributed as dist

    variables = [
        plugrad.Variable(plugrad.zeros(element_count // VARIABLE_COUNT))
        for _ in range(VARIABLE_COUNT)
    ]
    factors = [plugrad.ones(element_count // VARIABLE_COUNT) for _ in range(VARIABLE_COUNT)]
    single_process = plugrad.optimizers.SGD(0.1)
    parallel = dist.DataParallel(plugrad.optimizers.SGD(0.1))
    sent_numbers = np.zeros(element_count, np.float32)

    def loss():
        total = plugrad.sum(variables[0] * factors[0])
        for variable, factor in zip(variables[1:], factors[1:], strict=True):
            total = total + plugrad.sum(variable * factor)
        return total

    return {
        "alone": lambda: single_process.minimize(loss, variables),
        "together": lambda: parallel.minimize(loss, variables),
        "own sum": lambda: world.collective.all_reduce(sent_numbers, timeout=60.0),
    }


def measure_throughput(world):
    """Return the throughput of all ranks relative to one rank, and the overlapped fraction of the exchanges.

    A step computes for 100 ms, in the backward passes of four layers whose gradients are a bucket each.
    """
    import plugrad
    import plugrad_distributed as dist

    layers = [plugrad.Variable(plugrad.zeros(LAYER_ELEMENTS)) for _ in range(4)]
    parallel = dist.DataParallel(plugrad.optimizers.SGD(0.1), bucket_bytes=LAYER_ELEMENTS * 4)
    single_process = plugrad.optimizers.SGD(0.1)
    matrix = plugrad.asarray(np.ones((400, 400), np.float32))

    @plugrad.custom_grad
    def slow_identity(x, save):
        def backward(dy, saved):
            start = time.thread_time()
            while time.thread_time() - start < COMPUTE_SECONDS / len(layers):
                matrix @ matrix
            return dy

        return +x, backward

    def loss():
        total = plugrad.zeros(LAYER_ELEMENTS)
        for layer in layers:
            total = slow_identity(total + layer)
        return plugrad.sum(total)

    taken = {"one": [], "all": []}
    hidden = []
    for _ in range(10):
        for name, optimizer in (("one", single_process), ("all", parallel)):
            dist.barrier()
            waited, count = world.waited, len(world.exchanges)
            start = time.perf_counter()
            optimizer.minimize(loss, layers)
            taken[name].append(time.perf_counter() - start)
        sums = [e for e in list(world.exchanges)[count:] if e.operation == "all_reduce"]
        exchanged = sum(e.end - e.start for e in sums)
        hidden.append(1 - (world.waited - waited) / exchanged)
    return world.size * min(taken["one"]) / min(taken["all"]), max(hidden), median(hidden)


def count_sent_bytes(world, print_on_rank_0, run_step, gradient_bytes):
    """Print the bytes that the loopback device sends for a rank in a step, beside those of the gradients."""
    import plugrad_distributed as dist

    def read_sent_bytes():
        text = Path("/proc/net/dev").read_text().partition("lo:")[2]
        return int(text.split()[8])

    steps = 20
    dist.barrier()
    start = read_sent_bytes()
    for _ in range(steps):
        run_step()
    dist.barrier()
    found = (read_sent_bytes() - start) / steps / world.size
    expected = 2 * (world.size - 1) / world.size * gradient_bytes
    print_on_rank_0(
        f"{'':10}sent by a rank in a step: {found:.0f} bytes, {found / expected:.3f} times the model's"
    )


if __name__ == "__main__":
    main()
