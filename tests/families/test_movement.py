"""Elements moved without computing: the values are exact, in every dtype."""

import numpy as np
import pytest

import plugrad
from families.case import REAL_AND_BOOL_DTYPES, Case, ErrorCase, conformance_cases, with_varargs
from families.domains import uniform
from plugrad.errors import ArgumentValueError, AxisError, ShapeError
from plugrad.kernels import movement

SHAPE = (3, 4, 5)


def np_split(x, *, sizes, axis=0):
    if not isinstance(sizes, int):
        known = sum(n for n in sizes if n >= 0)
        sizes = np.cumsum([x.shape[axis] - known if n == -1 else n for n in sizes][:-1], dtype=int)
    return np.split(x, sizes, axis)


def np_unstack(x, *, axis=0):
    return [x.take(i, axis) for i in range(x.shape[axis])]


def np_pad(x, *, paddings, constant_value=0):
    return np.pad(x, paddings, constant_values=constant_value)


def np_concat(*arrays, axis=0):
    return np.concatenate([a.reshape(-1) for a in arrays] if axis is None else arrays, axis or 0)


def np_stack(*arrays, axis=0):
    return np.stack(arrays, axis)


def np_slice(x, *, begin, size):
    return x[tuple(slice(b, b + n) for b, n in zip(begin, size, strict=True))]


def np_moveaxis(x, *, source, destination):
    return np.moveaxis(x, source, destination)


def np_broadcast_arrays(*arrays):
    return list(np.broadcast_arrays(*arrays))


def moveaxis(x, *, source, destination):
    return plugrad.moveaxis(x, source, destination)


def np_strided_slice(x, *, begin, end, strides):
    picked = [range(*bounds) for bounds in zip(begin, end, strides, strict=True)]
    return x[np.ix_(*picked)]


def np_strided_slice_gradient(dy, *, shape, begin, end, strides):
    dx = np.zeros(shape, dy.dtype)
    dx[np.ix_(*[range(*bounds) for bounds in zip(begin, end, strides, strict=True)])] = dy
    return dx


def make_case(op, reference, shapes=(SHAPE,), name="", **attrs):
    domains = [uniform(-3, 3)] * len(shapes)
    return Case(op, reference, domains, shapes, attrs, REAL_AND_BOOL_DTYPES, name=name)


EMPTY_SLICES = [
    {"begin": (1, 2, 2), "end": (1, 0, 5), "strides": (1, 1, 1)},
    {"begin": (-1, 0, 0), "end": (0, 4, 5), "strides": (-1, 1, 1)},
]
SINGLE_TENSOR_CASES = [
    make_case(plugrad.reshape, np.reshape, shape=(-1,)),
    make_case(plugrad.reshape, np.reshape, shape=(2, -1, 3, 1)),
    make_case(plugrad.permute_dims, np.transpose, axes=(-2, 2, 0)),
    make_case(plugrad.permute_dims, np.transpose, [(2, 3, 4, 5)]),
    *(
        make_case(
            moveaxis,
            np_moveaxis,
            [(2, 3, 4, 5)],
            source=source,
            destination=to,
            name=f"moveaxis {to}",
        )
        for source, to in [(0, -1), (3, 0), ((0, 1), (-1, -2)), ((3, 0, 2), (0, 2, 1)), (1, 1)]
    ),
    *(make_case(plugrad.expand_dims, np.expand_dims, axis=axis) for axis in (-1, -4)),
    make_case(plugrad.squeeze, np.squeeze, [(1, 3, 1, 4)], axis=None),
    make_case(plugrad.squeeze, np.squeeze, [(1, 3, 1, 4)], axis=(0,)),
    make_case(plugrad.squeeze, np.squeeze, [(1, 3, 1, 4)], axis=-2),
    make_case(plugrad.broadcast_to, np.broadcast_to, [()], shape=(2, 3)),
    *(make_case(plugrad.flip, np.flip, axis=axis) for axis in (None, -1)),
    *(make_case(movement.strided_slice, np_strided_slice, **attrs) for attrs in EMPTY_SLICES),
    *(
        make_case(
            movement.strided_slice_gradient,
            np_strided_slice_gradient,
            [np_strided_slice(np.zeros(SHAPE), **attrs).shape],
            shape=SHAPE,
            **attrs,
        )
        for attrs in EMPTY_SLICES
    ),
]
TILE_CASES = [
    make_case(
        plugrad.tile, lambda x, repetitions: np.tile(x, repetitions), [shape], repetitions=counts
    )
    for shape, counts in [((3, 4), (2,)), ((4,), (2, 3)), ((), (3,))]
]
SPLITTING_CASES = [
    make_case(plugrad.unstack, np_unstack, axis=-1),
    *(
        make_case(plugrad.split, np_split, sizes=sizes, axis=axis)
        for sizes, axis in [(3, 0), (2, 1), (1, -1), ((2, -1, 1), 2)]
    ),
]
JOINING_CASES = [
    *(
        make_case(
            with_varargs(plugrad.concat), np_concat, shapes, f"concat {shapes} {axis}", axis=axis
        )
        for shapes, axis in [
            ([(2, 3, 1), (2, 3, 2)], -1),
            ([(2, 1, 3), (2, 4, 3), (2, 0, 3)], 1),
            ([(3, 4), (2,)], None),
        ]
    ),
    *(
        make_case(
            plugrad.broadcast_arrays, np_broadcast_arrays, shapes, f"broadcast_arrays {shapes}"
        )
        for shapes in [[(3, 1), (4,)], [(), (2, 3), (1, 3)], [(2, 3)]]
    ),
    *(
        make_case(
            with_varargs(plugrad.stack), np_stack, shapes, f"stack {shapes} {axis}", axis=axis
        )
        for shapes, axis in [([(3, 4)] * 2, -1), ([()] * 3, 0)]
    ),
]
CASES = [
    *conformance_cases("movement"),
    *SINGLE_TENSOR_CASES,
    *TILE_CASES,
    *SPLITTING_CASES,
    *JOINING_CASES,
]


@pytest.mark.rows("case", CASES, ids=str)
def test_values(case, backend, rng):
    case.check_values(rng, case.main_dtype)


@pytest.mark.rows("case", CASES, ids=str)
def test_values_of_other_dtypes(case, backend, rng):
    case.check_values_of_other_dtypes(rng)


# The rows of the table are tried as views by tests/properties/test_invariances.py.
@pytest.mark.rows(
    "case", [*SINGLE_TENSOR_CASES, *TILE_CASES, *SPLITTING_CASES, *JOINING_CASES], ids=str
)
def test_values_of_views(case, backend, rng):
    case.check_values_of_views(rng, case.main_dtype)


@pytest.mark.parametrize(
    "large",
    [
        make_case(plugrad.permute_dims, np.transpose, [(263, 251)], axes=(1, 0)),
        make_case(plugrad.permute_dims, np.transpose, [(41, 43, 47)], axes=(1, 2, 0)),
        make_case(plugrad.flip, np.flip, [(263, 251)], axis=1),
        make_case(plugrad.pad, np_pad, [(263, 251)], paddings=((1, 2), (3, 0))),
        make_case(movement.slice, np_slice, [(273, 261)], begin=(3, 4), size=(263, 251)),
        make_case(plugrad.broadcast_to, np.broadcast_to, [(263, 1)], shape=(263, 251)),
        make_case(
            with_varargs(plugrad.concat), np_concat, [(263, 251), (263, 5)], "concat", axis=1
        ),
        make_case(with_varargs(plugrad.stack), np_stack, [(263, 131)] * 2, "stack", axis=2),
        make_case(plugrad.split, np_split, [(263, 251)], sizes=(250, 1), axis=1),
    ],
    ids=str,
)
def test_many_elements(large, backend, rng):
    large.check_values(rng)


def test_special_values_are_moved(backend):
    x = np.array([[np.nan, np.inf], [-np.inf, 0]], "float32")
    for moved in (
        make_case(plugrad.permute_dims, np.transpose, axes=(1, 0)),
        make_case(plugrad.pad, np_pad, paddings=((1, 1), (0, 1)), constant_value=-np.inf),
        make_case(plugrad.pad, np_pad, paddings=((1, 1), (0, 1)), constant_value=np.nan),
        make_case(plugrad.flip, np.flip, axis=None),
    ):
        moved.check_values_of_arrays([x])


@pytest.mark.parametrize(
    "empty",
    [
        make_case(plugrad.reshape, np.reshape, [(0, 3)], shape=(3, 0)),
        make_case(plugrad.permute_dims, np.transpose, [(0, 3)], axes=(1, 0)),
        make_case(plugrad.flip, np.flip, [(0, 3)], axis=0),
        make_case(plugrad.pad, np_pad, [(0, 3)], paddings=((1, 1), (0, 0)), constant_value=7),
        make_case(with_varargs(plugrad.concat), np_concat, [(0, 3), (2, 3)], "concat", axis=0),
        make_case(with_varargs(plugrad.stack), np_stack, [(0, 3), (0, 3)], "stack", axis=0),
        make_case(plugrad.unstack, np_unstack, [(0, 3)], axis=0),
        make_case(plugrad.unstack, np_unstack, [(3, 0)], axis=0),
        make_case(plugrad.split, np_split, [(0, 3)], sizes=(1, 2), axis=1),
    ],
    ids=str,
)
def test_empty_tensors(empty, backend, rng):
    empty.check_values(rng)


@pytest.mark.parametrize("scalar", [plugrad.flip, plugrad.squeeze], ids=lambda op: op.__name__)
def test_0d_tensors(scalar, backend):
    assert scalar(plugrad.asarray(2.5)).tolist() == 2.5


def test_joined_dtypes_are_promoted(backend):
    y = plugrad.concat([plugrad.asarray([1]), plugrad.asarray([2.5]), plugrad.asarray([True])])
    assert (y.dtype, y.tolist()) == ("float32", [1, 2.5, 1])
    y = plugrad.stack([plugrad.asarray([1]), plugrad.asarray([True])])
    assert (y.dtype, y.tolist()) == ("int32", [[1], [1]])


def test_shapes_are_broadcast_without_tensors():
    assert plugrad.broadcast_shapes((2, 1), (3,), ()) == (2, 3)
    assert plugrad.broadcast_shapes() == ()


def test_a_reshaped_copy_has_the_same_values(backend):
    for copy in (None, False, True):
        assert plugrad.reshape([1, 2], (2, 1), copy=copy).tolist() == [[1], [2]]


@pytest.mark.rows("case", [c for c in CASES if c.is_differentiable], ids=str)
def test_gradient(case, backend, rng):
    case.check_gradient(rng, backend)


def test_gradient_of_one_of_several_results(backend):
    """The gradients of the other results are zeros."""
    x = plugrad.asarray([1.0, 2.0, 3.0])
    assert plugrad.grad(lambda x: plugrad.sum(plugrad.split(x, [1, 2])[1]))(x).tolist() == [0, 1, 1]
    assert plugrad.grad(lambda x: plugrad.unstack(x)[0])(x).tolist() == [1, 0, 0]


def zeros(*shape):
    return plugrad.zeros(shape)


ERROR_CASES = [
    ErrorCase(lambda: plugrad.reshape(zeros(2, 3), (4,)), ShapeError, ["6 elements", "(4,)"]),
    ErrorCase(lambda: plugrad.reshape(zeros(2, 3), (4, -1)), ShapeError, ["(4, -1)", "divide"]),
    ErrorCase(lambda: plugrad.reshape(zeros(2, 3), (-1, -1)), ShapeError, ["more than one -1"]),
    ErrorCase(lambda: plugrad.reshape(zeros(2, 3), (-2, -3)), ShapeError, ["negative"]),
    ErrorCase(lambda: plugrad.permute_dims(zeros(2, 3), (0, 0)), AxisError, ["(0, 0)", "(2, 3)"]),
    ErrorCase(lambda: plugrad.permute_dims(zeros(2, 3), (0, 2)), AxisError, ["axes=2", "rank 2"]),
    ErrorCase(
        lambda: plugrad.expand_dims(zeros(2), 2), AxisError, ["2 is out of range", "-2 to 1"]
    ),
    ErrorCase(lambda: plugrad.squeeze(zeros(2, 1), 0), ShapeError, ["squeeze", "axis=0", "(2, 1)"]),
    ErrorCase(
        lambda: plugrad.broadcast_to(zeros(2, 3), (2, 4)),
        ShapeError,
        ["(2, 3)", "(2, 4)", "broadcast"],
    ),
    ErrorCase(
        lambda: plugrad.broadcast_to(zeros(2, 3), (3,)), ShapeError, ["(2, 3)", "(3,)", "broadcast"]
    ),
    ErrorCase(lambda: plugrad.concat([]), ArgumentValueError, ["concat", "empty", "at least one"]),
    ErrorCase(
        lambda: plugrad.concat([zeros(2, 3), zeros(2, 4)]),
        ShapeError,
        ["Concat", "(2, 4)", "axis 0"],
    ),
    ErrorCase(lambda: plugrad.concat([zeros(2), zeros(2, 2)]), ShapeError, ["(2,)", "(2, 2)"]),
    ErrorCase(lambda: plugrad.stack([zeros(2), zeros(3)]), ShapeError, ["Pack", "(2,)", "(3,)"]),
    ErrorCase(
        lambda: plugrad.split(zeros(5), 2),
        ArgumentValueError,
        ["split", "sizes=2", "(5,)", "equal"],
    ),
    ErrorCase(lambda: plugrad.split(zeros(5), [2, 2]), ShapeError, ["(2, 2)", "add up to 5"]),
    ErrorCase(
        lambda: plugrad.pad(zeros(2, 3), [(1, 1)]), ShapeError, ["PadV2", "((1, 1),)", "(2, 3)"]
    ),
    ErrorCase(lambda: plugrad.pad(zeros(2), [(-1, 1)]), ArgumentValueError, ["pad", "(-1, 1)"]),
    ErrorCase(lambda: plugrad.tile(zeros(2), [-1]), ShapeError, ["repetitions", "-1", "negative"]),
    ErrorCase(lambda: plugrad.flip(zeros(2), axis=1), AxisError, ["axis=1", "rank 1"]),
    ErrorCase(lambda: plugrad.unstack(zeros(), axis=0), AxisError, ["axis=0", "0-d"]),
    ErrorCase(lambda: plugrad.moveaxis(zeros(2, 3), 0, 2), AxisError, ["destination=2", "rank 2"]),
    ErrorCase(
        lambda: plugrad.moveaxis(zeros(2, 3), (0, 0), (0, 1)), AxisError, ["(0, 0)", "twice"]
    ),
    ErrorCase(
        lambda: plugrad.moveaxis(zeros(2, 3), (0, 1), 0), AxisError, ["(0, 1)", "equally many"]
    ),
    ErrorCase(lambda: plugrad.broadcast_arrays(zeros(2), zeros(3)), ShapeError, ["(2,)", "(3,)"]),
    ErrorCase(lambda: plugrad.broadcast_shapes((2,), (3,)), ShapeError, ["(2,)", "(3,)"]),
    ErrorCase(lambda: plugrad.broadcast_shapes((2,), (-1,)), ShapeError, ["(-1,)", "negative"]),
    ErrorCase(
        lambda: movement.slice(zeros(2, 3), begin=(0, 2), size=(2, 2)),
        ShapeError,
        ["Slice", "begin=(0, 2)", "(2, 3)"],
    ),
    ErrorCase(
        lambda: movement.slice(zeros(2, 3), begin=(0, 0), size=(2, 1), drop=(0, 1)),
        ShapeError,
        ["Slice", "size=(2, 1)", "drop=(0, 1)"],
    ),
    ErrorCase(
        lambda: movement.strided_slice(zeros(3), begin=(0,), end=(5,), strides=(1,)),
        ShapeError,
        ["end=(5,)", "outside shape (3,)"],
    ),
    ErrorCase(
        lambda: movement.strided_slice(zeros(3), begin=(0,), end=(3,), strides=(0,)),
        ShapeError,
        ["no stride may be 0"],
    ),
]


@pytest.mark.rows("error_case", ERROR_CASES, ids=str)
def test_bad_input(error_case, backend):
    error_case.check()
