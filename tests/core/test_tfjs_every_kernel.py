"""Every kernel that has a counterpart in TensorFlow.js is written, read again, and run by TensorFlow.js."""

import numpy as np
import pytest

import plugrad
from core.tfjs_models.node import needs_tfjs, run_models_in_node
from plugrad import fft, fused, image, linalg, sparse, string, tfjs
from plugrad.graph_models.rules import WRITE_RULES

RNG = np.random.default_rng(0)


def random_float32(*shape):
    return RNG.normal(0, 1, shape).astype(np.float32)


X, Y, NUMBERS_BELOW_1, NUMBERS_ABOVE_1 = (
    random_float32(2, 4),
    random_float32(2, 4),
    (random_float32(2, 4) / 4).clip(-0.9, 0.9),
    abs(random_float32(2, 4)) + 1.5,
)
IMAGES, FILTERS, WORDS = (
    random_float32(2, 5, 6, 2),
    random_float32(3, 2, 2, 3),
    np.array(["two fish", "one"], object),
)
INTEGER_MATRIX = np.array([[12, 3], [-7, 5]], np.int32)
INDEX_PAIRS = np.array([[0, 1], [1, 0]], np.int32)
VOLUMES, MATRICES = random_float32(1, 4, 4, 4, 1), random_float32(2, 3, 4)
COMPLEX_MATRIX = (random_float32(2, 4) + 1j * random_float32(2, 4)).astype(np.complex64)
BIAS, MEAN, VARIANCE = random_float32(3), random_float32(2), abs(random_float32(2)) + 0.5
BOXES = np.array([[0, 0, 0.5, 1.2], [0.2, 0.1, 1, 1]], np.float32)

UNARY_OPS = """
    abs asinh atan ceil cos cosh elu erf exp expm1 floor gelu isfinite isinf isnan log_softmax
    negative reciprocal relu relu6 round selu sigmoid sign sin sinh softmax softplus square tan tanh trunc
"""
BINARY_OPS = """
    add atan2 equal greater greater_equal less less_equal
    maximum minimum multiply not_equal divide remainder squared_difference subtract
"""


def clipping_ops(x):
    return [plugrad.clip(x, -0.5, 0.5), plugrad.step(x, 0.25), plugrad.gelu(x, approximate=True)]


def logical_ops(x, y):
    a, b = x > 0, y > 0
    every = [plugrad.logical_and, plugrad.logical_or, plugrad.logical_xor]
    found = [f(a, b) for f in every] + [plugrad.logical_not(a), plugrad.where(a, x, y)]
    return [*found, plugrad.all(a, axis=1), plugrad.any(a, axis=0)]


def reduction_ops(x):
    every = (plugrad.max, plugrad.mean, plugrad.min, plugrad.prod, plugrad.sum)
    every += (plugrad.var, plugrad.euclidean_norm)
    found = [f(x, axis=1, keepdims=k) for f in every for k in (True, False)]
    found += [plugrad.argmax(x, axis=0), plugrad.argmin(x, axis=1)]
    options = {"axis": 1, "exclusive": True, "reverse": True}
    return [*found, plugrad.cumulative_sum(x, **options), plugrad.cumulative_prod(x, **options)]


def ops_of_positive_numbers(x):
    every = (plugrad.sqrt, plugrad.rsqrt, plugrad.log, plugrad.log1p, plugrad.log2, plugrad.log10)
    return [*(f(x) for f in every), plugrad.acosh(x), plugrad.pow(x, 1.5)]


def integer_ops(x):
    return [x // 5, x % 5, plugrad.astype(x, "float32"), -x, x * x]


def convolution_ops(x):
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


def pooling_ops(x):
    uneven = ((1, 0), (0, 1))
    every = [
        f(x, 2, 1, pad)
        for f in (plugrad.max_pool, plugrad.avg_pool)
        for pad in ("same", "valid", uneven)
    ]
    return [*every, *plugrad.max_pool_with_argmax(x, 2, 2, "same")]


def volume_ops(x):
    filters = np.ones((2, 2, 2, 1, 1), np.float32)
    return [
        plugrad.conv3d(x, filters, 1, "same"),
        plugrad.conv3d(x, filters, 1, 1),
        plugrad.max_pool3d(x, 2, 2, 1),
        plugrad.avg_pool3d(x, 2, 1, "valid"),
    ]


def matrix_product_ops(x):
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


def normalization_ops(x):
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


def image_ops(x):
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


def block_ops(x):
    small = x[:, :4]
    batches = plugrad.space_to_batch_nd(small, (2, 2), ((0, 0), (0, 0)))
    return [
        batches,
        plugrad.batch_to_space_nd(batches, (2, 2), ((1, 0), (0, 1))),
        plugrad.depth_to_space(plugrad.concat([x, x], axis=3), 2),
    ]


def movement_ops(x):
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
        plugrad.full((100, 100), 1.5)[:2, :4] * x,  # too large for a constant of the graph
    ]


def indexing_ops(x):
    where = plugrad.asarray(INDEX_PAIRS)
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


def complex_ops(x):
    y = plugrad.complex(x, x * 2)
    return [
        plugrad.real(y * y),
        plugrad.imag(y),
        plugrad.abs(y),
        plugrad.real(plugrad.conj(y)),
        fft.irfft(fft.rfft(x)),
    ]


def string_ops(x):
    replaced = string.static_regex_replace(x, "fish", "hat")
    return [replaced, string.string_to_hash_bucket_fast(x, 10)]


OPS_AND_INPUTS = {
    "unary": (lambda x: [getattr(plugrad, name)(x) for name in UNARY_OPS.split()], X),
    "unit": (lambda x: [plugrad.acos(x), plugrad.asin(x), plugrad.atanh(x)], NUMBERS_BELOW_1),
    "binary": (lambda x, y: [getattr(plugrad, name)(x, y) for name in BINARY_OPS.split()], X, Y),
    "bounds": (clipping_ops, X), "logic": (logical_ops, X, Y), "reductions": (reduction_ops, X),
    "positive": (ops_of_positive_numbers, NUMBERS_ABOVE_1), "integers": (integer_ops, INTEGER_MATRIX),
    "convolutions": (convolution_ops, IMAGES), "pooling": (pooling_ops, IMAGES), "volumes": (volume_ops, VOLUMES),
    "products": (matrix_product_ops, MATRICES), "normalizations": (normalization_ops, IMAGES),
    "pictures": (image_ops, IMAGES), "blocks": (block_ops, IMAGES), "movement": (movement_ops, X),
    "indices": (indexing_ops, X),
    "complexes": (complex_ops, X), "fourier": (lambda x: [fft.fft(x), fft.ifft(x)], COMPLEX_MATRIX),
    "sparse": (lambda i: list(sparse.sparse_reshape(i, [2, 2], [4, 1])), INDEX_PAIRS),
    "text": (string_ops, WORDS),
}  # fmt: skip
"""Functions, and what they are called with."""


def kernels_in(graph):
    for step in graph.steps:
        if hasattr(step, "kernel"):
            yield step.kernel.name
        for inner in step.graphs:
            yield from kernels_in(inner)


def run_case(name):
    compute, *inputs = OPS_AND_INPUTS[name]
    return [y.numpy() for y in compute(*map(plugrad.asarray, inputs))]


def save_case(name, folder):
    compute, *inputs = OPS_AND_INPUTS[name]
    tfjs.save_graph_model(compute, *inputs, folder=folder, dynamic=False)
    return {f"x{n}": value for n, value in enumerate(inputs)}


def assert_results_close(results, wanted, name):
    for got, want in zip(results, wanted, strict=True):
        assert got.shape == want.shape
        if want.dtype.kind in "TOU":
            assert got.tolist() == want.tolist()
        else:
            np.testing.assert_allclose(got, want, 2e-5, 2e-5, err_msg=name)


@pytest.mark.parametrize("name", OPS_AND_INPUTS)
def test_saved_kernels_are_loaded_again(name, tmp_path):
    inputs = save_case(name, tmp_path)
    results = tfjs.load_graph_model(tmp_path).run(inputs)
    assert_results_close([y.numpy() for y in results], run_case(name), name)


def test_no_kernel_is_left_out():
    called = set()
    for compute, *inputs in OPS_AND_INPUTS.values():
        called.update(kernels_in(plugrad.make_graph(compute)(*map(plugrad.asarray, inputs))))
    assert sorted(set(WRITE_RULES) - called) == []


@needs_tfjs
def test_tensorflow_js_runs_every_kernel(tmp_path):
    jobs = []
    for place, name in enumerate(OPS_AND_INPUTS):
        folder = tmp_path / str(place)
        inputs = save_case(name, folder)
        outputs = [f"y{n}" for n in range(len(run_case(name)))]
        jobs.append({"folder": str(folder), "kind": "graph", "inputs": inputs, "outputs": outputs})
    for name, result in zip(OPS_AND_INPUTS, run_models_in_node(jobs, tmp_path), strict=True):
        assert not isinstance(result, str), f"{name}: {result}"
        assert_results_close(result, run_case(name), name)
