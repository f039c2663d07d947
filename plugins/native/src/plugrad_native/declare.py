"""Shared by the families: the table, C functions by dtype, NumPy's implementations, and factories of kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from plugrad.extend import KernelTable, broadcast as broadcast_shapes, count_elements
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
CFunction: TypeAlias = Callable[..., Any]
CFunctionsByDtype: TypeAlias = Mapping[np.dtype[Any], CFunction]

MAX_ELEMENTS: Final = 2**31
"""The kernels count elements in 32 bits; NumPy takes arrays with more."""
CACHE_LINE_FLOATS: Final = 16
"""The float32 in a cache line, which threads should not share.

The scratch memory of each part begins at one, as it may hold numbers of 8 bytes.
"""
MAX_COPIED_DESCRIPTOR_NUMBERS: Final = 256
"""The most numbers of a descriptor of which threads make copies."""
MAX_STRIDE_BYTES: Final = 2**31 - 1
"""The most bytes between two elements."""
COMPLEX64: Final = np.dtype(np.complex64)
FLOAT16: Final = np.dtype(np.float16)
FLOAT32: Final = np.dtype(np.float32)
FLOAT64: Final = np.dtype(np.float64)
INT32: Final = np.dtype(np.int32)
UINT64: Final = np.dtype(np.uint64)
FLOAT_DTYPES: Final = ("float32", "float64")
INTEGER_DTYPES: Final = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")

FLOAT32_LANES: Final = current_variant().VECTOR_BYTES // 4
"""The number of float32 in a vector."""

table: Final = KernelTable("cpu")
"""All implementations of this pack; the modules in `kernels` add them."""


def find_c_functions(kernel: str, *dtypes: str, suffix: str = "") -> CFunctionsByDtype:
    """Return a kernel's C functions by dtype, such as ``relu_float32``."""
    return {
        np.dtype(dtype): current_variant().kernel(f"{kernel}_{dtype}{suffix}") for dtype in dtypes
    }


class SmallResults(NamedTuple):
    """The functions by which C computes the small results of a kernel, and the form of their arguments."""

    layout: Layout
    functions: dict[tuple[np.dtype[Any], np.dtype[Any]], CompiledFunction | None]
    """By the dtypes of the inputs and of the result; None stands for NumPy's cast."""
    names: tuple[str, ...]
    """The attributes that the functions ask for: that which has the axis or the axes, and flags."""


SMALL_RESULTS_BY_KERNEL: Final[dict[str, SmallResults]] = {}
"""By the names of kernels; `plugrad_native.small_results` registers them as fast paths."""


def register_small_result_functions(
    kernel: Kernel[..., Any],
    layout: Layout,
    functions: Mapping[np.dtype[Any], CompiledFunction | None],
    *names: str,
    result: np.dtype[Any] | None = None,
) -> None:
    """Register C functions or NumPy loops that compute the small results of a kernel, in a third of Python's time.

    Args:
        kernel: the kernel.
        layout: what the functions take.
        functions: the functions by dtype, which come before those that are known.
        names: the attributes that the functions ask for: that which has the axis or the axes, and flags.
        result: the dtype of results; by default that of the inputs.
    """
    small = SMALL_RESULTS_BY_KERNEL.setdefault(kernel.name, SmallResults(layout, {}, names))
    for dtype, function in functions.items():
        small.functions[dtype, result or dtype] = function


def with_small_results_in_c(small: SmallResults, otherwise: Implementation) -> Implementation:
    """Return an implementation that computes small results in C, and calls `otherwise` for all other inputs."""
    variants = tuple([(given, run, result) for (given, result), run in small.functions.items()])
    is_elementwise = small.layout in ELEMENTWISE_LAYOUTS
    # from part_min_work on, threads may share the elements
    most = thread_pool.part_min_work if is_elementwise else UNTRACKED_MAX_ELEMENTS
    function = current_variant().make_small_result_function(
        small.layout, variants, most, otherwise, small.names, np.ufunc, empty
    )
    return mark_results_tracked(function)


def make_unary_kernel(
    kernel: Kernel[..., Any], functions: CFunctionsByDtype, result: np.dtype[Any] | None = None
) -> Implementation:
    """Return a unary elementwise implementation in C; the result has the input's dtype, or `result`."""
    numpy_function = numpy_implementation(kernel)

    @mark_results_tracked
    def implementation(x: Array) -> Array:
        dtype = x.dtype
        run = functions.get(dtype)
        size = x.size
        if run is None or size >= MAX_ELEMENTS:
            return track_allocation(numpy_function(x))
        if not x.flags.c_contiguous:
            if x.flags.f_contiguous:
                return implementation(x.T).T
            x = as_contiguous(x)
        out = empty(x.shape, result or dtype)
        if size < thread_pool.part_min_work:
            run(x, out, size)
        else:
            parallel_for(
                run, ((x, 1), (out, 1)), size, work=2 * size, multiple=PART_MULTIPLE_ELEMENTS
            )
        return out

    if isinstance(functions, dict):  # not those of bfloat16, which NumPy may not know yet
        register_small_result_functions(kernel, "each", functions, result=result)
    return implementation


def make_binary_kernel(
    kernel: Kernel[..., Any],
    functions: CFunctionsByDtype,
    broadcast: CFunctionsByDtype | None = None,
    result: np.dtype[Any] | None = None,
) -> Implementation:
    """Return a binary elementwise implementation in C, with broadcasting if there are functions for it.

    Those walk over the rows of operands that are not dense, too.
    """
    numpy_function = numpy_implementation(kernel)

    @mark_results_tracked
    def implementation(a: Array, b: Array) -> Array:
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
            if broadcast is None:
                a, b = as_contiguous(a), as_contiguous(b)
                is_dense = True
        if are_equal and is_dense:
            out = empty(shape, result or dtype)
            if size < thread_pool.part_min_work:
                run(a, b, out, size, 1, 1)
            else:
                places = (a, 1), (b, 1), (out, 1)
                parallel_for(run, places, size, 1, 1, work=size, multiple=PART_MULTIPLE_ELEMENTS)
            return out
        if broadcast is None:
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
            out = empty(shape, result or dtype)
            steps = int(a.size > 1), int(b.size > 1)
            places = (a, steps[0]), (b, steps[1]), (out, 1)
            parallel_for(run, places, size, *steps, work=size, multiple=PART_MULTIPLE_ELEMENTS)
            return out
        plan = plan_strided_loop(dtype.itemsize, (shape, a.strides), (b.shape, b.strides))
        if not 0 < plan.size < MAX_ELEMENTS:
            return track_allocation(numpy_function(a, b))
        out = empty(plan.shape, result or dtype)
        copies_a, copies_b = plan.is_copied_by_operand
        a, b = as_contiguous(a) if copies_a else a, as_contiguous(b) if copies_b else b
        if plan.size < thread_pool.part_min_work:
            broadcast[dtype](a, b, out, plan.c_descriptor)
        else:
            places = (a, 1), (b, 2), (out, 0)
            parallel_strided_loop(broadcast[dtype], places, plan.c_descriptor, work=plan.size)
        return out

    if isinstance(functions, dict):  # not those of bfloat16, which NumPy may not know yet
        register_small_result_functions(kernel, "each", functions, result=result)
    return implementation


C_MIN_BYTES: Final = 1024
"""The bytes of inputs from which on C may be faster than NumPy's own functions."""

UNTRACKED_MAX_ELEMENTS: Final = 1024
"""Arrays with fewer elements are too small to be tracked."""

ELEMENTWISE_LAYOUTS: Final = ("each", "pairs")
"""The layouts of kernels whose large results take the same loop as small ones."""

PART_MULTIPLE_ELEMENTS: Final = 256
"""The elements of which each part but the last is a multiple, so that results do not depend on the division."""


def parallel_for(
    run: CFunction,
    operands: Sequence[tuple[Array | None, int]],
    count: int,
    *attributes: object,
    work: int,
    multiple: int = 1,
    scratch: int = 0,
    per_thread: int = PARTS_PER_THREAD,
) -> None:
    """Call a C function for `count` independent items, in several threads if the work is long.

    Args:
        run: takes the arrays, the number of items, and attributes.
        operands: dense arrays, and how many of its elements belong to each item; 0 for one that all share.
        count: the number of items.
        attributes: what else the function takes.
        work: about how many steps it takes, in those of an addition.
        multiple: all parts but the last one have a multiple of so many items. The results do not depend on
            the number of threads if the function computes so many items at a time.
        scratch: the number of float32 in scratch memory, the last argument, which each part has for itself.
        per_thread: how many parts there are for each thread, 1 if every part takes time on its own.
    """
    parts = thread_pool.count_parts(work, count // multiple, per_thread)
    if parts == 1:
        last = (empty((scratch,), FLOAT32),) if scratch else ()
        run(*[array for array, _ in operands], count, *attributes, *last)
        return

    arrays = [array for array, _ in operands]
    steps = [0 if array is None else step * multiple for array, step in operands]
    scratch = -(-scratch // CACHE_LINE_FLOATS) * CACHE_LINE_FLOATS
    others = (empty((parts * scratch,), FLOAT32),) if scratch else ()
    thread_pool.run_in_parts(
        run,
        (*arrays, count, *attributes, *others),
        (*steps, *(0,) * (1 + len(attributes)), *((-scratch,) if scratch else ())),
        len(arrays),
        count,
        parts=parts,
        multiple=multiple,
    )


def parallel_strided_loop(
    run: CFunction,
    operands: Sequence[tuple[Array | None, int]],
    descriptor: Array,
    *attributes: object,
    work: int,
) -> None:
    """Call a C function that loops over strided axes, in several threads along the first axis if the work is long.

    Args:
        run: takes the arrays, the descriptor, and attributes.
        operands: arrays, and which strides in the descriptor are their own, counted from 1; 0 for one whose elements
            follow each other.
        descriptor: the number of axes, their sizes, and strides of any number of arrays.
        attributes: what else the function takes.
        work: about how many steps it takes, in those of an addition.
    """
    axes, count, *others = descriptor.tolist()
    multiple = PART_MULTIPLE_ELEMENTS if axes == 1 else 1
    parts = thread_pool.count_parts(work, count // multiple, PARTS_PER_THREAD)
    dense = count_elements(tuple(others[: axes - 1]))
    steps = [
        0 if x is None else others[axes * which - 1] if which else dense for x, which in operands
    ]
    arrays = [array for array, _ in operands]
    if parts == 1 or min(steps) < 0 or descriptor.size > MAX_COPIED_DESCRIPTOR_NUMBERS:
        run(*arrays, descriptor, *attributes)
        return
    thread_pool.run_in_parts(
        run,
        (*arrays, descriptor, *attributes),
        (*(step * multiple for step in steps), 0, *(0,) * len(attributes)),
        len(arrays),
        count,
        parts=parts,
        multiple=multiple,
    )


@lru_cache(maxsize=1024)
def describe_broadcast(shape: Shape, *operands: Shape) -> Array:
    """Return C's descriptor of a loop over a shape to which contiguous operands broadcast.

    It is the number of axes, their sizes, and the strides of each operand. Adjacent axes along which all
    operands move in equal steps are one axis.
    """
    return _describe_strided_loop(
        shape, [compute_broadcast_strides(shape, operand) for operand in operands]
    )


class StridedLoopPlan(NamedTuple):
    """A loop over the common shape of broadcast operands."""

    shape: Shape
    size: int
    c_descriptor: Array
    """What C takes."""
    is_copied_by_operand: tuple[bool, ...]
    """Which operands must be copied first, for the loop walks over rows of adjacent elements."""


@lru_cache(maxsize=1024)
def plan_strided_loop(item_size: int, *layouts: tuple[Shape, Shape]) -> StridedLoopPlan:
    """Plan a loop over operands with shapes and strides in bytes."""
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
    axes = [axis for axis, size in enumerate(shape) if size != 1]
    sizes = [shape[axis] for axis in axes] or [1]
    steps = [[each[axis] for axis in axes] or [0] for each in strides]
    for axis in range(len(sizes) - 1, 0, -1):
        if all(step[axis - 1] == step[axis] * sizes[axis] for step in steps):
            sizes[axis - 1] *= sizes.pop(axis)
            for step in steps:
                del step[axis - 1]
    return np.array([len(sizes), *sizes, *(n for step in steps for n in step)], np.int32)


def compute_broadcast_strides(shape: Shape, operand: Shape) -> list[int]:
    """Return the strides, in elements, of a contiguous operand broadcast to a shape."""
    strides: list[int] = []
    stride = 1
    for size in reversed((1,) * (len(shape) - len(operand)) + operand):
        strides.append(0 if size == 1 else stride)
        stride *= size
    return strides[::-1]


C_COPY_BY_ITEM_SIZE: Final = {
    size: current_variant().kernel(f"copy_{size}") for size in (1, 2, 4, 8)
}
"""Strided copies by the size of elements."""
C_COPY_MIN_BYTES: Final = 4096
"""The minimum bytes for which C transposes faster than NumPy."""
C_COPY_MAX_ROW_BYTES: Final = 128
"""The maximum bytes of whole rows that C copies faster than NumPy."""
COPY_COST_IN_ADDITIONS: Final = 2
"""How long it takes for an element, in additions."""


def as_contiguous(x: Array) -> Array:
    """Return a contiguous array."""
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
    """Plan the copy of an array with gaps between rows, or with reversed rows, as `plan_transposition` does.

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
    """Plan a copy that makes a transposed array contiguous.

    That is, an order of axes which makes the array dense, and the descriptor for ``copy_4`` in
    csrc/movement.c. None if there is no such order, or if NumPy copies as fast: long rows.
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
    for axis in range(len(sizes) - 1, 0, -1):
        if all(step[axis - 1] == step[axis] * sizes[axis] for step in steps):
            sizes[axis - 1] *= sizes.pop(axis)
            for step in steps:
                del step[axis - 1]
    has_rows = steps[0][-1] == 1
    if len(sizes) < 2 or (has_rows and sizes[-1] * item_size > C_COPY_MAX_ROW_BYTES):
        return None
    if not has_rows:  # the axis along which the source is contiguous comes before the last one
        unit = steps[0].index(1)
        for numbers in (sizes, *steps):
            numbers.insert(len(numbers) - 2, numbers.pop(unit))
    return tuple(order), np.array([len(sizes), *sizes, *steps[0], *steps[1]], np.int32)
