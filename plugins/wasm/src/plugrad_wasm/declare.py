"""The factories that make implementations: what the kernels of a family have in common.

An export of the module is named after its kernel and dtype, as in ``add_float32``. A dtype without
an export raises an error when it is first used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from plugrad.extend import DType, DTypeError, Kernel, KernelTable, Shaped, bool_, uint8
from plugrad_wasm.dtypes import DTYPES
from plugrad_wasm.memory import WasmArray
from plugrad_wasm.strides import Pairing, pairing

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

    from plugrad_wasm.runtime import Call

LONG: Final = 1 << 16
"""From this number of elements on, a call lets other threads run, which costs less than the call."""

PART: Final = 1 << 24
"""How many elements one call takes at most: between two calls, Python raises Ctrl-C."""

Unary: TypeAlias = Callable[[WasmArray], WasmArray]
Binary: TypeAlias = Callable[[WasmArray, WasmArray], WasmArray]

table: Final = KernelTable("wasm")
"""All implementations of this backend; the modules in `kernels` add them."""


class ExportNames(dict[DType, str]):
    """The names of a kernel's exports by dtype."""

    def __init__(self, kernel: str, *, bool_as: DType = bool_, suffix: str = "") -> None:
        """Name the exports of `kernel`; bools may use the export of another type of one byte."""
        super().__init__({bool_: f"{kernel}_{bool_as}{suffix}"})
        self._kernel = kernel
        self._suffix = suffix

    def __missing__(self, dtype: DType) -> str:
        name = self[dtype] = f"{self._kernel}_{dtype}{self._suffix}"
        return name


def call(x: WasmArray, export: str, work: int) -> Call:
    """Return an export of the module that `x` belongs to, for a call of about `work` elementary steps."""
    store = x.memory.store
    return (store.short if work < LONG else store.long)[export]


def run_in_parts(
    run: Call, size: int, places: Sequence[tuple[WasmArray, int]], *attributes: float
) -> None:
    """Call an export for `size` elements, part by part; each array advances by so many elements."""
    for first in range(0, size, PART):
        addresses = [x.address + first * step * x.dtype.itemsize for x, step in places]
        run(*addresses, min(PART, size - first), *attributes)


def unary(kernel: str, *, dtype: DType | None = None) -> Unary:
    """Return the implementation of an elementwise kernel whose result has the dtype of x, or `dtype`."""
    names = ExportNames(kernel)

    def implementation(x: WasmArray) -> WasmArray:
        memory = x.memory
        size = x.size
        out = (
            WasmArray(memory, x.shape, x.dtype, size, x.capacity)
            if dtype is None
            else memory.empty(x.shape, dtype)
        )
        if size < LONG:
            memory.store.short[names[x.dtype]](x.address, out.address, size)
        else:
            run_in_parts(memory.store.long[names[x.dtype]], size, ((x, 1), (out, 1)))
        return out

    return implementation


def binary(kernel: str, *, dtype: DType | None = None) -> Binary:
    """Return the implementation of a broadcasting kernel.

    Args:
        kernel: what the names of its exports begin with.
        dtype: the dtype of the result if it is not that of the operands, as for comparisons, which
            read bools as uint8.
    """
    bool_as = bool_ if dtype is None else uint8
    names = ExportNames(kernel, bool_as=bool_as)
    broadcast_names = ExportNames(kernel, bool_as=bool_as, suffix="_broadcast")

    def implementation(a: WasmArray, b: WasmArray) -> WasmArray:
        if a.dtype is not b.dtype:
            raise DTypeError(
                f"{kernel}: the operands are {a.dtype} and {b.dtype}; cast one of them, as in "
                f"x.astype('{a.dtype}')"
            )
        shape = a.shape
        if shape != b.shape:
            return stretch(a, b, pairing(shape, b.shape))
        memory = a.memory
        size = a.size
        out = (
            WasmArray(memory, shape, a.dtype, size, a.capacity)
            if dtype is None
            else memory.empty(shape, dtype)
        )
        if size < LONG:
            run = memory.store.short[names[a.dtype]]
            run(a.address, b.address, out.address, size, 1, 1)
        else:
            run = memory.store.long[names[a.dtype]]
            run_in_parts(run, size, ((a, 1), (b, 1), (out, 1)), 1, 1)
        return out

    def stretch(a: WasmArray, b: WasmArray, pair: Pairing) -> WasmArray:
        memory = a.memory
        out = memory.empty(pair.shape, dtype or a.dtype)
        if pair.descriptor is None:
            steps = pair.a_step, pair.b_step
            run = call(a, names[a.dtype], pair.size)
            run_in_parts(run, pair.size, ((a, steps[0]), (b, steps[1]), (out, 1)), *steps)
        elif pair.size:
            descriptor = memory.store.descriptor(pair.descriptor)
            run = call(a, broadcast_names[a.dtype], pair.size)
            run(a.address, b.address, out.address, descriptor.address)
        return out

    return implementation


def declare_exports(contracts: ModuleType) -> None:
    """Implement the elementwise contracts of a family for which the module has exports.

    Such a kernel takes one line of C. Implementations that are in the table already stay.
    """
    # This imports wasmtime, which the rest of this file does not need.
    from plugrad_wasm.module import exported_kernels

    taken = {config.kernel_name for config in table}
    for name, kernel in vars(contracts).items():
        if isinstance(kernel, Kernel) and name in exported_kernels() and kernel.name not in taken:
            # The last dtype by name, not bool: it shows whether the result is always bool.
            operand = Shaped((), max(kernel.accepts & DTYPES))
            result = kernel.infer(*[operand] * len(kernel.inputs)).dtype
            factory = unary if len(kernel.inputs) == 1 else binary
            table.update({kernel: factory(name, dtype=None if result is operand.dtype else result)})


def swapped(implementation: Binary) -> Binary:
    """Return the implementation with its operands swapped: a > b is b < a."""
    return lambda a, b: implementation(b, a)
