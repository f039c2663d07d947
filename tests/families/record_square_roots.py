"""Record what mpmath gives for the square roots of nearly singular matrices: ``python record_square_roots.py``."""

import json
from pathlib import Path

import mpmath as mp
import numpy as np

mp.mp.dps = 60
RNG = np.random.default_rng(34)


def matrix_square_root(x):
    values, vectors = mp.eig(mp.matrix(x.tolist()))
    found = vectors * mp.diag([mp.sqrt(v) for v in values]) * vectors**-1
    return [[float(mp.re(found[i, j])) for j in range(len(x))] for i in range(len(x))]


if __name__ == "__main__":
    square_roots = []
    for exponent in (6, 9, 11):
        for n in (3, 5):
            values = np.logspace(0, -exponent, n)
            orthogonal_matrix = np.linalg.qr(RNG.normal(size=(n, n)))[0]
            non_normal_factor = np.eye(n) + 0.3 * RNG.normal(size=(n, n))
            for x in (
                orthogonal_matrix * values @ orthogonal_matrix.T,
                non_normal_factor * values @ np.linalg.inv(non_normal_factor),
            ):
                if np.linalg.eigvals(x).real.min() > 0:  # what is rounded makes none negative
                    square_roots.append({"x": x.tolist(), "root": matrix_square_root(x)})
    path = Path(__file__).parent / "square_roots.json"
    path.write_text(json.dumps(square_roots) + "\n", "utf-8")
