"""Functions saved as graph models, read again, run by TensorFlow.js, trained, and damaged."""

import json
import os
import random
import shutil

import numpy as np
import pytest

import plugrad
import plugrad_nn as nn
from core.tfjs_models.making import GraphModelWriter
from core.tfjs_models.node import needs_tfjs, run_models_in_node
from plugrad import tfjs
from plugrad.errors import (
    ArgumentError,
    ArgumentValueError,
    DamagedFile,
    DTypeError,
    PlugradError,
    ShapeError,
    UnsupportedModel,
)

RNG = np.random.default_rng(0)


def random_float32(*shape):
    return RNG.normal(0, 0.5, shape).astype(np.float32)


def model_factory(*layers):
    """Return a function that makes a model for an input shape."""

    def make(shape):
        model = nn.Sequential(*layers)
        params = model.init(0, shape)
        return lambda x: model(params, x)

    return make


def function_factory(compute):
    return lambda shape: compute


NETWORK_CASES = {
    "dense": (model_factory(nn.Dense(8, plugrad.relu), nn.BatchNorm(), nn.Dense(5)), (2, 6)),
    "convolutions": (
        model_factory(
            nn.Conv2D(4, 3, padding="same", activation=plugrad.relu6),
            nn.BatchNorm(),
            nn.DepthwiseConv2D(3, strides=2, padding="same"),
            plugrad.silu,
            nn.MaxPooling2D(2),
            nn.Flatten(),
            nn.Dense(5),
        ),
        (2, 8, 8, 3),
    ),
    "normalized convolutions": (
        model_factory(
            nn.Conv2D(4, 3, use_bias=False),
            nn.BatchNorm(),
            plugrad.relu,
            nn.DepthwiseConv2D(3, padding="same"),
            nn.BatchNorm(),
        ),
        (2, 8, 8, 3),
    ),
    "up and down": (
        model_factory(
            nn.SeparableConv2D(4, 3),
            nn.Conv2DTranspose(3, 3, strides=2, padding="same"),
            nn.UpSampling2D(2),
            nn.GlobalAveragePooling(),
        ),
        (2, 6, 6, 2),
    ),
    "sequences": (
        model_factory(
            nn.Conv1D(4, 3, padding="causal"),
            nn.Bidirectional(nn.LSTM(3, return_sequences=True)),
            nn.GRU(2),
        ),
        (2, 4, 3),
    ),
    "attention": (model_factory(nn.MultiHeadAttention(2, 8), nn.LayerNorm()), (2, 4, 8)),
    "norms": (
        model_factory(nn.GroupNorm(groups=2), nn.InstanceNorm(), nn.RMSNorm(), plugrad.gelu),
        (2, 4, 4, 4),
    ),
    "volumes": (
        model_factory(nn.Conv3D(3, 3, padding="same", strides=2), nn.AveragePooling3D(2)),
        (2, 4, 4, 4, 2),
    ),
}
"""Networks of layers, and the shapes of their inputs."""
FUNCTION_CASES = {
    "activations": lambda x: [
        plugrad.softplus(x),
        plugrad.elu(x),
        plugrad.selu(x),
        plugrad.leaky_relu(x, 0.1),
        plugrad.gelu(x, approximate=True),
        plugrad.step(x, 0.5),
    ],
    "arithmetic": lambda x: [
        plugrad.floor_divide(x, 0.3),
        x % 0.3,
        plugrad.trunc(x * 3),
        plugrad.log2(plugrad.abs(x) + 1),
        plugrad.clip(x, -0.1, 0.2),
        x**2,
        plugrad.where(x > 0, x, 1.0),
    ],
    "shapes": lambda x: [
        plugrad.reshape(x, (-1, 2)),
        x.T,
        plugrad.tile(x, (1, 2)),
        plugrad.concat([x, x], axis=0),
        plugrad.stack([x, x], axis=1),
        plugrad.split(x, 2, axis=1)[1],
        plugrad.zeros((x.shape[0], 3)) + 1,
        plugrad.broadcast_to(x[:, None], (x.shape[0], 2, 6)),
    ],
    "slices": lambda x: [
        x[:, 1:, None],
        x[:, None, 0],
        x[:, ::-1],
        x[..., ::2],
        x[1:],
        plugrad.pad(x, [[0, 0], [1, 2]], 3.0),
        plugrad.mirror_pad(x, [[0, 0], [1, 2]], "reflect"),
    ],
    "reductions": lambda x: [
        plugrad.max(x, axis=1),
        plugrad.sum(x),
        plugrad.mean(x, axis=0),
        plugrad.argmax(x, axis=1),
        plugrad.any(x > 1, axis=1),
        plugrad.cumulative_sum(x, axis=1),
        plugrad.top_k(x, 2)[0],
        plugrad.softmax(x, axis=0),
    ],
    "indices": lambda x: [
        plugrad.take(x, plugrad.asarray([1, 0]), axis=1),
        plugrad.one_hot(plugrad.astype(x[:, 0], "int32"), 4),
        plugrad.einsum("bi,bj->bij", x, x),
        plugrad.tril(plugrad.einsum("bi,bj->bij", x, x)),
    ],
    "loops": lambda x: plugrad.scan(
        lambda c, t: (c * 0.5 + t, c + t), x[:, 0] * 0, x.T, reverse=True
    ),
}
"""Functions of a matrix, and all that they return."""
ALL_CASES = {
    **NETWORK_CASES,
    **{name: (function_factory(f), (2, 6)) for name, f in FUNCTION_CASES.items()},
}


def save_case(name, folder):
    """Save the graph model of a case; return its function and an input with another batch size."""
    make, shape = ALL_CASES[name]
    compute = make(shape[1:])
    x = random_float32(*shape)
    tfjs.save_graph_model(compute, x, folder=folder)
    return compute, np.concatenate([x, x])[:3]


def list_outputs(compute, x):
    result = compute(plugrad.asarray(x))
    return list(result) if isinstance(result, list | tuple) else [result]


@pytest.mark.parametrize("name", NETWORK_CASES)
def test_saved_network_is_loaded_again(name, backend, tmp_path):
    compute, x = save_case(name, tmp_path)
    result = tfjs.load_graph_model(tmp_path)(x)
    tolerance = 1e-6 if backend == "cpu" else 2e-5
    np.testing.assert_allclose(
        result.numpy(), list_outputs(compute, x)[0].numpy(), tolerance, tolerance
    )


@pytest.mark.parametrize("name", FUNCTION_CASES)
def test_saved_function_is_loaded_again(name, tmp_path):
    compute, x = save_case(name, tmp_path)
    results = tfjs.load_graph_model(tmp_path).run({"x0": x})
    for result, want in zip(results, list_outputs(compute, x), strict=True):
        np.testing.assert_allclose(result.numpy(), want.numpy(), 1e-6, 1e-6)


@needs_tfjs
def test_tensorflow_js_runs_saved_models(tmp_path):
    jobs, wanted = [], []
    for place, name in enumerate(ALL_CASES):
        folder = tmp_path / str(place)
        compute, x = save_case(name, folder)
        wanted.append([y.numpy() for y in list_outputs(compute, x)])
        names = [f"y{n}" for n in range(len(wanted[-1]))]
        jobs.append({"folder": str(folder), "kind": "graph", "inputs": {"x0": x}, "outputs": names})
    for name, result, values in zip(
        ALL_CASES, run_models_in_node(jobs, tmp_path), wanted, strict=True
    ):
        assert not isinstance(result, str), f"{name}: {result}"
        for got, want in zip(result, values, strict=True):
            np.testing.assert_allclose(got, want, 2e-5, 2e-5, err_msg=name)


def test_branches_and_loops_that_depend_on_values(tmp_path):
    def compute(x):
        grown = plugrad.while_loop(lambda s: plugrad.sum(s) < 20.0, lambda s: s * 1.5 + 0.1, x)
        return plugrad.cond(plugrad.sum(x) > 1, lambda y: y * 2, lambda y: y - 1, grown)

    for place, x in enumerate(([1.0, 2.0], [0.1, 0.2])):
        folder = tmp_path / str(place)
        tfjs.save_graph_model(compute, x, folder=folder, dynamic=False)
        result = tfjs.load_graph_model(folder)(x)
        np.testing.assert_allclose(result.numpy(), compute(plugrad.asarray(x)).numpy(), 1e-6)


# --- calls and training ---------------------------------------------------------------------------


@pytest.fixture
def saved_model(tmp_path):
    """A saved graph model with two weights, in a folder."""
    w = plugrad.Variable([[1.0], [2.0]], name="layer/w")
    b = plugrad.Variable([0.5, 0.25], name="layer/b")
    folder = tmp_path / "model"
    tfjs.save_graph_model(
        lambda x, y: (x @ w + y) * b,
        plugrad.ones((1, 2)),
        plugrad.ones((1, 1)),
        folder=folder,
        names=["x", "y"],
    )
    return folder


def test_inputs_come_by_place_or_by_name(saved_model):
    model = tfjs.load_graph_model(saved_model)
    assert (model.inputs, model.outputs) == (("x", "y"), ("y0",))
    assert repr(model) == "GraphModel(x, y -> y0)"
    x, y = [[1.0, 1.0]], [[1.0]]
    assert (
        model(x, y).tolist() == model(x, y=y).tolist() == model(y=y, x=x).tolist() == [[2.0, 1.0]]
    )
    assert model.run({"x": x, "y": y}, ["MatMul"])[0].tolist() == [[3.0]]
    assert tfjs.load_graph_model(saved_model / "model.json")(x, y).tolist() == [[2.0, 1.0]]
    assert model(np.ones((1, 2), np.float64), np.ones((1, 1), np.int64)).dtype == plugrad.float32


def test_wrong_inputs_are_errors(saved_model):
    model = tfjs.load_graph_model(saved_model)
    x, y = [[1.0, 1.0]], [[1.0]]
    with pytest.raises(ArgumentError, match="3 inputs were given; it takes x, y"):
        model(x, y, y)
    with pytest.raises(ArgumentError, match="inputs are x; it takes a dict of x, y"):
        model(x)
    with pytest.raises(ArgumentError, match="'x' was given twice"):
        model(x, x=x, y=y)
    with pytest.raises(ShapeError, match=r"'x' has shape \(1, 3\); it must be \(any, 2\)"):
        model([[1.0, 1.0, 1.0]], y)
    with pytest.raises(DTypeError, match="'x' is string; it must be float32"):
        model(plugrad.asarray([["a", "b"]]), y)
    with pytest.raises(ArgumentValueError, match="'z' is no output and no node"):
        model.run({"x": x, "y": y}, ["z"])
    with pytest.raises(
        ArgumentValueError, match=r"'z' is no weight of float32; these are: .*layer/w"
    ):
        model.variables(["z"])


def test_weights_are_trained_and_saved(saved_model, backend, tmp_path):
    model = tfjs.load_graph_model(saved_model)
    variables = model.variables(["layer/w"])
    x, y = plugrad.asarray([[1.0, 1.0]]), plugrad.asarray([[1.0]])
    value, gradients = plugrad.variable_grads(lambda: plugrad.sum(model(x, y)), variables)
    assert (value.item(), gradients[0].tolist()) == (3.0, [[0.75], [0.75]])
    optimizer = plugrad.optimizers.SGD(0.1)
    before = value.item()
    for _ in range(5):
        optimizer.minimize(lambda: plugrad.sum(plugrad.square(model(x, y))), variables)
    assert plugrad.sum(model(x, y)).item() < before
    model.save(tmp_path / "trained", quantization=None)
    again = tfjs.load_graph_model(tmp_path / "trained")
    np.testing.assert_allclose(again(x, y).numpy(), model(x, y).numpy(), 1e-6)
    np.testing.assert_array_equal(again.weights["layer/w"], variables[0].numpy())
    assert len(model.variables()) == 2


def test_a_model_is_compiled_and_batched(saved_model, backend):
    model = tfjs.load_graph_model(saved_model)
    model.variables(["layer/w"])
    x, y = plugrad.asarray(random_float32(3, 2)), plugrad.asarray(random_float32(3, 1))
    wanted = model(x, y).numpy()
    np.testing.assert_allclose(plugrad.jit(model)(x, y).numpy(), wanted, 1e-5, 1e-6)
    rows = plugrad.vmap(lambda a, b: model(a[None], b[None])[0])(x, y)
    np.testing.assert_allclose(rows.numpy(), wanted, 1e-5, 1e-6)


@pytest.mark.parametrize("kind", ["uint8", "uint16", "float16"])
def test_weights_may_be_quantized_and_in_several_files(kind, tmp_path):
    compute, x = ALL_CASES["dense"][0]((6,)), random_float32(2, 6)
    tfjs.save_graph_model(compute, x, folder=tmp_path, quantization=kind, shard_bytes=100)
    assert len(list(tmp_path.glob("*.bin"))) > 1
    result = tfjs.load_graph_model(tmp_path)(x)
    tolerance = {"uint8": 0.05, "uint16": 1e-3, "float16": 5e-3}[kind]
    np.testing.assert_allclose(result.numpy(), compute(plugrad.asarray(x)).numpy(), atol=tolerance)


def test_weights_may_be_in_groups(saved_model, tmp_path):
    document = json.loads((saved_model / "model.json").read_text())
    (group,) = document["weightsManifest"]
    weights = tfjs.read_weights(saved_model / "model.json")
    document["weightsManifest"] = []
    for name, tensor in weights.items():
        data, specs = tfjs.encode_weights({name: tensor})
        file = f"group{len(document['weightsManifest'])}.bin"
        (saved_model / file).write_bytes(data)
        document["weightsManifest"].append({"paths": [file], "weights": specs})
    for file in group["paths"]:
        (saved_model / file).unlink()
    (saved_model / "model.json").write_text(json.dumps(document))
    assert tfjs.load_graph_model(saved_model)([[1.0, 1.0]], [[1.0]]).tolist() == [[2.0, 1.0]]


# --- what cannot be -------------------------------------------------------------------------------


def test_errors_name_unsupported_functions(tmp_path):
    def save(compute, x=(1.0, 2.0), **options):
        tfjs.save_graph_model(compute, x, folder=tmp_path / "no", **options)

    with pytest.raises(UnsupportedModel, match=r"Kernel 'Sort', called at .*, in "):
        save(plugrad.sort)
    with pytest.raises(UnsupportedModel, match=r"is float64; TensorFlow\.js has float32"):
        save(lambda x: plugrad.astype(x, "float64"))
    with pytest.raises(UnsupportedModel, match="such as random numbers"):
        save(lambda x: x + plugrad.random.normal(x.shape))
    with pytest.raises(UnsupportedModel, match="other sizes"):
        save(lambda x: x * 2 if x.shape[0] > 3 else x)
    with pytest.raises(ArgumentValueError, match="has no axis for the batch"):
        save(lambda x: x, 1.0)
    with pytest.raises(ArgumentError, match="must be a list of 1 different names"):
        save(lambda x: x, names=["a", "b"])
    with pytest.raises(
        ArgumentError, match=r"returns \{'a': .*\}; it must return a tensor, or a list"
    ):
        save(lambda x: {"a": x})
    assert not (tmp_path / "no").exists()


def iter_damaged_folders(folder):
    """Yield the folder of a model after each damage; each is repaired before the next."""
    rng = random.Random(0)
    text = (folder / "model.json").read_bytes()
    document = json.loads(text)
    count = int(os.environ.get("DAMAGED_FILES", "250"))
    for number in range(count):
        if number % 2:
            damaged = bytearray(text)
            for _ in range(rng.randint(1, 3)):
                damaged[rng.randrange(len(damaged))] = rng.randrange(32, 127)
            yield bytes(damaged)
        else:
            yield json.dumps(mutate_json(json.loads(text), rng)).encode()
    yield text[: len(text) // 2]
    yield b"[" * 100_000
    yield json.dumps({**document, "modelTopology": {"node": [[]]}}).encode()


INVALID_JSON_VALUES = [
    None,
    -1,
    2**70,
    1e400,
    "",
    "x",
    "../x",
    [],
    {},
    [[]],
    True,
    {"list": {"i": ["9" * 50]}},
    "^",
    "y0:99",
]


def mutate_json(value, rng):
    """Return JSON in which one random part is replaced or removed."""
    places = []

    def walk(part):
        items = (
            part.items()
            if isinstance(part, dict)
            else enumerate(part)
            if isinstance(part, list)
            else ()
        )
        for key, inner in list(items):
            places.append((part, key))
            walk(inner)

    walk(value)
    part, key = rng.choice(places)
    if rng.random() < 0.3:
        del part[key]
    else:
        part[key] = rng.choice(INVALID_JSON_VALUES)
    return value


def test_damaged_files_raise_plugrad_errors_and_open_no_files_outside_the_folder(
    saved_model, monkeypatch
):
    """``DAMAGED_FILES=2000`` tries 2000 damages."""
    opened = []
    real_open = open

    def watched(path, *args, **options):
        opened.append(os.path.realpath(path))
        return real_open(path, *args, **options)

    from plugrad.saving import tfjs_weights

    monkeypatch.setattr(tfjs_weights, "open", watched, raising=False)
    x, y = [[1.0, 1.0]], [[1.0]]
    refused = 0
    for damage in iter_damaged_folders(saved_model):
        (saved_model / "model.json").write_bytes(damage)
        try:
            model = tfjs.load_graph_model(saved_model)
            model.run(dict(zip(model.inputs, (x, y), strict=False)))
        except (PlugradError, FileNotFoundError):
            refused += 1
    assert refused > 100
    inside = os.path.realpath(saved_model)
    assert all(path.startswith(inside + os.sep) for path in opened)


def test_files_outside_of_the_folder_are_refused(saved_model):
    document = json.loads((saved_model / "model.json").read_text())
    shutil.copy(
        saved_model / document["weightsManifest"][0]["paths"][0], saved_model.parent / "outside.bin"
    )
    for path in ("../outside.bin", str(saved_model.parent / "outside.bin"), "a/../../outside.bin"):
        document["weightsManifest"][0]["paths"] = [path]
        (saved_model / "model.json").write_text(json.dumps(document))
        with pytest.raises(DamagedFile, match=r"load_graph_model: .*is not a group of files"):
            tfjs.load_graph_model(saved_model)


def test_error_for_a_layers_model_names_the_function_that_reads_it(tmp_path):
    tfjs.write_model(tmp_path / "model.json", {"modelTopology": {"class_name": "Sequential"}}, {})
    with pytest.raises(DamagedFile, match=r"read by plugrad_nn\.tfjs\.load_layers_model"):
        tfjs.load_graph_model(tmp_path)


def test_strings_pass_through(tmp_path):
    making = GraphModelWriter()
    making.placeholder("x", np.array(["a"], object))
    making.const("more", np.array(["b"], object))
    making.const("axis", np.int32(0))
    making.node("y", "ConcatV2", "x", "more", "axis", N=2)
    model = tfjs.load_graph_model(making.write(str(tmp_path), "y"))
    assert model(["z"]).tolist() == ["z", "b"]


def fused_convolution(x):
    filters, bias = np.ones((3, 3, 2, 4), np.float32), np.arange(4, dtype=np.float32)
    return plugrad.fused.conv2d(x, filters, 1, "same", bias=bias)


def fold_batch_norms(model, shape, folder):
    """Save a model with random parameters; return the saved operators and the largest error of the results."""
    params = model.init(0, shape)
    for variable in nn.leaves(params):
        numbers = RNG.uniform(0.5, 1.5, variable.shape)
        variable.assign(numbers.astype(np.float32))
    x = random_float32(2, *shape)
    tfjs.save_graph_model(lambda x: model(params, x), x, folder=folder)
    document = json.loads((folder / "model.json").read_text("utf-8"))
    kinds = [node["op"] for node in document["modelTopology"]["node"]]
    named = {node["name"] for node in document["modelTopology"]["node"] if node["op"] == "Const"}
    assert named == {w["name"] for group in document["weightsManifest"] for w in group["weights"]}
    expected = model(params, plugrad.asarray(x)).numpy()
    found = tfjs.load_graph_model(folder)(x).numpy()
    return kinds, np.abs(found - expected).max() / np.abs(expected).max()


@pytest.mark.parametrize(
    ("layers", "convolution"),
    [
        ([nn.Conv2D(4, 3), nn.BatchNorm()], "_FusedConv2D"),
        ([nn.Conv2D(4, 3, use_bias=False), nn.BatchNorm(scale=False)], "_FusedConv2D"),
        ([nn.DepthwiseConv2D(3, depth_multiplier=2), nn.BatchNorm(epsilon=0.1)], "FusedDepthwiseConv2dNative"),
        ([fused_convolution, nn.BatchNorm()], "_FusedConv2D"),
        ([*[nn.Conv2D(4, 3), nn.BatchNorm(), plugrad.relu] * 2, nn.BatchNorm()], "_FusedConv2D"),
    ],
    ids=["bias", "no bias", "depthwise", "fused", "two"],
)  # fmt: skip
def test_batch_norm_becomes_part_of_the_convolution_before_it(
    layers, convolution, tmp_path, backend
):
    kinds, error = fold_batch_norms(nn.Sequential(*layers), (6, 6, 2), tmp_path)
    count = sum(isinstance(layer, nn.BatchNorm) for layer in layers)
    assert kinds.count("FusedBatchNormV3") == (1 if count == 3 else 0)
    assert kinds.count(convolution) == min(count, 2)
    assert not {"Conv2D", "DepthwiseConv2dNative", "AddV2"} & {*kinds}
    assert error < 1e-5


@pytest.mark.parametrize(
    "model",
    [
        nn.Sequential(nn.Conv2D(4, 3, activation=plugrad.relu), nn.BatchNorm()),
        nn.Sequential(nn.Dense(4), nn.BatchNorm()),
        nn.Graph(
            "x",
            {
                "a": (nn.Conv2D(4, 3), "x"),
                "b": (nn.BatchNorm(), "a"),
                "both": (plugrad.multiply, "a", "b"),
            },
            "both",
        ),
    ],
    ids=["an activation between", "no convolution", "another use"],
)
def test_batch_norm_that_cannot_be_folded_stays(model, tmp_path, backend):
    kinds, error = fold_batch_norms(model, (6, 6, 2), tmp_path)
    assert kinds.count("FusedBatchNormV3") == 1
    assert error < 1e-5
