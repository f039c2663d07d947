"""NumPy's ufuncs on tensors: they call the ops of the same names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from plugrad.errors import ArgumentError
from plugrad.ops import binary, bitwise, linalg, unary

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugrad.tensor.tensor import Tensor


def divmod_op(a: Any, b: Any) -> tuple[Tensor, Tensor]:
    """Return the quotients, rounded down, and the remainders, as ``divmod(a, b)``."""
    return binary.floor_divide(a, b), binary.remainder(a, b)


OPS: Final[dict[np.ufunc, Callable[..., Any]]] = {
    function: op
    for module in (binary, bitwise, linalg, unary)
    for name, op in vars(module).items()
    if isinstance(function := getattr(np, name, None), np.ufunc)
} | {np.divmod: divmod_op}


def apply_ufunc(x: Tensor, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
    """Apply a NumPy ufunc to inputs of which x is the first tensor: the protocol ``__array_ufunc__``.

    Python also comes here from operators whose left operand is a NumPy array.

    Raises:
        ArgumentError: plugrad does not have the function, or the call has options that only arrays of NumPy have.
    """
    name = ufunc.__name__
    op = OPS.get(ufunc)
    if method != "__call__":
        raise ArgumentError(
            f"np.{name}.{method} does not take tensors; pass NumPy's arrays, as in x.numpy()"
        )
    if any(given is not None for given in options.pop("out", ())):
        raise ArgumentError(
            f"np.{name} does not write tensors into arrays, nor do operators such as +=; assign its result to a name, "
            "or pass NumPy's arrays, as in x.numpy()"
        )
    if op is None or options:
        given = f" with {', '.join(options)}" if options else ""
        raise ArgumentError(
            f"np.{name}{given} does not take tensors; pass NumPy's arrays, as in np.{name}(x.numpy()), which have no "
            "gradients"
        )
    return op(*inputs)
