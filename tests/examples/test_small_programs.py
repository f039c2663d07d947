"""Eight programs that newcomers write, each as short as in Keras or PyTorch: they learn what they should."""

import numpy as np
import pytest

import plugrad
import plugrad_nn as nn

numerics = pytest.importorskip("plugrad_numerics")
distributions, integrate = numerics.distributions, numerics.integrate


def train(loss, variables, *, steps, rate=0.01, compiled=False):
    """Take steps of Adam, and return the loss before the first and before the last one."""
    optimizer = plugrad.optimizers.Adam(rate)

    def step():
        return optimizer.minimize(loss, variables)

    run = plugrad.jit(step) if compiled else step
    losses = [run().item() for _ in range(steps)]
    return losses[0], losses[-1]


def normal(*shape):
    return plugrad.random.standard_normal(shape)


@pytest.fixture(autouse=True)
def seeded():
    plugrad.random.seed(34)
    with plugrad.use("cpu"):
        yield


def test_generative_adversarial_network():
    generator = nn.Sequential(nn.Dense(16, plugrad.relu), nn.Dense(1))
    critic = nn.Sequential(nn.Dense(16, plugrad.relu), nn.Dense(1))
    g, c = generator.init(0, (4,)), critic.init(1, (1,))
    adams = [plugrad.optimizers.Adam(0.01, beta1=0.5) for _ in range(2)]

    def loss_of_critic():
        real, made = critic(c, 3 + 0.5 * normal(64, 1)), critic(c, generator(g, normal(64, 4)))
        return plugrad.mean(plugrad.softplus(-real) + plugrad.softplus(made))

    def loss_of_generator():
        return plugrad.mean(plugrad.softplus(-critic(c, generator(g, normal(64, 4)))))

    for _ in range(250):
        adams[0].minimize(loss_of_critic, nn.leaves(c))
        adams[1].minimize(loss_of_generator, nn.leaves(g))
    assert abs(plugrad.mean(generator(g, normal(500, 4))).item() - 3) < 1


def test_diffusion_model():
    rounds = 20
    kept = np.cumprod(1 - np.linspace(0.01, 0.4, rounds)).astype("float32")
    model = nn.Sequential(nn.Dense(48, plugrad.silu), nn.Dense(48, plugrad.silu), nn.Dense(1))
    params = model.init(0, (1 + rounds,))

    def predict(x, t):
        return model(params, plugrad.concat([x, plugrad.one_hot(t, rounds)], axis=1))

    def loss():
        x = plugrad.where(plugrad.random.bernoulli((256, 1)) > 0, 2.0, -2.0) + 0.1 * normal(256, 1)
        t, noise = plugrad.random.integers((256,), 0, rounds), normal(256, 1)
        share = plugrad.take(kept, t)[:, None]
        mixed = plugrad.sqrt(share) * x + plugrad.sqrt(1 - share) * noise
        return plugrad.mean((predict(mixed, t) - noise) ** 2)

    train(loss, nn.leaves(params), steps=400)
    x = normal(200, 1)
    for t in reversed(range(rounds)):
        step = kept[t] / (kept[t - 1] if t else 1)
        noise = predict(x, plugrad.full((200,), t, dtype="int32"))
        x = (x - (1 - step) / np.sqrt(1 - kept[t]) * noise) / np.sqrt(step)
        x = x + np.sqrt(1 - step) * normal(200, 1) if t else x
    near = np.abs(np.abs(x.numpy()) - 2) < 0.6
    assert near.mean() > 0.8
    assert 0.2 < (x.numpy() > 0).mean() < 0.8


def test_sequence_to_sequence_with_attention():
    tokens, length, width = 6, 4, 24
    parts = {
        "read": nn.Embedding(tokens, width),
        "encoder": nn.GRU(width, return_sequences=True),
        "say": nn.Embedding(tokens + 1, width),
        "decoder": nn.GRU(width, return_sequences=True),
        "out": nn.Dense(tokens),
    }
    shapes = [(length,), (length, width), (length,), (length, width), (length, 2 * width)]
    params = {
        name: part.init(i, shape)
        for i, ((name, part), shape) in enumerate(zip(parts.items(), shapes, strict=True))
    }
    rng = np.random.default_rng(0)

    def logits(words, said):
        memory = parts["encoder"](params["encoder"], parts["read"](params["read"], words))
        state = parts["decoder"](params["decoder"], parts["say"](params["say"], said))
        context = plugrad.attention(state, memory, memory)
        return parts["out"](params["out"], plugrad.concat([state, context], axis=-1))

    def batch(count):
        words = rng.integers(0, tokens, (count, length)).astype("int32")
        answer = words[:, ::-1].copy()  # the task: say it backwards
        return words, np.c_[np.full(count, tokens), answer[:, :-1]].astype("int32"), answer

    def loss():
        words, said, answer = batch(64)
        return nn.losses.sparse_softmax_cross_entropy(answer, logits(words, said))

    train(loss, nn.leaves(params), steps=160, rate=0.03)
    words, said, answer = batch(100)
    assert (plugrad.argmax(logits(words, said), axis=-1).numpy() == answer).mean() > 0.8


def test_variational_autoencoder():
    angles = np.random.default_rng(0).uniform(0, 2 * np.pi, 300)
    x = np.c_[np.cos(angles), np.sin(angles)].astype("float32")
    encoder = nn.Sequential(nn.Dense(24, plugrad.tanh), nn.Dense(4))
    decoder = nn.Sequential(nn.Dense(24, plugrad.tanh), nn.Dense(2))
    params = {"encoder": encoder.init(0, (2,)), "decoder": decoder.init(1, (2,))}
    prior = distributions.Normal(0.0, 1.0)

    def loss():
        mean, log_scale = plugrad.split(encoder(params["encoder"], x), 2, axis=1)
        code = distributions.Normal(mean, plugrad.exp(log_scale))
        seen = distributions.Normal(decoder(params["decoder"], code.sample()), 0.3)
        terms = plugrad.sum(seen.log_prob(x), axis=1)
        return plugrad.mean(plugrad.sum(distributions.kl(code, prior), axis=1) - terms)

    first, last = train(loss, nn.leaves(params), steps=300)
    assert last < 0.4 * first
    made = decoder(params["decoder"], normal(200, 2)).numpy()
    assert abs(np.median(np.linalg.norm(made, axis=1)) - 1) < 0.4


def test_policy_gradient():
    policy = nn.Dense(4)
    params = policy.init(0, (4,))
    right = np.array([2, 0, 3, 1])
    rng = np.random.default_rng(0)

    def loss():
        state = rng.integers(0, 4, 64)
        choice = distributions.Categorical(policy(params, np.eye(4, dtype="float32")[state]))
        action = choice.sample()
        reward = (action.numpy() == right[state]).astype("float32")
        return -plugrad.mean(choice.log_prob(action) * (reward - reward.mean()))

    train(loss, nn.leaves(params), steps=150, rate=0.1)
    assert plugrad.argmax(policy(params, plugrad.eye(4)), axis=1).numpy().tolist() == right.tolist()


def test_graph_network():
    rng = np.random.default_rng(0)
    side = np.repeat([0, 1], 15)
    linked = np.triu(rng.uniform(size=(30, 30)) < np.where(side[:, None] == side, 0.4, 0.03), 1)
    source, target = np.nonzero(linked | linked.T | np.eye(30, dtype=bool))
    degree = np.bincount(target, minlength=30)
    weight = (1 / np.sqrt(degree[source] * degree[target])).astype("float32")[:, None]
    hidden, out = nn.Dense(16, plugrad.relu), nn.Dense(2)
    params = {"hidden": hidden.init(0, (30,)), "out": out.init(1, (16,))}

    def spread(x):
        return plugrad.unsorted_segment_sum(plugrad.take(x, source, axis=0) * weight, target, 30)

    def logits():
        x = hidden(params["hidden"], spread(plugrad.eye(30)))
        return out(params["out"], spread(x))

    known = np.array([0, 1, 15, 16])

    def loss():
        return nn.losses.sparse_softmax_cross_entropy(
            side[known].astype("int32"), plugrad.take(logits(), known, axis=0)
        )

    train(loss, nn.leaves(params), steps=60, rate=0.02)
    assert (plugrad.argmax(logits(), axis=1).numpy() == side).mean() > 0.9


def test_fit_of_a_differential_equation():
    times = np.linspace(0, 4, 9).astype("float32")

    def growth(y, t, rate, limit):
        return rate * y * (1 - y / limit)

    seen = 3 / (1 + 29 * np.exp(-1.5 * times)).astype("float32")
    rate, limit = plugrad.Variable(1.0), plugrad.Variable(2.0)

    def loss():
        found = integrate.odeint(growth, 0.1, times, rate, limit, rtol=1e-4)
        return plugrad.mean((found - seen) ** 2)

    train(loss, [rate, limit], steps=60, rate=0.1, compiled=True)
    assert rate.item() == pytest.approx(1.5, abs=0.1)
    assert limit.item() == pytest.approx(3, abs=0.2)


def test_transfer_from_a_file_of_torch(tmp_path):
    from safetensors.numpy import save_file

    rng = np.random.default_rng(0)
    # What torch.nn.Sequential(Linear(8, 32), ReLU(), Linear(32, 5)) saves.
    trained = {
        "0.weight": rng.normal(size=(32, 8)).astype("float32"),
        "0.bias": rng.normal(size=32).astype("float32"),
        "2.weight": rng.normal(size=(5, 32)).astype("float32"),
        "2.bias": rng.normal(size=5).astype("float32"),
    }
    save_file(trained, tmp_path / "model.safetensors")

    body, head = nn.Dense(32, plugrad.relu), nn.Dense(3)
    frozen, params = body.init(0, (8,)), head.init(1, (32,))
    weights = plugrad.load(tmp_path / "model.safetensors")
    nn.assign(frozen, {"kernel": weights["0.weight"].T, "bias": weights["0.bias"]})
    x = rng.normal(size=(200, 8)).astype("float32")
    labels = np.argmax(np.maximum(x @ trained["0.weight"].T + trained["0.bias"], 0)[:, :3], axis=1)
    features = body(frozen, x)

    def loss():
        return nn.losses.sparse_softmax_cross_entropy(
            labels.astype("int32"), head(params, features)
        )

    train(loss, nn.leaves(params), steps=120, rate=0.02)
    assert nn.metrics.accuracy(labels.astype("int32"), head(params, features)).item() > 0.9
