"""Record what mpmath gives for the functions of `plugrad_numerics.special`: ``python record_special.py``."""

import json
from pathlib import Path

import mpmath as mp
import numpy as np

mp.mp.dps = 50
RNG = np.random.default_rng(34)


def random_in_interval(least, most, count=40):
    """Return random numbers of an interval, with its ends."""
    return [least, most, *RNG.uniform(least, most, count)]


def random_of_all_magnitudes(least, most, count=25):
    """Return random numbers of all magnitudes between two positive ones."""
    return list(np.exp(RNG.uniform(np.log(least), np.log(most), count)))


def numbers_near_roots(function, *starts):
    """Return the floats nearest to the roots of a function, their neighbours, and numbers at growing distances."""
    found = []
    for start in starts:
        root = float(mp.findroot(function, start))
        found += [root + k * np.spacing(root) for k in (-3, -1, 0, 1, 3)]
        found += [root + sign * d for d in np.geomspace(1e-14, 0.02, 12) for sign in (-1, 1)]
    return found


NEGATIVE_ARGUMENTS = [
    *-np.linspace(0.031, 12.987, 120),
    *(-n + sign * d for n in (0, 1, 2, 3, 9, 31) for d in (1e-14, 1e-5, 0.1) for sign in (-1, 1)),
    *(-1e-300, -1e-8, -31.6, -32.1, -33.4, -57.56, -120.3),
]
POSITIVE_ARGUMENTS = [*random_of_all_magnitudes(1e-8, 1e3), *random_in_interval(0.01, 20, 60)]
FUNCTIONS_AND_ARGUMENTS = {
    "gammaln": (
        mp.loggamma,
        [
            *(
                *POSITIVE_ARGUMENTS,
                *random_in_interval(0.9, 2.2),
                1e10,
                3.0,
                0.5,
                *NEGATIVE_ARGUMENTS,
            ),
            *numbers_near_roots(
                lambda x: mp.log(abs(mp.gamma(x))),
                *(-2.457, -2.7477, -3.1436, -3.9553, -4.0394, -4.9916, -5.0082, -5.99861, -6.00138),
                *(-9.9999997244, -10.000000275573, mp.mpf("-12.00000000208767569")),
            ),
        ],
    ),
    "gamma": (
        mp.gamma,
        [
            *random_of_all_magnitudes(1e-8, 1),
            *random_in_interval(0.01, 25, 60),
            *random_in_interval(25, 171, 30),
            *random_in_interval(-4.8, -0.2, 20),
        ],
    ),
    "digamma": (
        mp.digamma,
        [
            *(*POSITIVE_ARGUMENTS, *random_in_interval(1.2, 1.8), *NEGATIVE_ARGUMENTS),
            *numbers_near_roots(
                mp.digamma, -0.504, -1.5735, -2.61, -3.635, -4.653, -5.667, -20.73, -31.76
            ),
            *(-85.80347494796838, -771.87, -7856.892838118311, -99999.7, -1000000.25),
            *(-2276496727.9522057, -1189813921810.3691, -4503599627370495.5),
        ],
    ),
    "trigamma": (lambda x: mp.psi(1, x), [*POSITIVE_ARGUMENTS]),
    "erfcx": (
        lambda x: mp.exp(x * x) * mp.erfc(x),
        [*POSITIVE_ARGUMENTS, *random_in_interval(-26, 0)],
    ),
    "erfc": (mp.erfc, [*random_in_interval(-3, 3), *random_in_interval(3, 26)]),
    "erfinv": (
        mp.erfinv,
        [
            *random_in_interval(-0.999, 0.999, 60),
            *(1 - np.exp(random_in_interval(-36, -3, 20))),
            1e-9,
        ],
    ),
    "erfcinv": (
        lambda x: mp.erfinv(1 - x),
        [*random_in_interval(0.01, 1.99, 60), *random_of_all_magnitudes(1e-16, 0.1)],
    ),
    "j0": (mp.j0, [*random_in_interval(0, 30, 60), *random_in_interval(30, 500, 30), 1e-5]),
    "j1": (mp.j1, [*random_in_interval(0, 30, 60), *random_in_interval(-500, -30, 30), 1e-5]),
    "y0": (
        lambda x: mp.bessely(0, x),
        [*random_in_interval(0.01, 30, 60), *random_in_interval(30, 500, 30), 1e-5],
    ),
    "y1": (
        lambda x: mp.bessely(1, x),
        [*random_in_interval(0.01, 30, 60), *random_in_interval(30, 500, 30), 1e-5],
    ),
    "i0e": (lambda x: mp.besseli(0, x) * mp.exp(-abs(x)), [*POSITIVE_ARGUMENTS, -3.0]),
    "i1e": (lambda x: mp.besseli(1, x) * mp.exp(-abs(x)), [*POSITIVE_ARGUMENTS, -3.0]),
    "k0e": (lambda x: mp.besselk(0, x) * mp.exp(x), POSITIVE_ARGUMENTS),
    "k1e": (lambda x: mp.besselk(1, x) * mp.exp(x), POSITIVE_ARGUMENTS),
    "k0": (
        lambda x: mp.besselk(0, x),
        [*random_of_all_magnitudes(1e-8, 1), *random_in_interval(0.01, 100, 60)],
    ),
    "k1": (
        lambda x: mp.besselk(1, x),
        [*random_of_all_magnitudes(1e-8, 1), *random_in_interval(0.01, 100, 60)],
    ),
    "i0": (
        lambda x: mp.besseli(0, x),
        [*random_of_all_magnitudes(1e-8, 1), *random_in_interval(0.01, 100, 60)],
    ),
    "i1": (
        lambda x: mp.besseli(1, x),
        [*random_of_all_magnitudes(1e-8, 1), *random_in_interval(0.01, 100, 60)],
    ),
    "exp1": (mp.e1, [*random_of_all_magnitudes(1e-8, 1), *random_in_interval(0.01, 100, 60)]),
    "expi": (
        mp.ei,
        [
            *(
                *random_in_interval(0.5, 100, 60),
                *random_of_all_magnitudes(1e-8, 0.2),
                *random_in_interval(-50, -0.1, 20),
            ),
            *(*np.linspace(0.2, 0.5, 31), *numbers_near_roots(mp.ei, 0.3725)),
        ],
    ),
    "zeta": (
        mp.zeta,
        [
            *random_in_interval(1.01, 60, 60),
            *random_in_interval(0, 0.95, 20),
            1 + 1e-6,
            *-np.geomspace(1e-3, 259.5, 80),
        ],
    ),
    "log1mexp": (lambda x: mp.log1p(-mp.exp(x)), [-x for x in POSITIVE_ARGUMENTS]),
    "logit": (
        lambda x: mp.log(x / (1 - x)),
        [*random_of_all_magnitudes(1e-8, 0.1), *random_in_interval(0.01, 0.99)],
    ),
    "entr": (lambda x: -x * mp.log(x), POSITIVE_ARGUMENTS),
    "ndtr": (mp.ncdf, [*random_in_interval(-30, 0, 60), *random_in_interval(0, 8)]),
    "log_ndtr": (
        lambda x: mp.log(mp.ncdf(x)),
        [*random_in_interval(-40, 0, 60), *random_in_interval(0, 8)],
    ),
    "ndtri": (
        lambda p: mp.sqrt(2) * mp.erfinv(2 * p - 1),
        [*random_in_interval(0.001, 0.49), *random_in_interval(0.51, 0.999)],
    ),
    "expit": (lambda x: 1 / (1 + mp.exp(-x)), random_in_interval(-40, 40)),
    "log_expit": (lambda x: -mp.log1p(mp.exp(-x)), random_in_interval(-40, 40)),
}


def uniform_columns(*ranges, count=60):
    """Return a column of uniformly distributed numbers for each argument."""
    return [RNG.uniform(*ends, count) for ends in ranges]


def log_uniform_columns(*ranges, count=25):
    """Return a column of logarithmically distributed numbers for each argument."""
    return [np.array(random_of_all_magnitudes(*ends, count)) for ends in ranges]


def gamma_central_points(least, most):
    """Return shape parameters, and numbers within a few standard deviations of the mean of their gamma distribution."""
    (a,) = log_uniform_columns((least, most))
    return [a, np.maximum(a + np.sqrt(a) * RNG.normal(0, 2, a.size), a / 10)]


def beta_central_points(least, most):
    """Return shape parameters, and numbers within a few standard deviations of the mean of their beta distribution."""
    a, b = log_uniform_columns((least, most), (least, most))
    mean = a / (a + b)
    deviation = np.sqrt(mean * (1 - mean) / (a + b + 1))
    return [
        *(a, b),
        np.clip(mean + deviation * RNG.normal(0, 2, a.size), mean / 10, 1 - (1 - mean) / 10),
    ]


def nearly_equal_pairs(least, most):
    """Return pairs of numbers with relative distances down to one unit in the last place."""
    (x,) = uniform_columns((least, most))
    return [
        x,
        x + np.maximum(x * np.array(random_of_all_magnitudes(1e-16, 1, x.size)), np.spacing(x)),
    ]


GAMMA_POINTS = [
    *(uniform_columns((0.1, 60), (0.1, 90)), uniform_columns((0.01, 2), (0.001, 5), count=25)),
    *(log_uniform_columns((1e-6, 0.1), (1e-3, 5)), log_uniform_columns((0.1, 20), (1e-20, 0.1))),
    *(gamma_central_points(0.5, 60), gamma_central_points(60, 800), gamma_central_points(800, 1e5)),
    [
        np.geomspace(801, 3e5, 120),
        np.geomspace(801, 3e5, 120) + np.geomspace(801, 3e5, 120) ** 0.5 * np.sin(range(120)) * 3,
    ],
]
BETA_POINTS = [
    *(uniform_columns((0.1, 60), (0.1, 60)), log_uniform_columns((1e-8, 1e5), (1e-8, 1e5))),
    *(log_uniform_columns((1e3, 9e5), (1e-3, 10)), uniform_columns((0.5, 2), (0.5, 2), count=25)),
]
FUNCTIONS_OF_SEVERAL_ARGUMENTS = {
    "betaln": (
        lambda a, b: mp.loggamma(a) + mp.loggamma(b) - mp.loggamma(a + b),
        [*BETA_POINTS, log_uniform_columns((1e3, 1e8), (1e3, 1e8))],
    ),
    "beta": (mp.beta, BETA_POINTS),
    "rel_entr": (
        lambda x, y: x * mp.log(x / y),
        [
            uniform_columns((0.1, 5), (0.1, 5)),
            log_uniform_columns((1e-8, 1e8), (1e-8, 1e8)),
            nearly_equal_pairs(0.1, 5),
        ],
    ),
    "kl_div": (
        lambda x, y: x * mp.log(x / y) - x + y,
        [
            uniform_columns((0.1, 5), (0.1, 5)),
            log_uniform_columns((1e-8, 1e8), (1e-8, 1e8)),
            nearly_equal_pairs(0.1, 5),
        ],
    ),
    "xlogy": (lambda x, y: x * mp.log(y), [uniform_columns((0.1, 5), (0.1, 5))]),
    "xlog1py": (lambda x, y: x * mp.log1p(y), [uniform_columns((0.1, 5), (-0.9, 5))]),
    "gammainc": (lambda a, x: mp.gammainc(a, 0, x, regularized=True), GAMMA_POINTS),
    "gammaincc": (lambda a, x: mp.gammainc(a, x, mp.inf, regularized=True), GAMMA_POINTS),
    "betainc": (
        lambda a, b, x: mp.betainc(a, b, 0, x, regularized=True),
        [
            *(
                uniform_columns((0.1, 60), (0.1, 60), (0, 1)),
                uniform_columns((0.05, 2), (0.05, 2), (0, 1)),
            ),
            *(
                log_uniform_columns((0.1, 60), (0.1, 60), (1e-13, 0.1)),
                beta_central_points(0.3, 60),
            ),
            *(beta_central_points(60, 500), beta_central_points(1, 500)),
        ],
    ),
}
"""Functions of several numbers, and the columns of their arguments."""
FUNCTIONS_OF_INTEGER_ORDER = {
    "polygamma": (
        mp.psi,
        (2, 3, 7, 60),
        [
            *random_of_all_magnitudes(1e-3, 1e3),
            *random_in_interval(0.1, 20),
            *random_in_interval(-4.95, -0.05, 20),
        ],
    ),
    "expn": (
        mp.workdps(400)(mp.expint),  # of large orders it is wrong in fewer digits
        (2, 3, 7, 100),
        [*random_of_all_magnitudes(1e-8, 600), *random_in_interval(0.01, 3)],
    ),
}
"""Functions with a whole order, the orders, and the numbers."""
OSCILLATING_FUNCTIONS = {"j0", "j1", "y0", "y1"}
"""The functions with unknown roots, whose error is compared with the size of the oscillation."""


def amplitude(name, x):
    order = int(name[1])
    x = abs(x)
    size = mp.sqrt(mp.besselj(order, x) ** 2 + (mp.bessely(order, x) ** 2 if x > 0.5 else 0))
    return (
        mp.sqrt(mp.besselj(order, x) ** 2 + mp.bessely(order, x) ** 2) if name[0] == "y" else size
    )


BESSEL_FUNCTIONS = {
    "jv": mp.besselj,
    "yv": mp.bessely,
    "iv": mp.besseli,
    "kv": mp.besselk,
    "ive": lambda v, x: mp.besseli(v, x) * mp.exp(-abs(x)),
    "kve": lambda v, x: mp.besselk(v, x) * mp.exp(x),
}
ORDERS = (0, 2, 5, 0.3, 2.5, 17.25, -0.5, -3, -1.7)


def bessel_record(name, order):
    """Return arguments, the values of a Bessel function of an order there, and the amplitudes of its oscillation."""
    function = BESSEL_FUNCTIONS[name]
    xs = [
        *np.geomspace(1e-4, 0.99, 10),
        *np.linspace(1.01, 31.9, 20),
        *np.geomspace(32.1, 500, 8),
        *(0.5, 1, 2, 32, 64),
    ]
    if name in ("iv", "ive") and order != int(order) < 0:
        xs += list(np.linspace(-order / 2, -order, 12))  # a root is there
    xs = [float(x) for x in xs]
    values = [mp.re(function(order, mp.mpf(x))) for x in xs]
    sizes = [abs(v) for v in values]
    if name in ("jv", "yv"):
        for k, x in enumerate(xs):
            if name == "yv" or x > abs(order) or order != int(order) < 0:
                sizes[k] = mp.sqrt(mp.besselj(order, x) ** 2 + mp.bessely(order, x) ** 2)
    kept = [k for k, (v, s) in enumerate(zip(values, sizes, strict=True)) if 1e-290 < s < 1e300]
    return {
        "x": [xs[k] for k in kept],
        "value": [float(values[k]) for k in kept],
        "size": [float(sizes[k]) for k in kept],
    }


if __name__ == "__main__":
    orders = {name: {str(v): bessel_record(name, v) for v in ORDERS} for name in BESSEL_FUNCTIONS}
    (Path(__file__).parent / "bessel_values.json").write_text(json.dumps(orders) + "\n", "utf-8")
    found = {}
    for name, (function, xs) in FUNCTIONS_AND_ARGUMENTS.items():
        xs = [float(x) for x in xs]
        values = [mp.re(function(mp.mpf(x))) for x in xs]
        log_uniform_columns = (
            [amplitude(name, x) for x in xs] if name in OSCILLATING_FUNCTIONS else values
        )
        found[name] = {
            "x": xs,
            "value": [float(v) for v in values],
            "size": [
                max(abs(float(s)), abs(float(v)))
                for s, v in zip(log_uniform_columns, values, strict=True)
            ],
        }
    (Path(__file__).parent / "special_values.json").write_text(json.dumps(found) + "\n", "utf-8")
    mp.mp.dps = 90  # terms of relative entropies cancel
    several = {}
    for name, (function, groups) in FUNCTIONS_OF_SEVERAL_ARGUMENTS.items():
        arguments = [np.concatenate(columns).tolist() for columns in zip(*groups, strict=True)]
        values = [float(function(*map(mp.mpf, each))) for each in zip(*arguments, strict=True)]
        several[name] = {"arguments": arguments, "value": values}
    path = Path(__file__).parent / "special_values_of_several.json"
    path.write_text(json.dumps(several) + "\n", "utf-8")
    orders = {}
    for name, (function, whole, xs) in FUNCTIONS_OF_INTEGER_ORDER.items():
        xs = [float(x) for x in xs]
        values = {n: [float(function(n, mp.mpf(x))) for x in xs] for n in whole}
        orders[name] = {"x": xs, "values": values}
    path = Path(__file__).parent / "special_values_of_orders.json"
    path.write_text(json.dumps(orders) + "\n", "utf-8")
