"""Ops composed of several kernels, and short programs, compared with NumPy."""

# What functions take is tensors and arrays, which a lambda has no place to say.
# pyright: basic

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

import plugrad
from plugrad.testing.comparison import assert_close
from plugrad.testing.lifecycle import main_number_dtype
from plugrad.testing.rows import Array, as_double, numbers
from plugrad.types.bits import RELATIVE_TOLERANCE_OF_DTYPE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from plugrad.tensor.backend import Backend
    from plugrad.tensor.tensor import Tensor
    from plugrad.types.specs import Shape


@dataclass(frozen=True)
class OpCase:
    """A function of tensors, with its counterpart for arrays."""

    name: str
    tensor_function: Callable[..., Any]
    numpy_function: Callable[..., Any]
    shapes: Sequence[Shape] = ((3, 5),)
    """The shapes of the inputs."""
    min_input: float = -3
    """The smallest number that is drawn for the inputs."""
    tolerance_factor: float = 1
    """How much larger than usual the error of the result may be."""

    def __str__(self) -> str:
        return self.name


def check_op(op: OpCase, backend: Backend) -> None:
    """Compare an op with NumPy, in the best floating dtype that the backend stores."""
    dtype = main_number_dtype(backend)
    rng = np.random.default_rng(20240229)
    arrays = [numbers(op.min_input, 3).draw(rng, shape, dtype) for shape in op.shapes]
    result = op.tensor_function(*map(plugrad.asarray, arrays))
    expected = op.numpy_function(*map(as_double, arrays))
    found: list[Any] = result if isinstance(result, list) else [result]
    wanted: list[Any] = expected if isinstance(expected, list) else [expected]
    for actual, value in zip(found, wanted, strict=True):
        _compare_with_numpy(actual, np.asarray(value), op, backend)


def _compare_with_numpy(actual: Tensor, expected: Array, op: OpCase, backend: Backend) -> None:
    """Raise unless an op's result is on the backend and close to NumPy's."""
    if actual.backend is not backend:
        raise AssertionError(f"{op.name}: the result lives on {actual.device}")
    allowed = RELATIVE_TOLERANCE_OF_DTYPE.get(str(actual.dtype), 0) * op.tolerance_factor
    largest = max(1.0, float(np.abs(expected).max(initial=1)))
    assert_close(actual.numpy(), expected, allowed, allowed * largest, op.name)


def _softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def _train_weights(x: Tensor, y: Tensor, weights: Tensor) -> Tensor:
    """Return the weights of a linear model of x after ten steps of gradient descent towards the labels y."""
    loss = plugrad.grad(lambda w: plugrad.mean(plugrad.square(x @ w - y)))
    for _ in range(10):
        weights = weights - loss(weights) * 0.05
    return weights


def _train_in_numpy(x: Array, y: Array, weights: Array) -> Array:
    """Return the weights of a linear model after ten steps of gradient descent, computed with NumPy."""
    for _ in range(10):
        weights = weights - 0.05 * 2 / y.size * x.T @ (x @ weights - y)
    return weights


def _run_network(x: Tensor, hidden_weights: Tensor, output_weights: Tensor) -> Tensor:
    """Return the sum of the squared outputs of a network with one hidden layer."""
    return plugrad.sum(plugrad.square(plugrad.tanh(x @ hidden_weights) @ output_weights))


def _network_gradients(x: Array, hidden_weights: Array, output_weights: Array) -> list[Array]:
    """Return the gradients of `_run_network` for the hidden and the output weights, computed with NumPy."""
    hidden = np.tanh(x @ hidden_weights)
    dy = 2 * (hidden @ output_weights)
    return [x.T @ (dy @ output_weights.T * (1 - hidden**2)), hidden.T @ dy]


def _step_with_adam(x: Tensor) -> Tensor:
    """Return a variable after Adam's first step, whose length is the learning rate."""
    variable = plugrad.Variable(x)
    optimizer = plugrad.optimizers.Adam(0.1)
    optimizer.minimize(lambda: plugrad.sum(plugrad.square(variable)), [variable])
    return variable + 0


def _compute_in_tidy(x: Tensor) -> Tensor:
    """Return the only result that a block of `plugrad.tidy` keeps."""
    with plugrad.tidy() as scope:
        y = x * 2
        z = scope.keep(y + 1)
    if not y.is_disposed:
        raise AssertionError("tidy() left a tensor that was made in its block")
    return z


IMAGE_BATCH_SHAPE: Final = (2, 5, 6, 3)
"""The shape of a batch of images: batch, height, width, channels."""

OP_CASES: Final = [
    OpCase("std", lambda x: plugrad.std(x, axis=1), lambda x: x.std(1)),
    OpCase("var", lambda x: plugrad.var(x), np.var),
    OpCase(
        "moments",
        lambda x: list(plugrad.moments(x, axis=0)),
        lambda x: [x.mean(0), x.var(0)],
    ),
    OpCase("diff", lambda x: plugrad.diff(x), np.diff),
    OpCase("sort", lambda x: plugrad.sort(x, axis=0), lambda x: np.sort(x, 0)),
    OpCase("roll", lambda x: plugrad.roll(x, 2, axis=1), lambda x: np.roll(x, 2, 1)),
    OpCase("repeat", lambda x: plugrad.repeat(x, 2, axis=0), lambda x: np.repeat(x, 2, 0)),
    OpCase("tril", lambda x: plugrad.tril(x), np.tril),
    OpCase(
        "moveaxis", lambda x: plugrad.moveaxis(x, 0, 2), lambda x: np.moveaxis(x, 0, 2), [(2, 3, 4)]
    ),
    OpCase("squeeze", lambda x: plugrad.squeeze(x, 1), lambda x: x.squeeze(1), [(3, 1, 2)]),
    OpCase(
        "stack", lambda *xs: plugrad.stack(xs, axis=1), lambda *xs: np.stack(xs, 1), [(3, 2)] * 2
    ),
    OpCase(
        "meshgrid",
        lambda *xs: plugrad.meshgrid(*xs),
        lambda *xs: list(np.meshgrid(*xs)),
        [(3,), (4,)],
    ),
    OpCase("where", lambda x: plugrad.where(x > 0, x, x * 2), lambda x: np.where(x > 0, x, x * 2)),
    OpCase("clip", lambda x: plugrad.clip(x, -1, 2), lambda x: np.clip(x, -1, 2)),
    OpCase(
        "tensordot",
        lambda a, b: plugrad.tensordot(a, b, axes=2),
        lambda a, b: np.tensordot(a, b, 2),
        [(2, 3, 4), (3, 4, 5)],
    ),
    OpCase("vecdot", lambda a, b: plugrad.vecdot(a, b), lambda a, b: (a * b).sum(-1), [(3, 5)] * 2),
    OpCase("norm", lambda x: plugrad.linalg.norm(x), np.linalg.norm),
    OpCase("softmax", lambda x: plugrad.softmax(x), _softmax),
    OpCase(
        "log_sum_exp",
        lambda x: plugrad.log_sum_exp(x, axis=1),
        lambda x: np.log(np.exp(x).sum(1)),
    ),
    OpCase(
        "absolute_difference",
        lambda a, b: plugrad.losses.absolute_difference(a, b),
        lambda a, b: np.abs(a - b).mean(),
        [(3, 5)] * 2,
    ),
    OpCase(
        "mean_squared_error",
        lambda a, b: plugrad.losses.mean_squared_error(a, b),
        lambda a, b: np.square(a - b).mean(),
        [(3, 5)] * 2,
    ),
    OpCase(
        "softmax_cross_entropy",
        lambda logits: plugrad.losses.softmax_cross_entropy(plugrad.softmax(logits * 2), logits),
        lambda logits: -(_softmax(logits * 2) * np.log(_softmax(logits))).sum(-1).mean(),
    ),
    OpCase(
        "conv1d",
        lambda x, w: plugrad.conv1d(x, w),
        lambda x, w: np.stack(
            [np.tensordot(x[:, i : i + 3], w, ((1, 2), (0, 1))) for i in range(5)], 1
        ),
        [(2, 7, 2), (3, 2, 4)],
    ),
    # indexing
    OpCase("x[1]", lambda x: x[1], lambda x: x[1]),
    OpCase("x[::-1, 1:4:2]", lambda x: x[::-1, 1:4:2], lambda x: x[::-1, 1:4:2]),
    OpCase("x[..., None, -1]", lambda x: x[..., None, -1], lambda x: x[..., None, -1], [(2, 3, 4)]),
    OpCase(
        "x[[2, 0], [1, -1]]",
        lambda x: x[plugrad.asarray([2, 0]), plugrad.asarray([1, -1])],
        lambda x: x[[2, 0], [1, -1]],
    ),
    OpCase("x[x > 0]", lambda x: x[x > 0], lambda x: x[x > 0]),
    # derivatives and programs
    OpCase(
        "gradient of an indexed element",
        lambda x: plugrad.grad(lambda x: x[1] * x[1])(x),
        lambda x: np.array([0, 2 * x[1], 0]),
        [(3,)],
    ),
    OpCase(
        "gradients of a network",
        lambda x, w, v: list(plugrad.grad(_run_network, (1, 2))(x, w, v)),
        _network_gradients,
        [(4, 3), (3, 5), (5, 2)],
        tolerance_factor=4,
    ),
    OpCase(
        "hessian",
        lambda x: plugrad.hessian(lambda x: plugrad.sum(x * x * x))(x),
        lambda x: 6 * np.diag(x),
        [(4,)],
    ),
    OpCase(
        "gradient descent",
        _train_weights,
        _train_in_numpy,
        [(8, 3), (8, 2), (3, 2)],
        tolerance_factor=4,
    ),
    OpCase(
        "Adam",
        _step_with_adam,
        lambda x: x - 0.1 * 2 * x / (2 * x + 1e-8),
        min_input=1,
        tolerance_factor=10,
    ),
    OpCase("tidy", _compute_in_tidy, lambda x: 2 * x + 1),
    OpCase(
        "two outputs of one input",
        lambda x: list(plugrad.value_and_grad(lambda x: plugrad.sum(plugrad.exp(x)))(x)),
        lambda x: [np.exp(x).sum(), np.exp(x)],
        tolerance_factor=4,
    ),
    OpCase(
        "batch_norm",
        lambda x: plugrad.batch_norm(x, *plugrad.moments(x, axis=(0, 1, 2)), variance_epsilon=0.1),
        lambda x: (x - x.mean((0, 1, 2))) / np.sqrt(x.var((0, 1, 2)) + 0.1),
        [IMAGE_BATCH_SHAPE],
        tolerance_factor=4,
    ),
]
"""The ops and short programs that the kit compares with NumPy."""
