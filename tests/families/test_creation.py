"""Tensors made from numbers and shapes."""

import numpy as np
import pytest

import plugrad
from families.case import EVERYTHING, VIEWS, Case, Refusal
from families.domains import uniform
from plugrad.errors import (
    ArgumentError,
    ArgumentValueError,
    DTypeError,
    ShapeError,
    UnsupportedDtype,
)

SHAPES = [(), (3,), (3, 5), (0,), (2, 0, 3), (263, 251)]
LIKE = [
    Case(plugrad.zeros_like, np.zeros_like, [uniform(-3, 3)], dtypes=EVERYTHING),
    Case(plugrad.ones_like, np.ones_like, [uniform(-3, 3)], dtypes=EVERYTHING),
]


def made(op, reference, *args, result="float32", **attrs):
    """Return a case without inputs."""
    case = Case(
        lambda: op(*args, **attrs),
        lambda: reference(*args),
        [],
        result=result,
        is_differentiable=False,
    )
    arguments = [*map(str, args), *(f"{key}={value}" for key, value in attrs.items())]
    return Case(
        **{**vars(case), "name": f"{op.__name__}({','.join(arguments)})".replace(", ", ",")}
    )


MADE = [
    *(made(plugrad.zeros, np.zeros, shape) for shape in SHAPES),
    *(made(plugrad.ones, np.ones, shape) for shape in SHAPES),
    *(made(plugrad.full, np.full, shape, 2.5) for shape in SHAPES),
    made(plugrad.zeros, np.zeros, 4),
    made(plugrad.ones, np.ones, (2, 3), result="int32", dtype="int32"),
    made(plugrad.zeros, np.zeros, (2, 3), result="bool", dtype="bool"),
    made(plugrad.full, np.full, (2, 3), -7, result="int32"),
    made(plugrad.full, np.full, (2, 3), True, result="bool"),
    made(plugrad.full, np.full, (2, 3), 7, dtype="float32"),
    made(plugrad.full, np.full, (3,), np.nan),
    made(plugrad.full, np.full, (3,), -np.inf),
    made(plugrad.arange, np.arange, 5, result="int32"),
    made(plugrad.arange, np.arange, 2, 11, 3, result="int32"),
    made(plugrad.arange, np.arange, 11, 2, -2, result="int32"),
    made(plugrad.arange, np.arange, 0, result="int32"),
    made(plugrad.arange, np.arange, 5, 2, result="int32"),
    made(plugrad.arange, np.arange, 0.5, 3, 0.25),
    made(plugrad.arange, np.arange, 1, 0, -0.1),
    made(plugrad.arange, np.arange, 7, dtype="float32"),
    made(plugrad.arange, np.arange, 70_001, result="int32"),
    made(plugrad.linspace, np.linspace, 0, 1, 5),
    made(plugrad.linspace, np.linspace, -3, 3, 7),
    made(plugrad.linspace, np.linspace, 2, -1, 4),
    made(plugrad.linspace, np.linspace, 2, 3, 1),
    made(plugrad.linspace, np.linspace, 2, 3, 0),
    made(plugrad.linspace, np.linspace, 0, 1, 70_001),
    made(plugrad.eye, np.eye, 3),
    made(plugrad.eye, np.eye, 2, 4),
    made(plugrad.eye, np.eye, 4, 2, result="int32", dtype="int32"),
    made(plugrad.eye, np.eye, 0),
]
CASES = [*LIKE, *MADE]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_values(case, backend, rng):
    case.check_values(rng)


@pytest.mark.parametrize("case", LIKE, ids=str)
def test_values_of_other_dtypes(case, backend, rng):
    case.check_values_of_other_dtypes(rng)


@pytest.mark.parametrize("layout", VIEWS)
@pytest.mark.parametrize("case", LIKE, ids=str)
def test_values_of_views(case, layout, backend, rng):
    case.check_values(rng, layout=layout)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [*EVERYTHING, "int8", "uint8", "uint32", "float16", "complex64"])
def test_values_come_back(dtype, shape, backend, rng):
    x = uniform(0, 3).draw(rng, shape, dtype)
    if dtype in plugrad.which().backend.dtypes():
        y = plugrad.asarray(x)
        assert (y.dtype, y.shape) == (dtype, shape)
        np.testing.assert_array_equal(y.numpy(), x, strict=True)
    else:
        with pytest.raises(UnsupportedDtype, match=f"{backend}.*no {dtype}.*asarray.*cpu"):
            plugrad.asarray(x)


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        (2, "int32"),
        (2.5, "float32"),
        (True, "bool"),
        ([1, 2], "int32"),
        ([1, 2.5], "float32"),
        ([[True], [False]], "bool"),
        ([], "float32"),
        (range(3), "int32"),
        (np.float32([1, 2]), "float32"),
        (np.int32(7), "int32"),
        ([np.float32(1)], "float32"),
    ],
    ids=str,
)
def test_dtype_of_python_values(values, dtype, backend):
    y = plugrad.asarray(values)
    assert y.dtype == dtype
    np.testing.assert_array_equal(y.numpy(), np.asarray(values, dtype), strict=True)


def test_special_values_come_back(backend):
    x = np.array([np.nan, np.inf, -np.inf, 0.0, 3.4e38, -1e-30, 2.0**24 + 1], "float32")
    np.testing.assert_array_equal(plugrad.asarray(x).numpy(), x)
    for value in x:
        np.testing.assert_array_equal(plugrad.asarray(value).numpy(), value)
    limits = np.array([-(2**31), 2**31 - 1, 2**24 + 1], "int32")
    np.testing.assert_array_equal(plugrad.asarray(limits).numpy(), limits)


def test_arrays_in_any_order_come_back(backend, rng):
    x = uniform(-3, 3).draw(rng, (3, 4, 5), "float32")
    for view in (
        x.transpose(2, 0, 1),
        x[::-1, ::2],
        np.asfortranarray(x),
        np.broadcast_to(x, (2, 3, 4, 5)),
    ):
        np.testing.assert_array_equal(plugrad.asarray(view).numpy(), view)


def test_a_tensor_does_not_see_what_happens_to_its_source(backend):
    source = np.array([1.0, 2.0], "float32")
    x = plugrad.asarray(source)
    source[:] = 0
    assert x.tolist() == [1, 2]


def test_gradient_of_what_only_has_a_shape(backend):
    x = plugrad.asarray([1.0, 2.0])
    assert plugrad.grad(lambda x: x * plugrad.ones_like(x))(x).tolist() == [1, 1]
    assert plugrad.grad(plugrad.zeros_like, allow_unused=True)(x).tolist() == [0, 0]


REFUSALS = [
    Refusal(lambda: plugrad.zeros((2, -1)), ShapeError, ["(2, -1)", "negative"]),
    Refusal(lambda: plugrad.ones((2, 0.5)), ShapeError, ["(2, 0.5)", "integers"]),
    Refusal(lambda: plugrad.full((2,), 2**40), ArgumentValueError, ["full", "int32", "int64"]),
    Refusal(lambda: plugrad.zeros((2,), dtype="float"), DTypeError, ["'float'", "float32"]),
    Refusal(lambda: plugrad.arange(0, 5, 0), ArgumentValueError, ["arange", "step=0"]),
    Refusal(lambda: plugrad.arange(np.inf), ArgumentValueError, ["arange", "inf", "finite"]),
    Refusal(lambda: plugrad.linspace(0, 1, -1), ArgumentValueError, ["num=-1", "0 or more"]),
    Refusal(lambda: plugrad.eye(-1), ShapeError, ["-1", "negative"]),
    Refusal(lambda: plugrad.asarray([[1], [1, 2]]), ShapeError, ["asarray", "ragged"]),
    Refusal(lambda: plugrad.asarray(["a"]), ArgumentError, ["asarray", "numbers"]),
    Refusal(lambda: plugrad.asarray(None), ArgumentError, ["asarray", "NoneType"]),
    Refusal(lambda: plugrad.asarray([2**40]), ArgumentValueError, ["int32", "int64"]),
    Refusal(lambda: plugrad.asarray([plugrad.zeros(2)]), ArgumentError, ["tensors in it", "stack"]),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=str)
def test_bad_input(refusal, backend):
    refusal.check()
