"""A model: calling, training, writing back."""

import numpy as np
import pytest

pytest.importorskip("onnx")

import onnx
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

import plugrad
import plugrad_onnx
from plugins.onnx.making import parse_model
from plugrad.errors import ArgumentError, ArgumentValueError
from plugrad_onnx.execution import Scope

WEIGHTS = np.array([[0.5, -1.0], [2.0, 0.25], [-1.0, 1.0]], np.float32)
INPUT = np.array([[1.0, 2.0, 3.0], [0.5, -0.5, 1.5]], np.float32)
DENSE_GRAPH = "g (float[n, 3] x) => (float[n, 2] y) { h = MatMul(x, w)  y = Tanh(h) }"
TWO_OUTPUT_GRAPH = (
    "g (float[n] a, float[n] b) => (float[n] s, float[n] d) { s = Add(a, b)  d = Sub(a, b) }"
)


def test_inputs_by_position_and_by_name(backend):
    model = plugrad_onnx.load(parse_model(TWO_OUTPUT_GRAPH))
    a, b = np.array([3.0, 4.0], np.float32), plugrad.asarray([1.0, 2.0])
    for total, difference in (model(a, b), model(b=b, a=a), model.run({"a": a, "b": b})):
        np.testing.assert_array_equal(total.numpy(), [4, 6])
        np.testing.assert_array_equal(difference.numpy(), [2, 2])
    assert (model.inputs, model.outputs) == (("a", "b"), ("s", "d"))
    assert repr(model) == "Model(a, b -> s, d)"


def test_model_runs_on_the_device_of_its_inputs(backend):
    result = plugrad_onnx.load(parse_model(DENSE_GRAPH, w=WEIGHTS))(plugrad.asarray(INPUT))
    assert result.device == plugrad.asarray(INPUT).device
    np.testing.assert_allclose(result.numpy(), np.tanh(INPUT @ WEIGHTS), rtol=1e-5)


@pytest.mark.parametrize(
    ("args", "named", "error", "message"),
    [
        ((INPUT, INPUT), {}, ArgumentError, "takes 1: x"),
        ((), {}, ArgumentError, "missing: x"),
        ((INPUT,), {"x": INPUT}, ArgumentError, "given twice"),
        ((), {"z": INPUT}, ArgumentError, "'z' is given twice or no input; inputs are: x"),
        ((INPUT[:, :2],), {}, ArgumentValueError, r"shape \(2, 2\); the model takes \(n, 3\)"),
        ((INPUT[0],), {}, ArgumentValueError, r"shape \(3,\)"),
        ((INPUT.astype(np.int32),), {}, ArgumentValueError, "has dtype int32"),
    ],
)
def test_wrong_inputs_are_refused(args, named, error, message):
    with pytest.raises(error, match=message):
        plugrad_onnx.load(parse_model(DENSE_GRAPH, w=WEIGHTS))(*args, **named)


def test_error_of_a_failing_node_names_the_node():
    model = plugrad_onnx.load(
        parse_model("g (float[n] x, float[m] y) => (float[k] z) { z = Add(x, y) }")
    )
    with pytest.raises(ValueError, match="shape") as raised:
        model(np.ones(2, np.float32), np.ones(3, np.float32))
    assert "In node 'z' (Add, opset 20) of the model." in raised.value.__notes__


def test_weights_become_variables_and_are_written_back(backend, tmp_path):
    model = plugrad_onnx.load(parse_model(DENSE_GRAPH, w=WEIGHTS))
    (w,) = model.variables()
    assert w.name == "w"
    wanted = plugrad.asarray(np.array([[0.5, 0.0], [0.0, 0.5]], np.float32))
    optimizer = plugrad.optimizers.Adam(0.1)

    def loss():
        return plugrad.mean(plugrad.square(model(INPUT) - wanted))

    losses = [optimizer.minimize(loss, [w]).item() for _ in range(80)]
    assert losses[-1] < 0.02 * losses[0]
    trained = model(INPUT).numpy()
    model.save(tmp_path / "tuned.onnx")
    again = plugrad_onnx.load(tmp_path / "tuned.onnx")
    np.testing.assert_array_equal(again.weights["w"], w.numpy())
    np.testing.assert_allclose(again(INPUT).numpy(), trained, rtol=1e-6)
    model.freeze()
    np.testing.assert_allclose(model(INPUT).numpy(), trained, rtol=1e-6)


def test_gradients_of_weights_match_formulas(backend):
    model = plugrad_onnx.load(parse_model(DENSE_GRAPH, w=WEIGHTS))
    variables = model.variables(["w"])
    _, (gradient,) = plugrad.variable_grads(lambda: plugrad.sum(model(INPUT)), variables)
    expected = INPUT.T @ (1 - np.tanh(INPUT @ WEIGHTS) ** 2)
    np.testing.assert_allclose(gradient.numpy(), expected, rtol=1e-4, atol=1e-6)


def test_weights_are_read_and_assigned():
    model = plugrad_onnx.load(parse_model(DENSE_GRAPH, w=WEIGHTS))
    model(INPUT)
    assert dict(model.weights) == {"w": pytest.approx(WEIGHTS)}
    model.weights["w"] = -WEIGHTS
    np.testing.assert_allclose(model(INPUT).numpy(), np.tanh(INPUT @ -WEIGHTS), rtol=1e-6)
    (w,) = model.variables()
    model.weights["w"] = WEIGHTS
    np.testing.assert_array_equal(w.numpy(), WEIGHTS)
    with pytest.raises(ArgumentValueError, match=r"shape \(3, 2\)"):
        model.weights["w"] = WEIGHTS.T
    with pytest.raises(ArgumentError, match="cannot be removed"):
        del model.weights["w"]
    with pytest.raises(ArgumentValueError, match="'v' is no weight"):
        model.variables(["v"])


RESHAPING_GRAPH = """g (float[n, 4] x) => (float[n, 2, 2] y) {
    shape = Shape(x)
    zero = Constant<value = int64 {0}>()
    n = Gather(shape, zero)
    rest = Constant<value = int64[2] {2, 2}>()
    n1 = Unsqueeze(n, axes)
    target = Concat<axis = 0>(n1, rest)
    y = Reshape(x, target)
}"""


def test_shapes_are_computed_once_for_each_shape_and_never_read_back(backend, monkeypatch):
    model = plugrad_onnx.load(parse_model(RESHAPING_GRAPH, axes=np.array([0], np.int64)))
    inputs = [plugrad.ones((n, 4)) for n in (3, 5)]
    for x in inputs:
        assert model(x).shape == (x.shape[0], 2, 2)
    ran = []
    argument = Scope.get_argument
    monkeypatch.setattr(Scope, "get_argument", lambda s, n, k: ran.append(n) or argument(s, n, k))
    monkeypatch.setattr(plugrad.Tensor, "numpy", lambda self: pytest.fail("read from a device"))
    assert model(inputs[0]).shape == (3, 2, 2)
    assert ran == ["x", "target", "y"]


IMAGE_GRAPH = """g (float[n, 3, h, w] x) => (float[n, 4, h2, w2] y, int64[4] s) {
    a = Conv<pads = [1, 1, 1, 1]>(x, f, b)
    r = Relu(a)
    c = Conv<pads = [1, 1, 1, 1], group = 2>(r, g2)
    t = Add(c, a)
    u = Mul(t, scale)
    j = Concat<axis = 1>(u, t)
    m = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(j)
    y = Conv(m, last)
    s = Shape(y)
}"""


@pytest.fixture
def image_weights(rng):
    def normal(*shape):
        return rng.normal(size=shape).astype(np.float32)

    weights = {
        "f": normal(4, 3, 3, 3),
        "b": normal(4),
        "g2": normal(4, 2, 3, 3),
        "scale": normal(4, 1, 1),
        "last": normal(4, 8, 1, 1),
    }
    return parse_model(IMAGE_GRAPH, **weights), normal(2, 3, 6, 6)


def test_images_are_transposed_at_the_ends_of_a_chain_only(image_weights):
    proto, x = image_weights
    model = plugrad_onnx.load(proto)
    graph = plugrad.make_graph(lambda x: model(x)[0])(plugrad.asarray(x, device="cpu"))
    kernels = [
        line.split("= ")[1].split("(")[0] for line in str(graph).splitlines() if "= " in line
    ]
    assert kernels.count("Transpose") == 2


def test_images_agree_with_the_reference(backend, image_weights):
    proto, x = image_weights
    expected = ReferenceEvaluator(proto).run(None, {"x": x})
    model = plugrad_onnx.load(proto)
    for result in (model(x), plugrad.jit(model)(plugrad.asarray(x)), tuple(model.run({"x": x}))):
        np.testing.assert_allclose(result[0].numpy(), expected[0], rtol=1e-4, atol=1e-4)
        np.testing.assert_array_equal(result[1].numpy(), expected[1])
    model.variables()
    np.testing.assert_allclose(model(x)[0].numpy(), expected[0], rtol=1e-4, atol=1e-4)


def test_a_branch_and_a_loop_see_values_around_them(backend):
    text = """g (float[n] x, bool flag) => (float[n] y, float[k, n] each) {
        double = Add(x, x)
        z = If(flag) <
            then_branch = yes () => (float[n] a) { a = Mul(double, x) },
            else_branch = no () => (float[n] b) { b = Neg(double) }
        >
        y, each = Loop(count, , z) <
            body = turn (int64 i, bool c, float[n] s) => (bool go, float[n] t, float[n] u) {
                go = Identity(c)
                f = Cast<to = 1>(i)
                t = Add(s, f)
                u = Mul(t, double)
            }
        >
    }"""
    model = plugrad_onnx.load(parse_model(text, count=np.array(3, np.int64)))
    x = np.array([1.0, -2.0], np.float32)
    for flag in (True, False):
        last, each = model(x, np.array(flag))
        start = 2 * x * x if flag else -2 * x
        np.testing.assert_allclose(last.numpy(), start + 3)
        np.testing.assert_allclose(each.numpy(), [(start + k) * 2 * x for k in (0, 1, 3)])


def test_a_function_of_the_model_has_attributes_and_names_of_its_own(backend):
    text = """<ir_version: 10, opset_import: ["" : 20, "own" : 1]>
    g (float[n] x) => (float[n] y) {
        h = own.leak <alpha = 0.5> (x)
        y = own.leak(h)
    }
    <opset_import: ["" : 20], domain: "own">
    leak <alpha: float = 0.25> (h) => (y) {
        x = LeakyRelu<alpha = @alpha>(h)
        y = Add(x, x)
    }"""
    model = plugrad_onnx.load(onnx.parser.parse_model(text))
    result = model(np.array([1.0, -1.0], np.float32))
    np.testing.assert_allclose(result.numpy(), [4.0, -0.5])


def test_external_data_are_read_from_the_folder(tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save_model(
        parse_model(DENSE_GRAPH, w=WEIGHTS),
        path,
        save_as_external_data=True,
        size_threshold=0,
        location="w.bin",
    )
    np.testing.assert_array_equal(plugrad_onnx.load(path).weights["w"], WEIGHTS)
    with pytest.raises(plugrad_onnx.InvalidModel, match="came without a folder"):
        plugrad_onnx.load(onnx.load(path, load_external_data=False))


def test_user_defined_operator(backend):
    @plugrad_onnx.operator("Twice", domain="test.own")
    def twice(x: "Tensor", *, times: int):  # noqa: F821 - annotations are words here
        return x * 2**times

    proto = parse_model("g (float[n] x) => (float[n] y) { y = test.own.Twice<times = 3>(x) }")
    proto.opset_import.append(onnx.helper.make_opsetid("test.own", 1))
    np.testing.assert_array_equal(plugrad_onnx.load(proto)(INPUT[0]).numpy(), INPUT[0] * 8)


def test_stored_dtypes_keep_their_numbers(backend):
    text = """g (float[n] x) => (float[n] y, float8e4m3fn[n] z) {
        z = Cast<to = 17>(x)
        y = Cast<to = 1>(z)
    }"""
    back, stored = plugrad_onnx.load(parse_model(text))(np.array([1.0, 1.03, 1000.0], np.float32))
    np.testing.assert_array_equal(back.numpy(), [1.0, 1.0, 448.0])
    assert stored.dtype.name == "float8_e4m3fn"


@pytest.mark.parametrize("dtype", ["uint16", "int16"])
def test_zero_points_of_16_bits_bound_quantized_values(backend, dtype):
    text = f"g (float[n] x, float s, {dtype} z) => ({dtype}[n] y) {{ y = QuantizeLinear(x, s, z) }}"
    x = np.array([-1e6, -3, 5, 1e6], np.float32)
    y = plugrad_onnx.load(parse_model(text, 21))(x, np.float32(2), np.array(7, dtype)).numpy()
    limits = np.iinfo(dtype)
    np.testing.assert_array_equal(y, np.array([limits.min, 5, 9, limits.max], dtype))
    assert y.dtype == dtype


def test_cpu_computes_dtypes_that_the_device_lacks_and_gradients_flow(backend):
    text = """g (float[n] x) => (float[n] y, double[n] z) {
        d = Cast<to = 11>(x)
        z = Mul(d, third)
        w = Add(z, z)
        y = Cast<to = 1>(w)
    }"""
    model = plugrad_onnx.load(parse_model(text, third=np.array(1 / 3)))
    x = plugrad.asarray([1.0, 2.0])
    y, z = model(x)
    assert (y.device, z.dtype) == (x.device, plugrad.float64)
    np.testing.assert_array_equal(z.numpy(), np.array([1.0, 2.0]) * (1 / 3))
    gradient = plugrad.grad(lambda x: plugrad.sum(model(x)[0]))(x)
    np.testing.assert_allclose(gradient.numpy(), [2 / 3, 2 / 3], rtol=1e-6)


def test_real_numbers_of_python_and_numpy_take_the_precision_of_the_model(backend):
    model = plugrad_onnx.load(parse_model(DENSE_GRAPH, w=WEIGHTS))
    for x in (INPUT.tolist(), INPUT.astype(np.float64)):
        assert model(x).dtype == plugrad.float32


def test_the_pack_is_found():
    (pack,) = [p for p in plugrad.plugins("ops") if p.name == "onnx"]
    assert pack.distribution == "plugrad-onnx"
    assert plugrad.op_pack("onnx") is plugrad_onnx


def test_sparse_weights_become_dense():
    proto = parse_model("g () => (float[2, 2] y) { y = Identity(w) }")
    sparse = proto.graph.sparse_initializer.add(dims=[2, 2])
    sparse.values.CopyFrom(numpy_helper.from_array(np.array([5.0], np.float32), "w"))
    sparse.indices.CopyFrom(numpy_helper.from_array(np.array([2], np.int64)))
    np.testing.assert_array_equal(plugrad_onnx.load(proto)().numpy(), [[0, 0], [5, 0]])


NORMALIZING_GRAPH = """g (float[n, 4, h, w] x) => (float[n, k] y) {
    a = Conv<pads = [1, 1, 1, 1]>(x, f)
    b = BatchNormalization(a, scale, offset, mean, variance)
    c = Clip(b, zero, six)
    d = Conv<pads = [1, 1, 1, 1], group = 4>(c, g4, bias)
    e = BatchNormalization(d, scale, offset, mean, variance)
    f2 = Relu(e)
    h2 = GlobalAveragePool(f2)
    y = Flatten(h2)
}"""


def test_subgraphs_independent_of_inputs_are_folded(backend, rng):
    text = """g (float[n, 2, h, w] x) => (float[n, 2, h, w] y) {
        zero = Constant<value_float = 0.0>()
        six = Constant<value_float = 6.0>()
        shape = Shape(f)
        channels = Slice(shape, start, end)
        bias = Expand(six, channels)
        c = Conv(x, f, bias)
        low = CastLike(zero, c)
        high = CastLike(six, c)
        y = Clip(c, low, high)
    }"""
    ends = {"start": np.array([0], np.int64), "end": np.array([1], np.int64)}
    model = plugrad_onnx.load(
        parse_model(text, f=np.eye(2, dtype=np.float32).reshape(2, 2, 1, 1), **ends)
    )
    x = plugrad.asarray(rng.normal(size=(1, 2, 3, 3)).astype(np.float32) * 4)
    np.testing.assert_allclose(model(x).numpy(), np.clip(x.numpy() + 6, 0, 6), rtol=1e-6)
    graph = plugrad.make_graph(model)(x)
    kernels = [step.kernel.name for step in graph.steps]
    assert kernels == ["Transpose", "FusedConv2D", "Transpose"]


def test_random_numbers_are_drawn_at_each_call():
    model = plugrad_onnx.load(
        parse_model(
            "g (float x) => (float[9] y) { r = RandomNormal<shape = [9]>()  y = Add(r, x) }"
        )
    )
    assert (model(np.float32(0)).numpy() != model(np.float32(0)).numpy()).any()


def test_normalizations_and_activations_become_a_part_of_convolutions(backend, rng):
    weights = {
        "f": rng.normal(size=(4, 4, 3, 3)),
        "g4": rng.normal(size=(4, 1, 3, 3)),
        **{name: rng.normal(size=4) for name in ("offset", "mean", "bias")},
        **{name: rng.uniform(0.5, 1.5, 4) for name in ("scale", "variance")},
        "zero": 0.0,
        "six": 6.0,
    }
    proto = parse_model(
        NORMALIZING_GRAPH, **{k: np.asarray(v, np.float32) for k, v in weights.items()}
    )
    x = rng.normal(size=(2, 4, 5, 5)).astype(np.float32)
    (expected,) = ReferenceEvaluator(proto).run(None, {"x": x})
    model = plugrad_onnx.load(proto)
    np.testing.assert_allclose(model(x).numpy(), expected, rtol=1e-5, atol=1e-5)
    text = str(plugrad.make_graph(model)(plugrad.asarray(x)))
    assert "FusedConv2D" in text
    assert "FusedDepthwiseConv2D" in text
    assert "Rsqrt" not in text
    model.variables()
    np.testing.assert_allclose(model(x).numpy(), expected, rtol=1e-5, atol=1e-5)
    assert "Rsqrt" in str(plugrad.make_graph(model)(plugrad.asarray(x)))
    model.weights["scale"] = np.zeros(4, np.float32)
    assert (model(x).numpy() != expected).any()
