"""Exchange of tensors with other libraries: dtypes by NumPy's names, buffers, Arrow's arrays, pickles."""

import ctypes
import gc
import pickle
import sys
import weakref

import numpy as np
import pytest

import plugrad
import plugrad_nn as nn
from plugrad.discovery.state import fresh_state
from plugrad.errors import ArgumentError, DTypeError, GradientLost, ShapeError, UnsupportedDtype
from plugrad.ops import arrow
from plugrad.types.dtype import DTYPES, string

NUMERIC_DTYPES = [d for d in DTYPES if d is not string]


@pytest.mark.parametrize("dtype", NUMERIC_DTYPES, ids=str)
def test_a_dtype_equals_its_numpy_name(dtype):
    known = dtype.numpy
    for other in (known, known.type, known.str, known.str[1:], known.char, str(dtype)):
        assert dtype == other
        assert other == dtype
        assert (dtype != other) is False
        assert plugrad.zeros(1, dtype=other).dtype is dtype
        assert sum(d == other for d in DTYPES) == 1


def test_dtypes_are_not_equal_to_other_objects():
    assert plugrad.bool == bool  # noqa: E721 - a dtype and a type
    for other in (
        float,
        int,
        complex,
        "float",
        ">f4",
        "f3",
        "V4",
        np.floating,
        np.str_,
        None,
        4,
        object(),
    ):
        assert plugrad.float32 != other
    assert string != "T"
    for unknown in (">f4", "f3", "V4", "float", "S3"):
        with pytest.raises(DTypeError, match="is not a dtype"):
            plugrad.zeros(1, dtype=unknown)


@pytest.mark.skipif(
    sys.version_info < (3, 12), reason="Python 3.12 is the first to ask for __buffer__"
)
@pytest.mark.parametrize("dtype", NUMERIC_DTYPES, ids=str)
def test_buffer_protocol_gives_the_values(dtype, backend):
    if dtype not in plugrad.which().backend.dtypes():
        pytest.skip(f"{backend} has no {dtype}")
    values = np.arange(6).reshape(2, 3).astype(dtype.numpy)
    x = plugrad.asarray(values)
    for each, right in ((x, values), (x.T, values.T), (x[0, 0], values[0, 0]), (x[:0], values[:0])):
        with memoryview(each) as view:
            assert view.readonly
            assert view.tobytes() == right.tobytes()
            assert (view.shape, view.format) == (right.shape, memoryview(right).format)
    with pytest.raises((TypeError, BufferError), match=r"read-write|writable"):
        (ctypes.c_char * 4).from_buffer(x)


@pytest.mark.skipif(
    sys.version_info < (3, 12), reason="Python 3.12 is the first to ask for __buffer__"
)
def test_buffer_protocol_errors():
    with pytest.raises(BufferError, match="string"):
        memoryview(plugrad.asarray(["a"]))
    with pytest.raises(GradientLost):
        plugrad.grad(lambda x: plugrad.asarray(memoryview(x)[0]))(plugrad.asarray([1.0]))


def read_arrow_tensor(x):
    """Return the contents of an Arrow tensor's C structures, as a consumer reads them, and release them."""
    schema, array = x.__arrow_c_array__()
    pointer = arrow._get_pointer
    type_of = arrow.ArrowSchema.from_address(pointer(id(schema), b"arrow_schema"))
    values = arrow.ArrowArray.from_address(pointer(id(array), b"arrow_array"))
    found = []
    node, kind = values, type_of
    while node.n_children:
        found.append((kind.format.decode(), node.length))
        node, kind = node.children[0].contents, kind.children[0].contents
    buffers = [node.buffers[i] for i in range(node.n_buffers)]
    assert not buffers[0]
    return found, kind.format.decode(), node.length, buffers[1:], (schema, array)


ARROW_DTYPES = [
    d
    for d in DTYPES
    if d.name in arrow.ARROW_FORMAT_OF_DTYPE and d is not string and d is not plugrad.bool
]


@pytest.mark.parametrize("dtype", ARROW_DTYPES, ids=str)
def test_arrow_arrays_of_numbers(dtype, backend):
    if dtype not in plugrad.which().backend.dtypes():
        pytest.skip(f"{backend} has no {dtype}")
    values = np.arange(6).reshape(2, 3).astype(dtype.numpy)
    for x, right in ((plugrad.asarray(values), values), (plugrad.asarray(values).T, values.T)):
        lists, letter, length, (address,), held = read_arrow_tensor(x)
        assert lists == [(f"+w:{right.shape[1]}", right.shape[0])]
        assert (letter, length) == (arrow.ARROW_FORMAT_OF_DTYPE[dtype.name], 6)
        assert ctypes.string_at(address, right.nbytes) == right.tobytes()
        del held
    assert read_arrow_tensor(plugrad.asarray(values[0, :0]))[2] == 0


def test_arrow_arrays_of_bools_and_texts(backend):
    _, letter, length, (address,), held = read_arrow_tensor(
        plugrad.asarray([True, False, True, True] * 3)
    )
    assert (letter, length, ctypes.string_at(address, 2)) == ("b", 12, b"\xdd\x0d")
    _, letter, length, (offsets, texts), held = read_arrow_tensor(plugrad.asarray(["a", "", "éé"]))
    assert (letter, length) == ("U", 3)
    assert np.frombuffer(ctypes.string_at(offsets, 32), np.int64).tolist() == [0, 1, 1, 5]
    assert ctypes.string_at(texts, 5).decode() == "aéé"
    del held


def test_arrow_export_rejects_unsupported_tensors():
    with pytest.raises(ShapeError, match=r"x\.reshape\(1\)"):
        plugrad.asarray(1.0).__arrow_c_array__()
    with pytest.raises(DTypeError, match=r"no type for complex64.*plugrad\.real"):
        plugrad.asarray([1j]).__arrow_c_array__()
    with pytest.raises(GradientLost):
        plugrad.grad(lambda x: (x.__arrow_c_array__(), x.sum())[1])(plugrad.asarray([1.0]))


def test_arrow_arrays_keep_their_values_until_they_are_released():
    before = len(arrow._kept_contents)
    values = np.arange(3.0)
    alive = weakref.ref(values)
    x = plugrad.from_dlpack(values, copy=False)
    *_, held = read_arrow_tensor(x)
    del values, x
    gc.collect()
    assert alive() is not None
    assert len(arrow._kept_contents) == before + 2
    array = arrow.ArrowArray.from_address(arrow._get_pointer(id(held[1]), b"arrow_array"))
    arrow._RELEASE_CALLBACKS[arrow.ArrowArray](ctypes.addressof(array))  # as a consumer does
    assert not array.release
    gc.collect()
    assert alive() is None
    del held  # which releases the other one, and this one no second time
    assert len(arrow._kept_contents) == before
    assert not arrow._live_structures


def test_views_as_real_and_complex_numbers(backend):
    x = plugrad.asarray([[1 + 2j, 3.0]])
    assert x.view(float).tolist() == x.view("float32").tolist() == [[1, 2, 3, 0]]
    assert x.view(float).view(complex).tolist() == x.tolist()
    assert x.view(complex).dtype is plugrad.complex64
    assert x[:, :0].view(float).shape == (1, 0)
    slope = plugrad.grad(lambda x: plugrad.sum(abs(x.view(complex)) ** 2))(
        plugrad.asarray([3.0, 4.0])
    )
    np.testing.assert_allclose(slope.numpy(), [6, 8], rtol=1e-6)
    for wrong in ((3, 2), ((-1,),), ()):
        with pytest.raises(ArgumentError, match=r"write x\.reshape\(shape\)"):
            x.view(*wrong)
    for dtype in ("int32", "bool", int):
        with pytest.raises(DTypeError, match=r"x\.numpy\(\)\.view\(dtype\)"):
            x.view(dtype)
    for odd in (plugrad.asarray([1.0, 2.0, 3.0]), plugrad.asarray(1.0)):
        with pytest.raises(ShapeError, match="do not pair"):
            odd.view(complex)


def test_views_as_dtypes_that_the_backend_does_not_have():
    with plugrad.use("webgpu"), plugrad.config.override("unsupported_dtype", "always"):
        x = plugrad.asarray([1 + 2j, 3.0])
        assert x.view("float64").tolist() == [1, 2, 3, 0]
        assert x.view("float64").view("float64").dtype == "float32"
        assert x.view("float64").view("complex128").tolist() == x.tolist()
    with plugrad.use("webgpu"), pytest.raises(UnsupportedDtype):
        plugrad.ones(2).view("float64")


def test_logical_ops_treat_nonzero_numbers_as_true(backend):
    numbers = np.array([0, 2, -1, np.nan, 0], "f4")
    whole = np.array([0, 0, 3, 1, 1], "i4")
    for name in ("logical_and", "logical_or", "logical_xor"):
        right = getattr(np, name)(numbers, whole)
        for a, b in (
            (numbers, whole),
            (plugrad.asarray(numbers), whole),
            (numbers.tolist(), plugrad.asarray(whole)),
        ):
            assert getattr(plugrad, name)(a, b).tolist() == right.tolist()
        assert getattr(plugrad, name)(True, 2.0).item() == bool(getattr(np, name)(True, 2.0))
    assert (
        plugrad.logical_not(plugrad.asarray(numbers)).tolist() == np.logical_not(numbers).tolist()
    )
    for x in ("a", ["a"], plugrad.asarray(["a"])):
        with pytest.raises(DTypeError):
            plugrad.logical_and(x, True)


def test_where_with_only_a_condition_returns_indices(backend):
    condition = plugrad.asarray([[True, False], [True, True]])
    assert [x.tolist() for x in plugrad.where(condition)] == [[0, 1, 1], [0, 0, 1]]
    with pytest.raises(ArgumentError, match="both a and b, or neither"):
        plugrad.where(condition, 1.0)
    with pytest.raises(ShapeError, match="0-d"):
        plugrad.where(plugrad.asarray(True))
    with pytest.raises(DTypeError, match="must be bool"):
        plugrad.where([1, 2])


def test_pickles_of_models_load_where_the_backend_is_not():
    model = nn.Sequential(nn.Dense(2, activation=plugrad.relu), nn.LayerNorm(), nn.Dense(1))
    with plugrad.use("wasm"):
        weights = model.init(0, (3,))
        right = model(weights, plugrad.ones((1, 3))).tolist()
        kept = pickle.dumps((model, weights))
    with plugrad.use("cpu"), fresh_state(), plugrad.config.override("plugins.disable", ("wasm",)):
        with pytest.warns(RuntimeWarning, match="pickled on 'wasm:0' is on 'cpu' now: .*blocked"):
            model, weights = pickle.loads(kept)
        y = model(weights, plugrad.ones((1, 3)))
        assert y.device == "cpu:0"
        np.testing.assert_allclose(y.numpy(), right, rtol=1e-6)


@pytest.mark.parametrize(
    "make",
    [lambda: plugrad.arange(3), lambda: plugrad.linspace(0, 2, 3)],
    ids=["arange", "linspace"],
)
def test_writes_through_dlpack_do_not_change_cached_numbers(make):
    """Few numbers came from a cache, whose memory DLPack gave away."""
    with plugrad.use("cpu"):
        np.from_dlpack(make())[...] = 9
        assert make().tolist() == [0, 1, 2]


def test_arrays_that_numpy_cannot_convert_are_sent_to_dlpack():
    class Bfloat16Tensor:
        """An array like those of bfloat16 in PyTorch: only DLPack has their values."""

        def __array__(self, dtype=None, copy=None):
            raise TypeError("Got unsupported ScalarType BFloat16")

        def __dlpack__(self, **options):
            return np.ones(2, np.float32).__dlpack__(**options)

        def __dlpack_device__(self):
            return np.ones(2, np.float32).__dlpack_device__()

    with pytest.raises(ArgumentError, match=r"ScalarType BFloat16; try plugrad\.from_dlpack"):
        plugrad.asarray(Bfloat16Tensor())
    assert plugrad.from_dlpack(Bfloat16Tensor()).tolist() == [1.0, 1.0]
