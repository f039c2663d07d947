"""New tensors: of one number, ranges, random numbers; and what passes a tensor on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from plugrad.graph_models.registry import operator
from plugrad.ops import creation, indexing, movement, random, transfer, unary

if TYPE_CHECKING:
    from plugrad.graph_models.registry import Anything, Values
    from plugrad.tensor.tensor import Tensor


@operator("Identity", "Snapshot", "FakeQuantWithMinMaxVars", "Print")
def identity(x: Anything, *others: Anything) -> Any:
    """Pass a value on; TensorFlow.js does not round in FakeQuantWithMinMaxVars either."""
    return x


@operator("IdentityN")
def identities(*inputs: Anything) -> tuple[Any, ...]:
    """Pass values on."""
    return inputs


@operator("StopGradient")
def stop_gradient(x: Tensor) -> Tensor:
    """Pass a value on, and no gradient back."""
    return transfer.stop_gradient(x)


@operator("Shape")
def shape_of(x: Anything) -> Any:
    """Return the sizes of the axes."""
    return np.array(x.shape, np.int32)


@operator("ShapeN")
def shapes_of(*inputs: Anything) -> tuple[Any, ...]:
    """Return the sizes of the axes of each input."""
    return tuple(np.array(x.shape, np.int32) for x in inputs)


@operator("Size")
def size_of(x: Anything) -> Any:
    """Return the number of elements."""
    return np.array(x.size, np.int32)


@operator("Rank")
def rank_of(x: Anything) -> Any:
    """Return the number of axes."""
    return np.array(x.ndim, np.int32)


@operator("Fill")
def fill(dims: Values, value: Values) -> Tensor:
    """Return one value in a shape."""
    return creation.full(_shape(dims), value.item(), dtype=_infer_dtype(value))


@operator("Ones")
def ones(shape: Values, *, t: str = "float32") -> Tensor:
    """Return ones."""
    return creation.ones(_shape(shape), dtype=t)


@operator("Zeros")
def zeros(shape: Values, *, t: str = "float32") -> Tensor:
    """Return zeros."""
    return creation.zeros(_shape(shape), dtype=t)


@operator("OnesLike")
def ones_like(x: Tensor) -> Tensor:
    """Return ones in the shape of a tensor."""
    return creation.ones_like(x)


@operator("ZerosLike")
def zeros_like(x: Tensor) -> Tensor:
    """Return zeros in the shape of a tensor."""
    return creation.zeros_like(x)


@operator("Range")
def arange(start: Values, stop: Values, step: Values) -> Tensor:
    """Return numbers at equal distances below an end."""
    return creation.arange(start.item(), stop.item(), step.item(), dtype=_infer_dtype(start))


@operator("LinSpace")
def linspace(start: Values, stop: Values, count: Values) -> Tensor:
    """Return so many numbers from a start to an end."""
    return creation.linspace(start.item(), stop.item(), int(count.item()))


@operator("OneHot")
def one_hot(
    indices: Tensor, depth: Values, on_value: Values, off_value: Values, *, axis: int = -1
) -> Tensor:
    """Return one value where indices point to, and another elsewhere."""
    y = indexing.one_hot(
        indices, int(depth.item()), on_value.item(), off_value.item(), _infer_dtype(on_value)
    )
    if axis in (-1, y.ndim - 1):
        return y
    order = [*range(y.ndim - 1)]
    order.insert(axis, y.ndim - 1)
    return movement.permute_dims(y, order)


@operator("Cast")
def cast(x: Tensor, *, dstt: str) -> Tensor:
    """Return the elements in another dtype; to bool it is whether they differ from 0."""
    if dstt != "bool" and str(x.dtype) != "string" and x.dtype.is_inexact and dstt == "int32":
        x = unary.trunc(x)
    return unary.astype(x, dstt)


@operator("RandomStandardNormal")
def standard_normal(shape: Values, *, dtype: str = "float32", seed: int = 0) -> Tensor:
    """Draw from the standard normal distribution."""
    return _generator(seed).standard_normal(_shape(shape), dtype=dtype)


@operator("TruncatedNormal")
def truncated_normal(
    shape: Values, *, means: float = 0.0, stddev: float = 1.0, dtype: str = "float32", seed: int = 0
) -> Tensor:
    """Draw from a normal distribution without what lies far out."""
    return _generator(seed).truncated_normal(_shape(shape), means, stddev, dtype=dtype)


@operator("RandomUniform")
def uniform(
    shape: Values, *, minval: float = 0.0, maxval: float = 1.0, dtype: str = "float32", seed: int = 0
) -> Tensor:  # fmt: skip
    """Draw numbers below an end, all equally likely."""
    return _generator(seed).uniform(_shape(shape), minval, maxval, dtype=dtype)


@operator("RandomUniformInt")
def integers(
    shape: Values, low: Values | None = None, high: Values | None = None, *,
    minval: int = 0, maxval: int = 1, seed: int = 0,
) -> Tensor:  # fmt: skip
    """Draw integers below an end, all equally likely; TensorFlow.js reads its bounds from attributes."""
    least = minval if low is None else int(low.item())
    end = maxval if high is None else int(high.item())
    return _generator(seed).integers(_shape(shape), least, end, dtype="int32")


@operator("Multinomial")
def multinomial(logits: Tensor, count: Values, *, seed: int = 0) -> Tensor:
    """Draw classes."""
    return _generator(seed).multinomial(logits, int(count.item()))


def _generator(seed: int) -> Any:
    """Return a source that begins anew, if a seed says so."""
    return random.Generator(seed) if seed > 0 else random.Generator()


def _shape(values: Values) -> tuple[int, ...]:
    return tuple(int(size) for size in values.ravel())


def _infer_dtype(values: Values) -> str:
    return values.dtype.name if values.dtype.kind in "bifc" else "string"
