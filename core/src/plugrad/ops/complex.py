"""Functions of complex numbers."""

from plugrad.errors import DTypeError, ShapeError
from plugrad.kernels import complex as kernels
from plugrad.ops.arguments import as_tensor, cast, promoted
from plugrad.tensor.tensor import Tensor, TensorLike
from plugrad.types.dtype import COMPLEX, complex64, promote, spellings, string

_COMPLEX = spellings(COMPLEX)


def complex(real: TensorLike, imag: TensorLike) -> Tensor:
    """The complex numbers with the given real and imaginary parts.

    >>> plugrad.complex([1.0, 2.0], [3.0, -4.0])
    tensor([1.+3.j, 2.-4.j], dtype=complex64)

    Parts in float64 give complex128, all others complex64.

    Raises:
        ShapeError: the parts have different shapes.
        DTypeError: a part is complex.
    """
    x, y = promoted(real, imag, kernels.complex, "complex")
    if x.shape != y.shape:
        raise ShapeError(
            f"complex: real has shape {x.shape} and imag {y.shape}; they must be equal, as after broadcast_to"
        )
    return kernels.complex(x, y)


def real(x: TensorLike) -> Tensor:
    """The real part of each element; a real tensor is its own.

    >>> plugrad.real([1 + 2j, 3j])
    tensor([1., 0.], dtype=float32)
    """
    x = _number(x, "real")
    return kernels.real(x) if x.array.dtype in _COMPLEX else x


def imag(x: TensorLike) -> Tensor:
    """The imaginary part of each complex element.

    >>> plugrad.imag([1 + 2j, 3j])
    tensor([2., 3.], dtype=float32)

    Raises:
        DTypeError: the tensor is not complex.
    """
    x = as_tensor(x, "imag")
    if x.array.dtype not in _COMPLEX:
        raise DTypeError(f"imag takes complex tensors, not {x.dtype}; {_remedy(x, 'complex64')}")
    return kernels.imag(x)


def conj(x: TensorLike) -> Tensor:
    """The complex conjugate: the opposite imaginary part. A real tensor is its own.

    >>> plugrad.conj([1 + 2j, 3j])
    tensor([1.-2.j, 0.-3.j], dtype=complex64)
    """
    x = _number(x, "conj")
    return kernels.conj(x) if x.array.dtype in _COMPLEX else x


def _remedy(x: Tensor, dtype: str) -> str:
    """Return what can be done about the dtype of x."""
    return (
        "strings do not convert to numbers"
        if x.dtype is string
        else f"cast it with astype({dtype!r})"
    )


def _number(x: TensorLike, op: str) -> Tensor:
    x = as_tensor(x, op)
    if x.dtype is string:
        raise DTypeError(f"{op} takes numbers, not string; {_remedy(x, 'float32')}")
    return x


def as_complex(x: Tensor, op: str) -> Tensor:
    """Return a floating or complex tensor as a complex one of the same precision.

    Raises:
        DTypeError: it is neither.
    """
    if x.array.dtype in _COMPLEX:
        return x
    if x.dtype.kind != "floating":
        raise DTypeError(
            f"{op} takes floating or complex tensors, not {x.dtype}; {_remedy(x, 'float32')}"
        )
    return cast(x, promote(x.dtype, complex64))
