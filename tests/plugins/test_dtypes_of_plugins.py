"""A plugin brings a dtype: float8_e5m2, whose values NumPy has from ml_dtypes."""

import pickle
import textwrap

import ml_dtypes
import numpy as np
import pytest

import plugrad
from plugrad.errors import DTypeError, RegistrationError, UnsupportedDtype
from plugrad.extend import DTYPES, register_dtype
from plugrad.settings.journal import record_registrations
from plugrad.types.dtype import every_dtype, known_bfloat16, nearest_dtype, promote, promote_scalar

FLOAT8_BACKEND_SOURCE = """
    import ml_dtypes
    from plugrad.extend import float32, register_dtype
    from plugrad_cpu.device import Cpu

    float8 = register_dtype(
        "float8_e5m2",
        ml_dtypes.float8_e5m2,
        kind="floating",
        promotion={"float16": "float16"},
        info=ml_dtypes.finfo("float8_e5m2"),
    )

    class Brain(Cpu):
        name = "brain"

        def open(self, device):
            return [config._replace(backend_name="brain") for config in super().open(device)]

        def dtypes(self):
            return super().dtypes() | {float8}

    def backend():
        return Brain()
"""


@pytest.fixture
def float8(site):
    """The dtype float8; its backend is active during the test."""
    site.install("brain", textwrap.dedent(FLOAT8_BACKEND_SOURCE))
    with plugrad.use("brain"):
        yield plugrad.DType("float8_e5m2")
    for plugin in plugrad.backends():
        if plugin.name == "brain":
            plugin.imported.undo()


def test_plugin_dtype_is_found_by_name_and_numpy_dtype(float8):
    assert (float8.name, float8.kind, float8.itemsize) == ("float8_e5m2", "floating", 1)
    assert float8.numpy == np.dtype(ml_dtypes.float8_e5m2)
    for spelling in ("float8_e5m2", ml_dtypes.float8_e5m2, float8.numpy, float8):
        assert plugrad.zeros(1, dtype=spelling).dtype is float8
    assert pickle.loads(pickle.dumps(float8)) is float8
    assert every_dtype() == (*DTYPES, *known_bfloat16(), float8)
    assert plugrad.isdtype("float8_e5m2", "real floating")
    limits = plugrad.finfo("float8_e5m2")
    assert (limits.bits, limits.eps, limits.dtype) == (8, 2**-2, float8)


def test_data_and_casts(float8):
    host = np.asarray([1.5, -2.0, 3.0], ml_dtypes.float8_e5m2)
    x = plugrad.asarray(host)
    assert x.dtype is float8
    assert x.numpy().dtype == host.dtype
    np.testing.assert_array_equal(x.numpy(), host)
    assert plugrad.asarray([1, 2.5], dtype="float8_e5m2").tolist() == [1, 2.5]
    assert plugrad.asarray([host[0], host[1]]).dtype is float8
    assert x.astype("float32").tolist() == [1.5, -2, 3]
    assert plugrad.asarray([1 / 3], dtype="float64").astype(
        "float8_e5m2"
    ).item() == ml_dtypes.float8_e5m2(1 / 3)
    assert "dtype=float8" in repr(x)
    assert "1.5" in repr(x)
    with pytest.raises(UnsupportedDtype, match="backend 'cpu' does not have float8"):
        plugrad.zeros(3, dtype="float8_e5m2", device="cpu")


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        *((d, "float8_e5m2") for d in ("bool", "int8", "uint64", "float8_e5m2")),
        *((d, d) for d in ("float32", "float64", "complex64", "complex128")),
        ("float16", "float16"),
    ],
)
def test_promotion_of_plugin_dtypes(float8, other, expected):
    other = plugrad.DType(other)
    assert promote(float8, other) == promote(other, float8) == expected
    total = plugrad.ones(2, dtype=float8) + plugrad.ones(2, dtype=other)
    assert (total.dtype, total.tolist()) == (expected, [2, 2])


def test_promotion_with_numbers_and_strings(float8):
    assert promote_scalar(float8, 2) is promote_scalar(float8, 0.5) is float8
    assert promote_scalar(float8, 1j) == "complex64"
    assert (plugrad.ones(2, dtype=float8) * 0.5).dtype is float8
    with pytest.raises(DTypeError, match="strings do not combine"):
        promote(float8, plugrad.DType("string"))


def test_nearest_stored_dtype_of_a_plugin_dtype(float8):
    assert nearest_dtype(float8, set(DTYPES)) == "float16"
    assert nearest_dtype(float8, {plugrad.float32}) == "float32"
    assert nearest_dtype(plugrad.float16, {float8, plugrad.float32}) == "float32"


def test_kernels_accept_plugin_dtypes_of_their_kind(float8):
    x = plugrad.asarray([0.5, 1.0], dtype=float8)
    assert plugrad.exp(x).dtype is float8
    assert plugrad.sum(x).dtype is float8
    assert plugrad.maximum(x, 0.75).tolist() == [0.75, 1]
    gradient = plugrad.grad(lambda x: plugrad.sum(x * x))(x)
    assert (gradient.dtype, gradient.tolist()) == (float8, [1, 2])
    with pytest.raises(DTypeError, match="float8_e5m2"):
        plugrad.bitwise_and(x, x)


def test_saved_values_come_back(float8, tmp_path):
    path = tmp_path / "x.safetensors"
    x = plugrad.asarray([[0.5, 1.0], [-3.0, float("inf")]], dtype=float8)
    tree = {
        "x": x,
        "empty": plugrad.zeros((0, 3), dtype=float8),
        "number": plugrad.asarray(0.25, dtype=float8),
        "variable": plugrad.Variable(x, name="w"),
        "array": x.numpy(),
        "plain": plugrad.ones(3),
    }
    plugrad.save(path, tree)
    found = plugrad.load(path)
    for name, part in tree.items():
        assert type(found[name]) is type(part)
        assert (found[name].dtype, found[name].shape) == (part.dtype, part.shape)
        assert found[name].tolist() == part.tolist()


def test_saved_values_need_the_plugin_that_brings_their_dtype(float8, tmp_path):
    path = tmp_path / "x.safetensors"
    plugrad.save(path, {"x": plugrad.ones(2, dtype=float8)})
    (plugin,) = [p for p in plugrad.backends() if p.name == "brain"]
    with plugrad.use("cpu"):
        plugin.imported.undo()
        with pytest.raises(UnsupportedDtype, match=r"'x' is 'float8_e5m2', .* import the plugin"):
            plugrad.load(path)


def test_plugin_dtype_is_removed_with_its_plugin(float8):
    (plugin,) = [p for p in plugrad.backends() if p.name == "brain"]
    plugin.imported.undo()
    with pytest.raises(DTypeError, match="'float8_e5m2' is not a dtype"):
        plugrad.DType("float8_e5m2")
    assert every_dtype() == (*DTYPES, *known_bfloat16())
    assert not plugrad.kernels.unary.exp.accepted_dtypes & {float8, float8.numpy}
    plugin.imported.redo()
    assert plugrad.DType("float8_e5m2") is float8
    assert float8 in plugrad.kernels.unary.exp.accepted_dtypes


INT4_REGISTRATION = {
    "info": ml_dtypes.iinfo("int4"),
    "promotion": {"int8": "int8"},
    "kind": "signed",
}


@pytest.mark.parametrize(
    ("name", "numpy", "change", "message"),
    [
        (
            "float32",
            ml_dtypes.int4,
            {},
            "there is a dtype of this name, for NumPy's float32",
        ),
        ("bfloat16", ml_dtypes.bfloat16, {}, "bfloat16 is a dtype of plugrad"),
        ("brain", ml_dtypes.bfloat16, {}, "bfloat16 is a dtype of plugrad"),
        ("half", np.float16, {}, "is NumPy's dtype for float16"),
        ("Brain", ml_dtypes.int4, {}, "name='Brain' must match"),
        ("brain", "no dtype", {}, "is no dtype of NumPy"),
        ("brain", ml_dtypes.int4, {"kind": "quantum"}, "kind='quantum' must be 'floating'"),
        ("brain", ml_dtypes.int4, {"info": None}, "info=None must have the attributes of"),
        ("brain", ml_dtypes.int4, {"promotion": None}, "what it gives with int8"),
        (
            "brain",
            ml_dtypes.int4,
            {"promotion": {"float61": "float32"}},
            "'float61' is not a",
        ),
        ("brain", ml_dtypes.int4, {"promotion": 3}, "must be a dict from dtypes"),
    ],
)
def test_conflicting_plugin_dtypes_are_rejected(name, numpy, change, message):
    with pytest.raises(RegistrationError, match=message):
        register_dtype(name, numpy, **{**INT4_REGISTRATION, **change})
    assert every_dtype() == (*DTYPES, *known_bfloat16())


def test_two_plugins_that_do_not_know_each_other():
    with record_registrations() as journal:
        one = register_dtype(
            "brain", ml_dtypes.float8_e5m2, kind="floating", info=ml_dtypes.finfo("float8_e5m2")
        )
        rules = {"int8": "int8", "uint8": "int16"}
        two, three = (
            register_dtype(
                str(kind.__name__), kind, kind="signed", info=ml_dtypes.iinfo(kind), promotion=rules
            )
            for kind in (ml_dtypes.int4, ml_dtypes.int2)
        )
    try:
        assert promote(two, plugrad.DType("int8")) == "int8"
        assert promote(two, plugrad.DType("uint8")) == "int16"
        assert promote(two, one) is one
        with pytest.raises(DTypeError, match=r"int4 and int2 have no common dtype; cast one"):
            promote(two, three)
        with pytest.raises(RegistrationError, match="there is a dtype of this name"):
            register_dtype("int4", ml_dtypes.uint4, kind="unsigned")
    finally:
        journal.undo()
    assert every_dtype() == (*DTYPES, *known_bfloat16())


NARROW_DTYPES = {
    "float8_e4m3fn": ("floating", {"float16": "float16"}),
    "float8_e5m2": ("floating", {"float8_e4m3fn": "float16", "float16": "float16"}),
    "int4": ("signed", {"int8": "int8"}),
    "uint4": ("unsigned", {"uint8": "uint8"}),
}
NARROW_BACKEND_SOURCE = f"""
    import ml_dtypes
    from plugrad.extend import register_dtype
    from plugrad_cpu.device import Cpu

    STORED = {{
        register_dtype(
            name,
            getattr(ml_dtypes, name),
            kind=kind,
            promotion=promotion,
            info=(ml_dtypes.finfo if kind == "floating" else ml_dtypes.iinfo)(name),
        )
        for name, (kind, promotion) in {NARROW_DTYPES}.items()
    }}

    class Narrow(Cpu):
        name = "narrow"

        def open(self, device):
            return [config._replace(backend_name="narrow") for config in super().open(device)]

        def dtypes(self):
            return super().dtypes() | STORED

    def backend():
        return Narrow()
"""


@pytest.fixture
def narrow_backend(site):
    """A backend that stores 8-bit and 4-bit numbers, which is active during the test."""
    site.install("narrow", textwrap.dedent(NARROW_BACKEND_SOURCE))
    with plugrad.use("narrow"):
        yield
    for plugin in plugrad.backends():
        if plugin.name == "narrow":
            plugin.imported.undo()


@pytest.mark.parametrize("name", NARROW_DTYPES)
def test_numbers_of_few_bits_are_stored(narrow_backend, name):
    """Computations use a wider dtype; the stored values are those of ml_dtypes."""
    host = np.asarray([1, 2, 3, 0, 7, 5], getattr(ml_dtypes, name))
    x = plugrad.asarray(host)
    assert (x.dtype.name, x.dtype.numpy, x.shape) == (name, host.dtype, (6,))
    wide = "float32" if NARROW_DTYPES[name][0] == "floating" else "int32"
    np.testing.assert_array_equal(x.astype(wide).numpy(), host.astype(wide))
    for moved, right in (
        (x[1::2], host[1::2]),
        (plugrad.reshape(x, (2, 3)), host.reshape(2, 3)),
        (plugrad.permute_dims(plugrad.reshape(x, (2, 3)), (1, 0)), host.reshape(2, 3).T),
        (plugrad.concat([x, x]), np.concatenate([host, host])),
        (plugrad.take(x, plugrad.asarray([5, 0])), host[[5, 0]]),
    ):
        assert moved.dtype.name == name
        np.testing.assert_array_equal(moved.numpy(), right)
    back = plugrad.asarray(host.astype(wide)).astype(name)
    np.testing.assert_array_equal(back.numpy(), host)
    scaled = plugrad.asarray([0.5], dtype="float32") * x
    assert scaled.dtype == "float32"
    np.testing.assert_array_equal(scaled.numpy(), 0.5 * host.astype("float32"))


def test_floats_of_8_bits_are_rounded_as_ml_dtypes_rounds(narrow_backend):
    values = np.random.default_rng(0).normal(0, 3, 1000).astype("float32")
    for name in ("float8_e4m3fn", "float8_e5m2"):
        rounded = plugrad.asarray(values).astype(name).astype("float32")
        np.testing.assert_array_equal(
            rounded.numpy(), values.astype(getattr(ml_dtypes, name)).astype("float32")
        )
    weight = plugrad.asarray([1.5, -2.0], dtype="float8_e4m3fn")
    gradient = plugrad.grad(lambda x: plugrad.sum(weight.astype("float32") * x * x))(
        plugrad.asarray([1.0, 2.0])
    )
    assert gradient.tolist() == [3, -8]


def test_casts_to_integers_of_4_bits_saturate(narrow_backend):
    x = plugrad.asarray([100.0, -100.0, 3.7, np.nan])
    assert x.astype("int4").astype("int32").tolist() == [7, -8, 3, 0]
    assert x.astype("uint4").astype("int32").tolist() == [15, 0, 3, 0]
