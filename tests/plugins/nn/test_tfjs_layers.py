"""Models of layers of TensorFlow.js: read as TensorFlow.js 4.22 computed them, saved, run by it, and damaged."""

import base64
import json
import os
import random
import subprocess
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import plugrad
import plugrad_nn as nn
from core.tfjs_models.node import needs_tfjs, run_models_in_node, tfjs_package_folder
from plugrad.errors import (
    ArgumentError,
    DamagedFile,
    PlugradError,
    UnsupportedModel,
)
from plugrad_nn import tfjs

RECORDS_FOLDER = Path(__file__).parent / "tfjs_layers"
RECORDS = json.loads((RECORDS_FOLDER / "records.json").read_text("utf-8"))
RNG = np.random.default_rng(0)


def write_record(record, folder):
    """Write a recorded model as files; return its inputs and outputs."""
    folder.mkdir(exist_ok=True)
    (folder / "weights.bin").write_bytes(base64.b64decode(record["data"]))
    groups = [{"paths": ["weights.bin"], "weights": record["specs"]}]
    document = {**record["document"], "weightsManifest": groups}
    (folder / "model.json").write_text(json.dumps(document))
    return [[array_from_json(part) for part in record[name]] for name in ("inputs", "outputs")]


def array_from_json(part):
    return np.array(part["data"], part["dtype"]).reshape(part["shape"])


def list_results(model, params, inputs):
    result = model(params, inputs[0] if len(inputs) == 1 else tuple(inputs))
    return list(result) if isinstance(result, tuple) else [result]


MODELS_NOT_WRITTEN = ("several", "thresholds", "cropped", "categories", "flags")
"""Models with functions that layers of TensorFlow.js are here."""


@pytest.mark.parametrize("name", RECORDS)
def test_a_model_matches_tensorflow_js(name, backend, tmp_path):
    inputs, outputs = write_record(RECORDS[name], tmp_path / "model")
    model, params = tfjs.load_layers_model(tmp_path / "model")
    for result, want in zip(list_results(model, params, inputs), outputs, strict=True):
        np.testing.assert_allclose(result.numpy(), want, 2e-5, 2e-6)


@pytest.mark.parametrize("name", [name for name in RECORDS if name not in MODELS_NOT_WRITTEN])
def test_loaded_layers_models_can_be_saved(name, tmp_path):
    inputs, outputs = write_record(RECORDS[name], tmp_path / "model")
    model, params = tfjs.load_layers_model(tmp_path / "model")
    shapes = {n: x.shape[1:] for n, x in zip(model.inputs, inputs, strict=True)}
    tfjs.save_layers_model(model, params, shapes, tmp_path / "again")
    again, weights = tfjs.load_layers_model(tmp_path / "again")
    for result, want in zip(list_results(again, weights, inputs), outputs, strict=True):
        np.testing.assert_allclose(result.numpy(), want, 2e-5, 2e-6)


@needs_tfjs
def test_records_match_an_installed_tensorflow_js(tmp_path):
    subprocess.run(
        ["node", RECORDS_FOLDER / "make_models.js", tmp_path / "records.json"],
        check=True,
        capture_output=True,
        env={**os.environ, "TFJS": str(tfjs_package_folder())},
    )
    made = json.loads((tmp_path / "records.json").read_text("utf-8"))
    for name, record in RECORDS.items():
        assert made[name]["data"] == record["data"]
        for got, want in zip(made[name]["outputs"], record["outputs"], strict=True):
            np.testing.assert_allclose(array_from_json(got), array_from_json(want), 1e-6, 1e-6)


def residual_model(*layers):
    return nn.Sequential(nn.Dense(4), nn.Residual(*layers), nn.Dense(2))


SHARED_LAYER_GRAPH = nn.Graph(
    ["left", "right"],
    {
        "a": (nn.Sequential(nn.Dense(3, plugrad.tanh), nn.Dense(4)), "left"),
        "b": ("a", "right"),
        "sum": (nn.Add(), "a", "b"),
        "dot": (nn.Dot(), "a", "b"),
        "all": (nn.Concatenate(), "sum", "dot", "b"),
        "score": (nn.Dense(2), "all"),
    },
    ["score", "sum"],
)
KERAS_1_GRU_OPTIONS = {"recurrent_activation": tfjs.hard_sigmoid, "reset_after": False}
MODELS = {
    "images": (
        nn.Sequential(
            nn.ZeroPadding2D(((0, 1), (1, 0))),
            nn.Conv2D(4, 3, 2, activation=plugrad.relu, use_bias=False),
            nn.BatchNorm(1e-3),
            plugrad.relu6,
            nn.DepthwiseConv2D(2, padding="same", depth_multiplier=2),
            nn.SeparableConv2D(3, 2, activation=plugrad.silu),
            nn.UpSampling2D(2),
            nn.Cropping2D(1),
            nn.Conv2DTranspose(2, 3, 2, "same"),
            nn.MaxPooling2D(2),
            nn.PReLU(),
            nn.AveragePooling2D(2, 1, "same"),
            nn.Dropout(0.5),
            nn.GlobalAveragePooling(),
        ),
        (9, 9, 3),
    ),
    "sequences": (
        nn.Sequential(
            nn.Conv1D(4, 3, activation=plugrad.gelu),
            nn.MaxPooling1D(2),
            nn.Bidirectional(nn.LSTM(2, return_sequences=True), "sum"),
            nn.Bidirectional(nn.GRU(2, return_sequences=True, **KERAS_1_GRU_OPTIONS), "multiply"),
            nn.TimeDistributed(nn.Dense(3, plugrad.elu)),
            nn.LayerNorm(1e-3),
            nn.SpatialDropout(0.1),
            nn.SimpleRNN(3),
            nn.Rescaling(0.5, 1.0),
            nn.GaussianNoise(0.1),
            nn.GaussianDropout(0.1),
        ),
        (8, 3),
    ),
    "words": (
        nn.Sequential(nn.Embedding(10, 3), nn.GRU(3, **KERAS_1_GRU_OPTIONS), nn.Dense(2)),
        (5,),
    ),
    "films": (nn.Sequential(nn.ConvLSTM2D(2, 2), nn.Flatten(), nn.Dense(2)), (2, 3, 3, 1)),
    "volumes": (
        nn.Sequential(nn.Conv3D(2, 2), nn.MaxPooling3D(2), nn.Reshape((-1,))),
        (5, 5, 5, 1),
    ),
    "shapes": (
        nn.Sequential(
            nn.Dense(6, tfjs.hard_sigmoid),
            partial(plugrad.leaky_relu, alpha=0.1),
            nn.Reshape((2, 3)),
            nn.Permute((2, 1)),
            plugrad.softmax,
            nn.Flatten(),
            nn.RepeatVector(2),
            nn.GlobalMaxPooling(),
        ),
        (4,),
    ),
    "residual": (residual_model(nn.Dense(4, plugrad.relu), nn.Dense(4)), (3,)),
    "shared": (SHARED_LAYER_GRAPH, {"left": (3,), "right": (3,)}),
}


def save_model(name, folder):
    """Save a model with random weights; return it with its parameters and inputs."""
    model, shape = MODELS[name]
    params = model.init(0, shape)
    for variable in nn.leaves(params):
        values = RNG.uniform(-0.6, 0.6, variable.shape).astype(np.float32)
        variable.assign(values + 1.5 if variable.name.endswith("variance") else values)
    tfjs.save_layers_model(model, params, shape, folder)
    shapes = shape.values() if isinstance(shape, dict) else [shape]
    if name == "words":
        return model, params, [RNG.integers(0, 10, (2, 5)).astype(np.int32)]
    return model, params, [RNG.normal(0, 1, (2, *s)).astype(np.float32) for s in shapes]


@pytest.mark.parametrize("name", MODELS)
def test_saved_model_is_loaded_unchanged(name, tmp_path):
    model, params, inputs = save_model(name, tmp_path)
    again, weights = tfjs.load_layers_model(tmp_path)
    wanted = list_results(model, params, inputs)
    for result, want in zip(list_results(again, weights, inputs), wanted, strict=True):
        np.testing.assert_allclose(result.numpy(), want.numpy(), 1e-6, 1e-6)
    assert len(nn.leaves(weights)) == len(nn.leaves(params))


@needs_tfjs
def test_tensorflow_js_runs_saved_models(tmp_path):
    jobs, wanted = [], []
    for place, name in enumerate(MODELS):
        folder = tmp_path / str(place)
        model, params, inputs = save_model(name, folder)
        named = {str(n): x for n, x in enumerate(inputs)}
        jobs.append({"folder": str(folder), "kind": "layers", "inputs": named, "outputs": []})
        wanted.append([y.numpy() for y in list_results(model, params, inputs)])
    for name, result, values in zip(
        MODELS, run_models_in_node(jobs, tmp_path), wanted, strict=True
    ):
        assert not isinstance(result, str), f"{name}: {result}"
        for got, want in zip(result, values, strict=True):
            np.testing.assert_allclose(got, want, 2e-5, 2e-5, err_msg=name)


def test_a_model_is_trained_and_saved(backend, tmp_path):
    (x,), _ = write_record(RECORDS["convolutions"], tmp_path / "model")
    model, params = tfjs.load_layers_model(tmp_path / "model")
    optimizer = plugrad.optimizers.Adam(0.01)

    def loss():
        return plugrad.mean(plugrad.square(model(params, x)))

    variables = [v for v in nn.leaves(params) if v.trainable]
    assert len(nn.leaves(params)) - len(variables) == 2  # the statistics of a BatchNorm
    before = loss().item()
    for _ in range(5):
        optimizer.minimize(loss, variables)
    assert loss().item() < before
    tfjs.save_layers_model(model, params, x.shape[1:], tmp_path / "trained")
    again, weights = tfjs.load_layers_model(tmp_path / "trained")
    np.testing.assert_allclose(again(weights, x).numpy(), model(params, x).numpy(), 1e-5, 1e-6)


# --- forms of files -------------------------------------------------------------------------------


def layers_document(*layers, kind="Sequential", **config):
    return {"modelTopology": {"class_name": kind, "config": {"layers": list(layers), **config}}}


def layer_config(kind, **config):
    return {"class_name": kind, "config": config}


def write_document(folder, document, weights):
    plugrad.tfjs.write_model(folder / "model.json", document, weights)
    return folder


DENSE_WEIGHTS = {"dense/kernel": np.eye(2, dtype=np.float32), "dense/bias": np.ones(2, np.float32)}


def test_forms_of_keras_are_read(tmp_path):
    """A list of layers, a model in a model_config, JSON as a string, names with a colon, and frozen layers."""
    dense = layer_config("Dense", name="dense", units=2, trainable=False)
    topology = {"class_name": "Sequential", "config": [dense]}
    for place, form in enumerate((topology, {"model_config": topology}, json.dumps(topology))):
        folder = tmp_path / str(place)
        folder.mkdir()
        weights = {f"model/{name}:0": value for name, value in DENSE_WEIGHTS.items()}
        model, params = tfjs.load_layers_model(
            write_document(folder, {"modelTopology": form}, weights)
        )
        assert model(params, [[1.0, 2.0]]).tolist() == [[2.0, 3.0]]
        assert not any(variable.trainable for variable in nn.leaves(params))


def test_training_only_settings_are_warnings(tmp_path):
    dense = layer_config("Dense", name="dense", units=2, kernel_regularizer={"class_name": "L2"})
    with pytest.warns(RuntimeWarning, match="leaves out kernel_regularizer"):
        tfjs.load_layers_model(write_document(tmp_path, layers_document(dense), DENSE_WEIGHTS))


@pytest.mark.parametrize(
    ("kind", "config", "why"),
    [
        ("Attention", {}, "no layer of the class 'Attention'"),
        ("Dense", {"units": 2, "activation": "swoosh"}, "activation='swoosh' is none of"),
        ("Conv2D", {"filters": 1, "kernel_size": 2, "data_format": "channels_first"}, "only 'channels_last'"),
        ("LSTM", {"units": 2, "go_backwards": True}, "go_backwards=True; only False"),
        ("ReLU", {"threshold": 3}, "threshold=3 are none of relu"),
        ("RNN", {"cell": layer_config("PeepholeCell")}, "the cell 'PeepholeCell' is none"),
        ("CategoryEncoding", {"num_tokens": 3, "output_mode": "tf_idf"}, "output_mode='tf_idf' is none of"),
        ("UpSampling2D", {"interpolation": "cubic"}, "interpolation='cubic' is none of"),
        ("Bidirectional", {"merge_mode": None}, "merge_mode=None is none of"),
        ("TimeDistributed", {"layer": layer_config("Activation", activation="relu")}, "is no layer here"),
        ("ELU", {"alpha": 0.5}, r"alpha=0\.5; only 1\.0"),
    ],
)  # fmt: skip
def test_layers_that_cannot_be_read_are_named(kind, config, why, tmp_path):
    document = layers_document(
        layer_config(kind, name="odd", **config), layer_config("Nothing", name="other")
    )
    with pytest.raises(UnsupportedModel, match=rf"layer 'odd' \({kind}\): .*{why}") as raised:
        tfjs.load_layers_model(write_document(tmp_path, document, {}))
    assert "layer 'other' (Nothing)" in str(raised.value)


def test_an_axis_must_be_the_last_one(tmp_path):
    norm = layer_config("BatchNormalization", name="norm", axis=[1], batch_input_shape=[None, 2])
    ones = np.ones(2, np.float32)
    names = ("gamma", "beta", "moving_mean", "moving_variance")
    weights = {f"norm/{name}": ones for name in names}
    model, params = tfjs.load_layers_model(write_document(tmp_path, layers_document(norm), weights))
    assert model(params, [[1.0, 1.0]]).tolist() == [[1.0, 1.0]]
    norm["config"]["batch_input_shape"] = [None, 2, 2]
    with pytest.raises(UnsupportedModel, match="axis=1 is not known to be the last one"):
        tfjs.load_layers_model(write_document(tmp_path, layers_document(norm), weights))


@pytest.mark.parametrize(
    ("model", "shape", "what"),
    [
        (nn.GRU(2), (3, 2), r"GRU\(reset_after=True\)"),
        (nn.Sequential(plugrad.exp), (3,), "the function exp"),
        (nn.MultiHeadAttention(1, 2), (3, 2), r"MultiHeadAttention\(1, 2\)"),
        (nn.UpSampling2D(2, "bilinear"), (2, 2, 1), "UpSampling2D with interpolation"),
        (nn.Conv1D(1, 2, padding="causal"), (3, 1), "Conv1D with causal padding"),
        (nn.Conv2D(2, 2, groups=2), (3, 3, 2), "Conv2D with groups"),
        (nn.Conv2D(2, 2, 2, dilation_rate=2), (3, 3, 2), "Conv2D with strides and dilation_rate"),
        (nn.Conv2DTranspose(1, 2, 2, output_padding=1), (3, 3, 1), "Transpose with output_padding"),
        (nn.GlobalMaxPooling(), (2, 2, 2, 1), "GlobalMaxPooling3D"),
    ],
)
def test_layers_that_cannot_be_saved_are_named(model, shape, what, tmp_path):
    with pytest.raises(UnsupportedModel, match=f"no layer for .*{what}"):
        tfjs.save_layers_model(model, model.init(0, shape), shape, tmp_path / "no")
    assert not (tmp_path / "no").exists()


def test_only_layers_are_saved(tmp_path):
    with pytest.raises(ArgumentError, match="must be a layer"):
        tfjs.save_layers_model(plugrad.relu, {}, (2,), tmp_path)


def test_error_for_a_graph_model_names_the_function_that_reads_it(tmp_path):
    plugrad.tfjs.save_graph_model(plugrad.relu, plugrad.ones((1, 2)), folder=tmp_path)
    with pytest.raises(DamagedFile, match=r"plugrad\.tfjs\.load_graph_model reads it"):
        tfjs.load_layers_model(tmp_path)


def test_unexpected_weights_are_rejected(tmp_path):
    document = layers_document(layer_config("Dense", name="dense", units=2))
    folder = write_document(
        tmp_path, document, {**DENSE_WEIGHTS, "dense/gamma": np.ones(2, np.float32)}
    )
    with pytest.raises(
        DamagedFile, match="has the weights kernel, bias, gamma, of which it takes 2"
    ):
        tfjs.load_layers_model(folder)
    folder = write_document(tmp_path, document, {"dense/kernel": DENSE_WEIGHTS["dense/kernel"]})
    with pytest.raises(DamagedFile, match="layer 'dense' has no weight 'bias'"):
        tfjs.load_layers_model(folder)


def test_damaged_files_give_errors_of_plugrad(tmp_path):
    """``DAMAGED_FILES=2000`` tries 2000 damages."""
    from core.test_tfjs_graph_models import mutate_json

    inputs, _ = write_record(RECORDS["several"], tmp_path / "model")
    file = tmp_path / "model" / "model.json"
    text = file.read_bytes()
    rng = random.Random(1)
    refused = 0
    for number in range(int(os.environ.get("DAMAGED_FILES", "200"))):
        if number % 2:
            damaged = bytearray(text)
            damaged[rng.randrange(len(damaged))] = rng.randrange(32, 127)
        else:
            damaged = json.dumps(mutate_json(json.loads(text), rng)).encode()
        file.write_bytes(bytes(damaged))
        try:
            model, params = tfjs.load_layers_model(file)
            list_results(model, params, inputs)
        except (PlugradError, FileNotFoundError):
            refused += 1
    assert refused > 30
