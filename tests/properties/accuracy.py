"""Measured errors of results on each backend, and the page that lists them.

An error is a number of units in the last place (ulp) of the exact result: the distance between numbers of the dtype
next to it. It is measured for random arguments, which are the same in every run.
"""

from __future__ import annotations

import math
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

import plugrad
from plugrad.errors import KernelNotFound, UnsupportedDtype
from plugrad.kernels import activation, binary, unary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from plugrad.contract.kernel import Kernel

    Array = NDArray[Any]

MACHINES: Final = {
    "cpu-with-packs": "cpu",
    "cpu": "cpu, NumPy alone",
    "wasm": "wasm",
    "webgpu": "webgpu",
}
"""What is measured, by the names that `use_machine` takes, and how the page calls it."""
ARGUMENT_COUNT: Final = 20_000
ROUNDED_ERRORS_IN_ULPS: Final = (
    0.5,
    1,
    1.5,
    2,
    3,
    4,
    5,
    6,
    8,
    10,
    15,
    20,
    30,
    50,
    100,
    200,
    500,
    1000,
    1e4,
    1e5,
    1e6,
)
"""The figures of the page. A measured error below it by a sixth or more gets a figure, since processors differ."""
FIGURE_HEADROOM_FACTOR: Final = 1.2
SAMPLE_COUNT_OF_LENGTH: Final = {10: 64, 1000: 64, 100_000: 8, 1_000_000: 3}
"""How often numbers are reduced, by their count. Their errors vary more than others: see `published_error`."""
HAS_LONG_DOUBLES: Final = np.finfo(np.longdouble).nmant >= 63
"""Whether NumPy has numbers with which results in double precision can be compared."""


class Function(NamedTuple):
    """A kernel whose accuracy is measured: its exact reference, and the domains of its arguments."""

    kernel: Kernel[..., Any]
    reference: Callable[..., Array]
    domains: tuple[tuple[float, float], ...]


def erf(x: Array) -> Array:
    """Return the error function with the precision of the C library, or better where it is close to 1."""
    return np.vectorize(math.erf, otypes=[np.longdouble])(x.astype(np.float64))


def gelu(x: Array) -> Array:
    """Return x P(x), computed as max(x, 0) - |x| P(-|x|), where P is the normal distribution function."""
    m = np.abs(x).astype(np.longdouble)
    rounded = (m / np.sqrt(np.longdouble(2))).astype(np.float64)
    below = np.vectorize(math.erfc, otypes=[np.longdouble])(rounded)
    below *= np.exp(rounded.astype(np.longdouble) ** 2 - m * m / 2)  # what rounding changes
    return np.maximum(x, 0) - m * below / 2


ANGLE_DOMAINS: Final = (
    (-1e-3, 1e-3),
    (-0.8, 0.8),
    (-30, 30),
    (4000, 5000),
    (-1e6, 1e6),
    (-3e38, 3e38),
)
FUNCTIONS: Final = [
    Function(unary.sqrt, np.sqrt, ((0, 100),)),
    Function(unary.rsqrt, lambda x: 1 / np.sqrt(x), ((0.01, 100),)),
    Function(unary.reciprocal, lambda x: 1 / x, ((0.01, 100),)),
    Function(unary.exp, np.exp, ((-1, 1), (-87, 88))),
    Function(unary.expm1, np.expm1, ((-1e-3, 1e-3), (-5, 5))),
    Function(unary.log, np.log, ((1e-6, 100), (0.5, 1.5), (1e-37, 1e38))),
    Function(unary.log1p, np.log1p, ((-1e-3, 1e-3), (-0.9, 3))),
    Function(unary.log2, np.log2, ((1e-6, 100), (0.5, 1.5))),
    Function(unary.log10, np.log10, ((1e-6, 100), (0.5, 1.5))),
    Function(unary.sin, np.sin, ANGLE_DOMAINS),
    Function(unary.cos, np.cos, ANGLE_DOMAINS),
    Function(unary.tan, np.tan, ANGLE_DOMAINS),
    Function(unary.asin, np.arcsin, ((-1, 1),)),
    Function(unary.acos, np.arccos, ((-1, 1),)),
    Function(unary.atan, np.arctan, ((-1, 1), (-10, 10))),
    Function(unary.sinh, np.sinh, ((-1e-3, 1e-3), (-20, 20))),
    Function(unary.cosh, np.cosh, ((-20, 20),)),
    Function(unary.tanh, np.tanh, ((-1e-3, 1e-3), (-5, 5))),
    Function(unary.asinh, np.arcsinh, ((-1, 1), (-100, 100))),
    Function(unary.acosh, np.arccosh, ((1, 100),)),
    Function(unary.atanh, np.arctanh, ((-0.99, 0.99),)),
    Function(unary.erf, erf, ((-1, 1), (-4, 4))),
    Function(activation.sigmoid, lambda x: 1 / (1 + np.exp(-x)), ((-20, 20), (-87, 20))),
    Function(activation.softplus, lambda x: np.logaddexp(x, 0), ((-20, 20),)),
    Function(activation.gelu, gelu, ((-1e-30, 1e-30), (-3, 0), (-12, -3), (0, 12))),
    Function(binary.divide, np.divide, ((0.01, 100), (-5, 5))),
    Function(binary.hypot, np.hypot, ((-1, 1), (-100, 100))),
    Function(binary.atan2, np.arctan2, ((-1, 1), (-5, 5))),
    Function(binary.power, np.power, ((0.01, 10), (-5, 5))),
    Function(binary.power, np.power, ((0.5, 3), (-60, 60))),
    Function(binary.power, np.power, ((0.999, 1.001), (-8e4, 8e4))),
    Function(binary.power, np.power, ((1e-37, 1e38), (-0.9, 0.9))),
]
"""Functions of floats; of two of them, the domains are those of the operands."""

COMPLEX: Final = [
    Function(kernel, reference, ())
    for kernel, reference in [
        (unary.square, np.square),
        (unary.reciprocal, np.reciprocal),
        (unary.sqrt, np.sqrt),
        (unary.rsqrt, lambda z: 1 / np.sqrt(z)),
        (unary.exp, np.exp),
        (unary.expm1, lambda z: 2 * np.exp(z / 2) * np.sinh(z / 2)),
        (unary.log, np.log),
        (unary.log1p, lambda z: 2 * np.arctanh(z / (2 + z))),
        (unary.sin, np.sin),
        (unary.cos, np.cos),
        (unary.tan, np.tan),
        (unary.asin, np.arcsin),
        (unary.acos, np.arccos),
        (unary.atan, np.arctan),
        (unary.sinh, np.sinh),
        (unary.cosh, np.cosh),
        (unary.tanh, np.tanh),
        (unary.asinh, np.arcsinh),
        (unary.acosh, np.arccosh),
        (unary.atanh, np.arctanh),
    ]
]
"""Functions of complex numbers, whose parts have sizes from 1e-6 to 30."""


# --- measuring -----------------------------------------------------------------------------------


def units_in_last_place(actual: Array, exact: Array, dtype: str) -> float:
    """Return the largest error in units in the last place; infinity if only one is NaN or infinite."""
    with np.errstate(all="ignore"):
        nearest = exact.astype(dtype)
        sizes = np.spacing(np.minimum(np.abs(nearest), np.finfo(dtype).max)).astype(exact.dtype)
        errors = np.abs(actual.astype(exact.dtype) - exact) / sizes
    errors = np.where(
        (nearest == actual) | (np.isnan(nearest) & np.isnan(actual)),
        np.minimum(errors, 0.5),
        errors,
    )
    return float(np.where(np.isnan(errors), np.inf, errors).max())


def run_kernel(kernel: Kernel[..., Any], *arrays: Array) -> Array:
    """Return the result of a kernel on the active backend."""
    return kernel(*map(plugrad.asarray, arrays)).numpy()


@cache
def random_arguments(domain: tuple[float, float], place: int, dtype: str) -> Array:
    """Return random numbers of a domain, spread over all its magnitudes."""
    rng = np.random.default_rng(place)
    low, high = domain
    if low > 0 and high / low > 1e12:
        return (10 ** rng.uniform(math.log10(low), math.log10(high), ARGUMENT_COUNT)).astype(dtype)
    return rng.uniform(low, high, ARGUMENT_COUNT).astype(dtype)


@cache
def exact_result(function: Function, domain: int, dtype: str) -> Array:
    """Return the exact result of a function for a domain, cached for all backends."""
    wide = np.float64 if dtype == "float32" else np.longdouble
    with np.errstate(all="ignore"):
        exact = function.reference(*[x.astype(wide) for x in arguments_of(function, domain, dtype)])
    return exact.astype(wide)


def arguments_of(function: Function, domain: int, dtype: str) -> list[Array]:
    """Return the arguments of a function for a domain: one array, or two for a binary function."""
    has_two = len(function.kernel.inputs) == 2
    chosen = function.domains if has_two else function.domains[domain : domain + 1]
    return [random_arguments(one, place, dtype) for place, one in enumerate(chosen)]


def function_error(function: Function, domain: int, dtype: str) -> float:
    """Return the error of a function in one of its domains."""
    actual = run_kernel(function.kernel, *arguments_of(function, domain, dtype))
    return units_in_last_place(actual, exact_result(function, domain, dtype), dtype)


@cache
def complex_arguments(dtype: str) -> Array:
    """Return random complex numbers with magnitudes from 1e-6 to 30."""
    rng = np.random.default_rng(0)
    x, y = 10.0 ** rng.uniform(-6, 1.5, (2, ARGUMENT_COUNT)) * rng.choice(
        [-1, 1], (2, ARGUMENT_COUNT)
    )
    return (x + 1j * y).astype(dtype)


@cache
def exact_complex_result(function: Function, dtype: str) -> Array:
    """Return the exact result of a function of complex numbers, cached for all backends."""
    wide = np.complex128 if dtype == "complex64" else np.clongdouble
    return function.reference(complex_arguments(dtype).astype(wide))


def complex_error(function: Function, dtype: str) -> float:
    """Return the error of a complex result relative to its absolute value, in units in the last place."""
    real = np.float32 if dtype == "complex64" else np.float64
    actual = run_kernel(function.kernel, complex_arguments(dtype))
    exact = exact_complex_result(function, dtype)
    return float((np.abs(actual - exact) / np.spacing(np.abs(exact).astype(real))).max())


class Reduction(NamedTuple):
    """A function that reduces many numbers to one, and its exact reference.

    Args:
        name: what it is, and in units of what its errors are.
        draw: makes the numbers, from a seed, how many they are, and their dtype.
        compute: what the active backend gives for them.
        reference: what is right, and the size in whose units errors are measured.
    """

    name: str
    draw: Callable[[int, int, str], Sequence[Array]]
    compute: Callable[..., Any]
    reference: Callable[..., tuple[Any, Any]]


@cache
def exact_reduction(fold: Reduction, seed: int, length: int, dtype: str) -> tuple[Any, Any]:
    """Return the exact result of a reduction and the size to which its error is relative, cached for all backends.

    The numbers are drawn again for each backend, because a million of them take megabytes.
    """
    return fold.reference(*fold.draw(seed, length, dtype))


def reduction_error(fold: Reduction, seed: int, length: int, dtype: str) -> float:
    """Return the error of a reduction, in units in the last place of a size."""
    y = fold.compute(*map(plugrad.asarray, fold.draw(seed, length, dtype)))
    exact, size = exact_reduction(fold, seed, length, dtype)
    return float(np.abs(np.longdouble(y.item()) - exact) / np.spacing(np.abs(size).astype(dtype)))


def random_positive_numbers(seed: int, length: int, dtype: str) -> Array:
    """Return positive random numbers around 1."""
    return np.random.default_rng(seed).uniform(0.5, 1.5, length).astype(dtype)


def random_alternating_numbers(seed: int, length: int, dtype: str) -> Array:
    """Return random numbers of which every second is negative."""
    return random_positive_numbers(seed, length, dtype) * np.resize(
        np.array([1, -1], dtype), length
    )


def random_factors(seed: int, length: int, dtype: str) -> Array:
    """Return random numbers whose product neither overflows nor underflows."""
    rng = np.random.default_rng(seed)
    return np.exp(rng.normal(0, 1 / math.sqrt(length), length)).astype(dtype)


def random_numbers_near_100(seed: int, length: int, dtype: str) -> Array:
    """Return random numbers that differ little relative to their size."""
    return (random_positive_numbers(seed, length, dtype) + 100).astype(dtype)


def random_row_and_column(seed: int, length: int, dtype: str) -> Sequence[Array]:
    """Return a row and a column of normally distributed numbers."""
    a, b = np.random.default_rng(seed).normal(size=(2, length)).astype(dtype)
    return a[None], b[:, None]


def single_argument(
    draw: Callable[[int, int, str], Array],
) -> Callable[[int, int, str], Sequence[Array]]:
    """Return a function that makes the only argument of a reduction."""
    return lambda seed, length, dtype: [draw(seed, length, dtype)]


def with_result_as_size(reference: Callable[[Array], Any]) -> Callable[[Array], tuple[Any, Any]]:
    """Return a function that returns the exact result twice; the error is relative to the result."""

    def measured_by_itself(x: Array) -> tuple[Any, Any]:
        exact = np.asarray(reference(x.astype(np.longdouble)))
        return exact, exact

    return measured_by_itself


def exact_sum(x: Array) -> tuple[Any, Any]:
    """Return the exact sum of numbers, and the sum of their absolute values."""
    exact = np.asarray(math.fsum(x.tolist()))
    is_positive = x.min() > 0  # and the sum of the sizes is the sum itself
    return exact, exact if is_positive else np.asarray(math.fsum(np.abs(x).tolist()))


def exact_inner_product(a: Array, b: Array) -> tuple[Any, Any]:
    """Return the exact inner product, and the sum of the products' absolute values."""
    products = a[0].astype(np.longdouble) * b[:, 0].astype(np.longdouble)
    return np.sum(products), np.sum(np.abs(products))


REDUCTIONS: Final = [
    Reduction(
        "Sum, in units of it", single_argument(random_positive_numbers), plugrad.sum, exact_sum
    ),
    Reduction(
        "Sum of both signs, in units of the sum of sizes",
        single_argument(random_alternating_numbers),
        plugrad.sum,
        exact_sum,
    ),
    Reduction(
        "Product, in units of it",
        single_argument(random_factors),
        plugrad.prod,
        with_result_as_size(np.prod),
    ),
    Reduction(
        "Norm, in units of it",
        single_argument(random_positive_numbers),
        plugrad.linalg.norm,
        with_result_as_size(lambda x: np.sqrt(np.sum(x * x))),
    ),
    Reduction(
        "Variance of numbers around 100, in units of it",
        single_argument(random_numbers_near_100),
        plugrad.var,
        with_result_as_size(np.var),
    ),
    Reduction(
        "Inner product of both signs, in units of the sum of the sizes of its terms",
        random_row_and_column,
        plugrad.matmul,
        exact_inner_product,
    ),
]


def iter_page_rows(dtype: str) -> Iterator[tuple[str, Callable[[], float]]]:
    """Yield (start of the row, function that measures) for each row of the page for a dtype."""
    if "complex" in dtype:
        for function in COMPLEX:
            yield function.kernel.name, lambda f=function: complex_error(f, dtype)
        return
    for function in FUNCTIONS:
        has_two = len(function.kernel.inputs) == 2
        for i, (low, high) in enumerate(function.domains[: 1 if has_two else None]):
            second = function.domains[1] if has_two else None
            text = f"{low:g} to {high:g}" + (f"; {second[0]:g} to {second[1]:g}" if second else "")
            yield (
                f"{function.kernel.name} | {text}",
                lambda f=function, i=i: function_error(f, i, dtype),
            )


def iter_reduction_rows(dtype: str) -> Iterator[tuple[str, Callable[[], float]]]:
    """Yield the rows of the page about reductions."""
    for fold in REDUCTIONS:
        for length, samples in SAMPLE_COUNT_OF_LENGTH.items():
            yield (
                f"{fold.name} | {length:,}",
                lambda f=fold, n=length, k=samples: max(
                    reduction_error(f, seed, n, dtype) for seed in range(k)
                ),
            )


SECTIONS: Final = {
    "float32": ("| function | arguments", iter_page_rows),
    "float64": ("| function | arguments", iter_page_rows),
    "complex64": ("| function", iter_page_rows),
    "complex128": ("| function", iter_page_rows),
    "float32 by length": ("| what | numbers", iter_reduction_rows),
    "float64 by length": ("| what | numbers", iter_reduction_rows),
}


def measure_section(section: str, only: str = "") -> dict[str, float]:
    """Return the errors of the rows of a section that begin with `only`; what the backend lacks is left out."""
    dtype = section.partition(" ")[0]
    found: dict[str, float] = {}
    if dtype in ("float64", "complex128") and not HAS_LONG_DOUBLES:
        return found
    for name, measure in SECTIONS[section][1](dtype):
        if not name.startswith(only):
            continue
        try:
            found[name] = measure()
        except (KernelNotFound, UnsupportedDtype):
            continue
    return found


# --- the page ------------------------------------------------------------------------------------

PAGE_FILE: Final = Path(__file__).parents[2] / "docs" / "reference" / "accuracy.md"
PAGE_OPENING: Final = """\
# Accuracy

Generated by `make docs` from measurements of `tests/properties/accuracy.py`; a test fails when an error grows beyond
its figure.

Figures are errors in units in the last place (ulp) of the exact result: 0.5 is a result rounded once, 1 the distance
between two neighbours. No error of 20,000 random arguments in each range was larger. "–" means that the backend does
not have the dtype.

"cpu" is what `pip install plugrad` gives, with native code; "cpu, NumPy alone" is without that pack. webgpu was
measured on lavapipe, a driver that computes on the processor; other drivers may round products and sums differently.
"""
SECTION_TEXTS: Final = {
    **dict.fromkeys(
        ("complex64", "complex128"),
        "The error of both parts together, in units of the absolute value. The parts of the arguments have "
        "sizes from 1e-6 to 30.",
    ),
    "float32 by length": "The sums and products are of numbers between 0.5 and 1.5, or their like. Figures are twice "
    "the errors that were measured. Those of lengths in between lie between those of the rows.",
}


def published_error(error: float, section: str) -> float:
    """Return the error that the page shows for a measured one: twice the error for a few sums."""
    if section.endswith("length"):
        return next(
            (step for step in ROUNDED_ERRORS_IN_ULPS if step >= max(1, error * 2)), math.inf
        )
    if error <= 0.5:
        return 0.5
    return next(
        (step for step in ROUNDED_ERRORS_IN_ULPS if step >= error * FIGURE_HEADROOM_FACTOR),
        math.inf,
    )


def committed_errors() -> dict[tuple[str, str, str], float]:
    """Return the errors on the committed page by section, row and machine."""
    found: dict[tuple[str, str, str], float] = {}
    section = ""
    for line in PAGE_FILE.read_text("utf-8").splitlines() if PAGE_FILE.exists() else []:
        if line.startswith("## "):
            section = line.removeprefix("## ")
        elif section and re.match(r"\| [A-Z]", line):
            cells = [cell.strip() for cell in line.strip("| ").split("|")]
            names, figures = cells[: -len(MACHINES)], cells[-len(MACHINES) :]
            for machine, text in zip(MACHINES, figures, strict=True):
                if text != "–":
                    found[section, " | ".join(names), machine] = float(text)
    return found


def accuracy_page() -> str:
    """Return the page with the committed errors, updated where there are none or an error is larger.

    To measure all of them anew, remove the page first.
    """
    from properties.test_invariances import use_machine

    known = committed_errors()
    figures: dict[tuple[str, str, str], float] = {}
    for machine in MACHINES:
        with use_machine(machine):
            for section in SECTIONS:
                for name, error in measure_section(section).items():
                    key = section, name, machine
                    figures[key] = (
                        known[key]
                        if error <= known.get(key, -1)
                        else published_error(error, section)
                    )
    return format_page(figures if HAS_LONG_DOUBLES else known | figures)


def format_page(figures: dict[tuple[str, str, str], float]) -> str:
    """Return the text of the page, given the errors by section, row and machine."""
    lines = [PAGE_OPENING]
    for section, (heading, _) in SECTIONS.items():
        names = list(dict.fromkeys(name for s, name, _ in figures if s == section))
        lines += [
            f"## {section}",
            "",
            *([SECTION_TEXTS[section], ""] if section in SECTION_TEXTS else []),
        ]
        lines += [f"{heading} | {' | '.join(MACHINES.values())} |"]
        lines += ["|---|" + "---|" * (heading.count("|") - 1 + len(MACHINES))]
        for name in names:
            cells = [figures.get((section, name, machine)) for machine in MACHINES]
            texts = ["–" if cell is None else f"{cell:g}" for cell in cells]
            lines.append(f"| {name} | {' | '.join(texts)} |")
        lines.append("")
    return "\n".join(lines)
