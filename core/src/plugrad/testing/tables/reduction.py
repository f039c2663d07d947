"""Test rows of reductions along axes and of counts in bins."""

# What references take is an array, which a lambda has no place to say.
# pyright: basic

from collections.abc import Callable
from typing import Any, Final

import numpy as np

import plugrad
from plugrad.contract.kernel import Kernel
from plugrad.kernels import reduction
from plugrad.tensor.tensor import Tensor
from plugrad.testing.rows import (
    FLOATING_DTYPES,
    INTEGER_DTYPES,
    Array,
    Input,
    Row,
    distinct_numbers,
    extremes,
    fixed_values,
    integers,
    numbers,
)

INPUT_SHAPE = (2, 3, 4)
any_number: Final = numbers(shape=INPUT_SHAPE)
"""An input of numbers of any sign."""
numbers_near_1: Final = numbers(0.5, 2, shape=INPUT_SHAPE)
"""An input of numbers from 0.5 to 2, whose product is not large."""
NAN, INF = np.nan, np.inf


def as_kernel_reduction(op: Callable[..., Any], keeps_dtype: bool = False) -> Callable[..., Any]:
    """Return an op as a function with its kernel's attributes, which keeps the dtype of integers if `keeps_dtype`."""

    def reduce(x: Tensor, *, keep_dims: bool = False, **axes: tuple[int, ...]) -> Tensor:
        (axis,) = axes.values()
        options = {"dtype": x.dtype} if keeps_dtype else {}
        return op(x, axis=axis, keepdims=keep_dims, **options)

    return reduce


OP_OF_KERNEL: dict[Kernel[..., Any], Callable[..., Any]] = {
    reduction.sum: as_kernel_reduction(plugrad.sum, keeps_dtype=True),
    reduction.prod: as_kernel_reduction(plugrad.prod, keeps_dtype=True),
    reduction.mean: as_kernel_reduction(plugrad.mean),
    reduction.variance: as_kernel_reduction(plugrad.var),
    reduction.euclidean_norm: as_kernel_reduction(plugrad.euclidean_norm),
    reduction.max: as_kernel_reduction(plugrad.max),
    reduction.min: as_kernel_reduction(plugrad.min),
    reduction.all: as_kernel_reduction(plugrad.all),
    reduction.any: as_kernel_reduction(plugrad.any),
}
"""The public op of each kernel, as a function with the kernel's attributes."""


def reduction_rows(
    kernel: Kernel[..., Any],
    reference: Callable[..., Any],
    x_input: Input,
    *axes: tuple[int, ...],
    keep_dims: bool = False,
    **row_options: Any,
) -> list[Row]:
    """Return a row of a reduction for each choice of axes; `row_options` are further fields of the rows."""
    name = "reduction_indices" if kernel is reduction.max else "axis"
    return [
        Row(
            kernel,
            lambda x, axis=axis: reference(x, axis=axis, keepdims=keep_dims),
            [x_input],
            {name: axis, "keep_dims": keep_dims},
            op=OP_OF_KERNEL[kernel],
            **row_options,
        )
        for axis in axes
    ]


def count_in_bins(x: Array, weights: Array | None, bin_count: int) -> Array:
    """Return the count, or the sum of weights, of each number."""
    hits = x[..., None] == np.arange(bin_count)
    return (hits if weights is None else hits * weights[..., None]).sum(-2)


def euclidean_norm(x: Array, axis: tuple[int, ...], keepdims: bool) -> Array:
    """Return the root of the sum of squares."""
    return np.sqrt(np.square(x).sum(axis=axis, keepdims=keepdims))


REDUCTION_CASES: list[tuple[Kernel[..., Any], Callable[..., Any], Input]] = [
    (reduction.sum, np.sum, any_number),
    (reduction.prod, np.prod, numbers_near_1),
    (reduction.mean, np.mean, any_number),
    (reduction.variance, np.var, any_number),
    (reduction.euclidean_norm, euclidean_norm, any_number),
    (reduction.max, np.max, distinct_numbers(*INPUT_SHAPE)),
    (reduction.min, np.min, distinct_numbers(*INPUT_SHAPE)),
    (reduction.all, np.all, any_number),
    (reduction.any, np.any, any_number),
]
"""Kernels, each with NumPy's function and an input."""
REDUCTIONS_OF_NO_ELEMENTS: list[tuple[Kernel[..., Any], Callable[..., Any]]] = [
    (reduction.sum, np.sum),
    (reduction.prod, np.prod),
    (reduction.all, np.all),
    (reduction.any, np.any),
]
"""Kernels that reduce empty inputs, each with NumPy's function."""
bin_indices: Final = integers(-1, 6, 9)
"""An input of integers, some of which are outside the bins."""
extreme_values: Final = extremes(by_column=True)
"""An input of all pairs of a dtype's extreme values."""
EXTREME_VALUE_MATRIX = Input(lambda *given: extreme_values.draw(*given).reshape(6, 6), (6, 6))
"""An input of the same values as `extreme_values`, as a 6 × 6 matrix."""

TEST_ROWS = [
    *(
        row
        for fold in REDUCTION_CASES
        for row in reduction_rows(*fold, (1,), (2,), (0, 1), (1, 2), (0, 2), (0, 1, 2), ())
    ),
    *(
        row
        for fold in REDUCTION_CASES
        for row in reduction_rows(*fold, (0,), (0, 1), (1, 2), (0, 1, 2), (), keep_dims=True)
    ),
    *(
        Row(
            kernel,
            lambda x, f=reference, a=axis: f(x, a),
            [distinct_numbers(*INPUT_SHAPE)],
            {"axis": axis},
        )
        for kernel, reference in [
            (reduction.argmax, lambda x, a: np.argmax(x, a)),
            (reduction.argmin, lambda x, a: np.argmin(x, a)),
        ]
        for axis in (0, 1, 2)
    ),
    # edge cases
    *(
        row
        for kernel, reference in REDUCTIONS_OF_NO_ELEMENTS
        for row in reduction_rows(
            kernel, reference, numbers(shape=(2, 0, 3)), (1,), (0, 1, 2), (0,), is_edge=True
        )
    ),
    *reduction_rows(
        reduction.mean,
        lambda x, axis, keepdims: np.full((2, 3), NAN),
        numbers(shape=(2, 0, 3)),
        (1,),
        is_edge=True,
        is_smooth=False,
    ),
    *(
        row
        for kernel, reference, _ in REDUCTION_CASES
        for row in reduction_rows(kernel, reference, numbers(shape=()), (), is_edge=True)
    ),
    *(
        row
        for kernel, reference, _ in REDUCTION_CASES[:5]
        for row in reduction_rows(
            kernel,
            reference,
            fixed_values([[NAN, 1, 2], [INF, 1, 2], [-INF, 1, 2], [-INF, INF, 1], [2, NAN, -INF]]),
            (1,),
            dtypes=FLOATING_DTYPES,
            is_edge=True,
            is_smooth=False,
        )
    ),
    *(
        Row(
            kernel,
            lambda x, f=reference: f(x),
            [fixed_values([[1, 3, 3, 0, 0], [NAN, 1, 9, -9, 2], [1, INF, -INF, NAN, INF]])],
            {"axis": 1},
            dtypes=FLOATING_DTYPES,
            is_edge=True,
        )
        for kernel, reference in [
            (reduction.argmax, lambda x: np.argmax(x, 1)),
            (reduction.argmin, lambda x: np.argmin(x, 1)),
        ]
    ),
    *(
        Row(
            kernel,
            lambda x, f=reference: f(x, 1),
            [EXTREME_VALUE_MATRIX],
            {name: (1,)},
            dtypes=INTEGER_DTYPES,
            is_edge=True,
            op=OP_OF_KERNEL[kernel],
        )
        for kernel, reference, name in [
            (reduction.max, np.max, "reduction_indices"),
            (reduction.min, np.min, "axis"),
            (reduction.sum, np.sum, "axis"),
        ]
    ),
    # bins
    *(
        Row(
            kernel,
            lambda x, weights: count_in_bins(x, weights, 5),
            [bin_indices, weights],
            {"size": 5},
            dtypes=dtypes,
        )
        for kernel in (reduction.bincount, reduction.dense_bincount)
        for weights, dtypes in [(None, ("int32",)), (numbers(shape=(9,)), FLOATING_DTYPES[:2])]
    ),
    Row(
        reduction.dense_bincount,
        lambda x, weights: count_in_bins(x, None, 4).clip(0, 1),
        [integers(-1, 5, 3, 7), None],
        {"size": 4, "binary_output": True},
        dtypes=("int32",),
    ),
]
