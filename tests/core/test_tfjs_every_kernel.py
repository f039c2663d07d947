"""Every kernel that has a counterpart in TensorFlow.js is written, read again, and run by TensorFlow.js."""

import numpy as np
import pytest

import plugrad
from core.tfjs_models.node import needs_tfjs, run_jobs
from plugrad import fft, fused, image, linalg, sparse, string, tfjs
from plugrad.graph_models.rules import WRITE_RULES

RNG = np.random.default_rng(0)


def real(*shape):
    return RNG.normal(0, 1, shape).astype(np.float32)


X, Y, UNIT, OVER = real(2, 4), real(2, 4), (real(2, 4) / 4).clip(-0.9, 0.9), abs(real(2, 4)) + 1.5
IMAGES, FILTERS, WORDS = real(2, 5, 6, 2), real(3, 2, 2, 3), np.array(["two fish", "one"], object)
NUMBERS = np.array([[12, 3], [-7, 5]], np.int32)
PLACES = np.array([[0, 1], [1, 0]], np.int32)
VOLUMES, MATRICES = real(1, 4, 4, 4, 1), real(2, 3, 4)
COMPLEX = (real(2, 4) + 1j * real(2, 4)).astype(np.complex64)
BIAS, MEAN, VARIANCE = real(3), real(2), abs(real(2)) + 0.5
BOXES = np.array([[0, 0, 0.5, 1.2], [0.2, 0.1, 1, 1]], np.float32)

UNARY = """
    abs asinh atan ceil cos cosh elu erf exp expm1 floor gelu isfinite isinf isnan log_softmax
    negative reciprocal relu relu6 round selu sigmoid sign sin sinh softmax softplus square tan tanh trunc
"""
BINARY = """
    add atan2 equal greater greater_equal less less_equal
    maximum minimum multiply not_equal divide remainder squared_difference subtract
"""


def bounds(x):
    return [plugrad.clip(x, -0.5, 0.5), plugrad.step(x, 0.25), plugrad.gelu(x, approximate=True)]


def logic(x, y):
    a, b = x > 0, y > 0
    every = [plugrad.logical_and, plugrad.logical_or, plugrad.logical_xor]
    found = [f(a, b) for f in every] + [plugrad.logical_not(a), plugrad.where(a, x, y)]
    return [*found, plugrad.all(a, axis=1), plugrad.any(a, axis=0)]


def reductions(x):
    every = (plugrad.max, plugrad.mean, plugrad.min, plugrad.prod, plugrad.sum)
    every += (plugrad.var, plugrad.euclidean_norm)
    found = [f(x, axis=1, keepdims=k) for f in every for k in (True, False)]
    found += [plugrad.argmax(x, axis=0), plugrad.argmin(x, axis=1)]
    options = {"axis": 1, "exclusive": True, "reverse": True}
    return [*found, plugrad.cumulative_sum(x, **options), plugrad.cumulative_prod(x, **options)]


def positive(x):
    every = (plugrad.sqrt, plugrad.rsqrt, plugrad.log, plugrad.log1p, plugrad.log2, plugrad.log10)
    return [*(f(x) for f in every), plugrad.acosh(x), plugrad.pow(x, 1.5)]


def integers(x):
    return [x // 5, x % 5, plugrad.astype(x, "float32"), -x, x * x]


def convolutions(x):
    options = {"bias": BIAS, "activation": "relu6"}
    weights = np.array([0.1, 0.2, 0.3], np.float32)
    return [
        plugrad.conv2d(x, FILTERS, 2, "same"),
        plugrad.conv2d(x, FILTERS, 1, ((2, 1), (0, 1))),
        plugrad.conv2d(x, FILTERS, 1, "valid", dilations=2),
        fused.conv2d(x, FILTERS, **options),
        fused.conv2d(x, FILTERS, bias=BIAS, activation="prelu", prelu_activation_weights=weights),
        fused.conv2d(x, FILTERS, activation="sigmoid"),
        fused.conv2d(x, FILTERS, bias=BIAS, activation="leakyrelu", leakyrelu_alpha=0.3),
        plugrad.depthwise_conv2d(x, FILTERS[..., :2], 1, "same"),
        fused.depthwise_conv2d(x, FILTERS[..., :1], bias=BIAS[:2], activation="elu"),
        plugrad.conv2d_transpose(x, FILTERS[..., :2], (2, 10, 12, 2), 2, "same"),
        plugrad.dilation2d(x, FILTERS[..., 0], 1, "same"),
    ]


def pooling(x):
    uneven = ((1, 0), (0, 1))
    every = [
        f(x, 2, 1, pad)
        for f in (plugrad.max_pool, plugrad.avg_pool)
        for pad in ("same", "valid", uneven)
    ]
    return [*every, *plugrad.max_pool_with_argmax(x, 2, 2, "same")]


def volumes(x):
    filters = np.ones((2, 2, 2, 1, 1), np.float32)
    return [
        plugrad.conv3d(x, filters, 1, "same"),
        plugrad.conv3d(x, filters, 1, 1),
        plugrad.max_pool3d(x, 2, 2, 1),
        plugrad.avg_pool3d(x, 2, 1, "valid"),
    ]


def products(x):
    other = plugrad.asarray(MATRICES)
    return [
        plugrad.matmul(x, other, transpose_b=True),
        plugrad.matmul(x[0], other[1], transpose_a=True),
        fused.matmul(x[0], other[0], transpose_b=True, bias=BIAS, activation="relu"),
        fused.matmul(x, other, transpose_b=True, bias=BIAS, activation="elu"),
        plugrad.einsum("bij,bkj->bik", x, other),
        plugrad.triu(x),
        linalg.band_part(x, 1, 0),
        plugrad.attention(x, other, other),
        plugrad.attention(x, other, other, mask=np.tril(np.ones((3, 3), bool))),
    ]


def normalizations(x):
    mean, variance = MEAN, VARIANCE
    return [
        plugrad.batch_norm(x, mean, variance),
        plugrad.batch_norm(x, mean, variance, mean, variance, variance_epsilon=0.1),
        plugrad.batch_norm(x, x[:1] * 0, x[:1] * 0 + 1),
        plugrad.layer_norm(x, offset=mean, scale=variance),
        plugrad.local_response_normalization(x, 1, 1.5, 0.5, 0.75),
        plugrad.prelu(x, mean),
        plugrad.leaky_relu(x, 0.1),
    ]


def pictures(x):
    turn = np.array([[1, 0.2, 0.5, 0, 1, 0, 0, 0]], np.float32)
    return [
        image.resize_bilinear(x, (3, 7), half_pixel_centers=True),
        image.resize_bilinear(x, (3, 7), align_corners=True),
        image.resize_nearest_neighbor(x, (9, 4)),
        image.crop_and_resize(
            x, BOXES, np.array([0, 1], np.int32), (3, 3), extrapolation_value=2.0
        ),
        # One image: for others, TensorFlow.js looks at wrong places.
        image.transform(x[:1], turn, "bilinear", "reflect", 1.0, (4, 4)),
        image.flip_left_right(x),
    ]


def blocks(x):
    small = x[:, :4]
    batches = plugrad.space_to_batch_nd(small, (2, 2), ((0, 0), (0, 0)))
    return [
        batches,
        plugrad.batch_to_space_nd(batches, (2, 2), ((1, 0), (0, 1))),
        plugrad.depth_to_space(plugrad.concat([x, x], axis=3), 2),
    ]


def movement(x):
    return [
        *plugrad.unstack(x, axis=1),
        *plugrad.split(x, [1, 3], axis=1),
        plugrad.stack([x, x], axis=1),
        plugrad.concat([x, x], axis=1),
        plugrad.reshape(x, (4, 2)),
        plugrad.expand_dims(x, axis=1),
        x.T,
        plugrad.broadcast_to(x[:, None], (2, 3, 4)),
        plugrad.tile(x, (1, 2)),
        x[1, 1:3],
        x[:, ::2],
        x[::-1, 3:0:-2],
        plugrad.flip(x, axis=0),
        plugrad.pad(x, ((0, 1), (2, 0)), 1.5),
        plugrad.mirror_pad(x, ((0, 1), (2, 0)), "symmetric"),
        plugrad.add_n([x, x, x]),
        plugrad.run_kernel("ZerosLike", {"x": x}),
        plugrad.run_kernel("OnesLike", {"x": x}),
    ]


def indices(x):
    where = plugrad.asarray(PLACES)
    ordered = plugrad.asarray([[0.0, 1.0, 1.0, 2.0]] * 2)
    counted = plugrad.asarray([1, 1, 2], dtype="int32") + plugrad.astype(x[0, :3] * 0, "int32")
    return [
        plugrad.take(x, where, axis=1),
        plugrad.gather_nd(x, where),
        plugrad.scatter_nd(where, x[:, 0], (2, 3)),
        plugrad.tensor_scatter_update(x, where, x[:, 0]),
        plugrad.sparse_to_dense(where, x[:, 0], (2, 3), 0.5),
        plugrad.one_hot(plugrad.astype(x, "int32"), 3, 2.0, -1.0),
        *plugrad.top_k(x, 2),
        plugrad.lower_bound(ordered, x),
        plugrad.upper_bound(ordered, x),
        plugrad.bincount(counted, size=4),
        plugrad.dense_bincount(counted, x[0, :3], size=4),
        plugrad.broadcast_args(counted[:2] * 0 + 1, [3, 1]),
    ]


def complexes(x):
    y = plugrad.complex(x, x * 2)
    return [
        plugrad.real(y * y),
        plugrad.imag(y),
        plugrad.abs(y),
        plugrad.real(plugrad.conj(y)),
        fft.irfft(fft.rfft(x)),
    ]


def text(x):
    replaced = string.static_regex_replace(x, "fish", "hat")
    return [replaced, string.string_to_hash_bucket_fast(x, 10)]


CASES = {
    "unary": (lambda x: [getattr(plugrad, name)(x) for name in UNARY.split()], X),
    "unit": (lambda x: [plugrad.acos(x), plugrad.asin(x), plugrad.atanh(x)], UNIT),
    "binary": (lambda x, y: [getattr(plugrad, name)(x, y) for name in BINARY.split()], X, Y),
    "bounds": (bounds, X), "logic": (logic, X, Y), "reductions": (reductions, X), "positive": (positive, OVER),
    "integers": (integers, NUMBERS), "convolutions": (convolutions, IMAGES), "pooling": (pooling, IMAGES),
    "volumes": (volumes, VOLUMES), "products": (products, MATRICES), "normalizations": (normalizations, IMAGES),
    "pictures": (pictures, IMAGES), "blocks": (blocks, IMAGES), "movement": (movement, X), "indices": (indices, X),
    "complexes": (complexes, X), "fourier": (lambda x: [fft.fft(x), fft.ifft(x)], COMPLEX),
    "sparse": (lambda i: list(sparse.sparse_reshape(i, [2, 2], [4, 1])), PLACES),
    "text": (text, WORDS),
}  # fmt: skip
"""Functions, and what they are called with."""


def kernels_in(graph):
    for step in graph.steps:
        if hasattr(step, "kernel"):
            yield step.kernel.name
        for inner in step.graphs:
            yield from kernels_in(inner)


def results_of(name):
    compute, *inputs = CASES[name]
    return [y.numpy() for y in compute(*map(plugrad.asarray, inputs))]


def save(name, folder):
    compute, *inputs = CASES[name]
    tfjs.save_graph_model(compute, *inputs, folder=folder, dynamic=False)
    return {f"x{n}": value for n, value in enumerate(inputs)}


def check(results, wanted, name):
    for got, want in zip(results, wanted, strict=True):
        assert got.shape == want.shape
        if want.dtype.kind in "TOU":
            assert got.tolist() == want.tolist()
        else:
            np.testing.assert_allclose(got, want, 2e-5, 2e-5, err_msg=name)


@pytest.mark.parametrize("name", CASES)
def test_kernels_come_back(name, tmp_path):
    inputs = save(name, tmp_path)
    results = tfjs.load_graph_model(tmp_path).run(inputs)
    check([y.numpy() for y in results], results_of(name), name)


def test_no_kernel_is_left_out():
    called = set()
    for compute, *inputs in CASES.values():
        called.update(kernels_in(plugrad.make_graph(compute)(*map(plugrad.asarray, inputs))))
    assert sorted(set(WRITE_RULES) - called) == []


@needs_tfjs
def test_tensorflow_js_runs_every_kernel(tmp_path):
    jobs = []
    for place, name in enumerate(CASES):
        folder = tmp_path / str(place)
        inputs = save(name, folder)
        outputs = [f"y{n}" for n in range(len(results_of(name)))]
        jobs.append({"folder": str(folder), "kind": "graph", "inputs": inputs, "outputs": outputs})
    for name, result in zip(CASES, run_jobs(jobs, tmp_path), strict=True):
        assert not isinstance(result, str), f"{name}: {result}"
        check(result, results_of(name), name)
