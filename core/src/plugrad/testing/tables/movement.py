"""Test rows of the kernels that move elements without computing."""

# What references take is an array, which a lambda has no place to say.
# pyright: basic

from typing import Any

import numpy as np

import plugrad
from plugrad.contract.kernel import Kernel
from plugrad.kernels import movement
from plugrad.testing.rows import (
    FLOATING_DTYPES,
    NUMBER_DTYPES,
    Array,
    Input,
    Row,
    arbitrary_numbers,
    fixed_values,
)
from plugrad.types.dtype import float32
from plugrad.types.specs import Shaped

OP_OF_KERNEL: dict[Kernel[..., Any], Any] = {
    movement.expand_dims: lambda x, *, dim: plugrad.expand_dims(x, dim),
    movement.transpose: lambda x, *, perm: plugrad.permute_dims(x, perm),
    movement.strided_slice: movement.strided_slice,  # where the op counts a bound below 0 from the end
    movement.pack: plugrad.stack,
    movement.unpack: plugrad.unstack,
    movement.split: lambda x, *, num_or_size_splits, axis: plugrad.split(
        x, num_or_size_splits, axis
    ),
    movement.tile: lambda x, *, reps: plugrad.tile(x, reps),
    movement.reverse: lambda x, *, dims: plugrad.flip(x, axis=dims),
}
"""The public op of each kernel that has one, as a function with the kernel's attributes."""


def movement_row(kernel: Kernel[..., Any], reference: Any, *inputs: Any, **attrs: Any) -> Row:
    """Return a row of any dtype, with inputs of the given shapes."""
    shapes = [x if isinstance(x, Input) else arbitrary_numbers(*x) for x in inputs]
    promised = kernel.infer(*[Shaped(x.shape, float32) for x in shapes], **attrs)
    outputs = [promised] if hasattr(promised, "dtype") else promised
    is_edge = any(0 in x.shape or not x.shape for x in (*shapes, *outputs))
    op = OP_OF_KERNEL.get(kernel)
    return Row(kernel, reference, shapes, attrs, dtypes=NUMBER_DTYPES, is_edge=is_edge, op=op)


def zeros_with_slice(dy: Array, shape: tuple[int, ...], slices: tuple[slice, ...]) -> Array:
    """Return zeros with dy in a slice."""
    result = np.zeros(shape, dy.dtype)
    result[slices] = dy
    return result


def update_slice(tensor: Array, updates: Array, slices: tuple[slice, ...]) -> Array:
    """Return the tensor with updates in a slice."""
    result = np.array(tensor)
    result[slices] = updates
    return result


def as_slices(*bounds: tuple[int, int, int]) -> tuple[slice, ...]:
    """Return Python slices for begins, ends and strides: the end -1 of a reversed range becomes None."""
    return tuple(slice(b, None if s < 0 and e < 0 else e, s) for b, e, s in bounds)


SLICE_CASES = [
    ((4, 5), [(1, 3, 1), (0, 5, 2)]),
    ((4, 5), [(3, -1, -1), (4, 0, -2)]),
    ((2, 7, 3), [(0, 2, 1), (1, 7, 3), (2, 3, 1)]),
    ((4, 5), [(2, 2, 1), (0, 5, 1)]),
    ((3, 4, 5), [(0, 3, 1), (0, 4, 2), (0, 5, 3)]),
    ((3, 4, 5), [(2, -1, -1), (3, -1, -2), (4, -1, -3)]),
    ((3, 4, 5), [(1, 2, 1), (0, 4, 1), (3, 0, -1)]),
]
"""An input shape, and (begin, end, stride) for each axis."""

TEST_ROWS = [
    *(
        movement_row(movement.reshape, lambda x, s=new: x.reshape(s), old, shape=new)
        for old, new in [
            ((2, 3, 4), (4, 6)),
            ((3, 4, 5), (5, 12)),
            ((6,), (1, 6, 1)),
            ((1,), ()),
            ((), (1, 1)),
        ]
    ),
    movement_row(movement.reshape, lambda x: x.reshape(0, 4), (2, 0, 3), shape=(0, 4)),
    *(
        movement_row(
            movement.expand_dims, lambda x, d=dim: np.expand_dims(x, d), (3, 4, 5), dim=dim
        )
        for dim in (0, 1, 3)
    ),
    *(
        movement_row(movement.transpose, lambda x, p=perm: x.transpose(p), shape, perm=perm)
        for shape, perm in [
            ((3, 5), (1, 0)),
            *(
                ((3, 4, 5), perm)
                for perm in [(0, 1, 2), (2, 1, 0), (1, 0, 2), (0, 2, 1), (2, 0, 1)]
            ),
            ((2, 3, 4, 5), (0, 3, 1, 2)),
            ((2, 3, 4, 5), (3, 0, 2, 1)),
            ((2, 1, 3, 2, 2), (4, 2, 0, 3, 1)),
            ((33, 65), (1, 0)),
            ((2, 0), (1, 0)),
            ((), ()),
        ]
    ),
    *(
        movement_row(movement.broadcast_to, lambda x, s=new: np.broadcast_to(x, s), old, shape=new)
        for old, new in [
            ((3, 1), (3, 5)),
            ((5,), (3, 5)),
            ((3, 1, 5), (2, 3, 4, 5)),
            ((1, 3, 1), (2, 3, 4)),
            ((2, 3), (2, 3)),
            ((), (2, 3)),
            ((1, 3), (0, 3)),
        ]
    ),
    *(
        movement_row(
            movement.slice,
            lambda x, b=begin, n=size: x[tuple(slice(i, i + k) for i, k in zip(b, n, strict=True))],
            shape,
            begin=begin,
            size=size,
        )
        for shape, begin, size in [
            ((4, 5), (1, 2), (2, 3)),
            ((3, 4, 5), (0, 0, 0), (3, 4, 5)),
            ((3, 4, 5), (1, 2, 3), (2, 1, 2)),
            ((3, 4, 5), (2, 0, 4), (1, 4, 1)),
            ((4, 5), (4, 0), (0, 5)),
            ((3, 4, 5), (3, 1, 1), (0, 2, 2)),
        ]
    ),
    movement_row(
        movement.slice,
        lambda x: x[2, 1:3, 4],
        (3, 4, 5),
        begin=(2, 1, 4),
        size=(1, 2, 1),
        drop=(0, 2),
    ),
    *(
        movement_row(
            movement.strided_slice,
            lambda x, b=bounds: x[as_slices(*b)],
            shape,
            begin=tuple(b for b, _, _ in bounds),
            end=tuple(e for _, e, _ in bounds),
            strides=tuple(s for _, _, s in bounds),
        )
        for shape, bounds in SLICE_CASES
    ),
    *(
        movement_row(
            movement.strided_slice_gradient,
            lambda dy, s=shape, b=bounds: zeros_with_slice(dy, s, as_slices(*b)),
            tuple(len(range(*bound)) for bound in bounds),
            shape=shape,
            begin=tuple(b for b, _, _ in bounds),
            end=tuple(e for _, e, _ in bounds),
            strides=tuple(s for _, _, s in bounds),
        )
        for shape, bounds in SLICE_CASES
    ),
    *(
        movement_row(
            movement.strided_slice_update,
            lambda x, y, b=bounds: update_slice(x, y, as_slices(*b)),
            shape,
            updates,
            begin=tuple(b for b, _, _ in bounds),
            end=tuple(e for _, e, _ in bounds),
            strides=tuple(s for _, _, s in bounds),
        )
        for shape, bounds, updates in [
            *((*case, tuple(len(range(*bound)) for bound in case[1])) for case in SLICE_CASES),
            *((*case, ()) for case in SLICE_CASES),
            ((3, 4, 5), [(0, 3, 2), (1, 3, 1), (4, -1, -2)], (2, 1, 3)),
            ((3, 4, 5), [(0, 3, 2), (3, 0, -1), (0, 5, 1)], (3, 1)),
            ((2, 8, 16), [(0, 2, 1), (4, 8, 1), (4, 12, 1)], (1, 8)),
            ((), [], ()),
        ]
    ),
    *(
        movement_row(movement.concat, lambda *xs, a=axis: np.concatenate(xs, a), *shapes, axis=axis)
        for shapes, axis in [
            ([(3, 4), (1, 4)], 0),
            ([(3, 4), (3, 1), (3, 2)], 1),
            ([(2, 1, 2), (2, 3, 2)], 1),
            ([(3, 4)], 0),
            ([(0, 3), (2, 3)], 0),
        ]
    ),
    *(
        movement_row(movement.pack, lambda *xs, a=axis: np.stack(xs, a), *shapes, axis=axis)
        for shapes, axis in [
            ([(3, 4)], 0),
            ([(3, 4)] * 3, 0),
            ([(3, 4)] * 2, 1),
            ([(2, 3)] * 3, 2),
            ([()] * 3, 0),
            ([(0, 2)] * 3, 1),
        ]
    ),
    *(
        movement_row(
            movement.unpack, lambda x, a=axis: list(np.moveaxis(x, a, 0)), (3, 4, 5), axis=axis
        )
        for axis in (0, 1, 2)
    ),
    *(
        movement_row(
            movement.split,
            lambda x, n=sizes, a=axis: np.split(x, np.cumsum(n)[:-1], a),
            (3, 4, 5),
            num_or_size_splits=sizes,
            axis=axis,
        )
        for sizes, axis in [((1, 3), 1), ((2, 1, 2), 2), ((2, 0, 3), 2), ((0, 5), 2), ((5,), 2)]
    ),
    *(
        movement_row(
            movement.pad,
            lambda x, p=paddings, v=value: np.pad(x, p, constant_values=v) if p else x,
            shape,
            paddings=paddings,
            constant_value=value,
        )
        for shape, paddings, value in [
            ((2, 3), ((1, 0), (2, 1)), 0),
            ((3, 4, 5), ((0, 0), (0, 0), (0, 0)), 0),
            ((3, 4, 5), ((1, 2), (0, 1), (3, 0)), 0),
            ((3, 4, 5), ((0, 0), (1, 1), (0, 0)), 1),
            ((3,), ((0, 2),), 1),
            ((2, 3, 1), ((0, 0), (1, 1), (0, 2)), 1),
            ((2, 0), ((1, 1), (1, 0)), 1),
            ((), (), 0),
        ]
    ),
    *(
        movement_row(movement.tile, lambda x, r=reps: np.tile(x, r), shape, reps=reps)
        for shape, reps in [
            ((3, 4), (2, 3)),
            ((3, 4), (1, 1)),
            ((3,), (4,)),
            ((3, 1, 2), (1, 5, 2)),
            ((3, 4), (0, 2)),
        ]
    ),
    *(
        movement_row(movement.reverse, lambda x, d=dims: np.flip(x, d), shape, dims=dims)
        for shape, dims in [
            *(((3, 4, 5), dims) for dims in [(0,), (1,), (0, 2)]),
            ((3,), ()),
            ((0, 2), (0,)),
        ]
    ),
    Row(
        movement.pad,
        lambda x: np.pad(x, ((1, 0), (0, 2)), constant_values=-np.inf),
        [arbitrary_numbers(2, 3)],
        {"paddings": ((1, 0), (0, 2)), "constant_value": -np.inf},
        dtypes=FLOATING_DTYPES,
        is_edge=True,
    ),
    Row(
        movement.concat,
        lambda *xs: np.concatenate(xs),
        [fixed_values(["a", "é"], "string"), fixed_values(["", "日本語"], "string")],
        {"axis": 0},
        dtypes=["string"],
    ),
]
