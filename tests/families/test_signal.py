"""Fourier transforms against NumPy's, windows and frames against SciPy's."""

import numpy as np
import pytest
import scipy

import plugrad
from families.case import ErrorCase, conformance_cases
from plugrad.errors import ArgumentValueError, AxisError, DTypeError, ShapeError
from plugrad.testing import check_gradient

CASES = conformance_cases("signal")


def has_complex():
    return "complex64" in plugrad.which().backend.dtypes()


def case_id(case):
    return f"{case} {case.shapes[0]}".replace(", ", ",")


@pytest.mark.rows("case", CASES, ids=case_id)
def test_values_of_the_kernels(case, backend, rng):
    if not has_complex():
        pytest.skip(f"{backend} has no complex64")
    for dtype in case.dtypes:
        if dtype in plugrad.which().backend.dtypes():
            case.check_values(rng, dtype)


@pytest.mark.rows("case", CASES, ids=case_id)
def test_values_of_views(case, backend, rng):
    if not has_complex():
        pytest.skip(f"{backend} has no complex64")
    (single,) = {"complex64", "float32"} & set(case.dtypes)
    case.check_values_of_views(rng, single)


@pytest.mark.rows("case", [case for case in CASES if case.is_differentiable], ids=case_id)
def test_gradients_of_the_kernels(case, backend, rng):
    if not has_complex():
        pytest.skip(f"{backend} has no complex64")
    case.check_gradient(rng, backend)


@pytest.mark.parametrize("n", [16, 1000, 1024, 10_007, 30_030, 65_536])
def test_error_grows_with_the_logarithm_of_the_length(n, backend, rng):
    if not has_complex():
        pytest.skip(f"{backend} has no complex64")
    x = (rng.normal(size=n) + 1j * rng.normal(size=n)).astype("complex64")
    for transform, expected in (
        (plugrad.fft.fft, np.fft.fft(x.astype("complex128"))),
        (plugrad.fft.ifft, np.fft.ifft(x.astype("complex128"))),
    ):
        error = np.linalg.norm(transform(plugrad.asarray(x)).numpy() - expected)
        assert error <= 5e-8 * np.log2(n) * np.linalg.norm(expected)


# --- plugrad.fft -----------------------------------------------------------------------------------

FFT_NORMS = ("backward", "ortho", "forward")
ONE_AXIS_TRANSFORMS = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
MULTI_AXIS_TRANSFORMS = ("fftn", "ifftn", "rfftn", "irfftn")
TRANSFORMS_OF_REAL_INPUT = ("rfft", "ihfft", "rfftn")


def random_input(rng, name, shape):
    x = rng.normal(size=shape)
    return x if name in TRANSFORMS_OF_REAL_INPUT else x + 1j * rng.normal(size=shape)


def compare_with_numpy(name, x, **attrs):
    actual = getattr(plugrad.fft, name)(plugrad.asarray(x), **attrs)
    expected = getattr(np.fft, name)(x, **attrs)
    assert (actual.shape, actual.dtype) == (expected.shape, str(expected.dtype))
    np.testing.assert_allclose(actual.numpy(), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("norm", FFT_NORMS)
@pytest.mark.rows("n", [None, 1, 2, 4, 5, 6, 9])
@pytest.mark.parametrize("name", ONE_AXIS_TRANSFORMS)
def test_transform_along_an_axis_matches_numpy(name, n, norm, rng):
    for axis in (0, 1, -1):
        compare_with_numpy(name, random_input(rng, name, (5, 6)), n=n, axis=axis, norm=norm)


@pytest.mark.parametrize("norm", FFT_NORMS)
@pytest.mark.rows(
    ("s", "axes"), [(None, None), ((4, 3), (0, 2)), ((5, 2), (-1, 1)), (None, (1,)), (None, (2, 0))]
)
@pytest.mark.parametrize("name", MULTI_AXIS_TRANSFORMS)
def test_transform_along_axes_matches_numpy(name, s, axes, norm, rng):
    compare_with_numpy(name, random_input(rng, name, (3, 4, 5)), s=s, axes=axes, norm=norm)


@pytest.mark.parametrize("name", [*ONE_AXIS_TRANSFORMS, *MULTI_AXIS_TRANSFORMS])
def test_single_precision_stays_single(name, rng):
    x = random_input(rng, name, (4,))
    y = getattr(plugrad.fft, name)(plugrad.asarray(x.astype("c8" if x.dtype.kind == "c" else "f4")))
    assert y.dtype in ("complex64", "float32")
    np.testing.assert_allclose(y.numpy(), getattr(np.fft, name)(x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape", [(6,), (5,), (2, 6), (2, 3, 5)])
def test_half_spectrum_comes_back_with_its_shape(shape, rng):
    x = plugrad.asarray(rng.normal(size=shape))
    back = plugrad.fft.irfft(plugrad.fft.rfft(x), n=shape[-1])
    assert back.shape == shape
    np.testing.assert_allclose(back.numpy(), x.numpy(), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", [*ONE_AXIS_TRANSFORMS, *MULTI_AXIS_TRANSFORMS])
@pytest.mark.parametrize("attrs", [{}, {"n": 4, "norm": "ortho"}, {"n": 7, "norm": "forward"}])
def test_gradients(name, attrs, rng):
    if name in MULTI_AXIS_TRANSFORMS and "n" in attrs:
        attrs = {"s": (2, attrs["n"]), "norm": attrs["norm"]}
    transform = getattr(plugrad.fft, name)
    check_gradient(lambda x: transform(x, **attrs), random_input(rng, name, (3, 5)))


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_frequencies_match_numpy(n):
    np.testing.assert_allclose(plugrad.fft.fftfreq(n, d=0.1).numpy(), np.fft.fftfreq(n, 0.1), 1e-6)
    np.testing.assert_allclose(
        plugrad.fft.rfftfreq(n, d=0.1).numpy(), np.fft.rfftfreq(n, 0.1), 1e-6
    )
    assert plugrad.fft.fftfreq(n, dtype="float64").dtype == "float64"


@pytest.mark.parametrize("axes", [None, 0, (0, 1), (-1,)])
def test_shifts_match_numpy(axes):
    x = np.arange(15.0).reshape(3, 5)
    np.testing.assert_array_equal(
        plugrad.fft.fftshift(x, axes=axes).numpy(), np.fft.fftshift(x, axes)
    )
    np.testing.assert_array_equal(
        plugrad.fft.ifftshift(x, axes=axes).numpy(), np.fft.ifftshift(x, axes)
    )


# --- plugrad.signal --------------------------------------------------------------------------------


@pytest.mark.rows("length", [0, 1, 2, 3, 4, 7, 16])
@pytest.mark.parametrize("name", ["hann", "hamming"])
def test_windows_match_scipy(name, length, backend):
    window = getattr(plugrad.signal, f"{name}_window")(length)
    is_periodic = length % 2 == 0
    expected = getattr(scipy.signal.windows, name)(length, sym=not is_periodic)
    assert window.dtype is plugrad.float32
    np.testing.assert_allclose(window.numpy(), expected, atol=2e-6)


def test_window_with_other_coefficients():
    i = np.arange(6)
    expected = 0.7 - 0.3 * np.cos(2 * np.pi * i / 6)
    window = plugrad.signal.cosine_window(6, 0.7, 0.3, dtype="float64")
    np.testing.assert_allclose(window.numpy(), expected)


@pytest.mark.parametrize("pad_end", [False, True])
@pytest.mark.rows("shape", [(9,), (2, 9), (3,), (0,), (2, 0)])
@pytest.mark.parametrize(("length", "step"), [(3, 2), (4, 4), (2, 5), (1, 1), (12, 3)])
def test_frames_of_signals(shape, length, step, pad_end, backend, rng):
    x = rng.normal(size=shape).astype("float32")
    starts = [s for s in range(0, shape[-1], step) if pad_end or s + length <= shape[-1]]
    filled = np.concatenate([x, np.full((*shape[:-1], length), 7, "float32")], -1)
    parts = [filled[..., s : s + length] for s in starts]
    expected = np.stack(parts, -2) if parts else np.zeros((*shape[:-1], 0, length), "float32")
    actual = plugrad.signal.frame(plugrad.asarray(x), length, step, pad_end, 7)
    np.testing.assert_array_equal(actual.numpy(), expected)


@pytest.mark.parametrize("fft_length", [None, 6, 16])
def test_short_time_transform(fft_length, rng):
    x = rng.normal(size=(2, 30))
    frames = np.stack([x[:, s : s + 6] for s in range(0, 25, 4)], 1)
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(6) / 6)
    expected = np.fft.rfft(frames * window, fft_length or 8)
    actual = plugrad.signal.stft(x, 6, 4, fft_length)
    np.testing.assert_allclose(actual.numpy(), expected, rtol=1e-6, atol=1e-6)
    check_gradient(lambda x: plugrad.signal.stft(x, 6, 4, fft_length), x)


# --- bad input -------------------------------------------------------------------------------------

COMPLEX_VECTOR = plugrad.asarray([1j, 2.0], device="cpu")
ERROR_CASES = [
    ErrorCase(lambda: plugrad.fft.fft([1, 2]), DTypeError, ["fft", "int32", "astype"]),
    ErrorCase(
        lambda: plugrad.fft.rfft(COMPLEX_VECTOR),
        DTypeError,
        ["rfft", "complex64", "plugrad.fft.fft"],
    ),
    ErrorCase(
        lambda: plugrad.fft.fft(COMPLEX_VECTOR, n=0), ArgumentValueError, ["fft: n=0", "positive"]
    ),
    ErrorCase(lambda: plugrad.fft.fft(plugrad.zeros(0)), ArgumentValueError, ["n=0", "(0,)"]),
    ErrorCase(lambda: plugrad.fft.fft(COMPLEX_VECTOR, axis=1), AxisError, ["axis=1", "rank 1"]),
    ErrorCase(
        lambda: plugrad.fft.fft(COMPLEX_VECTOR, norm="half"),
        ArgumentValueError,
        ["norm='half'", "ortho"],
    ),
    ErrorCase(
        lambda: plugrad.fft.hfft(COMPLEX_VECTOR, norm="half"), ArgumentValueError, ["norm='half'"]
    ),
    ErrorCase(
        lambda: plugrad.fft.fftn(COMPLEX_VECTOR, s=(2, 2), axes=(0,)),
        AxisError,
        ["s=(2, 2)", "(0,)"],
    ),
    ErrorCase(lambda: plugrad.fft.fftn(COMPLEX_VECTOR, axes=(0, 0)), AxisError, ["axes=(0, 0)"]),
    ErrorCase(lambda: plugrad.fft.fftfreq(0), ArgumentValueError, ["fftfreq: n=0"]),
    ErrorCase(
        lambda: plugrad.run_kernel("FFT", {"input": plugrad.ones(2)}),
        DTypeError,
        ["FFT", "float32"],
    ),
    ErrorCase(
        lambda: plugrad.run_kernel("IFFT", {"input": plugrad.asarray(1j)}),
        ShapeError,
        ["IFFT", "()"],
    ),
    ErrorCase(
        lambda: plugrad.signal.frame([1.0], 0, 1),
        ArgumentValueError,
        ["frame_length=0", "1 or more"],
    ),
    ErrorCase(lambda: plugrad.signal.frame([1.0], 1, 0), ArgumentValueError, ["frame_step=0"]),
    ErrorCase(lambda: plugrad.signal.frame(1.0, 1, 1), ShapeError, ["frame", "0-d"]),
    ErrorCase(
        lambda: plugrad.signal.hann_window(-1),
        ArgumentValueError,
        ["window_length=-1", "0 or more"],
    ),
]


@pytest.mark.rows("error_case", ERROR_CASES, ids=str)
def test_bad_input(error_case):
    error_case.check()


FFT_LENGTHS = [
    *(2**k for k in range(1, 17)),
    3,
    5,
    7,
    31,
    37,
    101,
    997,
    1000,
    4099,
    10007,
    65521,
    100_000,
]
MAX_RELATIVE_ERROR = 1e-7


def test_transforms_of_float32_are_accurate_whatever_the_length(backend, rng):
    """The error relative to the norm and to the largest element does not grow with the length."""
    for n in FFT_LENGTHS:
        real = rng.standard_normal(n).astype("float32")
        x = (real + 1j * rng.standard_normal(n)).astype("complex64")
        half = np.fft.rfft(real.astype(float)).astype("complex64")
        results = [
            (plugrad.fft.fft(plugrad.asarray(x)), np.fft.fft(x.astype(complex))),
            (plugrad.fft.ifft(plugrad.asarray(x)), np.fft.ifft(x.astype(complex))),
            (plugrad.fft.rfft(plugrad.asarray(real)), np.fft.rfft(real.astype(float))),
            (
                plugrad.fft.irfft(plugrad.asarray(half), n=n),
                np.fft.irfft(half.astype(complex), n=n),
            ),
        ]
        for result, wanted in results:
            error = np.linalg.norm(result.numpy() - wanted) / np.linalg.norm(wanted)
            assert error < MAX_RELATIVE_ERROR, n
            worst = np.abs(result.numpy() - wanted).max() / np.abs(wanted).max()
            assert worst < MAX_RELATIVE_ERROR, n
