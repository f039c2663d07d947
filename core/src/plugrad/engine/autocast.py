"""`plugrad.autocast`: inside a block, products and convolutions use half precision, and sums and losses float32."""

from __future__ import annotations

from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

from plugrad.contract.kernel import Kernel
from plugrad.errors import ArgumentValueError, short_repr
from plugrad.kernels import (
    activation,
    attention,
    binary,
    convolution,
    convolution3d,
    depthwise,
    fused,
    indexing,
    linalg,
    normalization,
    reduction,
    scan,
    sparse,
    unary,
)
from plugrad.tensor.context import active_precision, use_precision
from plugrad.types.dtype import HALVES, as_dtype, float32

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from plugrad.tensor.tensor import Tensor
    from plugrad.types.dtype import DType, DTypeLike

ParameterTypes = ParamSpec("ParameterTypes")
ResultType = TypeVar("ResultType")

HALF_PRECISION_FAMILIES: Final = (attention, convolution, convolution3d, depthwise, fused)
"""The modules all of whose kernels compute in half precision."""
HALF_PRECISION_KERNELS: Final[frozenset[str]] = frozenset(
    kernel.name
    for kernel in (
        *(value for family in HALF_PRECISION_FAMILIES for value in vars(family).values()),
        *(linalg.matmul, linalg.einsum),
    )
    if isinstance(kernel, Kernel)
)
"""The names of kernels that compute in half precision: products, convolutions, attention, and so recurrent cells."""

FLOAT32_FAMILIES: Final = (normalization, scan)
"""The modules all of whose kernels compute in float32."""
FLOAT32_KERNELS: Final[frozenset[str]] = frozenset(
    kernel.name
    for kernel in (
        *(value for family in FLOAT32_FAMILIES for value in vars(family).values()),
        *(reduction.sum, reduction.prod, reduction.mean, reduction.variance),
        *(reduction.euclidean_norm, indexing.unsorted_segment_sum),
        *(sparse.sparse_segment_sum, sparse.sparse_segment_mean),
        *(unary.exp, unary.expm1, unary.log, unary.log1p, unary.log2, unary.log10),
        *(unary.acos, unary.asin, unary.tan, unary.sinh, unary.cosh),
        *(unary.reciprocal, unary.rsqrt, activation.softplus),
        *(binary.power, binary.squared_difference, binary.log_add_exp, binary.hypot),
    )
    if isinstance(kernel, Kernel)
)
"""The names of kernels that compute in float32: sums, norms and softmax, and functions that grow or lose digits fast.

All other kernels take the dtype that their inputs promote to.
"""


@contextmanager
def autocast(dtype: DTypeLike) -> Generator[None]:
    """A block in which products, convolutions and attention use half precision; sums, norms and losses use float32.

    >>> x, w = plugrad.ones((4, 8)), plugrad.ones((8, 2))
    >>> with plugrad.autocast("bfloat16"):
    ...     y = x @ w
    ...     loss = plugrad.mean(y)
    >>> y.dtype, loss.dtype
    (plugrad.bfloat16, plugrad.float32)

    Tensors of float32 and of halves are cast before such a kernel runs, and gradients are cast back: those of
    variables in float32 are float32. Tensors of other dtypes stay what they are. The backward pass does not cast: it
    computes each gradient in the dtype of what it is the gradient of.

    The block counts for this thread or task only; `plugrad.carry_context` carries it to others. Blocks may end in any
    order. It counts inside functions that `plugrad.jit`, `plugrad.vmap` and `plugrad.grad` run, which are traced anew
    for it. The table of what is computed in which dtype is that of PyTorch (``torch.autocast``); the guide "Mixed
    precision" has it.

    Args:
        dtype: "bfloat16" or "float16"; "float32" switches a block around it off.

    Raises:
        ArgumentValueError: it is another one.
        DTypeError: there is no such dtype.
        UnsupportedDtype: inside the block, a backend does not store the dtype.
    """
    wanted = as_dtype(dtype)
    if wanted not in HALVES and wanted is not float32:
        raise ArgumentValueError(
            f"autocast: dtype={short_repr(str(wanted))} must be 'bfloat16', 'float16' or 'float32'"
        )
    with use_precision(None if wanted is float32 else wanted):
        yield


def keep_precision(
    function: Callable[ParameterTypes, ResultType],
) -> Callable[ParameterTypes, ResultType]:
    """Return a function that always runs in the current precision, for parts that a backward pass runs again."""
    now = active_precision()
    if now is None:
        return function

    @wraps(function)
    def call_with_kept_precision(
        *args: ParameterTypes.args, **kwargs: ParameterTypes.kwargs
    ) -> ResultType:
        with use_precision(now):
            return function(*args, **kwargs)

    return call_with_kept_precision


def compute_dtype(kernel: Kernel[..., Any], dtype: DType) -> DType:
    """Return the dtype in which a kernel computes inside an `autocast` block, given the inputs' promoted dtype.

    An op that promotes operands asks, so that none of them becomes float32 before it is cast to halves.
    """
    precision = active_precision()
    if precision is None or kernel.name not in HALF_PRECISION_KERNELS:
        return dtype
    return precision if dtype is float32 or dtype in HALVES else dtype


def cast_inputs(
    kernel: Kernel[..., Any], inputs: Sequence[Tensor | None], dtype: DType
) -> Sequence[Tensor | None]:
    """Return the inputs of a kernel in the dtype in which it computes inside of an `autocast` block."""
    if kernel.name in HALF_PRECISION_KERNELS:
        wanted = dtype
    elif kernel.name in FLOAT32_KERNELS:
        wanted = float32
    else:
        return inputs
    return [x if x is None else cast_floats(x, wanted) for x in inputs]


def cast_floats(x: Tensor, dtype: DType) -> Tensor:
    """Cast a tensor of float32 or of a half-precision dtype to `dtype`; return any other tensor unchanged."""
    given = x.dtype
    if given is dtype or (given is not float32 and given not in HALVES):
        return x
    return unary.cast.call(x, unary.cast.validate_attributes(x, dtype=dtype))
