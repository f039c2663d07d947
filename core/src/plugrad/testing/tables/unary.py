"""Test rows of the elementwise functions of one tensor."""

import math
from typing import Any, Final

import numpy as np

import plugrad
from plugrad.kernels import unary
from plugrad.tensor.tensor import Tensor
from plugrad.testing.rows import (
    FLOATING_DTYPES,
    INTEGER_DTYPES,
    NUMBER_DTYPES,
    Row,
    extremes,
    fixed_values,
    numbers,
)
from plugrad.types.dtype import bool_, float32, float64, int8, int32, int64, uint8

any_number: Final = numbers()
"""An input of numbers of any sign."""
positive_numbers: Final = numbers(0.4, 9)
"""An input of positive numbers."""
numbers_away_from_0: Final = numbers(avoid=(0,))
"""An input of numbers that are not near 0."""
numbers_within_1: Final = numbers(-0.8, 0.8)
"""An input of numbers between -1 and 1."""
numbers_between_integers: Final = numbers(avoid=range(-3, 4))
"""An input of numbers that are not near integers."""
numbers_between_halves: Final = numbers(avoid=[n + 0.5 for n in range(-3, 3)])
"""An input of numbers that are not near odd multiples of 1/2."""
half_integers = fixed_values([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.5, -0.3, 7.0])
"""An input of odd multiples of 1/2 and of other numbers, for rounding."""


def clip_to_range(x: Tensor, *, clip_value_min: Any, clip_value_max: Any) -> Tensor:
    """Call `plugrad.clip` with the attributes of its kernel."""
    return plugrad.clip(x, clip_value_min, clip_value_max)


TEST_ROWS = [
    Row(unary.abs, np.abs, [numbers_away_from_0]),
    Row(unary.negative, np.negative, [any_number]),
    Row(unary.square, np.square, [any_number]),
    Row(unary.sign, np.sign, [numbers_away_from_0]),
    Row(unary.reciprocal, lambda x: 1 / x, [numbers(0.4, 3)]),
    Row(unary.sqrt, np.sqrt, [positive_numbers]),
    Row(unary.rsqrt, lambda x: 1 / np.sqrt(x), [positive_numbers]),
    Row(unary.ceil, np.ceil, [numbers_between_integers]),
    Row(unary.floor, np.floor, [numbers_between_integers]),
    Row(unary.round, np.round, [numbers_between_halves]),
    Row(unary.round, np.round, [half_integers], is_smooth=False),
    Row(unary.trunc, np.trunc, [numbers_between_integers]),
    Row(unary.trunc, np.trunc, [half_integers], is_smooth=False),
    Row(unary.exp, np.exp, [any_number]),
    Row(unary.expm1, np.expm1, [any_number]),
    Row(unary.log, np.log, [positive_numbers]),
    Row(unary.log1p, np.log1p, [numbers(-0.5, 9)]),
    Row(unary.log2, np.log2, [positive_numbers]),
    Row(unary.log10, np.log10, [positive_numbers]),
    Row(unary.sin, np.sin, [any_number]),
    Row(unary.cos, np.cos, [any_number]),
    Row(unary.tan, np.tan, [numbers(-1, 1)]),
    Row(unary.asin, np.arcsin, [numbers_within_1]),
    Row(unary.acos, np.arccos, [numbers_within_1]),
    Row(unary.atan, np.arctan, [numbers_within_1]),
    Row(unary.sinh, np.sinh, [any_number]),
    Row(unary.cosh, np.cosh, [any_number]),
    Row(unary.tanh, np.tanh, [any_number]),
    Row(unary.asinh, np.arcsinh, [any_number]),
    Row(unary.acosh, np.arccosh, [numbers(1.5, 9)]),
    Row(unary.atanh, np.arctanh, [numbers_within_1]),
    Row(unary.erf, np.vectorize(math.erf, otypes=[float]), [any_number]),
    Row(unary.is_finite, np.isfinite, [any_number], op=plugrad.isfinite),
    Row(unary.is_inf, np.isinf, [any_number], op=plugrad.isinf),
    Row(unary.is_nan, np.isnan, [any_number], op=plugrad.isnan),
    Row(unary.sign_bit, np.signbit, [any_number], op=plugrad.signbit),
    Row(unary.logical_not, np.logical_not, [any_number]),
    Row(unary.identity, np.copy, [any_number], dtypes=NUMBER_DTYPES),
    *(
        Row(
            unary.step,
            lambda x, a=alpha: np.where(np.isnan(x), x, np.where(x > 0, 1, a)),
            [numbers_away_from_0],
            {"alpha": alpha},
            dtypes=dtypes,
        )
        for alpha, dtypes in [(0.0, ()), (-0.5, ("float32", "float64"))]
    ),
    *(
        Row(
            unary.clip_by_value,
            lambda x, a=low, b=high: np.clip(x, a, b),
            [numbers(avoid=(low, high))],
            {"clip_value_min": low, "clip_value_max": high},
            op=clip_to_range,
        )
        for low, high in [(1, 2), (0, 2)]
    ),
    *(
        Row(
            unary.cast,
            np.real,
            [fixed_values([0, 1, 2, 3, 100])],
            {"dtype": dtype},
            is_smooth=dtype is float64,
            is_special=False,
        )
        for dtype in (float32, float64, int32, int64, int8, uint8, bool_)
    ),
    Row(
        unary.negative,
        np.negative,
        [extremes()],
        dtypes=(*FLOATING_DTYPES, *INTEGER_DTYPES),
        is_edge=True,
    ),
    Row(
        unary.identity,
        np.copy,
        [extremes()],
        dtypes=(*FLOATING_DTYPES, *INTEGER_DTYPES),
        is_edge=True,
    ),
    Row(
        unary.sign, np.sign, [extremes()], dtypes=(*FLOATING_DTYPES, *INTEGER_DTYPES), is_edge=True
    ),
    Row(unary.cast, np.copy, [extremes()], {"dtype": float32}, dtypes=INTEGER_DTYPES, is_edge=True),
    Row(
        unary.clip_by_value,
        lambda x: np.minimum(x, 1),
        [numbers()],
        {"clip_value_min": -np.inf, "clip_value_max": 1},
        dtypes=FLOATING_DTYPES,
        is_edge=True,
    ),
    Row(
        unary.cast,
        np.trunc,
        [fixed_values([-2.7, -1, -0.3, 0, 0.3, 2.7])],
        {"dtype": int32},
        dtypes=FLOATING_DTYPES,
        is_smooth=False,
        is_special=False,
    ),
]
