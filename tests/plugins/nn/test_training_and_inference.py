"""Training and inference modes: statistics, dropout and seeds; and parameters for optimizers and gradients."""

import numpy as np
import pytest

import plugrad
import plugrad_nn as nn
from plugins.nn import references as ref
from plugins.nn.conftest import as_numpy
from plugrad.extend import ArgumentError, ArgumentValueError, DTypeError, ShapeError
from plugrad.testing import check_gradient

NETWORK = nn.Sequential(
    nn.Conv2D(3, 2), nn.BatchNorm(momentum=0.75), plugrad.tanh, nn.Flatten(), nn.Dense(2)
)


def test_batches_are_normalized_by_their_own_statistics(backend, make_params, rng):
    layer = nn.BatchNorm(momentum=0.75)
    params, x = make_params(layer, (4, 3)), rng.normal(2, 3, (5, 4, 3)).astype(np.float32)
    before = as_numpy(params)
    training = nn.Training(seed=0)
    y = layer(params, x, training)

    wide = x.astype(np.float64)
    expected = ref.normalization(wide, (0, 1)) * before["gamma"] + before["beta"]
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)
    assert as_numpy(params)["moving_mean"].tolist() == before["moving_mean"].tolist()  # pure

    training.commit(params)
    mean = 0.75 * before["moving_mean"] + 0.25 * wide.mean((0, 1))
    variance = 0.75 * before["moving_variance"] + 0.25 * wide.var((0, 1))
    np.testing.assert_allclose(params["moving_mean"], mean, rtol=1e-5)
    np.testing.assert_allclose(params["moving_variance"], variance, rtol=1e-5)


def test_gradient_flows_through_the_statistics_of_the_batch(rng):
    layer = nn.BatchNorm()
    with plugrad.use("cpu"):
        params = layer.init(0, (2,), "float64")

        def function(x, gamma, beta):
            return layer(params | {"gamma": gamma, "beta": beta}, x, nn.Training(0))

        check_gradient(function, rng.normal(size=(4, 2)), rng.normal(size=2), rng.normal(size=2))


def test_statistics_have_the_names_of_their_layers_inside_others(backend, rng):
    model = nn.Sequential(nn.Residual(nn.BatchNorm()), nn.BatchNorm())
    params, training = model.init(0, (2,)), nn.Training(3)
    model(params, rng.normal(size=(4, 2)).astype(np.float32), training)
    assert {n: list(part) for n, part in training.updates.items()} == {
        "residual": ["batch_norm"],
        "batch_norm": ["moving_mean", "moving_variance"],
    }
    training.commit(params)
    assert (params["residual"]["batch_norm"]["moving_mean"].numpy() != 0).all()
    with pytest.raises(ArgumentError, match=r"do not have 'residual.batch_norm.moving_mean'"):
        training.commit(nn.Dense(1).init(0, (2,)))
    with pytest.raises(ArgumentError, match="to which nothing can be assigned"):
        training.commit(as_numpy(params))


def test_dropout_depends_on_the_seed_and_the_name(backend):
    model = nn.Sequential(nn.Dropout(0.25), nn.Residual(nn.Dropout(0.25)))
    x = np.ones((20, 50), np.float32)
    first = model({}, x, nn.Training(1)).numpy()
    np.testing.assert_array_equal(first, model({}, x, nn.Training(1)))
    assert (first != model({}, x, nn.Training(2)).numpy()).any()
    once = nn.Sequential(nn.Dropout(0.25))({}, x, nn.Training(1)).numpy()
    assert set(np.unique(once).round(5)) == {0, np.float32(4 / 3).round(5)}
    assert 0.2 < (once == 0).mean() < 0.3
    assert np.corrcoef(once.ravel(), (first - once).ravel())[0, 1] < 0.9  # another mask inside
    np.testing.assert_array_equal(model({}, x), x + x)
    with plugrad.use("cpu"):
        np.testing.assert_array_equal(first, model({}, x, nn.Training(1)))


@pytest.mark.parametrize(
    ("layer", "mean", "deviation"),
    [
        (nn.GaussianNoise(0.5), 3.0, 0.5),
        (nn.GaussianDropout(0.2), 3.0, 1.5),
        (nn.SpatialDropout(0.2), 3.0, 1.5),
    ],
)
def test_noise_has_its_mean_and_deviation_in_training_only(layer, mean, deviation, backend):
    x = plugrad.full((500, 4), 3.0)
    assert (layer({}, x).numpy() == 3.0).all()
    y = layer({}, x, nn.Training(seed=1)).numpy()
    assert abs(y.mean() - mean) < 0.15
    assert abs(y.std() - deviation) < 0.15


def test_spatial_dropout_drops_whole_channels(backend):
    y = nn.SpatialDropout(0.5)({}, plugrad.ones((4, 3, 2, 5)), nn.Training(seed=0)).numpy()
    assert set(np.unique(y)) == {0.0, 2.0}
    assert (y == y[:, :1, :1]).all()


def test_dropout_is_the_same_when_a_checkpoint_computes_it_again(backend):
    layer, x = nn.Dropout(0.5), plugrad.ones((30,))

    def loss(x):
        return plugrad.sum(plugrad.square(layer({}, x, nn.Training(4))))

    plain = plugrad.grad(loss)(x).numpy()
    np.testing.assert_array_equal(plugrad.grad(plugrad.checkpoint(loss))(x), plain)
    assert set(plain.tolist()) == {0.0, 8.0}


def test_attention_weights_drop_in_training(backend, make_params, rng):
    layer = nn.MultiHeadAttention(2, 3, dropout=0.5)
    params, x = make_params(layer, (4, 3)), rng.normal(size=(2, 4, 3)).astype(np.float32)
    still = layer(params, x).numpy()
    np.testing.assert_array_equal(still, nn.MultiHeadAttention(2, 3)(params, x))
    assert (layer(params, x, nn.Training(0)).numpy() != still).any()


def test_attention_to_a_context_under_a_mask(backend, make_params, rng):
    layer = nn.MultiHeadAttention(2, 3)
    params = make_params(layer, (4, 3))
    x, context = (rng.normal(size=(2, n, 3)).astype(np.float32) for n in (4, 5))
    mask = rng.random((2, 1, 4, 5)) < 0.6
    mask[0, 0, 0] = False  # nothing is allowed: equal weights
    y = layer(params, x, context=context, mask=mask)
    p = as_numpy(params)
    expected = ref.multi_head_attention(p, x.astype(float), 2, context.astype(float), mask)
    np.testing.assert_allclose(y, expected, rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("layer", [nn.LSTM(3), nn.GRU(3)], ids=str)
def test_step_by_step_outputs_match_the_whole_sequence(layer, backend, make_params, rng):
    params, x = make_params(layer, (4, 2)), rng.normal(size=(2, 4, 2)).astype(np.float32)
    state = layer.initial_state(params, 2)
    for t in range(4):
        state = layer.step(params, x[:, t], state)
    np.testing.assert_allclose(state[0], layer(params, x), rtol=1e-5, atol=1e-6)
    no_time = plugrad.zeros((2, 0, 2))
    assert not layer(params, no_time).numpy().any()
    everything = type(layer)(3, return_sequences=True)
    assert everything(params, no_time).shape == (2, 0, 3)


def test_embedding_returns_rows_of_its_table(backend, make_params, rng):
    layer = nn.Embedding(5, 3)
    params = make_params(layer, ())
    x = np.array([[0, 4], [2, 2]], np.int32)
    np.testing.assert_array_equal(layer(params, x), params["embeddings"].numpy()[x])
    gradient = plugrad.grad(lambda p: plugrad.sum(layer(p, x)))(params)["embeddings"]
    np.testing.assert_array_equal(gradient.numpy()[:, 0], [1, 0, 2, 0, 1])
    model = nn.Sequential(layer, nn.Flatten(), nn.Dense(2))
    assert model.init(0, (4,))["dense"]["kernel"].shape == (12, 2)


def test_optimizers_update_only_trainable_parameters(backend, rng):
    params = NETWORK.init(1, (3, 3, 1))
    x = rng.normal(size=(8, 3, 3, 1)).astype(np.float32)
    y = rng.normal(size=(8, 2)).astype(np.float32)
    optimizer = plugrad.optimizers.AdamW(0.05, weight_decay=0.1)
    values = []
    for step in range(15):
        training = nn.Training(step)

        def loss(training=training):
            return plugrad.losses.mean_squared_error(y, NETWORK(params, x, training))

        statistics = as_numpy(params)["batch_norm"]["moving_mean"]
        values.append(optimizer.minimize(loss, nn.leaves(params)).item())
        np.testing.assert_array_equal(params["batch_norm"]["moving_mean"], statistics)
        training.commit(params)
    assert values[-1] < 0.5 * values[0]
    # The moving averages are near those of the last batch, so inference gives nearly the same.
    in_training = NETWORK(params, x, nn.Training(0)).numpy()
    np.testing.assert_allclose(NETWORK(params, x), in_training, atol=0.3)


def test_grad_takes_parameters_with_statistics():
    params = NETWORK.init(0, (3, 3, 1))

    def loss(params):
        return plugrad.sum(NETWORK(params, plugrad.ones((2, 3, 3, 1)), nn.Training(0)))

    gradients = plugrad.grad(loss, allow_unused=True)(params)
    assert list(gradients) == ["conv2d", "batch_norm", "dense"]
    assert not gradients["batch_norm"]["moving_mean"].numpy().any()


def test_the_same_seed_gives_the_same_parameters_on_every_backend(backend):
    ours = as_numpy(NETWORK.init(7, (3, 3, 1)))
    names = [v.name for v in nn.leaves(NETWORK.init(7, (3, 3, 1)))]
    assert names[:2] == ["conv2d.kernel", "conv2d.bias"]
    assert "batch_norm.moving_mean" in names
    with plugrad.use("cpu"):
        theirs = as_numpy(NETWORK.init(plugrad.random.Generator(7), (3, 3, 1)))
        others = as_numpy(NETWORK.init(8, (3, 3, 1)))
    np.testing.assert_array_equal(ours["conv2d"]["kernel"], theirs["conv2d"]["kernel"])
    assert (ours["conv2d"]["kernel"] != others["conv2d"]["kernel"]).any()


def test_assign_sets_all_parameters_or_none(backend):
    layer = nn.Dense(2)
    params, others = layer.init(0, (3,)), layer.init(1, (3,))
    before = as_numpy(params)
    nn.assign(params, {"kernel": others["kernel"].numpy().astype(np.float64), "bias": [1.0, 2.0]})
    np.testing.assert_array_equal(params["kernel"], others["kernel"])
    assert params["kernel"].dtype == plugrad.float32
    nn.assign(params, before)
    for values, error, message in [
        ({"kernel": others["kernel"]}, ArgumentError, "do not have 'bias'"),
        ({"kernel": others["kernel"], "bias": [1.0]}, ShapeError, r"'bias' has shape \(2,\)"),
        ({**others, "scale": 1.0}, ArgumentError, "do not have 'scale'"),
        ([1.0], ArgumentError, "nested dicts"),
    ]:
        with pytest.raises(error, match=message):
            nn.assign(params, values)
        np.testing.assert_array_equal(params["kernel"], before["kernel"])


def test_traced_steps_drop_the_same_elements_as_untraced_ones():
    """The seed is a function of the step, which a traced step calls for each run."""
    model = nn.Sequential(nn.Dense(8), nn.BatchNorm(), nn.Dropout(0.5), nn.Dense(1))
    x = plugrad.asarray(np.linspace(-1, 1, 24).reshape(8, 3).astype("float32"))

    def make():
        params, optimizer = model.init(0, (3,)), plugrad.optimizers.Adam(0.1)

        def step(x):
            training = nn.Training(lambda: optimizer.iterations)
            value = optimizer.minimize(
                lambda: plugrad.mean(model(params, x, training) ** 2), nn.leaves(params)
            )
            training.commit(params)
            return value

        return params, step

    (first, plain), (second, step) = make(), make()
    traced = plugrad.jit(step)
    losses = [(plain(x).item(), traced(x).item()) for _ in range(5)]
    assert all(a == b for a, b in losses)
    assert len({a for a, _ in losses}) == 5
    for a, b in zip(nn.leaves(first), nn.leaves(second), strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_seeds_that_a_function_returns_are_those_of_numbers():
    layer, x = nn.Dropout(0.5), plugrad.ones((4, 50))
    a, b = (layer({}, x, nn.Training(seed)) for seed in (7, lambda: 7))
    np.testing.assert_array_equal(a.numpy(), b.numpy())
    with pytest.raises(ArgumentValueError, match="seed=-1"):
        layer({}, x, nn.Training(lambda: -1))


@pytest.mark.parametrize(
    "layer",
    [
        nn.LSTM(3),
        nn.GRU(3, return_sequences=True),
        nn.SimpleRNN(2),
        nn.Bidirectional(nn.GRU(2)),
        nn.Bidirectional(nn.LSTM(2, return_sequences=True)),
    ],
    ids=repr,
)
def test_masked_elements_are_as_if_absent(layer, backend, make_params, rng):
    x = rng.normal(size=(2, 6, 3)).astype(np.float32)
    lengths = [6, 4]
    mask = np.arange(6) < np.array(lengths)[:, None]
    params = make_params(layer, (6, 3))
    y = layer(params, x, mask=mask).numpy()
    for example, length in enumerate(lengths):
        alone = layer(params, x[example : example + 1, :length]).numpy()[0]
        found = y[example, :length] if y.ndim == 3 else y[example]
        np.testing.assert_allclose(found, alone, rtol=1e-5, atol=1e-6)
    x[~mask] = np.nan
    gradient = plugrad.grad(lambda x: plugrad.sum(layer(params, x, mask=mask)))(plugrad.asarray(x))
    assert np.all(np.isfinite(gradient.numpy()))
    assert not np.any(gradient.numpy()[~mask])


def test_invalid_sequence_masks_are_rejected():
    params, x = nn.GRU(2).init(0, (4, 3)), plugrad.ones((2, 4, 3))
    with pytest.raises(ShapeError, match=r"mask has shape \(2, 3\)"):
        nn.GRU(2)(params, x, mask=np.ones((2, 3), bool))
    with pytest.raises(DTypeError, match="must hold bools"):
        nn.GRU(2)(params, x, mask=np.ones((2, 4)))


def test_a_decoder_attends_to_a_context(backend, make_params, rng):
    layer = nn.TransformerDecoderBlock(2, 5)
    params = make_params(layer, (4, 6))
    x, context = (rng.normal(size=(2, n, 6)).astype(np.float32) for n in (4, 3))
    mask = rng.random((2, 1, 4, 3)) < 0.7
    mask[..., 0] = True
    p = as_numpy(params)
    causal = np.tril(np.ones((4, 4), bool))
    y = x + ref.multi_head_attention(p["attention"], x, 2, mask=causal)
    y = ref.scale_and_shift(p["attention_norm"], ref.normalization(y, -1))
    y = y + ref.multi_head_attention(p["context_attention"], y, 2, context, mask)
    y = ref.scale_and_shift(p["context_attention_norm"], ref.normalization(y, -1))
    hidden = np.maximum(y @ p["hidden"]["kernel"] + p["hidden"]["bias"], 0)
    y = y + hidden @ p["output"]["kernel"] + p["output"]["bias"]
    expected = ref.scale_and_shift(p["output_norm"], ref.normalization(y, -1))
    found = layer(params, x, context=context, context_mask=mask)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_dropout_of_a_block_is_new_for_each_part(make_params):
    layer = nn.TransformerEncoderBlock(1, 8, dropout=0.5)
    params = make_params(layer, (3, 4))
    x = plugrad.ones((2, 3, 4))
    first, second = (layer(params, x, nn.Training(seed)).numpy() for seed in (0, 1))
    assert not np.array_equal(first, second)
    np.testing.assert_array_equal(layer(params, x, nn.Training(0)), first)


def test_products_of_rotary_embeddings_depend_on_distance_only(backend, rng):
    q, k = (rng.normal(size=8).astype(np.float32) for _ in range(2))
    queries, keys = (plugrad.asarray(np.tile(v, (6, 1))) for v in (q, k))
    scores = (nn.rotate_positions(queries) @ nn.rotate_positions(keys).T).numpy()
    for offset in range(-5, 6):
        diagonal = np.diagonal(scores, offset)
        np.testing.assert_allclose(diagonal, diagonal[0], rtol=1e-4, atol=1e-5)
    later = nn.rotate_positions(queries[:2], start=4)
    np.testing.assert_allclose(later, nn.rotate_positions(queries)[4:], rtol=1e-6)


@pytest.mark.parametrize("combiner", ["mean", "sum", "max"])
def test_embedding_bag_combines_rows(combiner, backend, make_params):
    layer = nn.EmbeddingBag(6, 3, combiner)
    params = make_params(layer, (4,))
    table = params["embeddings"].numpy()
    bags = [[1, 2, 5, 2], [3, -1, -1, -1], [-1, -1, -1, -1]]
    expected = [
        getattr(np, combiner)(table[[i for i in bag if i >= 0]], 0) if max(bag) >= 0 else [0, 0, 0]
        for bag in bags
    ]
    np.testing.assert_allclose(layer(params, np.array(bags)), expected, rtol=1e-6)
    assert layer.output_shape(params, (4,)) == (3,)
    _, gradients = plugrad.variable_grads(
        lambda: plugrad.sum(layer(params, np.array(bags[:2])) * np.arange(3.0, dtype=np.float32)),
        [params["embeddings"]],
    )
    share = {"sum": [1, 2, 1], "mean": [1 / 4, 1 / 2, 1 / 4]}.get(combiner)
    if share is not None:
        rows = np.zeros((6, 1), np.float32)
        rows[[1, 2, 5], 0], rows[3] = share, 1
    else:  # each column's gradient goes to the row that has its largest number
        rows = np.zeros((6, 3), np.float32)
        rows[np.array([1, 2, 5])[table[[1, 2, 5]].argmax(0)], [0, 1, 2]] = 1
        rows[3] = 1
    np.testing.assert_allclose(gradients[0].numpy(), rows * np.arange(3.0), rtol=1e-6)


def test_a_spectral_norm_is_1(backend, make_params, rng):
    layer = nn.SpectralNorm(nn.Dense(4, use_bias=False), iterations=30)
    params = layer.init(0, (5,))
    params["kernel"].assign(plugrad.asarray(rng.normal(size=(5, 4)).astype(np.float32)))
    training = nn.Training(seed=0)
    x = np.eye(5, dtype=np.float32)
    kernel = layer(params, x, training).numpy()
    np.testing.assert_allclose(np.linalg.svd(kernel)[1][0], 1, rtol=1e-4)
    training.commit(params)
    np.testing.assert_allclose(layer(params, x), kernel, rtol=1e-4, atol=1e-6)

    def largest(kernel):
        return plugrad.sum(layer({**params, "kernel": kernel}, x))

    # The scale of a kernel has no influence, so the gradient is orthogonal to it.
    gradient = plugrad.grad(largest)(params["kernel"]).numpy()
    assert abs((gradient * params["kernel"].numpy()).sum()) < 1e-3


def test_weight_normalization_starts_with_the_weights_of_its_layer(backend):
    layer = nn.WeightNorm(nn.Conv2D(3, 2))
    params, plain = layer.init(0, (4, 4, 2)), nn.Conv2D(3, 2).init(0, (4, 4, 2))
    x = plugrad.ones((1, 4, 4, 2))
    np.testing.assert_allclose(layer(params, x), nn.Conv2D(3, 2)(plain, x), rtol=1e-5)
    assert layer.output_shape(params, (4, 4, 2)) == (3, 3, 3)
    with pytest.raises(ArgumentError, match="has no parameter 'kernels'"):
        nn.WeightNorm(nn.Dense(2), "kernels").init(0, (3,))
