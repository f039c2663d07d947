"""Record what mpmath gives for the logarithms of matrices of several kinds: ``python record_logarithms.py``."""

import json
from pathlib import Path

import mpmath as mp
import numpy as np
import scipy.linalg

mp.mp.dps = 60
RNG = np.random.default_rng(34)


def matrix_logarithm(x):
    """Return the logarithm of a matrix, by a series if its diagonal part is the identity."""
    n, exact = len(x), mp.matrix(x.tolist())
    if np.array_equal(np.tril(x), np.eye(n)):
        rest, found = exact - mp.eye(n), mp.zeros(n)
        power = mp.eye(n)
        for k in range(1, n):
            power *= rest
            found += power * (mp.mpf((-1) ** (k + 1)) / k)
    else:
        values, vectors = mp.eig(exact)
        found = vectors * mp.diag([mp.log(v) for v in values]) * vectors**-1
    return [[float(mp.re(found[i, j])) for j in range(n)] for i in range(n)]


def random_matrices(n):
    """Return a matrix of each kind that has a real logarithm."""
    a = RNG.normal(size=(n, n))
    turn = np.linalg.qr(RNG.normal(size=(n, n)))[0]
    planes = [[[np.cos(t), -np.sin(t)], [np.sin(t), np.cos(t)]] for t in RNG.uniform(-3, 3, n // 2)]
    return {
        "random": scipy.linalg.expm(0.7 * a),
        "shifted": a + (np.abs(np.linalg.eigvals(a)).max() + 0.3) * np.eye(n),
        "nearly singular": turn @ np.diag([1e-11, *RNG.uniform(0.5, 2, n - 1)]) @ turn.T,
        "nilpotent and identity": np.eye(n) + np.triu(a, 1),
        "normal": turn @ (scipy.linalg.block_diag(*planes) * RNG.uniform(0.3, 3)) @ turn.T,
        "definite": turn @ np.diag(np.exp(RNG.uniform(-3, 3, n))) @ turn.T,
        "near the identity": np.eye(n) + 1e-3 * a,
    }


if __name__ == "__main__":
    logarithms = {}
    for n in (2, 4, 4, 6):
        for kind, x in random_matrices(n).items():
            matrix_and_logarithm = {"x": x.tolist(), "logarithm": matrix_logarithm(x)}
            logarithms.setdefault(kind, []).append(matrix_and_logarithm)
    path = Path(__file__).parent / "logarithms.json"
    path.write_text(json.dumps(logarithms) + "\n", "utf-8")
