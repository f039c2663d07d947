"""Functions become models that compute the same, for any size of the batch, here and in onnxruntime."""

import json

import numpy as np
import pytest

pytest.importorskip("onnx")

import onnx

import plugrad
import plugrad_nn as nn
import plugrad_onnx
from plugrad.errors import UnsupportedModel

try:
    import onnxruntime as ort
except ImportError:  # it is large, and only a peer
    ort = None

LAYERS_AND_SHAPES = {
    "AdaptiveAveragePooling2D": (nn.AdaptiveAveragePooling2D(3), (6, 6, 2)),
    "AdaptiveMaxPooling1D": (nn.AdaptiveMaxPooling1D(2), (6, 2)),
    "AveragePooling1D": (nn.AveragePooling1D(2), (6, 3)),
    "AveragePooling2D": (nn.AveragePooling2D(2), (6, 6, 3)),
    "AveragePooling3D": (nn.AveragePooling3D(2), (4, 4, 4, 2)),
    "BatchNorm": (nn.BatchNorm(), (4, 3)),
    "Bidirectional": (nn.Bidirectional(nn.LSTM(3)), (5, 2)),
    "Conv1D": (nn.Conv1D(4, 3, padding="same"), (8, 3)),
    "Conv1DTranspose": (nn.Conv1DTranspose(4, 3, strides=2), (5, 3)),
    "Conv2D": (nn.Conv2D(4, 3, strides=2, padding="same"), (7, 7, 3)),
    "Conv2D with gaps": (nn.Conv2D(4, 3, dilation_rate=2), (7, 7, 3)),
    "Conv2D in groups": (nn.Conv2D(4, 2, 2, dilation_rate=2, groups=2), (6, 5, 6)),
    "Conv2DTranspose in groups": (
        nn.Conv2DTranspose(6, 3, 2, groups=6, output_padding=1),
        (3, 2, 6),
    ),
    "Conv2DTranspose": (nn.Conv2DTranspose(4, 3, strides=2, padding="same"), (5, 5, 3)),
    "Conv3D": (nn.Conv3D(4, 2), (4, 4, 4, 2)),
    "Conv3DTranspose": (nn.Conv3DTranspose(2, 2, strides=2), (3, 3, 3, 2)),
    "ConvLSTM2D": (nn.ConvLSTM2D(2, 3, padding="same"), (3, 4, 4, 2)),
    "Cropping2D": (nn.Cropping2D(1), (5, 5, 2)),
    "Dense": (nn.Dense(4, plugrad.relu), (3,)),
    "DepthwiseConv2D": (nn.DepthwiseConv2D(3, padding="same"), (6, 6, 3)),
    "Dropout": (nn.Dropout(0.5), (4,)),
    "Flatten": (nn.Flatten(), (4, 3)),
    "GRU": (nn.GRU(5, return_sequences=True), (6, 3)),
    "GlobalAveragePooling": (nn.GlobalAveragePooling(), (4, 4, 3)),
    "GlobalMaxPooling": (nn.GlobalMaxPooling(), (4, 4, 3)),
    "GroupNorm": (nn.GroupNorm(groups=2), (4, 4)),
    "InstanceNorm": (nn.InstanceNorm(), (4, 4, 3)),
    "LSTM": (nn.LSTM(5), (6, 3)),
    "LayerNorm": (nn.LayerNorm(), (4, 3)),
    "MaxPooling1D": (nn.MaxPooling1D(2), (6, 3)),
    "MaxPooling2D": (nn.MaxPooling2D(2), (6, 6, 3)),
    "MaxPooling3D": (nn.MaxPooling3D(2), (4, 4, 4, 2)),
    "MultiHeadAttention": (nn.MultiHeadAttention(2, 3), (5, 6)),
    "MultiHeadAttention, causal": (nn.MultiHeadAttention(2, 3, causal=True), (5, 6)),
    "PReLU": (nn.PReLU(), (4, 3)),
    "Permute": (nn.Permute((2, 1)), (4, 3)),
    "PixelShuffle": (nn.PixelShuffle(2), (3, 3, 4)),
    "PositionEmbedding": (nn.PositionEmbedding(5), (5, 3)),
    "RMSNorm": (nn.RMSNorm(), (4, 3)),
    "Reshape": (nn.Reshape((6, 2)), (4, 3)),
    "Residual": (nn.Residual(nn.LayerNorm(), nn.Dense(6, plugrad.gelu)), (5, 6)),
    "SeparableConv2D": (nn.SeparableConv2D(4, 3), (6, 6, 3)),
    "SimpleRNN": (nn.SimpleRNN(4), (5, 3)),
    "TimeDistributed": (nn.TimeDistributed(nn.Dense(2)), (4, 3)),
    "TransformerEncoderBlock": (nn.TransformerEncoderBlock(2, 8), (5, 6)),
    "UpSampling1D": (nn.UpSampling1D(2), (4, 3)),
    "UpSampling2D": (nn.UpSampling2D(2), (4, 4, 2)),
    "UpSampling2D, bilinear": (nn.UpSampling2D(2, interpolation="bilinear"), (4, 4, 2)),
    "WeightNorm": (nn.WeightNorm(nn.Dense(3)), (4,)),
    "ZeroPadding2D": (nn.ZeroPadding2D(1), (4, 4, 2)),
    "AlphaDropout": (nn.AlphaDropout(0.5), (4,)),
    "CategoryEncoding": (nn.CategoryEncoding(5), (3,)),
    "CategoryEncoding, counts": (nn.CategoryEncoding(5, "count"), (3,)),
    "CenterCrop": (nn.CenterCrop(2, 3), (5, 4, 2)),
    "MaxUnpooling1D": (
        nn.Sequential(nn.MaxPooling1D(return_positions=True), nn.MaxUnpooling1D()),
        (6, 2),
    ),
    "MaxUnpooling2D": (
        nn.Sequential(nn.MaxPooling2D(return_positions=True), nn.MaxUnpooling2D()),
        (4, 6, 2),
    ),
    "MaxUnpooling3D": (
        nn.Sequential(nn.MaxPooling3D(return_positions=True), nn.MaxUnpooling3D()),
        (2, 4, 2, 2),
    ),
    "Resizing": (nn.Resizing(5, 7, align_corners=True), (4, 6, 2)),
    "TransformerDecoder": (
        nn.TransformerDecoder(nn.TransformerDecoderBlock(2, 8), 2, nn.LayerNorm()),
        (5, 6),
    ),
    "TransformerEncoder": (
        nn.TransformerEncoder(nn.TransformerEncoderBlock(2, 8, causal=True), 2),
        (5, 6),
    ),
    "AdaptiveAveragePooling1D": (nn.AdaptiveAveragePooling1D(3), (7, 2)),
    "AdaptiveAveragePooling3D": (nn.AdaptiveAveragePooling3D(2), (4, 3, 2, 2)),
    "AdaptiveMaxPooling2D": (nn.AdaptiveMaxPooling2D(2), (5, 4, 2)),
    "AdaptiveMaxPooling3D": (nn.AdaptiveMaxPooling3D(2), (4, 3, 2, 2)),
    "Augment": (nn.Augment(nn.augment.flip), (4, 4, 3)),
    "Cropping1D": (nn.Cropping1D(1), (5, 2)),
    "Cropping3D": (nn.Cropping3D(1), (3, 4, 3, 2)),
    "GaussianDropout": (nn.GaussianDropout(0.5), (4,)),
    "GaussianNoise": (nn.GaussianNoise(0.5), (4,)),
    "Parametrized": (nn.Parametrized(nn.Dense(4), plugrad.triu), (4,)),
    "RepeatVector": (nn.RepeatVector(3), (4,)),
    "Rescaling": (nn.Rescaling(0.5, 1), (4,)),
    "Sequential": (nn.Sequential(nn.Dense(4, plugrad.silu), nn.BatchNorm()), (3,)),
    "SpatialDropout": (nn.SpatialDropout(0.5), (4, 4, 3)),
    "SpectralNorm": (nn.SpectralNorm(nn.Dense(3)), (4,)),
    "TransformerDecoderBlock": (nn.TransformerDecoderBlock(2, 8), (5, 6)),
    "UpSampling3D": (nn.UpSampling3D(2), (2, 2, 3, 2)),
    "ZeroPadding1D": (nn.ZeroPadding1D(1), (4, 2)),
    "ZeroPadding3D": (nn.ZeroPadding3D(1), (2, 2, 2, 2)),
}


def as_indices(x):
    return plugrad.astype(plugrad.clip(x * 2, 0, 4), "int32")


def merge_branches(layer, other=lambda x: x * 2):
    """Return a model with two inputs of a layer: the model's input, and a function of it."""
    return nn.Graph("x", {"other": (other, "x"), "y": (layer, "x", "other")}, "y")


LAYERS_AND_SHAPES |= {
    "Add": (merge_branches(nn.Add()), (3,)),
    "Average": (merge_branches(nn.Average()), (3,)),
    "Concatenate": (merge_branches(nn.Concatenate()), (3,)),
    "Dot": (merge_branches(nn.Dot()), (3,)),
    "Embedding": (nn.Embedding(5, 2), (3,)),
    "EmbeddingBag": (nn.EmbeddingBag(5, 2), (3,)),
    "Graph": (
        nn.Graph("x", {"y": (nn.Dense(3), "x"), "z": (nn.Multiply(), "x", "y")}, "z"),
        (3,),
    ),
    "Masked": (merge_branches(nn.Masked(nn.LSTM(3)), lambda x: x[..., 0] > 0), (5, 2)),
    "Maximum": (merge_branches(nn.Maximum()), (3,)),
    "Minimum": (merge_branches(nn.Minimum()), (3,)),
    "Multiply": (merge_branches(nn.Multiply()), (3,)),
    "Subtract": (merge_branches(nn.Subtract()), (3,)),
}
FUNCTIONS_BY_GROUP = {
    "arithmetic": lambda x: (x * 2 - 1) / 3 + x**2,
    "activations": lambda x: plugrad.elu(x) + plugrad.selu(x) + plugrad.softplus(x),
    "branches": lambda x: plugrad.where(x > 0, plugrad.sqrt(plugrad.abs(x)), -x),
    "broadcast": lambda x: plugrad.broadcast_to(x, (2, *x.shape)),
    "casts": lambda x: plugrad.astype(plugrad.floor(x), "int32"),
    "clips": lambda x: plugrad.clip(x, -1, 1) + plugrad.relu6(x),
    "cumulative": lambda x: plugrad.cumulative_sum(x, axis=1),
    "einsum": lambda x: plugrad.einsum("bij,bkj->bik", x, x),
    "flags": lambda x: plugrad.any(x > 1, axis=1),
    "indices": lambda x: plugrad.take(x, plugrad.asarray([2, 0]), axis=1)[:, 1:, :2],
    "joins": lambda x: plugrad.concat([x, plugrad.stack([x[:, 0], x[:, 1]], axis=1)], axis=1),
    "logarithms": lambda x: plugrad.log_softmax(x) + plugrad.log_sum_exp(x, axis=1, keepdims=True),
    "moved": lambda x: plugrad.reshape(plugrad.permute_dims(x, (1, 0, 2)), (3, -1)),
    "one_hot": lambda x: plugrad.one_hot(plugrad.argmax(x, axis=-1), 4),
    "padded": lambda x: plugrad.pad(x, [[0, 0], [1, 0], [0, 2]], 0.5),
    "parts": lambda x: plugrad.split(x, (1, 3), 2)[1] * plugrad.unstack(x, axis=2)[0][..., None],
    "small": lambda x: plugrad.expm1(x) - plugrad.log1p(plugrad.abs(x)),
    "statistics": lambda x: plugrad.moments(x, axis=(1, 2)),
    "tiled": lambda x: plugrad.tile(x, (1, 2, 1)),
    "zeros": lambda x: x + plugrad.zeros_like(x) * plugrad.ones((x.shape[0], 1, 1)),
}


def assert_export_agrees(function, shape, path, rng):
    """Export a function, and compare it here and in onnxruntime, if installed, at three batch sizes."""
    plugrad_onnx.export(function, rng.normal(size=(2, *shape)).astype(np.float32), path=path)
    model = plugrad_onnx.load(path)
    session = ort and ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    atol = 0 if plugrad.which().backend.name == "cpu" else 2e-6
    for size in (1, 2, 7):
        x = rng.normal(size=(size, *shape)).astype(np.float32)
        expected = function(plugrad.asarray(x))
        expected = list(expected) if isinstance(expected, (list, tuple)) else [expected]
        for result, wanted in zip(model.run({"x0": x}), expected, strict=True):
            rtol = 1e-5 if atol else 0
            np.testing.assert_allclose(result.numpy(), wanted.numpy(), rtol=rtol, atol=atol)
        others = session.run(None, {"x0": x}) if session else expected
        for result, wanted in zip(others, expected, strict=True):
            np.testing.assert_allclose(np.asarray(result), wanted.numpy(), rtol=1e-5, atol=5e-6)


def make_layer(name):
    """Return the parameters of a layer, the layer as a function of them, and the input shape."""
    layer, shape = LAYERS_AND_SHAPES[name]
    params = layer.init(0, shape)
    if name.startswith(("Embedding", "CategoryEncoding")):
        return params, lambda x: layer(params, as_indices(x)), shape
    return params, lambda x: layer(params, x), shape


def randomize(params, rng):
    for variable in nn.leaves(params):
        values = rng.uniform(0.1, 1, variable.shape)
        variable.assign(values.astype(np.float32))


def random_parameters(layer, shape, rng):
    params = layer.init(0, shape)
    randomize(params, rng)
    return lambda x: layer(params, x)


def test_every_layer_is_exported():
    found = {
        n
        for n, value in vars(nn).items()
        if isinstance(value, type) and issubclass(value, nn.Layer)
    }
    assert found - {"Layer"} == {name.split(",")[0].split()[0] for name in LAYERS_AND_SHAPES}


@pytest.mark.parametrize("name", LAYERS_AND_SHAPES)
def test_layers_come_back_and_run_in_onnxruntime(backend, name, tmp_path, rng):
    params, function, shape = make_layer(name)
    randomize(params, rng)
    assert_export_agrees(function, shape, tmp_path / "f.onnx", rng)


@pytest.mark.parametrize("name", FUNCTIONS_BY_GROUP)
def test_ops_come_back_and_run_in_onnxruntime(backend, name, tmp_path, rng):
    assert_export_agrees(FUNCTIONS_BY_GROUP[name], (3, 4), tmp_path / "f.onnx", rng)


def loss_gradients(function, x, variables):
    def loss(x):
        results = function(x)
        results = results if isinstance(results, (list, tuple)) else [results]
        return plugrad.sum(plugrad.stack([plugrad.sum(plugrad.square(r)) for r in results]))

    of_variables = plugrad.variable_grads(lambda: loss(x), variables)[1] if variables else []
    (of_x,) = plugrad.grads(loss, allow_unused=True)(x)
    return [None if g is None else g.numpy() for g in (of_x, *of_variables)]


@pytest.mark.parametrize("name", [*LAYERS_AND_SHAPES, *FUNCTIONS_BY_GROUP])
def test_gradients_come_back_to_the_bit(name, tmp_path, rng):
    if name in ("casts", "flags", "one_hot") or name.startswith("CategoryEncoding"):
        return  # nothing to differentiate
    with plugrad.use("cpu"):
        params, function, shape = (
            ({}, FUNCTIONS_BY_GROUP[name], (3, 4))
            if name in FUNCTIONS_BY_GROUP
            else make_layer(name)
        )
        x = plugrad.asarray(rng.normal(size=(3, *shape)).astype(np.float32))
        own = [v for v in nn.leaves(params) if v.trainable] if params else []
        plugrad_onnx.export(function, x, path=tmp_path / "f.onnx")
        model = plugrad_onnx.load(tmp_path / "f.onnx")
        again = loss_gradients(model, x, model.variables([v.name for v in own]))
        for one, two in zip(loss_gradients(function, x, own), again, strict=True):
            np.testing.assert_array_equal(two, one)


@pytest.mark.parametrize(
    ("layer", "operator", "count"),
    [
        (nn.LSTM(5), "LSTM", 1),
        (nn.GRU(5, return_sequences=True), "GRU", 1),
        (nn.SimpleRNN(4), "RNN", 1),
        (nn.Bidirectional(nn.LSTM(2), merge="concat"), "LSTM", 2),
    ],
)
def test_recurrent_layers_are_nodes(layer, operator, count, tmp_path, rng):
    function = random_parameters(layer, (6, 3), rng)
    plugrad_onnx.export(function, plugrad.ones((1, 6, 3)), path=tmp_path / "f.onnx")
    kinds = [node.op_type for node in onnx.load(tmp_path / "f.onnx").graph.node]
    assert kinds.count(operator) == count
    assert not {"Scan", "MatMul", "Sigmoid"} & {*kinds}


@pytest.mark.parametrize(
    ("function", "opset"),
    [
        (nn.MultiHeadAttention(2, 3), 23),
        (nn.MultiHeadAttention(2, 3, causal=True, positions="alibi"), 23),
        (lambda x: plugrad.attention(x, x, x), 20),
        (lambda x: plugrad.attention(*[x[:, None]] * 3, mask=x[:1, None, :, :1]), 20),
        (lambda x: plugrad.attention(*[x[:, None]] * 3, (x @ x.mT > -1)[:, None]), 23),
    ],
    ids=["layer", "penalties", "one head", "mask of one key", "mask"],
)
def test_attention_of_heads_is_a_node(function, opset, backend, tmp_path, rng):
    """Other attention becomes products, in a file of the most widely supported opset."""
    if isinstance(function, nn.Layer):
        function = random_parameters(function, (5, 6), rng)
    assert_export_agrees(function, (5, 6), tmp_path / "f.onnx", rng)
    model = onnx.load(tmp_path / "f.onnx")
    kinds = {node.op_type for node in model.graph.node}
    assert model.opset_import[0].version == opset
    assert ("Attention" in kinds) is (opset == 23)
    assert ("Softmax" in kinds) is (opset == 20)


def test_attention_in_a_loop_is_a_node(tmp_path):
    layer = nn.MultiHeadAttention(2, 3)
    params = layer.init(0, (5, 6))

    def function(x):
        return plugrad.scan(lambda y, _: (layer(params, y), None), x, plugrad.zeros((3, 1)))[0]

    plugrad_onnx.export(function, plugrad.ones((1, 5, 6)), path=tmp_path / "f.onnx")
    model = onnx.load(tmp_path / "f.onnx")
    onnx.checker.check_model(model)
    assert model.opset_import[0].version == 23
    assert "Attention" not in {node.op_type for node in model.graph.node}


def test_a_loop_that_only_resembles_a_network_stays_a_loop(backend, tmp_path, rng):
    def function(x):
        def advance(h, part):
            return plugrad.tanh(part + h @ plugrad.eye(3) * 0.5), None

        parts = plugrad.permute_dims(x @ plugrad.eye(3) + plugrad.ones(3), (1, 0, 2))
        return plugrad.scan(advance, plugrad.zeros((x.shape[0], 3)), parts)[0]

    assert_export_agrees(function, (4, 3), tmp_path / "f.onnx", rng)
    assert "Scan" in {node.op_type for node in onnx.load(tmp_path / "f.onnx").graph.node}


@pytest.mark.parametrize("change", ["node", "record", "kernel", "shape"])
def test_recorded_calls_that_do_not_fit_their_nodes_are_ignored(change, tmp_path):
    plugrad_onnx.export(plugrad.rsqrt, plugrad.ones((2, 3)), path=tmp_path / "f.onnx")
    proto = onnx.load(tmp_path / "f.onnx")
    first, second = proto.graph.node[:2]
    (record,) = first.metadata_props
    if change == "node":
        second.op_type = "Neg"
    else:
        texts = {
            "record": record.value[:-5],
            "kernel": record.value.replace("Rsqrt", "Fill"),
            "shape": json.dumps([{"size": 10**9}]),
        }
        record.value = texts[change]
    result = plugrad_onnx.load(proto)(plugrad.full((1, 3), 4.0)).numpy()
    np.testing.assert_array_equal(result, np.full((1, 3), -2.0 if change == "node" else 0.5))


def test_names_of_variables_and_gradients_are_kept(tmp_path, rng):
    layer = nn.Sequential(nn.Dense(4, plugrad.tanh), nn.Dense(2))
    params = layer.init(0, (3,))
    x = plugrad.asarray(rng.normal(size=(5, 3)).astype(np.float32))
    with plugrad.use("cpu"):
        plugrad_onnx.export(lambda x: layer(params, x), x, path=tmp_path / "f.onnx", names=["x"])
        model = plugrad_onnx.load(tmp_path / "f.onnx")
        own = nn.leaves(params)
        again = model.variables([variable.name for variable in own])
        _, gradients = plugrad.variable_grads(lambda: plugrad.sum(layer(params, x) ** 2), own)
        _, others = plugrad.variable_grads(lambda: plugrad.sum(model(x=x) ** 2), again)
    for one, two in zip(gradients, others, strict=True):
        np.testing.assert_array_equal(one.numpy(), two.numpy())


def median_of_rows(x):
    return plugrad.median(x, axis=1)


OPS_OF_RESTRICTED_OPERATORS = {
    "and": lambda x: plugrad.bitwise_and(x, plugrad.flip(x, axis=0)),
    "invert": plugrad.bitwise_invert,
    "less": lambda x: x < plugrad.flip(x, axis=0),
    "negative": plugrad.negative,
    "floor": plugrad.floor,
    "round": plugrad.round,
    "relu": plugrad.relu,
    "isnan": plugrad.isnan,
    "isfinite": plugrad.isfinite,
    "pow": lambda x: plugrad.pow(x, plugrad.ones_like(x) + 1),
    "max": lambda x: plugrad.max(x, axis=1),
    "matmul": lambda x: x @ x.T,
    "einsum": lambda x: plugrad.einsum("ij,kj->ik", x, x),
    "top_k": lambda x: plugrad.top_k(x, 2)[0],
    "median": median_of_rows,
}


@pytest.mark.parametrize("name", OPS_OF_RESTRICTED_OPERATORS)
def test_operators_get_dtypes_that_they_take(name, tmp_path):
    f, path = OPS_OF_RESTRICTED_OPERATORS[name], str(tmp_path / "typed.onnx")
    dtypes = (
        "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 bfloat16"
    )
    exported = []
    for dtype in dtypes.split():
        x = plugrad.asarray([[1, 0, 100, 7], [0, 3, 2, 90]], device="cpu").astype(dtype)
        try:
            expected = f(x)
        except plugrad.errors.DTypeError:
            continue
        plugrad_onnx.export(f, x, path=path, dynamic=())
        onnx.checker.check_model(onnx.load(path), full_check=True)
        again = plugrad_onnx.load(path)(x)
        assert again.shape == expected.shape
        if dtype != "bfloat16":  # which the importer computes in float32
            assert again.dtype == expected.dtype
        found = np.asarray(again).astype(np.float64)
        np.testing.assert_allclose(found, np.float64(expected.numpy()), rtol=1e-2)
        exported.append(dtype)
    assert len(exported) >= 4


def test_without_dynamic_axes_sizes_equal_those_of_the_examples(tmp_path):
    path = tmp_path / "f.onnx"
    plugrad_onnx.export(lambda x: x * 2, plugrad.ones((2, 3)), path=path, dynamic=())
    with pytest.raises(ValueError, match=r"the model takes \(2, 3\)"):
        plugrad_onnx.load(path)(np.ones((1, 3), np.float32))


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (lambda x: x if plugrad.sum(x).item() > 0 else -x, plugrad.errors.TracingError, "item"),
        (lambda x: x * x.shape[0], UnsupportedModel, "depend on the size of the batch"),
        (lambda x: x if x.shape[0] > 4 else x + x, UnsupportedModel, "does other things"),
        (
            lambda x: plugrad.linalg.inv(x @ x.mT),
            UnsupportedModel,
            "Kernel 'MatrixInverse'.*test_export",
        ),
    ],
)
def test_errors_name_functions_that_cannot_be_exported(function, error, message, tmp_path):
    with pytest.raises(error, match=message):
        plugrad_onnx.export(function, plugrad.ones((2, 3, 3)), path=tmp_path / "f.onnx")
    assert not (tmp_path / "f.onnx").exists()
