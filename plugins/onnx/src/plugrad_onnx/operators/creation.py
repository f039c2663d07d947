"""Constants, ranges and random numbers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

import plugrad
from plugrad_onnx.elements import as_array, element_type, numpy_dtype
from plugrad_onnx.errors import InvalidModel
from plugrad_onnx.operators.common import to_integers
from plugrad_onnx.reading import MAX_EXPANDED_TENSOR_BYTES
from plugrad_onnx.registry import operator
from plugrad_onnx.storage import cast_to

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plugrad import Tensor
    from plugrad_onnx.registry import AnyInputValue, HostArray, TensorOrHostArray


@operator("Constant")
def constant(
    *,
    value: Any = None,
    value_float: float | None = None,
    value_floats: Sequence[float] | None = None,
    value_int: int | None = None,
    value_ints: Sequence[int] | None = None,
    value_string: str | None = None,
    value_strings: Sequence[str] | None = None,
    sparse_value: Any = None,
) -> Any:
    """Return the value of the only attribute that is set."""
    candidates = (
        (value, None),
        (sparse_value, None),
        (value_float, np.float32),
        (value_floats, np.float32),
        (value_int, np.int64),
        (value_ints, np.int64),
        (value_string, object),
        (value_strings, object),
    )
    for candidate, dtype in candidates:
        if candidate is not None:
            return np.asarray(candidate, dtype)
    raise InvalidModel("Constant has no value.")


@operator("ConstantOfShape")
def constant_of_shape(shape: HostArray, *, value: Any = None) -> Any:
    """Return an array filled with one value."""
    value = np.zeros(1, np.float32) if value is None else value
    sizes = tuple(to_integers(shape))
    if math.prod(sizes) * value.dtype.itemsize > MAX_EXPANDED_TENSOR_BYTES:
        raise InvalidModel(
            f"ConstantOfShape of shape {sizes} needs more than {MAX_EXPANDED_TENSOR_BYTES} bytes."
        )
    return np.full(sizes, value.ravel()[0], value.dtype)


@operator("EyeLike")
def eye_like(x: Tensor, *, dtype: int | None = None, k: int = 0) -> Tensor:
    """Return ones on a diagonal of a matrix with the shape of x."""
    chosen = x.dtype if dtype is None else numpy_dtype(dtype).name
    return plugrad.eye(x.shape[0], x.shape[1], k=k, dtype=chosen, device=x.device)


@operator("Range")
def range_(start: HostArray, limit: HostArray, delta: HostArray, *, stash_type: int = 1) -> Any:
    """Return equally spaced numbers; real ones are computed in float64."""
    if (
        delta == 0
        or abs((limit - start) / delta) * start.dtype.itemsize > MAX_EXPANDED_TENSOR_BYTES
    ):
        raise InvalidModel(f"Range from {start} to {limit} by {delta} is too long.")
    numbers: Any = (start.item(), limit.item(), delta.item())
    return np.asarray(np.arange(*numbers), start.dtype)


def _declare_window_operator(operator_name: str, coefficients: tuple[float, float, float]) -> None:
    """Register a window function that is a sum of cosines with these coefficients."""

    @operator(operator_name)
    def window(size: HostArray, *, output_datatype: int = 1, periodic: int = 1) -> Any:
        count = int(size.item())
        angle = 2 * np.pi * np.arange(count) / (count if periodic else max(count - 1, 1))
        a, b, c = coefficients
        values = a - b * np.cos(angle) + c * np.cos(2 * angle)
        return values.astype(numpy_dtype(output_datatype))


_declare_window_operator("HannWindow", (0.5, 0.5, 0.0))
_declare_window_operator("HammingWindow", (25 / 46, 1 - 25 / 46, 0.0))
_declare_window_operator("BlackmanWindow", (0.42, 0.5, 0.08))


@operator("RandomNormal", pure=False)
def random_normal(
    *,
    shape: Sequence[int],
    dtype: int = 1,
    mean: float = 0.0,
    scale: float = 1.0,
    seed: float | None = None,
) -> Tensor:
    """Return normally distributed random numbers."""
    return _draw_normal(tuple(shape), dtype, mean, scale, seed)


@operator("RandomNormalLike", pure=False)
def random_normal_like(
    x: Tensor,
    *,
    dtype: int | None = None,
    mean: float = 0.0,
    scale: float = 1.0,
    seed: float | None = None,
) -> Tensor:
    """Return normally distributed random numbers in the shape of x."""
    chosen = element_type(x.dtype) if dtype is None else dtype
    return _draw_normal(x.shape, chosen, mean, scale, seed)


@operator("RandomUniform", pure=False)
def random_uniform(
    *,
    shape: Sequence[int],
    dtype: int = 1,
    high: float = 1.0,
    low: float = 0.0,
    seed: float | None = None,
) -> Tensor:
    """Return uniformly distributed random numbers between `low` and `high`."""
    return _draw_uniform(tuple(shape), dtype, low, high, seed)


@operator("RandomUniformLike", pure=False)
def random_uniform_like(
    x: Tensor,
    *,
    dtype: int | None = None,
    high: float = 1.0,
    low: float = 0.0,
    seed: float | None = None,
) -> Tensor:
    """Return uniformly distributed random numbers between `low` and `high`, in the shape of x."""
    chosen = element_type(x.dtype) if dtype is None else dtype
    return _draw_uniform(x.shape, chosen, low, high, seed)


@operator("Bernoulli", pure=False)
def bernoulli(x: Tensor, *, dtype: int | None = None, seed: float | None = None) -> Tensor:
    """Return 1 with probability x, else 0."""
    drawn = plugrad.less(_draw_uniform(x.shape, 1, 0.0, 1.0, seed), plugrad.astype(x, "float32"))
    return plugrad.astype(drawn, x.dtype if dtype is None else numpy_dtype(dtype).name)


@operator("Multinomial", pure=False)
def multinomial(
    x: Tensor, *, dtype: int = 6, sample_size: int = 1, seed: float | None = None
) -> Tensor:
    """Draw class indices for each row of x, which holds log-probabilities."""
    drawn = _make_generator(seed).multinomial(x, sample_size)
    return plugrad.astype(drawn, numpy_dtype(dtype).name)


@operator("Identity")
def identity(x: AnyInputValue) -> Any:
    """Return x unchanged."""
    return x


@operator("Shape", layout="shape")
def shape_of(x: AnyInputValue, *, start: int = 0, end: int | None = None) -> Any:
    """Return the shape of x, or a slice of it."""
    return np.array(tuple(x.shape)[start:end], np.int64)


@operator("Size", layout="shape")
def size_of(x: AnyInputValue) -> Any:
    """Return the number of elements of x."""
    return np.int64(math.prod(x.shape)) + np.zeros((), np.int64)


@operator("Cast")
def cast(x: TensorOrHostArray, *, to: int, saturate: int = 1, round_mode: str = "up") -> Any:
    """Return a tensor in another dtype."""
    return cast_to(x, numpy_dtype(to), saturate=bool(saturate), round_mode=round_mode)


@operator("CastLike")
def cast_like(
    x: TensorOrHostArray, like: TensorOrHostArray, *, saturate: int = 1, round_mode: str = "up"
) -> Any:
    """Return a tensor in the dtype of another one."""
    to = numpy_dtype(element_type(like.dtype))
    return cast_to(x, to, saturate=bool(saturate), round_mode=round_mode)


@operator("BitCast")
def bit_cast(x: TensorOrHostArray, *, to: int) -> Any:
    """Reinterpret the bits of x as another dtype."""
    return as_array(x).view(numpy_dtype(to))


def _draw_normal(
    shape: tuple[int, ...], dtype: int, mean: float, scale: float, seed: float | None
) -> Tensor:
    """Return normally distributed random numbers of a dtype of ONNX."""
    drawn = _make_generator(seed).normal(shape, mean, scale)
    return plugrad.astype(drawn, numpy_dtype(dtype).name)


def _draw_uniform(
    shape: tuple[int, ...], dtype: int, low: float, high: float, seed: float | None
) -> Tensor:
    """Return uniformly distributed random numbers of a dtype of ONNX."""
    drawn = _make_generator(seed).uniform(shape, low, high)
    return plugrad.astype(drawn, numpy_dtype(dtype).name)


def _make_generator(seed: float | None) -> Any:
    """Return a generator that starts anew at each call; without a seed, the shared one."""
    if seed is None:
        return plugrad.random
    return plugrad.random.Generator(int(np.float32(seed).view(np.uint32)))
