"""bfloat16: its names, promotion, casts, and how it goes to files and other libraries and comes back."""

import copy
import math
import pickle
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

import plugrad
from plugrad.errors import ArgumentError, DTypeError
from plugrad.types.dtype import nearest_dtype, promote, promote_scalar

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


@pytest.fixture(autouse=True)
def _skip_without_bfloat16(request):
    if "backend" in request.fixturenames:
        name = request.getfixturevalue("backend")
        if plugrad.bfloat16 not in plugrad.which().backend.dtypes():
            pytest.skip(f"{name} does not store bfloat16")


def test_bfloat16_is_found_by_name_and_numpy_dtype():
    for spelling in ("bfloat16", ml_dtypes.bfloat16, BFLOAT16, plugrad.bfloat16):
        assert plugrad.as_dtype(spelling) is plugrad.DType("bfloat16") is plugrad.bfloat16
    assert (plugrad.bfloat16.kind, plugrad.bfloat16.itemsize) == ("floating", 2)
    assert plugrad.bfloat16.numpy == np.dtype(plugrad.bfloat16) == BFLOAT16
    assert pickle.loads(pickle.dumps(plugrad.bfloat16)) is copy.copy(plugrad.bfloat16)
    assert repr(plugrad.bfloat16) == "plugrad.bfloat16"
    assert plugrad.isdtype("bfloat16", "real floating")
    limits = plugrad.finfo(plugrad.bfloat16)
    assert (limits.bits, limits.eps, limits.dtype) == (16, 2**-7, "bfloat16")


LATE_IMPORT_PROGRAM = """
import numpy as np
import plugrad
assert "ml_dtypes" not in __import__("sys").modules
x = plugrad.exp(plugrad.zeros(3))
{name}
y = plugrad.exp(plugrad.zeros(3, dtype="bfloat16"))
assert (y.dtype, y.tolist()) == ("bfloat16", [1, 1, 1])
"""


@pytest.mark.parametrize(
    "name", ["", "import ml_dtypes; plugrad.asarray(np.ones(2, ml_dtypes.bfloat16))"]
)
def test_bfloat16_may_be_named_after_kernels_have_run(name):
    """Kernels that ran before ml_dtypes was imported accept bfloat16; other programs do not import it."""
    subprocess.run([sys.executable, "-c", LATE_IMPORT_PROGRAM.format(name=name)], check=True)


def test_error_without_ml_dtypes_names_the_package():
    code = """
import sys
sys.modules["ml_dtypes"] = None
import plugrad
for name in (lambda: plugrad.bfloat16, lambda: plugrad.zeros(2, dtype="bfloat16")):
    try:
        name()
    except plugrad.errors.DTypeError as error:
        assert 'pip install "plugrad[bfloat16]"' in str(error)
    else:
        raise AssertionError
"""
    subprocess.run([sys.executable, "-c", code], check=True)


# --- promotion -----------------------------------------------------------------------------------

JAX_PROMOTION = {
    **dict.fromkeys(("bool", "int8", "int16", "int32", "int64"), "bfloat16"),
    **dict.fromkeys(("uint8", "uint16", "uint32", "uint64", "bfloat16"), "bfloat16"),
    "float16": "float32",
    **{name: name for name in ("float32", "float64", "complex64", "complex128")},
}
"""What ``jax.numpy.promote_types`` of JAX 0.10 gives with bfloat16."""


@pytest.mark.parametrize(("other", "expected"), JAX_PROMOTION.items())
def test_promotion_matches_jax(other, expected):
    with plugrad.use("cpu"):
        other = plugrad.DType(other)
        assert promote(plugrad.bfloat16, other) == promote(other, plugrad.bfloat16) == expected
        total = plugrad.ones(2, dtype="bfloat16") + plugrad.ones(2, dtype=other)
        assert (total.dtype, total.tolist()) == (expected, [2, 2])
    assert plugrad.result_type("bfloat16", other) == expected


def test_promotion_with_numbers_and_strings():
    assert promote_scalar(plugrad.bfloat16, 2) is promote_scalar(plugrad.bfloat16, 0.5)
    assert promote_scalar(plugrad.bfloat16, 0.5) is plugrad.bfloat16
    assert promote_scalar(plugrad.bfloat16, 1j) == "complex64"
    with pytest.raises(DTypeError, match="strings do not combine"):
        promote(plugrad.bfloat16, plugrad.DType("string"))
    assert plugrad.can_cast("bfloat16", "float32")
    assert not plugrad.can_cast("bfloat16", "float16")


def test_nearest_stored_dtype_of_bfloat16():
    """bfloat16 has the range of float32 and fewer digits than float16, so neither contains the other."""
    assert nearest_dtype(plugrad.bfloat16, {plugrad.float16, plugrad.float32}) == "float32"
    assert nearest_dtype(plugrad.bfloat16, {plugrad.float16}) == "float16"
    assert nearest_dtype(plugrad.float16, {plugrad.bfloat16, plugrad.float32}) == "float32"


# --- values --------------------------------------------------------------------------------------

ALL_BFLOAT16_VALUES = np.arange(1 << 16, dtype=np.uint16).view(BFLOAT16)


def values_around_midpoints(values):
    """Return the float32 numbers at, below and above the midpoint between each bfloat16 and the next."""
    low = values.view(np.uint16).astype(np.uint32) << 16
    return np.concatenate([(low + half).view(np.float32) for half in (0x7FFF, 0x8000, 0x8001)])


def round_to_bfloat16_bits(values):
    """Return the bits of float32 numbers rounded half to even; NaN stays NaN."""
    bits = np.asarray(values, np.float32).view(np.uint32).astype(np.uint64)
    up = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where(np.isnan(values), 0x7FC0, up).astype(np.uint16)


def canonical_bits(x):
    """Return the bits of a tensor, with the same bits for all NaN."""
    values = x.numpy()
    return np.where(np.isnan(values.astype(np.float32)), 0x7FC0, values.view(np.uint16))


def test_every_bfloat16_value_survives_a_round_trip_through_float32(backend):
    x = plugrad.asarray(ALL_BFLOAT16_VALUES)
    wide = x.astype("float32")
    np.testing.assert_array_equal(wide.numpy(), ALL_BFLOAT16_VALUES.astype(np.float32))
    np.testing.assert_array_equal(canonical_bits(wide.astype("bfloat16")), canonical_bits(x))
    np.testing.assert_array_equal(x.numpy().view(np.uint16), np.arange(1 << 16))


def test_casts_round_half_to_even(backend):
    values = values_around_midpoints(ALL_BFLOAT16_VALUES)
    found = canonical_bits(plugrad.asarray(values).astype("bfloat16"))
    np.testing.assert_array_equal(found, round_to_bfloat16_bits(values))


def test_casts_from_other_dtypes_round_once(backend):
    stored = plugrad.which().backend.dtypes()
    if plugrad.float64 in stored:
        middle = 1 + 2.0**-8
        values = plugrad.asarray(
            [middle + 2**-40, middle - 2**-40, middle, 1e-60, -1e60], dtype="float64"
        )
        assert values.astype("bfloat16").tolist() == [1 + 2**-7, 1, 1, 0, -np.inf]
    for name in ("int8", "uint8", "int32", "bool", "float16"):
        if plugrad.DType(name) in stored:
            whole = np.array([0, 1, 5, 100]).astype(name)
            x = plugrad.asarray(whole).astype("bfloat16")
            np.testing.assert_array_equal(x.numpy().astype("float32"), whole.astype("float32"))
            assert x.astype(name).tolist() == whole.tolist()


def test_casts_to_integers_saturate(backend):
    x = plugrad.asarray([300.0, -300, 2.75, -2.75, np.nan, np.inf, -np.inf], dtype="bfloat16")
    limits = np.iinfo(np.int32)
    assert x.astype("int32").tolist() == [300, -300, 2, -2, 0, limits.max, limits.min]
    assert x.astype("bool").tolist() == [True] * 7


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (1, 1)])
def test_empty_and_single_elements(backend, shape):
    x = plugrad.ones(shape, dtype="bfloat16")
    y = plugrad.sum(plugrad.exp(x) * 2 + x, axis=None)
    assert (x.dtype, x.shape, y.dtype, y.shape) == ("bfloat16", shape, "bfloat16", ())
    assert x.numpy().shape == shape
    if x.size:
        assert y.item() == 6.4375


def test_gradients_of_bfloat16_tensors_are_bfloat16(backend):
    x = plugrad.asarray([[0.5, -1.0], [2.0, 3.0]], dtype="bfloat16")
    slope = plugrad.grad(lambda x: plugrad.sum(plugrad.tanh(x @ x) * x))(x)
    wide = plugrad.grad(lambda x: plugrad.sum(plugrad.tanh(x @ x) * x))(x.astype("float32"))
    assert slope.dtype is plugrad.bfloat16
    np.testing.assert_allclose(slope.numpy().astype("float32"), wide.numpy(), rtol=0.05, atol=0.05)
    second = plugrad.grad(lambda x: plugrad.sum(plugrad.grad(lambda x: plugrad.sum(x**3))(x)))(x)
    assert (second.dtype, second.tolist()) == ("bfloat16", [[3, -6], [12, 18]])


def test_next_after_in_bfloat16(backend):
    x = plugrad.asarray([1.0, -1.0, 0.0, np.inf, np.nan], dtype="bfloat16")
    found = plugrad.kernels.binary.next_after(x, plugrad.full_like(x, 2))
    expected = np.nextafter(x.numpy(), np.full(5, 2, BFLOAT16))
    np.testing.assert_array_equal(found.numpy().astype("float32"), expected.astype("float32"))


def test_bfloat16_tensors_are_printed(backend):
    x = plugrad.asarray([1.5, -0.25], dtype="bfloat16")
    assert repr(x).startswith("tensor([1.5, -0.25], dtype=bfloat16")
    assert float(x[0]) == 1.5


def test_drawn_numbers_are_below_the_bound(backend):
    x = plugrad.random.Generator(3).uniform((4096,), dtype="bfloat16")
    values = x.numpy().astype("float32")
    assert x.dtype is plugrad.bfloat16
    assert 0 <= values.min() < values.max() < 1
    assert abs(values.mean() - 0.5) < 0.05


def test_traced_programs_match_untraced_ones_in_bfloat16(backend):
    def program(x, y):
        z = plugrad.tanh(x * 2 - y) + plugrad.sum(x, axis=0)
        return plugrad.softmax(z @ plugrad.matrix_transpose(y)), plugrad.max(z), x > y

    x, y = (plugrad.random.Generator(seed).normal((80, 64), dtype="bfloat16") for seed in range(2))
    traced = plugrad.jit(program)
    for _ in range(2):
        for found, right in zip(traced(x, y), program(x, y), strict=True):
            assert found.dtype is right.dtype
            np.testing.assert_array_equal(found.numpy(), right.numpy())


def test_vmap_matches_a_loop_over_examples(backend):
    x = plugrad.random.Generator(2).normal((5, 4), dtype="bfloat16")
    found = plugrad.vmap(lambda row: plugrad.softmax(row) * 2)(x)
    assert found.dtype is plugrad.bfloat16
    np.testing.assert_array_equal(found.numpy(), (plugrad.softmax(x) * 2).numpy())


# --- elsewhere -----------------------------------------------------------------------------------


def test_saved_bfloat16_values_are_loaded_again(tmp_path):
    path = tmp_path / "x.safetensors"
    with plugrad.use("cpu"):
        x = plugrad.asarray([[0.5, 1.0], [-3.0, float("inf")]], dtype="bfloat16")
        tree = {
            "x": x,
            "empty": plugrad.zeros((0, 3), dtype="bfloat16"),
            "number": plugrad.asarray(0.25, dtype="bfloat16"),
            "variable": plugrad.Variable(x, name="w"),
            "array": x.numpy(),
            "plain": plugrad.ones(3),
        }
        plugrad.save(path, tree)
        found = plugrad.load(path)
    assert b'"BF16"' in path.read_bytes()
    for name, part in tree.items():
        assert type(found[name]) is type(part)
        assert (found[name].dtype, found[name].shape) == (part.dtype, part.shape)
        assert found[name].tolist() == part.tolist()


class UnversionedDLPackArray:
    """An array of a library whose ``__dlpack__`` has no parameter for versions."""

    def __init__(self, x):
        self.x = x

    def __dlpack__(self, stream=None):
        return self.x.__dlpack__()

    def __dlpack_device__(self):
        return self.x.__dlpack_device__()


@pytest.mark.parametrize("wrap", [lambda x: x, UnversionedDLPackArray])
def test_bfloat16_arrays_are_imported_through_dlpack(wrap):
    with plugrad.use("cpu"):
        x = plugrad.asarray([[1.5, -2.0, np.inf]], dtype="bfloat16")

        class ForeignArray:
            """An array of another library, whose dtype NumPy does not know."""

            def __dlpack__(self, **options):
                return x.__dlpack__(**options)

            def __dlpack_device__(self):
                return x.__dlpack_device__()

        y = plugrad.from_dlpack(wrap(ForeignArray()))
    assert (y.dtype, y.tolist()) == ("bfloat16", [[1.5, -2.0, np.inf]])


def test_dlpack_rejects_dtypes_that_numpy_does_not_know():
    class Float4Array:
        def __dlpack__(self, **_):
            raise BufferError("a float of 4 bits")

        def __dlpack_device__(self):
            return (1, 0)

    with plugrad.use("cpu"), pytest.raises(ArgumentError, match="a float of 4 bits"):
        plugrad.from_dlpack(Float4Array())


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64"])
@pytest.mark.parametrize("half", ["bfloat16", "float16"])
def test_integers_round_once(backend, dtype, half):
    """Just above the midpoint of two half-precision numbers, float32 would round the integer to the midpoint itself."""
    if plugrad.DType(dtype) not in plugrad.which().backend.dtypes():
        pytest.skip(f"{backend} does not store {dtype}")
    bits = 8 if half == "bfloat16" else 11
    values = []
    for size in range(20, 63 if dtype == "int64" else 31):
        middle = (1 << size) + (1 << (size - bits))
        values += [middle - 1, middle, middle + 1, middle + (1 << (size - bits + 1)) - 1]
    if dtype != "uint32":
        values += [-value for value in values]
    given = np.array(values, dtype)
    with np.errstate(over="ignore"):
        exact = [round_to_bits(value, bits) for value in values]
        expected = np.array(exact, np.float64).astype(plugrad.DType(half).numpy)
    found = plugrad.asarray(given).astype(half).numpy()
    np.testing.assert_array_equal(found.astype(np.float32), expected.astype(np.float32))


def round_to_bits(value, bits):
    """Return the nearest integer that has so many significant bits; ties round to even."""
    size = abs(value)
    cut = max(size.bit_length() - bits, 0)
    last, rest = size >> cut, size & ((1 << cut) - 1)
    middle = 1 << cut >> 1
    last += cut > 0 and (rest > middle or (rest == middle and last % 2 == 1))
    return int(math.copysign(last << cut, value))


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "float32"])
@pytest.mark.parametrize("half", ["bfloat16", "float16"])
def test_results_without_axes_round_too(backend, dtype, half):
    """NumPy gives scalars there, not arrays."""
    if plugrad.DType(dtype) not in plugrad.which().backend.dtypes():
        pytest.skip(f"{backend} does not store {dtype}")
    x = plugrad.asarray(3, dtype=dtype)
    for y in (x * x, plugrad.square(x), plugrad.sum(plugrad.stack([x, x, x]))):
        found = y.astype(half)
        assert (found.shape, found.dtype, float(found)) == ((), half, 9.0)
