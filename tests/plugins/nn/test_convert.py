"""Weights of PyTorch's modules: every layer that both have, in both directions, against recorded results."""

import json
import re
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest

import plugrad
import plugrad_nn as nn
from plugrad.errors import DamagedFile
from plugrad.extend import ArgumentError, DTypeError, ShapeError

RETURN_SEQUENCES = {"return_sequences": True}
SEQUENCE_LENGTHS = [[4], [6]]


def with_sequence_mask(layer):
    """Return a model of sequences with given lengths; it returns zeros beyond their ends, as PyTorch does."""
    steps = {
        "mask": (
            lambda x: plugrad.arange(6) < plugrad.asarray(SEQUENCE_LENGTHS)[: x.shape[0]],
            "x",
        ),
        "y": (nn.Masked(layer), "x", "mask"),
        "ended": (lambda y, mask: y * plugrad.astype(mask[..., None], y.dtype), "y", "mask"),
    }
    return nn.Graph("x", steps, "ended")


MODELS = {
    "linear": nn.Dense(5),
    "linear_without_bias": nn.Dense(5, use_bias=False),
    "conv1d": nn.Conv1D(5, 3, padding="same"),
    "conv2d": nn.Conv2D(5, (3, 2), 2),
    "conv3d": nn.Conv3D(5, (1, 2, 3)),
    "conv1d_transpose": nn.Conv1DTranspose(5, 4, 2),
    "conv2d_transpose": nn.Conv2DTranspose(5, (3, 2), 2),
    "conv3d_transpose": nn.Conv3DTranspose(5, 3, 2),
    "depthwise": nn.DepthwiseConv2D(3, depth_multiplier=2),
    "separable": nn.SeparableConv2D(4, 3, depth_multiplier=2),
    "embedding": nn.Embedding(7, 4),
    "embedding_bag": nn.EmbeddingBag(7, 4),
    "layer_norm": nn.LayerNorm(),
    "rms_norm": nn.RMSNorm(),
    "group_norm": nn.GroupNorm(groups=2),
    "instance_norm": nn.InstanceNorm(),
    "batch_norm": nn.BatchNorm(),
    "batch_norm_plain": nn.BatchNorm(center=False, scale=False),
    "prelu": nn.PReLU(),
    "prelu_of_one_slope": nn.PReLU(),
    "lstm": nn.LSTM(4, **RETURN_SEQUENCES),
    "lstm_without_bias": nn.LSTM(4, use_bias=False, **RETURN_SEQUENCES),
    "lstm_both_ways": nn.Bidirectional(nn.LSTM(4, **RETURN_SEQUENCES)),
    "lstm_of_two_layers": nn.Sequential(nn.LSTM(4, **RETURN_SEQUENCES), nn.LSTM(4, **RETURN_SEQUENCES)),
    "gru": nn.GRU(4, **RETURN_SEQUENCES),
    "gru_without_bias": nn.GRU(4, use_bias=False, **RETURN_SEQUENCES),
    "gru_both_ways": nn.Bidirectional(nn.GRU(4, **RETURN_SEQUENCES)),
    "simple_rnn": nn.SimpleRNN(4, **RETURN_SEQUENCES),
    "attention": nn.MultiHeadAttention(2, 4),
    "attention_without_bias": nn.MultiHeadAttention(2, 4, use_bias=False),
    "encoder_block": nn.TransformerEncoderBlock(2, 16),
    "encoder_block_norm_first": nn.TransformerEncoderBlock(2, 16, plugrad.gelu, norm_first=True),
    "decoder_block": nn.TransformerDecoderBlock(2, 16),
    "weight_norm": nn.WeightNorm(nn.Dense(5)),
    "weight_norm_conv": nn.WeightNorm(nn.Conv2D(5, 3)),
    "weight_norm_older": nn.WeightNorm(nn.Dense(5)),
    "spectral_norm": nn.SpectralNorm(nn.Dense(5)),
    "spectral_norm_conv": nn.SpectralNorm(nn.Conv2D(5, 3)),
    "convolutional": nn.Sequential(
        nn.Sequential(nn.Conv2D(5, 3), nn.BatchNorm(), plugrad.relu, nn.MaxPooling2D(2)),
        nn.Flatten(),
        nn.BatchNorm(),
        nn.Sequential(nn.Dropout(0.5), nn.Dense(6), nn.PReLU(), nn.Dense(2)),
    ),
    "flat_pixels": nn.Sequential(nn.Flatten(), nn.Dense(4)),
    "flat_signal": nn.Sequential(nn.Conv1D(4, 1), nn.Flatten(), nn.Dense(4)),
    "flat_sequence": nn.Sequential(nn.Dense(4), nn.Flatten(), nn.Dense(4)),
    "decoder": nn.Sequential(
        nn.Dense(48),
        nn.BatchNorm(),
        plugrad.relu,
        nn.Reshape((4, 4, 3)),
        nn.Conv2DTranspose(2, 3, 2),
    ),
    "two_heads": nn.Graph(
        "x",
        {
            "conv": (nn.Conv2D(5, 3), "x"),
            "flat": (nn.Flatten(), "conv"),
            "left": (nn.Dense(3), "flat"),
            "right": (nn.Dense(3), "flat"),
            "sum": (plugrad.add, "left", "right"),
        },
        "sum",
    ),
    "encoder": nn.TransformerEncoder(
        nn.TransformerEncoderBlock(2, 16, norm_first=True), 2, nn.LayerNorm()
    ),
    "decoder_of_blocks": nn.TransformerDecoder(nn.TransformerDecoderBlock(2, 16), 2),
    "grouped_queries": nn.MultiHeadAttention(4, 2, num_kv_heads=2),
    "alibi": nn.MultiHeadAttention(4, 2, num_kv_heads=2, positions="alibi"),
    "rotary": nn.MultiHeadAttention(4, 2, num_kv_heads=2, positions="rotary"),
    "masked_lstm": with_sequence_mask(nn.LSTM(4, **RETURN_SEQUENCES)),
    "masked_lstm_both_ways": with_sequence_mask(nn.Bidirectional(nn.LSTM(4, **RETURN_SEQUENCES))),
    "parametrized": nn.Parametrized(
        nn.Dense(3), lambda kernel: plugrad.tril(kernel) + plugrad.tril(kernel, k=-1).T
    ),
    "unpooled": nn.Sequential(nn.MaxPooling2D(return_positions=True), nn.MaxUnpooling2D()),
    "unpooled_volumes": nn.Sequential(
        nn.MaxPooling3D(return_positions=True), nn.MaxUnpooling3D()
    ),
    "unpooled_sequences": nn.Sequential(
        nn.MaxPooling1D(return_positions=True), nn.MaxUnpooling1D()
    ),
    "adaptive_average": nn.AdaptiveAveragePooling2D((4, 3)),
    "adaptive_largest": nn.AdaptiveMaxPooling2D((4, 3)),
    "adaptive_average_volumes": nn.AdaptiveAveragePooling3D(2),
    "pixel_shuffle": nn.PixelShuffle(2),
    **{
        name: nn.Sequential(getattr(plugrad, name))
        for name in (
            "silu", "mish", "softsign", "hard_sigmoid", "hard_silu", "hard_tanh", "hard_shrink", "soft_shrink",
            "log_sigmoid", "glu",
        )
    },
    "celu": nn.Sequential(partial(plugrad.celu, alpha=1.5)),
}  # fmt: skip
PYTORCH_NAMES = {
    **dict.fromkeys(("masked_lstm", "masked_lstm_both_ways"), "y.{}".format),
    "lstm_of_two_layers": lambda name: re.sub(r"(.*)_l(\d)$", r"\2.\1_l0", name),
}
MODULES_WITH_TWO_BIASES = ("lstm", "simple_rnn", "masked_lstm")
"""Recurrent layers of one bias, in which PyTorch has two."""
WEIGHT, BIAS = np.arange(15.0).reshape(5, 3), np.arange(5.0)
PROJECTED_STATE = {
    "weight_ih_l0": np.zeros((32, 3), "f"),
    "weight_hh_l0": np.zeros((32, 4), "f"),
    "weight_hr_l0": np.zeros((4, 8), "f"),
}
PROJECTED_LSTM = {"shape": (2, 3), "tensors": PROJECTED_STATE}
TOO_SHORT_STATE = {"weight": WEIGHT, "bias": BIAS[:3]}


@cache
def recorded_arrays():
    """Return the recorded arrays of each PyTorch module, by name."""
    found = {}
    with np.load(Path(__file__).parent / "torch_modules" / "modules.npz") as file:
        for key in file:
            name, part = key.split("/")
            found.setdefault(name, {})[part] = file[key]
    return found


def model_and_record(name):
    """Return a model, the state dict of its PyTorch module, an input and the result."""
    parts = recorded_arrays()[name]
    return MODELS[name], select_prefix("state.", parts), parts["x"], parts["y"]


def select_prefix(prefix, parts):
    return {key.removeprefix(prefix): v for key, v in parts.items() if key.startswith(prefix)}


def test_all_modules_have_a_model():
    assert MODELS.keys() == recorded_arrays().keys()


@pytest.mark.parametrize("name", MODELS)
def test_results_match_pytorch(name, backend):
    model, state, x, y = model_and_record(name)
    converted = nn.convert.state_dict(state, model, x.shape[1:], names=PYTORCH_NAMES.get(name))
    assert not converted.missing + converted.unused + converted.left_out
    assert sorted(converted.names.values()) == sorted(state)
    found = model(converted.params, plugrad.asarray(x)).numpy()
    assert found.shape == y.shape
    np.testing.assert_allclose(found, y, rtol=0, atol=1e-5 * max(1, np.abs(y).max()))


@pytest.mark.parametrize("name", MODELS)
def test_gradients_match_pytorch(name, backend):
    model, state, x, _ = model_and_record(name)
    parts = recorded_arrays()[name]
    how = {"shape": x.shape[1:], "names": PYTORCH_NAMES.get(name)}
    params = nn.convert.state_dict(state, model, **how).params
    own = [variable for variable in nn.leaves(params) if variable.trainable]
    images = plugrad.asarray(x)

    def loss(images):  # the gradient is as wrong as the phase: results are up to 30
        return plugrad.sum(plugrad.sin(model(params, images)))

    pairs = [(plugrad.grad(loss)(images), parts["dx"])] if "dx" in parts else []
    if own:
        slopes = {key: np.zeros_like(v) for key, v in state.items()} | select_prefix(
            "slope.", parts
        )
        wanted = nn.convert.state_dict(slopes, model, **how).params
        _, found = plugrad.variable_grads(lambda: loss(images), own)
        pairs += zip(found, [v for v in nn.leaves(wanted) if v.trainable], strict=True)
    for place, (one, two) in enumerate(pairs):
        want = np.asarray(two)
        if (
            place
            and own[place - 1].name.endswith("bias")
            and name.startswith(MODULES_WITH_TWO_BIASES)
        ):
            want = want / 2  # the sum of the gradients of two biases, which are equal
        if place and name == "prelu_of_one_slope":
            one, want = plugrad.sum(one), want[0]
        np.testing.assert_allclose(
            one.numpy(), want, rtol=0, atol=5e-5 * max(1, np.abs(want).max())
        )


@pytest.mark.parametrize("name", sorted(MODELS.keys() - {"prelu_of_one_slope"}))
def test_tensors_come_back_bit_for_bit(name):
    model, state, x, _ = model_and_record(name)
    shape = x.shape[1:]
    with plugrad.use("cpu"):
        converted = nn.convert.state_dict(state, model, shape, names=PYTORCH_NAMES.get(name))
        back = nn.convert.to_state_dict(model, converted.params, shape, names=converted.names)
    assert back.keys() == state.keys()
    for key, value in state.items():
        if key.startswith(("bias_ih", "bias_hh")) and name.startswith(MODULES_WITH_TWO_BIASES):
            both = [part[key.replace(*pair)] for part in (state, back) for pair in BIAS_NAME_ORDERS]
            np.testing.assert_array_equal(both[0] + both[1], both[2] + both[3])
        elif not key.endswith("._v"):  # computed from the other vector
            assert back[key].dtype == value.dtype
            assert back[key].tobytes() == value.tobytes(), key


BIAS_NAME_ORDERS = (("bias_hh", "bias_ih"), ("bias_ih", "bias_hh"))


@pytest.mark.parametrize("name", ["encoder_block", "convolutional", "gru"])
def test_initialized_parameters_convert_to_pytorch_and_back(name, rng):
    model, state, x, _ = model_and_record(name)
    shape = x.shape[1:]
    with plugrad.use("cpu"):
        params = model.init(3, shape)
        arrays = nn.convert.to_state_dict(model, params, shape)
        assert {key: value.shape for key, value in arrays.items()} == {
            key: value.shape for key, value in state.items()
        }
        again = nn.convert.state_dict(arrays, model, shape).params
    for old, new in zip(nn.leaves(params), nn.leaves(again), strict=True):
        np.testing.assert_array_equal(old, new)
        assert old.name == new.name


def test_attention_with_three_projections():
    """Some models have separate projections; converting them back keeps them separate."""
    model, state, x, y = model_and_record("attention")
    parts = {
        f"{name}_proj.{kind}": part
        for kind in ("weight", "bias")
        for name, part in zip("qkv", np.split(state.pop(f"in_proj_{kind}"), 3), strict=True)
    }
    with plugrad.use("cpu"):
        converted = nn.convert.state_dict(state | parts, model, x.shape[1:])
        np.testing.assert_allclose(model(converted.params, x), y, atol=1e-5)
        back = nn.convert.to_state_dict(model, converted.params, x.shape[1:], names=converted.names)
    assert back.keys() == (state | parts).keys()


def test_grouped_queries_have_smaller_projections(rng):
    layer = nn.MultiHeadAttention(4, 2, num_kv_heads=2, use_bias=False)
    sizes = {"q_proj": (8, 8), "k_proj": (4, 8), "v_proj": (4, 8), "out_proj": (8, 8)}
    state = {f"{name}.weight": rng.normal(size=size) for name, size in sizes.items()}
    with plugrad.use("cpu"):
        params = nn.convert.state_dict(state, layer, (3, 8)).params
    np.testing.assert_array_equal(
        params["key"]["kernel"], state["k_proj.weight"].T.astype(np.float32)
    )


def test_names_argument_accepts_words_or_a_function():
    tensors = {"net.fc.weight": WEIGHT, "net.fc.bias": BIAS, "net.steps": 3}
    with plugrad.use("cpu"):
        by_words = nn.convert.state_dict(
            tensors, nn.Dense(5), (3,), names={"net": "", "fc": "", "steps": None}
        )
        by_function = nn.convert.state_dict(
            tensors,
            nn.Dense(5),
            (3,),
            names=lambda name: None if name.endswith("steps") else name.rpartition(".")[2],
        )
        for found in (by_words, by_function):
            np.testing.assert_array_equal(found.params["kernel"], WEIGHT.T)
            assert found.names == {"weight": "net.fc.weight", "bias": "net.fc.bias"}
            assert found.left_out == ("net.steps",)
        arrays = nn.convert.to_state_dict(
            nn.Dense(5), found.params, (3,), names=lambda name: f"net.fc.{name}"
        )
    assert list(arrays) == ["net.fc.weight", "net.fc.bias"]


def test_only_whole_words_of_names_are_replaced():
    """The word fc does not match fc1, and only its first occurrence is replaced."""
    tensors = {"fc1.fc.weight": WEIGHT, "fc1.fc.bias": BIAS}
    with plugrad.use("cpu"):
        found = nn.convert.state_dict(tensors, nn.Dense(5), (3,), names={"fc": "", "fc1": ""})
    assert list(found.names) == ["weight", "bias"]


def test_errors_list_missing_and_unused_tensors():
    layer = nn.Dense(5)
    with plugrad.use("cpu"):
        with pytest.raises(
            ArgumentError, match=r"need bias.*no layer takes b; names=.\"b\": \"bias\"."
        ):
            nn.convert.state_dict({"weight": WEIGHT, "b": BIAS}, layer, (3,))
        with pytest.raises(
            ArgumentError, match=r"no layer takes more; names=.\"more\": None. leaves"
        ):
            nn.convert.state_dict({"weight": WEIGHT, "bias": BIAS, "more": BIAS}, layer, (3,))
        with pytest.raises(ArgumentError, match="allow_missing=True"):
            nn.convert.state_dict({"weight": WEIGHT}, layer, (3,))
        found = nn.convert.state_dict(
            {"weight": WEIGHT, "b": BIAS}, layer, (3,), allow_missing=True, allow_unused=True
        )
    assert (found.missing, found.unused) == (("bias",), ("b",))
    assert str(found) == "1 tensors for 20 parameters\nmissing: bias\nunused: b"
    np.testing.assert_array_equal(found.params["bias"], 0)


@dataclass(frozen=True)
class TwiceAppliedLayer(nn.Layer):
    """A user-defined layer that contains another layer and a parameter."""

    inner: nn.Layer

    def parts(self, shape):
        return {"inner": (self.inner, shape)}

    def __call__(self, params, x, mode=nn.INFERENCE):
        return self.inner(params["inner"], self.inner(params["inner"], x, mode), mode)


@dataclass(frozen=True)
class ScaleLayer(nn.Layer):
    def build(self, generator, shape, dtype):
        return {"scale": plugrad.ones(shape[-1:], dtype=dtype)}

    def __call__(self, params, x, mode=nn.INFERENCE):
        return x * params["scale"]


def test_layers_of_users():
    """Sublayers are under their names; layers that PyTorch lacks keep their own names."""
    model = nn.Sequential(TwiceAppliedLayer(nn.Dense(3)), ScaleLayer())
    tensors = {"0.inner.weight": 2 * np.eye(3), "0.inner.bias": np.ones(3), "1.scale": [1, 2, 3]}
    with plugrad.use("cpu"):
        params = nn.convert.state_dict(tensors, model, (3,)).params
        np.testing.assert_array_equal(model(params, np.ones((1, 3), "f")), [[7, 14, 21]])


@pytest.mark.parametrize(
    "layer",
    [
        lambda n: nn.Residual(nn.Dense(n)),
        lambda n: TwiceAppliedLayer(nn.Dense(n)),
        lambda n: ScaleLayer(),
    ],
)
def test_features_that_cannot_be_followed_are_refused(layer):
    with plugrad.use("cpu"):
        for channels, refused in ((3, True), (1, False)):  # one channel has one order
            model, shape = nn.Sequential(nn.Flatten(), layer(4 * channels)), (2, 2, channels)
            params = model.init(0, shape)
            with (
                pytest.raises(ArgumentError, match="flattened images") if refused else nullcontext()
            ):
                nn.convert.to_state_dict(model, params, shape)


@pytest.mark.parametrize(
    ("error", "match", "arguments"),
    [
        (ShapeError, r"'bias' has shape \(3,\); Dense\(5\), .* needs \(5,\)", {"tensors": TOO_SHORT_STATE}),
        (DTypeError, "must hold real numbers", {"tensors": {"weight": WEIGHT * 1j, "bias": BIAS}}),
        (ArgumentError, "must be a mapping of names", {"tensors": [WEIGHT]}),
        (ArgumentError, "no string", {"tensors": {3: WEIGHT}}),
        (ArgumentError, "must be a layer", {"model": "Dense"}),
        (ArgumentError, "must be a mapping of words", {"names": 3}),
        (ArgumentError, "it maps words", {"names": {"a": 3}}),
        (ArgumentError, "it maps words", {"names": {"": "a"}}),
        (ArgumentError, "it must return a name", {"names": len}),
        (ArgumentError, "the same name", {"names": {"bias": "weight"}}),
        (ArgumentError, "allow_unused", {"allow_unused": 1}),
        (ArgumentError, "floating", {"dtype": "int32"}),
        (ArgumentError, "LSTM with proj_size", {"model": nn.LSTM(8), **PROJECTED_LSTM}),
        (ArgumentError, "LSTM with proj_size", {"model": nn.Bidirectional(nn.LSTM(8)), **PROJECTED_LSTM}),
        (ArgumentError, "resets before", {"model": nn.GRU(5, reset_after=False), "shape": (2, 3)}),
    ],
)  # fmt: skip
def test_invalid_conversions(error, match, arguments):
    given = {"tensors": {"weight": WEIGHT, "bias": BIAS}, "model": nn.Dense(5), "shape": (3,)}
    with plugrad.use("cpu"), pytest.raises(error, match=match):
        nn.convert.state_dict(**given | arguments)


def test_dtypes(backend):
    """Weights are cast to the dtype of the parameters, also from half and double precision."""
    for dtype in ("float16", "float64", "int64"):
        tensors = {"weight": WEIGHT.astype(dtype), "bias": BIAS.astype(dtype)}
        params = nn.convert.state_dict(tensors, nn.Dense(5), (3,)).params
        assert params["kernel"].dtype == plugrad.float32
        np.testing.assert_array_equal(params["kernel"], WEIGHT.T)
    own = {"weight": plugrad.asarray(WEIGHT, dtype="float32"), "bias": plugrad.zeros(5)}
    np.testing.assert_array_equal(
        nn.convert.state_dict(own, nn.Dense(5), (3,)).params["kernel"], WEIGHT.T
    )


def write_hugging_face_folder(folder, files, index=None):
    """Write model files in the folder layout of Hugging Face."""
    (folder / "config.json").write_text('{"size": 3}', "utf-8")
    for name, tensors in files.items():
        plugrad.save(folder / name, tensors)
    if index is not None:
        path = folder / "model.safetensors.index.json"
        path.write_text(json.dumps({"weight_map": index}), "utf-8")


def test_folders_of_one_file_and_of_several(tmp_path, backend):
    pytest.importorskip("safetensors")
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    for folder in (whole, parts):
        folder.mkdir()
    w, b = plugrad.asarray(WEIGHT, dtype="float32"), plugrad.asarray(BIAS, dtype="float32")
    write_hugging_face_folder(whole, {"model.safetensors": {"w": w, "b": b}})
    write_hugging_face_folder(
        parts,
        {"1.safetensors": {"w": w}, "2.safetensors": {"b": b, "other": b}},
        {"w": "1.safetensors", "b": "2.safetensors"},
    )
    for folder in (whole, parts):
        config, tensors = nn.convert.read_folder(folder)
        assert config == {"size": 3}
        assert sorted(tensors) == ["b", "w"]
        assert all(tensor.device == plugrad.zeros(1).device for tensor in tensors.values())
        np.testing.assert_array_equal(tensors["w"], WEIGHT)


@pytest.mark.parametrize(
    ("index", "match"),
    [
        ({"w": "../1.safetensors"}, "no file in its folder"),
        ({"w": "/etc/passwd"}, "no file in its folder"),
        ({"w": ".."}, "no file in its folder"),
        ({"missing": "1.safetensors"}, "names 'missing'"),
        ({"w": 3}, "weight_map"),
        (["w"], "weight_map"),
    ],
)
def test_damaged_indices(index, match, tmp_path):
    pytest.importorskip("safetensors")
    folder = tmp_path / "inner"
    folder.mkdir()
    with plugrad.use("cpu"):
        plugrad.save(tmp_path / "1.safetensors", {"w": plugrad.ones(3)})
        write_hugging_face_folder(folder, {"1.safetensors": {"w": plugrad.ones(3)}}, index)
        with pytest.raises(DamagedFile, match=match):
            nn.convert.read_folder(folder)


def test_damaged_folders(tmp_path):
    pytest.importorskip("safetensors")
    with plugrad.use("cpu"):
        with pytest.raises(FileNotFoundError):
            nn.convert.read_folder(tmp_path)
        for text in ("{", "[1]", "[" * 10_000):
            (tmp_path / "config.json").write_text(text, "utf-8")
            with pytest.raises(DamagedFile, match=r"config\.json"):
                nn.convert.read_folder(tmp_path)
        write_hugging_face_folder(tmp_path, {"model.safetensors": [1, 2]})
        with pytest.raises(DamagedFile, match="by name"):
            nn.convert.read_folder(tmp_path)
        with pytest.raises(ArgumentError, match="path of a folder"):
            nn.convert.read_folder(3)
