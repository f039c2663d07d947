"""NumPy's ufuncs on tensors: they call the ops of the same names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from plugrad.errors import ArgumentError
from plugrad.ops import binary, bitwise, complex as complex_ops, linalg, methods, movement, unary
from plugrad.ops.arguments import as_tensor
from plugrad.ops.indexing import first_backend

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from plugrad.tensor.tensor import Tensor, TensorLike


def divmod_op(a: Any, b: Any) -> tuple[Tensor, Tensor]:
    """Return the quotients, rounded down, and the remainders, as ``divmod(a, b)``."""
    return binary.floor_divide(a, b), binary.remainder(a, b)


OP_OF_UFUNC: Final[dict[np.ufunc, Callable[..., Any]]] = {
    function: op
    for module in (binary, bitwise, complex_ops, linalg, unary)
    for name, op in vars(module).items()
    if isinstance(function := getattr(np, name, None), np.ufunc)
} | {np.divmod: divmod_op}
"""The op that each ufunc of NumPy calls for tensors."""

REDUCTION_OF_UFUNC: Final[dict[np.ufunc, Callable[..., Tensor]]] = {
    np.add: methods.sum,
    np.multiply: methods.prod,
    np.maximum: methods.max,
    np.minimum: methods.min,
    np.logical_and: methods.all,
    np.logical_or: methods.any,
}
"""The methods of tensors that ``ufunc.reduce`` calls."""
ACCUMULATION_OF_UFUNC: Final[dict[np.ufunc, Callable[..., Tensor]]] = {
    np.add: methods.cumsum,
    np.multiply: methods.cumprod,
}
"""The methods of tensors that ``ufunc.accumulate`` calls."""

_OPTIONS_OF_METHOD: Final[dict[str, tuple[str, ...]]] = {
    "reduce": ("axis", "dtype", "keepdims"),
    "accumulate": ("axis", "dtype"),
}
"""The options that methods of ufuncs take for tensors."""


def _apply_outer(op: Callable[..., Tensor], a: TensorLike, b: TensorLike) -> Tensor:
    """Apply a binary op to each element of a with each of b: ``ufunc.outer``."""
    backend = first_backend(a, b)
    x, y = (as_tensor(z, "outer", backend=backend) for z in (a, b))
    return op(movement.reshape(x, x.shape + (1,) * y.ndim), y)


def _cast_inputs(ufunc: np.ufunc, inputs: Sequence[Any], dtype: Any) -> Sequence[Any] | None:
    """Return a ufunc's inputs, cast to the requested dtype; None if the ufunc does not compute in this dtype."""
    if dtype is None:
        return inputs
    letter = np.dtype(dtype).char
    if f"{letter * ufunc.nin}->{letter * ufunc.nout}" not in ufunc.types:
        return None
    backend = first_backend(*inputs)
    found = [as_tensor(x, ufunc.__name__, backend=backend) for x in inputs]
    if not all(np.can_cast(x.dtype.numpy, np.dtype(dtype), "same_kind") for x in found):
        return None
    return [x.astype(dtype) for x in found]


def apply_ufunc(x: Tensor, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
    """Apply a NumPy ufunc to inputs of which x is the first tensor: the protocol ``__array_ufunc__``.

    Python also comes here from operators whose left operand is a NumPy array.

    Raises:
        ArgumentError: plugrad does not have the function, or the call has options that only arrays of NumPy have.
    """
    name = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
    op = OP_OF_UFUNC.get(ufunc)
    if any(given is not None for given in options.pop("out", ())):
        raise ArgumentError(
            f"np.{name} does not write tensors into arrays, nor do operators such as +=; assign its result to a name, "
            "or pass NumPy's arrays, as in x.numpy()"
        )
    if method == "__call__" and op is not None and "dtype" in options:
        converted = _cast_inputs(ufunc, inputs, options["dtype"])
        if converted is not None:
            inputs = tuple(converted)
            del options["dtype"]
    lacking = [option for option in options if option not in _OPTIONS_OF_METHOD.get(method, ())]
    if method in ("reduce", "accumulate"):
        op = (REDUCTION_OF_UFUNC if method == "reduce" else ACCUMULATION_OF_UFUNC).get(ufunc)
        options = {"axis": 0} | options
    elif method == "outer" and op is not None and ufunc.nin == 2:
        inputs = (op, *inputs)
        op = _apply_outer
    elif method != "__call__":
        op = None
    if op is None or lacking:
        given = f" with {', '.join(lacking)}" if lacking else ""
        raise ArgumentError(
            f"np.{name}{given} does not take tensors; pass NumPy's arrays, as in np.{name}(x.numpy()), which have no "
            "gradients"
        )
    return op(*inputs, **options)
