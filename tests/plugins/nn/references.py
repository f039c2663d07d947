"""The formulas of layers, written with NumPy in double precision, and with loops where these are plainest."""

import itertools

import numpy as np


def dilated_sizes(size, dilations):
    return [(n - 1) * d + 1 for n, d in zip(size, dilations, strict=True)]


def window_padding(shape, extent, strides, padding):
    """Return the padding (before, after) of each spatial axis; "same" gives ceil(size / stride) windows."""
    if padding == "valid":
        return [(0, 0)] * len(shape)
    if padding == "causal":
        return [(e - 1, 0) for e in extent]
    total = [
        max((-(-n // s) - 1) * s + e - n, 0) for n, e, s in zip(shape, extent, strides, strict=True)
    ]
    return [(t // 2, t - t // 2) for t in total]


def iter_windows(shape, size, strides, padding, dilations):
    """Yield (position, slices of the padded array) for each window, with the padding."""
    extent = dilated_sizes(size, dilations)
    around = window_padding(shape, extent, strides, padding)
    counts = [
        (n + a + b - e) // s + 1
        for n, (a, b), e, s in zip(shape, around, extent, strides, strict=True)
    ]
    places = [
        (
            position,
            tuple(
                slice(p * s, p * s + e, d)
                for p, s, e, d in zip(position, strides, extent, dilations, strict=True)
            ),
        )
        for position in itertools.product(*map(range, counts))
    ]
    return counts, around, places


def convolution(x, kernel, strides, padding="valid", dilations=None):
    size = kernel.shape[:-2]
    dilations = dilations or [1] * len(size)
    counts, around, places = iter_windows(x.shape[1:-1], size, strides, padding, dilations)
    padded = np.pad(x, [(0, 0), *around, (0, 0)])
    y = np.zeros((len(x), *counts, kernel.shape[-1]))
    for position, part in places:
        cells = padded[(slice(None), *part)].reshape(len(x), -1)
        y[(slice(None), *position)] = cells @ kernel.reshape(-1, kernel.shape[-1])
    return y


def depthwise_convolution(x, kernel, strides, padding):
    channels, multiplier = kernel.shape[-2:]
    parts = [
        convolution(x[..., c : c + 1], kernel[:, :, c : c + 1, m : m + 1], strides, padding)
        for c in range(channels)
        for m in range(multiplier)
    ]
    return np.concatenate(parts, -1)


def grouped_convolution(convolve, x, kernel, groups, *how):
    """Return the convolutions of groups of channels; each has a part of the kernel's last axis."""
    parts = zip(np.split(x, groups, -1), np.split(kernel, groups, -1), strict=True)
    return np.concatenate([convolve(*part, *how) for part in parts], -1)


def transposed_convolution(x, kernel, strides, padding, dilations=None, shape=None):
    """Return the transposed convolution: the product of each element and the kernel, added to its window."""
    size = kernel.shape[:-2]
    dilations = dilations or [1] * len(size)
    shape = shape or [
        n * s + (max(e - s, 0) if padding == "valid" else 0)
        for n, s, e in zip(x.shape[1:-1], strides, dilated_sizes(size, dilations), strict=True)
    ]
    _, around, places = iter_windows(shape, size, strides, padding, dilations)
    y = np.pad(np.zeros((len(x), *shape, kernel.shape[-2])), [(0, 0), *around, (0, 0)])
    for position, part in places:
        element = x[(slice(None), *position)]
        y[(slice(None), *part)] += np.einsum("bi,...oi->b...o", element, kernel)
    inner = tuple(slice(a, a + n) for (a, _), n in zip(around, shape, strict=True))
    return y[(slice(None), *inner)]


def pooling(x, size, strides, padding, reduce):
    counts, around, places = iter_windows(x.shape[1:-1], size, strides, padding, [1] * len(size))
    padded = np.pad(x, [(0, 0), *around, (0, 0)], constant_values=np.nan)
    y = np.zeros((len(x), *counts, x.shape[-1]))
    for position, part in places:
        cells = padded[(slice(None), *part)]
        y[(slice(None), *position)] = reduce(cells, axis=tuple(range(1, cells.ndim - 1)))
    return y


def normalization(x, axes, epsilon=1e-5):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + epsilon)


def group_normalization(x, groups):
    parts = x.reshape(*x.shape[:-1], groups, -1)
    return normalization(parts, (*range(1, x.ndim - 1), x.ndim)).reshape(x.shape)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm(p, x):
    """Return the outputs of an LSTM at all steps; the gates are in the order i, f, g, o."""
    units = p["recurrent_kernel"].shape[0]
    h = c = np.zeros((len(x), units))
    outputs = []
    for t in range(x.shape[1]):
        gates = x[:, t] @ p["kernel"] + h @ p["recurrent_kernel"] + p["bias"]
        i, f, g, o = np.split(gates, 4, -1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        outputs.append(h)
    return np.stack(outputs, 1)


def gru(p, x):
    """Return the outputs of a GRU at all steps; the gates are in the order z, r, g."""
    h = np.zeros((len(x), p["recurrent_kernel"].shape[0]))
    outputs = []
    for t in range(x.shape[1]):
        z, r, g = np.split(x[:, t] @ p["kernel"] + p["bias"][0], 3, -1)
        zh, rh, gh = np.split(h @ p["recurrent_kernel"] + p["bias"][1], 3, -1)
        update = sigmoid(z + zh)
        h = update * h + (1 - update) * np.tanh(g + sigmoid(r + rh) * gh)
        outputs.append(h)
    return np.stack(outputs, 1)


def gru_reset_before(p, x):
    """Return the outputs of a GRU that applies the reset gate before the product, with ReLU and hard sigmoid."""
    units = p["recurrent_kernel"].shape[0]
    h, outputs = np.zeros((len(x), units)), []

    def hard_sigmoid(v):
        return np.clip(v * 0.2 + 0.5, 0, 1)

    for t in range(x.shape[1]):
        z, r, g = np.split(x[:, t] @ p["kernel"] + p["bias"], 3, -1)
        update, reset = (
            hard_sigmoid(a + h @ p["recurrent_kernel"][:, k * units : (k + 1) * units])
            for k, a in enumerate((z, r))
        )
        candidate = np.maximum(g + (reset * h) @ p["recurrent_kernel"][:, 2 * units :], 0)
        h = update * h + (1 - update) * candidate
        outputs.append(h)
    return np.stack(outputs, 1)


def with_zero_bias(cell):
    """Return the reference of a cell with zero biases."""
    return lambda p, x: cell({**p, "bias": np.zeros((2, p["kernel"].shape[1]))}, x)


def rotary_embedding(x, size):
    """Return vectors with rotary position embedding: the pairs (i, i + size / 2) are rotated as complex numbers."""
    half = size // 2
    numbers = x[..., :half] + 1j * x[..., half:]
    for position in range(x.shape[-2]):
        for i in range(half):
            numbers[..., position, i] *= np.exp(1j * position * 10_000.0 ** (-2 * i / size))
    return np.concatenate([numbers.real, numbers.imag], -1)


ALIBI_SLOPES = {3: [2**-4, 2**-8, 2**-2]}  # those of two heads, and the first of four


def multi_head_attention(p, x, heads, context=None, mask=None, kv_heads=None, positions=None):
    """Return multi-head attention, computed for one head and one example at a time."""
    context = x if context is None else context

    def dense(name, a):
        return a @ p[name]["kernel"] + p[name]["bias"]

    queries, keys, values = dense("query", x), dense("key", context), dense("value", context)
    size = queries.shape[-1] // heads
    y = np.zeros_like(queries)
    for b, head in itertools.product(range(len(x)), range(heads)):
        columns = slice(head * size, (head + 1) * size)
        shared = head * (kv_heads or heads) // heads
        theirs = slice(shared * size, (shared + 1) * size)
        query, key = queries[b, :, columns], keys[b, :, theirs]
        if positions == "rotary":
            query, key = rotary_embedding(query, size), rotary_embedding(key, size)
        scores = query @ key.T / np.sqrt(size)
        if positions == "alibi":
            places = np.arange(len(scores))
            scores = scores - ALIBI_SLOPES[heads][head] * abs(places[:, None] - places)
        if mask is not None:
            scores = np.where(
                np.broadcast_to(mask, (len(x), heads, *scores.shape))[b, head], scores, -1e30
            )
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        y[b, :, columns] = weights @ values[b, :, theirs]
    return dense("output", y)


def scale_and_shift(p, x):
    return x * p["gamma"] + p["beta"]


def transformer_encoder_block(p, x, heads):
    """Return the result of a transformer encoder block with layer norm after each part, and ReLU."""
    x = scale_and_shift(
        p["attention_norm"], normalization(x + multi_head_attention(p["attention"], x, heads), -1)
    )
    hidden = np.maximum(x @ p["hidden"]["kernel"] + p["hidden"]["bias"], 0)
    y = hidden @ p["output"]["kernel"] + p["output"]["bias"]
    return scale_and_shift(p["output_norm"], normalization(x + y, -1))


def prenorm_encoder_block(p, x, heads):
    """Return the result of a transformer encoder block with RMS norm before each part, and tanh."""
    x = x + multi_head_attention(
        p["attention"], rms_normalization(x) * p["attention_norm"]["gamma"], heads
    )
    y = rms_normalization(x) * p["output_norm"]["gamma"]
    hidden = np.tanh(y @ p["hidden"]["kernel"] + p["hidden"]["bias"])
    return x + hidden @ p["output"]["kernel"] + p["output"]["bias"]


def rms_normalization(x):
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6)


def channel_norms(kernel):
    return np.linalg.norm(kernel.reshape(-1, kernel.shape[-1]), axis=0)


def simple_rnn(p, x):
    h = np.zeros((len(x), p["recurrent_kernel"].shape[0]))
    outputs = []
    for t in range(x.shape[1]):
        h = np.tanh(x[:, t] @ p["kernel"] + h @ p["recurrent_kernel"] + p["bias"])
        outputs.append(h)
    return np.stack(outputs, 1)


def conv_lstm(p, x, strides, padding="valid"):
    """Return the outputs of a ConvLSTM at all steps; the gates are in the order i, f, g, o."""
    outputs = []
    for t in range(x.shape[1]):
        inputs = convolution(x[:, t], p["kernel"], strides, padding) + p["bias"]
        if not outputs:
            h = c = np.zeros((*inputs.shape[:-1], inputs.shape[-1] // 4))
        gates = inputs + convolution(h, p["recurrent_kernel"], [1, 1], "same")
        i, f, g, o = np.split(gates, 4, -1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        outputs.append(h)
    return np.stack(outputs, 1)


def bilinear_doubling(x, axis):
    """Return an axis upsampled by 2 with linear interpolation: 3/4 of the nearest element and 1/4 of the next."""
    x = np.moveaxis(x, axis, 0)
    before, after = np.concatenate([x[:1], x[:-1]]), np.concatenate([x[1:], x[-1:]])
    pairs = np.stack([0.75 * x + 0.25 * before, 0.75 * x + 0.25 * after], 1)
    return np.moveaxis(pairs.reshape(-1, *x.shape[1:]), 0, axis)


def pixel_shuffle(x, factor):
    batch, height, width, channels = x.shape
    y = np.zeros((batch, height * factor, width * factor, channels // factor**2))
    for row, column in itertools.product(range(factor), repeat=2):
        y[:, row::factor, column::factor] = x[..., row * factor + column :: factor**2]
    return y


def adaptive_pooling(x, sizes, summarize):
    """Return adaptive pooling with a given reduction; the window bounds are those that PyTorch documents."""
    y = np.zeros((len(x), *sizes, x.shape[-1]))
    for position in np.ndindex(*sizes):
        window = tuple(
            slice(i * n // size, -(-(i + 1) * n // size))
            for i, n, size in zip(position, x.shape[1:-1], sizes, strict=True)
        )
        cells = x[(slice(None), *window)].reshape(len(x), -1, x.shape[-1])
        y[(slice(None), *position)] = summarize(cells, 1)
    return y


def shared_layer_graph(p, x):
    a = np.tanh(x @ p["a"]["kernel"] + p["a"]["bias"])
    b = a @ p["b"]["kernel"] + p["b"]["bias"]
    c = b @ p["b"]["kernel"] + p["b"]["bias"]
    return (a + b + c) * a
