"""Test rows of the kernels that create tensors."""

import numpy as np

from plugrad.kernels import creation
from plugrad.testing.rows import INTEGER_DTYPES, NUMBER_DTYPES, ROW_DTYPE, Row, arbitrary_numbers

FLOAT_DTYPES = ("float32", "float64")

TEST_ROWS = [
    *(
        Row(
            creation.fill,
            lambda s=shape, v=value: np.full(s, v),
            attrs={"shape": shape, "value": value, "dtype": ROW_DTYPE},
            dtypes=NUMBER_DTYPES,
            is_edge=not shape or 0 in shape,
        )
        for shape, value in [((2, 3), 1), ((3,), 0), ((), 1), ((2, 0), 1)]
    ),
    *(
        Row(
            creation.fill,
            lambda v=value: np.full((2, 3), v),
            attrs={"shape": (2, 3), "value": value, "dtype": ROW_DTYPE},
            dtypes=FLOAT_DTYPES,
            is_edge=True,
        )
        for value in (np.inf, -np.inf, np.nan)
    ),
    Row(creation.zeros_like, np.zeros_like, [arbitrary_numbers(2, 3)]),
    Row(creation.ones_like, np.ones_like, [arbitrary_numbers(2, 3)]),
    *(
        Row(
            creation.range,
            lambda a=start, b=stop, s=step: np.arange(a, b, s),
            attrs={"start": start, "stop": stop, "step": step, "dtype": ROW_DTYPE},
            dtypes=dtypes,
            is_edge=start == stop,
        )
        for start, stop, step, dtypes in [
            (0, 7, 1, (*FLOAT_DTYPES, *INTEGER_DTYPES)),
            (9, 0, -2, (*FLOAT_DTYPES, "int32")),
            (0.5, 3.2, 0.25, FLOAT_DTYPES),
            (3, 3, 1, (*FLOAT_DTYPES, "int32")),
        ]
    ),
    *(
        Row(
            creation.linspace,
            lambda a=start, b=stop, n=num: np.linspace(a, b, n),
            attrs={"start": start, "stop": stop, "num": num, "dtype": ROW_DTYPE},
            dtypes=FLOAT_DTYPES,
            is_edge=num < 2,
        )
        for start, stop, num in [(0, 1, 5), (3, -2, 7), (1, 2, 1), (0, 1, 0)]
    ),
]
