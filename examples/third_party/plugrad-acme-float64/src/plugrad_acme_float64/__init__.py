"""A backend of plugrad that computes in float64 only and accounts for every byte."""

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
        """Return that it can start wherever NumPy is."""
        return Probe(ok=True, devices=(DeviceInfo("0", "NumPy in double precision"),))

    def open(self, device: str) -> KernelTable:
        """Return the kernels; there is one device."""
        if device not in ("", "0"):
            raise BackendUnavailable(f"acme_float64 has no device {device!r}; its only one is '0'")
        from plugrad_acme_float64.kernels import table

        self.device = "0"
        return table

    def dtypes(self) -> frozenset[DType]:
        """Return what it stores: float64, and what comes with counting and comparing."""
        return frozenset({float64, int32, bool_})

    def from_numpy(self, array: NDArray[Any]) -> Array:
        """Return a copy that is counted."""
        return self.allocator.array(array)

    def to_numpy(self, array: Array) -> NDArray[Any]:
        """Return a copy that is not."""
        return array.values.copy()

    def synchronize(self) -> None:
        """Return at once: NumPy has finished when it returns."""

    def memory(self) -> Memory:
        """Return what is in use, exactly."""
        return self.allocator.memory()

    def set_memory_limit(self, limit: int | None) -> None:
        """Refuse arrays beyond so many bytes."""
        self.allocator.limit = limit

    def close(self) -> None:
        """Return at once: there is nothing to release."""


def backend() -> Float64:
    """Return a backend that is not open yet."""
    return Float64()
