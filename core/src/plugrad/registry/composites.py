"""The third registry: kernel name -> composite, a body of ops for backends without an implementation of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from plugrad.contract.kernel import all_contracts
from plugrad.errors import RegistrationError
from plugrad.settings import journal

if TYPE_CHECKING:
    from collections.abc import Callable

    from plugrad.contract.kernel import Kernel
    from plugrad.registry.gradients import RegisteredGradient


class Composite(NamedTuple):
    """A kernel, the function of tensors that computes it with ops, and the gradient of that function."""

    kernel: Kernel[..., Any]
    """The contract of the kernel."""
    body: Callable[..., Any]
    """The function that computes the kernel with ops."""
    gradient: RegisteredGradient
    """The gradient of the body."""
    is_traced: bool = False
    """Whether a trace records the ops of the body even where a backend has an implementation."""


registered_composites: Final[dict[str, Composite]] = {}
"""The registry itself; it lacks plugrad's own that nobody has asked for yet, see `set_loader`."""
_load_composite: Callable[[Kernel[..., Any]], None] | None = None
"""The function that registers plugrad's own composite of a kernel; None before `set_loader` is called."""


def set_loader(loader: Callable[[Kernel[..., Any]], None]) -> None:
    """Set the function that registers plugrad's own composite of a kernel when it is first asked for."""
    global _load_composite
    _load_composite = loader


def find_composite(kernel: Kernel[..., Any]) -> Composite | None:
    """Return the composite of a kernel, or None."""
    if kernel.name not in registered_composites and _load_composite is not None:
        _load_composite(kernel)
    return registered_composites.get(kernel.name)


def register_all_composites() -> None:
    """Register every composite of plugrad's own that nobody has asked for yet."""
    for kernel in list(all_contracts().values()):
        find_composite(kernel)


def register_composite(composite: Composite) -> None:
    """Register a composite.

    Raises:
        RegistrationError: the kernel has one already.
    """
    name = composite.kernel.name
    if getattr(composite.body, "__module__", "") == f"plugrad.composites.{composite.kernel.family}":
        # It belongs to no plugin, whoever uses it first; and an import that was interrupted is repeated.
        registered_composites[name] = composite
        return
    find_composite(composite.kernel)  # plugrad's own may not have been asked for yet
    if not journal.add_table_entry(registered_composites, name, composite, "composite"):
        raise RegistrationError(f"kernel {name!r} has a body of ops already; it can have only one")
