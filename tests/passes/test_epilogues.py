"""Products and convolutions take in the bias and the activation that follow them."""

import numpy as np
import pytest

import plugrad
from passes.checking import check_pass, kernel_names
from plugrad.extend import fuse_epilogues


def random_tensor(*shape, seed=0):
    values = np.random.default_rng(seed).standard_normal(shape).astype("float32")
    values.flat[:4] = np.nan, np.inf, -np.inf, -0.0
    return plugrad.asarray(values)


X, WEIGHTS, BIAS = random_tensor(5, 7), random_tensor(7, 6, seed=1), random_tensor(6, seed=2)
IMAGES, FILTER = random_tensor(2, 5, 5, 4), random_tensor(3, 3, 4, 6, seed=3)
DEEP_FILTER = random_tensor(3, 3, 4, 1, seed=4)


def fuse_all_but(graph, refused=()):
    return fuse_epilogues(graph, lambda call: call.kernel.name not in refused)


def kernels_after_fusion(function, *args, refused=()):
    """Return the kernels of a graph after the pass, which changes no bit."""
    return kernel_names(check_pass(lambda graph: fuse_all_but(graph, refused), function, *args))


def fused_attributes(function, *args):
    (step,) = check_pass(fuse_all_but, function, *args).steps
    return step.attrs["activation"], step.attrs["leakyrelu_alpha"]


ACTIVATIONS = {
    "linear": lambda y: y,
    "relu": plugrad.relu,
    "relu6": plugrad.relu6,
    "elu": plugrad.elu,
    "sigmoid": plugrad.sigmoid,
}
PRODUCTS = {
    "_FusedMatMul": (plugrad.matmul, X, WEIGHTS),
    "FusedConv2D": (plugrad.conv2d, IMAGES, FILTER),
    "FusedDepthwiseConv2D": (plugrad.depthwise_conv2d, IMAGES, DEEP_FILTER),
}


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("kernel", PRODUCTS)
def test_a_bias_and_an_activation(kernel, activation):
    product, *args = PRODUCTS[kernel]
    bias = BIAS if "Depthwise" not in kernel else BIAS[:4]
    assert fused_attributes(
        lambda x, w, b: ACTIVATIONS[activation](product(x, w) + b), *args, bias
    ) == (
        activation,
        0.2,
    )
    if activation != "linear":
        assert kernels_after_fusion(lambda x, w: ACTIVATIONS[activation](product(x, w)), *args) == [
            kernel
        ]


def test_the_slope_of_an_activation():
    given = fused_attributes(lambda x, w, b: plugrad.leaky_relu(x @ w + b, 0.3), X, WEIGHTS, BIAS)
    assert given == ("leakyrelu", 0.3)


def test_a_bias_on_the_left_or_of_other_shapes_or_a_residual():
    fused = ["_FusedMatMul"]
    assert kernels_after_fusion(lambda x, w, b: plugrad.relu(b + x @ w), X, WEIGHTS, BIAS) == fused
    for bias in (BIAS[:1], X[:, :1], random_tensor(5, 6), plugrad.asarray(2.0)):
        assert (
            kernels_after_fusion(lambda x, w, b: plugrad.relu(x @ w + b), X, WEIGHTS, bias) == fused
        )


def test_transposed_products_keep_their_flags():
    def layer(x, w, b):
        y = plugrad.matmul(x, w, transpose_a=True, transpose_b=True)
        return plugrad.relu(y + b)

    (step,) = check_pass(fuse_all_but, layer, X.T, WEIGHTS.T, BIAS).steps
    assert step.attrs["transpose_a"] is step.attrs["transpose_b"] is True


def test_results_read_outside_an_epilogue_are_computed():
    def read_product(x, w, b):
        y = x @ w
        return plugrad.relu(y + b), y

    def read_sum(x, w, b):
        y = x @ w + b
        return plugrad.relu(y), y

    def add_twice(x, w, b):
        y = x @ w
        return y + y

    assert kernels_after_fusion(read_product, X, WEIGHTS, BIAS) == ["BatchMatMul", "Add", "Relu"]
    assert kernels_after_fusion(read_sum, X, WEIGHTS, BIAS) == ["_FusedMatMul", "Relu"]
    assert kernels_after_fusion(add_twice, X, WEIGHTS, BIAS) == ["BatchMatMul", "Add"]


def test_a_sum_that_is_larger_than_the_product_is_no_bias():
    larger = random_tensor(3, 5, 6)
    assert kernels_after_fusion(lambda x, w, b: x @ w + b, X, WEIGHTS, larger) == [
        "BatchMatMul",
        "Add",
    ]


def test_a_bias_that_is_made_after_the_product():
    def layer(x, w, b):
        y = x @ w
        return plugrad.relu(y + plugrad.exp(b))

    assert kernels_after_fusion(layer, X, WEIGHTS, BIAS) == ["Exp", "_FusedMatMul"]


def test_one_of_two_products_takes_in_the_other():
    def sums(x, w, b):
        return plugrad.relu(x @ w + plugrad.tanh(x) @ w)

    assert sorted(kernels_after_fusion(sums, X, WEIGHTS, BIAS)) == [
        "BatchMatMul",
        "Tanh",
        "_FusedMatMul",
    ]


def test_a_chain_of_layers():
    def network(x, w, b):
        return plugrad.relu(plugrad.relu(x @ w + b) @ w.T) @ w

    fused = kernels_after_fusion(network, X, WEIGHTS, BIAS)
    assert fused.count("_FusedMatMul") == 2
    assert fused[-1] == "BatchMatMul"


@pytest.mark.parametrize(
    ("refused", "found"),
    [
        ("BatchMatMul", ["BatchMatMul", "Add", "Relu"]),
        ("_FusedMatMul", ["BatchMatMul", "Add", "Relu"]),
        ("Add", ["BatchMatMul", "Add", "Relu"]),
        ("Relu", ["_FusedMatMul", "Relu"]),
    ],
)
def test_calls_that_must_not_be_fused_are_left_out(refused, found):
    def layer(x, w, b):
        return plugrad.relu(x @ w + b)

    assert kernels_after_fusion(layer, X, WEIGHTS, BIAS, refused=[refused]) == found


def test_a_product_is_joined_to_the_bias_alone_where_the_activation_cannot_be():
    def layer(x, w, b):
        return plugrad.elu(x @ w + b)

    def apply(graph):
        return fuse_epilogues(graph, lambda call: call.attrs.get("activation") != "elu")

    assert kernel_names(check_pass(apply, layer, X, WEIGHTS, BIAS)) == ["_FusedMatMul", "Elu"]


def test_a_graph_without_epilogues_is_returned():
    graph = plugrad.make_graph(lambda x: plugrad.exp(x) @ x.T)(X)
    assert fuse_all_but(graph) is graph
