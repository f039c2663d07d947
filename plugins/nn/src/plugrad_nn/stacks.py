"""Encoders and decoders: blocks of transformers one after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import plugrad
from plugrad.extend import ArgumentError
from plugrad_nn.arguments import check_function, check_integer
from plugrad_nn.layer import INFERENCE, Layer, Mode
from plugrad_nn.transformer import TransformerDecoderBlock, TransformerEncoderBlock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plugrad import Tensor
    from plugrad_nn.parameters import Params


@dataclass(frozen=True, repr=False)
class _StackBlocks(Layer):
    """The blocks of a stack, whose parameters are named by the number of the block."""

    block: Layer
    num_blocks: int

    def parts(self, shape: tuple[int, ...]) -> dict[str, tuple[Layer, tuple[int, ...]]]:
        """Return the blocks by number, each with its input shape."""
        return {str(number): (self.block, shape) for number in range(self.num_blocks)}

    def __call__(self, params: Params, x: Any, mode: Mode = INFERENCE, **masks: Any) -> Tensor:
        """Return the result of the last block."""
        for number in range(self.num_blocks):
            own = self.parameter(params, str(number))
            x = self.block(own, x, mode[str(number)], **masks)
        return x


@dataclass(frozen=True, repr=False)
class _TransformerStack(Layer):
    """A stack of equal transformer blocks, and an optional normalization."""

    block: Any
    num_blocks: int
    normalization: Layer | None = None

    def __post_init__(self) -> None:
        name, wanted = type(self).__name__, self._block_class()
        if not isinstance(self.block, wanted):
            raise ArgumentError(
                f"{name}: block={self.block!r:.80} must be a {wanted.__name__}, such as {wanted.__name__}(2, 16)"
            )
        check_integer(name, "num_blocks", self.num_blocks, 1)
        if self.normalization is not None:
            check_function(name, "normalization", self.normalization)

    def _block_class(self) -> type[Layer]:
        """Return the class of the blocks."""
        return TransformerEncoderBlock

    def _blocks(self) -> _StackBlocks:
        """Return the blocks as one layer."""
        return _StackBlocks(self.block, self.num_blocks)

    def parts(self, shape: tuple[int, ...]) -> dict[str, tuple[Layer, tuple[int, ...]]]:
        """Return the blocks, and the final normalization if there is one, each with its input shape."""
        found: dict[str, tuple[Layer, tuple[int, ...]]] = {"layers": (self._blocks(), shape)}
        if self.normalization is not None:
            found["norm"] = (self.normalization, shape)
        return found

    def output_shape(self, params: Params, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the output shape for one example."""
        return shape

    def _run_blocks(self, params: Params, x: Any, mode: Mode, **masks: Any) -> Tensor:
        """Return the normalized result of the last block."""
        x = self._blocks()(self.parameter(params, "layers"), x, mode["layers"], **masks)
        return self._normalize(params, x, mode)

    def _normalize(self, params: Params, x: Tensor, mode: Mode) -> Tensor:
        """Return x after the final normalization, if there is one."""
        if self.normalization is None:
            return x
        return self.normalization(self.parameter(params, "norm"), x, mode)


@dataclass(frozen=True, repr=False)
class TransformerEncoder(_TransformerStack):
    """A stack of equal encoder blocks, each with its own parameters (Vaswani et al., 2017).

    >>> layer = nn.TransformerEncoder(
    ...     nn.TransformerEncoderBlock(2, 16, norm_first=True), 3, nn.LayerNorm()
    ... )
    >>> params = layer.init(0, (10, 8))
    >>> layer(params, plugrad.ones((1, 10, 8))).shape
    (1, 10, 8)
    >>> list(params), list(params["layers"])
    (['layers', 'norm'], ['0', '1', '2'])

    Parameters: "layers", those of the blocks by their numbers, and "norm" of the normalization.

    Args:
        block: a `TransformerEncoderBlock`, which says what each block is like.
        num_blocks: how many there are.
        normalization: a layer for the result, which blocks with ``norm_first=True`` leave as it is.

    Raises:
        ArgumentError, ArgumentValueError: an argument is none of the above.
        ShapeError: the input is not (batch, length, features), or the heads do not divide the features.
    """

    def __call__(
        self, params: Params, x: Any, mode: Mode = INFERENCE, *, mask: Any = None
    ) -> Tensor:
        """Return the result, of the shape of x; `mask` is as for `MultiHeadAttention`."""
        return self._run_blocks(params, x, mode, mask=mask)

    def initial_state(self, params: Params, batch: int, places: int) -> tuple[Any, ...]:
        """Return the empty cache of each block; see `MultiHeadAttention.step`."""
        own = self.parameter(params, "layers")
        return tuple(
            self.block.initial_state(own[str(number)], batch, places)
            for number in range(self.num_blocks)
        )

    def step(self, params: Params, x: Any, state: Sequence[Any]) -> tuple[Tensor, tuple[Any, ...]]:
        """Return the result for the next positions, and the new caches; see `MultiHeadAttention.step`."""
        own = self.parameter(params, "layers")
        x, after = plugrad.asarray(x), list[Any]()
        for number, each in enumerate(state):
            x, new = self.block.step(own[str(number)], x, each)
            after.append(new)
        return self._normalize(params, x, INFERENCE), tuple(after)


@dataclass(frozen=True, repr=False)
class TransformerDecoder(_TransformerStack):
    """A stack of equal decoder blocks, all of which attend to one context (Vaswani et al., 2017).

    >>> layer = nn.TransformerDecoder(nn.TransformerDecoderBlock(2, 16), 2)
    >>> params = layer.init(0, (10, 8))
    >>> layer(params, plugrad.ones((1, 10, 8)), context=plugrad.ones((1, 7, 8))).shape
    (1, 10, 8)

    Parameters, arguments and errors are as for `TransformerEncoder`, with a `TransformerDecoderBlock`.
    """

    def _block_class(self) -> type[Layer]:
        return TransformerDecoderBlock

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
        """Return the result, of the shape of x; the other arguments are as for `TransformerDecoderBlock`."""
        context = x if context is None else context
        return self._run_blocks(
            params, x, mode, context=context, mask=mask, context_mask=context_mask
        )
