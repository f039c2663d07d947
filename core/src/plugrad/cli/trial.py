"""A small computation on a backend, compared with NumPy."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

import plugrad
from plugrad.errors import KernelNotFound, UnsupportedDtype
from plugrad.extend import DTYPES, string
from plugrad.interruptions import is_interruption

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Compute = Callable[[Any, Sequence[Any]], Any]
    """A function of a namespace (plugrad or NumPy) and inputs, which returns an array."""
    Inputs = tuple[np.ndarray[Any, Any], ...]
    """The NumPy arrays that a computation takes."""

FLOAT_MATRIX_INPUT: Final = np.linspace(-2.0, 2.0, 12, dtype=np.float32).reshape(3, 4)
"""A 3 × 4 matrix of float32."""
FLOAT_VECTOR_INPUT: Final = np.asarray([0.5, -1.5, 2.0, 0.25], np.float32)
"""A vector of four float32."""
INTEGER_MATRIX_INPUT: Final = np.asarray([[3, -7], [2, 11]], np.int32)
"""A 2 × 2 matrix of int32."""
RELATIVE_AND_ABSOLUTE_TOLERANCE: Final = 1e-4

# The first parameter is the namespace, plugrad or NumPy; both have the names of the array API standard.
CHECK_BY_NAME: Final[dict[str, tuple[Compute, Inputs]]] = {
    "add": (lambda xp, x: xp.add(x[0], x[1]), (FLOAT_MATRIX_INPUT, FLOAT_VECTOR_INPUT)),
    "multiply int32": (lambda xp, x: xp.multiply(x[0], x[0]), (INTEGER_MATRIX_INPUT,)),
    "less": (lambda xp, x: xp.less(x[0], x[1]), (FLOAT_MATRIX_INPUT, FLOAT_VECTOR_INPUT)),
    "exp": (lambda xp, x: xp.exp(x[0]), (FLOAT_MATRIX_INPUT,)),
    "sum": (lambda xp, x: xp.sum(x[0], axis=1), (FLOAT_MATRIX_INPUT,)),
    "matmul": (
        lambda xp, x: xp.matmul(x[0], x[1]),
        (FLOAT_MATRIX_INPUT, FLOAT_MATRIX_INPUT.T.copy()),
    ),
}
"""By name: what is computed, and from which inputs."""


def run_checks(backend: str) -> list[dict[str, str]]:
    """Return a record for each check: the backend ``"agrees"``, ``"differs"``, ``"fails"`` or ``"lacks"`` something."""
    with plugrad.use(backend) as selection:
        stored = selection.backend.dtypes()
        found = [
            _check_dtype_storage(str(dtype))
            for dtype in DTYPES
            if dtype in stored and dtype != string
        ]
        for name, (compute, inputs) in CHECK_BY_NAME.items():
            found.append(
                _run_check(name, partial(_compute_on_backend, compute, inputs), compute(np, inputs))
            )
        return [*found, _run_check("gradient", _compute_gradient, 3 * FLOAT_MATRIX_INPUT**2)]


def _compute_on_backend(compute: Compute, inputs: Inputs) -> plugrad.Tensor:
    """Return the result of a computation on the active backend."""
    return compute(plugrad, [plugrad.asarray(x) for x in inputs])


def _check_dtype_storage(dtype: str) -> dict[str, str]:
    """Return the record of a check that the active backend stores a dtype."""
    expected = np.arange(6).reshape(2, 3).astype(dtype)
    return _run_check(f"store {dtype}", lambda: plugrad.asarray(expected), expected)


def _compute_gradient() -> plugrad.Tensor:
    """Return the gradient of the sum of cubes of the matrix input."""
    return plugrad.grad(lambda x: plugrad.sum(x * x * x))(plugrad.asarray(FLOAT_MATRIX_INPUT))


def _run_check(
    check_name: str, compute: Callable[[], plugrad.Tensor], expected: Any
) -> dict[str, str]:
    """Return the record of a check: whether the tensor that `compute` returns has the expected values."""
    try:
        values = compute().numpy()
    except (KernelNotFound, UnsupportedDtype) as error:
        return {"check": check_name, "result": "lacks", "why": str(error)}
    except Exception as error:
        if is_interruption(error):
            raise
        return {"check": check_name, "result": "fails", "why": f"{type(error).__name__}: {error}"}
    if values.shape != expected.shape or values.dtype != expected.dtype:
        why = f"the result is {values.dtype}{list(values.shape)}, NumPy's is {expected.dtype}{list(expected.shape)}"
        return {"check": check_name, "result": "differs", "why": why}
    if not np.allclose(
        values, expected, RELATIVE_AND_ABSOLUTE_TOLERANCE, RELATIVE_AND_ABSOLUTE_TOLERANCE
    ):
        worst = float(np.max(np.abs(values.astype(float) - expected.astype(float))))
        return {"check": check_name, "result": "differs", "why": f"by up to {worst:.3g}"}
    return {"check": check_name, "result": "agrees", "why": ""}
