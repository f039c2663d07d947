"""Attention."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import plugrad
from plugrad.extend import (
    ArgumentError,
    ArgumentValueError,
    DTypeError,
    ShapeError,
    active_precision,
    bool_,
    int32,
)
from plugrad_nn import initializers
from plugrad_nn.arguments import (
    check_choice,
    check_flag,
    check_function,
    check_integer,
    check_number,
)
from plugrad_nn.dense import Dense
from plugrad_nn.dropout import Dropout
from plugrad_nn.layer import INFERENCE, Layer, Mode

if TYPE_CHECKING:
    from plugrad import Tensor
    from plugrad_nn.initializers import Initializer
    from plugrad_nn.parameters import Params


@dataclass(frozen=True, repr=False)
class MultiHeadAttention(Layer):
    """Scaled dot-product attention with several heads (Vaswani et al., 2017).

    Each head computes ``softmax(q @ k.T / sqrt(key_dim)) @ v`` of projections of the input, and the
    results of all heads are projected back to the features of the input.

    >>> layer = nn.MultiHeadAttention(2, 4, causal=True)
    >>> params = layer.init(0, (10, 8))
    >>> x = plugrad.ones((1, 10, 8))
    >>> layer(params, x).shape
    (1, 10, 8)
    >>> layer(params, x, context=plugrad.ones((1, 3, 8))).shape
    (1, 10, 8)

    Parameters: those of the four `Dense` layers "query", "key", "value", whose columns are those of one
    head after the other, and "output". With `num_kv_heads`, "key" and "value" have that many heads, each for a group
    of neighbouring query heads (grouped-query attention, Ainslie et al., 2023; one is multi-query attention).

    Args:
        num_heads: the number of heads.
        key_dim: the size of a head's queries, keys and values.
        causal: whether each position attends only to itself and to those before it.
        dropout: the rate of dropout of the attention weights in training.
        use_bias: whether the projections have biases.
        kernel_initializer: see `plugrad_nn.initializers`.
        num_kv_heads: the number of heads of keys and values, which divides `num_heads`; by default as many.
        positions: how attention depends on positions: None, not at all; "rotary", by `rotate_positions` of queries
            and keys; "alibi", by a penalty that grows with the distance, with a slope for each head (Press et al.,
            2022).

    Raises:
        ArgumentError, ArgumentValueError: an argument is none of the above.
        ShapeError: in a call, the input is not (batch, length, features), or the mask does not broadcast.
        DTypeError: in a call, the mask does not hold bools.
    """

    num_heads: int
    key_dim: int
    causal: bool = False
    dropout: float = 0.0
    use_bias: bool = True
    kernel_initializer: Initializer = initializers.glorot_uniform
    num_kv_heads: int | None = None
    positions: str | None = None

    def __post_init__(self) -> None:
        name = "MultiHeadAttention"
        check_integer(name, "num_heads", self.num_heads, 1)
        check_integer(name, "key_dim", self.key_dim, 1)
        check_flag(name, "causal", self.causal)
        check_number(name, "dropout", self.dropout, least=0, below=1)
        check_flag(name, "use_bias", self.use_bias)
        check_function(name, "kernel_initializer", self.kernel_initializer)
        if self.num_kv_heads is not None:
            check_integer(name, "num_kv_heads", self.num_kv_heads, 1)
            if self.num_heads % self.num_kv_heads:
                raise ArgumentValueError(
                    f"{name}: num_kv_heads={self.num_kv_heads} does not divide num_heads={self.num_heads}"
                )
        if self.positions is not None:
            check_choice(name, "positions", self.positions, ("rotary", "alibi"))
            if self.positions == "rotary" and self.key_dim % 2:
                raise ArgumentValueError(
                    f"{name}: key_dim={self.key_dim} must be even, because rotary positions turn pairs of numbers"
                )

    @property
    def _kv_heads(self) -> int:
        """The number of heads of keys and values."""
        return self.num_heads if self.num_kv_heads is None else self.num_kv_heads

    def parts(self, shape: tuple[int, ...]) -> dict[str, tuple[Layer, tuple[int, ...]]]:
        """Return the four projections by name, each with its input shape."""
        self.check_axes(shape, 2, "(length, features)")
        width = self.num_heads * self.key_dim
        few = self._make_projection(self._kv_heads * self.key_dim)
        return {
            "query": (self._make_projection(width), shape),
            "key": (few, shape),
            "value": (few, shape),
            "output": (self._make_projection(shape[-1]), (*shape[:-1], width)),
        }

    def output_shape(self, params: Params, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of one result."""
        return shape

    def __call__(
        self,
        params: Params,
        x: Any,
        mode: Mode = INFERENCE,
        *,
        context: Any = None,
        mask: Any = None,
    ) -> Tensor:
        """Return the result, of the shape of x.

        Args:
            params: what `init` returned.
            x: what asks, of shape (batch, length, features).
            mode: `INFERENCE`, or a `Training`.
            context: what is asked, of shape (batch, places, features); by default x.
            mask: bools that are True where a position may attend to a place; their shape broadcasts to
                (batch, heads, length, places). Where all are False, all places get equal weights.
        """
        x = self._check_input("x", x)
        if context is None:
            x = context = _cast_for_projections(x)
        else:
            context = _cast_for_projections(self._check_input("context", context))
        query = self._project_heads(params, "query", x, self.num_heads)
        key = self._project_heads(params, "key", context, self._kv_heads)
        value = self._project_heads(params, "value", context, self._kv_heads)
        if self.positions == "rotary":
            query, key = rotate_positions(query), rotate_positions(key)
        key, value = self._repeat_heads(key), self._repeat_heads(value)
        shape = (x.shape[0], self.num_heads, query.shape[2], key.shape[2])
        bias = self._score_bias(key, shape, self._attention_mask(shape, mask))
        if not self.dropout or not mode.is_training:
            return self._project_back(params, plugrad.attention(query, key, value, bias), x)
        scores = (query @ plugrad.matrix_transpose(key)) * self.key_dim**-0.5
        scores = scores if bias is None else scores + bias
        weights = Dropout(self.dropout)({}, plugrad.softmax(scores), mode["dropout"])
        return self._project_back(params, weights @ value, x)

    def initial_state(self, params: Params, batch: int, places: int) -> tuple[Tensor, ...]:
        """Return an empty cache of keys and values with room for `places` positions."""
        kernel = self.parameter(self.parameter(params, "key"), "kernel")
        shape = (batch, self._kv_heads, places, self.key_dim)
        keys, values = (
            plugrad.zeros(shape, dtype=kernel.dtype, device=kernel.backend) for _ in "kv"
        )
        return keys, values, plugrad.zeros((), dtype=int32, device=kernel.backend)

    def step(
        self, params: Params, x: Any, state: tuple[Tensor, ...]
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Return the result for the next positions, and the cache with their keys and values.

        Attention must be causal: each position attends to those before it, whose keys and values the state has, and
        to itself. The state consists of keys, values and the number of positions, and keeps its shapes, so that
        `plugrad.jit` traces a step once. Positions beyond its places are not kept.

        >>> layer = nn.MultiHeadAttention(2, 4, causal=True)
        >>> params = layer.init(0, (10, 8))
        >>> x = plugrad.ones((1, 10, 8))
        >>> state = layer.initial_state(params, batch=1, places=10)
        >>> y, state = layer.step(params, x[:, :9], state)
        >>> y, state = layer.step(params, x[:, 9:], state)
        >>> bool(plugrad.all(plugrad.abs(y[:, 0] - layer(params, x)[:, 9]) < 1e-5))
        True

        Args:
            params: what `init` returned.
            x: the next positions, of shape (batch, length, features).
            state: what `initial_state` returned, or the step before.

        Raises:
            ArgumentError: attention is not causal.
            ShapeError: x or the state does not have the shape that it needs.
        """
        x = self._check_input("x", x)
        if not self.causal:
            raise ArgumentError("MultiHeadAttention: a step needs causal=True")
        keys, values, start = state
        shape = (x.shape[0], self._kv_heads, keys.shape[2], self.key_dim)
        if keys.shape != shape or values.shape != shape:
            raise ShapeError(
                f"MultiHeadAttention: the state has shapes {keys.shape} and {values.shape}; both must be (batch, "
                f"heads, places, key_dim), here {shape}"
            )
        query = self._project_heads(params, "query", x, self.num_heads)
        key = self._project_heads(params, "key", x, self._kv_heads)
        value = self._project_heads(params, "value", x, self._kv_heads)
        places = plugrad.arange(keys.shape[2], device=x.backend)
        positions = start + plugrad.arange(x.shape[1], device=x.backend)
        if self.positions == "rotary":
            rows = plugrad.minimum(positions, keys.shape[2] - 1)
            turns = [
                plugrad.take(table, rows, axis=0) for table in _rotation_cosines_and_sines(keys)
            ]
            query, key = _rotate_pairs(query, *turns), _rotate_pairs(key, *turns)
        keys, values = (
            _write_cache(old, new, places - start) for old, new in ((keys, key), (values, value))
        )
        mask: Tensor = places <= plugrad.expand_dims(positions, axis=1)
        if self.positions == "alibi":
            penalties = _alibi_penalties(keys, positions, self.num_heads)
            mask = plugrad.where(mask, -penalties, -math.inf)
        heads = plugrad.attention(query, self._repeat_heads(keys), self._repeat_heads(values), mask)
        return self._project_back(params, heads, x), (keys, values, start + x.shape[1])

    def _repeat_heads(self, x: Tensor) -> Tensor:
        """Repeat keys or values for the query heads that share them."""
        shared = self.num_heads // self._kv_heads
        return plugrad.repeat(x, shared, axis=1) if shared > 1 else x

    def _project_back(self, params: Params, heads: Tensor, x: Tensor) -> Tensor:
        """Project the results of all heads back to the features of x."""
        heads = plugrad.permute_dims(heads, (0, 2, 1, 3))
        joined = plugrad.reshape(heads, (*x.shape[:-1], self.num_heads * self.key_dim))
        return self._make_projection(x.shape[-1])(self.parameter(params, "output"), joined)

    def _make_projection(self, units: int) -> Dense:
        """Return the dense layer of a projection."""
        return Dense(units, None, self.use_bias, self.kernel_initializer)

    def _check_input(self, name: str, x: Any) -> Tensor:
        """Return an input as a tensor, checked to have three axes."""
        x = plugrad.asarray(x)
        if x.ndim != 3:
            raise ShapeError(
                f"MultiHeadAttention: {name} has shape {x.shape}; it must be (batch, length, features)"
            )
        return x

    def _project_heads(self, params: Params, name: str, x: Tensor, head_count: int) -> Tensor:
        """Return a projection, of shape (batch, heads, length, key_dim)."""
        y = self._make_projection(head_count * self.key_dim)(self.parameter(params, name), x)
        parts = plugrad.reshape(y, (*x.shape[:-1], head_count, self.key_dim))
        return plugrad.permute_dims(parts, (0, 2, 1, 3))

    def _score_bias(
        self, key: Tensor, score_shape: tuple[int, ...], attention_mask: Tensor | None
    ) -> Tensor | None:
        """Return the bias to add to attention scores, or None if there is none."""
        bias = None
        if attention_mask is not None:
            # Finite, so that the softmax of a row without allowed places is no NaN.
            lowest = float(plugrad.finfo(key.dtype).min) / 2
            bias = plugrad.where(attention_mask, plugrad.zeros((), dtype=key.dtype), lowest)
        if self.positions != "alibi":
            return bias
        # The queries are the last of the places, as they are when a sequence is continued.
        positions = plugrad.arange(
            score_shape[3] - score_shape[2], score_shape[3], device=key.backend
        )
        penalties = _alibi_penalties(key, positions, self.num_heads)
        return -penalties if bias is None else bias - penalties

    def _attention_mask(self, score_shape: tuple[int, ...], mask: Any) -> Tensor | None:
        """Return which query may attend to which key, or None if each may attend to all."""
        allowed = None
        if self.causal:
            allowed = plugrad.tril(plugrad.ones(score_shape[-2:], dtype=bool_))
        if mask is None:
            return allowed
        mask = plugrad.asarray(mask)
        if mask.dtype != bool_:
            raise DTypeError(f"MultiHeadAttention: mask is {mask.dtype}; it must hold bools")
        missing = len(score_shape) - mask.ndim
        if missing < 0 or any(
            n not in (1, m) for n, m in zip(mask.shape, score_shape[missing:], strict=True)
        ):
            raise ShapeError(
                f"MultiHeadAttention: mask has shape {mask.shape}; it must broadcast to (batch, heads, "
                f"length, places), which is {score_shape}"
            )
        return mask if allowed is None else plugrad.logical_and(mask, allowed)


def _cast_for_projections(x: Tensor) -> Tensor:
    """Return x cast to the precision of the projections, which then share one cast instead of keeping one each."""
    precision = active_precision()
    return x if precision is None or x.dtype != plugrad.float32 else plugrad.astype(x, precision)


def rotate_positions(x: Any, *, start: int = 0, base: float = 10_000.0) -> Tensor:
    """Vectors whose pairs of elements are rotated by angles that grow with the position (Su et al., 2021).

    >>> nn.rotate_positions(plugrad.ones((1, 2, 4)))[0, 0]
    tensor([1., 1., 1., 1.], dtype=float32)

    Number i of the first half and number i of the second half of a vector of size n are turned by
    ``position * base ** (-2 * i / n)``, as in Llama and GPT-NeoX. The product of two vectors then depends on the
    distance of their positions alone. The result has the shape and dtype of x.

    Args:
        x: a tensor of shape (…, length, n) with an even n.
        start: the position of the first vector.
        base: the number whose powers give the frequencies.

    Raises:
        ShapeError: x has fewer than two axes, or n is odd.
        ArgumentError, ArgumentValueError: `start` is not an integer, 0 or more, or `base` not a positive number.
    """
    x = plugrad.asarray(x)
    check_integer("rotate_positions", "start", start)
    if check_number("rotate_positions", "base", base, least=0) == 0:
        raise ArgumentValueError(f"rotate_positions: base={base} must be positive")
    if x.ndim < 2 or x.shape[-1] % 2:
        raise ShapeError(
            f"rotate_positions: x has shape {x.shape}; it must be (…, length, n) with an even n"
        )
    return _rotate_pairs(x, *_rotation_cosines_and_sines(x, start, base))


def _rotation_cosines_and_sines(
    x: Tensor, start: int = 0, base: float = 10_000.0
) -> tuple[Tensor, Tensor]:
    """Return the cosines and sines of the angles in `rotate_positions`, of shape (length, n / 2)."""
    half = x.shape[-1] // 2
    # Angles are computed in double precision, because positions may be large.
    frequencies: list[float] = [base ** (-i / half) for i in range(half)]
    angles = np.outer(np.arange(start, start + x.shape[-2]), frequencies)
    cos, sin = (
        plugrad.asarray(f(angles), dtype=x.dtype, device=x.backend) for f in (np.cos, np.sin)
    )
    return cos, sin


def _rotate_pairs(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Return vectors whose pairs of elements are rotated by angles with these cosines and sines."""
    first, second = plugrad.split(x, 2, axis=-1)
    return plugrad.concat([first * cos - second * sin, second * cos + first * sin], axis=-1)


def _write_cache(old_cache: Tensor, new_values: Tensor, value_indices: Tensor) -> Tensor:
    """Return a cache of shape (batch, heads, places, size), with a new value at each place whose index is valid."""
    length = new_values.shape[2]
    is_new = plugrad.logical_and(value_indices >= 0, value_indices < length)
    if length != 1:
        new_values = plugrad.take(new_values, plugrad.clip(value_indices, 0, length - 1), axis=2)
    return plugrad.where(plugrad.expand_dims(is_new, axis=1), new_values, old_cache)


def _alibi_penalties(keys: Tensor, positions: Tensor, head_count: int) -> Tensor:
    """Return the penalties that ALiBi subtracts from scores, of shape (heads, length, places)."""
    places = plugrad.arange(keys.shape[-2], device=keys.backend)
    distances = plugrad.abs(plugrad.expand_dims(positions, axis=1) - places)
    slopes = plugrad.asarray(
        _alibi_slopes(head_count)[:, None, None], dtype=keys.dtype, device=keys.backend
    )
    return slopes * plugrad.astype(distances, keys.dtype)


def _alibi_slopes(head_count: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return ALiBi's slope for each head, a geometric sequence if the number of heads is a power of 2."""
    whole = 1 << (head_count.bit_length() - 1)
    slopes = 2.0 ** (-8 * np.arange(1, whole + 1) / whole)
    between = 2.0 ** (-4 * np.arange(1, 2 * whole + 1, 2) / whole)
    return np.concatenate([slopes, between[: head_count - whole]])
