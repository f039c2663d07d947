"""The programs of `user_programs`, in plugrad."""

from __future__ import annotations

from typing import Any

import plugrad
from plugrad import Tensor

Weights = list[Tensor]


def cross_entropy(labels: Tensor, logits: Tensor) -> Tensor:
    """Return the mean of the negative logarithms of the labels' probabilities."""
    log_p = plugrad.log_softmax(logits)
    return -plugrad.mean(plugrad.take_along_axis(log_p, labels[:, None], axis=-1))


def lstm(
    x: Tensor, labels: Tensor, kernel: Tensor, recurrent: Tensor, bias: Tensor, head: Tensor
) -> Any:
    """The gradients of a classifier of sequences."""

    def loss(kernel: Tensor, recurrent: Tensor, bias: Tensor, head: Tensor) -> Tensor:
        h = c = plugrad.zeros((x.shape[0], 64))
        for inputs in plugrad.unstack(x @ kernel + bias, axis=1):
            i, f, g, o = plugrad.split(inputs + h @ recurrent, 4, axis=-1)
            c = plugrad.sigmoid(f) * c + plugrad.sigmoid(i) * plugrad.tanh(g)
            h = plugrad.sigmoid(o) * plugrad.tanh(c)
        return cross_entropy(labels, h @ head)

    return plugrad.grads(loss)(kernel, recurrent, bias, head)


def nbody(places: Tensor, speeds: Tensor, masses: Tensor) -> Any:
    """Two leapfrog steps of bodies that attract each other."""

    def acceleration(places: Tensor) -> Tensor:
        between = places[None] - places[:, None]
        squares = plugrad.sum(between**2, axis=-1) + 0.01
        return plugrad.sum((masses / squares**1.5)[..., None] * between, axis=1)

    for _ in range(2):
        speeds = speeds + 0.005 * acceleration(places)
        places = places + 0.01 * speeds
        speeds = speeds + 0.005 * acceleration(places)
    return places, speeds


def black_scholes(spot: Tensor, strike: Tensor, years: Tensor) -> Any:
    """The derivatives of option prices with respect to each of their terms."""

    def total(spot: Tensor, strike: Tensor, years: Tensor) -> Tensor:
        spread = 0.2 * plugrad.sqrt(years)
        upper = (plugrad.log(spot / strike) + 0.03 * years) / spread
        first, second = (0.5 * (1 + plugrad.erf(d / 2**0.5)) for d in (upper, upper - spread))
        return plugrad.sum(spot * first - strike * plugrad.exp(-0.01 * years) * second)

    return plugrad.grads(total)(spot, strike, years)


def kmeans(points: Tensor, centres: Tensor) -> Tensor:
    """Ten of Lloyd's iterations."""
    for _ in range(10):
        squares = plugrad.sum(centres**2, axis=1) - 2 * points @ centres.T
        members = plugrad.one_hot(plugrad.argmin(squares, axis=1), centres.shape[0])
        centres = members.T @ points / plugrad.sum(members, axis=0)[:, None]
    return centres


def kalman(measurements: Tensor, transition: Tensor, observation: Tensor) -> Tensor:
    """The state after each of two hundred measurements."""
    state, covariance = plugrad.zeros((4,)), plugrad.eye(4)
    states = []
    for measured in measurements:
        state = transition @ state
        covariance = transition @ covariance @ transition.T + 0.01 * plugrad.eye(4)
        innovation = observation @ covariance @ observation.T + 0.1 * plugrad.eye(2)
        gain = plugrad.linalg.solve(innovation, observation @ covariance).T
        state = state + gain @ (measured - observation @ state)
        covariance = covariance - gain @ observation @ covariance
        states.append(state)
    return plugrad.stack(states)


def floyd_warshall(lengths: Tensor) -> Tensor:
    """The lengths of the shortest paths between all nodes."""
    for k in range(lengths.shape[0]):
        lengths = plugrad.minimum(lengths, lengths[:, k, None] + lengths[None, k])
    return lengths


def augmentation(images: Tensor, flips: Tensor, light: Tensor, contrast: Tensor) -> Tensor:
    """Images that are flipped, cropped, lit and normalized."""
    x = plugrad.where((flips == 1)[:, None, None, None], plugrad.flip(images, axis=2), images)
    x = plugrad.pad(x, [(0, 0), (4, 4), (4, 4), (0, 0)])[:, 3:131, 6:134]
    x = x * light[:, None, None, None]
    middle = plugrad.mean(x, axis=(1, 2, 3), keepdims=True)
    x = plugrad.clip((x - middle) * contrast[:, None, None, None] + middle, 0, 1)
    return (x - plugrad.asarray([0.485, 0.456, 0.406])) / plugrad.asarray([0.229, 0.224, 0.225])


def unet(images: Tensor, masks: Tensor, weights: Weights) -> Any:
    """The gradients of a U-Net of three levels."""

    def convolve_twice(x: Tensor, kernel: Tensor) -> Tensor:
        batch, height, width, _ = x.shape
        shape = (batch, 2 * height, 2 * width, kernel.shape[2])
        return plugrad.conv2d_transpose(x, kernel, shape, 2)

    def loss(*weights: Tensor) -> Tensor:
        down1, down2, middle, up2, join2, up1, join1, last = weights
        first = plugrad.relu(plugrad.conv2d(images, down1, padding="same"))
        second = plugrad.relu(plugrad.conv2d(plugrad.max_pool(first, 2), down2, padding="same"))
        x = plugrad.relu(plugrad.conv2d(plugrad.max_pool(second, 2), middle, padding="same"))
        x = plugrad.concat([convolve_twice(x, up2), second], axis=-1)
        x = plugrad.relu(plugrad.conv2d(x, join2, padding="same"))
        x = plugrad.concat([convolve_twice(x, up1), first], axis=-1)
        x = plugrad.relu(plugrad.conv2d(x, join1, padding="same"))
        logits = plugrad.conv2d(x, last)
        return plugrad.mean(plugrad.softplus(logits) - masks * logits)

    return plugrad.grads(loss)(*weights)


def graph_network(
    nodes: Tensor, senders: Tensor, receivers: Tensor, labels: Tensor, first: Tensor, second: Tensor
) -> Any:
    """The gradients of two layers that pass messages along edges."""

    def gather(x: Tensor) -> Tensor:
        messages = plugrad.take(x, senders, axis=0)
        return plugrad.unsorted_segment_sum(messages, receivers, x.shape[0])

    def loss(first: Tensor, second: Tensor) -> Tensor:
        hidden = plugrad.relu(plugrad.concat([nodes, gather(nodes)], axis=-1) @ first)
        return cross_entropy(labels, plugrad.concat([hidden, gather(hidden)], axis=-1) @ second)

    return plugrad.grads(loss)(first, second)


def gaussian_process(x: Tensor, y: Tensor, length: Tensor, noise: Tensor) -> Any:
    """The derivatives of the likelihood of the data with respect to the length scales and the noise."""

    def likelihood(length: Tensor, noise: Tensor) -> Tensor:
        scaled = x / length
        squares = plugrad.sum((scaled[:, None] - scaled[None]) ** 2, axis=-1)
        lower = plugrad.linalg.cholesky(
            plugrad.exp(-0.5 * squares) + noise * plugrad.eye(x.shape[0])
        )
        weights = plugrad.linalg.solve(lower, y)
        return -0.5 * plugrad.sum(weights**2) - plugrad.sum(
            plugrad.log(plugrad.linalg.diagonal(lower))
        )

    return plugrad.grads(likelihood)(length, noise)


def hmc(x: Tensor, y: Tensor, weights: Tensor, momentum: Tensor) -> Any:
    """Ten leapfrog steps of Hamiltonian Monte Carlo in a logistic regression."""

    def energy(weights: Tensor) -> Tensor:
        logits = x @ weights
        return plugrad.sum(plugrad.softplus(logits) - y * logits) + 0.5 * plugrad.sum(weights**2)

    force = plugrad.grad(energy)
    for _ in range(10):
        momentum = momentum - 0.005 * force(weights)
        weights = weights + 0.01 * momentum
        momentum = momentum - 0.005 * force(weights)
    return weights, energy(weights) + 0.5 * plugrad.sum(momentum**2)


def decoding(start: Tensor, embedding: Tensor, layers: list[Weights]) -> Tensor:
    """The logits of the last of 32 words that a transformer with a cache chooses one after the other."""
    caches: list[tuple[Weights, Weights]] = [([], []) for _ in layers]
    word, logits = start, start
    for _ in range(32):
        x = plugrad.take(embedding, word, axis=0)
        for (qkv, out, widen, narrow), (keys, values) in zip(layers, caches, strict=True):
            q, k, v = (
                t.reshape((8, 1, 16))
                for t in plugrad.split(plugrad.layer_norm(x) @ qkv, 3, axis=-1)
            )
            keys.append(k)
            values.append(v)
            attended = plugrad.attention(
                q, plugrad.concat(keys, axis=1), plugrad.concat(values, axis=1)
            )
            x = x + attended.reshape((1, -1)) @ out
            x = x + plugrad.gelu(plugrad.layer_norm(x) @ widen) @ narrow
        logits = plugrad.layer_norm(x) @ embedding.T
        word = plugrad.argmax(logits, axis=-1)
    return logits


def vae(x: Tensor, noise: Tensor, weights: Weights) -> Any:
    """The gradients of a variational autoencoder."""

    def loss(
        encode: Tensor, encode_latent: Tensor, decode_latent: Tensor, decode: Tensor
    ) -> Tensor:
        middle, log_variance = plugrad.split(plugrad.relu(x @ encode) @ encode_latent, 2, axis=-1)
        latent = middle + plugrad.exp(0.5 * log_variance) * noise
        logits = plugrad.relu(latent @ decode_latent) @ decode
        likelihood = plugrad.sum(plugrad.softplus(logits) - x * logits)
        divergence = -0.5 * plugrad.sum(1 + log_variance - middle**2 - plugrad.exp(log_variance))
        return (likelihood + divergence) / x.shape[0]

    return plugrad.grads(loss)(*weights)


def newton(x: Tensor, y: Tensor, weights: Tensor) -> Tensor:
    """Three of Newton's steps in a logistic regression."""

    def loss(weights: Tensor) -> Tensor:
        logits = x @ weights
        return plugrad.mean(plugrad.softplus(logits) - y * logits) + 0.01 * plugrad.sum(weights**2)

    for _ in range(3):
        step = plugrad.linalg.solve(plugrad.hessian(loss)(weights), plugrad.grad(loss)(weights))
        weights = weights - step
    return weights


def life(cells: Tensor) -> Tensor:
    """Fifty generations of Conway's game."""
    for _ in range(50):
        rows = plugrad.roll(cells, 1, axis=0) + cells + plugrad.roll(cells, -1, axis=0)
        near = plugrad.roll(rows, 1, axis=1) + rows + plugrad.roll(rows, -1, axis=1) - cells
        alive = plugrad.logical_or(near == 3, plugrad.logical_and(near == 2, cells == 1))
        cells = alive.astype(cells.dtype)
    return cells


def heat(field: Tensor) -> Tensor:
    """A hundred steps of heat that flows through a plate, whose border keeps its temperature."""
    field = plugrad.asarray(field, copy=True)
    for _ in range(100):
        inner = field[1:-1, 1:-1]
        flow = field[2:, 1:-1] + field[:-2, 1:-1] + field[1:-1, 2:] + field[1:-1, :-2] - 4 * inner
        field[1:-1, 1:-1] = inner + 0.2 * flow
    return field


def page_rank(sources: Tensor, targets: Tensor) -> Tensor:
    """Thirty iterations over the links between pages."""
    pages = 5000
    links = plugrad.maximum(plugrad.bincount(sources, size=pages), 1).astype("float32")
    ranks = plugrad.full((pages,), 1 / pages)
    for _ in range(30):
        passed = plugrad.take(ranks / links, sources)
        ranks = 0.15 / pages + 0.85 * plugrad.unsorted_segment_sum(passed, targets, pages)
    return ranks


def viterbi(scores: Tensor, transitions: Tensor) -> Any:
    """The most likely states behind two hundred observations."""
    best, origins = scores[0], []
    for observed in scores[1:]:
        paths = best[:, None] + transitions
        origins.append(plugrad.argmax(paths, axis=0))
        best = plugrad.max(paths, axis=0) + observed
    state = plugrad.argmax(best)
    path = [state]
    for origin in reversed(origins):
        state = plugrad.take(origin, state)
        path.append(state)
    return plugrad.max(best), plugrad.stack(path)


def policy_gradient(
    states: Tensor, actions: Tensor, rewards: Tensor, first: Tensor, second: Tensor
) -> Any:
    """The gradients of REINFORCE after an episode."""
    total, returns = plugrad.asarray(0.0), []
    for reward in reversed(plugrad.unstack(rewards)):
        total = reward + 0.99 * total
        returns.append(total)
    gained = plugrad.flip(plugrad.stack(returns))
    gained = (gained - plugrad.mean(gained)) / plugrad.std(gained)

    def loss(first: Tensor, second: Tensor) -> Tensor:
        log_p = plugrad.log_softmax(plugrad.tanh(states @ first) @ second)
        chosen = plugrad.take_along_axis(log_p, actions[:, None], axis=-1)[:, 0]
        return -plugrad.mean(chosen * gained)

    return plugrad.grads(loss)(first, second)


def bag_of_words(words: Tensor, labels: Tensor, table: Tensor, head: Tensor) -> Any:
    """The gradients of a classifier of short texts."""

    def loss(table: Tensor, head: Tensor) -> Tensor:
        return cross_entropy(
            labels, plugrad.mean(plugrad.take(table, words, axis=0), axis=1) @ head
        )

    return plugrad.grads(loss)(table, head)
