"""The processor: NumPy arrays, and a count of the bytes that they use."""

from __future__ import annotations

import platform
import warnings
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import ref

import numpy as np

from plugrad.extend import (
    DTYPES,
    Backend,
    BackendUnavailable,
    DeviceInfo,
    DType,
    KernelTable,
    Memory,
    OutOfMemory,
    Probe,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray


NOISE = r"(divide by zero|invalid value|overflow|underflow) encountered"


class Cpu(Backend):
    """The backend ``"cpu"``. NumPy allocates its arrays, so it watches them instead of handing them out."""

    name: ClassVar[str] = "cpu"

    def __init__(self) -> None:
        """Start with nothing allocated."""
        self._owners: dict[int, ref[NDArray[Any]]] = {}
        self._bytes = 0
        self._peak = 0
        self.adopt = self._count  # an attribute: the engine reads it for every tensor

    def probe(self) -> Probe:
        """Return yes, and the one device: NumPy is there."""
        return Probe(
            ok=True,
            devices=(DeviceInfo("0", f"{platform.machine()} processor, NumPy {np.__version__}"),),
        )

    def open(self, device: str) -> KernelTable:
        """Return the kernels; there is one device, ``"0"``."""
        if device not in ("", "0"):
            raise BackendUnavailable(f"the cpu backend has one device, '0', not {device!r}")
        from plugrad_cpu.kernels import table

        # What 1 / 0 and log(0) give is defined, so NumPy's warnings are noise. Here they cost nothing;
        # np.errstate would add 0.6 us to a call that takes 1 us.
        warnings.filterwarnings("ignore", NOISE, RuntimeWarning, r"plugrad(_cpu)?\.")
        self.device = "0"
        return table

    def dtypes(self) -> frozenset[DType]:
        """Return all dtypes."""
        return frozenset(DTYPES)

    def from_numpy(self, array: NDArray[Any]) -> NDArray[Any]:
        """Return a copy."""
        self.make_room(array.nbytes)
        return array.copy()

    def to_numpy(self, array: NDArray[Any]) -> NDArray[Any]:
        """Return a view: tensors do not change, and the view keeps the memory alive."""
        return np.asarray(array).view()

    def synchronize(self) -> None:
        """Return at once: NumPy has finished when it returns."""

    def close(self) -> None:
        """Return at once: there is nothing to release."""

    # --- memory ----------------------------------------------------------------------------------

    def _count(self, array: NDArray[Any]) -> None:
        """Count the buffer behind an array, until its last view is gone."""
        owner = array.base if array.base is not None else array
        key = id(owner)
        if key in self._owners or type(owner) is not np.ndarray:
            return  # counted already, or a NumPy scalar, which has no buffer
        size = owner.nbytes

        def forget(_: ref[NDArray[Any]], key: int = key, size: int = size) -> None:
            del self._owners[key]
            self._bytes -= size

        self._owners[key] = ref(owner, forget)
        self._bytes += size
        if self._bytes > self._peak:
            self._peak = self._bytes

    def memory(self) -> Memory:
        """Return the buffers that tensors use now, and their bytes now and at the peak."""
        return Memory(len(self._owners), self._bytes, self._peak, self.limit)

    def set_memory_limit(self, limit: int | None) -> None:
        """Make allocations beyond `limit` bytes raise `OutOfMemory`."""
        self.limit = limit

    def make_room(self, size: int) -> None:
        """Raise if `size` more bytes would exceed the limit."""
        if self.limit is not None and self._bytes + size > self.limit:
            raise OutOfMemory(
                f"the cpu backend uses {self._bytes:,} bytes and {size:,} more would exceed "
                f"its limit of {self.limit:,}; "
                "use smaller batches, release tensors, or raise the limit with plugrad.set_memory_limit"
            )
