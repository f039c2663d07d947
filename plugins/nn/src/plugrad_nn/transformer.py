"""Blocks of transformers, made of attention, dense layers and normalization."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import plugrad
from plugrad.extend import ShapeError
from plugrad_nn.arguments import check_flag, check_function, check_integer, check_number
from plugrad_nn.attention import MultiHeadAttention
from plugrad_nn.dense import Dense
from plugrad_nn.dropout import Dropout
from plugrad_nn.layer import INFERENCE, Layer, Mode
from plugrad_nn.normalization import LayerNorm

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugrad import Tensor
    from plugrad_nn.parameters import Params

DEFAULT_NORMALIZATION: Final = LayerNorm()
"""The normalization of blocks that are given none."""


@dataclass(frozen=True, repr=False)
class _TransformerBlock(Layer):
    """The fields of transformer blocks, and the two dense layers."""

    num_heads: int
    hidden_units: int
    activation: Callable[[Tensor], Tensor] = plugrad.relu
    dropout: float = 0.0
    norm_first: bool = False
    normalization: Layer = DEFAULT_NORMALIZATION
    causal: bool = False

    def __post_init__(self) -> None:
        name = type(self).__name__
        check_integer(name, "num_heads", self.num_heads, 1)
        check_integer(name, "hidden_units", self.hidden_units, 1)
        check_function(name, "activation", self.activation)
        check_function(name, "normalization", self.normalization)
        check_number(name, "dropout", self.dropout, least=0, below=1)
        check_flag(name, "norm_first", self.norm_first)
        check_flag(name, "causal", self.causal)

    def _make_attention(self, shape: tuple[int, ...], causal: bool) -> MultiHeadAttention:
        """Return the attention layer for inputs of a shape."""
        self.check_axes(shape, 0, "(…, features)")
        features = shape[-1]
        if features % self.num_heads:
            raise ShapeError(
                f"{type(self).__name__}: num_heads={self.num_heads} does not divide the {features} features"
            )
        return MultiHeadAttention(self.num_heads, features // self.num_heads, causal, self.dropout)

    def _make_feed_forward_layers(self, features: int) -> tuple[Dense, Dense]:
        """Return the two dense layers for a number of features."""
        return Dense(self.hidden_units, self.activation), Dense(features)

    def _make_sublayers(
        self, attentions: dict[str, MultiHeadAttention], shape: tuple[int, ...]
    ) -> dict[str, tuple[Layer, tuple[int, ...]]]:
        """Return the layers of the block, each followed by its normalization."""
        self.check_axes(shape, 2, "(length, features)")
        hidden, output = self._make_feed_forward_layers(shape[-1])
        found: dict[str, tuple[Layer, tuple[int, ...]]] = {}
        for name, attention in attentions.items():
            found[name] = (attention, shape)
            found[f"{name}_norm"] = (self.normalization, shape)
        found["hidden"] = (hidden, shape)
        found["output"] = (output, (*shape[:-1], self.hidden_units))
        found["output_norm"] = (self.normalization, shape)
        return found

    def _add_sublayer_result(
        self, params: Params, name: str, x: Tensor, sublayer: Callable[[Tensor], Tensor], mode: Mode
    ) -> Tensor:
        """Return x plus the result of one layer of the block, normalized before or after."""
        own = self.parameter(params, f"{name}_norm")
        drop = Dropout(self.dropout)
        norm = self.normalization
        if self.norm_first:
            return x + drop({}, sublayer(norm(own, x, mode)), mode[f"{name}_dropout"])
        return norm(own, x + drop({}, sublayer(x), mode[f"{name}_dropout"]), mode)

    def _add_feed_forward(self, params: Params, x: Tensor, mode: Mode) -> Tensor:
        """Return x plus the result of the two dense layers."""
        hidden, output = self._make_feed_forward_layers(x.shape[-1])

        def apply_feed_forward(x: Tensor) -> Tensor:
            y = hidden(self.parameter(params, "hidden"), x)
            y = Dropout(self.dropout)({}, y, mode["hidden_dropout"])
            return output(self.parameter(params, "output"), y)

        return self._add_sublayer_result(params, "output", x, apply_feed_forward, mode)

    def output_shape(self, params: Params, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the output shape for one example."""
        return shape


@dataclass(frozen=True, repr=False)
class TransformerEncoderBlock(_TransformerBlock):
    """Self-attention followed by two dense layers (Vaswani et al., 2017).

    The input is added to the result of both parts, and normalized after each, or before with ``norm_first=True``.
    With ``causal=True`` it is a block of a language model.

    >>> layer = nn.TransformerEncoderBlock(2, 16)
    >>> params = layer.init(0, (10, 8))
    >>> layer(params, plugrad.ones((1, 10, 8))).shape
    (1, 10, 8)

    Parameters: those of "attention", of the dense layers "hidden" and "output", and of "attention_norm" and
    "output_norm".

    Args:
        num_heads: the number of heads, which divides the number of features.
        hidden_units: the size of the result of the first dense layer.
        activation: the function of that result.
        dropout: the rate of dropout of attention weights and of the result of each part, in training.
        norm_first: whether parts are normalized before (Xiong et al., 2020) and not after.
        normalization: a layer, such as `RMSNorm`.
        causal: whether each position attends only to itself and to those before it.

    Raises:
        ArgumentError, ArgumentValueError: an argument is none of the above.
        ShapeError: the input is not (batch, length, features), or the heads do not divide the features.
    """

    def parts(self, shape: tuple[int, ...]) -> dict[str, tuple[Layer, tuple[int, ...]]]:
        """Return the layers of the block by name, each with its input shape."""
        return self._make_sublayers({"attention": self._make_attention(shape, self.causal)}, shape)

    def __call__(
        self, params: Params, x: Any, mode: Mode = INFERENCE, *, mask: Any = None
    ) -> Tensor:
        """Return the result, of the shape of x; `mask` is as for `MultiHeadAttention`."""
        x = plugrad.asarray(x)
        attention = self._make_attention(x.shape, self.causal)

        def part(x: Tensor) -> Tensor:
            """Return the result of the attention."""
            own = self.parameter(params, "attention")
            return attention(own, x, mode["attention"], mask=mask)

        x = self._add_sublayer_result(params, "attention", x, part, mode)
        return self._add_feed_forward(params, x, mode)

    def initial_state(self, params: Params, batch: int, places: int) -> tuple[Tensor, ...]:
        """Return the empty cache of the attention; see `MultiHeadAttention.step`."""
        own = self.parameter(params, "attention")
        features = self.parameter(self.parameter(own, "output"), "kernel").shape[-1:]
        return self._make_attention(features, self.causal).initial_state(own, batch, places)

    def step(
        self, params: Params, x: Any, state: tuple[Tensor, ...]
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Return the result for the next positions, and the new cache; see `MultiHeadAttention.step`."""
        x = plugrad.asarray(x)
        after = state

        def apply_attention(x: Tensor) -> Tensor:
            nonlocal after
            own = self.parameter(params, "attention")
            y, after = self._make_attention(x.shape, self.causal).step(own, x, state)
            return y

        x = self._add_sublayer_result(params, "attention", x, apply_attention, INFERENCE)
        return self._add_feed_forward(params, x, INFERENCE), after


@dataclass(frozen=True, repr=False)
class TransformerDecoderBlock(_TransformerBlock):
    """Self-attention, attention to a context, and two dense layers (Vaswani et al., 2017).

    >>> layer = nn.TransformerDecoderBlock(2, 16)
    >>> params = layer.init(0, (10, 8))
    >>> layer(params, plugrad.ones((1, 10, 8)), context=plugrad.ones((1, 7, 8))).shape
    (1, 10, 8)

    Parameters: those of "attention", "context_attention", of the dense layers "hidden" and "output", and of
    "attention_norm", "context_attention_norm" and "output_norm". Arguments and errors are as for
    `TransformerEncoderBlock`; attention to itself is causal by default.
    """

    causal: bool = True

    def parts(self, shape: tuple[int, ...]) -> dict[str, tuple[Layer, tuple[int, ...]]]:
        """Return the layers of the block by name, each with its input shape."""
        attentions = {
            "attention": self._make_attention(shape, self.causal),
            "context_attention": self._make_attention(shape, False),
        }
        return self._make_sublayers(attentions, shape)

    def __call__(
        self,
        params: Params,
        x: Any,
        mode: Mode = INFERENCE,
        *,
        context: Any = None,
        mask: Any = None,
        context_mask: Any = None,
    ) -> Tensor:
        """Return the result, of the shape of x.

        Args:
            params: what `init` returned.
            x: a sequence of shape (batch, length, features).
            mode: `INFERENCE`, or a `Training`.
            context: the sequence to attend to, of shape (batch, places, features); by default x.
            mask: where positions of x may attend to positions of x; see `MultiHeadAttention`.
            context_mask: where they may attend to places of the context.
        """
        x = plugrad.asarray(x)
        attention, to_context = (
            self._make_attention(x.shape, self.causal),
            self._make_attention(x.shape, False),
        )

        def attend(x: Tensor) -> Tensor:
            own = self.parameter(params, "attention")
            return attention(own, x, mode["attention"], mask=mask)

        def attend_to_context(y: Tensor) -> Tensor:
            own = self.parameter(params, "context_attention")
            place = x if context is None else context
            return to_context(own, y, mode["context_attention"], context=place, mask=context_mask)

        y = self._add_sublayer_result(params, "attention", x, attend, mode)
        y = self._add_sublayer_result(params, "context_attention", y, attend_to_context, mode)
        return self._add_feed_forward(params, y, mode)
