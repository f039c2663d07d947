"""Test rows of the elementwise functions of two tensors; broadcasting is tested as an edge case."""

# What references take is an array, which a lambda has no place to say.
# pyright: basic

from typing import Final

import numpy as np

import plugrad
from plugrad.kernels import binary
from plugrad.testing.rows import (
    FLOATING_DTYPES,
    INTEGER_DTYPES,
    NUMBER_DTYPES,
    ROW_DTYPE,
    Row,
    bools,
    distinct_numbers,
    extremes,
    integers,
    numbers,
)

any_number: Final = numbers()
"""An input of numbers of any sign."""
nonzero_numbers: Final = numbers(avoid=(0,))
"""An input of numbers that are not near 0."""
positive_numbers: Final = numbers(0.4, 3)
"""An input of positive numbers."""
well_separated_numbers: Final = [distinct_numbers(3, 5, step=0.5), numbers(-0.2, 0.2, avoid=(0,))]
"""Two inputs without equal elements, for comparisons."""
often_equal_numbers: Final = integers(-2, 2, 3, 5, dtype=ROW_DTYPE)
"""An input of small integers, of which two draws often agree."""
SIGNED_DTYPES = (*FLOATING_DTYPES, "int32", "int64", "int8", "int16")
ORDERED_DTYPES = tuple(name for name in NUMBER_DTYPES if not name.startswith("complex"))

TEST_ROWS = [
    Row(binary.add, np.add, [any_number, any_number]),
    Row(binary.subtract, np.subtract, [any_number, any_number]),
    Row(binary.multiply, np.multiply, [any_number, any_number]),
    Row(binary.divide, np.divide, [any_number, positive_numbers]),
    *(
        Row(kernel, reference, inputs, dtypes=dtypes, is_smooth=False)
        for kernel, reference in [
            (binary.floor_divide, np.floor_divide),
            (binary.remainder, np.remainder),
        ]
        for inputs, dtypes in [
            ([numbers(-9, 9), nonzero_numbers], ()),
            ([numbers(-90, 90), numbers(1, 7)], ()),
            ([numbers(-90, 90), numbers(-7, -1)], SIGNED_DTYPES),
        ]
    ),
    *(
        Row(binary.remainder, np.remainder, inputs, dtypes=FLOATING_DTYPES)
        for inputs in [
            [numbers(0.2, 0.8), numbers(1, 2)],
            [numbers(2.2, 2.8), numbers(-1.05, -0.95)],
            [numbers(-2.8, -2.2), numbers(1, 1.05)],
        ]
    ),
    Row(binary.power, np.power, [positive_numbers, positive_numbers], op=plugrad.pow),
    Row(
        binary.power,
        np.power,
        [positive_numbers, any_number],
        dtypes=FLOATING_DTYPES[:2],
        op=plugrad.pow,
    ),
    Row(
        binary.power,
        np.power,
        [numbers(-4, 4), numbers(0, 5)],
        dtypes=["int32", "int64"],
        op=plugrad.pow,
    ),
    Row(binary.squared_difference, lambda a, b: np.square(a - b), [any_number, any_number]),
    Row(binary.maximum, np.maximum, well_separated_numbers),
    Row(binary.minimum, np.minimum, well_separated_numbers),
    Row(binary.atan2, np.arctan2, [nonzero_numbers, nonzero_numbers]),
    Row(binary.hypot, np.hypot, [nonzero_numbers, nonzero_numbers]),
    Row(binary.log_add_exp, np.logaddexp, [any_number, any_number], op=plugrad.logaddexp),
    *(
        Row(
            binary.next_after,
            lambda a, b, d=dtype: np.nextafter(a.astype(d), b.astype(d)),
            [any_number, any_number],
            dtypes=[dtype],
            op=plugrad.nextafter,
        )
        for dtype in ("float32", "float64")
    ),
    *(
        Row(kernel, reference, [x, x], dtypes=dtypes)
        for x in [numbers(-2, 2), often_equal_numbers]
        for kernel, reference, dtypes in [
            (binary.equal, np.equal, NUMBER_DTYPES),
            (binary.not_equal, np.not_equal, NUMBER_DTYPES),
            (binary.greater, np.greater, ORDERED_DTYPES),
            (binary.greater_equal, np.greater_equal, ORDERED_DTYPES),
            (binary.less, np.less, ORDERED_DTYPES),
            (binary.less_equal, np.less_equal, ORDERED_DTYPES),
        ]
    ),
    Row(binary.logical_and, np.logical_and, [any_number, any_number]),
    Row(binary.logical_or, np.logical_or, [any_number, any_number]),
    Row(binary.logical_xor, np.logical_xor, [any_number, any_number]),
    Row(
        binary.select,
        np.where,
        [bools(3, 5), any_number, any_number],
        dtypes=NUMBER_DTYPES,
        op=plugrad.where,
    ),
    *(Row(binary.add_n, lambda *xs: sum(xs), [any_number] * n) for n in (2, 5)),
    Row(binary.add_n, np.copy, [any_number]),
    # An integer divided by 0 is 0, and so is what remains of it.
    *(
        Row(
            kernel,
            lambda a, b: np.zeros_like(a),
            [numbers(-9, 9), numbers(0, 0)],
            dtypes=INTEGER_DTYPES,
            is_edge=True,
        )
        for kernel in (binary.floor_divide, binary.remainder)
    ),
    # Whole numbers wrap around; floats become infinite.
    *(
        Row(
            kernel,
            reference,
            [extremes(), extremes(by_column=True)],
            dtypes=(*FLOATING_DTYPES, *INTEGER_DTYPES),
            is_edge=True,
        )
        for kernel, reference in [
            (binary.add, np.add),
            (binary.subtract, np.subtract),
            (binary.multiply, np.multiply),
            (binary.maximum, np.maximum),
            (binary.minimum, np.minimum),
            (binary.equal, np.equal),
            (binary.less, np.less),
            (binary.greater_equal, np.greater_equal),
        ]
    ),
    Row(
        binary.power,
        lambda a, b: np.square(a),
        [nonzero_numbers, numbers(2, 2)],
        dtypes=(*FLOATING_DTYPES, *INTEGER_DTYPES),
        is_edge=True,
    ),
]
