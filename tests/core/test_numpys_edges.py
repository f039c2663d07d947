"""Tensors in edge cases of NumPy's functions and in libraries that are built on NumPy."""

import subprocess
import sys
from types import SimpleNamespace

import einops.array_api
import numpy as np
import opt_einsum
import pytest
import safetensors.numpy
from PIL import Image

import plugrad
from plugrad.errors import ArgumentError, ArgumentValueError, AxisError, DisposedTensor

MATRIX = np.array([[1.0, -2.0, 3.0], [0.5, 4.0, -6.0]], "float32")


def test_a_0d_tensor_is_not_iterable(backend):
    with pytest.raises(TypeError, match="0-d tensor"):
        iter(plugrad.asarray(1.0))
    assert np.iterable(plugrad.zeros(2))
    assert not np.iterable(plugrad.asarray(1.0))


REDUCTIONS = ["sum", "prod", "mean", "std", "var", "max", "min", "all", "any", "argmax", "argmin"]


@pytest.mark.parametrize("name", [*REDUCTIONS, "cumsum", "cumprod"])
def test_numpys_functions_call_the_methods(name, backend):
    x, function = plugrad.asarray(MATRIX), getattr(np, name)
    options = [{}, {"axis": 1}, {"axis": 0, "out": None}]
    options += [{"axis": 0, "keepdims": True}] if name in REDUCTIONS else []
    options += [{"ddof": 1, "axis": -1}] if name in ("std", "var") else []
    for given in options:
        result = function(x, **given)
        assert isinstance(result, plugrad.Tensor)
        expected = function(MATRIX, **given)
        assert result.shape == expected.shape
        np.testing.assert_allclose(result.numpy(), expected, rtol=1e-6)
    with pytest.raises(ArgumentError, match=rf"{name}: out is a ndarray, .*y\[...\] = x.{name}"):
        getattr(x, name)(out=np.zeros(()))


@pytest.mark.parametrize("name", ["sum", "prod", "mean", "std", "var", "cumsum", "cumprod"])
def test_dtype_of_a_result(name):
    function = getattr(np, name)
    for values, dtype in ((MATRIX, "float64"), (np.array([[1, 2], [3, 5]], "int32"), "float32")):
        result = function(plugrad.asarray(values), dtype=dtype, axis=0)
        assert result.dtype == plugrad.asarray(values).astype(dtype).dtype
        np.testing.assert_allclose(result.numpy(), function(values, dtype=dtype, axis=0), rtol=1e-6)


def test_numpys_functions_have_gradients():
    for name in ("sum", "prod", "mean", "std", "var", "cumsum", "cumprod"):
        by_numpy, own = (
            plugrad.grad(lambda x, f=f: plugrad.sum(f(x)))(plugrad.asarray(MATRIX[0]))
            for f in (getattr(np, name), lambda x, name=name: getattr(x, name)())
        )
        assert by_numpy.tolist() == own.tolist()
        assert any(own.tolist())


def test_numpys_elementwise_functions_call_the_ops(backend):
    x, other = plugrad.asarray(MATRIX), np.float32([2, 0.5, 3])
    for function in (np.exp, np.tanh, np.arctan, np.isnan, np.square, np.signbit, np.invert):
        values = MATRIX.astype("int32") if function is np.invert else MATRIX
        result = function(plugrad.asarray(values))
        assert (type(result), result.shape) == (plugrad.Tensor, MATRIX.shape)
        np.testing.assert_allclose(result.numpy(), function(values), rtol=1e-6)
    pairs = [
        (function, left, right)
        for function in (np.add, np.maximum, np.hypot, np.floor_divide, np.less)
        for left, right in ((x, other), (other, x), (np.float32(2), x))
    ]
    for function, left, right in [*pairs, (np.matmul, MATRIX.T, x), (np.matmul, x, MATRIX.T)]:
        result = function(left, right)
        assert type(result) is plugrad.Tensor
        expected = function(np.asarray(left), np.asarray(right))
        np.testing.assert_allclose(result.numpy(), expected, rtol=1e-6)
    dx = plugrad.grad(lambda x: np.sum(np.sin(x) * MATRIX))(x)
    np.testing.assert_allclose(dx.numpy(), np.cos(MATRIX) * MATRIX, rtol=1e-6)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x, a: np.spacing(x), ["np.spacing does not take tensors", "np.spacing(x.numpy())"]),
        (lambda x, a: np.exp(x, where=a > 0), ["np.exp with where", "x.numpy()"]),
        (
            lambda x, a: np.add.reduceat(x, [0]),
            ["np.add.reduceat does not take tensors", "x.numpy()"],
        ),
        (lambda x, a: np.subtract.reduce(x), ["np.subtract.reduce does not", "x.numpy()"]),
        (lambda x, a: np.add.reduce(x, where=a > 0), ["np.add.reduce with where", "x.numpy()"]),
        (lambda x, a: np.add.reduce(x, axis=0, out=a[0]), ["np.add.reduce does not write"]),
        (lambda x, a: np.add.at(a, 0, x), ["np.add.at does not take tensors", "x.numpy()"]),
        (lambda x, a: np.add(x, a, out=a), ["np.add does not write", "assign its result"]),
        (lambda x, a: a.__iadd__(x), ["np.add does not write", "+=", "assign its result"]),
    ],
)
def test_unsupported_numpy_functions_raise_an_error(call, words):
    a = MATRIX.copy()
    with pytest.raises(ArgumentError) as raised:
        call(plugrad.asarray(MATRIX), a)
    assert all(word in str(raised.value) for word in words)
    np.testing.assert_array_equal(a, MATRIX)


def test_divmod_and_round_match_python(backend):
    x = plugrad.asarray(MATRIX)
    for found, expected in (
        (divmod(x, 2), divmod(MATRIX, 2)),
        (divmod(7, x), divmod(7, MATRIX)),
        (divmod(MATRIX, x), divmod(MATRIX, MATRIX)),
    ):
        for part, wanted in zip(found, expected, strict=True):
            np.testing.assert_array_equal(part.numpy(), wanted)
    halves = np.float32([0.5, 1.5, -2.5, np.inf, 1234.5678])
    np.testing.assert_array_equal(round(plugrad.asarray(halves)).numpy(), np.round(halves))
    for digits in (0, 2, -2):
        found = round(plugrad.asarray(halves), digits)
        np.testing.assert_allclose(found.numpy(), np.round(halves, digits), rtol=1e-6)
    assert round(plugrad.asarray([15, 25]), 3).tolist() == [15, 25]
    with pytest.raises(ArgumentValueError, match=r"ndigits=-1 is negative.*astype"):
        round(plugrad.asarray([15, 25]), -1)


def test_transpose_takes_axes_like_numpy(backend):
    host = np.arange(24, dtype="float32").reshape(2, 3, 4)
    x = plugrad.asarray(host)
    for axes in ((), (None,), ((1, 0, 2),), ([2, 0, 1],), (0, -1, 1)):
        np.testing.assert_array_equal(x.transpose(*axes).numpy(), host.transpose(*axes))
    np.testing.assert_array_equal(np.transpose(x, (1, 2, 0)).numpy(), host.transpose(1, 2, 0))
    with pytest.raises(AxisError):
        x.transpose(0, 1)


def test_matplotlib_draws_tensors(backend):
    import matplotlib as mpl  # here, because to import it takes longer than the tests

    mpl.use("agg")
    from matplotlib import pyplot  # once the backend of Matplotlib is chosen

    figure, axes = pyplot.subplots()
    x = plugrad.asarray(MATRIX)
    counts, _, _ = axes.hist(x.reshape(-1), bins=3)
    np.testing.assert_array_equal(counts, np.histogram(MATRIX, bins=3)[0])
    line = axes.axvline(x[0, 0])
    assert list(line.get_xdata()) == [1, 1]
    axes.plot(x[0], x[1])
    pyplot.close(figure)


DTYPES = ["float32", "float64", "int32", "uint8", "bool", "complex64"]


def test_ufuncs_and_einsum_compute_in_a_dtype(backend):
    x, y = plugrad.asarray([1.5, 2.0]), plugrad.asarray([1, 2], dtype="int32")
    total = np.add(x, y, dtype="float32")
    assert (total.dtype, total.tolist()) == (plugrad.float32, [2.5, 4.0])
    product = np.einsum("i,i->", x, y, dtype=plugrad.float32)
    assert (product.dtype, product.item()) == (plugrad.float32, 5.5)
    assert issubclass(product.dtype.type, np.floating)
    for function, dtype in ((np.add, "int32"), (np.greater, "float32")):
        with pytest.raises(ArgumentError, match="with dtype does not take tensors"):
            function(x, y, dtype=dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_array_interface_keeps_the_values_alive(dtype, backend):
    if getattr(plugrad, dtype) not in plugrad.which().backend.dtypes():
        pytest.skip(f"{backend} has no {dtype}")
    host = MATRIX.astype(dtype)
    for expected in (host, host.T, host[:0], host[0, 0]):
        x = plugrad.asarray(host)
        x = (
            x
            if expected is host
            else x.T
            if expected.shape == (3, 2)
            else x[:0]
            if expected.ndim
            else x[0, 0]
        )
        described = x.__array_interface__
        found = np.asarray(SimpleNamespace(__array_interface__=described))
        x[...] = False
        del x, described
        assert not found.flags.writeable
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        np.testing.assert_array_equal(found, expected)
    assert plugrad.asarray(host).tobytes() == host.tobytes()
    assert plugrad.asarray(host).nbytes == host.nbytes


def test_strings_and_disposed_tensors_have_no_array_interface(backend):
    assert not hasattr(plugrad.asarray(["a"]), "__array_interface__")
    x = plugrad.ones(2)
    x.dispose()
    with pytest.raises(DisposedTensor):
        np.asarray(x)


@pytest.mark.parametrize("dtype", ["float32", "bool", "int32", "string"])
def test_arrays_that_can_be_written_to(dtype, backend):
    values = ["a", "b"] if dtype == "string" else np.array([[1, 0], [1, 1]], dtype)
    x = plugrad.asarray(values)
    assert not np.asarray(x).flags.writeable
    with plugrad.config.override("writable_arrays", True):
        made = [np.asarray(x), np.array(x, copy=None), np.ascontiguousarray(x), x.__array__()]
        assert not x.numpy().flags.writeable
    for array in made:
        assert array.flags.writeable
        np.testing.assert_array_equal(array, values)
        array[0] = array[1]
    np.testing.assert_array_equal(x.numpy(), values)
    assert not np.asarray(x).flags.writeable


def test_scipy_says_that_it_asks_for_arrays_that_can_be_written_to(backend):
    """The guide quotes this error next to the setting."""
    sosfilt = pytest.importorskip("scipy.signal", reason="SciPy is not installed").sosfilt
    sections, x = plugrad.asarray([[1.0, 0.0, 0.0, 1.0, -0.5, 0.0]]), plugrad.ones(3)
    with pytest.raises(ValueError, match="buffer source array is read-only"):
        sosfilt(sections, x)
    with plugrad.config.override("writable_arrays", True):
        np.testing.assert_allclose(sosfilt(sections, x), [1, 1.5, 1.75])


def test_arrays_that_can_be_written_to_have_the_dtype_that_is_asked_for():
    with plugrad.config.override("writable_arrays", True):
        found = np.asarray(plugrad.asarray([[1.0], [2.0]]).T, dtype="float64")
    assert found.flags.writeable
    assert found.dtype == "float64"
    assert found.tolist() == [[1, 2]]


def test_pillow_makes_pictures_of_tensors(backend):
    pixels = np.arange(24, dtype="uint8").reshape(2, 4, 3)
    picture = Image.fromarray(plugrad.asarray(pixels))
    assert (picture.mode, picture.size) == ("RGB", (4, 2))
    np.testing.assert_array_equal(np.asarray(picture), pixels)
    turned = Image.fromarray(plugrad.asarray(MATRIX).T)
    np.testing.assert_array_equal(np.asarray(turned), MATRIX.T)
    assert plugrad.asarray(picture).tolist() == pixels.tolist()


def test_safetensors_saves_tensors(backend):
    x = plugrad.asarray(MATRIX)
    saved = safetensors.numpy.save({"x": x, "turned": x.T, "mask": x > 0, "none": x[:0]})
    found = safetensors.numpy.load(saved)
    for name, expected in {
        "x": MATRIX,
        "turned": MATRIX.T,
        "mask": MATRIX > 0,
        "none": MATRIX[:0],
    }.items():
        np.testing.assert_array_equal(found[name], expected)
        assert found[name].dtype == expected.dtype


def test_einops_takes_tensors(backend):
    x = plugrad.asarray(MATRIX)
    y = plugrad.asarray(MATRIX[:, :2])
    assert einops.rearrange(x, "a b -> (b a)").tolist() == MATRIX.T.ravel().tolist()
    assert einops.rearrange([x, x], "n a b -> a n b").shape == (2, 2, 3)
    assert einops.repeat(x, "a b -> a b c", c=2).tolist() == MATRIX[..., None].repeat(2, 2).tolist()
    packed, shapes = einops.pack([x, y], "a *")
    assert packed.tolist() == np.concatenate([MATRIX, MATRIX[:, :2]], 1).tolist()
    assert einops.unpack(packed, shapes, "a *")[1].tolist() == y.tolist()
    np.testing.assert_allclose(
        einops.reduce(x, "a b -> a", "mean").numpy(), MATRIX.mean(1), rtol=1e-6
    )
    np.testing.assert_allclose(
        einops.einsum(x, x, "a b, c b -> a c").numpy(), MATRIX @ MATRIX.T, rtol=1e-6
    )
    total = lambda x: einops.reduce(x * x, "a b -> ", "sum")  # noqa: E731
    assert plugrad.grad(total)(x).tolist() == (2 * MATRIX).tolist()
    assert einops.array_api.rearrange(x, "a b -> b a").tolist() == MATRIX.T.tolist()
    with pytest.raises(NotImplementedError, match="non-floating tensors"):
        einops.reduce(x > 0, "a b -> a", "mean")


@pytest.mark.parametrize(
    "order", ["einops, plugrad", "plugrad, einops", "plugrad, einops.array_api, einops"]
)
def test_einops_may_be_imported_before_or_after_plugrad(order):
    program = f"import sys, {order}; assert einops.rearrange(plugrad.ones((2, 3)), 'a b -> b a').shape == (3, 2)"
    program += "; assert not any(type(f).__module__ == 'plugrad.einops' for f in sys.meta_path)"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_opt_einsum_contracts_tensors(backend):
    x, y = plugrad.asarray(MATRIX), plugrad.asarray(MATRIX[:, :2])
    for options in ({}, {"backend": "plugrad"}):
        result = opt_einsum.contract("ab,cb,cd->da", x, x, y, **options)
        assert isinstance(result, plugrad.Tensor)
        expected = np.einsum("ab,cb,cd->da", MATRIX, MATRIX, MATRIX[:, :2])
        np.testing.assert_allclose(result.numpy(), expected, rtol=1e-5)
        np.testing.assert_allclose(
            opt_einsum.contract("aab->b", plugrad.ones((2, 2, 3)), **options).numpy(), [2, 2, 2]
        )
    expression = opt_einsum.contract_expression("ab,cb->ac", (2, 3), x, constants=[1])
    np.testing.assert_allclose(
        expression(x, backend="plugrad").numpy(), MATRIX @ MATRIX.T, rtol=1e-6
    )


def test_pandas_takes_tensors_and_gives_data(backend):
    import pandas as pd  # here, as Matplotlib above

    x = plugrad.asarray(MATRIX)
    assert pd.Series(x[0]).tolist() == MATRIX[0].tolist()
    frame = pd.DataFrame(x, columns=list("abc"))
    assert (frame.dtypes == "float32").all()
    frame["d"] = x[:, 0]
    np.testing.assert_array_equal(frame.to_numpy(), np.c_[MATRIX, MATRIX[:, 0]])
    assert pd.DataFrame({"a": x[0], "b": x[1]}).to_numpy().tolist() == MATRIX.T.tolist()
    assert plugrad.asarray(frame).tolist() == frame.to_numpy().tolist()
    assert plugrad.asarray(frame["a"]).dtype == x.dtype


def test_matplotlib_draws_bars_and_histograms_of_tensors(backend):
    import matplotlib as mpl  # here, as above

    mpl.use("agg")
    from matplotlib import pyplot

    heights, values = plugrad.asarray([3.0, 1.0, 2.0]), plugrad.asarray(MATRIX)
    for draw in (
        lambda axes: axes.bar(plugrad.arange(3), heights),
        lambda axes: axes.hist2d(values[0], values[1]),
        lambda axes: axes.scatter(values[0], values[1], c=heights, s=heights),
        lambda axes: axes.errorbar(heights, heights, yerr=heights),
        lambda axes: axes.contour(values),
        lambda axes: axes.boxplot(values),
        lambda axes: axes.imshow(values),
    ):
        figure, axes = pyplot.subplots()
        draw(axes)
        figure.canvas.draw()
        pyplot.close(figure)


@pytest.mark.parametrize(
    "method", ["BFGS", "L-BFGS-B", "CG", "Newton-CG", "TNC", "SLSQP", "trust-constr"]
)
def test_scipy_minimizes_with_gradients_of_plugrad(method):
    from scipy import optimize  # here, as above

    def function(x):
        return plugrad.sum(plugrad.square(x - 1))

    with plugrad.use("cpu"):  # SciPy computes in float64
        found = optimize.minimize(
            lambda x: function(plugrad.asarray(x)),
            np.array([0.5, -0.5]),
            jac=lambda x: plugrad.grad(function)(plugrad.asarray(x)),
            method=method,
        )
    np.testing.assert_allclose(found.x, [1, 1], atol=1e-3)


def test_scipys_sparse_matrices_multiply_tensors(backend):
    from scipy import sparse  # here, as above

    matrix = sparse.csr_matrix(MATRIX)
    x = plugrad.asarray([1.0, 2.0, 3.0])
    np.testing.assert_allclose(matrix @ x, MATRIX @ x.numpy(), rtol=1e-6)
    np.testing.assert_allclose(matrix @ x[:, None], MATRIX @ x[:, None].numpy(), rtol=1e-6)


def test_masked_arrays_are_rejected():
    """A tensor has no mask, so masked elements would be treated as values."""
    masked, whole = np.ma.masked_array([1.0, 2.0], [True, False]), np.ma.masked_array([1.0, 2.0])
    for call in (
        plugrad.asarray,
        lambda x: plugrad.ones(2) + x,
        lambda x: np.add(x, plugrad.ones(2)),
    ):
        with pytest.raises(ArgumentError, match=r"masked array.*x\.filled\(0\)"):
            call(masked)
    assert plugrad.asarray(whole).tolist() == [1, 2]
