"""Functions that normalize elements."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from plugrad.engine.custom import custom_grad
from plugrad.kernels import normalization
from plugrad.ops.arguments import (
    as_supported_dtype,
    cast,
    have_one_dtype,
    promote_named_operands,
)
from plugrad.ops.attributes import check_finite, check_integer
from plugrad.ops.axes import run_along_axis
from plugrad.ops.reduction import mean
from plugrad.tensor.context import active_precision
from plugrad.tensor.tensor import Tensor
from plugrad.types.arguments import explain_wrong_calls
from plugrad.types.dtype import as_dtype, float32
from plugrad.types.shapes import normalize_axis
from plugrad.types.specs import Shaped

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from plugrad.contract.kernel import Kernel, ValidatedAttributes
    from plugrad.tensor.tensor import TensorLike
    from plugrad.types.dtype import DType
    from plugrad.types.specs import Shape


@explain_wrong_calls
def softmax(x: TensorLike, *, axis: int = -1) -> Tensor:
    """The softmax along an axis, ``exp(x) / sum(exp(x))``: positive numbers that add up to 1, in the shape of x.

    >>> plugrad.softmax([2.0, 2.0])
    tensor([0.5, 0.5], dtype=float32)

    Large elements do not overflow. An infinite element gives NaN. Integers and bools become float32.

    Raises:
        AxisError: the axis is out of range.
        DTypeError: x holds complex numbers or strings.
    """
    x = as_supported_dtype(x, normalization.softmax, "softmax")
    return run_along_axis(normalization.softmax, x, "softmax", axis)


@explain_wrong_calls
def log_softmax(x: TensorLike, *, axis: int = -1) -> Tensor:
    """The logarithm of `softmax`, ``x - log(sum(exp(x)))``, accurate also where softmax is close to 0.

    >>> plugrad.log_softmax([2.0, 2.0])
    tensor([-0.6931472, -0.6931472], dtype=float32)

    The result has the shape of x. Integers and bools become float32.

    Raises:
        AxisError: the axis is out of range.
        DTypeError: x holds complex numbers or strings.
    """
    x = as_supported_dtype(x, normalization.log_softmax, "log_softmax")
    return run_along_axis(normalization.log_softmax, x, "log_softmax", axis)


@explain_wrong_calls
def batch_norm(
    x: TensorLike,
    mean: TensorLike,
    variance: TensorLike,
    offset: TensorLike | None = None,
    scale: TensorLike | None = None,
    *,
    variance_epsilon: float = 0.001,
) -> Tensor:
    """The elements of x normalized to mean 0 and variance 1, then scaled and shifted (Ioffe and Szegedy, 2015).

    ``(x - mean) / sqrt(variance + variance_epsilon) * scale + offset``, in the shape of x and in the
    dtype to which all tensors promote; integers and bools become float32.

    >>> x = plugrad.asarray([[1.0, 10.0], [3.0, 30.0]])
    >>> mean, variance = plugrad.moments(x, axis=0)
    >>> plugrad.batch_norm(x, mean, variance, variance_epsilon=0.0)
    tensor([[-1., -1.],
            [ 1.,  1.]], dtype=float32)

    Args:
        x: numbers of any shape; the channels are usually along the last axis.
        mean: the numbers to subtract: like the next three, one for each channel, or of any other
            shape that broadcasts to the shape of x.
        variance: the numbers by whose square root to divide.
        offset: the numbers to add; None means 0.
        scale: the numbers to multiply by; None means 1.
        variance_epsilon: a number that is added to the variance, so that it is not 0.

    Raises:
        ShapeError: one of the other tensors does not broadcast to the shape of x.
        DTypeError: a tensor holds complex numbers or strings.
        ArgumentError: `variance_epsilon` is not a number.
        ArgumentValueError: `variance_epsilon` is not finite.
    """
    parts = _promote_all(
        "batch_norm",
        normalization.batch_norm,
        {"x": x, "mean": mean, "variance": variance, "offset": offset, "scale": scale},
    )
    return normalization.batch_norm(
        parts["x"],
        parts["mean"],
        parts["variance"],
        parts.get("offset"),
        parts.get("scale"),
        variance_epsilon=check_finite(variance_epsilon, "batch_norm", "variance_epsilon"),
    )


class BatchNormTraining(NamedTuple):
    """The normalized batch, and the mean and the variance of each channel."""

    y: Tensor
    mean: Tensor
    variance: Tensor


@explain_wrong_calls
def batch_norm_training(
    x: TensorLike,
    offset: TensorLike | None = None,
    scale: TensorLike | None = None,
    *,
    axis: int = -1,
    variance_epsilon: float = 0.001,
) -> BatchNormTraining:
    """The elements of each channel normalized to mean 0 and variance 1, then scaled and shifted, as in training.

    This is `batch_norm` with the mean and the variance of x itself over all axes but that of the
    channels. Both are returned as well, because a network that is not in training uses their moving
    averages. The variance is the average of the squared differences from the mean. See Ioffe and
    Szegedy, "Batch normalization" (2015).

    >>> x = plugrad.asarray([[1.0, 10.0], [3.0, 30.0]])
    >>> y, mean, variance = plugrad.batch_norm_training(x, variance_epsilon=0.0)
    >>> y
    tensor([[-1., -1.],
            [ 1.,  1.]], dtype=float32)
    >>> mean, variance
    (tensor([ 2., 20.], dtype=float32), tensor([  1., 100.], dtype=float32))

    `y` has the shape of x, and `mean` and `variance` have one element for each channel. All have the
    dtype to which all tensors promote; integers and bools become float32.

    Args:
        x: numbers, with at least one axis.
        offset: the numbers to add, one for each channel; None means 0.
        scale: the numbers to multiply by, one for each channel; None means 1.
        axis: the axis of the channels.
        variance_epsilon: a number that is added to the variance, so that it is not 0.

    Raises:
        AxisError: the axis is out of range.
        ShapeError: the offset or the scale does not have one element for each channel.
        DTypeError: a tensor holds complex numbers or strings.
        ArgumentError: `variance_epsilon` is not a number.
        ArgumentValueError: `variance_epsilon` is not finite.
    """
    op, kernel = "batch_norm_training", normalization.batch_norm_training
    parts = _promote_all(op, kernel, {"x": x, "offset": offset, "scale": scale})
    y, mean, variance = kernel(
        parts["x"],
        parts.get("offset"),
        parts.get("scale"),
        axis=normalize_axis(axis, parts["x"].ndim, name=f"{op}: axis"),
        variance_epsilon=check_finite(variance_epsilon, op, "variance_epsilon"),
    )
    return BatchNormTraining(y, mean, variance)


@explain_wrong_calls
def layer_norm(
    x: TensorLike,
    *,
    offset: TensorLike | None = None,
    scale: TensorLike | None = None,
    axis: int = -1,
    variance_epsilon: float = 1e-5,
) -> Tensor:
    """The elements of each row normalized to mean 0 and variance 1, then scaled and shifted.

    ``(x - m) / sqrt(v + variance_epsilon) * scale + offset``, where the mean m and the variance v are
    over one axis and all axes after it. See Ba, Kiros and Hinton, "Layer normalization" (2016).

    >>> plugrad.layer_norm([[1.0, 3.0], [10.0, 30.0]], offset=[0.0, 5.0], variance_epsilon=0.0)
    tensor([[-1.,  6.],
            [-1.,  6.]], dtype=float32)

    Offset and scale have names, because frameworks differ in their order. The result has the shape of x, and the dtype
    to which all tensors promote; integers and bools become float32.

    Args:
        x: numbers, with at least one axis.
        offset: the numbers to add, of shape ``x.shape[axis:]``; None means 0.
        scale: the numbers to multiply by, of the same shape; None means 1.
        axis: the first of the axes that are normalized together.
        variance_epsilon: a number that is added to the variance, so that it is not 0.

    Raises:
        AxisError: the axis is out of range.
        ShapeError: the offset or the scale does not have the shape ``x.shape[axis:]``.
        DTypeError: a tensor holds complex numbers or strings.
        ArgumentError: `variance_epsilon` is not a number.
        ArgumentValueError: `variance_epsilon` is not finite.
    """
    op, kernel = "layer_norm", normalization.layer_norm
    parts: Any = x, offset, scale
    given = [part for part in parts if part is not None]
    is_usual = type(x) is Tensor and have_one_dtype(given)
    if not (is_usual and given[0].array.dtype in kernel.accepted_dtypes):
        promoted = _promote_all(op, kernel, {"x": x, "offset": offset, "scale": scale})
        parts = promoted["x"], promoted.get("offset"), promoted.get("scale")
    array = parts[0].array
    shapes = array.shape, *[None if part is None else part.array.shape for part in parts[1:]]
    if type(axis) is not int:
        axis = normalize_axis(axis, len(array.shape), name=f"{op}: axis")
    epsilon = check_finite(variance_epsilon, op, "variance_epsilon")
    attrs = _layer_norm_attributes(shapes, array.dtype, axis, epsilon)
    precision = active_precision()
    if precision is not None and any(part is not None and part.node is not None for part in parts):
        return _layer_norm_saving_halves(parts, attrs, precision)
    return kernel.call(parts, attrs)


def _layer_norm_saving_halves(
    operands: Sequence[Tensor | None], attrs: ValidatedAttributes, half_dtype: DType
) -> Tensor:
    """Return the layer norm, computed in float32, which saves its input in half precision for the backward pass.

    The gradient does not change if a number is added to a row, so what is rounded are the differences from the mean.
    """
    names = [i for i, part in enumerate(operands) if part is not None]

    @custom_grad
    def normalize(*inputs_and_save: Any) -> tuple[Tensor, Callable[..., Any]]:
        """Return the layer norm of tensors, and its gradient; the last argument is a function that saves tensors."""
        *arrays, save = inputs_and_save
        inputs: list[Tensor | None] = [None, None, None]
        for i, part in zip(names, arrays, strict=True):
            inputs[i] = part
        x, _, scale = inputs
        assert x is not None
        kept = x
        if x.dtype is float32:
            axes = tuple(range(attrs["axis"], x.ndim))
            kept = cast(x - mean(x, axis=axes, keepdims=True), half_dtype)
        save(kept, *(() if scale is None else (scale,)))

        def gradient(dy: Tensor, saved: list[Tensor]) -> list[Tensor]:
            """Return the gradients of the tensors that were given, from the saved halves."""
            kept, *scales = saved
            wide = [cast(part, dy.dtype) for part in (kept, *scales)]
            found = normalization.layer_norm_gradient(
                dy, wide[0], wide[1] if scales else None, **attrs
            )
            return [found[i] for i in names]

        return normalization.layer_norm.call(inputs, attrs), gradient

    return normalize(*[operands[i] for i in names])


@lru_cache(maxsize=1024)
def _layer_norm_attributes(
    shapes: tuple[Shape | None, ...], dtype: object, axis: int, variance_epsilon: float
) -> ValidatedAttributes:
    """Return the validated attributes of `layer_norm` for inputs of these shapes; an epsilon of -0.0 acts as 0.0."""
    given = [None if shape is None else Shaped(shape, as_dtype(dtype)) for shape in shapes]
    axis = normalize_axis(axis, len(given[0].shape if given[0] else ()), name="layer_norm: axis")
    return normalization.layer_norm.validate_attributes(
        *given, axis=axis, variance_epsilon=variance_epsilon
    )


def _promote_all(
    op: str, kernel: Kernel[..., Any], operands: Mapping[str, TensorLike | None]
) -> dict[str, Tensor]:
    """Promote the given operands to tensors of one dtype; an absent offset or scale is left out."""
    given: dict[str, Any] = {
        name: part
        for name, part in operands.items()
        if part is not None or name not in ("offset", "scale")
    }
    held = [part.array.dtype for part in given.values() if isinstance(part, Tensor)]
    if len(held) == len(given) and len(set(held)) == 1 and held[0] in kernel.accepted_dtypes:
        return given
    return promote_named_operands(given, kernel, op)


def local_response_normalization(
    x: TensorLike,
    depth_radius: int = 5,
    bias: float = 1.0,
    alpha: float = 1.0,
    beta: float = 0.5,
) -> Tensor:
    """Each element divided by a power of the sum of its neighbours' squares (Krizhevsky et al., 2012).

    ``x / (bias + alpha * s)**beta``, where s is the sum of the squares of the elements that are at
    most `depth_radius` away along the last axis, the element itself included.

    >>> plugrad.local_response_normalization([1.0, 2.0, 4.0], depth_radius=1, beta=1.0)
    tensor([0.16666667, 0.09090909, 0.1904762 ], dtype=float32)

    The result has the shape of x. Integers and bools become float32.

    Raises:
        ShapeError: x has no axes.
        DTypeError: x holds complex numbers or strings.
        ArgumentError: `depth_radius` is not an integer, or another argument not a number.
        ArgumentValueError: `depth_radius` is negative, or another argument is not finite.
    """
    op = "local_response_normalization"
    return normalization.local_response_normalization(
        as_supported_dtype(x, normalization.local_response_normalization, op),
        depth_radius=check_integer(depth_radius, op, "depth_radius", least=0),
        bias=check_finite(bias, op, "bias"),
        alpha=check_finite(alpha, op, "alpha"),
        beta=check_finite(beta, op, "beta"),
    )
