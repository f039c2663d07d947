"""Blocks, mirrors, rolls, repetitions and grids: the values are exact, in every dtype."""

import itertools

import numpy as np
import pytest

import plugrad
from families.case import REAL_AND_BOOL_DTYPES, Case, ErrorCase
from families.domains import constant, uniform
from plugrad.errors import ArgumentValueError, AxisError, DTypeError, ShapeError
from plugrad.kernels import rearrangement


def np_batch_to_space(x, *, block_shape, crops):
    """Reference for batch_to_space_nd: write each element to its place, block by block."""
    count = len(block_shape)
    batch = x.shape[0] // np.prod(block_shape, dtype=int)
    sizes = [n * b for n, b in zip(x.shape[1:], block_shape, strict=False)]
    y = np.zeros((batch, *sizes, *x.shape[1 + count :]), x.dtype)
    for i, cell in enumerate(itertools.product(*map(range, block_shape))):
        place = [slice(at, None, step) for at, step in zip(cell, block_shape, strict=True)]
        y[(slice(None), *place)] = x[i * batch : (i + 1) * batch]
    inner = [slice(b, n - a) for n, (b, a) in zip(sizes, crops, strict=True)]
    return y[(slice(None), *inner)]


def np_space_to_batch(x, *, block_shape, paddings):
    """Reference for space_to_batch_nd: read the elements of each place, block by block."""
    padded = np.pad(x, [(0, 0), *paddings, *[(0, 0)] * (x.ndim - 1 - len(block_shape))])
    parts = [
        padded[
            (slice(None), *(slice(at, None, s) for at, s in zip(cell, block_shape, strict=True)))
        ]
        for cell in itertools.product(*map(range, block_shape))
    ]
    return np.concatenate(parts)


def np_depth_to_space(x, *, block_size, data_format="NHWC"):
    if data_format == "NCHW":
        moved = np_depth_to_space(x.transpose(0, 2, 3, 1), block_size=block_size)
        return moved.transpose(0, 3, 1, 2)
    batch, height, width, depth = x.shape
    channels = depth // block_size**2
    y = np.zeros((batch, height * block_size, width * block_size, channels), x.dtype)
    for i, j in itertools.product(range(block_size), repeat=2):
        first = (i * block_size + j) * channels
        y[:, i::block_size, j::block_size] = x[..., first : first + channels]
    return y


def np_mirror_pad(x, *, paddings, mode):
    return np.pad(x, paddings, mode=mode)


def np_repeat(x, *, repeats, axis=None):
    return np.repeat(x, repeats, axis)


def np_meshgrid(*arrays, indexing="xy"):
    return list(np.meshgrid(*arrays, indexing=indexing))


def repeat(x, *, repeats, axis=None):
    return plugrad.repeat(x, repeats, axis=axis)


def make_case(op, reference, *shapes, name="", **attrs):
    domains = [uniform(-3, 3)] * len(shapes)
    return Case(op, reference, domains, shapes, attrs, REAL_AND_BOOL_DTYPES, name=name)


BLOCK_CASES = [
    make_case(plugrad.batch_to_space_nd, np_batch_to_space, shape, block_shape=block, crops=crops)
    for shape, block, crops in [
        ((4, 1, 1, 3), (2, 2), ((0, 0), (0, 0))),
        ((12, 2, 3, 2), (2, 3), ((1, 2), (0, 4))),
        ((6, 3), (3,), ((2, 1),)),
        ((6, 2, 2), (3,), ((1, 0),)),
        ((8, 1, 2, 1, 3), (2, 1, 4), ((0, 0), (0, 1), (1, 0))),
        ((3, 2), (), ()),
        ((2, 3, 2), (1, 2), ((3, 0), (0, 0))),
    ]
] + [
    make_case(
        plugrad.space_to_batch_nd, np_space_to_batch, shape, block_shape=block, paddings=paddings
    )
    for shape, block, paddings in [
        ((1, 2, 2, 3), (2, 2), ((0, 0), (0, 0))),
        ((2, 3, 5, 2), (2, 3), ((1, 0), (0, 4))),
        ((2, 7), (3,), ((2, 0),)),
        ((2, 5, 2), (3,), ((1, 0),)),
        ((1, 2, 1, 2, 3), (2, 1, 4), ((0, 0), (0, 1), (1, 1))),
        ((3, 2), (), ()),
        ((2, 0, 2), (2, 1), ((1, 1), (0, 0))),
    ]
]
DEPTH_TO_SPACE_CASES = [
    make_case(plugrad.depth_to_space, np_depth_to_space, (2, 2, 3, 8), block_size=2),
    make_case(plugrad.depth_to_space, np_depth_to_space, (1, 2, 1, 18), block_size=3),
    make_case(
        plugrad.depth_to_space,
        np_depth_to_space,
        (2, 8, 2, 3),
        block_size=2,
        data_format="NCHW",
    ),
]
MIRROR_PAD_CASES = [
    make_case(plugrad.mirror_pad, np_mirror_pad, shape, paddings=paddings, mode=mode)
    for mode in ("reflect", "symmetric")
    for shape, paddings in [
        ((3,), ((1, 1),)),
        ((3,), ((2, 2),)),
        ((4, 5), ((3, 0), (2, 4))),
        ((2, 3, 3), ((0, 1), (0, 0), (2, 1))),
        ((1, 4), ((0, 0), (0, 3))),
    ]
] + [
    make_case(
        plugrad.mirror_pad, np_mirror_pad, (3, 2), paddings=((3, 3), (2, 0)), mode="symmetric"
    )
]
ROLL_CASES = [
    make_case(plugrad.roll, lambda x, *, shift, axis=None: np.roll(x, shift, axis), shape, **attrs)
    for shape, attrs in [
        ((5,), {"shift": 2}),
        ((3, 4), {"shift": -5}),
        ((3, 4), {"shift": 1, "axis": 0}),
        ((3, 4), {"shift": (1, -2), "axis": (0, 1)}),
        ((3, 4), {"shift": 7, "axis": (1, -2)}),
        ((3, 4), {"shift": (1, 2), "axis": (1, 1)}),
        ((3, 4), {"shift": 0, "axis": 1}),
        ((3, 4), {"shift": 8, "axis": 1}),
    ]
]
REPEAT_CASES = [
    make_case(repeat, np_repeat, shape, name=f"repeat {repeats} {axis}", repeats=repeats, axis=axis)
    for shape, repeats, axis in [
        ((3,), 2, None),
        ((3, 4), 3, None),
        ((3, 4), 2, 0),
        ((3, 4), 1, -1),
        ((3, 4), 0, 1),
        ((3, 4), [2, 0, 3], 0),
        ((2, 3, 2), [1, 0, 2], 1),
        ((2, 2), [1, 2, 3, 0], None),
        ((3, 4), [2], 1),
        ((), 3, None),
    ]
]
MESHGRID_CASES = [
    make_case(plugrad.meshgrid, np_meshgrid, *shapes, name=f"meshgrid {shapes} {attrs}", **attrs)
    for shapes, attrs in [
        (((3,), (4,)), {}),
        (((3,), (4,)), {"indexing": "ij"}),
        (((2,), (3,), (4,)), {}),
        (((2,), (3,), (4,)), {"indexing": "ij"}),
        (((3,),), {}),
        (((), (2,)), {}),
    ]
]
BROADCAST_ARGS_CASES = [
    Case(
        plugrad.broadcast_args,
        lambda a, b: np.array(np.broadcast_shapes(a, b)),
        [constant(a), constant(b)],
        dtypes=["int32"],
        result="int32",
        is_differentiable=False,
        name=f"broadcast_args {a} {b}",
    )
    for a, b in [
        ([2, 1, 3], [4, 1]),
        ([4, 1], [2, 1, 3]),
        ([1, 5], [7, 1]),
        ([3], [3]),
        ([0, 1], [1, 2]),
        ([], [2, 3]),
        ([], []),
    ]
]
CASES = [
    *BLOCK_CASES,
    *DEPTH_TO_SPACE_CASES,
    *MIRROR_PAD_CASES,
    *ROLL_CASES,
    *REPEAT_CASES,
    *MESHGRID_CASES,
    *BROADCAST_ARGS_CASES,
]


def cases_with_dtype(cases, dtype="float32"):
    return [case for case in cases if dtype in case.dtypes]


@pytest.mark.rows("case", CASES, ids=str)
def test_values(case, backend, rng):
    case.check_values(rng, case.dtypes[0])


@pytest.mark.rows("case", CASES, ids=str)
def test_values_of_other_dtypes(case, backend, rng):
    case.check_values_of_other_dtypes(rng)


@pytest.mark.rows("case", cases_with_dtype(CASES), ids=str)
def test_values_of_views(case, backend, rng):
    case.check_values_of_views(rng)


@pytest.mark.parametrize(
    "empty",
    [
        make_case(
            plugrad.batch_to_space_nd, np_batch_to_space, (0, 2), block_shape=(2,), crops=[(1, 0)]
        ),
        make_case(
            plugrad.space_to_batch_nd,
            np_space_to_batch,
            (0, 2),
            block_shape=(2,),
            paddings=[(1, 1)],
        ),
        make_case(plugrad.depth_to_space, np_depth_to_space, (0, 2, 2, 4), block_size=2),
        make_case(plugrad.depth_to_space, np_depth_to_space, (1, 2, 2, 0), block_size=2),
        make_case(
            plugrad.mirror_pad, np_mirror_pad, (0, 3), paddings=((0, 0), (1, 1)), mode="reflect"
        ),
        make_case(plugrad.roll, np.roll, (0, 3), shift=2, axis=0),
        make_case(plugrad.roll, np.roll, (0, 3), shift=2, axis=None),
        make_case(repeat, np_repeat, (0, 3), repeats=2, axis=0),
        make_case(repeat, np_repeat, (0,), repeats=[], axis=0),
        make_case(plugrad.meshgrid, np_meshgrid, (0,), (2,)),
        make_case(plugrad.meshgrid, np_meshgrid),
    ],
    ids=str,
)
def test_empty_tensors(empty, backend, rng):
    empty.check_values(rng)


def test_special_values_are_moved(backend):
    x = np.array([[np.nan, np.inf], [-np.inf, -0.0]], "float32")
    for moved in (
        make_case(plugrad.mirror_pad, np_mirror_pad, paddings=((1, 1), (0, 1)), mode="reflect"),
        make_case(plugrad.roll, np.roll, shift=1, axis=1),
        make_case(repeat, np_repeat, repeats=2, axis=1),
        make_case(
            plugrad.space_to_batch_nd, np_space_to_batch, block_shape=(2,), paddings=((0, 0),)
        ),
    ):
        moved.check_values_of_arrays([x])


def test_0d_tensors(backend):
    assert plugrad.roll(plugrad.asarray(2.5), 3).tolist() == 2.5
    assert plugrad.repeat(plugrad.asarray(2.5), 2).tolist() == [2.5, 2.5]


def test_repeats_may_be_a_tensor(backend):
    repeats = plugrad.asarray([0, 2, 1])
    assert plugrad.repeat([1, 2, 3], repeats).tolist() == [2, 2, 3]
    assert plugrad.repeat([1, 2], plugrad.asarray(2)).tolist() == [1, 1, 2, 2]


def test_grid_keeps_the_dtype_of_each_axis(backend):
    x, y = plugrad.meshgrid(plugrad.asarray([1, 2]), plugrad.asarray([0.5]))
    assert (x.dtype, y.dtype) == ("int32", "float32")


@pytest.mark.rows("case", cases_with_dtype(CASES), ids=str)
def test_gradient(case, backend, rng):
    case.check_gradient(rng, backend)


def test_gradient_of_a_mirror_counts_its_images(backend):
    """TensorFlow.js returns [1, 1, 1], without the mirrored elements."""
    pad = lambda x: plugrad.sum(plugrad.mirror_pad(x, [(1, 1)], "reflect"))  # noqa: E731
    assert plugrad.grad(pad)(plugrad.asarray([1.0, 2.0, 3.0])).tolist() == [1, 3, 1]


def zeros(*shape):
    return plugrad.zeros(shape)


ERROR_CASES = [
    ErrorCase(
        lambda: plugrad.batch_to_space_nd(zeros(3, 2), (2,), [(0, 0)]),
        ShapeError,
        ["BatchToSpaceND", "(3, 2)", "multiple", "(2,)"],
    ),
    ErrorCase(
        lambda: plugrad.batch_to_space_nd(zeros(4, 2), (2,), [(3, 2)]),
        ShapeError,
        ["BatchToSpaceND", "crops=((3, 2),)", "larger"],
    ),
    ErrorCase(
        lambda: plugrad.batch_to_space_nd(zeros(4, 1, 1, 1), (2, 2), [(0, 0)]),
        ShapeError,
        ["BatchToSpaceND", "crops=((0, 0),)", "2 axes"],
    ),
    ErrorCase(
        lambda: plugrad.batch_to_space_nd(zeros(4), (2,), [(0, 0)]),
        ShapeError,
        ["BatchToSpaceND", "(4,)", "after the batch"],
    ),
    ErrorCase(
        lambda: plugrad.batch_to_space_nd(zeros(4, 2), (0,), [(0, 0)]),
        ArgumentValueError,
        ["BatchToSpaceND", "block_shape=(0,)", "1 or more"],
    ),
    ErrorCase(
        lambda: plugrad.space_to_batch_nd(zeros(1, 3), (2,), [(0, 0)]),
        ShapeError,
        ["SpaceToBatchND", "(3,)", "multiples", "(2,)"],
    ),
    ErrorCase(
        lambda: plugrad.space_to_batch_nd(zeros(1, 3), (2,), [(-1, 0)]),
        ArgumentValueError,
        ["space_to_batch_nd: paddings", "-1"],
    ),
    ErrorCase(
        lambda: plugrad.space_to_batch_nd(zeros(1, 2, 2, 1), (2,) * 4, [(0, 0)] * 4),
        ShapeError,
        ["SpaceToBatchND", "4 axes after the batch", "(1, 2, 2, 1)"],
    ),
    ErrorCase(
        lambda: plugrad.depth_to_space(zeros(1, 2, 2, 6), 2),
        ShapeError,
        ["DepthToSpace", "6 channels", "(1, 2, 2, 6)", "4"],
    ),
    ErrorCase(
        lambda: plugrad.depth_to_space(zeros(2, 2, 4), 2), ShapeError, ["DepthToSpace", "(2, 2, 4)"]
    ),
    ErrorCase(
        lambda: plugrad.depth_to_space(zeros(1, 2, 2, 4), 1),
        ArgumentValueError,
        ["DepthToSpace", "block_size=1", "2 or more"],
    ),
    ErrorCase(
        lambda: plugrad.depth_to_space(zeros(1, 2, 2, 4), 2, "NWHC"),
        ArgumentValueError,
        ["DepthToSpace", "'NWHC'", "'NCHW'"],
    ),
    ErrorCase(
        lambda: plugrad.mirror_pad(zeros(3), [(3, 0)], "reflect"),
        ShapeError,
        ["MirrorPad", "((3, 0),)", "(3,)", "less than the size"],
    ),
    ErrorCase(
        lambda: plugrad.mirror_pad(zeros(3), [(0, 4)], "symmetric"),
        ShapeError,
        ["MirrorPad", "((0, 4),)", "at most the size"],
    ),
    ErrorCase(
        lambda: plugrad.mirror_pad(zeros(3), [(1, 1)], "constant"),
        ArgumentValueError,
        ["MirrorPad", "'constant'", "'reflect' or 'symmetric'"],
    ),
    ErrorCase(
        lambda: plugrad.mirror_pad(zeros(), [], "reflect"), ShapeError, ["MirrorPad", "shape ()"]
    ),
    ErrorCase(
        lambda: plugrad.mirror_pad(zeros(2, 3), [(1, 1)], "reflect"), ShapeError, ["((1, 1),)"]
    ),
    ErrorCase(
        lambda: plugrad.broadcast_args([2, 3], [4]), ShapeError, ["(2, 3)", "(4,)", "broadcast"]
    ),
    ErrorCase(
        lambda: plugrad.broadcast_args(2, [4]), ShapeError, ["BroadcastArgs", "s0", "vector"]
    ),
    ErrorCase(
        lambda: plugrad.broadcast_args([2.0], [4]), DTypeError, ["broadcast_args", "float32"]
    ),
    ErrorCase(
        lambda: rearrangement.broadcast_args(zeros(2), zeros(2)),
        DTypeError,
        ["BroadcastArgs", "float32"],
    ),
    ErrorCase(
        lambda: plugrad.roll(zeros(3), (1, 2)), ArgumentValueError, ["roll", "(1, 2)", "axis="]
    ),
    ErrorCase(
        lambda: plugrad.roll(zeros(3, 3), (1, 2, 3), axis=(0, 1)),
        ArgumentValueError,
        ["shift=(1, 2, 3)", "axis=(0, 1)"],
    ),
    ErrorCase(lambda: plugrad.roll(zeros(3), 1, axis=1), AxisError, ["axis=1", "rank 1"]),
    ErrorCase(
        lambda: plugrad.repeat(zeros(3), -1), ArgumentValueError, ["repeats=-1", "0 or more"]
    ),
    ErrorCase(lambda: plugrad.repeat(zeros(3), [1, 2]), ShapeError, ["(2,)", "3 slices"]),
    ErrorCase(lambda: plugrad.repeat(zeros(3), 1.5), DTypeError, ["repeat", "float32", "integers"]),
    ErrorCase(lambda: plugrad.repeat(zeros(3), 1, axis=1), AxisError, ["axis=1", "rank 1"]),
    ErrorCase(lambda: plugrad.meshgrid(zeros(2, 2)), ShapeError, ["meshgrid", "(2, 2)", "vectors"]),
    ErrorCase(
        lambda: plugrad.meshgrid([1], indexing="yx"), ArgumentValueError, ["'yx'", "'xy' or 'ij'"]
    ),
]


@pytest.mark.rows("error_case", ERROR_CASES, ids=str)
def test_bad_input(error_case, backend):
    error_case.check()
