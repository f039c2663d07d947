"""The array API standard's requirements of a namespace and its arrays, compared with array-api-strict."""

import operator
from itertools import product

import array_api_strict as standard
import numpy as np
import pytest

import plugrad
from plugrad.discovery.state import fresh_state
from plugrad.errors import ArgumentError, ArgumentValueError, DTypeError, ShapeError

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float32", "float64", "complex64", "complex128"]
DTYPES = ["bool", *INTEGERS, *FLOATS]
DTYPE_KINDS = [
    *("bool", "signed integer", "unsigned integer", "integral"),
    *("real floating", "complex floating", "numeric"),
]


def standard_function(name):
    return getattr(standard, name)


# --- dtypes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", DTYPES)
def test_can_cast(start):
    for end in DTYPES:
        assert plugrad.can_cast(start, end) == standard.can_cast(
            standard_function(start), standard_function(end)
        ), end
    assert plugrad.can_cast(plugrad.ones(2, dtype=start, device="cpu"), start)


@pytest.mark.parametrize("dtype", DTYPES)
def test_isdtype(dtype):
    for kind in DTYPE_KINDS:
        assert plugrad.isdtype(dtype, kind) == standard.isdtype(standard_function(dtype), kind), (
            kind
        )
    for other in DTYPES:
        assert plugrad.isdtype(plugrad.as_dtype(dtype), plugrad.as_dtype(other)) == (dtype == other)
    assert plugrad.isdtype(dtype, ("numeric", plugrad.bool))
    assert not plugrad.isdtype(dtype, ())


@pytest.mark.rows(("a", "b"), list(product(DTYPES, DTYPES)))
def test_result_type_of_dtypes(a, b):
    try:
        expected = str(standard.result_type(standard_function(a), standard_function(b))).rpartition(
            "."
        )[2]
    except TypeError:
        return  # the standard leaves it open
    x = plugrad.ones(2, dtype=b, device="cpu")
    for result in (plugrad.result_type(a, b), plugrad.result_type(plugrad.as_dtype(a), x)):
        assert result == expected


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (("int8", 3), "int8"),
        (("float32", 3), "float32"),
        (("float64", 2.5), "float64"),
        (("float32", 1j), "complex64"),
        (("float64", 1j), "complex128"),
        (("bool", True), "bool"),
        (("int8", "int16", 2, 2.5), "float32"),
        ((1, "uint8", "int16"), "int16"),
        ((np.ones(2), np.dtype("float32")), "float64"),
        ((np.float32, 1.0), "float32"),
    ],
    ids=str,
)
def test_result_type_with_scalars(parts, expected):
    assert plugrad.result_type(*parts) == expected


@pytest.mark.parametrize("name", FLOATS)
def test_finfo(name):
    ours, wanted = plugrad.finfo(name), standard.finfo(standard_function(name))
    for key in ("bits", "eps", "max", "min", "smallest_normal"):
        assert getattr(ours, key) == getattr(wanted, key)
        assert type(getattr(ours, key)) in (int, float)
    assert ours.dtype == str(wanted.dtype).rpartition(".")[2]
    assert plugrad.finfo(plugrad.ones(2, dtype=name, device="cpu")) == ours


@pytest.mark.parametrize("name", INTEGERS)
def test_iinfo(name):
    ours, wanted = plugrad.iinfo(name), standard.iinfo(standard_function(name))
    assert (ours.bits, ours.max, ours.min) == (wanted.bits, wanted.max, wanted.min)
    assert ours.dtype is plugrad.as_dtype(name)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: plugrad.finfo("int32"), ArgumentValueError, "int32 is not floating.*iinfo"),
        (lambda: plugrad.iinfo("float32"), ArgumentValueError, "float32 is not an integer.*finfo"),
        (lambda: plugrad.isdtype("int8", "integer"), ArgumentValueError, "'integer' is not a kind"),
        (lambda: plugrad.isdtype("int7", "bool"), DTypeError, "'int7' is not a dtype"),
        (lambda: plugrad.isdtype("int8", None), DTypeError, "None is not a dtype"),
        (lambda: plugrad.result_type(1, 2.5), ArgumentValueError, "at least one tensor or dtype"),
        (lambda: plugrad.result_type("int64", "uint64"), DTypeError, "no common integer dtype"),
        (lambda: plugrad.can_cast("int8", 3), DTypeError, "3 is not a dtype"),
    ],
)
def test_bad_dtypes(call, error, message):
    with pytest.raises(error, match=message):
        call()


# --- the namespace --------------------------------------------------------------------------------


def test_namespace_of_a_tensor():
    x = plugrad.ones((2,), device="cpu")
    assert x.__array_namespace__() is plugrad
    assert x.__array_namespace__(api_version="2024.12") is plugrad
    with pytest.raises(ArgumentValueError, match=r"'2030\.12' is not one of 2021\.12"):
        x.__array_namespace__(api_version="2030.12")
    assert plugrad.__array_api_version__ == "2024.12"


def test_new_axis(backend):
    assert plugrad.ones((2, 3))[:, plugrad.newaxis].shape == (2, 1, 3)


def test_default_dtypes_match_created_tensors(backend):
    info = plugrad.__array_namespace_info__()
    assert plugrad.ones(2).device == info.default_device()
    defaults = info.default_dtypes(device=backend)
    assert plugrad.ones(2).dtype is defaults["real floating"]
    assert plugrad.arange(2).dtype is defaults["integral"]
    assert plugrad.argmax(plugrad.ones(2)).dtype is defaults["indexing"]
    assert plugrad.result_type("float32", 1j) is defaults["complex floating"]


def test_dtypes_of_a_device(backend):
    info = plugrad.__array_namespace_info__()
    has = info.dtypes(device=backend)
    for name, dtype in has.items():
        assert (plugrad.zeros(2, dtype=dtype).dtype, dtype.name) == (name, name)
    assert has.keys() == {d.name for d in plugrad.which().backend.dtypes()} - {
        "string",
        "float16",
        "bfloat16",
    }
    assert info.dtypes(kind="bool").keys() == {"bool"}
    assert info.dtypes(kind=("bool", "signed integer")).keys() == {
        name for name in has if name == "bool" or name.startswith("int")
    }
    with pytest.raises(ArgumentValueError, match="'floating' is not a kind"):
        info.dtypes(kind="floating")


def test_listed_devices_can_hold_tensors(backend):
    devices = plugrad.__array_namespace_info__().devices()
    assert plugrad.ones(2).device in devices
    for device in devices:
        assert plugrad.ones(2, device=device).device == device


def test_devices_of_blocked_backends_are_not_listed():
    with fresh_state(), plugrad.config.override("plugins.disable", ["wasm", "webgpu"]):
        devices = plugrad.__array_namespace_info__().devices()
    assert "cpu:0" in devices
    assert not any(d.startswith("w") for d in devices)


def test_capabilities(backend):
    can = plugrad.__array_namespace_info__().capabilities()
    x = plugrad.ones((1,) * can["max dimensions"])
    assert (x + x).ndim == can["max dimensions"]
    assert can.keys() == standard.__array_namespace_info__().capabilities().keys()
    x = plugrad.asarray([1, 2, 3])
    assert (x[x > 1].tolist() == [2, 3]) is can["boolean indexing"]


# --- tensors --------------------------------------------------------------------------------------


def test_transposed_matrices(backend):
    x = plugrad.reshape(plugrad.arange(24), (2, 3, 4))
    np.testing.assert_array_equal(x.mT.numpy(), x.numpy().mT)
    with pytest.raises(ShapeError, match=r"matrix_transpose.*\(3,\)"):
        _ = plugrad.ones(3).mT


def test_to_device(backend):
    x = plugrad.asarray([1.0, 2.0])
    assert x.to_device(x.device).array is x.array
    assert x.to_device("cpu").device == "cpu:0"


@pytest.mark.parametrize(
    "symbol",
    [
        *(operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.ifloordiv),
        *(operator.imod, operator.ipow),
        *(operator.iand, operator.ior, operator.ixor, operator.ilshift, operator.irshift),
    ],
)
def test_augmented_assignment_makes_another_tensor(symbol, backend):
    dtype = "float32" if symbol is operator.itruediv else "int32"
    x = y = plugrad.asarray([5, 6], dtype=dtype)
    y = symbol(y, 2)
    assert y is not x
    assert x.tolist() == [5, 6]
    assert y.tolist() == symbol(np.array([5, 6], dtype), 2).tolist()


def test_augmented_assignment_of_matrices(backend):
    x = y = plugrad.asarray([[1.0, 2.0], [3.0, 4.0]])
    y @= y
    assert (x.tolist(), y.tolist()) == ([[1, 2], [3, 4]], [[7, 10], [15, 22]])


def test_conversion_to_python_numbers(backend):
    assert complex(plugrad.asarray(2.5)) == 2.5
    assert complex(plugrad.asarray(True)) == 1
    assert operator.index(plugrad.asarray(3)) == 3
    assert [10, 20, 30][plugrad.asarray(2)] == 30
    with pytest.raises(DTypeError, match=r"float32 tensor cannot be an index.*astype"):
        operator.index(plugrad.asarray(3.0))


@pytest.mark.parametrize("dtype", ["float32", "int32", "bool"])
def test_other_libraries_read_tensors_through_dlpack(dtype, backend):
    x = plugrad.asarray([[1, 0], [3, 4]]).astype(dtype)
    assert x.__dlpack_device__() == (1, 0)
    values = np.from_dlpack(x)
    np.testing.assert_array_equal(values, x.numpy())
    assert values.dtype == dtype
    assert not np.shares_memory(values, x.numpy())
    assert plugrad.from_dlpack(values).tolist() == x.tolist()


def test_dlpack_shares_memory_only_if_asked_to():
    x = plugrad.asarray([1.0, 2.0], device="cpu")
    shared = np.from_dlpack(x, copy=False)
    assert np.shares_memory(shared, x.numpy())
    assert not shared.flags.writeable
    for version in ({}, {"max_version": (0, 8)}):  # older ones do not have the flag
        assert "versioned" not in repr(x.__dlpack__(copy=False, **version))
    with pytest.raises(ArgumentError, match="stream=1 must be None"):
        x.__dlpack__(stream=1)
    host = np.arange(3.0)
    y = plugrad.from_dlpack(host, device="cpu", copy=False)
    host[0] = 7
    assert y.tolist() == [7, 1, 2]
    assert plugrad.from_dlpack(host, device="cpu").tolist() == y.tolist()
    y[0] = 5
    assert host.tolist() == [7, 1, 2]
