"""Layers that put the largest elements of windows back where they were."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, cast

import plugrad
from plugrad.extend import ArgumentError, ShapeError
from plugrad_nn.arguments import SizeOrSizes, check_sizes
from plugrad_nn.layer import INFERENCE, Layer, Mode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plugrad import Tensor
    from plugrad_nn.parameters import Params


@dataclass(frozen=True, repr=False)
class _Unpooling(Layer):
    """A layer that writes maxima back to their positions among zeros."""

    pool_size: SizeOrSizes = 2
    strides: SizeOrSizes | None = None
    output_size: SizeOrSizes | None = None

    rank: ClassVar[int]

    def __post_init__(self) -> None:
        name = type(self).__name__
        check_sizes(name, "pool_size", self.pool_size, self.rank)
        for field in ("strides", "output_size"):
            value = getattr(self, field)
            if value is not None:
                check_sizes(name, field, value, self.rank)

    def output_shape(self, params: Params, shape: Any) -> tuple[int, ...]:
        """Return the output shape for one example, given the shapes of elements and positions."""
        *sizes, channels = shape[0] if isinstance(shape[0], tuple) else shape
        return (*self._size_result(sizes), channels)

    def __call__(self, params: Params, x: Any, mode: Mode = INFERENCE) -> Tensor:
        """Return zeros, with the elements x[0] at the positions x[1]."""
        name = type(self).__name__
        given: list[Any] = list(cast("Sequence[Any]", x)) if isinstance(x, tuple | list) else []
        if len(given) != 2:
            raise ArgumentError(
                f"{name}: x must be a pair of elements and their positions, as pooling with return_positions=True "
                f"returns them, and not {type(x).__name__}"
            )
        values, positions = map(plugrad.asarray, given)
        if values.ndim != self.rank + 2:
            raise ShapeError(
                f"{name}: x[0] has shape {values.shape}; it must have {self.rank + 2} axes: the batch, {self.rank} "
                "spatial ones and the channels"
            )
        shape = (values.shape[0], *self._size_result(values.shape[1:-1]), values.shape[-1])
        return plugrad.max_unpool(values, positions, shape)

    def _size_result(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Return the sizes of the output's spatial axes."""
        if self.output_size is not None:
            return check_sizes("", "output_size", self.output_size, self.rank)
        window = check_sizes("", "pool_size", self.pool_size, self.rank)
        steps = self.pool_size if self.strides is None else self.strides
        strides = check_sizes("", "strides", steps, self.rank)
        return tuple(
            max(n - 1, 0) * step + length if n else 0
            for n, step, length in zip(sizes, strides, window, strict=True)
        )


@dataclass(frozen=True, repr=False)
class MaxUnpooling1D(_Unpooling):
    """Maxima of windows of sequences, written back to their positions among zeros.

    >>> pooled = nn.MaxPooling1D(return_positions=True)(
    ...     {}, plugrad.asarray([[[1.0], [5.0], [2.0], [3.0]]])
    ... )
    >>> nn.MaxUnpooling1D()({}, pooled)[0, :, 0]
    tensor([0., 5., 0., 3.], dtype=float32)

    Arguments and errors are as for `MaxUnpooling2D`, with one spatial axis.
    """

    rank: ClassVar[int] = 1


@dataclass(frozen=True, repr=False)
class MaxUnpooling2D(_Unpooling):
    """Maxima of windows of images, written back to their positions among zeros (Zeiler and Fergus, 2014).

    >>> model = nn.Sequential(nn.MaxPooling2D(return_positions=True), nn.MaxUnpooling2D())
    >>> x = plugrad.reshape(plugrad.arange(8.0), (1, 2, 4, 1))
    >>> model(model.init(0, (2, 4, 1)), x)[0, :, :, 0]
    tensor([[0., 0., 0., 0.],
            [0., 5., 0., 7.]], dtype=float32)

    The input is the pair that `MaxPooling2D` with ``return_positions=True`` returns, or a list of such two tensors.

    Args:
        pool_size: the size of a window of the pooling, one number or one for each spatial axis.
        strides: the distance between neighbouring windows, likewise; by default the size of a window.
        output_size: the sizes of the spatial axes of the result, likewise; by default as many as the windows cover
            without padding.

    Raises:
        ArgumentError, ArgumentValueError: an argument is none of the above, or in a call, the input is no pair.
        ShapeError: in a call, the input has another number of axes, or the positions another shape.
        DTypeError: in a call, the positions are no integers.
    """

    rank: ClassVar[int] = 2


@dataclass(frozen=True, repr=False)
class MaxUnpooling3D(_Unpooling):
    """Maxima of windows of volumes, written back to their positions among zeros.

    >>> pooled = nn.MaxPooling3D(return_positions=True)({}, plugrad.ones((1, 4, 4, 4, 2)))
    >>> nn.MaxUnpooling3D()({}, pooled).shape
    (1, 4, 4, 4, 2)

    Arguments and errors are as for `MaxUnpooling2D`, with three spatial axes.
    """

    rank: ClassVar[int] = 3
