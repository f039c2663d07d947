"""Shared by the families: the table, C functions by dtype, NumPy's implementations, and factories of kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from plugrad.extend import (
    KernelNotFound,
    KernelTable,
    broadcast as broadcast_shapes,
    count_elements,
)
from plugrad_cpu.extend import (
    PARTS_PER_THREAD,
    copy_elements,
    empty,
    mark_results_tracked,
    numpy_implementation,
    thread_pool,
    track_allocation,
)
from plugrad_native.variants import CompiledFunction, Layout, current_variant

if TYPE_CHECKING:
    from plugrad.extend import Implementation, Kernel, Shape

Array: TypeAlias = NDArray[Any]
"""The type of arrays: NumPy arrays of any dtype."""
CFunction: TypeAlias = Callable[..., Any]
"""The type of a C function of the extension, as Python calls it."""
CFunctionsByDtype: TypeAlias = Mapping[np.dtype[Any], CFunction]
"""The type of the C functions of one kernel, by the dtype of their inputs."""

MAX_ELEMENTS: Final = 2**31
"""The kernels count elements in 32 bits; NumPy takes arrays with more."""
CACHE_LINE_FLOATS: Final = 16
"""The number of float32 in a cache line, which threads should not share.

The scratch memory of each part begins at one, as it may hold numbers of 8 bytes.
"""
MAX_COPIED_DESCRIPTOR_NUMBERS: Final = 256
"""The maximum length of a descriptor that is copied for each thread."""
MAX_STRIDE_BYTES: Final = 2**31 - 1
"""The maximum stride along an axis, in bytes, that C's descriptors can hold."""
BOOL: Final = np.dtype(np.bool_)
COMPLEX64: Final = np.dtype(np.complex64)
FLOAT16: Final = np.dtype(np.float16)
FLOAT32: Final = np.dtype(np.float32)
FLOAT64: Final = np.dtype(np.float64)
INT32: Final = np.dtype(np.int32)
UINT64: Final = np.dtype(np.uint64)
FLOAT_DTYPES: Final = ("float32", "float64")
"""The names of the real dtypes for which most kernels have C functions."""
INTEGER_DTYPES: Final = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
"""The names of all integer dtypes."""

FLOAT32_LANES: Final = current_variant().VECTOR_BYTES // 4
"""The number of float32 in a vector."""

table: Final = KernelTable("cpu")
"""All implementations of this pack; the modules in `kernels` add them."""


def find_numpy_implementation(kernel: Kernel[..., Any]) -> Implementation | None:
    """Return NumPy's implementation of a kernel, or None."""
    try:
        return numpy_implementation(kernel)
    except KernelNotFound:
        return None


def find_c_functions(kernel: str, *dtypes: str, suffix: str = "") -> CFunctionsByDtype:
    """Return C functions by dtype, by the names of a kernel and of dtypes: ``relu_float32`` and a suffix, if any."""
    return {
        np.dtype(dtype): current_variant().kernel(f"{kernel}_{dtype}{suffix}") for dtype in dtypes
    }


class SmallResults(NamedTuple):
    """The functions by which C computes the small results of a kernel, and the form of their arguments."""

    layout: Layout
    """The form of the functions' arguments, such as ``"pairs"`` for two arrays."""
    functions: dict[tuple[np.dtype[Any], np.dtype[Any]], CompiledFunction | None]
    """C functions by the dtypes of the inputs and of the result; None means NumPy's cast."""
    attribute_names: tuple[str, ...]
    """The kernel's attributes that the functions take: the one with the axis or the axes, and flags."""


SMALL_RESULTS_BY_KERNEL: Final[dict[str, SmallResults]] = {}
"""The small results of C by kernel name; `plugrad_native.small_results` registers them as fast paths."""


def register_small_result_functions(
    kernel: Kernel[..., Any],
    layout: Layout,
    functions: Mapping[np.dtype[Any], CompiledFunction | None],
    *attribute_names: str,
    result_dtype: np.dtype[Any] | None = None,
) -> None:
    """Register functions by dtype, with arguments in the form `layout`, that compute a kernel's small results in C.

    Later functions for a dtype replace earlier ones. `result_dtype` is by default the inputs' dtype.
    """
    small = SMALL_RESULTS_BY_KERNEL.setdefault(
        kernel.name, SmallResults(layout, {}, attribute_names)
    )
    for dtype, function in functions.items():
        small.functions[dtype, result_dtype or dtype] = function


def with_small_results_in_c(
    small_results: SmallResults, fallback: Implementation
) -> Implementation:
    """Return an implementation that computes small results in C, and calls `fallback` for all other inputs."""
    variants = tuple(
        [(given, run, result) for (given, result), run in small_results.functions.items()]
    )
    is_elementwise = small_results.layout in ELEMENTWISE_LAYOUTS
    # from part_min_work on, threads may share the elements
    most = thread_pool.part_min_work if is_elementwise else UNTRACKED_MAX_ELEMENTS
    function = current_variant().make_small_result_function(
        small_results.layout,
        variants,
        most,
        fallback,
        small_results.attribute_names,
        np.ufunc,
        empty,
    )
    return mark_results_tracked(function)


def make_unary_kernel(
    kernel: Kernel[..., Any],
    functions: CFunctionsByDtype,
    result_dtype: np.dtype[Any] | None = None,
) -> Implementation:
    """Return a unary elementwise implementation by C functions; `result_dtype` is by default the input's dtype."""
    numpy_function = numpy_implementation(kernel)

    @mark_results_tracked
    def implementation(x: Array) -> Array:
        """Return the result for each element of x."""
        dtype = x.dtype
        run = functions.get(dtype)
        size = x.size
        if run is None or size >= MAX_ELEMENTS:
            return track_allocation(numpy_function(x))
        if not x.flags.c_contiguous:
            if x.flags.f_contiguous:
                return implementation(x.T).T
            x = as_contiguous(x)
        out = empty(x.shape, result_dtype or dtype)
        if size < thread_pool.part_min_work:
            run(x, out, size)
        else:
            parallel_for(
                run, ((x, 1), (out, 1)), size, work=2 * size, part_size_multiple=PART_SIZE_MULTIPLE
            )
        return out

    if isinstance(functions, dict):  # not those of bfloat16, which NumPy may not know yet
        register_small_result_functions(kernel, "each", functions, result_dtype=result_dtype)
    return implementation


def make_binary_kernel(
    kernel: Kernel[..., Any],
    functions: CFunctionsByDtype,
    broadcast_functions: CFunctionsByDtype | None = None,
    result_dtype: np.dtype[Any] | None = None,
) -> Implementation:
    """Return a binary elementwise implementation by C functions; it broadcasts if there are `broadcast_functions`.

    These also loop over the rows of operands that are not dense.
    """
    numpy_function = numpy_implementation(kernel)

    @mark_results_tracked
    def implementation(a: Array, b: Array) -> Array:
        """Return the result for each pair of elements."""
        dtype = a.dtype
        run = functions.get(dtype)
        size = a.size
        if run is None or dtype != b.dtype or size >= MAX_ELEMENTS or b.size >= MAX_ELEMENTS:
            return track_allocation(numpy_function(a, b))
        shape = a.shape
        are_equal = shape == b.shape
        is_dense = a.flags.c_contiguous and b.flags.c_contiguous
        if are_equal and not is_dense:
            if a.flags.f_contiguous and b.flags.f_contiguous:
                return implementation(a.T, b.T).T
            if broadcast_functions is None:
                a, b = as_contiguous(a), as_contiguous(b)
                is_dense = True
        if are_equal and is_dense:
            out = empty(shape, result_dtype or dtype)
            if size < thread_pool.part_min_work:
                run(a, b, out, size, 1, 1)
            else:
                places = (a, 1), (b, 1), (out, 1)
                parallel_for(
                    run, places, size, 1, 1, work=size, part_size_multiple=PART_SIZE_MULTIPLE
                )
            return out
        if broadcast_functions is None:
            return track_allocation(numpy_function(a, b))
        if (
            not (is_dense or are_equal or (a.ndim and b.ndim))
            and (a if a.ndim else b).flags.f_contiguous
        ):
            return implementation(
                a.T, b.T
            ).T  # a number and an array whose axes lie in another order
        if is_dense and (a.size == 1 or b.size == 1):
            shape = broadcast_shapes(shape, b.shape)
            size = count_elements(shape)
            if not 0 < size < MAX_ELEMENTS:
                return track_allocation(numpy_function(a, b))
            out = empty(shape, result_dtype or dtype)
            steps = int(a.size > 1), int(b.size > 1)
            places = (a, steps[0]), (b, steps[1]), (out, 1)
            parallel_for(
                run, places, size, *steps, work=size, part_size_multiple=PART_SIZE_MULTIPLE
            )
            return out
        plan = plan_strided_loop(dtype.itemsize, (shape, a.strides), (b.shape, b.strides))
        if not 0 < plan.element_count < MAX_ELEMENTS:
            return track_allocation(numpy_function(a, b))
        out = empty(plan.shape, result_dtype or dtype)
        copies_a, copies_b = plan.is_copied_by_operand
        a, b = as_contiguous(a) if copies_a else a, as_contiguous(b) if copies_b else b
        if plan.element_count < thread_pool.part_min_work:
            broadcast_functions[dtype](a, b, out, plan.c_descriptor)
        else:
            places = (a, 1), (b, 2), (out, 0)
            parallel_strided_loop(
                broadcast_functions[dtype], places, plan.c_descriptor, work=plan.element_count
            )
        return out

    if isinstance(functions, dict):  # not those of bfloat16, which NumPy may not know yet
        register_small_result_functions(kernel, "each", functions, result_dtype=result_dtype)
    return implementation


C_MIN_BYTES: Final = 1024
"""The minimum bytes of inputs for which C may be faster than NumPy's own functions."""

UNTRACKED_MAX_ELEMENTS: Final = 1024
"""The number of elements below which the memory of an array is not tracked."""

ELEMENTWISE_LAYOUTS: Final = ("each", "pairs")
"""The argument layouts of elementwise kernels, whose small and large results take the same loop in C."""

PART_SIZE_MULTIPLE: Final = 256
"""The number of elements of which a thread's part has a multiple: results do not depend on the division."""


def parallel_for(
    c_function: CFunction,
    operands: Sequence[tuple[Array | None, int]],
    item_count: int,
    *attributes: object,
    work: int,
    part_size_multiple: int = 1,
    scratch_floats: int = 0,
    parts_per_thread: int = PARTS_PER_THREAD,
) -> None:
    """Call a C function for items of the operands, in several threads if `work`, the cost in additions, is large.

    The function takes arrays, the number of items, attributes, and scratch memory, if any, which each part has for
    itself. Each operand is a dense array with the number of elements that belong to one item: 0 if all items share it.
    All parts but the last have a multiple of `part_size_multiple` items. If the function computes so many items at a
    time, results do not depend on the number of threads. `parts_per_thread` is 1 if every part has a cost of its own.
    """
    parts = thread_pool.count_parts(work, item_count // part_size_multiple, parts_per_thread)
    if parts == 1:
        last = (empty((scratch_floats,), FLOAT32),) if scratch_floats else ()
        c_function(*[array for array, _ in operands], item_count, *attributes, *last)
        return

    arrays = [array for array, _ in operands]
    steps = [0 if array is None else step * part_size_multiple for array, step in operands]
    scratch_floats = -(-scratch_floats // CACHE_LINE_FLOATS) * CACHE_LINE_FLOATS
    others = (empty((parts * scratch_floats,), FLOAT32),) if scratch_floats else ()
    thread_pool.run_in_parts(
        c_function,
        (*arrays, item_count, *attributes, *others),
        (*steps, *(0,) * (1 + len(attributes)), *((-scratch_floats,) if scratch_floats else ())),
        len(arrays),
        item_count,
        parts=parts,
        part_size_multiple=part_size_multiple,
    )


def parallel_strided_loop(
    c_function: CFunction,
    operands: Sequence[tuple[Array | None, int]],
    descriptor: Array,
    *attributes: object,
    work: int,
) -> None:
    """Call a C function that loops over the operands' strided axes; threads share large `work`, in additions.

    The function takes arrays, the descriptor, and attributes. The descriptor is the number of axes, their sizes, and
    the strides of any number of arrays. Each operand is an array with the number of its strides, counted from 1, or 0
    if its elements follow each other.
    """
    axes, count, *others = descriptor.tolist()
    multiple = PART_SIZE_MULTIPLE if axes == 1 else 1
    parts = thread_pool.count_parts(work, count // multiple, PARTS_PER_THREAD)
    dense = count_elements(tuple(others[: axes - 1]))
    steps = [
        0 if x is None else others[axes * which - 1] if which else dense for x, which in operands
    ]
    arrays = [array for array, _ in operands]
    if parts == 1 or min(steps) < 0 or descriptor.size > MAX_COPIED_DESCRIPTOR_NUMBERS:
        c_function(*arrays, descriptor, *attributes)
        return
    thread_pool.run_in_parts(
        c_function,
        (*arrays, descriptor, *attributes),
        (*(step * multiple for step in steps), 0, *(0,) * len(attributes)),
        len(arrays),
        count,
        parts=parts,
        part_size_multiple=multiple,
    )


@lru_cache(maxsize=1024)
def describe_broadcast(shape: Shape, *operand_shapes: Shape) -> Array:
    """Return C's descriptor of a loop over a shape to which contiguous operands are broadcast.

    It is the number of axes, their sizes, and the strides of each operand. Adjacent axes along which all
    operands move in equal steps are one axis.
    """
    return _describe_strided_loop(
        shape, [compute_broadcast_strides(shape, operand) for operand in operand_shapes]
    )


def describe_strided_operand(
    shape: Shape, operand_shape: Shape, operand_strides: Sequence[int]
) -> Array:
    """Return C's descriptor of a loop over a shape to which an operand with strides, in elements, is broadcast."""
    moved = [0 if size == 1 else n for size, n in zip(operand_shape, operand_strides, strict=True)]
    return _describe_strided_loop(shape, [[0] * (len(shape) - len(moved)) + moved])


class StridedLoopPlan(NamedTuple):
    """A loop over the common shape of broadcast operands."""

    shape: Shape
    element_count: int
    c_descriptor: Array
    """The number of axes, their sizes, and the strides of each operand, as C functions take them."""
    is_copied_by_operand: tuple[bool, ...]
    """Whether each operand must be copied first: the loop runs over rows of adjacent elements."""


@lru_cache(maxsize=1024)
def plan_strided_loop(item_size: int, *layouts: tuple[Shape, Shape]) -> StridedLoopPlan:
    """Plan a loop over operands with elements of `item_size` bytes, given their shapes and strides in bytes."""
    shape = broadcast_shapes(*[sizes for sizes, _ in layouts])
    moved = [
        [0] * (len(shape) - len(sizes))
        + [0 if size == 1 else n for size, n in zip(sizes, strides, strict=True)]
        for sizes, strides in layouts
    ]
    last = max((axis for axis, size in enumerate(shape) if size != 1), default=0)
    is_repeated = not any(each[last] for each in moved if shape)  # by all operands
    copied = [
        (bool(shape) and each[last] not in ((item_size,) if is_repeated else (0, item_size)))
        or any(step % item_size or abs(step) > MAX_STRIDE_BYTES for step in each)
        for each in moved
    ]
    steps = [
        compute_broadcast_strides(shape, sizes) if is_copied else [n // item_size for n in each]
        for each, is_copied, (sizes, _) in zip(moved, copied, layouts, strict=True)
    ]
    return StridedLoopPlan(
        shape, count_elements(shape), _describe_strided_loop(shape, steps), tuple(copied)
    )


def _describe_strided_loop(shape: Shape, strides: Sequence[list[int]]) -> Array:
    """Return C's descriptor of a loop over a shape, given each operand's strides in elements."""
    axes = [axis for axis, size in enumerate(shape) if size != 1]
    sizes = [shape[axis] for axis in axes] or [1]
    steps = [[each[axis] for axis in axes] or [0] for each in strides]
    merge_axes(sizes, steps)
    return np.array([len(sizes), *sizes, *(n for step in steps for n in step)], np.int32)


def merge_axes(sizes: list[int], strides: Sequence[list[int]], min_axes: int = 1) -> None:
    """Merge adjacent axes, in lists of sizes and strides, along which all strides agree; keep at least `min_axes`."""
    for axis in range(len(sizes) - 1, 0, -1):
        if len(sizes) > min_axes and all(n[axis - 1] == n[axis] * sizes[axis] for n in strides):
            sizes[axis - 1] *= sizes.pop(axis)
            for each in strides:
                del each[axis - 1]


def compute_broadcast_strides(shape: Shape, operand_shape: Shape) -> list[int]:
    """Return the strides, in elements, of a contiguous operand broadcast to a shape."""
    strides: list[int] = []
    stride = 1
    for size in reversed((1,) * (len(shape) - len(operand_shape)) + operand_shape):
        strides.append(0 if size == 1 else stride)
        stride *= size
    return strides[::-1]


C_COPY_BY_ITEM_SIZE: Final = {
    size: current_variant().kernel(f"copy_{size}") for size in (1, 2, 4, 8)
}
"""The C functions of strided copies, by the bytes of an element."""
C_COPY_MIN_BYTES: Final = 4096
"""The minimum bytes of an array that C transposes faster than NumPy."""
C_COPY_MAX_ROW_BYTES: Final = 128
"""The maximum bytes of a row for which C copies rows faster than NumPy."""
COPY_COST_IN_ADDITIONS: Final = 2
"""The cost of copying an element, in additions."""


def as_contiguous(x: Array) -> Array:
    """Return the array if it is contiguous in C order, else a contiguous copy."""
    if x.flags.c_contiguous:
        return x
    y = empty(x.shape, x.dtype)
    turned = None
    if (
        x.nbytes >= C_COPY_MIN_BYTES
        and x.size < MAX_ELEMENTS
        and not x.dtype.hasobject
        and x.itemsize in C_COPY_BY_ITEM_SIZE
    ):
        layout = x.shape, x.strides, x.itemsize
        turned = plan_transposition(*layout)
        is_shared = thread_pool.count_parts(COPY_COST_IN_ADDITIONS * x.size, x.size) > 1
        has_short_rows = x.shape[-1] * x.itemsize <= C_COPY_MAX_ROW_BYTES
        if turned is None and (is_shared or has_short_rows or x.strides[-1] < 0):
            turned = plan_copy_of_rows(*layout)
    if turned is None:
        copy_elements(x, y)
    else:
        order, descriptor = turned
        places = (x.transpose(order), 1), (y, 2)
        parallel_strided_loop(
            C_COPY_BY_ITEM_SIZE[x.itemsize],
            places,
            descriptor,
            work=COPY_COST_IN_ADDITIONS * x.size,
        )
    return y


@lru_cache(maxsize=1024)
def plan_copy_of_rows(shape: Shape, strides: Shape, item_size: int) -> tuple[Shape, Array] | None:
    """Return the axis order and C's descriptor of a contiguous copy of an array with gaps or reversed rows.

    None if the elements of a row are not adjacent.
    """
    axes = [axis for axis, size in enumerate(shape) if size != 1]
    steps = [strides[axis] for axis in axes]
    if (
        not steps
        or abs(steps[-1]) != item_size
        or any(step % item_size or abs(step) > MAX_STRIDE_BYTES for step in steps)
    ):
        return None
    sizes, targets = [shape[axis] for axis in axes], compute_broadcast_strides(shape, shape)
    lead = [] if len(axes) > 1 else [0]  # C wants two axes
    numbers = [*(1 for _ in lead), *sizes, *lead, *(step // item_size for step in steps)]
    numbers += [*lead, *(targets[axis] for axis in axes)]
    return tuple(range(len(shape))), np.array([len(numbers) // 3, *numbers], np.int32)


@lru_cache(maxsize=1024)
def plan_transposition(shape: Shape, strides: Shape, item_size: int) -> tuple[Shape, Array] | None:
    """Return the axis order and C's descriptor of a copy that makes a transposed array contiguous.

    The order makes the array dense. The descriptor is that of ``copy_4`` in csrc/movement.c. None if there is no such
    order, or if rows are long, which NumPy copies as fast.
    """
    order = sorted(range(len(shape)), key=lambda axis: -strides[axis])
    dense_step = item_size
    for axis in reversed(order):
        if shape[axis] != 1 and strides[axis] != dense_step:
            return None
        dense_step *= shape[axis]
    axes = [axis for axis, size in enumerate(shape) if size != 1]
    sizes = [shape[axis] for axis in axes]
    targets = compute_broadcast_strides(shape, shape)
    steps = [[strides[axis] // item_size for axis in axes], [targets[axis] for axis in axes]]
    merge_axes(sizes, steps)
    has_rows = steps[0][-1] == 1
    if len(sizes) < 2 or (has_rows and sizes[-1] * item_size > C_COPY_MAX_ROW_BYTES):
        return None
    if not has_rows:  # the axis along which the source is contiguous comes before the last one
        unit = steps[0].index(1)
        for numbers in (sizes, *steps):
            numbers.insert(len(numbers) - 2, numbers.pop(unit))
    return tuple(order), np.array([len(sizes), *sizes, *steps[0], *steps[1]], np.int32)
