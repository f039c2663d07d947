"""The device: the processor, on which PyTorch computes."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from plugrad.extend import (
    DTYPES,
    Backend,
    BackendUnavailable,
    DeviceInfo,
    DType,
    KernelTable,
    Memory,
    Probe,
    float16,
    uint16,
    uint32,
    uint64,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from plugrad_torch.memory import TorchArray


class TorchBackend(Backend):
    """The backend ``"torch"``."""

    name: ClassVar[str] = "torch"

    def probe(self) -> Probe:
        """Return whether PyTorch is installed, without importing it, which takes seconds."""
        if find_spec("torch") is None:
            return Probe(ok=False, reason="PyTorch is not installed; run pip install torch")
        return Probe(ok=True, devices=(DeviceInfo("cpu", "PyTorch on the processor"),))

    def open(self, device: str) -> KernelTable:
        """Open the processor, and return the kernels."""
        if device not in ("", "cpu"):
            raise BackendUnavailable(f"torch has no device {device!r}; its only one is 'cpu'")
        import torch

        from plugrad_torch.kernels import table
        from plugrad_torch.memory import Allocator

        threads = self.options.get("threads")
        if threads is not None:
            torch.set_num_threads(threads)
        self.device = "cpu"
        self.allocator = Allocator()
        return table

    def dtypes(self) -> frozenset[DType]:
        """Return all dtypes but those for which PyTorch lacks many functions on the processor."""
        return frozenset(DTYPES) - {float16, uint16, uint32, uint64}

    def from_numpy(self, array: NDArray[Any]) -> Any:
        """Return a copy of the values; strings stay NumPy arrays, which plugrad computes with on its own."""
        if array.dtype.kind == "T":
            return array.copy()
        import torch

        return self.allocator.array(torch.from_numpy(np.array(array, order="C")))

    def to_numpy(self, array: TorchArray | NDArray[Any]) -> NDArray[Any]:
        """Return a copy of the values."""
        if isinstance(array, np.ndarray):
            return array.copy()
        return np.array(array.values.numpy())

    def synchronize(self) -> None:
        """Do nothing: on the processor, PyTorch has finished when its functions return."""

    def memory(self) -> Memory:
        """Return the memory of all arrays; views share it."""
        return self.allocator.memory()

    def set_memory_limit(self, limit: int | None) -> None:
        """Refuse arrays with which more than `limit` bytes would be in use."""
        self.allocator.limit = limit

    def close(self) -> None:
        """Do nothing: the memory is released with the arrays."""
