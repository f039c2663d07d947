"""Operators that create tensors (constants, ranges, random numbers), describe one, or return it unchanged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from plugrad.graph_models.registry import register_operator
from plugrad.ops import creation, indexing, movement, random, transfer, unary

if TYPE_CHECKING:
    from plugrad.graph_models.registry import AnyInput, HostArray
    from plugrad.tensor.tensor import Tensor


@register_operator("Identity", "Snapshot", "FakeQuantWithMinMaxVars", "Print")
def identity(x: AnyInput, *others: AnyInput) -> Any:
    """Return x unchanged and ignore other inputs; like TensorFlow.js, do not round in FakeQuantWithMinMaxVars."""
    return x


@register_operator("IdentityN")
def identities(*inputs: AnyInput) -> tuple[Any, ...]:
    """Return the inputs unchanged."""
    return inputs


@register_operator("StopGradient")
def stop_gradient(x: Tensor) -> Tensor:
    """Return x as a constant for gradients."""
    return transfer.stop_gradient(x)


@register_operator("Shape")
def shape_of(x: AnyInput) -> Any:
    """Return the sizes of the axes."""
    return np.array(x.shape, np.int32)


@register_operator("ShapeN")
def shapes_of(*inputs: AnyInput) -> tuple[Any, ...]:
    """Return the sizes of the axes of each input."""
    return tuple(np.array(x.shape, np.int32) for x in inputs)


@register_operator("Size")
def size_of(x: AnyInput) -> Any:
    """Return the number of elements."""
    return np.array(x.size, np.int32)


@register_operator("Rank")
def rank_of(x: AnyInput) -> Any:
    """Return the number of axes."""
    return np.array(x.ndim, np.int32)


@register_operator("Fill")
def fill(dims: HostArray, value: HostArray) -> Tensor:
    """Return a tensor filled with one value."""
    return creation.full(_as_shape(dims), value.item(), dtype=_infer_dtype(value))


@register_operator("Ones")
def ones(shape: HostArray, *, t: str = "float32") -> Tensor:
    """Return a tensor of ones in the dtype `t`."""
    return creation.ones(_as_shape(shape), dtype=t)


@register_operator("Zeros")
def zeros(shape: HostArray, *, t: str = "float32") -> Tensor:
    """Return a tensor of zeros in the dtype `t`."""
    return creation.zeros(_as_shape(shape), dtype=t)


@register_operator("OnesLike")
def ones_like(x: Tensor) -> Tensor:
    """Return ones in the shape of a tensor."""
    return creation.ones_like(x)


@register_operator("ZerosLike")
def zeros_like(x: Tensor) -> Tensor:
    """Return zeros in the shape of a tensor."""
    return creation.zeros_like(x)


@register_operator("Range")
def arange(start: HostArray, stop: HostArray, step: HostArray) -> Tensor:
    """Return equally spaced numbers from `start` to below `stop`."""
    return creation.arange(start.item(), stop.item(), step.item(), dtype=_infer_dtype(start))


@register_operator("LinSpace")
def linspace(start: HostArray, stop: HostArray, count: HostArray) -> Tensor:
    """Return `count` equally spaced numbers from `start` to `stop`."""
    return creation.linspace(start.item(), stop.item(), int(count.item()))


@register_operator("OneHot")
def one_hot(
    indices: Tensor, depth: HostArray, on_value: HostArray, off_value: HostArray, *, axis: int = -1
) -> Tensor:
    """Return `on_value` at the indices and `off_value` elsewhere."""
    y = indexing.one_hot(
        indices, int(depth.item()), on_value.item(), off_value.item(), _infer_dtype(on_value)
    )
    if axis in (-1, y.ndim - 1):
        return y
    order = [*range(y.ndim - 1)]
    order.insert(axis, y.ndim - 1)
    return movement.permute_dims(y, order)


@register_operator("Cast")
def cast(x: Tensor, *, dstt: str) -> Tensor:
    """Cast to the dtype `dstt`; every number except 0 becomes True."""
    if dstt != "bool" and str(x.dtype) != "string" and x.dtype.is_inexact and dstt == "int32":
        x = unary.trunc(x)
    return unary.astype(x, dstt)


@register_operator("RandomStandardNormal")
def standard_normal(shape: HostArray, *, dtype: str = "float32", seed: int = 0) -> Tensor:
    """Draw from the standard normal distribution."""
    return _make_generator(seed).standard_normal(_as_shape(shape), dtype=dtype)


@register_operator("TruncatedNormal")
def truncated_normal(
    shape: HostArray,
    *,
    means: float = 0.0,
    stddev: float = 1.0,
    dtype: str = "float32",
    seed: int = 0,
) -> Tensor:
    """Draw from a normal distribution truncated at two standard deviations."""
    return _make_generator(seed).truncated_normal(_as_shape(shape), means, stddev, dtype=dtype)


@register_operator("RandomUniform")
def uniform(
    shape: HostArray, *, minval: float = 0.0, maxval: float = 1.0, dtype: str = "float32", seed: int = 0
) -> Tensor:  # fmt: skip
    """Draw uniformly distributed numbers from `minval` to below `maxval`."""
    return _make_generator(seed).uniform(_as_shape(shape), minval, maxval, dtype=dtype)


@register_operator("RandomUniformInt")
def integers(
    shape: HostArray, low: HostArray | None = None, high: HostArray | None = None, *,
    minval: int = 0, maxval: int = 1, seed: int = 0,
) -> Tensor:  # fmt: skip
    """Draw uniformly distributed integers; TensorFlow.js reads the bounds from attributes."""
    least = minval if low is None else int(low.item())
    end = maxval if high is None else int(high.item())
    return _make_generator(seed).integers(_as_shape(shape), least, end, dtype="int32")


@register_operator("Multinomial")
def multinomial(logits: Tensor, count: HostArray, *, seed: int = 0) -> Tensor:
    """Draw class indices from log-probabilities."""
    return _make_generator(seed).multinomial(logits, int(count.item()))


def _make_generator(seed: int) -> Any:
    """Return a generator that starts anew from `seed`, or an unseeded one if the seed is 0."""
    return random.Generator(seed) if seed > 0 else random.Generator()


def _as_shape(values: HostArray) -> tuple[int, ...]:
    """Return an array of sizes as a tuple."""
    return tuple(int(size) for size in values.ravel())


def _infer_dtype(values: HostArray) -> str:
    """Return the name of an array's dtype, or ``"string"``."""
    return values.dtype.name if values.dtype.kind in "bifc" else "string"
