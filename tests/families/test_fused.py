"""Products and convolutions with a bias and an activation."""

import numpy as np
import pytest

import plugrad
from families import windows
from families.case import Case, ErrorCase
from families.domains import Domain, uniform
from families.sliding import kernel_attributes
from families.test_depthwise import reference_depthwise_convolution as convolve_depthwise
from plugrad.errors import ArgumentValueError, DTypeError, ShapeError
from plugrad.kernels import fused

# With a bias, what goes into the activation is an odd number of eighths, away from all kinks.
multiples_of_half = Domain(lambda rng, shape, dtype: (rng.integers(-4, 5, shape) / 2).astype(dtype))
odd_multiples_of_eighth = Domain(
    lambda rng, shape, dtype: (rng.integers(-8, 9, shape) / 4 + 1 / 8).astype(dtype)
)
ACTIVATIONS = {
    "linear": lambda y: y,
    "relu": lambda y: np.maximum(y, 0),
    "relu6": lambda y: np.clip(y, 0, 6),
    "elu": lambda y: np.where(y > 0, y, np.expm1(np.minimum(y, 0))),
    "sigmoid": lambda y: 1 / (1 + np.exp(-y)),
}


def add_bias_and_activate(y, bias, slopes, attrs):
    """Return the activation of y plus a bias."""
    z = y if bias is None else y + bias
    if attrs.get("activation") == "prelu":
        return np.where(z > 0, z, slopes * z)
    if attrs.get("activation") == "leakyrelu":
        return np.where(z > 0, z, attrs.get("leakyrelu_alpha", 0.2) * z)
    return ACTIVATIONS[attrs.get("activation", "linear")](z)


def expand_channels(x, data_format):
    """Return a vector of channels in a shape that broadcasts to images."""
    return x[:, None, None] if data_format == "NCHW" and np.ndim(x) == 1 else x


def reference_matmul(a, b, *, transpose_a=False, transpose_b=False):
    return (a.swapaxes(-1, -2) if transpose_a else a) @ (b.swapaxes(-1, -2) if transpose_b else b)


def reference_convolution(x, filter, **attrs):
    return windows.convolve(x, filter, **kernel_attributes(attrs, 2, "NHWC"))


OPS_AND_REFERENCES = {
    "matmul": (plugrad.fused.matmul, reference_matmul),
    "conv2d": (plugrad.fused.conv2d, reference_convolution),
    "depthwise_conv2d": (plugrad.fused.depthwise_conv2d, convolve_depthwise),
}


def fused_case(kind, shapes, attrs, *, bias=None, slopes=None):
    """Return a case of a fused op, with a bias and PReLU weights if their shapes are given."""
    op, reference = OPS_AND_REFERENCES[kind]

    def split_operands(a, b, *rest):
        rest = list(rest)
        given = {} if bias is None else {"bias": rest.pop(0)}
        return a, b, given, *([] if slopes is None else rest)

    def call(*tensors, **attrs):
        a, b, given, *weights = split_operands(*tensors)
        if weights:
            given["prelu_activation_weights"] = weights[0]
        return op(a, b, **given, **attrs)

    def expected(*arrays, **attrs):
        a, b, given, *weights = split_operands(*arrays)
        finish = {k: v for k, v in attrs.items() if k in ("activation", "leakyrelu_alpha")}
        rest = {k: v for k, v in attrs.items() if k not in finish}
        data_format = attrs.get("data_format", "NHWC")
        vectors = [
            None if x is None else expand_channels(x, data_format)
            for x in (given.get("bias"), weights[0] if weights else None)
        ]
        return add_bias_and_activate(reference(a, b, **rest), *vectors, finish)

    call.__name__ = kind
    factors = [uniform(-2, 2)] * 2 if bias is None else [multiples_of_half, multiples_of_half]
    extra = [
        (d, s)
        for d, s in ((odd_multiples_of_eighth, bias), (uniform(-2, 2), slopes))
        if s is not None
    ]
    domains, more = [*factors, *(d for d, _ in extra)], [s for _, s in extra]
    return Case(
        *(call, expected, domains, (*shapes, *more), attrs),
        is_sum=True,
        name=f"{kind} {attrs} bias={bias} slopes={slopes}",
    )


ACTIVATION_NAMES = [*ACTIVATIONS, "leakyrelu", "prelu"]
MATRIX_SHAPES = (3, 4), (4, 5)
MATMUL_CASES = [
    fused_case("matmul", MATRIX_SHAPES, {}),
    *(
        fused_case(
            "matmul",
            MATRIX_SHAPES,
            {"activation": activation},
            bias=(5,),
            slopes=(3, 1) if activation == "prelu" else None,
        )
        for activation in ACTIVATION_NAMES
    ),
    fused_case("matmul", ((4, 3), (4, 5)), {"transpose_a": True, "activation": "elu"}, bias=()),
    fused_case("matmul", ((3, 4), (5, 4)), {"transpose_b": True}, bias=(3, 5)),
    fused_case("matmul", ((4, 3), (5, 4)), {"transpose_a": True, "transpose_b": True}, bias=(1,)),
    fused_case("matmul", ((2, 1, 3, 4), (3, 4, 2)), {"activation": "sigmoid"}, bias=(3, 1, 2)),
    fused_case(
        "matmul", ((1, 3, 4), (2, 4, 2)), {"activation": "prelu"}, bias=(2, 1, 1), slopes=(2, 3, 1)
    ),
    fused_case("matmul", MATRIX_SHAPES, {"activation": "prelu"}, slopes=()),
    fused_case("matmul", MATRIX_SHAPES, {"activation": "leakyrelu", "leakyrelu_alpha": 0.5}),
    fused_case(
        "matmul", MATRIX_SHAPES, {"activation": "leakyrelu", "leakyrelu_alpha": -0.5}, bias=(5,)
    ),
    fused_case("matmul", MATRIX_SHAPES, {"activation": "leakyrelu", "leakyrelu_alpha": 0}),
]
CHANNELS_LAST_SHAPES = {
    "conv2d": ((2, 5, 4, 2), (3, 2, 2, 4)),
    "depthwise_conv2d": ((2, 5, 4, 2), (3, 2, 2, 2)),
}
CHANNELS_FIRST_SHAPES = {
    kind: ((2, 2, 5, 4), filter) for kind, (_, filter) in CHANNELS_LAST_SHAPES.items()
}
CONVOLUTION_CASES = [
    case
    for kind in CHANNELS_LAST_SHAPES
    for case in (
        *(
            fused_case(
                kind,
                CHANNELS_LAST_SHAPES[kind],
                {"activation": activation, "padding": "same"},
                bias=(4,),
                slopes=(4,) if activation == "prelu" else None,
            )
            for activation in ACTIVATION_NAMES
        ),
        fused_case(
            kind,
            CHANNELS_LAST_SHAPES[kind],
            {"strides": 2, "padding": 1, "dim_rounding_mode": "ceil"},
        ),
        fused_case(
            kind,
            CHANNELS_LAST_SHAPES[kind],
            {"dilations": (1, 2), "activation": "relu"},
            bias=(3, 2, 1),
        ),
        fused_case(
            kind,
            CHANNELS_LAST_SHAPES[kind],
            {"padding": ((1, 0), (0, 2)), "activation": "elu"},
            bias=(2, 4, 5, 4),
        ),
        fused_case(
            kind,
            CHANNELS_FIRST_SHAPES[kind],
            {"data_format": "NCHW", "activation": "sigmoid"},
            bias=(4,),
        ),
        fused_case(
            *(kind, CHANNELS_FIRST_SHAPES[kind], {"data_format": "NCHW", "activation": "prelu"}),
            bias=(),
            slopes=(4, 3, 1),
        ),
        fused_case(
            *(
                kind,
                CHANNELS_FIRST_SHAPES[kind],
                {"data_format": "NCHW", "activation": "prelu", "dilations": 2},
            ),
            bias=(4, 1, 1),
            slopes=(4,),
        ),
    )
]
CASES = [*MATMUL_CASES, *CONVOLUTION_CASES]
# Without a bias, a sum may lie so near to the kink that differences in float32 step over it.
CASES_WITHOUT_BIAS = [
    fused_case(
        kind,
        CHANNELS_FIRST_SHAPES[kind],
        {"data_format": "NCHW", "activation": "prelu"},
        slopes=(4, 3, 1),
    )
    for kind in CHANNELS_LAST_SHAPES
]
WIDE_MATMUL_CASES = [
    fused_case("matmul", ((3, 2), (2, 1500)), {"activation": activation}, bias=bias, slopes=slopes)
    for activation, bias, slopes in [
        ("relu6", (1500,), None),
        ("sigmoid", (3, 1), None),
        ("elu", (), None),
        ("prelu", (1500,), (1500,)),
        ("prelu", (3, 1), (1500,)),
        ("leakyrelu", (3, 1500), None),
    ]
]


# Bias and limits in the product itself: deep, narrow, of pixels, by tiles, in windows of 3 x 3 cells.
LARGE_CASES = [
    fused_case(
        *(kind, shapes, {"activation": activation, **attrs}),
        bias=(shapes[1][-1] * (shapes[1][2] if kind == "depthwise_conv2d" else 1),),
    )
    for kind, shapes, activation, attrs in [
        ("matmul", ((101, 601), (601, 9)), "relu", {}),
        ("matmul", ((70, 13), (70, 11)), "relu6", {"transpose_a": True}),
        ("conv2d", ((1, 5, 3, 600), (1, 1, 600, 13)), "relu6", {}),
        ("conv2d", ((2, 9, 7, 16), (3, 3, 16, 20)), "relu", {"padding": "same"}),
        ("conv2d", ((2, 9, 7, 3), (3, 3, 3, 12)), "relu6", {"strides": 2, "padding": 1}),
        ("depthwise_conv2d", ((2, 7, 12, 9), (3, 3, 9, 1)), "relu6", {"padding": "same"}),
        ("depthwise_conv2d", ((1, 6, 15, 21), (3, 3, 21, 1)), "relu", {"strides": 2, "padding": 1}),
        ("depthwise_conv2d", ((1, 6, 24, 4), (3, 3, 4, 5)), "linear", {"dilations": (2, 1)}),
        ("depthwise_conv2d", ((1, 6, 9, 3), (3, 3, 3, 1)), "relu", {}),
    ]
]


@pytest.mark.rows("case", [*CASES, *CASES_WITHOUT_BIAS, *WIDE_MATMUL_CASES, *LARGE_CASES], ids=str)
def test_values(case, backend, rng):
    case.check_values(rng)


@pytest.mark.rows("case", CASES[::2], ids=str)
def test_values_of_other_dtypes(case, backend, rng):
    case.check_values_of_other_dtypes(rng)


@pytest.mark.rows("case", CASES[2::5], ids=str)
def test_values_of_views(case, backend, rng):
    case.check_values_of_views(rng)


@pytest.mark.parametrize("activation", ACTIVATION_NAMES)
def test_float16_stays_float16(activation, backend, rng):
    if "float16" not in plugrad.which().backend.dtypes():
        pytest.skip(f"{backend} has no float16")
    slopes = {"prelu_activation_weights": np.full(5, 0.5, "float16")}
    attrs = {"activation": activation, **(slopes if activation == "prelu" else {})}
    a, b = (rng.uniform(-1, 1, shape).astype("float16") for shape in MATRIX_SHAPES)
    y = plugrad.fused.matmul(a, b, bias=np.ones(5, "float16"), **attrs)
    assert y.dtype == "float16"
    exact = plugrad.fused.matmul(
        *(x.astype("float32") for x in (a, b)),
        bias=1.0,
        activation=activation,
        prelu_activation_weights=0.5 if activation == "prelu" else None,
    )
    np.testing.assert_allclose(y.numpy(), exact.numpy(), rtol=4e-3, atol=4e-3)


def test_infinite_pixels_under_a_bias(backend, rng):
    x, filter = (
        rng.normal(size=shape).astype("float32") for shape in ((2, 8, 8, 16), (3, 3, 16, 16))
    )
    bias = rng.normal(size=16).astype("float32")
    x[1, 4, 5, 3] = np.inf
    y = plugrad.fused.conv2d(x, filter, padding="same", bias=bias, activation="relu6").numpy()
    exact = windows.convolve(
        *(z.astype("float64") for z in (x, filter)),
        **kernel_attributes({"padding": "same"}, 2, "NHWC"),
    )
    np.testing.assert_allclose(y, np.clip(exact + bias, 0, 6), rtol=1e-4, atol=1e-4)


def test_images_without_a_batch_axis(backend, rng):
    x, filter, bias = CONVOLUTION_CASES[1].draw(rng, "float32")
    together = plugrad.fused.conv2d(x, filter, bias=bias, activation="relu")
    alone = plugrad.fused.conv2d(x[1], filter, bias=bias, activation="relu")
    assert alone.shape == together.shape[1:]
    np.testing.assert_allclose(alone.numpy(), together[1].numpy(), rtol=1e-6, atol=1e-6)

    def value(x, bias):
        y = plugrad.fused.depthwise_conv2d(x, filter[..., :2], bias=bias, activation="elu")
        return plugrad.sum(y)

    gradients = plugrad.grad(value, (0, 1))(plugrad.asarray(x[1]), plugrad.asarray(bias))
    assert [g.shape for g in gradients] == [x[1].shape, bias.shape]


def test_operands_are_promoted(backend):
    y = plugrad.fused.matmul([[1, 2]], [[1], [1]], bias=[1.5])
    assert (y.dtype, y.tolist()) == ("float32", [[4.5]])


def test_inputs_are_not_overwritten(backend):
    x, bias = plugrad.asarray([[[[-1.0, 1.0]]]]), plugrad.asarray([-1.0, -1.0])
    plugrad.fused.conv2d(x, [[[[1.0, 0.0], [0.0, 1.0]]]], bias=bias, activation="relu")
    assert x.tolist() == [[[[-1, 1]]]]
    assert bias.tolist() == [-1, -1]


@pytest.mark.parametrize("activation", ACTIVATION_NAMES)
def test_nan_propagates_through_fused_kernels(activation, backend):
    slopes = {"prelu_activation_weights": 0.5} if activation == "prelu" else {}
    y = plugrad.fused.matmul([[plugrad.nan], [1.0]], [[1.0]], activation=activation, **slopes)
    assert np.isnan(y.numpy()).tolist() == [[True], [False]]


@pytest.mark.rows("case", CASES, ids=str)
def test_gradient(case, backend, rng):
    case.check_gradient(rng, backend)


def ones(*shape):
    return plugrad.ones(shape)


ERROR_CASES = [
    ErrorCase(
        lambda: plugrad.fused.conv2d(ones(1, 4, 4, 1), np.ones((2, 2, 1, 1), "int32")),
        DTypeError,
        ["conv2d: filter is int32", "a float", "plugrad.astype(filter, 'float32')"],
    ),
    ErrorCase(
        lambda: plugrad.fused.matmul(ones(2, 3), ones(4, 2)),
        ShapeError,
        ["_FusedMatMul", "(2, 3)", "(4, 2)", "3 columns"],
    ),
    ErrorCase(
        lambda: plugrad.fused.matmul(ones(2, 3), ones(3, 2), activation="tanh"),
        ArgumentValueError,
        ["_FusedMatMul", "activation='tanh'", "'linear'", "'prelu'"],
    ),
    ErrorCase(
        lambda: plugrad.fused.matmul(ones(2, 3), ones(3, 2), activation="prelu"),
        ArgumentValueError,
        ["activation='prelu'", "prelu_activation_weights are missing"],
    ),
    ErrorCase(
        lambda: plugrad.fused.matmul(ones(2, 3), ones(3, 2), prelu_activation_weights=0.5),
        ArgumentValueError,
        ["activation='linear'", "prelu_activation_weights are given"],
    ),
    ErrorCase(
        lambda: plugrad.fused.matmul(ones(2, 3), ones(3, 2), bias=ones(3)),
        ShapeError,
        ["_FusedMatMul", "bias", "(3,)", "(2, 2)"],
    ),
    ErrorCase(
        lambda: plugrad.fused.matmul(ones(1, 3), ones(3, 2), bias=ones(2, 2)),
        ShapeError,
        ["_FusedMatMul", "bias", "(2, 2)", "(1, 2)"],
    ),
    ErrorCase(
        lambda: fused.matmul(ones(2, 3) > 0, ones(3, 2)),
        DTypeError,
        ["_FusedMatMul", "bool", "astype"],
    ),
    ErrorCase(
        lambda: fused.matmul(ones(2, 3), ones(3, 2), plugrad.asarray([1, 2])),
        DTypeError,
        ["_FusedMatMul", "float32, int32"],
    ),
    ErrorCase(
        lambda: plugrad.fused.conv2d(ones(1, 4, 4, 1), ones(2, 2, 1, 3), bias=ones(1, 1, 1, 1, 3)),
        ShapeError,
        ["FusedConv2D", "bias", "(1, 1, 1, 1, 3)", "(1, 3, 3, 3)"],
    ),
    ErrorCase(
        lambda: plugrad.fused.conv2d(
            *(ones(1, 1, 5, 4), ones(2, 2, 1, 4)),
            data_format="NCHW",
            activation="prelu",
            prelu_activation_weights=ones(3),
        ),
        ShapeError,
        ["FusedConv2D", "prelu_activation_weights", "(3,)", "(1, 4, 3, 4)"],
    ),
    ErrorCase(
        lambda: plugrad.fused.conv2d(ones(1, 4, 4, 3), ones(2, 2, 4, 1)),
        ShapeError,
        ["FusedConv2D", "3 channels", "expect 4"],
    ),
    ErrorCase(
        lambda: plugrad.fused.conv2d(ones(4, 4), ones(2, 2, 4, 1)),
        ShapeError,
        ["conv2d", "3 or 4 axes", "(4, 4)"],
    ),
    ErrorCase(
        lambda: plugrad.fused.depthwise_conv2d(ones(1, 4, 4, 3), ones(2, 2, 4, 1)),
        ShapeError,
        ["FusedDepthwiseConv2D", "3 channels", "expect 4"],
    ),
    ErrorCase(
        lambda: plugrad.fused.depthwise_conv2d(ones(1, 4, 4, 1), ones(2, 2, 1, 1), padding="full"),
        ArgumentValueError,
        ["depthwise_conv2d: padding='full'", "'valid'"],
    ),
    ErrorCase(
        lambda: plugrad.run_kernel(
            "_FusedMatMul", {"a": ones(2, 3), "b": ones(3, 2)}, {"activation": "selu"}
        ),
        ArgumentValueError,
        ["_FusedMatMul", "activation='selu'"],
    ),
]


@pytest.mark.rows("error_case", ERROR_CASES, ids=str)
def test_bad_input(error_case, backend):
    error_case.check()
