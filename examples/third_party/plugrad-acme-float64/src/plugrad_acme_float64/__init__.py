"""A backend for plugrad that computes only in float64 and counts every byte."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from plugrad.extend import (
    Backend,
    BackendUnavailable,
    DeviceInfo,
    DType,
    KernelTable,
    Memory,
    Probe,
    bool_,
    float64,
    int32,
)
from plugrad_acme_float64.memory import Allocator, Array

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Float64(Backend):
    """The backend ``"acme_float64"``."""

    name: ClassVar[str] = "acme_float64"

    def __init__(self) -> None:
        """Create the backend; it is not open yet."""
        self.allocator = Allocator()

    def probe(self) -> Probe:
        """Return that the backend can start: it needs only NumPy."""
        return Probe(ok=True, devices=(DeviceInfo("0", "NumPy in double precision"),))

    def open(self, device: str) -> KernelTable:
        """Open the only device, and return the kernels."""
        if device not in ("", "0"):
            raise BackendUnavailable(f"acme_float64 has no device {device!r}; its only one is '0'")
        from plugrad_acme_float64.kernels import table

        self.device = "0"
        return table

    def dtypes(self) -> frozenset[DType]:
        """Return the dtypes that are stored: float64, int32 for indices and counts, and bool for comparisons."""
        return frozenset({float64, int32, bool_})

    def from_numpy(self, array: NDArray[Any]) -> Array:
        """Return a copy of the values as a counted array."""
        return self.allocator.array(array)

    def to_numpy(self, array: Array) -> NDArray[Any]:
        """Return a copy of the values, which is not counted."""
        return array.values.copy()

    def synchronize(self) -> None:
        """Do nothing: NumPy has finished when its functions return."""

    def memory(self) -> Memory:
        """Return the exact memory in use."""
        return self.allocator.memory()

    def set_memory_limit(self, limit: int | None) -> None:
        """Refuse arrays with which more than `limit` bytes would be in use."""
        self.allocator.limit = limit

    def close(self) -> None:
        """Do nothing: there is nothing to release."""


def backend() -> Float64:
    """Return a backend that is not open yet."""
    return Float64()
