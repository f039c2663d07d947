"""The table in which a backend declares what it implements, before it is loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from plugrad.errors import RegistrationError
from plugrad.tensor.backend import Implementation, KernelConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from plugrad.contract.kernel import Kernel

Function = TypeVar("Function", bound=Implementation)


class KernelTable:
    """What one backend implements: its modules fill the table, and `Backend.open` returns it."""

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
            self.add(KernelConfig(kernel.name, self.backend, function, setup, dispose))
            return function

        return decorate

    def update(self, functions: Mapping[Any, Implementation], *, on_host: bool = False) -> None:
        """Declare several implementations at once: a mapping from kernel to function.

        With `on_host` the functions take and return NumPy arrays, whatever the backend's own are:
        the engine reads the inputs with `to_numpy` and stores the results with `from_numpy`.

        Raises:
            RegistrationError: the table has one of the kernels already.
        """
        for kernel, function in functions.items():
            self.add(KernelConfig(kernel.name, self.backend, function, on_host=on_host))

    def add(self, config: KernelConfig) -> None:
        """Declare one implementation.

        Raises:
            RegistrationError: the table has the kernel already.
        """
        if config.kernel_name in self._configs:
            raise RegistrationError(
                f"backend {self.backend!r} implements {config.kernel_name} twice"
            )
        self._configs[config.kernel_name] = config

    def __iter__(self) -> Iterator[KernelConfig]:
        return iter(self._configs.values())

    def __len__(self) -> int:
        return len(self._configs)
