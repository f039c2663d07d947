"""Plot the simulated speed-up of a training by the number of ranks: with a ring, with a tree, and without either.

    python examples/scaling.py

A step computes for 100 milliseconds and then exchanges 40 MB of gradients over 10 Gbit/s Ethernet. What is
drawn is the cost model of the guide, whose messages and bytes the tests count in simulated worlds.
"""

import matplotlib.pyplot as plt

from plugrad_distributed.simulation import estimate_seconds

COMPUTE_SECONDS, GRADIENT_BYTES, OVERLAPPED_FRACTION = 0.1, 40_000_000, 0.6

ranks = [2**i for i in range(10)]
figure, axes = plt.subplots(figsize=(6.4, 4.2))
axes.plot(ranks, ranks, color="0.7", linestyle="--", label="ideal")
for algorithm, hidden, label in (
    ("ring", OVERLAPPED_FRACTION, "ring, 60 % hidden behind the backward pass"),
    ("ring", 0.0, "ring"),
    ("tree", 0.0, "tree"),
    ("everybody", 0.0, "everybody sends to everybody"),
):
    speeds = [
        n
        * COMPUTE_SECONDS
        / (COMPUTE_SECONDS + (1 - hidden) * estimate_seconds(algorithm, n, GRADIENT_BYTES))
        for n in ranks
    ]
    axes.plot(ranks, speeds, marker="o", markersize=4, label=label)
axes.set_xscale("log", base=2)
axes.set_yscale("log", base=2)
axes.set_xticks(ranks, [str(n) for n in ranks])
axes.set_yticks(ranks, [str(n) for n in ranks])
axes.set_xlabel("ranks")
axes.set_ylabel("times the throughput of one")
axes.set_title("40 MB of gradients, 100 ms of computing, 10 Gbit/s")
axes.legend(frameon=False)
axes.grid(alpha=0.2)
figure.tight_layout()
figure.savefig("scaling.png", dpi=120)
