"""Creation of tensors."""

import torch

from plugrad.extend import DType, Scalar, Shape
from plugrad.kernels import creation
from plugrad_torch.declare import Array, implements, update
from plugrad_torch.memory import TORCH_DTYPES

update({creation.zeros_like: torch.zeros_like, creation.ones_like: torch.ones_like})


@implements(creation.fill)
def fill(*, shape: Shape, value: Scalar, dtype: DType) -> Array:
    """Return one value everywhere."""
    return torch.full(shape, value, dtype=TORCH_DTYPES[dtype])


@implements(creation.range)
def range_(*, start: float, stop: float, step: float, dtype: DType) -> Array:
    """Return start + i * step, in double precision if one of them is a float."""
    (count,) = creation.range.infer(start=start, stop=stop, step=step, dtype=dtype).shape
    return (start + torch.arange(count) * step).to(TORCH_DTYPES[dtype])


@implements(creation.linspace)
def linspace(*, start: complex, stop: complex, num: int, dtype: DType) -> Array:
    """Return equally spaced numbers, including both ends."""
    wide = torch.complex128 if isinstance(start + stop, complex) else torch.float64
    y = start + torch.arange(num, dtype=wide) * ((stop - start) / max(num - 1, 1))
    if num > 1:
        y[-1] = stop
    return y.to(TORCH_DTYPES[dtype])
