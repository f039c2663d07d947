"""The table in which a backend declares what it implements, before it is loaded."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TypeVar

from plugrad.errors import RegistrationError
from plugrad.tensor.backend import Implementation, KernelConfig
from plugrad.types.dtype import as_dtype

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from plugrad.contract.kernel import Kernel
    from plugrad.types.dtype import DTypeLike

ImplementationType = TypeVar("ImplementationType", bound=Implementation)
"""The type of a function that implements a kernel."""


class KernelTable:
    """The kernels that one backend implements: its modules fill the table, and `Backend.open` returns it."""

    def __init__(self, backend: str) -> None:
        """Create an empty table for the backend called `backend`."""
        self.backend = backend
        self.compile: Callable[[Any], Callable[..., list[Any]] | None] | None = None
        """What a kernel pack offers in the place of `Backend.compile`, with which it shares the signature."""
        self._configs: dict[str, KernelConfig] = {}
        self._sources: dict[str, dict[str, Any]] = {}
        """The variables of the module that declared each kernel."""

    def implements(
        self,
        kernel: Kernel[..., Any],
        *,
        setup: Callable[[Any], None] | None = None,
        dispose: Callable[[Any], None] | None = None,
        dtypes: Iterable[DTypeLike] | None = None,
        broadcast_dtypes: Iterable[DTypeLike] = (),
        min_bytes: int = 0,
    ) -> Callable[[ImplementationType], ImplementationType]:
        """Declare the decorated function as the implementation of `kernel`.

        `KernelConfig` describes `dtypes`, `broadcast_dtypes` and `min_bytes`: for which inputs it is meant.

        Raises:
            RegistrationError: the table has the kernel already.
        """

        def decorate(function: ImplementationType) -> ImplementationType:
            config = KernelConfig(kernel.name, self.backend, function, setup, dispose)
            self.add(config._replace(**_condition_fields(dtypes, broadcast_dtypes, min_bytes)))
            return function

        return decorate

    def update(
        self,
        functions: Mapping[Any, Implementation],
        *,
        on_host: bool = False,
        dtypes: Iterable[DTypeLike] | None = None,
        broadcast_dtypes: Iterable[DTypeLike] = (),
        min_bytes: int = 0,
    ) -> None:
        """Declare several implementations at once: a mapping from kernel to function.

        With `on_host` the functions take and return NumPy arrays, whatever the backend's own are:
        the engine reads the inputs with `to_numpy` and stores the results with `from_numpy`.
        `KernelConfig` describes `dtypes`, `broadcast_dtypes` and `min_bytes`: for which inputs they are meant.

        Raises:
            RegistrationError: the table has one of the kernels already.
        """
        conditions = _condition_fields(dtypes, broadcast_dtypes, min_bytes)
        for kernel, function in functions.items():
            config = KernelConfig(kernel.name, self.backend, function, on_host=on_host)
            self.add(config._replace(**conditions))

    def add(self, config: KernelConfig) -> None:
        """Declare one implementation.

        Raises:
            RegistrationError: the table has the kernel already.
        """
        name, source = config.kernel_name, _importing_module_variables()
        if name in self._configs and not _is_repeated_import(source, self._sources[name]):
            raise RegistrationError(f"backend {self.backend!r} implements {name} twice")
        self._configs[name], self._sources[name] = config, source

    def replace(self, config: KernelConfig) -> None:
        """Replace the config of a kernel, for example to wrap an implementation that is declared already.

        Raises:
            RegistrationError: the table does not have the kernel.
        """
        if config.kernel_name not in self._configs:
            raise RegistrationError(
                f"backend {self.backend!r} does not implement {config.kernel_name}, so it cannot be replaced"
            )
        self._configs[config.kernel_name] = config

    def __iter__(self) -> Iterator[KernelConfig]:
        return iter(self._configs.values())

    def __len__(self) -> int:
        return len(self._configs)


def _importing_module_variables() -> dict[str, Any]:
    """Return the variables of the module whose import leads here, or {} if none does."""
    frame = sys._getframe()  # pyright: ignore[reportPrivateUsage]
    while frame is not None and frame.f_code.co_name != "<module>":
        frame = frame.f_back
    return {} if frame is None else frame.f_globals


def _is_repeated_import(variables: dict[str, Any], earlier_variables: dict[str, Any]) -> bool:
    """Return whether a module is imported again, because an interruption ended its import."""
    name = variables.get("__name__")
    return (
        variables is not earlier_variables
        and name is not None
        and name == earlier_variables.get("__name__")
    )


def _condition_fields(
    dtypes: Iterable[DTypeLike] | None, broadcast_dtypes: Iterable[DTypeLike], min_bytes: int
) -> dict[str, Any]:
    """Return the fields of a config that say for which inputs it is meant.

    Raises:
        DTypeError: what is given is not a dtype.
    """
    return {
        "dtypes": None if dtypes is None else frozenset(map(as_dtype, dtypes)),
        "broadcast_dtypes": frozenset(map(as_dtype, broadcast_dtypes)),
        "min_bytes": min_bytes,
    }
