"""Compute the polynomials of `plugrad_numerics.special`: ``python coefficients.py`` writes them. It needs mpmath.

Each function is smooth between the ends that are given, after what is singular has been divided out. It is cut into
pieces of equal width, and in each piece interpolated at Chebyshev points in forty digits. What is written are the
coefficients of the powers of a place t, which is from -1 to 1 in a piece.
"""

from pathlib import Path

import mpmath as mp
import numpy as np

mp.mp.dps = 40
STAND_IN_FOR_INFINITY = mp.mpf(10) ** 25
DIGAMMA_ROOT = mp.findroot(mp.digamma, 1.46)
DIGAMMA_ROOT_COUNT = 32
"""How many roots of digamma below 0 are tabulated, one between each two whole numbers."""
LGAMMA_POLES = range(2, 33)
"""The poles of log(abs(gamma)), as positive numbers, near which there are tables."""


@mp.workdps(90)
def find_root(function, lower_bound, upper_bound):
    """Return the root between two numbers, by halving until nothing is left to halve."""
    sign = mp.sign(function(lower_bound))
    for _ in range(4 * mp.mp.dps):
        middle = (lower_bound + upper_bound) / 2
        lower_bound, upper_bound = (
            (middle, upper_bound) if mp.sign(function(middle)) == sign else (lower_bound, middle)
        )
    return (lower_bound + upper_bound) / 2


def log_gamma(x):
    """Return the logarithm of the absolute value of the gamma function."""
    return mp.log(abs(mp.gamma(x)))


@mp.workdps(90)
def find_root_distance_from_pole(n, side):
    """Return the distance between the pole -n and the root of log_gamma on a side; -2 has only one on the left."""
    if n == 2:
        side = -1
    # The gamma function is near side * (-1)**n / (n! * distance) there.
    least, most = mp.mpf(10) ** -40, mp.mpf(1) / 2
    if n == 3 and side > 0:
        most = mp.mpf("0.38")  # the next root is that left of -2
    if n == 2:
        most = mp.mpf("0.6")
    return side * find_root(lambda u: log_gamma(-n + side * u), least, most)


EXPI_ROOT = find_root(mp.ei, mp.mpf("0.37"), mp.mpf("0.38"))
LGAMMA_DISTANCES = [find_root_distance_from_pole(n, side) for n in LGAMMA_POLES for side in (1, -1)]
LGAMMA_ROOTS = [
    find_root(log_gamma, *map(mp.mpf, ends))
    for ends in (("-2.6", "-2.1"), ("-2.9", "-2.65"), ("-3.5", "-3.05"), ("-3.99", "-3.5"))
]
DIGAMMA_ROOTS = [
    find_root(mp.digamma, -n - 1 + mp.mpf(10) ** -9, -n - mp.mpf(10) ** -9)
    for n in range(DIGAMMA_ROOT_COUNT)
]


@mp.workdps(90)
def log_gamma_near_pole(pole_and_distance):
    """Return (log_gamma + log(abs(u / root))) / (u - root) at a distance u from a pole, which is smooth at the root.

    The whole part of the argument counts poles and sides, and the rest is 8 * abs(u).
    """
    k = int(mp.floor(pole_and_distance))
    u, root = (pole_and_distance - k) / 8 * (-1) ** k, LGAMMA_DISTANCES[k]
    return (log_gamma(u - LGAMMA_POLES[k // 2]) + mp.log(abs(u / root))) / (u - root)


def log_gamma_between_poles(y):
    """Return log_gamma(-y) divided by its distances from the two roots between the same poles."""
    first, second = LGAMMA_ROOTS[:2] if y < 3 else LGAMMA_ROOTS[2:]
    return log_gamma(-y) / ((-y - first) * (-y - second))


def digamma_below_0(y):
    """Return digamma(-y) multiplied by its distances from the two poles and divided by its distance from the root."""
    n = int(mp.floor(y))
    return mp.digamma(-y) * (n + 1 - y) * (y - n) / (-y - DIGAMMA_ROOTS[n])


def bessel_phase_functions(order):
    """Return the functions P and Q of 24 / x with J = sqrt(2 / (pi x)) (P cos - Q sin) of the phase (DLMF 10.17)."""

    def phase_functions(y):
        x = 24 / y
        turn = x - (2 * order + 1) * mp.pi / 4
        size = mp.sqrt(mp.pi * x / 2)
        j, n = mp.besselj(order, x), mp.bessely(order, x)
        c, s = mp.cos(turn), mp.sin(turn)
        return size * (j * c + n * s), size * (n * c - j * s)

    return lambda y: phase_functions(y)[0], lambda y: phase_functions(y)[1]


def erfinv_divided_by(w):
    """Return erfinv(x) / w for w = sqrt(-log(1 - x * x))."""
    x = mp.sqrt(-mp.expm1(-w * w))
    return mp.erfinv(x) / w


@mp.workdps(60)
def erfcinv_divided_by(w):
    """Return erfcinv(x) / w for w = sqrt(-log(x * (2 - x))), also where 1 - x has too few digits."""
    product = mp.exp(-w * w)
    logarithm = mp.log(product / (1 + mp.sqrt(1 - product)))
    return mp.findroot(lambda y: mp.log(mp.erfc(y)) - logarithm, w) / w


PHASE_P_OF_ORDER_0, PHASE_Q_OF_ORDER_0 = bessel_phase_functions(0)
PHASE_P_OF_ORDER_1, PHASE_Q_OF_ORDER_1 = bessel_phase_functions(1)
TABULATED_FUNCTIONS = {
    # name: function, first end, last end, pieces, degree
    "lgamma_near_roots": (lambda x: mp.loggamma(x) / ((x - 1) * (x - 2)), 0.5, 3, 20, 12),
    "lgamma": (mp.loggamma, 3, 16, 26, 12),
    "lgamma_near_poles": (log_gamma_near_pole, 0, 2 * len(LGAMMA_POLES), 2 * len(LGAMMA_POLES), 11),
    "lgamma_between_2_and_3": (log_gamma_between_poles, 2.1, 2.9, 16, 14),
    "lgamma_between_3_and_4": (log_gamma_between_poles, 3.1, 3.9, 16, 14),
    "gamma": (mp.gamma, 1, 12, 44, 13),
    "digamma_near_root": (lambda x: mp.digamma(x) / (x - DIGAMMA_ROOT), 1, 3, 16, 12),
    "digamma": (mp.digamma, 3, 16, 26, 12),
    "digamma_below_0": (digamma_below_0, 0, DIGAMMA_ROOT_COUNT, 4 * DIGAMMA_ROOT_COUNT, 13),
    "trigamma": (lambda x: mp.psi(1, x), 1, 16, 60, 15),
    "erfcx": (lambda y: mp.exp((4 / y - 4) ** 2) * mp.erfc(4 / y - 4) / y, 0, 1, 64, 11),
    "erfcx_near_0": (lambda x: mp.exp(x * x) * mp.erfc(x), 0, 1, 4, 14),
    "erfinv": (lambda s: mp.erfinv(mp.sqrt(s)) / mp.sqrt(s), 0, 0.5625, 18, 12),
    "erfinv_tail": (erfinv_divided_by, 0.875, 6.125, 42, 12),
    "erfcinv_tail": (erfcinv_divided_by, 6.125, 27.375, 34, 12),
    "j0": (mp.j0, 0, 24, 48, 13),
    "j1": (lambda x: mp.j1(x) / x, 0, 24, 48, 13),
    "y0": (lambda x: mp.bessely(0, x) - 2 / mp.pi * mp.log(x / 2) * mp.j0(x), 0, 24, 48, 13),
    "y1": (
        lambda x: mp.bessely(1, x) - 2 / mp.pi * (mp.log(x / 2) * mp.j1(x) - 1 / x),
        0,
        24,
        48,
        13,
    ),
    "p0": (PHASE_P_OF_ORDER_0, 0, 1, 8, 10),
    "q0": (PHASE_Q_OF_ORDER_0, 0, 1, 8, 10),
    "p1": (PHASE_P_OF_ORDER_1, 0, 1, 8, 10),
    "q1": (PHASE_Q_OF_ORDER_1, 0, 1, 8, 10),
    "i0e": (lambda x: mp.besseli(0, x) * mp.exp(-x), 0, 16, 32, 13),
    "i1e": (lambda x: mp.besseli(1, x) * mp.exp(-x) / x, 0, 16, 32, 13),
    "i0e_tail": (lambda y: mp.besseli(0, 16 / y) * mp.exp(-16 / y) * mp.sqrt(16 / y), 0, 1, 16, 12),
    "i1e_tail": (lambda y: mp.besseli(1, 16 / y) * mp.exp(-16 / y) * mp.sqrt(16 / y), 0, 1, 16, 12),
    "k0": (lambda x: mp.besselk(0, x) + mp.log(x / 2) * mp.besseli(0, x), 0, 1, 4, 14),
    "k1": (lambda x: mp.besselk(1, x) - 1 / x - mp.log(x / 2) * mp.besseli(1, x), 0, 1, 4, 14),
    "k0e_tail": (lambda y: mp.besselk(0, 1 / y) * mp.exp(1 / y) / mp.sqrt(y), 0, 1, 32, 13),
    "k1e_tail": (lambda y: mp.besselk(1, 1 / y) * mp.exp(1 / y) / mp.sqrt(y), 0, 1, 32, 13),
    "zeta": (lambda s: (s - 1) * mp.zeta(s), 0, 17, 34, 13),
    "zeta_below_0": (
        lambda w: 2 * (2 * mp.pi) ** (-1 - w) * mp.gamma(1 + w) * (w * mp.zeta(1 + w)),
        0,
        17,
        34,
        16,
    ),
    "exp1": (lambda x: mp.e1(x) + mp.log(x), 0, 0.5, 4, 13),
    "exp1_tail": (lambda y: mp.e1(1 / y) * mp.exp(1 / y) / y, 0, 2, 64, 13),
    "expi_near_root": (lambda x: mp.ei(x) / (x - EXPI_ROOT), 0.2, 0.8, 12, 12),
    "expi": (lambda x: mp.ei(x) - mp.log(x), 0, 6, 24, 13),
    "expi_tail": (lambda y: mp.ei(6 / y) * mp.exp(-6 / y) * 6 / y, 0, 1, 64, 13),
}
"""By name: the function, the two ends of its interval, the number of pieces, and their degree."""

ROOTS_IN_TWO_PARTS = {
    "lgamma_near_poles": LGAMMA_DISTANCES,
    "lgamma_between": LGAMMA_ROOTS,
    "digamma_below_0": DIGAMMA_ROOTS,
    "expi_near_root": [EXPI_ROOT],
}
"""By table: its roots, each of which is saved as a float64 and the rest."""


def interpolating_polynomial(function, start, end, degree):
    """Return the coefficients of the interpolating polynomial in t, which is -1 and 1 at the ends."""
    n = degree + 1
    middle, half = (start + end) / 2, (end - start) / 2
    angles = [mp.pi * (2 * k + 1) / (2 * n) for k in range(n)]
    values = [function(middle + half * mp.cos(a)) for a in angles]
    series = [
        2 * sum(v * mp.cos(j * a) for v, a in zip(values, angles, strict=True)) / n
        for j in range(n)
    ]
    series[0] /= 2
    found = [mp.mpf(0)] * n
    before, current = [mp.mpf(1)], [mp.mpf(0), mp.mpf(1)]
    for j, c in enumerate(series):
        basis = before if j == 0 else current
        for power, b in enumerate(basis):
            found[power] += c * b
        if j:
            following = [mp.mpf(0)] + [2 * b for b in current]
            for power, b in enumerate(before):
                following[power] -= b
            before, current = current, following
    return found


def coefficient_table(function_name):
    """Return the start and the pieces per unit interval of a function's table, and the coefficients of its pieces."""
    function, first, last, pieces, degree = TABULATED_FUNCTIONS[function_name]
    width = (mp.mpf(last) - first) / pieces
    rows = [
        interpolating_polynomial(function, first + k * width, first + (k + 1) * width, degree)
        for k in range(pieces)
    ]
    head = np.array([float(first), float(1 / width)])
    return head, np.array([[float(c) for c in row] for row in rows])


if __name__ == "__main__":
    saved_arrays = {}
    for name in TABULATED_FUNCTIONS:
        start_and_pieces_per_unit, piece_coefficients = coefficient_table(name)
        saved_arrays[f"{name}.ends"], saved_arrays[name] = (
            start_and_pieces_per_unit,
            piece_coefficients,
        )
        last_to_first = piece_coefficients[:, -1] / piece_coefficients[:, 0]
        print(name, piece_coefficients.shape, abs(last_to_first).max())
    for name, roots in ROOTS_IN_TWO_PARTS.items():
        saved_arrays[f"{name}.roots"] = np.array([[float(r), float(r - float(r))] for r in roots])
    np.savez_compressed(
        Path(__file__).parent / "src/plugrad_numerics/coefficients.npz", **saved_arrays
    )
