"""Functions of complex numbers.

An argument that does not convert to a tensor raises ArgumentError.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugrad.engine.results import alias
from plugrad.errors import DTypeError, ShapeError
from plugrad.kernels import complex as kernels
from plugrad.ops.arguments import as_tensor, cast, promote_operands
from plugrad.types.dtype import COMPLEX, complex64, equivalents, promote, string

if TYPE_CHECKING:
    from plugrad.tensor.tensor import Tensor, TensorLike

_COMPLEX_DTYPES = equivalents(COMPLEX)
"""The complex dtypes, in plugrad's and NumPy's spelling."""


def complex(real: TensorLike, imag: TensorLike) -> Tensor:
    """The complex numbers ``real + 1j * imag``, in the shape of both parts.

    >>> plugrad.complex([1.0, 2.0], [3.0, -4.0])
    tensor([1.+3.j, 2.-4.j], dtype=complex64)

    The result is complex128 if a part is float64, else complex64.

    Raises:
        ShapeError: the parts have different shapes.
        DTypeError: both parts are float16, one holds complex numbers or strings, or no dtype holds
            both.
    """
    x, y = promote_operands(real, imag, kernels.complex, "complex")
    if x.shape != y.shape:
        raise ShapeError(
            f"complex: real has shape {x.shape} and imag {y.shape}; they must be equal, as after broadcast_to"
        )
    return kernels.complex(x, y)


def real(x: TensorLike) -> Tensor:
    """The real part of each element, in the shape of x; a real tensor is returned as it is.

    >>> plugrad.real([1 + 2j, 3j])
    tensor([1., 0.], dtype=float32)

    The real part of complex64 is float32, that of complex128 is float64.

    Raises:
        DTypeError: x holds strings.
    """
    x = _as_numeric(x, "real")
    return kernels.real(x) if x.array.dtype in _COMPLEX_DTYPES else alias(x)


def imag(x: TensorLike) -> Tensor:
    """The imaginary part of each complex element, in the shape of x.

    >>> plugrad.imag([1 + 2j, 3j])
    tensor([2., 3.], dtype=float32)

    The imaginary part of complex64 is float32, that of complex128 is float64.

    Raises:
        DTypeError: x is not complex.
    """
    x = as_tensor(x, "imag")
    if x.array.dtype not in _COMPLEX_DTYPES:
        raise DTypeError(
            f"imag takes complex tensors, not {x.dtype}; {_dtype_remedy(x, 'complex64')}"
        )
    return kernels.imag(x)


def conj(x: TensorLike) -> Tensor:
    """The complex conjugate of each element, in the shape and dtype of x; a real tensor is returned as it is.

    >>> plugrad.conj([1 + 2j, 3j])
    tensor([1.-2.j, 0.-3.j], dtype=complex64)

    Raises:
        DTypeError: x holds strings.
    """
    x = _as_numeric(x, "conj")
    return kernels.conj(x) if x.array.dtype in _COMPLEX_DTYPES else alias(x)


def _dtype_remedy(x: Tensor, dtype: str) -> str:
    """Return the remedy at the end of an error message: how to convert x to a supported dtype."""
    if x.dtype is string:
        return "strings do not convert to numbers"
    return f"cast it with astype({dtype!r})"


def _as_numeric(x: TensorLike, op: str) -> Tensor:
    """Return x as a tensor of numbers or bools.

    Raises:
        DTypeError: it is string.
    """
    x = as_tensor(x, op)
    if x.dtype is string:
        raise DTypeError(f"{op} takes numbers, not string; {_dtype_remedy(x, 'float32')}")
    return x


def as_complex(x: Tensor, op: str) -> Tensor:
    """Return a floating or complex tensor as a complex one of the same precision; float16 gives complex64.

    Raises:
        DTypeError: it is neither floating nor complex.
    """
    if x.array.dtype in _COMPLEX_DTYPES:
        return x
    if x.dtype.kind != "floating":
        raise DTypeError(
            f"{op} takes floating or complex tensors, not {x.dtype}; {_dtype_remedy(x, 'float32')}"
        )
    return cast(x, promote(x.dtype, complex64))
