"""Factories of implementations, which the families share.

An export of the module is named after its kernel and dtype, as in ``add_float32``. A dtype without
an export raises an error when it is first used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from plugrad.extend import (
    DType,
    DTypeError,
    Kernel,
    KernelConfig,
    KernelTable,
    Shaped,
    bool_,
    count_elements,
    float32,
    uint8,
)
from plugrad_wasm.dtypes import ARRAY_DTYPES
from plugrad_wasm.memory import StridedView, WasmArray, WasmSlice, WasmStridedView
from plugrad_wasm.strides import (
    BinaryLayout,
    binary_layout,
    broadcast_strides,
    contiguous_axis_order,
    memory_order_binary_layout,
    strided_binary_layout,
    strides_for_axis_order,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import ModuleType

    from plugrad_wasm.runtime import CallChain, ExportFunction, HasMemoryAddress, Runtime

RELEASE_GIL_MIN_ELEMENTS: Final = 1 << 16
"""The minimum number of elements for which a call releases the interpreter's lock."""


class PartStepLimits(NamedTuple):
    """The minimum and maximum number of elementary steps in one part of long work."""

    minimum: int
    """The steps for which another thread saves more time than waking it takes: about 0.2 ms."""
    maximum: int
    """The steps between which Python can raise Ctrl-C: at most a third of a second."""


ELEMENTWISE_PART_STEPS: Final = PartStepLimits(1 << 18, 1 << 23)
"""The limits of a part of elementwise work, where each element is one step."""
MATMUL_PART_STEPS: Final = PartStepLimits(1 << 20, 1 << 29)
"""The limits of a part of a matrix product, where each product of two numbers is one step."""
FLOAT32_MATMUL_PART_STEPS: Final = PartStepLimits(1 << 22, 1 << 33)
"""The limits of a part of a float32 matrix product; each part packs the second matrix again."""

PART_MULTIPLE_ELEMENTS: Final = 64
"""The number of elements of which a part's start is a multiple, so that vectors are the same as without parts."""

UnaryImplementation: TypeAlias = Callable[[WasmArray], WasmArray]
"""The type of the implementation of a kernel of one array."""
BinaryImplementation: TypeAlias = Callable[[WasmArray, WasmArray], WasmArray]
"""The type of the implementation of a kernel of two arrays."""


class ImplementationTable(KernelTable):
    """The implementations declared by the imported modules of `kernels`.

    A module whose import was interrupted declares its kernels again.
    """

    def __init__(self) -> None:
        """Create an empty table."""
        super().__init__("wasm")
        self.configs: dict[str, KernelConfig] = {}

    def add(self, config: KernelConfig) -> None:
        """Declare the implementation of one kernel."""
        self.configs[config.kernel_name] = config


table: Final = ImplementationTable()
"""The implementations of this backend that have been imported; `families` names all kernels."""


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


def select_export(x: WasmArray, export: str, work: int) -> ExportFunction:
    """Return an export of x's store as a function, which releases the GIL if `work`, in elementary steps, is large."""
    store = x.memory.store
    return (
        store.exports_holding_gil
        if work < RELEASE_GIL_MIN_ELEMENTS
        else store.exports_releasing_gil
    )[export]


def choose_items_per_part(
    store: Runtime,
    item_count: int,
    work: int,
    step_limits: PartStepLimits,
    part_size_multiple: int = 1,
) -> int:
    """Return the number of items per part, given the `work` of all items in elementary steps."""
    if work < 2 * step_limits.minimum:
        return max(1, item_count)
    threads = store.threads
    parts = max(-(-work // step_limits.maximum), min(threads, work // step_limits.minimum))
    if parts > threads:
        parts = -(-parts // threads) * threads  # so that all threads have the same number
    return min(item_count, -(-item_count // (parts * part_size_multiple)) * part_size_multiple)


def is_done_in_one_call(store: Runtime, element_count: int) -> bool:
    """Return whether a store does elementwise work on so many elements in one call.

    The implementations make such a call themselves: after one that has filled the caches, every function of Python
    is fetched anew, and `run_elementwise` would take up to 7 µs.
    """
    return element_count < (
        2 * ELEMENTWISE_PART_STEPS.minimum if store.threads > 1 else ELEMENTWISE_PART_STEPS.maximum
    )


def iter_part_ranges(
    axis_sizes: tuple[int, ...], work: int, max_steps: int
) -> Iterator[tuple[tuple[int, int], ...]]:
    """Yield parts of about `max_steps` of `work`, both in elementary steps: a start and a length for each axis.

    All parts together are `work` steps. A part has several positions along an axis only if it has all positions
    of the axes behind it.
    """
    if work <= max_steps or not axis_sizes:
        yield tuple((0, size) for size in axis_sizes)
        return
    size, *rest = axis_sizes
    length = max(1, max_steps * size // work)
    inner = -(-work // size) if length == 1 else 0
    for first in range(0, size, length):
        for behind in iter_part_ranges(tuple(rest), inner, max_steps):
            yield (first, min(length, size - first)), *behind


def matmul_part_steps(x: WasmArray) -> PartStepLimits:
    """Return the limits on the elementary steps in one part of a matrix product, by the dtype of x."""
    return FLOAT32_MATMUL_PART_STEPS if x.dtype is float32 else MATMUL_PART_STEPS


def run_elementwise(
    x: WasmArray,
    export: str,
    element_count: int,
    arrays_and_steps: Sequence[tuple[WasmArray, int]],
    *attributes: float,
) -> None:
    """Call an elementwise export in parts; each array comes with its step per element, in elements."""
    run_over_items(
        x,
        export,
        element_count,
        arrays_and_steps,
        *attributes,
        work=element_count,
        part_size_multiple=PART_MULTIPLE_ELEMENTS,
    )


def run_over_items(
    x: WasmArray,
    export: str,
    item_count: int,
    arrays_and_steps: Sequence[tuple[WasmArray, int]],
    *attributes: float,
    work: int,
    part_size_multiple: int = 1,
    scratch_bytes: int | None = None,
    kept_objects: Sequence[object] = (),
) -> None:
    """Call an export for items such as rows, in parts if `work`, the cost in elementary steps, is large.

    The arguments of a call are the addresses of the arrays, the number of items, and the attributes.

    Args:
        x: an array in whose memory the kernel runs.
        export: the name of the export.
        item_count: the number of items.
        arrays_and_steps: the arrays, and by how many elements each advances from item to item.
        attributes: further arguments.
        work: the elementary steps of all items together.
        part_size_multiple: all parts but the last one have a multiple of so many items.
        scratch_bytes: the bytes of scratch memory, whose address is the last argument.
        kept_objects: further objects that must not be released before the last call ends.
    """
    store = x.memory.store
    length = (
        item_count
        if work < RELEASE_GIL_MIN_ELEMENTS
        else choose_items_per_part(
            store, item_count, work, ELEMENTWISE_PART_STEPS, part_size_multiple
        )
    )
    if length >= item_count:
        block = () if scratch_bytes is None else (x.memory.empty((scratch_bytes,), uint8),)
        addresses = [array.address for array, _ in arrays_and_steps]
        select_export(x, export, work)(
            *addresses, item_count, *attributes, *[y.address for y in block]
        )
        return
    chains = [
        [
            (
                *(
                    array.address + first * step * array.dtype.itemsize
                    for array, step in arrays_and_steps
                ),
                min(length, item_count - first),
                *attributes,
            )
        ]
        for first in range(0, item_count, length)
    ]
    run_call_chains(
        x,
        export,
        chains,
        [*kept_objects, *(array for array, _ in arrays_and_steps)],
        work,
        scratch_bytes,
    )


def run_strided(
    x: WasmArray,
    export: str,
    descriptor: tuple[int, ...],
    arrays: Sequence[WasmArray | None],
    stride_indices: Sequence[int],
    *attributes: float,
    work: int,
    start_elements: Sequence[int] = (0,) * 5,
) -> None:
    """Call an export that loops over strided axes, in parts of the first if `work`, in elementary steps, is large.

    The arguments of a call are the addresses of the arrays, that of the descriptor, and the attributes.

    Args:
        x: an array in whose memory the kernel runs.
        export: the name of the export.
        descriptor: the number of axes, their sizes, and strides of any number of arrays.
        arrays: the arrays that the export reads and writes; None has the address 0.
        stride_indices: for each array the number of its strides in the descriptor, counted from 1, or 0 if it is
            dense.
        attributes: further arguments.
        work: the elementary steps.
        start_elements: in each array, the element where the loop begins.
    """
    store = x.memory.store
    places = [
        0 if array is None else array.address + start * array.dtype.itemsize
        for array, start in zip(arrays, start_elements, strict=False)
    ]
    if work < RELEASE_GIL_MIN_ELEMENTS:
        store.exports_holding_gil[export](
            *places, store.descriptor(descriptor).address, *attributes
        )
        return
    axes, size, *rest = descriptor
    length = choose_items_per_part(
        store, size, work, ELEMENTWISE_PART_STEPS, PART_MULTIPLE_ELEMENTS if axes == 1 else 1
    )
    if length >= size:
        block = store.descriptor(
            descriptor
        )  # which other threads may drop from the cache meanwhile
        select_export(x, export, work)(*places, block.address, *attributes)
        return
    dense = count_elements(tuple(rest[: axes - 1]))
    steps = [
        0 if array is None else array.dtype.itemsize * (rest[axes * which - 1] if which else dense)
        for array, which in zip(arrays, stride_indices, strict=True)
    ]
    chains: list[CallChain] = []
    parts: list[HasMemoryAddress] = []
    for first in range(0, size, length):
        parts.append(store.descriptor((axes, min(length, size - first), *rest)))
        addresses = [place + first * step for place, step in zip(places, steps, strict=True)]
        chains.append([(*addresses, parts[-1].address, *attributes)])
    run_call_chains(x, export, chains, (*arrays, *parts), work)


def run_call_chains(
    x: WasmArray,
    export: str,
    chains: Sequence[CallChain],
    kept_objects: Sequence[object],
    work: int,
    scratch_bytes: int | None = None,
) -> None:
    """Call an export with the arguments in chains, shared by threads; `work` is the cost of all in elementary steps.

    Each thread has `scratch_bytes` of scratch memory. `Workers.run_in_threads` explains the other arguments.
    """
    memory = x.memory
    blocks: list[WasmArray] = []
    if scratch_bytes is not None:
        count = min(len(chains), memory.store.threads)
        blocks = [memory.empty((scratch_bytes,), uint8) for _ in range(count)]
    if len(chains) > 1:
        memory.store.run_in_threads(export, chains, kept_objects, blocks)
        return
    run = select_export(x, export, work)
    for chain in chains:
        for arguments in chain:
            run(*arguments, *(block.address for block in blocks))


def make_unary(kernel: str, *, dtype: DType | None = None) -> UnaryImplementation:
    """Return the implementation of the elementwise kernel with this name; `dtype` is that of results, if not x's."""
    names = ExportNames(kernel)

    def implementation(x: WasmArray) -> WasmArray:
        """Return the result for each element of x."""
        memory = x.memory
        size = x.size
        if size >= RELEASE_GIL_MIN_ELEMENTS and isinstance(x, WasmStridedView):
            strided_view = x.strided_view
            order = (
                None
                if strided_view is None
                else contiguous_axis_order(strided_view.sizes, strided_view.strides)
            )
            if strided_view is not None and order is not None:
                # the result has the order of x in memory
                sizes = tuple([strided_view.sizes[axis] for axis in order])
                out = implementation(WasmSlice(strided_view.owner, sizes, strided_view.start))
                return WasmStridedView(
                    StridedView(
                        out,
                        strided_view.sizes,
                        strides_for_axis_order(strided_view.sizes, order),
                        0,
                    ),
                    x.read,
                )
        out = (
            WasmArray(memory, x.shape, x.dtype, size, x.capacity)
            if dtype is None
            else memory.empty(x.shape, dtype)
        )
        store = memory.store
        if size < RELEASE_GIL_MIN_ELEMENTS:
            store.exports_holding_gil[names[x.dtype]](x.address, out.address, size)
        elif is_done_in_one_call(store, size):
            store.exports_releasing_gil[names[x.dtype]](x.address, out.address, size)
        else:
            run_elementwise(x, names[x.dtype], size, ((x, 1), (out, 1)))
        return out

    return implementation


def broadcast_view(x: WasmArray, shape: tuple[int, ...]) -> StridedView:
    """Return the strided view of an array broadcast to a shape."""
    if isinstance(x, WasmStridedView):
        strided_view = x.strided_view  # once: another thread may copy the elements meanwhile
        if strided_view is not None:
            lead = (0,) * (len(shape) - len(strided_view.sizes))
            steps = zip(strided_view.sizes, strided_view.strides, strict=True)
            return strided_view._replace(
                strides=(*lead, *(0 if n == 1 else step for n, step in steps))
            )
    return StridedView(x, shape, broadcast_strides(x.shape, shape), 0)


def make_binary(kernel: str, *, dtype: DType | None = None) -> BinaryImplementation:
    """Return the implementation of the broadcasting kernel with this name; `dtype` is that of results, if not a's.

    Args:
        kernel: the start of the names of its exports.
        dtype: the dtype of the result if it is not that of the operands, as for comparisons, which
            read bools as uint8.
    """
    bool_as = bool_ if dtype is None else uint8
    names = ExportNames(kernel, bool_as=bool_as)
    broadcast_names = ExportNames(kernel, bool_as=bool_as, suffix="_broadcast")

    def implementation(a: WasmArray, b: WasmArray) -> WasmArray:
        """Return the result for each pair of elements."""
        if a.dtype is not b.dtype:
            raise DTypeError(
                f"{kernel}: the operands are {a.dtype} and {b.dtype}; cast one of them, as in "
                f"x.astype('{a.dtype}')"
            )
        shape = a.shape
        if shape != b.shape:
            return compute_with_broadcasting(a, b, binary_layout(shape, b.shape))
        memory = a.memory
        size = a.size
        if size >= RELEASE_GIL_MIN_ELEMENTS and (
            isinstance(a, WasmStridedView) or isinstance(b, WasmStridedView)
        ):
            return compute_with_broadcasting(a, b, binary_layout(shape, shape))
        out = (
            WasmArray(memory, shape, a.dtype, size, a.capacity)
            if dtype is None
            else memory.empty(shape, dtype)
        )
        store = memory.store
        if size < RELEASE_GIL_MIN_ELEMENTS:
            store.exports_holding_gil[names[a.dtype]](a.address, b.address, out.address, size, 1, 1)
        elif is_done_in_one_call(store, size):
            store.exports_releasing_gil[names[a.dtype]](
                a.address, b.address, out.address, size, 1, 1
            )
        else:
            run_elementwise(a, names[a.dtype], size, ((a, 1), (b, 1), (out, 1)), 1, 1)
        return out

    def compute_with_broadcasting(
        a: WasmArray, b: WasmArray, pair_layout: BinaryLayout
    ) -> WasmArray:
        """Return the result for arrays of several shapes or strides, given how they are read."""
        memory = a.memory
        shape, order, read = pair_layout.shape, None, None
        starts = 0, 0, 0
        if pair_layout.size >= RELEASE_GIL_MIN_ELEMENTS:
            walks = broadcast_view(a, pair_layout.shape), broadcast_view(b, pair_layout.shape)
            layout = strided_binary_layout(shape, walks[0].strides, walks[1].strides)
            if layout is None:
                layout, order = memory_order_binary_layout(
                    shape, walks[0].strides, walks[1].strides
                )
                read = next((x.read for x in (a, b) if isinstance(x, WasmStridedView)), None)
            if layout is not None:  # else the elements of walks are copied
                pair_layout, (a, b) = layout, [strided_view.owner for strided_view in walks]
                starts = walks[0].start, walks[1].start, 0
        out = memory.empty(pair_layout.shape, dtype or a.dtype)
        if pair_layout.descriptor is None:
            steps = pair_layout.a_step, pair_layout.b_step
            if any(starts):
                a, b = (WasmSlice(x, (), start) for x, start in zip((a, b), starts, strict=False))
            places = ((a, steps[0]), (b, steps[1]), (out, 1))
            run_elementwise(a, names[a.dtype], pair_layout.size, places, *steps)
        elif pair_layout.size < RELEASE_GIL_MIN_ELEMENTS:
            if pair_layout.size:
                run = memory.store.exports_holding_gil[broadcast_names[a.dtype]]
                descriptor = memory.store.descriptor(pair_layout.descriptor)
                run(a.address, b.address, out.address, descriptor.address)
        else:
            arrays, strides = (a, b, out), (1, 2, 0)
            export, work = broadcast_names[a.dtype], pair_layout.size
            run_strided(
                a, export, pair_layout.descriptor, arrays, strides, work=work, start_elements=starts
            )
        if order is None or read is None:
            return out
        return WasmStridedView(
            StridedView(out, shape, strides_for_axis_order(shape, order), 0), read
        )

    return implementation


def declare_elementwise_exports(contracts: ModuleType) -> None:
    """Declare implementations of those elementwise kernels in a family's module that have exports.

    Such a kernel takes one line of C. Implementations that are in the table already stay.
    """
    # This imports wasmtime, which the rest of this file does not need.
    from plugrad_wasm.program import exported_kernels

    for name, kernel in vars(contracts).items():
        if (
            isinstance(kernel, Kernel)
            and name in exported_kernels()
            and kernel.name not in table.configs
        ):
            # The last dtype by name, not bool: it shows whether the result is always bool.
            operand = Shaped((), max(kernel.accepts & ARRAY_DTYPES, key=str))
            result = kernel.infer(*[operand] * len(kernel.inputs)).dtype
            factory = make_unary if len(kernel.inputs) == 1 else make_binary
            table.update({kernel: factory(name, dtype=None if result is operand.dtype else result)})


def swap_operands(implementation: BinaryImplementation) -> BinaryImplementation:
    """Return an implementation that calls another one with exchanged operands, such as a > b from b < a."""
    return lambda a, b: implementation(b, a)
