"""Extreme numbers of dtypes, and bools stored as odd bytes, which once gave wrong results without an error.

The invariances find such things in all kernels; here are the calls that people made.
"""

import numpy as np
import pytest
from scipy import special

import plugrad
from plugrad.kernels import normalization, ragged
from plugrad.tensor import backend as stored

SIZES = [1, 8, 70, 300, 5000]


@pytest.mark.parametrize("size", SIZES)
def test_a_broadcast_minus_0_keeps_its_sign(backend, size):
    zeros, ones = (plugrad.full(size, n, dtype="float32") for n in (0.0, 1.0))
    minus_0 = plugrad.asarray(np.float32(-0.0))
    assert np.all(plugrad.atan2(zeros, minus_0).numpy() == np.float32(np.pi))
    assert np.all(plugrad.floor_divide(ones, minus_0).numpy() == -np.inf)
    assert np.all(np.signbit(plugrad.pow(minus_0, ones).numpy()))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", SIZES)
def test_the_largest_numbers_to_the_power_of_1(backend, size, dtype):
    try:
        x = plugrad.full(size, np.finfo(dtype).max, dtype=dtype)
    except plugrad.errors.UnsupportedDtype as refusal:
        pytest.skip(str(refusal))
    assert np.all(plugrad.pow(x, plugrad.ones_like(x)).numpy() == x.numpy())
    assert np.all(plugrad.pow(-x, plugrad.ones_like(x)).numpy() == -x.numpy())


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("exponents", [(), (1,)], ids=["one", "many"])
def test_roots_of_minus_infinity_and_minus_0(backend, size, exponents):
    x = plugrad.asarray(np.resize(np.float32([-np.inf, -0.0]), 2 * size))
    for exponent, expected in [(0.5, [np.inf, 0.0]), (-0.5, [0.0, np.inf])]:
        b = np.full(2 * size if exponents else (), exponent, np.float32)
        y = plugrad.pow(x, plugrad.asarray(b)).numpy()
        np.testing.assert_array_equal(y, np.resize(expected, 2 * size))
        assert not np.signbit(y).any()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("size", SIZES)
def test_maximum_and_minimum_of_signed_zeros_return_the_second(backend, dtype, size):
    try:
        x, y = (plugrad.full(size, n, dtype=dtype) for n in (-0.0, 0.0))
    except plugrad.errors.UnsupportedDtype as refusal:
        pytest.skip(str(refusal))
    for op in (plugrad.maximum, plugrad.minimum):
        assert not np.signbit(op(x, y).numpy()).any()
        assert np.signbit(op(y, x).numpy()).all()


@pytest.mark.parametrize(
    "op", [plugrad.sort, plugrad.argsort, plugrad.top_k, plugrad.unique_values]
)
def test_numpy_does_not_sort_halves(op, monkeypatch, rng):
    """With AVX-512 FP16, NumPy misplaces NaN and infinities: in 10 of 40 arrays of 20,000 numbers."""

    def refusing(real):
        def sort(x, *args, **options):
            assert x.dtype != np.float16
            return real(x, *args, **options)

        return sort

    for name in ("sort", "argsort", "partition", "unique"):
        monkeypatch.setattr(np, name, refusing(getattr(np, name)))
    x = rng.normal(size=200).astype(np.float16)
    x[::7], x[::11] = np.nan, np.inf
    with plugrad.use("cpu"):
        result = op(plugrad.asarray(x), 5) if op is plugrad.top_k else op(plugrad.asarray(x))
    assert (result[0] if isinstance(result, (tuple, list)) else result).size


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [1, 3000])
def test_gelu_near_0_and_its_tail(backend, dtype, size):
    x = np.array([1e-26, -1e-26, 1e-35, -1e-35, -1.0, -3.0, -6.0, -8.0, -10.0, -12.0], dtype)
    try:
        y = plugrad.gelu(plugrad.asarray(np.tile(x, size))).numpy()
    except plugrad.errors.UnsupportedDtype as refusal:
        pytest.skip(str(refusal))
    wide = x.astype(np.float64)
    below = special.erfcx(np.abs(wide) / np.sqrt(2)) / 2 * np.exp(-wide * wide / 2)
    expected = np.maximum(wide, 0) - np.abs(wide) * below
    within = 1e-6 if dtype == "float32" else 1e-14
    np.testing.assert_allclose(y, np.tile(expected, size), within, 0)


@pytest.mark.parametrize(
    "op", [plugrad.floor_divide, plugrad.squared_difference, plugrad.remainder]
)
@pytest.mark.parametrize("dtype", ["float32", "int32", "complex64"])
def test_33_axes_are_broadcast(backend, op, dtype):
    if dtype == "complex64" and op is not plugrad.squared_difference:
        pytest.skip("complex numbers are not rounded down")
    a = np.arange(1, 601).reshape(2, *[1] * 31, 300).astype(dtype)
    b = np.arange(3, 5).reshape(1, 2, *[1] * 31).astype(dtype)
    reference = {plugrad.squared_difference: lambda a, b: (a - b) ** 2}.get(
        op, getattr(np, op.__name__, None)
    )
    result = op(plugrad.asarray(a), plugrad.asarray(b)).numpy()
    np.testing.assert_allclose(result, reference(a, b), 1e-5)


@pytest.mark.parametrize("dtype", ["int8", "int16", "uint8", "int32", "uint32"])
def test_squared_differences_wrap_around(backend, dtype):
    span = np.iinfo(dtype)
    a, b = (
        np.resize(np.array([*x], dtype), 400) for x in ((span.max, span.min, 1), (span.min, 3, 0))
    )
    try:
        y = plugrad.squared_difference(plugrad.asarray(a), plugrad.asarray(b))
    except plugrad.errors.UnsupportedDtype as refusal:
        pytest.skip(str(refusal))
    assert y.dtype == dtype
    np.testing.assert_array_equal(y.numpy(), np.square(a - b))


def test_normalizations_take_transposed_inputs(backend, rng):
    x = rng.normal(size=(5, 4, 3, 6)).astype(np.float32)
    turned = plugrad.permute_dims(plugrad.asarray(x.transpose(3, 2, 1, 0)), (3, 2, 1, 0))
    for kernel, axis in [(normalization.layer_norm, 2), (normalization.batch_norm_training, 3)]:
        found, wanted = (
            kernel(given, None, None, axis=axis, variance_epsilon=0.01)
            for given in (turned, plugrad.asarray(x))
        )
        parts = zip(*[y if isinstance(y, list) else [y] for y in (found, wanted)], strict=True)
        for actual, expected in parts:
            np.testing.assert_allclose(actual.numpy(), expected.numpy(), 1e-5, 1e-5)


def test_splits_of_unsigned_integers(backend):
    values, default = plugrad.asarray([1.0, 2.0, 3.0]), plugrad.asarray(0.0)
    for dtype in ("uint8", "uint32"):
        splits = plugrad.asarray(np.array([0, 1, 3], dtype))
        dense = ragged.ragged_tensor_to_tensor(
            plugrad.asarray(-1), values, default, splits, row_partition_types=("ROW_SPLITS",)
        )
        assert dense.numpy().tolist() == [[1, 0], [2, 3]]
        falling = plugrad.asarray(np.array([0, 3, 1], dtype))
        with pytest.raises(plugrad.errors.ArgumentValueError, match="not decrease"):
            ragged.ragged_tensor_to_tensor(
                plugrad.asarray(-1), values, default, falling, row_partition_types=("ROW_SPLITS",)
            )


# --- bytes of bools -------------------------------------------------------------------------------

BOOLS_OF_ANY_BYTE = np.arange(300).astype(np.uint8).view(bool)
NONZERO_BYTES = BOOLS_OF_ANY_BYTE.view(np.uint8) != 0


def iter_imported_tensors(tmp_path):
    """Yield tensors of odd bools, imported in each possible way."""
    yield plugrad.asarray(BOOLS_OF_ANY_BYTE)
    yield plugrad.asarray(BOOLS_OF_ANY_BYTE[:, None])[:, 0]
    yield plugrad.from_dlpack(BOOLS_OF_ANY_BYTE)
    path = tmp_path / "odd.safetensors"
    plugrad.save(path, {"x": plugrad.asarray(NONZERO_BYTES)})
    path.write_bytes(
        path.read_bytes().replace(NONZERO_BYTES.tobytes(), BOOLS_OF_ANY_BYTE.tobytes())
    )
    yield plugrad.load(path)["x"]


def test_bools_with_other_bytes_become_0_and_1(backend, tmp_path):
    for x in iter_imported_tensors(tmp_path):
        assert x.numpy().tobytes() == NONZERO_BYTES.tobytes()
        assert plugrad.sum(x.astype("int32")).item() == NONZERO_BYTES.sum()
        assert plugrad.where(x, 1.0, 2.0).numpy().sum() == (2 - NONZERO_BYTES).sum()
        np.testing.assert_array_equal(
            plugrad.argsort(x).numpy(), np.argsort(NONZERO_BYTES, kind="stable")
        )


def test_shared_bools_with_other_bytes_are_refused():
    with (
        plugrad.use("cpu"),
        pytest.raises(plugrad.errors.ArgumentValueError, match="other bytes than 0 and 1"),
    ):
        plugrad.from_dlpack(BOOLS_OF_ANY_BYTE, copy=False)


def test_without_the_check_of_bytes_results_differ(monkeypatch):
    monkeypatch.setattr(stored, "has_odd_bools", lambda values: False)
    with plugrad.use("cpu"):
        assert plugrad.asarray(BOOLS_OF_ANY_BYTE).numpy().tobytes() != NONZERO_BYTES.tobytes()


def test_a_kernel_that_returns_odd_bools_is_named_in_debug():
    with (
        plugrad.use("cpu"),
        plugrad.override_kernel("LogicalNot", "cpu", lambda x: (x.view(np.uint8) ^ 255).view(bool)),
        plugrad.config.override("debug", True),
        pytest.raises(plugrad.errors.KernelFailed, match=r"LogicalNot.*other bytes than 0 and 1"),
    ):
        plugrad.logical_not(plugrad.asarray([True, False]))
