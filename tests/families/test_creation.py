"""Functions that create tensors from numbers and shapes."""

import numpy as np
import pytest

import plugrad
from families.case import REAL_AND_BOOL_DTYPES, Case, ErrorCase
from families.domains import uniform
from plugrad.errors import (
    ArgumentError,
    ArgumentValueError,
    DTypeError,
    ShapeError,
    UnsupportedDtype,
)

SHAPES = [(), (3,), (3, 5), (0,), (2, 0, 3), (263, 251)]
LIKE_CASES = [
    Case(plugrad.zeros_like, np.zeros_like, [uniform(-3, 3)], dtypes=REAL_AND_BOOL_DTYPES),
    Case(plugrad.ones_like, np.ones_like, [uniform(-3, 3)], dtypes=REAL_AND_BOOL_DTYPES),
    Case(plugrad.empty_like, np.zeros_like, [uniform(-3, 3)], dtypes=REAL_AND_BOOL_DTYPES),
    Case(
        plugrad.full_like,
        np.full_like,
        [uniform(-3, 3)],
        (),
        {"fill_value": 1},
        REAL_AND_BOOL_DTYPES,
    ),
]


def creation_case(op, reference, *args, result="float32", **attrs):
    """Return a case of an op without tensor inputs."""
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


CREATION_CASES = [
    *(creation_case(plugrad.zeros, np.zeros, shape) for shape in SHAPES),
    *(creation_case(plugrad.ones, np.ones, shape) for shape in SHAPES),
    *(creation_case(plugrad.full, np.full, shape, 2.5) for shape in SHAPES),
    creation_case(plugrad.zeros, np.zeros, 4),
    creation_case(plugrad.ones, np.ones, (2, 3), result="int32", dtype="int32"),
    creation_case(plugrad.zeros, np.zeros, (2, 3), result="bool", dtype="bool"),
    creation_case(plugrad.full, np.full, (2, 3), -7, result="int32"),
    creation_case(plugrad.full, np.full, (2, 3), True, result="bool"),
    creation_case(plugrad.full, np.full, (2, 3), 7, dtype="float32"),
    creation_case(plugrad.full, np.full, (3,), np.nan),
    creation_case(plugrad.full, np.full, (3,), -np.inf),
    creation_case(plugrad.arange, np.arange, 5, result="int32"),
    creation_case(plugrad.arange, np.arange, 2, 11, 3, result="int32"),
    creation_case(plugrad.arange, np.arange, 11, 2, -2, result="int32"),
    creation_case(plugrad.arange, np.arange, 0, result="int32"),
    creation_case(plugrad.arange, np.arange, 5, 2, result="int32"),
    creation_case(plugrad.arange, np.arange, 0.5, 3, 0.25),
    creation_case(plugrad.arange, np.arange, 1, 0, -0.1),
    creation_case(plugrad.arange, np.arange, 7, dtype="float32"),
    creation_case(plugrad.arange, np.arange, 70_001, result="int32"),
    creation_case(
        lambda n, **kw: plugrad.arange(plugrad.asarray(n), **kw), np.arange, 5, result="int32"
    ),
    creation_case(
        lambda n, **kw: plugrad.arange(1, plugrad.asarray(n), **kw), lambda n: np.arange(1, n), 3.5
    ),
    creation_case(plugrad.linspace, np.linspace, 0, 1, 5),
    creation_case(plugrad.linspace, np.linspace, -3, 3, 7),
    creation_case(plugrad.linspace, np.linspace, 2, -1, 4),
    creation_case(plugrad.linspace, np.linspace, 2, 3, 1),
    creation_case(plugrad.linspace, np.linspace, 2, 3, 0),
    creation_case(plugrad.linspace, np.linspace, 0, 1, 70_001),
    creation_case(plugrad.eye, np.eye, 3),
    creation_case(plugrad.eye, np.eye, 2, 4),
    creation_case(plugrad.eye, np.eye, 4, 2, result="int32", dtype="int32"),
    creation_case(plugrad.eye, np.eye, 0),
    *(
        creation_case(plugrad.eye, lambda *sizes, k=k: np.eye(*sizes, k), rows, columns, k=k)
        for rows, columns, k in [(3, 3, 1), (3, 4, 2), (4, 3, -1), (2, 2, 5), (2, 2, -5), (0, 3, 1)]
    ),
    creation_case(plugrad.empty, np.zeros, (2, 3)),
    creation_case(plugrad.empty, np.zeros, (2, 3), result="int32", dtype="int32"),
    *(
        creation_case(
            plugrad.linspace,
            lambda *bounds: np.linspace(*bounds, endpoint=False),
            *bounds,
            endpoint=False,
        )
        for bounds in [(0, 1, 4), (-3, 3, 7), (2, -1, 1), (0, 1, 0)]
    ),
]
COMPLEX_CASES = [
    creation_case(plugrad.linspace, np.linspace, 0, 1 + 2j, 5, result="complex64"),
    creation_case(plugrad.linspace, np.linspace, 1j, 2, 3, result="complex128", dtype="complex128"),
    creation_case(plugrad.linspace, np.linspace, 0, 1, 3, result="complex64", dtype="complex64"),
]
CASES = [*LIKE_CASES, *CREATION_CASES]


@pytest.mark.rows("case", CASES, ids=str)
def test_values(case, backend, rng):
    case.check_values(rng)


@pytest.mark.rows("case", COMPLEX_CASES, ids=str)
def test_complex_values(case, backend, rng):
    if case.result in plugrad.which().backend.dtypes():
        case.check_values(rng)
    else:
        with pytest.raises(UnsupportedDtype, match=f"{backend}.*does not have {case.result}"):
            case.op()


@pytest.mark.rows("case", LIKE_CASES, ids=str)
def test_values_of_other_dtypes(case, backend, rng):
    case.check_values_of_other_dtypes(rng)


@pytest.mark.rows("case", LIKE_CASES, ids=str)
def test_values_of_views(case, backend, rng):
    case.check_values_of_views(rng)


@pytest.mark.rows("shape", SHAPES, ids=str)
@pytest.mark.parametrize(
    "dtype", [*REAL_AND_BOOL_DTYPES, "int8", "uint8", "uint32", "float16", "complex64"]
)
def test_values_survive_a_round_trip(dtype, shape, backend, rng):
    x = uniform(0, 3).draw(rng, shape, dtype)
    if dtype in plugrad.which().backend.dtypes():
        y = plugrad.asarray(x)
        assert (y.dtype, y.shape) == (dtype, shape)
        np.testing.assert_array_equal(y.numpy(), x, strict=True)
    else:
        with pytest.raises(
            UnsupportedDtype, match=f"{backend}.*does not have {dtype}.*asarray.*cpu"
        ):
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


def test_special_values_survive_a_round_trip(backend):
    x = np.array([np.nan, np.inf, -np.inf, 0.0, 3.4e38, -1e-30, 2.0**24 + 1], "float32")
    np.testing.assert_array_equal(plugrad.asarray(x).numpy(), x)
    for value in x:
        np.testing.assert_array_equal(plugrad.asarray(value).numpy(), value)
    limits = np.array([-(2**31), 2**31 - 1, 2**24 + 1], "int32")
    np.testing.assert_array_equal(plugrad.asarray(limits).numpy(), limits)


def test_arrays_of_any_memory_order_survive_a_round_trip(backend, rng):
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


@pytest.mark.parametrize(
    "make",
    [
        lambda **where: plugrad.asarray([1.0], **where),
        lambda **where: plugrad.arange(3, **where),
        lambda **where: plugrad.empty(3, **where),
        lambda **where: plugrad.eye(3, **where),
        lambda **where: plugrad.full(3, 2.5, **where),
        lambda **where: plugrad.linspace(0, 1, 3, **where),
        lambda **where: plugrad.ones(3, **where),
        lambda **where: plugrad.zeros(3, **where),
        lambda **where: plugrad.empty_like(plugrad.zeros(3), **where),
        lambda **where: plugrad.full_like(plugrad.zeros(3), 1, **where),
        lambda **where: plugrad.ones_like(plugrad.zeros(3), **where),
        lambda **where: plugrad.zeros_like(plugrad.zeros(3), **where),
    ],
)
def test_dtype_and_device_are_chosen(make, backend):
    """The result has the requested dtype and device, whatever the active backend."""
    assert make().device == f"{backend}:0"
    y = make(dtype="float64", device="cpu")
    assert (y.dtype, y.device) == ("float64", "cpu:0")
    assert make(device="cpu:0").device == "cpu:0"


def test_numbers_that_are_equal_make_different_tensors(backend):
    """Argument checks cached for 1 must not apply to True or 1.0."""
    for value in (1, True, 1.0, 1, np.float32(1)):
        expected = {int: "int32", bool: "bool"}.get(type(value), "float32")
        assert plugrad.full((2,), value).dtype == expected
    for stop in (3, 3.0, 3):
        assert plugrad.arange(stop).dtype == ("int32" if type(stop) is int else "float32")
    assert plugrad.full((2,), 0.0).tolist() == plugrad.full((2,), -0.0).tolist() == [0, 0]


@pytest.mark.parametrize("shape", [(), (3,), (1 << 16,)])
def test_zeros_keep_their_sign(shape, backend):
    for x in plugrad.full(shape, -0.0), plugrad.full_like(plugrad.ones(shape), -0.0):
        assert np.signbit(x.numpy()).all()
    parts = plugrad.full(shape, complex(-0.0, 0.0)).numpy()
    assert np.signbit(parts.real).all()
    assert not np.signbit(parts.imag).any()
    parts = plugrad.full(shape, complex(0.0, -0.0)).numpy()
    assert not np.signbit(parts.real).any()
    assert np.signbit(parts.imag).all()


@pytest.mark.rows("k", [-3, -1, 0, 2, 40])
@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (4, 6), (32, 32), (33, 32), (7, 200)], ids=str)
def test_identity_matrices_of_few_and_of_many_elements(shape, k, backend):
    for dtype in ("float32", "int32", "bool"):
        found = plugrad.eye(*shape, k=k, dtype=dtype)
        assert found.dtype == dtype
        np.testing.assert_array_equal(found.numpy(), np.eye(*shape, k=k, dtype=dtype))


@pytest.mark.parametrize("count", [0, 1, 2, 3, 8, 1024, 1025])
def test_equal_spaces_of_few_and_of_many_numbers(count, backend):
    for ends in ((0, 1), (-0.5, 3), (7.25, -2), (2, 2)):
        found = plugrad.linspace(*ends, count).numpy()
        np.testing.assert_allclose(found, np.linspace(*ends, count, dtype="f4"), 1e-6)


def test_dtypes_that_the_backend_lacks_are_rejected(backend):
    lacking = {"complex128", "float64"} - plugrad.which().backend.dtypes()
    for dtype in lacking:
        for make in (plugrad.eye, plugrad.zeros, plugrad.empty):
            with pytest.raises(UnsupportedDtype, match=f"{backend}.*does not have {dtype}"):
                make(3, dtype=dtype)


def test_asarray_copies_only_if_asked(backend):
    x = plugrad.asarray([1.0, 2.0])
    assert plugrad.asarray(x).array is x.array
    assert plugrad.asarray(x, copy=False).array is x.array
    copy = plugrad.asarray(x, copy=True)
    x.dispose()
    assert copy.tolist() == [1, 2]


def test_gradient_goes_through_a_copy(backend):
    y = plugrad.grad(lambda x: plugrad.asarray(x, copy=True) * 3)(plugrad.asarray([1.0]))
    assert y.tolist() == [3]


def test_arrays_of_other_libraries_are_read(backend):
    source = np.array([[1.0, 2.0], [3.0, 4.0]], "float32")
    x = plugrad.from_dlpack(source.T)
    source[:] = 0
    assert (x.tolist(), x.device) == ([[1, 3], [2, 4]], f"{backend}:0")
    assert plugrad.from_dlpack(x).array is x.array
    assert plugrad.from_dlpack(source, device="cpu").device == "cpu:0"


def test_gradients_of_ones_like_and_zeros_like(backend):
    x = plugrad.asarray([1.0, 2.0])
    assert plugrad.grad(lambda x: plugrad.sum(x * plugrad.ones_like(x)))(x).tolist() == [1, 1]
    total = lambda x: plugrad.sum(plugrad.zeros_like(x))  # noqa: E731
    assert plugrad.grad(total, allow_unused=True)(x).tolist() == [0, 0]


ERROR_CASES = [
    ErrorCase(lambda: plugrad.zeros((2, -1)), ShapeError, ["(2, -1)", "negative"]),
    ErrorCase(lambda: plugrad.ones((2, 0.5)), ShapeError, ["(2, 0.5)", "integers"]),
    ErrorCase(lambda: plugrad.full((2,), 2**40), ArgumentValueError, ["full", "int32", "int64"]),
    ErrorCase(lambda: plugrad.zeros((2,), dtype="float"), DTypeError, ["'float'", "float32"]),
    ErrorCase(lambda: plugrad.arange(0, 5, 0), ArgumentValueError, ["arange", "step=0"]),
    ErrorCase(lambda: plugrad.arange(np.inf), ArgumentValueError, ["arange", "inf", "finite"]),
    ErrorCase(lambda: plugrad.linspace(0, 1, -1), ArgumentValueError, ["num=-1", "0 or more"]),
    ErrorCase(lambda: plugrad.eye(-1), ShapeError, ["-1", "negative"]),
    ErrorCase(lambda: plugrad.arange(300, dtype="uint8"), ArgumentValueError, ["299", "uint8"]),
    ErrorCase(lambda: plugrad.linspace(0, 1, 3, dtype="int32"), DTypeError, ["linspace", "int32"]),
    ErrorCase(lambda: plugrad.linspace(0, 1j, 3, dtype="float32"), DTypeError, ["complex64"]),
    ErrorCase(lambda: plugrad.full_like([1], 2**40), ArgumentValueError, ["full_like", "int32"]),
    ErrorCase(
        lambda: plugrad.asarray([1], copy=False), ArgumentValueError, ["copy=False", "copy out"]
    ),
    ErrorCase(
        lambda: plugrad.asarray(plugrad.zeros(2), dtype="int32", copy=False),
        ArgumentValueError,
        ["copy=False"],
    ),
    ErrorCase(
        lambda: plugrad.from_dlpack([1]), ArgumentError, ["from_dlpack", "list", "host memory"]
    ),
    ErrorCase(
        lambda: plugrad.from_dlpack(np.zeros(2), device="wasm", copy=False),
        ArgumentValueError,
        ["copy=False", "wasm:0", "host"],
    ),
    ErrorCase(lambda: plugrad.asarray([[1], [1, 2]]), ShapeError, ["asarray", "ragged"]),
    ErrorCase(lambda: plugrad.asarray([None]), ArgumentError, ["asarray", "numbers"]),
    ErrorCase(lambda: plugrad.asarray(None), ArgumentError, ["asarray", "NoneType"]),
    ErrorCase(lambda: plugrad.asarray([2**40]), ArgumentValueError, ["int32", "int64"]),
]


@pytest.mark.rows("error_case", ERROR_CASES, ids=str)
def test_bad_input(error_case, backend):
    error_case.check()
