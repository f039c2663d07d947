"""DLPack capsules of bfloat16, which NumPy can neither make nor read.

It makes and reads those of uint16. A capsule points to a description of the array, in which the byte that says
what the elements are is changed.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from plugrad.types.dtype import BFLOAT16, DType

if TYPE_CHECKING:
    from numpy.typing import NDArray

DLPACK_UINT_CODE: Final = 1
"""DLPack's code for unsigned integers."""
DLPACK_BFLOAT_CODE: Final = 4
"""DLPack's code for bfloat16."""
DTYPE_CODE_OFFSET_OF_CAPSULE: Final = {b"dltensor": 20, b"dltensor_versioned": 52}
"""The byte offset of the dtype code in a capsule's structure, by the capsule's name; the next byte counts the bits."""

_capsule_name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(
    ("PyCapsule_GetName", ctypes.pythonapi)
)
"""Python's C function that returns the name of a capsule."""
_capsule_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
"""Python's C function that returns the address in a capsule of a given name."""


def export_bfloat16(values: NDArray[Any], **options: Any) -> Any:
    """Return a DLPack capsule of bfloat16 values; the options are those of NumPy's ``__dlpack__``."""
    bits = values.view(np.uint16)
    capsule = bits.__dlpack__(**options)
    _kind_and_bits(capsule)[0] = DLPACK_BFLOAT_CODE
    return capsule


def import_bfloat16(x: Any) -> NDArray[Any] | None:
    """Return the values of an object with ``__dlpack__`` if they are bfloat16 on the host, else None."""
    try:
        capsule = x.__dlpack__(max_version=(1, 0))
    except TypeError:  # the object is older than the argument
        capsule = x.__dlpack__()
    found = _kind_and_bits(capsule)
    if tuple(found) != (DLPACK_BFLOAT_CODE, 16):
        return None
    found[0] = DLPACK_UINT_CODE
    return np.from_dlpack(_CapsuleHolder(capsule, x.__dlpack_device__())).view(
        DType(BFLOAT16).numpy
    )


def _kind_and_bits(capsule: Any) -> Any:
    """Return the two bytes of a capsule that encode the element type."""
    name = _capsule_name(capsule)
    address = _capsule_pointer(capsule, name) + DTYPE_CODE_OFFSET_OF_CAPSULE[name]
    return (ctypes.c_uint8 * 2).from_address(address)


class _CapsuleHolder:
    """An object that hands out an existing capsule."""

    def __init__(self, capsule: Any, device: tuple[int, int]) -> None:
        self.capsule, self.device = capsule, device

    def __dlpack__(self, **_: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device
