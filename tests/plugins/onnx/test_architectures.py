"""Networks that torch has exported give the numbers of onnxruntime, and PyTorch's gradients.

`architectures/build.py` has written them. Their weights are not in the files: seeds make them.
"""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx")

import onnx
from onnx import numpy_helper

import plugrad
import plugrad_onnx
from plugins.onnx.architectures.seeding import input_image, is_seeded, seeded_weights

try:
    import onnxruntime as ort
except ImportError:  # it is large, and only a peer
    ort = None

FOLDER = Path(__file__).parent / "architectures"
NAMES = [
    "bert", "efficientnet", "gpt2", "lenet", "llama", "lstm", "mobilenet_v2", "resnet18", "shufflenet_v2",
    "squeezenet", "t5", "unet", "whisper", "yolo",
]  # fmt: skip
NETWORKS_WITH_GRADIENTS = ("bert", "lstm", "squeezenet")
"""The networks whose files of numbers have PyTorch's gradients, too."""


def read_network(name):
    """Return a network with its weights, its inputs by name, and the recorded outputs and gradients."""
    proto = onnx.load(FOLDER / f"{name}.onnx")
    for tensor in proto.graph.initializer:
        if is_seeded(tensor) and not tensor.raw_data:
            array = seeded_weights(tensor.name, tuple(tensor.dims))
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    numbers = dict(np.load(FOLDER / f"{name}.npz"))
    inputs = {}
    for value in proto.graph.input:
        shape = tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim)
        inputs[value.name] = (
            numbers.pop(value.name) if value.name in numbers else input_image(name, shape)
        )
    return proto, inputs, numbers


def test_every_file_is_tested():
    assert sorted(path.stem for path in FOLDER.glob("*.onnx")) == NAMES


def assert_close(result, expected):
    assert np.abs(result.numpy() - expected).max() <= 1e-5 * np.abs(expected).max()


@pytest.mark.parametrize("name", sorted({*NAMES} - {*NETWORKS_WITH_GRADIENTS}))
def test_outputs_match_onnxruntime(backend, name):
    proto, inputs, numbers = read_network(name)
    assert_close(plugrad_onnx.load(proto).run(inputs)[0], numbers["expected"])


@pytest.mark.parametrize("name", NETWORKS_WITH_GRADIENTS)
def test_outputs_and_gradients_of_all_weights_match_pytorch(backend, name):
    proto, inputs, numbers = read_network(name)
    model = plugrad_onnx.load(proto)
    names = [key.removeprefix("gradient of ") for key in numbers if key != "expected"]
    probe = input_image(f"{name}/probe", numbers["expected"].shape)
    variables = model.variables(names)
    assert_close(model.run(inputs)[0], numbers["expected"])
    _, gradients = plugrad.variable_grads(
        lambda: plugrad.sum(model.run(inputs)[0] * probe), variables
    )
    for key, gradient in zip(names, gradients, strict=True):
        expected = numbers[f"gradient of {key}"]
        error = np.abs(gradient.numpy() - expected).max()
        # Keys' biases move all scores of a row alike, so their gradients are zero but for rounding.
        largest = 0.1 if key.endswith("key.bias") else np.abs(expected).max()
        assert error <= 1e-4 * largest, key


@pytest.mark.parametrize("name", NETWORKS_WITH_GRADIENTS)
def test_a_tuned_network_is_saved_and_gives_the_same_everywhere(name, tmp_path):
    proto, inputs, numbers = read_network(name)
    model = plugrad_onnx.load(proto)
    names = [key.removeprefix("gradient of ") for key in numbers if key != "expected"]
    variables = model.variables(names)

    def loss():
        return plugrad.mean(plugrad.square(model.run(inputs)[0]))

    optimizer = plugrad.optimizers.SGD(1e-3)
    losses = [optimizer.minimize(loss, variables).item() for _ in range(2)]
    assert losses[1] < losses[0]
    model.freeze()
    tuned = model.run(inputs)[0].numpy()
    model.save(tmp_path / "tuned.onnx")
    again = plugrad_onnx.load(tmp_path / "tuned.onnx").run(inputs)[0].numpy()
    np.testing.assert_array_equal(again, tuned)
    if ort is not None:
        session = ort.InferenceSession(tmp_path / "tuned.onnx", providers=["CPUExecutionProvider"])
        (other,) = session.run(None, inputs)
        assert np.abs(other - tuned).max() <= 1e-5 * np.abs(tuned).max()
