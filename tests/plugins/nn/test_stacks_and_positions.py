"""Layers that return positions or take them, stacks of blocks, and layers for raw inputs."""

import numpy as np
import pytest

import plugrad
import plugrad_nn as nn
from plugrad.extend import ArgumentError, ArgumentValueError, DTypeError, ShapeError


def random_float32(*shape):
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("padding", ["valid", "same"])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_unpooling_restores_maxima_to_their_positions(rank, padding, backend):
    sizes = (5, 4, 6)[:rank]
    x = random_float32(2, *sizes, 3)
    pool = getattr(nn, f"MaxPooling{rank}D")(2, padding=padding, return_positions=True)
    values, positions = pool({}, x)
    plain = getattr(nn, f"MaxPooling{rank}D")(2, padding=padding)({}, x)
    np.testing.assert_array_equal(values.numpy(), plain.numpy())
    back = getattr(nn, f"MaxUnpooling{rank}D")(2, output_size=sizes)({}, (values, positions))
    found = back.numpy()
    assert found.shape == x.shape
    is_kept = found != 0
    np.testing.assert_array_equal(found[is_kept], x[is_kept])
    assert is_kept.sum() == values.size


def test_positions_in_a_graph(backend):
    model = nn.Graph(
        "x",
        {
            "pooled": (nn.MaxPooling2D(return_positions=True), "x"),
            "values": (lambda pair: pair[0] * 2, "pooled"),
            "positions": (lambda pair: pair[1], "pooled"),
            "y": (nn.MaxUnpooling2D(), "values", "positions"),
            "z": (nn.Conv2D(2, 1), "y"),
        },
        "z",
    )
    params = model.init(0, (4, 6, 3))
    assert model.output_shape(params, (4, 6, 3)) == (4, 6, 2)
    assert model(params, random_float32(2, 4, 6, 3)).shape == (2, 4, 6, 2)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: nn.MaxUnpooling2D()({}, random_float32(1, 2, 2, 1)),
            ArgumentError,
            "x must be a pair",
        ),
        (
            lambda: nn.MaxUnpooling2D()({}, [random_float32(2, 2, 1)] * 2),
            ShapeError,
            "must have 4 axes",
        ),
        (lambda: nn.MaxUnpooling2D(output_size=0), ArgumentValueError, "output_size"),
        (lambda: nn.MaxPooling2D(return_positions=2), ArgumentError, "return_positions"),
        (
            lambda: nn.CenterCrop(3, 3)({}, random_float32(1, 2, 4, 1)),
            ShapeError,
            "smaller than 3 x 3",
        ),
        (
            lambda: nn.CenterCrop(3, 3)({}, random_float32(2, 4, 1)),
            ShapeError,
            "batch, height, width",
        ),
        (lambda: nn.Resizing(3, 3, "cubic"), ArgumentValueError, "interpolation"),
        (
            lambda: nn.CategoryEncoding(3)({}, random_float32(1, 2)),
            DTypeError,
            "must hold integers",
        ),
        (
            lambda: nn.CategoryEncoding(3, "one_hot")({}, [[1, 2]]),
            ShapeError,
            r"must be \(batch,\) or \(batch, 1\)",
        ),
        (lambda: nn.TransformerEncoder(nn.Dense(2), 2), ArgumentError, "TransformerEncoderBlock"),
        (
            lambda: nn.TransformerDecoder(nn.TransformerEncoderBlock(2, 4), 2),
            ArgumentError,
            "TransformerDecoderBlock",
        ),
        (
            lambda: nn.TransformerEncoder(nn.TransformerEncoderBlock(2, 4), 0),
            ArgumentValueError,
            "num_blocks",
        ),
    ],
)
def test_bad_input(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_resizing_is_that_of_the_ops(backend):
    x = random_float32(2, 4, 5, 2)
    for interpolation, op in (
        ("bilinear", plugrad.image.resize_bilinear),
        ("nearest", plugrad.image.resize_nearest_neighbor),
    ):
        for corners in (False, True):
            layer = nn.Resizing(7, 3, interpolation, corners)
            how = {"align_corners": corners, "half_pixel_centers": not corners}
            np.testing.assert_array_equal(layer({}, x).numpy(), op(x, (7, 3), **how).numpy())


def test_category_encoding(backend):
    x = plugrad.asarray([[0, 1, 1, 9], [3, 3, 3, -1]])
    assert nn.CategoryEncoding(4)({}, x).tolist() == [[1, 1, 0, 0], [0, 0, 0, 1]]
    assert nn.CategoryEncoding(4, "count")({}, x).tolist() == [[1, 2, 0, 0], [0, 0, 0, 3]]
    for one in ([2, 0], [[2], [0]]):
        assert nn.CategoryEncoding(3, "one_hot")({}, one).tolist() == [[0, 0, 1], [1, 0, 0]]


def test_alpha_dropout_keeps_mean_and_variance(backend):
    """The input is SELU of normal numbers; with a rate of 0 it is returned unchanged."""
    x = plugrad.selu(random_float32(400, 500))
    y = nn.AlphaDropout(0.3)({}, x, nn.Training(seed=1)).numpy()
    assert abs(y.mean() - x.numpy().mean()) < 0.01
    assert abs(y.var() - x.numpy().var()) < 0.02
    lowest = y.min()
    assert abs((y == lowest).mean() - 0.3) < 0.01
    for same in (nn.AlphaDropout(0)({}, x, nn.Training(seed=1)), nn.AlphaDropout(0.3)({}, x)):
        np.testing.assert_array_equal(same.numpy(), x.numpy())


def test_an_encoder_goes_on_from_its_state(backend):
    block = nn.TransformerEncoderBlock(2, 8, causal=True, norm_first=True)
    layer = nn.TransformerEncoder(block, 3, nn.LayerNorm())
    params = layer.init(0, (5, 6))
    x = random_float32(2, 5, 6)
    state = layer.initial_state(params, 2, 5)
    parts = []
    for place in range(5):
        y, state = layer.step(params, x[:, place : place + 1], state)
        parts.append(y.numpy())
    whole = layer(params, x).numpy()
    np.testing.assert_allclose(np.concatenate(parts, axis=1), whole, rtol=1e-5, atol=1e-5)


def test_a_decoder_attends_to_one_context(backend):
    block = nn.TransformerDecoderBlock(2, 8)
    layer, x, context = (
        nn.TransformerDecoder(block, 2),
        random_float32(2, 5, 6),
        random_float32(2, 3, 6) + 1,
    )
    params = layer.init(0, (5, 6))
    blocks = params["layers"]
    wanted = block(blocks["0"], x, context=context)
    wanted = block(blocks["1"], wanted, context=context)
    np.testing.assert_array_equal(layer(params, x, context=context).numpy(), wanted.numpy())
    alone = block(blocks["1"], block(blocks["0"], x), context=x)
    np.testing.assert_array_equal(layer(params, x).numpy(), alone.numpy())
