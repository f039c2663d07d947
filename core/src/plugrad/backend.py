"""What a backend is: the owner of arrays on one kind of hardware, and the table of kernels it implements."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias, TypeVar

from plugrad.errors import RegistrationError
from plugrad.registry import KernelConfig

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from plugrad.dtype import DType
    from plugrad.kernel import Kernel

Implementation: TypeAlias = Callable[..., Any]  # arrays of a type that only the backend knows
Function = TypeVar("Function", bound=Implementation)


class DeviceInfo(NamedTuple):
    """One device that a backend can open; `name` is what comes after the colon in ``"webgpu:0"``."""

    name: str
    description: str
    is_software: bool = False


class Probe(NamedTuple):
    """Whether a backend can start on this machine, and if not, why."""

    ok: bool
    reason: str = ""
    devices: tuple[DeviceInfo, ...] = ()


class Memory(NamedTuple):
    """Memory in use on one backend, in bytes, and the number of buffers that hold it."""

    buffers: int
    bytes: int
    peak: int
    limit: int | None = None
    details: Mapping[str, int] = MappingProxyType({})


class KernelTable:
    """What one backend implements; declared when the backend's modules are imported, registered when it is loaded."""

    def __init__(self, backend: str) -> None:
        """Create an empty table for the backend called `backend`."""
        self.backend = backend
        self._configs: dict[str, KernelConfig] = {}

    def implements(
        self,
        kernel: Kernel[..., Any],
        *,
        setup: Callable[[Any], None] | None = None,
        dispose: Callable[[Any], None] | None = None,
    ) -> Callable[[Function], Function]:
        """Declare the decorated function as the implementation of `kernel`.

        Raises:
            RegistrationError: the table has the kernel already.
        """

        def decorate(function: Function) -> Function:
            self._add(KernelConfig(kernel.name, self.backend, function, setup, dispose))
            return function

        return decorate

    def update(self, functions: Mapping[Any, Implementation], *, on_host: bool = False) -> None:
        """Declare several implementations at once: a mapping from kernel to function.

        With `on_host` the functions take and return NumPy arrays, whatever the backend's own are:
        the engine reads the inputs with `to_numpy` and stores the results with `from_numpy`.
        """
        for kernel, function in functions.items():
            self._add(KernelConfig(kernel.name, self.backend, function, on_host=on_host))

    def _add(self, config: KernelConfig) -> None:
        if config.kernel_name in self._configs:
            raise RegistrationError(
                f"backend {self.backend!r} implements {config.kernel_name} twice"
            )
        self._configs[config.kernel_name] = config

    def __iter__(self) -> Iterator[KernelConfig]:
        return iter(self._configs.values())

    def __len__(self) -> int:
        return len(self._configs)


class Backend(ABC):
    """Owns arrays on one device. A plugin's entry point names a function without arguments that returns one.

    A *backend array* is any object with a `shape` and a `dtype`; core never looks inside. One
    object is one opened device: for a second device core calls the entry point again.
    """

    name: ClassVar[str]
    device: str = ""
    is_closed: bool = False
    limit: int | None = None
    """The most bytes that arrays may use, for a backend that wants to be asked for room before each kernel."""
    options: Mapping[str, Any] = MappingProxyType({})
    """The settings of the backend's own, by name; core sets them before it asks for anything else."""
    adopt: Callable[[Any], None] | None = None
    """Counts an array of 64 KiB or more, for a backend whose arrays are allocated elsewhere."""
    functions: Mapping[str, Implementation]
    """The kernels by name, but those on the host: the engine's view of the registry, set when the backend is loaded."""

    @abstractmethod
    def probe(self) -> Probe:
        """Return whether the backend can start here; never raise, never abort the process."""

    def devices(self) -> tuple[DeviceInfo, ...]:
        """Return the devices that can be opened."""
        return self.probe().devices

    @abstractmethod
    def open(self, device: str) -> KernelTable:
        """Make a device ready, the best one for ``""``; set `device` to its name, and return its kernels.

        Raises:
            BackendUnavailable: it cannot start; say why and what to do.
        """

    @abstractmethod
    def dtypes(self) -> frozenset[DType]:
        """Return the dtypes that the opened device stores."""

    @abstractmethod
    def from_numpy(self, array: NDArray[Any]) -> Any:
        """Return a new backend array with a copy of a C-contiguous host array."""

    @abstractmethod
    def to_numpy(self, array: Any) -> NDArray[Any]:
        """Return the values on the host; wait for them if they are still being computed."""

    @abstractmethod
    def synchronize(self) -> None:
        """Wait until everything that was asked for is done."""

    @abstractmethod
    def memory(self) -> Memory:
        """Return what the backend's arrays use."""

    @abstractmethod
    def set_memory_limit(self, limit: int | None) -> None:
        """Make allocations beyond `limit` bytes raise `OutOfMemory`; None removes the limit."""

    @abstractmethod
    def close(self) -> None:
        """Release the device. The object is not used again."""

    def make_room(self, size: int) -> None:  # noqa: B027 - most backends ask their own allocator
        """Raise `OutOfMemory` if `size` more bytes would exceed `limit`; asked only while `limit` is set."""

    def __repr__(self) -> str:
        return f"<backend {self.name}:{self.device}>"
