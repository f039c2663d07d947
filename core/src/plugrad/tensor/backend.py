"""The interface of a backend, which owns the arrays on one kind of hardware and the kernels that work on them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, TypeAlias, cast

import numpy as np

from plugrad.errors import (
    BackendFailed,
    DeviceLost,
    DisposedTensor,
    DTypeError,
    OutOfMemory,
    PlugradError,
    UnsupportedDtype,
    describe_exception,
    short_repr,
)
from plugrad.importing import import_lazily
from plugrad.interruptions import is_interruption, was_raised_by_signal_handler
from plugrad.tensor.choice import choose_implementation, dispatch_on_dtype
from plugrad.tensor.effects import active_host_log
from plugrad.types.arguments import explain_wrong_fields
from plugrad.types.dtype import BFLOAT16, as_dtype, known_bfloat16

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from plugrad.types.dtype import DType
    from plugrad.types.specs import Shape, Shaped

HOST: Final = (1, 0)
"""The host's memory as DLPack's device type and device number."""
Implementation: TypeAlias = Callable[..., Any]
"""A function that computes a kernel on a backend's arrays, whose type only the backend knows."""


@explain_wrong_fields
class DeviceInfo(NamedTuple):
    """One device that a backend can open; `name` is the part after the colon in ``"webgpu:0"``."""

    name: str
    description: str
    is_software: bool = False


@explain_wrong_fields
class Probe(NamedTuple):
    """Whether a backend can start on this machine, and the reason if it cannot."""

    ok: bool
    reason: str = ""
    devices: tuple[DeviceInfo, ...] = ()


@explain_wrong_fields
class Memory(NamedTuple):
    """Memory in use on one backend, in bytes, and the number of buffers that hold it."""

    buffers: int
    bytes: int
    peak: int
    """The largest number of bytes that were in use at one time."""
    limit: int | None = None
    """The largest number of bytes that may be in use."""
    details: Mapping[str, int] = MappingProxyType({})
    """Further numbers of the backend by name."""


@explain_wrong_fields
class KernelConfig(NamedTuple):
    """One implementation: which kernel, for which backend, and the function.

    plugrad calls `setup_func` with the backend when it is ready, and `dispose_func` when it is closed.
    With `on_host`, the function takes and returns NumPy arrays; see `KernelTable.update`.

    An implementation may be meant for some inputs only, as one that is faster than the backend's own for
    large arrays of float32. Then the next implementation of the kernel runs for all others: that of another
    pack, or the backend's own. Where there is none, `min_bytes` does not count, and other dtypes raise
    `UnsupportedDtype`.
    """

    kernel_name: str
    backend_name: str
    kernel_func: Implementation
    setup_func: Callable[[Any], None] | None = None
    dispose_func: Callable[[Any], None] | None = None
    on_host: bool = False
    """Whether the function takes and returns NumPy arrays."""
    dtypes: frozenset[DType] | None = None
    """The dtypes of the first input for which the implementation is meant; None for all."""
    broadcast_dtypes: frozenset[DType] = frozenset()
    """More dtypes of the first input for which the implementation is meant if inputs of different sizes are broadcast.

    No input may have only one element, and the largest must have 128 KiB or more.
    """
    min_bytes: int = 0
    """The smallest number of bytes of all inputs together for which the implementation is meant."""
    bfloat16_func: Implementation | None = None
    """The function for arrays of bfloat16; without it, a backend may compute in float32. See `with_bfloat16`."""

    @property
    def conditions(self) -> tuple[frozenset[DType] | None, frozenset[DType], int]:
        """The fields that restrict the inputs for which the implementation is meant."""
        return self.dtypes, self.broadcast_dtypes, self.min_bytes

    @property
    def is_conditional(self) -> bool:
        """Whether the implementation is meant only for some inputs."""
        return self.dtypes is not None or self.min_bytes > 0


KernelTables: TypeAlias = dict[str, dict[str, KernelConfig]]
"""The implementations that a device has, by the qualified name of the plugin that brings them, then by kernel name."""


class Backend(ABC):
    """Owns arrays on one device. A plugin's entry point names a function without arguments that returns one.

    A *backend array* is any object with a `shape` and a `dtype`; core never looks inside. Each
    object is one opened device; for a second device, core calls the entry point again.
    """

    name: ClassVar[str]
    is_asynchronous: ClassVar[bool] = False
    """Whether kernels return before their work is done, and other threads may run while `to_numpy` waits for it."""
    device: str = ""
    """The name of the opened device."""
    distribution: str = ""
    """The installed distribution that brings the backend; core sets it."""
    is_closed: bool = False
    lost: str = ""
    """Why the device is lost, or "". Core sets it when a kernel or a method of the backend raises `DeviceLost`."""
    options: Mapping[str, Any] = MappingProxyType({})
    """The backend's own settings, by name; core sets them before it uses anything else."""
    kernels: KernelTables
    """The implementations of each kernel on this device; core sets it when the backend is opened.

    It has a table for each kernel pack, in the order in which they take effect, and last the kernels that `open`
    returned. What the program registers comes before all of them.
    """
    compilers: Mapping[str, Callable[[Any], Callable[..., list[Any]] | None]] = MappingProxyType({})
    """The functions that kernel packs offer in place of `compile`, by their table's name in `kernels`; core sets it."""
    functions: dict[str, Implementation]
    """The functions that the engine calls, by kernel name; core sets it when the backend is opened.

    An entry is added when its kernel is first called, so the mapping may be cleared at any time.
    """

    constants: dict[Any, Any]
    """A cache of single-value arrays, by value and dtype; core sets it, like `functions`."""

    @abstractmethod
    def probe(self) -> Probe:
        """Return whether the backend can start here; never raise, never abort the process."""

    def devices(self) -> tuple[DeviceInfo, ...]:
        """Return the devices that can be opened."""
        return self.probe().devices

    @abstractmethod
    def open(self, device: str) -> Iterable[KernelConfig]:
        """Make a device ready, the best one for ``""``; set `device` to its name, and return its kernels.

        Raises:
            BackendUnavailable: it cannot start; the message says why and what to do.
        """

    @abstractmethod
    def dtypes(self) -> frozenset[DType]:
        """Return the dtypes that the opened device stores."""

    @abstractmethod
    def from_numpy(self, array: NDArray[Any]) -> Any:
        """Return a new backend array with a copy of a C-contiguous host array."""

    @abstractmethod
    def to_numpy(self, array: Any) -> NDArray[Any]:
        """Return the values on the host, waiting for them if they are still being computed."""

    def read(self, arrays: Iterable[Any]) -> Generator[NDArray[Any]]:
        """Yield the values of arrays of one numeric dtype as flat host arrays, one after another.

        By default, these are what `to_numpy` returns. A backend may yield arrays in parts, or some of them
        as one part, and let the device bring the next part while the program uses this one. A part holds
        its values until the next one is asked for. `plugrad.save` writes files so.
        """
        for array in arrays:
            yield self.to_numpy(array).reshape(-1)

    @abstractmethod
    def synchronize(self) -> None:
        """Wait until all submitted work is done."""

    @abstractmethod
    def memory(self) -> Memory:
        """Return the memory that the backend's arrays use."""

    @abstractmethod
    def set_memory_limit(self, limit: int | None) -> None:
        """Make allocations beyond `limit` bytes raise `OutOfMemory`; None removes the limit."""

    @abstractmethod
    def close(self) -> None:
        """Release the device. The object is not used again."""

    def host_value(self, function: Callable[[], Any], shape: Shape, dtype: DType) -> Any:
        """Return an array of the numbers, of this shape and dtype, that a function computes on the host.

        A backend that records calls instead of running them keeps the function, so that each run computes the
        value anew.
        """
        return copy_to_backend_array(compute_host_value(function, shape, dtype), self)

    # --- what a backend may offer besides ---------------------------------------------------------

    def compile(self, graph: Any) -> Callable[..., list[Any]] | None:
        """Return a function that runs a `plugrad.graph.graph.Graph`, or None to have its calls replayed.

        The function takes the arrays of the arguments and then those of the variables. It returns a list of arrays:
        the results, and then what the variables become.
        """
        return None

    def fuse_calls(self, graph: Any) -> Any:
        """Return a graph with the same bits in fewer calls of kernels, or the graph itself, as by default.

        A replay runs it in the place of a `plugrad.graph.graph.Graph`, unless the setting `check_finite` looks at each
        call. `plugrad.extend.fuse_epilogues` joins products and convolutions to what follows them.
        """
        return graph

    def specialize(
        self,
        kernel_name: str,
        function: Implementation,
        specs: Sequence[Shaped | None],
        attrs: Mapping[str, Any],
        free: Sequence[int],
    ) -> Implementation | None:
        """Return a version of `function` for fixed shapes and dtypes that returns the same bits, or None.

        A replay of a graph calls it in the place of `function` as long as this is what the engine would call, so
        that what follows from shapes, dtypes and attributes is decided once and not in each call.

        Args:
            kernel_name: the kernel.
            function: what the engine calls for it: the implementation of this backend, or something else.
            specs: the shapes and dtypes of the inputs; None is an optional one that is absent.
            attrs: the attributes, which the result does not take.
            free: the positions of inputs that earlier calls have made and no later one reads. A result may lie in their
                memory, if no more than the caller's variable and the parameter refer to the array.

        Returns:
            None if there is nothing to gain, as by default. It raises nothing.
        """
        return None

    def dlpack_device(self) -> tuple[int, int] | None:
        """Return the DLPack type and number of the device, or None if arrays are exchanged on the host only.

        A backend that returns a pair implements `to_dlpack` and `from_dlpack` too.
        """
        return None

    def to_dlpack(
        self, array: Any, *, copy: bool, stream: Any, max_version: tuple[int, int] | None
    ) -> Any:
        """Return a DLPack capsule of an array on the device, which shares its memory unless `copy` is True.

        `stream` and `max_version` are those of ``__dlpack__`` in the array API standard.

        Raises:
            BufferError: the array cannot be exported so.
        """
        raise NotImplementedError

    def from_dlpack(self, source: Any, *, copy: bool) -> Any:
        """Return a backend array with the values of an object of `dlpack_device` that has ``__dlpack__``.

        It shares the object's memory unless `copy` is True.

        Raises:
            BufferError: the object cannot be imported so.
        """
        raise NotImplementedError

    def lose_device(self) -> None:
        """Lose the device, as a driver reset would, so that tests can observe the consequences."""
        raise NotImplementedError

    def handle_interruption(self, *, is_deferrable: bool) -> str:
        """Return why the device is lost after an interruption in the middle of a call, or "" if it is not.

        The default is right for a backend whose calls can be cut anywhere.

        Args:
            is_deferrable: whether the exception came from a handler of signals, which a backend can hold up, or from a
                trace function. What another thread raises comes between any two steps of Python: see
                ``PyThreadState_SetAsyncExc``.
        """
        return ""

    def wrap_implementation(self, kernel_name: str, function: Implementation) -> Implementation:
        """Return the function that the engine calls for an implementation: by default, `function` itself.

        A backend whose arrays are allocated elsewhere may count and limit them here.
        """
        return function

    def join_implementations(
        self, config: KernelConfig, following: Implementation
    ) -> Implementation:
        """Return the function that calls an implementation for inputs it is meant for, else `following`, the next one.

        `following` is the next one, which takes all others. By default, `wrap_implementation` wraps both, and the
        conditions are tested before one of them is called. A backend may do it in fewer steps.
        """
        name = config.kernel_name
        function = self.wrap_implementation(name, config.kernel_func)
        return choose_implementation(
            function, self.wrap_implementation(name, following), *config.conditions
        )

    def complete_implementation(
        self, configs: Sequence[KernelConfig], function: Implementation
    ) -> Implementation:
        """Return the function that the engine calls for a kernel; `function` chooses among its implementations.

        By default, `function` itself, and with bfloat16 once the program has named it. A backend may put in front what
        answers some calls at once.

        Args:
            configs: the implementations of the kernel; the first one that is meant for the inputs runs.
            function: what runs it.
        """
        bfloat16 = known_bfloat16()
        if not bfloat16:
            return function
        name, own = configs[0].kernel_name, configs[0].bfloat16_func
        if own is None:
            return self.with_bfloat16(name, function)
        return dispatch_on_dtype(bfloat16, self.wrap_implementation(name, own), function)

    def with_bfloat16(self, kernel_name: str, function: Implementation) -> Implementation:
        """Return the function that the engine calls for a kernel after the program has named bfloat16.

        By default, `function` itself. A backend whose kernels compute in float32 returns
        `plugrad.extend.compute_in_float32`.
        """
        return function

    @property
    def label(self) -> str:
        """The name and the device, as in ``"webgpu:0"``."""
        return f"{self.name}:{self.device}"

    def __repr__(self) -> str:
        return f"<backend {self.label}>"


def check_device_alive(backend: Backend, operation: str) -> None:
    """Raise if a backend's device is lost or closed; the error names the operation.

    Raises:
        DeviceLost: the device is lost.
        DisposedTensor: the backend has been closed.
    """
    if backend.lost:
        error = DeviceLost(
            f"{backend.label} is lost, and so are the tensors on it: {backend.lost}. Open it again, as in "
            f"plugrad.use({backend.name!r}), and compute the values again"
        )
        error.device = backend.label
        raise error
    if backend.is_closed:
        raise make_closed_backend_error(backend, operation)


def mark_device_lost(error: BaseException, backend: Backend) -> None:
    """Mark a device as lost if an error of its backend says so; its arrays are then dead."""
    if isinstance(error, DeviceLost) and not error.device:
        error.device, backend.lost = backend.label, backend.lost or str(error)
        _clear_caches(backend)


def must_propagate(error: BaseException, backend: Backend) -> bool:
    """Return whether an exception must propagate unchanged because it came from outside the backend call.

    If that has cut the call in two, the device may be lost. What is no `Exception`, such as `SystemExit`, passes, too.
    """
    if not is_interruption(error):
        return not isinstance(error, Exception)
    if not backend.lost:
        backend.lost = backend.handle_interruption(
            is_deferrable=was_raised_by_signal_handler(error)
        )
        if backend.lost:
            _clear_caches(backend)
    return True


def _clear_caches(backend: Backend) -> None:
    """Drop a lost device's functions and constant arrays."""
    for cache in (backend.functions, backend.constants):
        cache.clear()


def compute_host_value(function: Callable[[], Any], shape: Shape, dtype: DType) -> NDArray[Any]:
    """Return the value of a `plugrad.extend.HostValue` function, for backends that compile graphs."""
    log = active_host_log.get()
    values = np.asarray(function() if log is None else log.call(function), dtype.numpy)
    return values if values.shape == shape else values.reshape(shape)


def copy_to_backend_array(values: NDArray[Any], backend: Backend) -> Any:
    """Copy host values to an array of a backend and check its shape and dtype.

    Raises:
        BackendFailed: `from_numpy` fails, or what it returns is no such array.
        DeviceLost: the device does not work any more.
    """
    check_device_alive(backend, "from_numpy()")
    if values.dtype.kind == "b" and has_odd_bools(values):
        values = values.view(np.uint8) != 0
    try:
        array = backend.from_numpy(values)
    except PlugradError as error:
        mark_device_lost(error, backend)
        raise
    except BaseException as error:  # so that a plugin's failure is not plugrad's
        if must_propagate(error, backend):
            raise
        raise make_backend_failed_error(backend, "from_numpy()", error) from error
    check_array(array, values.shape, values.dtype, backend, "from_numpy()")
    return array


def has_odd_bools(values: NDArray[Any]) -> bool:
    """Return whether an array of bools has bytes other than 0 and 1, as views of bytes and files may.

    NumPy takes them for True. Kernels may count them, or choose by their lowest bit.
    """
    return bool(values.view(np.uint8).max(initial=0) > 1)


def check_array(
    array: Any, shape: tuple[int, ...], dtype: object, backend: Backend, method_name: str
) -> None:
    """Raise unless a method has returned an array of the right shape and dtype.

    Raises:
        BackendFailed: the message names the backend, the method and what it returned.
    """
    found = getattr(array, "dtype", None)
    if getattr(array, "shape", None) == shape and (found is dtype or _is_same_dtype(found, dtype)):
        return
    raise make_invalid_result_error(
        backend, method_name, array, f"an array of shape {shape} and dtype {as_dtype(dtype)}"
    )


def _is_same_dtype(returned_dtype: object, dtype: object) -> bool:
    """Return whether a backend array's dtype attribute means a dtype."""
    try:
        return as_dtype(returned_dtype) is as_dtype(dtype)
    except DTypeError:
        return False


def dlpack_device_of(backend: Backend) -> tuple[int, int] | None:
    """Return the result of `Backend.dlpack_device`, checked."""
    where: Any = backend.dlpack_device()
    if where is None or (
        isinstance(where, tuple)
        and len(cast("tuple[object, ...]", where)) == 2
        and all(isinstance(number, int) for number in cast("tuple[object, ...]", where))
    ):
        return cast("tuple[int, int] | None", where)
    raise make_invalid_result_error(
        backend, "dlpack_device()", where, "a pair of integers, or None"
    )


def make_unsupported_dtype_error(dtype: DType, backend: Backend) -> UnsupportedDtype:
    """Return the UnsupportedDtype error for a dtype that a backend does not store."""
    has = sorted(backend.dtypes(), key=str)
    same_kind = [d for d in has if d.kind == dtype.kind] or has
    return UnsupportedDtype(
        f"backend {backend.name!r} does not have {dtype}; it has {', '.join(map(str, has))}. Ask for one of them, "
        f"as in asarray(x, dtype={str(same_kind[-1])!r}), or compute on the cpu backend",
        dtype.name,
    )


def make_closed_backend_error(backend: Backend, operation: str) -> DisposedTensor:
    """Return the error for an operation on a tensor whose backend has been closed."""
    return DisposedTensor(
        f"{operation}: the tensor lived on {backend.label}, which has been closed since then; its values are gone, "
        "so compute them again"
    )


def make_backend_failed_error(
    backend: Backend, method_name: str, error: BaseException
) -> PlugradError:
    """Return the BackendFailed error for a backend method that raised an exception."""
    where = f"{method_name} of backend {backend.name!r} ({backend.distribution})"
    if isinstance(error, MemoryError):
        return OutOfMemory(f"{where}: {error}; use smaller batches")
    return BackendFailed(f"{where} failed: {describe_exception(error)}")


def make_invalid_result_error(
    backend: Backend, method_name: str, returned: object, expected: str
) -> BackendFailed:
    """Return the BackendFailed error for a backend method with an invalid result."""
    return BackendFailed(
        f"{method_name} of backend {backend.name!r} ({backend.distribution}) returned {short_repr(returned)}; "
        f"it must return {expected}"
    )


def read_array(array: Any, backend: Backend) -> NDArray[Any]:
    """Return the values of a backend array as a read-only NumPy array. All reads of tensors go through this.

    Raises:
        DeviceLost: the device is gone.
        BackendFailed: the backend raises an error of its own, or returns something else.
    """
    check_device_alive(backend, "numpy()")
    try:
        values = backend.to_numpy(array)
        values.flags.writeable = False
    except PlugradError as error:
        mark_device_lost(error, backend)
        raise
    except BaseException as error:  # so that a plugin's failure is not plugrad's
        if must_propagate(error, backend):
            raise
        raise make_backend_failed_error(backend, "to_numpy()", error) from error
    check_array(values, array.shape, array.dtype, backend, "to_numpy()")
    return values


def export_values(values: NDArray[Any], **options: Any) -> Any:
    """Return the DLPack capsule of host values, with the options of NumPy's ``__dlpack__``."""
    if values.dtype.name != BFLOAT16:
        return values.__dlpack__(**options)
    capsules = import_lazily("plugrad.tensor.bfloat16_capsules")  # ctypes takes long to import
    return capsules.export_bfloat16(values, **options)


def export_array(
    array: Any, backend: Backend, *, copy: bool, stream: Any, max_version: tuple[int, int] | None
) -> Any:
    """Return the DLPack capsule of a backend's own array.

    Raises:
        DeviceLost: the device is gone.
        BackendFailed: the backend raises an error of its own.
    """
    check_device_alive(backend, "__dlpack__")
    try:
        return backend.to_dlpack(array, copy=copy, stream=stream, max_version=max_version)
    except (PlugradError, BufferError) as error:
        mark_device_lost(error, backend)
        raise
    except BaseException as error:  # so that a plugin's failure is not plugrad's
        if must_propagate(error, backend):
            raise
        raise make_backend_failed_error(backend, "to_dlpack()", error) from error
