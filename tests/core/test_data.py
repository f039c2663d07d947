"""Data of the host enter every backend: in their own dtype, or in the nearest one that the backend has."""

import warnings

import numpy as np
import pytest

import plugrad
from plugrad import optimizers
from plugrad.discovery.state import state
from plugrad.errors import ArgumentValueError, ConfigError, UnsupportedDtype
from plugrad.extend import host_value
from plugrad.types.dtype import DTYPES, as_dtype, nearest_dtype

UNSUPPORTED_DTYPE_SETTING = "unsupported_dtype"


@pytest.fixture(autouse=True)
def forget_warned_dtypes(monkeypatch):
    monkeypatch.setattr(state, "warned_dtypes", set())


@pytest.mark.parametrize(
    ("dtype", "available", "wanted"),
    [
        ("float64", "float16 float32 int64", "float32"),
        ("float16", "float64 float32", "float32"),
        ("complex128", "complex64 float64", "complex64"),
        ("uint8", "int8 uint16 int32", "uint16"),
        ("uint8", "int8 int16 uint16", "uint16"),
        ("uint16", "int8 uint8 int32 uint32", "uint32"),
        ("int16", "uint16 int32", "int32"),
        ("int64", "int32 uint32 float64", "int32"),
        ("uint64", "int32 uint32", "uint32"),
        ("uint64", "int64 uint32", "int64"),
        ("int32", "uint64", "uint64"),
        ("bool", "int8 float32", None),
        ("complex64", "float32", None),
        ("string", "float32", None),
        *((d, " ".join(map(str, DTYPES)), d) for d in DTYPES),
    ],
)
def test_nearest_dtype(dtype, available, wanted):
    found = nearest_dtype(as_dtype(dtype), {as_dtype(d) for d in available.split()})
    assert found is (wanted and as_dtype(wanted))


CONVERSIONS = {
    "asarray": lambda x, there: plugrad.asarray(x, device=there),
    "to_device": plugrad.to_device,
    "from_dlpack": lambda x, there: plugrad.from_dlpack(x, device=there),
    "an operand": lambda x, there: plugrad.zeros(2, device=there) + x,
    "an argument": lambda x, there: plugrad.exp(x),
    "a list of scalars": lambda x, there: plugrad.asarray(list(x)),
    "a variable": lambda x, there: plugrad.Variable(x),
    "full": lambda x, there: plugrad.full(2, x[1]),
}


@pytest.mark.parametrize("way", CONVERSIONS)
def test_data_take_the_nearest_dtype_with_one_warning(way, fake_backend_name, recwarn):
    warnings.simplefilter("always")
    with plugrad.use(fake_backend_name):
        for _ in range(2):
            y = CONVERSIONS[way](np.array([0.5, 1.0]), fake_backend_name)
            assert (y.dtype, y.backend.name) == ("float32", fake_backend_name)
    (warning,) = recwarn
    assert warning.filename == __file__
    assert str(warning.message) == (
        "backend 'fake_device' does not have float64, so data of this dtype become float32. Ask for a dtype, as in "
        "asarray(x, dtype='float32'), or set unsupported_dtype to 'silent' or 'error'"
    )


def test_warnings_name_the_given_and_the_nearest_dtype(fake_backend_name):
    for values, wanted in (
        (np.arange(2.0), "float32"),
        (np.arange(2), "int32"),
        (np.uint8([200]), "int32"),
    ):
        with pytest.warns(RuntimeWarning, match=f"does not have {values.dtype}.*become {wanted}"):
            y = plugrad.asarray(values, device=fake_backend_name)
        assert (y.dtype, y.tolist()) == (wanted, values.tolist())


@pytest.mark.parametrize("way", CONVERSIONS)
def test_setting_makes_dtype_conversion_an_error_or_silent(way, fake_backend_name):
    x = np.array([0.5, 1.0])
    with plugrad.use(fake_backend_name):
        plugrad.config.set(UNSUPPORTED_DTYPE_SETTING, "silent")
        assert CONVERSIONS[way](x, fake_backend_name).dtype == "float32"
        plugrad.config.set(UNSUPPORTED_DTYPE_SETTING, "error")
        with pytest.raises(UnsupportedDtype, match="'fake_device' does not have float64"):
            CONVERSIONS[way](x, fake_backend_name)


def test_unsupported_dtype_setting_has_four_values(monkeypatch):
    monkeypatch.setenv("PLUGRAD_UNSUPPORTED_DTYPE", "silent")
    assert plugrad.config.get(UNSUPPORTED_DTYPE_SETTING) == "silent"
    with pytest.raises(ConfigError, match="expected is 'convert', 'silent', 'always' or 'error'"):
        plugrad.config.set(UNSUPPORTED_DTYPE_SETTING, "warn")


DTYPE_REQUESTS = {
    "asarray": lambda there: plugrad.asarray(np.zeros(2), dtype="float64", device=there),
    "asarray of a tensor": lambda there: plugrad.asarray(
        plugrad.zeros(2, device=there), dtype="float64"
    ),
    "full": lambda there: plugrad.full(2, 1.0, dtype="float64", device=there),
    "zeros_like": lambda there: plugrad.zeros_like([1.0], dtype="float64", device=there),
    "arange": lambda there: plugrad.arange(3, dtype="float64", device=there),
    "linspace": lambda there: plugrad.linspace(0, 1, 3, dtype="float64", device=there),
    "eye": lambda there: plugrad.eye(2, dtype="float64", device=there),
    "astype": lambda there: plugrad.astype(plugrad.zeros(2, device=there), "float64"),
    "normal": lambda there: plugrad.random.normal((2,), dtype="float64", device=there),
    "integers": lambda there: plugrad.random.integers((2,), 0, 9, dtype="int64", device=there),
    "host_value": lambda there: host_value(lambda: 1.0, dtype="float64", device=there),
}


@pytest.mark.parametrize("way", DTYPE_REQUESTS)
@pytest.mark.parametrize("policy", ["convert", "silent", "error"])
def test_requested_dtypes_are_not_replaced(way, policy, fake_backend_name):
    plugrad.config.set(UNSUPPORTED_DTYPE_SETTING, policy)
    with pytest.raises(UnsupportedDtype, match=r"'fake_device' does not have (float|int)64"):
        DTYPE_REQUESTS[way](fake_backend_name)


@pytest.mark.parametrize("way", DTYPE_REQUESTS)
def test_setting_always_replaces_requested_dtypes(way, fake_backend_name, recwarn):
    plugrad.config.set(UNSUPPORTED_DTYPE_SETTING, "always")
    plugrad.config.set("fallback", "silent")  # it has few kernels
    y = DTYPE_REQUESTS[way](fake_backend_name)
    assert (y.dtype, y.backend.name) == (
        "int32" if way == "integers" else "float32",
        fake_backend_name,
    )
    assert not recwarn


def test_setting_always_replaces_neither_dtype_kinds_nor_dtypes_of_copied_tensors(
    fake_backend_name,
):
    plugrad.config.set(UNSUPPORTED_DTYPE_SETTING, "always")
    assert plugrad.asarray(np.zeros(2), device=fake_backend_name).dtype == "float32"
    for call in (
        lambda: plugrad.zeros(2, dtype="complex64", device=fake_backend_name),
        lambda: plugrad.asarray(np.zeros(2), device="cpu").to(fake_backend_name),
    ):
        with pytest.raises(UnsupportedDtype, match="does not have"):
            call()


def test_numbers_that_do_not_fit_are_refused_and_never_wrapped(fake_backend_name):
    plugrad.config.set(UNSUPPORTED_DTYPE_SETTING, "silent")
    for wrong in (np.array([2**31]), np.uint64(2**63), np.array([1, -(2**40)])):
        with pytest.raises(ArgumentValueError, match="does not fit int32"):
            plugrad.asarray(wrong, device=fake_backend_name)
    assert plugrad.asarray(np.array([2**31 - 1, -(2**31)]), device=fake_backend_name).tolist() == [
        2**31 - 1,
        -(2**31),
    ]


def test_kinds_that_a_backend_does_not_have_are_refused(fake_backend_name):
    for wrong in (np.zeros(2, "complex64"), 1j, "text"):
        with pytest.raises(UnsupportedDtype):
            plugrad.asarray(wrong, device=fake_backend_name)


def test_saved_tensors_take_the_nearest_dtype(fake_backend_name, tmp_path):
    path = tmp_path / "x.safetensors"
    plugrad.save(path, [plugrad.asarray([0.5], dtype="float64"), plugrad.Variable(np.arange(3))])
    plugrad.config.set(UNSUPPORTED_DTYPE_SETTING, "silent")
    assert [(x.dtype, x.tolist()) for x in plugrad.load(path, device=fake_backend_name)] == [
        ("float32", [0.5]),
        ("int32", [0, 1, 2]),
    ]
    plugrad.config.set(UNSUPPORTED_DTYPE_SETTING, "error")
    with pytest.raises(UnsupportedDtype, match="does not have float64"):
        plugrad.load(path, device=fake_backend_name)


# --- one program, every backend -------------------------------------------------------------------


def train_on_mixed_dtypes():
    """Train on data as NumPy, Python and files provide it: float64, int64, uint8, uint16, bools and lists."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (12, 8, 8, 1), dtype=np.uint8)
    labels = rng.integers(0, 3, 12)
    scales = np.linspace(0.5, 1.5, 12).reshape(12, 1)
    counts = rng.integers(0, 9, 12).astype(np.uint16)
    chosen = counts > 2
    weights = {
        "filters": plugrad.Variable(rng.normal(0, 0.3, (3, 3, 1, 4))),
        "dense": plugrad.Variable(rng.normal(0, 0.3, (36, 3))),
        "bias": plugrad.Variable([0.0, 0.0, 0.0]),
    }

    def loss():
        x = plugrad.relu(
            plugrad.conv2d(
                plugrad.asarray(images) / 255, weights["filters"], strides=1, padding="valid"
            )
        )
        x = plugrad.reshape(plugrad.max_pool(x, 2, 2, "valid"), (12, -1)) * scales
        logits = x @ weights["dense"] + weights["bias"]
        losses = -plugrad.sum(plugrad.one_hot(labels, 3) * plugrad.log_softmax(logits), axis=1)
        return plugrad.mean(plugrad.where(chosen, losses, 0) * plugrad.sqrt(counts))

    optimizer = optimizers.Adam(np.float64(0.05))
    losses = [optimizer.minimize(loss, list(weights.values())).item() for _ in range(5)]
    picked = plugrad.take(weights["dense"], np.array([0, -1]), axis=0)
    return losses, [*picked.numpy().ravel(), plugrad.full((2,), rng.normal()).numpy()[0]]


@pytest.fixture(scope="module")
def cpu_losses():
    with plugrad.use("cpu"):
        return train_on_mixed_dtypes()


@pytest.mark.filterwarnings("ignore:backend '.*' does not have:RuntimeWarning")
@pytest.mark.parametrize("name", ["cpu", "wasm", "webgpu"])
def test_environment_alone_chooses_where_a_program_runs(name, cpu_losses, monkeypatch):
    monkeypatch.setenv("PLUGRAD_BACKEND", name)
    plugrad.config.reset()
    try:
        selection = plugrad.which()
    except plugrad.errors.CANNOT_RUN_ERRORS as error:
        pytest.skip(str(error))
    assert (selection.backend.name, selection.layer) == (
        name,
        "environment variable PLUGRAD_BACKEND",
    )
    for actual, wanted in zip(train_on_mixed_dtypes(), cpu_losses, strict=True):
        np.testing.assert_allclose(actual, wanted, rtol=1e-4, atol=1e-5)
