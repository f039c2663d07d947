"""The programs of `user_programs`, in PyTorch."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

Weights = list[Tensor]


def gradients(loss: Any, *weights: Tensor) -> tuple[Tensor, ...]:
    """Return the gradient of a loss for each of its arguments."""
    leaves = [w.detach().requires_grad_() for w in weights]
    return torch.autograd.grad(loss(*leaves), leaves)


def lstm(
    x: Tensor, labels: Tensor, kernel: Tensor, recurrent: Tensor, bias: Tensor, head: Tensor
) -> Any:
    def loss(kernel: Tensor, recurrent: Tensor, bias: Tensor, head: Tensor) -> Tensor:
        h = c = torch.zeros(x.shape[0], 64)
        for inputs in (x @ kernel + bias).unbind(1):
            i, f, g, o = (inputs + h @ recurrent).chunk(4, -1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
        return functional.cross_entropy(h @ head, labels)

    return gradients(loss, kernel, recurrent, bias, head)


def nbody(places: Tensor, speeds: Tensor, masses: Tensor) -> Any:
    def acceleration(places: Tensor) -> Tensor:
        between = places[None] - places[:, None]
        squares = torch.sum(between**2, -1) + 0.01
        return torch.sum((masses / squares**1.5)[..., None] * between, 1)

    for _ in range(2):
        speeds = speeds + 0.005 * acceleration(places)
        places = places + 0.01 * speeds
        speeds = speeds + 0.005 * acceleration(places)
    return places, speeds


def black_scholes(spot: Tensor, strike: Tensor, years: Tensor) -> Any:
    def total(spot: Tensor, strike: Tensor, years: Tensor) -> Tensor:
        spread = 0.2 * torch.sqrt(years)
        upper = (torch.log(spot / strike) + 0.03 * years) / spread
        first, second = (0.5 * (1 + torch.erf(d / 2**0.5)) for d in (upper, upper - spread))
        return torch.sum(spot * first - strike * torch.exp(-0.01 * years) * second)

    return gradients(total, spot, strike, years)


def kmeans(points: Tensor, centres: Tensor) -> Tensor:
    for _ in range(10):
        squares = torch.sum(centres**2, 1) - 2 * points @ centres.T
        members = functional.one_hot(torch.argmin(squares, 1), centres.shape[0]).to(points.dtype)
        centres = members.T @ points / torch.sum(members, 0)[:, None]
    return centres


def kalman(measurements: Tensor, transition: Tensor, observation: Tensor) -> Tensor:
    state, covariance = torch.zeros(4), torch.eye(4)
    states = []
    for measured in measurements:
        state = transition @ state
        covariance = transition @ covariance @ transition.T + 0.01 * torch.eye(4)
        innovation = observation @ covariance @ observation.T + 0.1 * torch.eye(2)
        gain = torch.linalg.solve(innovation, observation @ covariance).T
        state = state + gain @ (measured - observation @ state)
        covariance = covariance - gain @ observation @ covariance
        states.append(state)
    return torch.stack(states)


def floyd_warshall(lengths: Tensor) -> Tensor:
    for k in range(lengths.shape[0]):
        lengths = torch.minimum(lengths, lengths[:, k, None] + lengths[None, k])
    return lengths


def augmentation(images: Tensor, flips: Tensor, light: Tensor, contrast: Tensor) -> Tensor:
    x = torch.where((flips == 1)[:, None, None, None], images.flip(2), images)
    x = functional.pad(x, (0, 0, 4, 4, 4, 4))[:, 3:131, 6:134]
    x = x * light[:, None, None, None]
    middle = x.mean((1, 2, 3), keepdim=True)
    x = torch.clamp((x - middle) * contrast[:, None, None, None] + middle, 0, 1)
    return (x - torch.tensor([0.485, 0.456, 0.406])) / torch.tensor([0.229, 0.224, 0.225])


def unet(images: Tensor, masks: Tensor, weights: Weights) -> Any:
    """In channels_last, the fast layout; the filters come and go in plugrad's order of axes."""
    images = images.permute(0, 3, 1, 2)
    masks = masks.permute(0, 3, 1, 2)

    def kernel(w: Tensor) -> Tensor:
        return w.permute(3, 2, 0, 1).contiguous(memory_format=torch.channels_last)

    def conv(x: Tensor, w: Tensor) -> Tensor:
        return torch.relu(functional.conv2d(x, kernel(w), padding=1))

    def loss(*weights: Tensor) -> Tensor:
        down1, down2, middle, up2, join2, up1, join1, last = weights
        first = conv(images, down1)
        second = conv(functional.max_pool2d(first, 2), down2)
        x = conv(functional.max_pool2d(second, 2), middle)
        x = torch.cat([functional.conv_transpose2d(x, kernel(up2), stride=2), second], 1)
        x = conv(x, join2)
        x = torch.cat([functional.conv_transpose2d(x, kernel(up1), stride=2), first], 1)
        x = conv(x, join1)
        logits = functional.conv2d(x, kernel(last))
        return functional.binary_cross_entropy_with_logits(logits, masks)

    return gradients(loss, *weights)


def graph_network(
    nodes: Tensor, senders: Tensor, receivers: Tensor, labels: Tensor, first: Tensor, second: Tensor
) -> Any:
    def gather(x: Tensor) -> Tensor:
        return torch.zeros_like(x).index_add(0, receivers, x[senders])

    def loss(first: Tensor, second: Tensor) -> Tensor:
        hidden = torch.relu(torch.cat([nodes, gather(nodes)], -1) @ first)
        return functional.cross_entropy(torch.cat([hidden, gather(hidden)], -1) @ second, labels)

    return gradients(loss, first, second)


def gaussian_process(x: Tensor, y: Tensor, length: Tensor, noise: Tensor) -> Any:
    def likelihood(length: Tensor, noise: Tensor) -> Tensor:
        scaled = x / length
        squares = torch.sum((scaled[:, None] - scaled[None]) ** 2, -1)
        lower = torch.linalg.cholesky(torch.exp(-0.5 * squares) + noise * torch.eye(x.shape[0]))
        weights = torch.linalg.solve(lower, y)
        return -0.5 * torch.sum(weights**2) - torch.sum(torch.log(torch.diagonal(lower)))

    return gradients(likelihood, length, noise)


def hmc(x: Tensor, y: Tensor, weights: Tensor, momentum: Tensor) -> Any:
    def energy(weights: Tensor) -> Tensor:
        logits = x @ weights
        return torch.sum(functional.softplus(logits) - y * logits) + 0.5 * torch.sum(weights**2)

    for _ in range(10):
        momentum = momentum - 0.005 * gradients(energy, weights)[0]
        weights = weights + 0.01 * momentum
        momentum = momentum - 0.005 * gradients(energy, weights)[0]
    return weights, energy(weights) + 0.5 * torch.sum(momentum**2)


def decoding(start: Tensor, embedding: Tensor, layers: list[Weights]) -> Tensor:
    caches: list[tuple[Weights, Weights]] = [([], []) for _ in layers]
    word, logits, size = start, start, embedding.shape[1:]
    for _ in range(32):
        x = embedding[word]
        for (qkv, out, widen, narrow), (keys, values) in zip(layers, caches, strict=True):
            q, k, v = (
                t.reshape(8, 1, 16) for t in (functional.layer_norm(x, size) @ qkv).chunk(3, -1)
            )
            keys.append(k)
            values.append(v)
            attended = functional.scaled_dot_product_attention(
                q, torch.cat(keys, 1), torch.cat(values, 1)
            )
            x = x + attended.reshape(1, -1) @ out
            x = x + functional.gelu(functional.layer_norm(x, size) @ widen) @ narrow
        logits = functional.layer_norm(x, size) @ embedding.T
        word = torch.argmax(logits, -1)
    return logits


def vae(x: Tensor, noise: Tensor, weights: Weights) -> Any:
    def loss(
        encode: Tensor, encode_latent: Tensor, decode_latent: Tensor, decode: Tensor
    ) -> Tensor:
        middle, log_variance = (torch.relu(x @ encode) @ encode_latent).chunk(2, -1)
        latent = middle + torch.exp(0.5 * log_variance) * noise
        logits = torch.relu(latent @ decode_latent) @ decode
        likelihood = functional.binary_cross_entropy_with_logits(logits, x, reduction="sum")
        divergence = -0.5 * torch.sum(1 + log_variance - middle**2 - torch.exp(log_variance))
        return (likelihood + divergence) / x.shape[0]

    return gradients(loss, *weights)


def newton(x: Tensor, y: Tensor, weights: Tensor) -> Tensor:
    def loss(weights: Tensor) -> Tensor:
        logits = x @ weights
        return torch.mean(functional.softplus(logits) - y * logits) + 0.01 * torch.sum(weights**2)

    for _ in range(3):
        hessian = torch.autograd.functional.hessian(loss, weights)
        weights = weights - torch.linalg.solve(hessian, gradients(loss, weights)[0])
    return weights


def life(cells: Tensor) -> Tensor:
    for _ in range(50):
        rows = cells.roll(1, 0) + cells + cells.roll(-1, 0)
        near = rows.roll(1, 1) + rows + rows.roll(-1, 1) - cells
        alive = (near == 3) | ((near == 2) & (cells == 1))
        cells = alive.to(cells.dtype)
    return cells


def heat(field: Tensor) -> Tensor:
    field = field.clone()
    for _ in range(100):
        inner = field[1:-1, 1:-1]
        flow = field[2:, 1:-1] + field[:-2, 1:-1] + field[1:-1, 2:] + field[1:-1, :-2] - 4 * inner
        field[1:-1, 1:-1] = inner + 0.2 * flow
    return field


def page_rank(sources: Tensor, targets: Tensor) -> Tensor:
    pages = 5000
    links = torch.clamp(torch.bincount(sources, minlength=pages), 1).to(torch.float32)
    ranks = torch.full((pages,), 1 / pages)
    for _ in range(30):
        passed = (ranks / links)[sources]
        ranks = 0.15 / pages + 0.85 * torch.zeros(pages).index_add(0, targets, passed)
    return ranks


def viterbi(scores: Tensor, transitions: Tensor) -> Any:
    best, origins = scores[0], []
    for observed in scores[1:]:
        highest, origin = (best[:, None] + transitions).max(0)
        origins.append(origin)
        best = highest + observed
    state = best.argmax()
    path = [state]
    for origin in reversed(origins):
        state = origin[state]
        path.append(state)
    return best.max(), torch.stack(path)


def policy_gradient(
    states: Tensor, actions: Tensor, rewards: Tensor, first: Tensor, second: Tensor
) -> Any:
    total, returns = torch.tensor(0.0), []
    for reward in reversed(rewards.unbind()):
        total = reward + 0.99 * total
        returns.append(total)
    gained = torch.stack(returns).flip(0)
    gained = (gained - gained.mean()) / gained.std(correction=0)

    def loss(first: Tensor, second: Tensor) -> Tensor:
        log_p = functional.log_softmax(torch.tanh(states @ first) @ second, -1)
        return -torch.mean(log_p.gather(1, actions[:, None])[:, 0] * gained)

    return gradients(loss, first, second)


def bag_of_words(words: Tensor, labels: Tensor, table: Tensor, head: Tensor) -> Any:
    def loss(table: Tensor, head: Tensor) -> Tensor:
        return functional.cross_entropy(functional.embedding(words, table).mean(1) @ head, labels)

    return gradients(loss, table, head)
