"""Dtypes and promotion, against the tables of the array API standard."""

import math
import pickle
import sys
from copy import copy, deepcopy

import numpy as np
import pytest

import plugrad
from plugrad.errors import DTypeError
from plugrad.extend import DTYPES, as_dtype
from plugrad.types.bits import comparable_bits
from plugrad.types.dtype import promote, promote_scalar

SIGNED_DTYPES = ["int8", "int16", "int32", "int64"]
UNSIGNED_DTYPES = ["uint8", "uint16", "uint32", "uint64"]
FLOATING_DTYPES = ["float32", "float64"]
COMPLEX_DTYPES = ["complex64", "complex128"]

# The rows of the standard's tables: (type, type, result).
PROMOTION_TABLE = [
    *[(a, b, max(a, b, key=names.index)) for names in (SIGNED_DTYPES, UNSIGNED_DTYPES) for a in names for b in names],
    ("int8", "uint8", "int16"), ("int8", "uint16", "int32"), ("int8", "uint32", "int64"),
    ("int16", "uint8", "int16"), ("int16", "uint16", "int32"), ("int16", "uint32", "int64"),
    ("int32", "uint8", "int32"), ("int32", "uint16", "int32"), ("int32", "uint32", "int64"),
    ("int64", "uint8", "int64"), ("int64", "uint16", "int64"), ("int64", "uint32", "int64"),
    ("float32", "float32", "float32"), ("float32", "float64", "float64"),
    ("float32", "complex64", "complex64"), ("float32", "complex128", "complex128"),
    ("float64", "float64", "float64"), ("float64", "complex64", "complex128"),
    ("float64", "complex128", "complex128"), ("complex64", "complex64", "complex64"),
    ("complex64", "complex128", "complex128"), ("complex128", "complex128", "complex128"),
    ("bool", "bool", "bool"),
]  # fmt: skip


@pytest.mark.rows(("a", "b", "result"), PROMOTION_TABLE)
def test_promotion_matches_the_standard(a, b, result):
    a, b = as_dtype(a), as_dtype(b)
    assert promote(a, b) == promote(b, a) == result
    x = plugrad.ones(2, dtype=a) + plugrad.ones(2, dtype=b) if a != "bool" else None
    assert x is None or x.dtype == result


@pytest.mark.parametrize("signed", SIGNED_DTYPES)
def test_uint64_and_signed_integers_have_no_common_type(signed):
    with pytest.raises(DTypeError, match="no common integer dtype; cast one of them first"):
        promote(as_dtype(signed), as_dtype("uint64"))


@pytest.mark.parametrize(
    ("a", "b", "result"),
    [
        ("bool", "int8", "int8"),
        ("bool", "float32", "float32"),
        ("int64", "float32", "float32"),  # the kind decides, not the width
        ("uint8", "float64", "float64"),
        ("int32", "complex64", "complex64"),
        ("float16", "float32", "float32"),
        ("int8", "float16", "float16"),
    ],
)
def test_promotion_between_kinds_beyond_the_standard(a, b, result):
    assert promote(as_dtype(a), as_dtype(b)) == promote(as_dtype(b), as_dtype(a)) == result


def test_promotion_is_associative_within_a_kind():
    for names in (SIGNED_DTYPES, UNSIGNED_DTYPES, FLOATING_DTYPES + COMPLEX_DTYPES):
        for a, b, c in (
            (as_dtype(x), as_dtype(y), as_dtype(z)) for x in names for y in names for z in names
        ):
            assert promote(promote(a, b), c) == promote(a, promote(b, c))


@pytest.mark.parametrize(
    ("dtype", "scalar", "result"),
    [
        ("int8", 2, "int8"), ("uint8", 2, "uint8"), ("int64", True, "int64"), ("int8", 2.0, "float32"),
        ("float16", 2.5, "float16"), ("float64", 2.5, "float64"), ("float32", 2, "float32"),
        ("float32", 1j, "complex64"), ("float64", 1j, "complex128"), ("complex64", 2.5, "complex64"),
        ("bool", 2, "int32"), ("bool", 2.0, "float32"), ("bool", True, "bool"), ("int32", 1j, "complex64"),
    ],
)  # fmt: skip
def test_python_scalars_are_weak(dtype, scalar, result):
    assert promote_scalar(as_dtype(dtype), scalar) == result
    if not (dtype == "bool" and result == "bool"):
        x = plugrad.ones(2, dtype=dtype)
        assert (x + scalar).dtype == (scalar + x).dtype == result


def test_scalar_that_does_not_fit_is_refused():
    x = plugrad.ones(2, dtype="int8")
    for scalar in (128, -129, 10**30):
        with pytest.raises(ValueError, match="does not fit int8; ask for another dtype"):
            x + scalar
    assert (x + 126).tolist() == [127, 127]


def test_numpy_scalars_and_arrays_are_strong():
    x = plugrad.ones(2)
    assert (x + np.ones(2)).dtype is plugrad.float64
    assert (plugrad.ones(2, dtype="int8") + np.int16(1)).dtype is plugrad.int16
    assert (plugrad.ones(2, dtype="float16") + np.float32(1)).dtype is plugrad.float32


def test_numpy_scalars_that_are_python_scalars_are_weak():
    """`np.float64` derives from float, and `np.complex128` from complex."""
    assert (plugrad.ones(2) + np.float64(1)).dtype is plugrad.float32
    assert (plugrad.ones(2) * np.complex128(1j)).dtype is plugrad.complex64


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_numpy_takes_a_dtype(dtype):
    assert np.dtype(dtype) is dtype.numpy
    assert np.zeros(2, dtype).dtype == dtype.numpy
    if dtype != "string":
        assert dtype == dtype.numpy == np.dtype(dtype.name) == dtype
        assert plugrad.zeros(2, dtype=dtype).dtype is dtype


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_equivalent_names_and_types_give_the_same_dtype(dtype):
    assert dtype.numpy.itemsize == dtype.itemsize
    assert as_dtype(dtype) is as_dtype(str(dtype)) is as_dtype(dtype.numpy) is dtype
    assert as_dtype(dtype.numpy.type) is dtype
    assert dtype.name == str(dtype) == f"{dtype}"
    assert repr(dtype) == f"plugrad.{dtype}"


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_dtypes_are_immutable_singletons(dtype):
    assert pickle.loads(pickle.dumps(dtype)) is copy(dtype) is deepcopy([dtype])[0] is dtype
    assert plugrad.DType(dtype.name) is dtype
    for change in (lambda: setattr(dtype, "itemsize", 3), lambda: delattr(dtype, "name")):
        with pytest.raises(AttributeError, match=f"{dtype!r} does not change"):
            change()
    with pytest.raises(AttributeError):
        dtype.more = 1


def test_a_dtype_equals_its_name_but_is_no_string():
    others = [*DTYPES, *map(str, DTYPES)]
    for dtype in DTYPES:
        assert not isinstance(dtype, str)
        assert [x for x in others if x == dtype] == [dtype, dtype.name]
        assert hash(dtype) == hash(dtype.name)
        assert {dtype.name: 1}[dtype] == {dtype: 1}[dtype.name] == 1
    assert plugrad.float32 not in (None, 4, "float", np.dtype("int32"), plugrad.float64)
    with pytest.raises(TypeError):
        sorted(DTYPES)  # they have no order


def test_looking_up_a_dtype_calls_no_python():
    """A call of a kernel looks up several dtypes, so the lookup must be fast."""
    calls = []
    table, accepted = {d: d for d in DTYPES}, plugrad.kernels.unary.exp.accepted_dtypes
    sys.setprofile(lambda frame, event, _: calls.append(frame) if event == "call" else None)
    try:
        for dtype in DTYPES:
            hash(dtype), table[dtype], dtype in accepted
    finally:
        sys.setprofile(None)
    assert calls == []


def test_dtypes_have_a_kind():
    kinds = {"bool", "signed", "unsigned", "floating", "complex", "string"}
    assert {d.kind for d in DTYPES} == kinds
    assert plugrad.int32.is_integer
    assert not plugrad.bool.is_integer
    assert plugrad.complex64.is_inexact
    assert not plugrad.uint8.is_inexact


def test_python_types_mean_the_default_dtypes():
    assert [as_dtype(t) for t in (bool, int, float, complex)] == [
        "bool",
        "int32",
        "float32",
        "complex64",
    ]


def test_unknown_dtype_suggests_the_nearest():
    with pytest.raises(
        DTypeError, match=r"'flaot32' is not a dtype \(did you mean 'float32'\?\); choose"
    ):
        plugrad.zeros(2, dtype="flaot32")
    for wrong in ("object", None, 3, [], np.dtype("O")):
        with pytest.raises(DTypeError, match="is not a dtype"):
            as_dtype(wrong)


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        (1, "int32"), (True, "bool"), (1.0, "float32"), (1j, "complex64"), ([1, 2], "int32"),
        ([1, 2.5], "float32"), ([True, False], "bool"), ([], "float32"), ([[1j], [2]], "complex64"),
        (np.float64(1), "float64"), (np.arange(3), "int64"), ([np.float64(1)], "float64"),
    ],
)  # fmt: skip
def test_default_dtypes(values, dtype):
    assert plugrad.asarray(values).dtype == dtype


def test_comparable_bits_distinguish_signed_zeros_but_not_nans():
    zero, nan = np.zeros(1, "float32"), np.full(1, np.nan, "float32")
    payload = np.array([0xFFC00001], "uint32").view("float32")
    assert comparable_bits(zero) != comparable_bits(-zero)
    assert comparable_bits(nan) == comparable_bits(-nan) == comparable_bits(payload)
    assert comparable_bits(nan) != comparable_bits(zero)
    pairs = [complex(a, b) for a in (0.0, -0.0, math.nan) for b in (1.0, 2.0, math.nan)]
    assert len({comparable_bits(np.array([[z], [z]])[::2]) for z in pairs}) == len(pairs)
    assert comparable_bits(np.array(complex(-math.nan, 1))) == comparable_bits(
        np.array(complex(math.nan, 1))
    )
    text = np.array(["a", "b"], object)
    assert comparable_bits(text) == ["a", "b"]
