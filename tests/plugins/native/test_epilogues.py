"""Convolutions add the bias and limit the results that follow them, with the bits of separate calls."""

import numpy as np
import pytest

import plugrad
from plugrad.extend import Call, Fused
from plugrad.types.bits import comparable_bits

selection = pytest.importorskip("plugrad_native.programs.selection")


@pytest.fixture(autouse=True)
def _on_cpu():
    with plugrad.use("cpu"):
        yield


def random_tensor(*shape, seed=0, dtype="float32"):
    values = np.random.default_rng(seed).standard_normal(shape).astype(dtype)
    values.flat[:4] = np.nan, np.inf, -np.inf, -0.0
    return plugrad.asarray(values)


def called_kernels(function, *args):
    """Return the kernels that a compiled function calls; those of one elementwise loop are joined in a string."""
    graph = plugrad.make_graph(function)(*args)
    graph = selection.CompiledStepSelector(graph).prepare(graph)
    return [
        step.kernel.name
        if isinstance(step, Call)
        else "+".join(s.kernel.name for s in step.body.steps)
        for step in graph.steps
        if isinstance(step, Call | Fused)
    ]


def assert_same_when_traced(function, *args):
    expected = function(*args)
    jitted = plugrad.jit(function)
    for _ in range(2):
        assert comparable_bits(jitted(*args).numpy()) == comparable_bits(expected.numpy())


IMAGES, FILTER, BIAS = (
    random_tensor(2, 9, 9, 4),
    random_tensor(3, 3, 4, 24, seed=1),
    random_tensor(24, seed=2),
)
ACTIVATIONS = {"linear": lambda y: y, "relu": plugrad.relu, "relu6": plugrad.relu6}


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("stride", [1, 2])
def test_convolutions_absorb_a_following_bias_and_activation(activation, stride):
    def layer(x, w, b):
        return ACTIVATIONS[activation](plugrad.conv2d(x, w, stride, "same") + b)

    def deep(x, w, b):
        return ACTIVATIONS[activation](b + plugrad.depthwise_conv2d(x, w, stride, "same"))

    assert called_kernels(layer, IMAGES, FILTER, BIAS) == ["FusedConv2D"]
    assert_same_when_traced(layer, IMAGES, FILTER, BIAS)
    few = FILTER[..., :2], BIAS[:8]
    assert called_kernels(deep, IMAGES, *few) == ["FusedDepthwiseConv2D"]
    assert_same_when_traced(deep, IMAGES, *few)


def test_a_training_step_of_a_convnet():
    def loss(w, b):
        y = plugrad.relu(plugrad.conv2d(IMAGES[1:], w, 1, "same") + b)
        return plugrad.mean(plugrad.square(plugrad.max_pool(y, 2)))

    step = plugrad.grad(loss, argnums=(0, 1))
    found, expected = plugrad.jit(step)(FILTER, BIAS), step(FILTER, BIAS)
    for y, z in zip(found, expected, strict=True):
        assert comparable_bits(y.numpy()) == comparable_bits(z.numpy())


def test_epilogues_that_need_another_pass_are_left_to_loops():
    def layer(x, w, b):
        return plugrad.relu(plugrad.conv2d(x, w, 1, "same") + b)

    for bias in (BIAS[:1], random_tensor(9, 9, 24)):
        assert called_kernels(layer, IMAGES, FILTER, bias) == ["Conv2D", "Add+Relu"]
        assert_same_when_traced(layer, IMAGES, FILTER, bias)
    doubles = [x.astype("float64") for x in (IMAGES, FILTER, BIAS)]
    assert called_kernels(layer, *doubles) == ["Conv2D", "Add+Relu"]
    assert_same_when_traced(layer, *doubles)

    def smooth(x, w, b):
        return plugrad.elu(plugrad.conv2d(x, w, 1, "same") + b)

    assert called_kernels(smooth, IMAGES, FILTER, BIAS) == ["FusedConv2D", "Elu"]
    assert_same_when_traced(smooth, IMAGES, FILTER, BIAS)
    x = random_tensor(5, 6)
    assert called_kernels(lambda x, w, b: plugrad.relu(x @ w + b), x, x.T, x[0, :5])[1:] == [
        "Add+Relu"
    ]


@pytest.mark.parametrize("kernel", ["Conv2D", "Add", "Relu", "FusedConv2D"])
def test_kernels_that_are_replaced_are_not_joined(kernel):
    def run_and_note(*arrays, **attrs):
        calls.append(kernel)
        return own(*arrays, **attrs)

    calls = []
    own = plugrad.get_kernel(kernel, "cpu").kernel_func
    with plugrad.override_kernel(kernel, "cpu", run_and_note):
        assert_same_when_traced(
            lambda x, w, b: plugrad.relu(plugrad.conv2d(x, w, 1, "same") + b),
            *(IMAGES, FILTER, BIAS),
        )
    assert bool(calls) is (kernel != "FusedConv2D")
