"""The interface of a backend, which owns the arrays on one kind of hardware and the kernels that work on them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias

from plugrad.errors import BackendFailed, OutOfMemory, PlugradError, UnsupportedDtype, shown, told
from plugrad.tensor.choice import choose
from plugrad.types.arguments import fields_shown

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from plugrad.types.dtype import DType

Implementation: TypeAlias = Callable[..., Any]  # takes arrays whose type only the backend knows


@fields_shown
class DeviceInfo(NamedTuple):
    """One device that a backend can open; `name` is the part after the colon in ``"webgpu:0"``."""

    name: str
    description: str
    is_software: bool = False


@fields_shown
class Probe(NamedTuple):
    """Whether a backend can start on this machine, and the reason if it cannot."""

    ok: bool
    reason: str = ""
    devices: tuple[DeviceInfo, ...] = ()


@fields_shown
class Memory(NamedTuple):
    """Memory in use on one backend, in bytes, and the number of buffers that hold it."""

    buffers: int
    bytes: int
    peak: int
    limit: int | None = None
    details: Mapping[str, int] = MappingProxyType({})


@fields_shown
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
    dtypes: frozenset[DType] | None = None
    """The dtypes of the first input for which it is meant; None for all."""
    broadcast_dtypes: frozenset[DType] = frozenset()
    """More dtypes for which it is meant if inputs of different sizes are broadcast.

    None of them has one element only, and the largest has 128 KiB or more.
    """
    min_bytes: int = 0
    """The bytes of all inputs together from which on it is meant."""

    @property
    def conditions(self) -> tuple[frozenset[DType] | None, frozenset[DType], int]:
        """The fields that say for which inputs it is meant."""
        return self.dtypes, self.broadcast_dtypes, self.min_bytes

    @property
    def is_conditional(self) -> bool:
        """Whether it is meant for some inputs only."""
        return self.dtypes is not None or self.min_bytes > 0


class Backend(ABC):
    """Owns arrays on one device. A plugin's entry point names a function without arguments that returns one.

    A *backend array* is any object with a `shape` and a `dtype`; core never looks inside. Each
    object is one opened device; for a second device, core calls the entry point again.
    """

    name: ClassVar[str]
    is_asynchronous: ClassVar[bool] = False
    """Whether kernels return before their work is done, and other threads may run while `to_numpy` waits for it."""
    device: str = ""
    distribution: str = ""
    """The installed distribution that brings the backend; core sets it."""
    is_closed: bool = False
    options: Mapping[str, Any] = MappingProxyType({})
    """The backend's own settings, by name; core sets them before it uses anything else."""
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
        """Yield flat host arrays with the values of arrays of one dtype, which is no string, one after the other.

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

    def prepared(self, kernel_name: str, function: Implementation) -> Implementation:
        """Return the function that the engine calls for an implementation: by default, `function` itself.

        A backend whose arrays are allocated elsewhere may count and limit them here.
        """
        return function

    def prepared_choice(self, config: KernelConfig, following: Implementation) -> Implementation:
        """Return the function that the engine calls for an implementation that is meant for some inputs only.

        `following` is the next one, which takes all others. By default, both are `prepared`, and the
        conditions are tested before one of them is called. A backend may do it in fewer steps.
        """
        name = config.kernel_name
        function = self.prepared(name, config.kernel_func)
        return choose(function, self.prepared(name, following), *config.conditions)

    @property
    def label(self) -> str:
        """The name and the device, as in ``"webgpu:0"``."""
        return f"{self.name}:{self.device}"

    def __repr__(self) -> str:
        return f"<backend {self.label}>"


def unsupported(dtype: DType, backend: Backend) -> UnsupportedDtype:
    """Return the error for a dtype that a backend does not store."""
    has = sorted(backend.dtypes(), key=str)
    same_kind = [d for d in has if d.kind == dtype.kind] or has
    return UnsupportedDtype(
        f"backend {backend.name!r} does not have {dtype}; it has {', '.join(map(str, has))}. Ask for one of them, "
        f"as in asarray(x, dtype={str(same_kind[-1])!r}), or compute on the cpu backend"
    )


def failed(backend: Backend, method: str, error: BaseException) -> PlugradError:
    """Return the error for a method of a backend that raised an error of its own."""
    where = f"{method} of backend {backend.name!r} ({backend.distribution})"
    if isinstance(error, MemoryError):
        return OutOfMemory(f"{where}: {error}; use smaller batches")
    return BackendFailed(f"{where} failed: {told(error)}")


def nonsense(backend: Backend, method: str, returned: object, expected: str) -> BackendFailed:
    """Return the error for a method of a backend that returned what it must not."""
    return BackendFailed(
        f"{method} of backend {backend.name!r} ({backend.distribution}) returned {shown(returned)}; "
        f"it must return {expected}"
    )
