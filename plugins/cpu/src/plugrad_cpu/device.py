"""The backend ``"cpu"``: NumPy arrays, and the tracking of their memory."""

from __future__ import annotations

import platform
import warnings
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

import numpy as np

from plugrad.extend import (
    DATA_MOVEMENT_KERNELS,
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
    Probe,
    compute_in_float32,
    known_bfloat16,
)
from plugrad_cpu.declare import are_results_tracked, with_fast_path
from plugrad_cpu.memory import TRACKED_MIN_BYTES, Array, empty, empty_like, pool
from plugrad_cpu.sharing import fill_in_threads
from plugrad_cpu.threads import thread_count, thread_pool

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeGuard

    from plugrad.extend import KernelConfig, Shape

ALL_DTYPES: Final = frozenset(DTYPES)
"""The dtypes of arrays on this backend."""
OUTER_PRODUCT_MIN_BYTES: Final = 512
"""The minimum bytes of a column and a row whose elementwise result may be large."""
BROADCAST_MIN_ELEMENTS: Final = 1 << 11
"""The minimum elements of a result that a kernel pack broadcasts faster than NumPy."""
SHORT_ROW_MAX_ELEMENTS: Final = 16
"""The maximum elements of a last axis that is too short for NumPy's loops to be fast."""
NUMPY_FLOAT32: Final = np.dtype(np.float32)
"""NumPy's dtype of float32."""
IGNORED_WARNINGS: Final = r"(divide by zero|invalid value|overflow|underflow) encountered"
"""A regular expression for the messages of NumPy's warnings that are ignored, as results may be NaN or infinite."""


@lru_cache(maxsize=2)
def _all_dtypes_with(more_dtypes: frozenset[DType]) -> frozenset[DType]:
    """Return a cached set of all dtypes and `more_dtypes`; making it takes as long as a small kernel."""
    return ALL_DTYPES | more_dtypes


class Cpu(Backend):
    """The backend ``"cpu"``. NumPy allocates the arrays, so the backend tracks them instead of allocating them."""

    name: ClassVar[str] = "cpu"
    """The name of the backend."""

    def probe(self) -> Probe:
        """Return that the backend can start, and its one device."""
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
        warnings.filterwarnings(
            "ignore", IGNORED_WARNINGS, RuntimeWarning, r"plugrad(_cpu|_native)?\."
        )
        thread_pool.count = thread_count(self.options)
        self.device = "0"
        return table

    def dtypes(self) -> frozenset[DType]:
        """Return the set of all dtypes."""
        others = known_bfloat16()
        return _all_dtypes_with(others) if others else ALL_DTYPES

    def from_numpy(self, array: Array) -> Array:
        """Return a copy of the array, whose memory is tracked."""
        pool.make_room(array.nbytes)
        if array.nbytes < TRACKED_MIN_BYTES or array.dtype.hasobject:
            return array.copy()
        copy = empty(array.shape, array.dtype)
        copy[...] = array
        return copy

    def to_numpy(self, array: Array) -> Array:
        """Return a view of the array: tensors do not change, and the view keeps the memory alive."""
        return np.asarray(array).view()

    def synchronize(self) -> None:
        """Return at once: NumPy has finished when it returns."""

    def close(self) -> None:
        """Return at once: there is nothing to release."""

    # --- memory ----------------------------------------------------------------------------------

    def wrap_implementation(self, kernel_name: str, function: Implementation) -> Implementation:
        """Return an implementation that first checks the memory limit, if there is one, and tracks its results."""
        contract = KERNELS.get(kernel_name)
        return _with_memory_limit(_with_memory_tracking(function, contract), contract)

    def join_implementations(
        self, config: KernelConfig, following: Implementation
    ) -> Implementation:
        """Return an implementation that runs that of `config` for the inputs it is declared for, else `following`."""
        contract = KERNELS.get(config.kernel_name)
        if not _is_elementwise_without_attributes(contract) or len(contract.inputs) > 2:
            return super().join_implementations(config, following)
        return _with_memory_limit(_choose_by_inputs(config, following, contract), contract)

    def complete_implementation(
        self, configs: Sequence[KernelConfig], function: Implementation
    ) -> Implementation:
        """Return an implementation that tries a pack's fast path before `function`, unless there is a memory limit."""
        function = super().complete_implementation(configs, function)
        if pool.limit is not None:
            return function
        return with_fast_path(self.kernels.values(), configs, function)

    def with_bfloat16(self, kernel_name: str, function: Implementation) -> Implementation:
        """Return an implementation that also accepts bfloat16, which it computes in float32."""
        contract = KERNELS.get(kernel_name)
        if contract is None or kernel_name in DATA_MOVEMENT_KERNELS:
            return function
        return compute_in_float32(contract, function, self._cast, known_bfloat16())

    def _cast(self, x: Array, *, dtype: DType) -> Array:
        """Return an array in another dtype, by the kernel `Cast`."""
        return self.functions["Cast"](x, dtype=dtype)

    def memory(self) -> Memory:
        """Return the buffers that arrays use now, and their bytes now and at the peak."""
        return pool.memory()

    def set_memory_limit(self, limit: int | None) -> None:
        """Make allocations beyond `limit` bytes raise `OutOfMemory`."""
        pool.limit = limit
        self.functions.clear()  # they are prepared anew, with or without asking for room


def _is_elementwise_without_attributes(
    contract: Kernel[..., Any] | None,
) -> TypeGuard[Kernel[..., Any]]:
    """Return whether a kernel is elementwise and has no attributes."""
    return contract is not None and contract.is_elementwise and not contract.attributes


def _with_memory_limit(
    function: Implementation, contract: Kernel[..., Any] | None
) -> Implementation:
    """Return an implementation that raises before it calls `function` if the result would exceed the memory limit."""
    if pool.limit is None:
        return function

    def check_limit(*arrays: Any, **attrs: Any) -> Any:
        """Raise if the result would exceed the limit, else return it."""
        if contract is not None and not contract.dynamic_shape:
            given = arrays if contract.inputs else ()
            pool.make_room(_output_nbytes(contract.infer(*given, **attrs)))
        return function(*arrays, **attrs)

    return check_limit


def _with_memory_tracking(
    function: Implementation, contract: Kernel[..., Any] | None
) -> Implementation:
    """Return an implementation that calls `function` and counts the memory of its results."""
    if are_results_tracked(function):
        return function

    def track(*arrays: Any, **attrs: Any) -> Any:
        """Return the result of the function, counted if it is large."""
        result = function(*arrays, **attrs)
        if type(result) in SEQUENCE_TYPES or result.nbytes >= TRACKED_MIN_BYTES:
            _track_results(result)
        return result

    def track_unary(x: Any, **attrs: Any) -> Any:
        """Return the result of a function of one array, counted if it is large."""
        result = function(x, **attrs)
        if type(result) in SEQUENCE_TYPES or result.nbytes >= TRACKED_MIN_BYTES:
            _track_results(result)
        return result

    if contract is not None and contract.attributes and not contract.takes_list:
        return track if len(contract.inputs) > 1 else track_unary
    if not _is_elementwise_without_attributes(contract):
        return track
    large = _write_into_pool(function, contract) if _has_out_parameter(function) else track
    if len(contract.inputs) == 1:

        def unary(x: Array) -> Any:
            """Return the result of an elementwise function of one array, counted if it is large."""
            return function(x) if x.nbytes < TRACKED_MIN_BYTES else large(x)

        return unary
    if len(contract.inputs) == 2:

        def binary(a: Array, b: Array) -> Any:
            """Return the result of an elementwise function of two arrays, counted if it is large."""
            if a.nbytes >= TRACKED_MIN_BYTES or b.nbytes >= TRACKED_MIN_BYTES:
                return large(a, b)
            result = function(a, b)
            if result.nbytes >= TRACKED_MIN_BYTES:  # a column and a row
                pool.count(result)
            return result

        return binary
    return track


SEQUENCE_TYPES: Final = frozenset({list, tuple})
"""The types in which an implementation returns several results."""


def _track_results(result: Any) -> None:
    """Count the memory of the result, or the several results, of a kernel."""
    for array in cast("list[Array]", result if type(result) in SEQUENCE_TYPES else [result]):
        if array.nbytes >= TRACKED_MIN_BYTES:
            pool.count(array)


def _choose_by_inputs(
    config: KernelConfig, following: Implementation, contract: Kernel[..., Any]
) -> Implementation:
    """Return a function that runs an elementwise implementation for the inputs it is for, else `following`.

    For small arrays, it costs what a kernel costs that has one implementation.
    """
    meant = _with_memory_tracking(config.kernel_func, contract)
    others = _with_memory_tracking(following, contract)
    min_bytes = config.min_bytes
    few = min(min_bytes, TRACKED_MIN_BYTES)
    fewest = min(min_bytes, OUTER_PRODUCT_MIN_BYTES)
    dtypes = frozenset(d.numpy for d in DTYPES if config.dtypes is None or d in config.dtypes)
    broadcast_dtypes = frozenset(d.numpy for d in config.broadcast_dtypes)
    usual = None if NUMPY_FLOAT32 in dtypes else NUMPY_FLOAT32
    """NumPy's float32 if it is left to `following`; an `is` test is faster than a look-up."""
    if len(contract.inputs) == 1:

        def unary(x: Array) -> Any:
            """Return the result for one array, by the implementation for its dtype and size."""
            size = x.nbytes
            if size < few:
                return following(x)
            dtype = x.dtype
            if dtype is not usual and dtype in dtypes and size >= min_bytes:
                return meant(x)
            return following(x) if size < TRACKED_MIN_BYTES else others(x)

        return unary

    def is_broadcast_or_strided(a: Array, b: Array) -> bool:
        """Return whether an operand is broadcast or has gaps, and a pack can go over both row by row."""
        if a.dtype not in broadcast_dtypes:
            return False
        if a.flags.c_contiguous and b.flags.c_contiguous:
            return (
                a.size != b.size
                and a.size > 1 < b.size
                and (a.nbytes >= TRACKED_MIN_BYTES or b.nbytes >= TRACKED_MIN_BYTES)
            )
        return _has_contiguous_rows(a) and _has_contiguous_rows(b)

    def binary(a: Array, b: Array) -> Any:
        """Return the result for two arrays, by the implementation for their dtype and sizes."""
        if (both := a.nbytes + b.nbytes) < fewest:
            return following(a, b)
        if both >= few:
            dtype = a.dtype
            if dtype is not usual and dtype in dtypes and both >= min_bytes:
                return meant(a, b)
            if both >= TRACKED_MIN_BYTES:
                is_meant = broadcast_dtypes and both >= min_bytes and is_broadcast_or_strided(a, b)
                return (meant if is_meant else others)(a, b)
            if (
                broadcast_dtypes
                and both >= min_bytes
                and (shape := a.shape) != (other := b.shape)
                and dtype in broadcast_dtypes
                and _is_broadcast_slow_in_numpy(shape, other)
            ):
                return meant(a, b)
        result = following(a, b)
        if result.nbytes >= TRACKED_MIN_BYTES:  # a column and a row
            pool.count(result)
        return result

    return binary


def _has_contiguous_rows(x: Array) -> bool:
    """Return whether the elements along the last axis are adjacent, forwards or backwards, or there is one."""
    shape = x.shape
    return not shape or shape[-1] == 1 or abs(x.strides[-1]) == x.itemsize


@lru_cache(maxsize=1024)
def _is_broadcast_slow_in_numpy(a_shape: Shape, b_shape: Shape) -> bool:
    """Return whether NumPy's loops over the result of two broadcast arrays are short, or fetch new memory."""
    rank = max(len(a_shape), len(b_shape))
    a_shape, b_shape = (
        (1,) * (rank - len(a_shape)) + a_shape,
        (1,) * (rank - len(b_shape)) + b_shape,
    )
    shape = tuple(map(max, a_shape, b_shape))
    is_larger = shape not in (a_shape, b_shape)
    is_short = a_shape[-1] == b_shape[-1] <= SHORT_ROW_MAX_ELEMENTS
    return (is_larger or is_short) and prod(shape) >= BROADCAST_MIN_ELEMENTS


def _has_out_parameter(function: Implementation) -> bool:
    """Return whether a function can write its result to a parameter ``out``, as NumPy's ufuncs do."""
    code = getattr(function, "__code__", None)
    return isinstance(function, np.ufunc) or (
        code is not None and "out" in code.co_varnames[: code.co_argcount]
    )


def _write_into_pool(function: Implementation, contract: Kernel[..., Any]) -> Implementation:
    """Return an implementation that writes the result of `function` to an array from the memory pool."""
    is_usual = len(contract.inputs) <= 2
    dtypes: dict[Any, np.dtype[Any]] = {}
    """The dtypes of results by those of inputs."""

    def compute_into_pool(*arrays: Array) -> Any:
        """Return the result in memory of the pool."""
        first, last = arrays[0], arrays[-1]
        kind = first.dtype
        if (
            is_usual
            and kind is last.dtype
            and (first.shape == last.shape or not first.ndim or not last.ndim)
            and first.flags.c_contiguous
            and last.flags.c_contiguous
        ):
            try:
                result = dtypes[kind]
            except KeyError:
                result = dtypes[kind] = contract.infer(*arrays).dtype.numpy
            y = empty(first.shape or last.shape, result)
            if y.nbytes < thread_pool.part_min_work:
                return function(*arrays, out=y)
            fill_in_threads(function, arrays, y)
            return y
        shape, dtype = contract.infer(*arrays)
        like = next((x for x in arrays if x.shape == shape), None)
        y = empty(shape, dtype.numpy) if like is None else empty_like(like, dtype.numpy)
        if (
            like is not None
            and 0 in like.strides
            and (few := _drop_broadcast_repetitions(arrays, shape))
        ):
            y[...] = function(*few)  # to copy rows takes half the time of computing them again
            return y
        fill_in_threads(function, arrays, y)
        return y

    return compute_into_pool


def _drop_broadcast_repetitions(arrays: Sequence[Array], shape: Shape) -> list[Array] | None:
    """Return views of arrays, broadcast to `shape`, without the repetitions that all share; None if there are none."""
    repeated = [
        size > 1 and all(x.size == 1 or (x.shape == shape and not x.strides[axis]) for x in arrays)
        for axis, size in enumerate(shape)
    ]
    if not any(repeated):
        return None
    block = tuple([slice(1) if once else slice(None) for once in repeated])
    return [x if x.size == 1 else x[block] for x in arrays]


def _output_nbytes(specs: Any) -> int:
    """Return the bytes of one output or several, given shapes and dtypes."""
    outputs = [specs] if hasattr(specs, "dtype") else specs
    return sum(prod(output.shape) * output.dtype.itemsize for output in outputs)
