"""The arrays of this backend: PyTorch's tensors with a NumPy-like shape and plugrad's dtype, and their memory."""

from __future__ import annotations

from typing import Any, Final

import torch

from plugrad.extend import Memory, OutOfMemory, as_dtype

DTYPES: Final = {
    getattr(torch, name): as_dtype(name)
    for name in (
        *("bool", "uint8", "int8", "int16", "int32", "int64"),
        *("float32", "float64", "complex64", "complex128"),
    )
}
TORCH_DTYPES: Final = {dtype: name for name, dtype in DTYPES.items()}


class Allocator:
    """Counts the storages of all arrays, and refuses arrays that exceed a limit."""

    def __init__(self) -> None:
        """Start without arrays."""
        self.owners: dict[int, int] = {}
        self.bytes = 0
        self.peak = 0
        self.limit: int | None = None

    def array(self, values: torch.Tensor) -> TorchArray:
        """Return a tensor as an array, if the limit allows it; it may be a view of another array."""
        return TorchArray(values, self)

    def add(self, storage: torch.UntypedStorage) -> None:
        """Add an owner of a storage, whose bytes count once."""
        key, size = storage.data_ptr(), storage.nbytes()
        if key not in self.owners:
            if self.limit is not None and self.bytes + size > self.limit:
                raise OutOfMemory(
                    f"the torch backend uses {self.bytes:,} bytes and {size:,} more would exceed its limit of "
                    f"{self.limit:,}; release tensors, or raise the limit"
                )
            self.bytes += size
            self.peak = max(self.peak, self.bytes)
        self.owners[key] = self.owners.get(key, 0) + 1

    def remove(self, storage: torch.UntypedStorage) -> None:
        """Remove an owner of a storage, whose bytes count until its last owner is removed."""
        key = storage.data_ptr()
        self.owners[key] -= 1
        if not self.owners[key]:
            del self.owners[key]
            self.bytes -= storage.nbytes()

    def memory(self) -> Memory:
        """Return the memory in use."""
        return Memory(len(self.owners), self.bytes, self.peak, self.limit)


class TorchArray:
    """A tensor of PyTorch, counted until the last reference is gone."""

    __slots__ = ("allocator", "dtype", "shape", "storage", "values")

    def __init__(self, values: torch.Tensor, allocator: Allocator) -> None:
        """Wrap a tensor."""
        self.values = values
        self.shape: tuple[int, ...] = tuple(values.shape)
        self.dtype = DTYPES[values.dtype]
        self.allocator = allocator
        storage = values.untyped_storage()
        allocator.add(storage)
        self.storage: Any = storage

    def __del__(self) -> None:
        storage = getattr(self, "storage", None)  # a refused array has none
        if storage is not None:
            self.allocator.remove(storage)
