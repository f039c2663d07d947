"""Attention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import plugrad
from plugrad.extend import DTypeError, ShapeError, bool_
from plugrad_nn import initializers
from plugrad_nn.arguments import check_flag, check_function, check_integer, check_number
from plugrad_nn.dense import Dense
from plugrad_nn.dropout import Dropout
from plugrad_nn.layer import INFERENCE, Layer, Mode

if TYPE_CHECKING:
    from plugrad import Tensor
    from plugrad.extend import DType
    from plugrad.random import Generator
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
    head after the other, and "output".

    Args:
        num_heads: the number of heads.
        key_dim: the size of a head's queries, keys and values.
        causal: whether each position attends only to itself and to those before it.
        dropout: the rate of dropout of the attention weights in training.
        use_bias: whether the projections have biases.
        kernel_initializer: see `plugrad_nn.initializers`.

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

    def __post_init__(self) -> None:
        name = "MultiHeadAttention"
        check_integer(name, "num_heads", self.num_heads, 1)
        check_integer(name, "key_dim", self.key_dim, 1)
        check_flag(name, "causal", self.causal)
        check_number(name, "dropout", self.dropout, least=0, below=1)
        check_flag(name, "use_bias", self.use_bias)
        check_function(name, "kernel_initializer", self.kernel_initializer)

    def build(self, generator: Generator, shape: tuple[int, ...], dtype: DType) -> Params:
        """Return the parameters of the four projections."""
        self.check_axes(shape, 2, "(length, features)")
        width = self.num_heads * self.key_dim
        inner = self._make_projection(width)
        params = {n: inner.build(generator, shape, dtype) for n in ("query", "key", "value")}
        params["output"] = self._make_projection(shape[-1]).build(generator, (width,), dtype)
        return params

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
        context = x if context is None else self._check_input("context", context)
        query = self._project_heads(params, "query", x)
        key = self._project_heads(params, "key", context)
        value = self._project_heads(params, "value", context)
        scores = (query @ plugrad.matrix_transpose(key)) * self.key_dim**-0.5
        allowed = self._attention_mask(scores.shape, mask)
        if allowed is not None:
            # Finite, so that the softmax of a row without allowed places is no NaN.
            lowest = float(plugrad.finfo(scores.dtype).min) / 2
            scores = plugrad.where(allowed, scores, lowest)
        weights = Dropout(self.dropout)({}, plugrad.softmax(scores), mode["dropout"])
        heads = plugrad.permute_dims(weights @ value, (0, 2, 1, 3))
        joined = plugrad.reshape(heads, (*x.shape[:-1], self.num_heads * self.key_dim))
        return self._make_projection(x.shape[-1])(self.parameter(params, "output"), joined)

    def _make_projection(self, units: int) -> Dense:
        return Dense(units, None, self.use_bias, self.kernel_initializer)

    def _check_input(self, name: str, x: Any) -> Tensor:
        x = plugrad.asarray(x)
        if x.ndim != 3:
            raise ShapeError(
                f"MultiHeadAttention: {name} has shape {x.shape}; it must be (batch, length, features)"
            )
        return x

    def _project_heads(self, params: Params, name: str, x: Tensor) -> Tensor:
        """Return a projection, of shape (batch, heads, length, key_dim)."""
        width = self.num_heads * self.key_dim
        y = self._make_projection(width)(self.parameter(params, name), x)
        parts = plugrad.reshape(y, (*x.shape[:-1], self.num_heads, self.key_dim))
        return plugrad.permute_dims(parts, (0, 2, 1, 3))

    def _attention_mask(self, shape: tuple[int, ...], mask: Any) -> Tensor | None:
        """Return where a position may attend to a place, or None if it always may."""
        allowed = None
        if self.causal:
            allowed = plugrad.tril(plugrad.ones(shape[-2:], dtype=bool_))
        if mask is None:
            return allowed
        mask = plugrad.asarray(mask)
        if mask.dtype != bool_:
            raise DTypeError(f"MultiHeadAttention: mask is {mask.dtype}; it must hold bools")
        missing = len(shape) - mask.ndim
        if missing < 0 or any(
            n not in (1, m) for n, m in zip(mask.shape, shape[missing:], strict=True)
        ):
            raise ShapeError(
                f"MultiHeadAttention: mask has shape {mask.shape}; it must broadcast to (batch, heads, "
                f"length, places), which is {shape}"
            )
        return mask if allowed is None else plugrad.logical_and(mask, allowed)
