"""Data for calls of libraries, as tensors and as arrays, and the comparison of what they give."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import plugrad

TOLERANCE = {"float64": 1e-6, "float32": 2e-3}
"""Relative to the greatest value of a result. Iterations stop earlier in float32."""

Constructors = Callable[[np.ndarray], Any]


def leaves(result: Any) -> Iterator[Any]:
    """Return the arrays and numbers in a result, which may be nested in tuples or lists."""
    if isinstance(result, tuple | list):
        for part in result:
            yield from leaves(part)
    else:
        yield result


def describe_difference(found: Any, wanted: Any, tolerance: float) -> str:
    """Return a description of how two results differ, or ""."""
    found, wanted = list(leaves(found)), list(leaves(wanted))
    if len(found) != len(wanted):
        return f"{len(found)} results instead of {len(wanted)}"
    for a, b in zip(found, wanted, strict=True):
        if b is None and a is None:
            continue
        a, b = np.asarray(a), np.asarray(b)
        if a.shape != b.shape:
            return f"shape {a.shape} instead of {b.shape}"
        limit = tolerance * max(1e-30, float(np.max(np.abs(b), initial=0, where=np.isfinite(b))))
        if not np.allclose(a, b, rtol=tolerance, atol=limit, equal_nan=True):
            return f"differs by {np.nanmax(np.abs(a - b)):.3g}: {a.ravel()[:3]} instead of {b.ravel()[:3]}"
    return ""


def make_constructors() -> tuple[Constructors, Constructors, plugrad.DType]:
    """Return a constructor of tensors on the active backend, one of arrays, and the dtype of real numbers."""
    known = plugrad.which().backend.dtypes()
    real = plugrad.float64 if plugrad.complex128 in known else plugrad.float32
    kinds = {"f": real, "i": plugrad.int64 if plugrad.int64 in known else plugrad.int32}

    def tensor(values: np.ndarray) -> Any:
        return plugrad.asarray(values, dtype=kinds.get(values.dtype.kind))

    def array(values: np.ndarray) -> Any:
        return values.astype(real.name).astype(float) if values.dtype.kind == "f" else values

    return tensor, array, real
