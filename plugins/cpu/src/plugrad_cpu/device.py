"""The processor: NumPy arrays, and a count of the bytes that they use."""

from __future__ import annotations

import platform
import warnings
from collections import deque
from contextlib import suppress
from math import prod
from typing import Any, ClassVar, Final, cast
from weakref import ref

import numpy as np
from numpy.typing import NDArray

from plugrad.extend import (
    DTYPES,
    KERNELS,
    Backend,
    BackendUnavailable,
    DeviceInfo,
    DType,
    Implementation,
    Kernel,
    KernelTable,
    Memory,
    OutOfMemory,
    Probe,
)

Array = NDArray[Any]
COUNTED_FROM: Final = 65536
"""Arrays with fewer bytes are not counted: it would take as long as computing them."""
NOISE: Final = r"(divide by zero|invalid value|overflow|underflow) encountered"


class Counted(ref[Array]):
    """A reference to an array that has been counted, with what is to be taken off when it dies."""

    __slots__ = ("key", "size")
    key: int
    size: int


class Cpu(Backend):
    """The backend ``"cpu"``. NumPy allocates its arrays, so it watches them instead of handing them out."""

    name: ClassVar[str] = "cpu"

    def __init__(self) -> None:
        """Start with nothing allocated."""
        self._owners: dict[int, Counted] = {}
        self._dead: deque[Counted] = deque()
        self._bytes = 0
        self._peak = 0
        self._limit: int | None = None

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
        self._make_room(array.nbytes)
        copy = array.copy()
        if copy.nbytes >= COUNTED_FROM:
            self._count(copy)
        return copy

    def to_numpy(self, array: NDArray[Any]) -> NDArray[Any]:
        """Return a view: tensors do not change, and the view keeps the memory alive."""
        return np.asarray(array).view()

    def synchronize(self) -> None:
        """Return at once: NumPy has finished when it returns."""

    def close(self) -> None:
        """Return at once: there is nothing to release."""

    # --- memory ----------------------------------------------------------------------------------

    def prepared(self, kernel_name: str, function: Implementation) -> Implementation:
        """Return an implementation whose results are counted, and for which there must be room under a limit."""
        counted = self._counted(function, KERNELS.get(kernel_name))
        if self._limit is None:
            return counted
        contract = KERNELS.get(kernel_name)

        def limited(*arrays: Any, **attrs: Any) -> Any:
            if contract is not None and not contract.dynamic_shape:
                given = arrays if contract.inputs else ()
                self._make_room(_bytes_of(contract.infer(*given, **attrs)))
            return counted(*arrays, **attrs)

        return limited

    def _counted(
        self, function: Implementation, contract: Kernel[..., Any] | None
    ) -> Implementation:
        """Return `function` counting what it returns; those of elementwise kernels cost half of the general form."""
        count = self._count
        inputs = (
            0
            if contract is None or not contract.is_elementwise or contract.attributes
            else len(contract.inputs)
        )
        if inputs == 1:

            def of_one(x: Array) -> Any:
                result = function(x)
                if result.nbytes >= COUNTED_FROM:
                    count(result)
                return result

            return of_one
        if inputs == 2:

            def of_two(a: Array, b: Array) -> Any:
                result = function(a, b)
                if result.nbytes >= COUNTED_FROM:
                    count(result)
                return result

            return of_two

        def of_several(*arrays: Any, **attrs: Any) -> Any:
            result = function(*arrays, **attrs)
            several = cast("list[Array]", result if isinstance(result, list | tuple) else [result])
            for array in several:
                if array.nbytes >= COUNTED_FROM:
                    count(array)
            return result

        return of_several

    def _count(self, array: NDArray[Any]) -> None:
        """Count the buffer behind an array, until its last view is gone."""
        self._settle()
        owner = array.base if array.base is not None else array
        key = id(owner)
        if key in self._owners or type(owner) is not np.ndarray:
            return  # counted already, or a NumPy scalar, which has no buffer
        # The callback is C code, in which no signal arrives: an interrupt there would be lost.
        counted = Counted(owner, self._dead.append)
        counted.key = key
        counted.size = size = owner.nbytes
        self._owners[key] = counted
        self._bytes += size
        if self._bytes > self._peak:
            self._peak = self._bytes

    def _settle(self) -> None:
        """Take off the arrays that have died.

        No statement of the loop calls a function. So threads and signals come between two rounds and
        never within one, and each array is taken off once.
        """
        dead, owners = self._dead, self._owners
        with suppress(IndexError):
            while True:
                counted = dead[0]
                del dead[0]
                del owners[counted.key]
                self._bytes -= counted.size

    def memory(self) -> Memory:
        """Return the buffers that tensors use now, and their bytes now and at the peak."""
        self._settle()
        return Memory(len(self._owners), self._bytes, self._peak, self._limit)

    def set_memory_limit(self, limit: int | None) -> None:
        """Make allocations beyond `limit` bytes raise `OutOfMemory`."""
        self._limit = limit
        self.functions.clear()  # they are prepared anew, with or without asking for room

    def _make_room(self, size: int) -> None:
        """Raise if `size` more bytes would exceed the limit."""
        if self._limit is None:
            return
        self._settle()
        if self._bytes + size > self._limit:
            raise OutOfMemory(
                f"the cpu backend uses {self._bytes:,} bytes and {size:,} more would exceed "
                f"its limit of {self._limit:,}; "
                "use smaller batches, release tensors, or raise the limit with plugrad.set_memory_limit"
            )


def _bytes_of(specs: Any) -> int:
    """Return the bytes of one output, or of several."""
    outputs = [specs] if hasattr(specs, "dtype") else specs
    return sum(prod(output.shape) * output.dtype.itemsize for output in outputs)
