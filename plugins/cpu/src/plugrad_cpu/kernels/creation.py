"""Creation. Kernels without inputs get the backend, which the CPU does not need."""

import numpy as np

from plugrad.extend import Backend, DType, Scalar, Shape
from plugrad.kernels import creation
from plugrad_cpu.declare import Array, table

table.update({creation.zeros_like: np.zeros_like, creation.ones_like: np.ones_like})


@table.implements(creation.fill)
def fill(backend: Backend, *, shape: Shape, value: Scalar | str, dtype: DType) -> Array:
    """Return one value everywhere; zeros cost nothing until they are used."""
    return np.full(shape, value, dtype.numpy) if value else np.zeros(shape, dtype.numpy)


@table.implements(creation.range)
def range_(backend: Backend, *, start: float, stop: float, step: float, dtype: DType) -> Array:
    """Return start + i * step, computed in double precision."""
    (count,) = creation.range.infer(start=start, stop=stop, step=step, dtype=dtype).shape
    return (start + np.arange(count, dtype="int64") * step).astype(str(dtype))


@table.implements(creation.linspace)
def linspace(backend: Backend, *, start: complex, stop: complex, num: int, dtype: DType) -> Array:
    """Return numbers at equal distances."""
    return np.linspace(start + 0.0, stop + 0.0, num).astype(str(dtype))
