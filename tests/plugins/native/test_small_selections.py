"""Elements at positions and the largest ones, which C selects from few elements as NumPy and Python do."""

import numpy as np
import pytest

import plugrad

variants = pytest.importorskip("plugrad_native.variants")
if not variants.has_any_variant():
    pytest.skip("there is no native code for this platform", allow_module_level=True)

DTYPES = ("bool", "float16", "float32", "float64", "int8", "int32", "int64", "uint8", "complex64")
REAL_DTYPES = ("float16", "float32", "float64", "int8", "int16", "int32", "int64")
UNSIGNED_DTYPES = ("uint8", "uint16", "uint32", "uint64")


@pytest.fixture(autouse=True)
def _on_cpu():
    with plugrad.use("cpu"):
        yield


def implementation(kernel):
    """Return the function that the engine calls for a kernel, and keeps after the first call."""
    x = plugrad.reshape(plugrad.zeros(1), (1, 1))
    plugrad.take(x, plugrad.top_k(x).indices, axis=1)
    return x.backend.functions[kernel]


def small_integers(*shape, dtype="float32"):
    values = np.arange(np.prod(shape, dtype=int)) * 5 % 7 - 3
    return values.astype(dtype).reshape(shape)


def assert_equal(found, expected):
    np.testing.assert_array_equal(found.numpy(), expected, strict=True)


def test_small_selections_run_in_c():
    assert implementation("GatherV2").__name__ == "small_result"
    assert implementation("TopK").__name__ == "small_result"


@pytest.mark.parametrize("positions", ["int8", "uint8", "int32", "int64"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_elements_at_positions(dtype, positions):
    for shape in ((8,), (2, 4), (3, 1, 5), (300, 10), (5, 0)):
        x = small_integers(*shape, dtype=dtype)
        for axis in range(len(shape)):
            size = shape[axis]
            for places in (0, [0], [[size - 1, 0]], [], [[]], [0] * 300, [-1, -size]):
                if size == 0 and np.size(places):
                    continue
                i = np.array(places)
                if i.size and positions.endswith("int8"):
                    i = i % min(size, 100)
                i = i.astype(positions)
                for values in (x, np.moveaxis(x, 0, -1)):
                    if values.shape[axis] != size:
                        continue
                    found = plugrad.take(plugrad.asarray(values), plugrad.asarray(i), axis=axis)
                    assert_equal(found, values.take(i.astype(np.intp), axis))


def test_positions_of_views_and_in_batches():
    x, i = small_integers(3, 4), np.array([[0, 1], [2, 1], [1, 1]])
    for places in (i, i.T, i[::2, ::-1]):
        given = plugrad.permute_dims(plugrad.asarray(np.ascontiguousarray(places.T)))
        assert_equal(plugrad.take(plugrad.asarray(x), given, axis=0), x.take(places, 0))
    found = plugrad.take(plugrad.asarray(x), plugrad.asarray(i), axis=1, batch_dims=1)
    assert_equal(found, np.take_along_axis(x, i, 1))
    strings = plugrad.take(plugrad.asarray(["a", "b"]), plugrad.asarray([1, 0]))
    assert strings.tolist() == ["b", "a"]


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_a_position_out_of_range_is_refused(dtype):
    for shape, axis, place in (((8,), 0, 8), ((8,), 0, -9), ((2, 4), 1, 4), ((0, 3), 0, 0)):
        x, i = plugrad.zeros(shape), plugrad.asarray(np.array([place], dtype))
        with pytest.raises(plugrad.errors.TensorIndexError, match=f"index {place} is out of range"):
            plugrad.take(x, i, axis=axis)
    if dtype == "int64":
        with pytest.raises(plugrad.errors.TensorIndexError):
            plugrad.take(plugrad.zeros(8), plugrad.asarray(np.array([2**32], dtype)))


def test_small_selections_keep_no_reference_to_inputs():
    x, i = plugrad.asarray(small_integers(8)), plugrad.asarray([1, 2])
    y, largest = plugrad.take(x, i), plugrad.top_k(x, 8).values
    x[:] = 9
    assert_equal(y, small_integers(8)[1:3])
    assert_equal(largest, np.sort(small_integers(8))[::-1])


@pytest.mark.parametrize("dtype", [*REAL_DTYPES, *UNSIGNED_DTYPES])
def test_small_top_k(dtype):
    for shape in ((8,), (1,), (2, 4), (3, 4, 5), (1023,), (1024,), (5, 300), (300, 5), (2, 0)):
        x = small_integers(*shape, dtype=dtype)
        for values in (x, x[..., ::-1]):
            order = shape[-1] - 1 - np.argsort(values[..., ::-1], -1, stable=True)[..., ::-1]
            given = plugrad.flip(plugrad.asarray(x), axis=-1) if values is not x else x
            for k in {0, 1, 2, shape[-1] // 2, shape[-1]}:
                if k > shape[-1]:
                    continue
                largest, places = plugrad.top_k(given, k)
                assert_equal(places, order[..., :k].astype("int32"))
                assert_equal(largest, np.take_along_axis(values, order[..., :k], -1))
                largest, places = plugrad.top_k(given, k, sorted=False)
                expected = np.sort(order[..., :k], -1)
                assert_equal(places, expected.astype("int32"))
                assert_equal(largest, np.take_along_axis(values, expected, -1))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_nan_is_the_largest_element(dtype):
    x = np.array([1, np.nan, -np.inf, np.inf, np.nan, -0.0, 0.0], dtype)
    largest, places = plugrad.top_k(plugrad.asarray(x), 7)
    assert places.tolist() == [1, 4, 3, 0, 6, 5, 2] or places.tolist() == [1, 4, 3, 0, 5, 6, 2]
    assert_equal(largest, x[places.numpy()])
    long = np.tile(x, 200)  # for which C does not select by itself
    assert_equal(
        plugrad.top_k(plugrad.asarray(long), 1400).values[:400:200], largest[:1].numpy().repeat(2)
    )


def test_wrong_attributes_are_refused_as_without_c():
    x = small_integers(8)
    for wrong in ({"k": "a", "sorted": True}, {"k": 2, "sorted": "a"}):
        with pytest.raises((ValueError, TypeError)):
            implementation("TopK")(x, **wrong)
    for axis in (1, "a"):
        with pytest.raises((ValueError, TypeError, IndexError)):
            implementation("GatherV2")(x, np.array([0]), axis=axis, batch_dims=0)


@pytest.mark.parametrize("shape", [(2**32, 2**32), (2**62 + 2, 4), (4, 2**62 + 2)])
def test_a_shape_that_no_array_can_have_is_refused(shape):
    """In 64 bits, the products of the sizes are 0 and 8."""
    for size in (0, 8):
        with pytest.raises(ValueError, match="cannot reshape"):
            implementation("Reshape")(np.zeros(size, np.float32), shape=shape)
    for sizes in (shape, (0, *shape)):
        with pytest.raises(ValueError, match=r"Maximum allowed dimension exceeded|too big"):
            implementation("Fill")(
                plugrad.zeros(1).backend, shape=sizes, value=1.0, dtype=plugrad.float32
            )
