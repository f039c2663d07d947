"""The two registries: (kernel name, backend name) -> implementation, and kernel name -> gradient.

The engine reads `functions`, one dict per backend, which every change of the kernel registry keeps
up to date.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from plugrad.errors import GradientNotFound, KernelNotFound, RegistrationError, warn

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

    from plugrad.plan import Gradient


class KernelConfig(NamedTuple):
    """One implementation: which kernel, for which backend, and the function.

    `setup_func` is called with the backend when it becomes ready, `dispose_func` when it is closed.
    A function `on_host` takes and returns NumPy arrays; see `KernelTable.update`.
    """

    kernel_name: str
    backend_name: str
    kernel_func: Callable[..., Any]
    setup_func: Callable[[Any], None] | None = None
    dispose_func: Callable[[Any], None] | None = None
    on_host: bool = False


_kernels: Final[dict[tuple[str, str], KernelConfig]] = {}
_functions: Final[dict[str, dict[str, Callable[..., Any]]]] = {}


def functions(backend_name: str) -> dict[str, Callable[..., Any]]:
    """Return the live map from kernel name to function of arrays of one backend: read it, do not change it."""
    return _functions.setdefault(backend_name, {})


def register_kernel(config: KernelConfig, *, replace: bool = False) -> None:
    """Register one implementation.

    >>> import numpy as np, plugrad
    >>> plugrad.register_kernel(plugrad.KernelConfig("Cube", "cpu", lambda x: x**3))
    >>> plugrad.run_kernel("Cube", {"x": plugrad.asarray([2.0])})
    tensor([8.], dtype=float32)
    >>> removed = plugrad.unregister_kernel("Cube", "cpu")

    Raises:
        RegistrationError: the key is taken and `replace` is False, or the function does not fit the
            contract.
    """
    register_kernels([config], replace=replace)


def register_kernels(configs: Iterable[KernelConfig], *, replace: bool = False) -> None:
    """Register several implementations, or none if one of them is wrong."""
    configs = list(configs)
    seen: set[tuple[str, str]] = set()
    for config in configs:
        key = config.kernel_name, config.backend_name
        if key in seen or (key in _kernels and not replace):
            raise RegistrationError(
                f"kernel {key[0]!r} is registered for backend {key[1]!r} already; "
                "pass replace=True, or use override_kernel for a while"
            )
        seen.add(key)
        check_parameters(config)
    for config in configs:
        if (config.kernel_name, config.backend_name) in _kernels:
            _warn_in_debug_mode(f"{config.kernel_name} on backend {config.backend_name!r}")
        _set(config)


def _warn_in_debug_mode(what: str) -> None:
    from plugrad.config import config  # whose hooks may register kernels

    if config.get("debug"):
        warn(f"{what} is replaced (the setting debug is on)")


def _set(config: KernelConfig) -> None:
    _kernels[config.kernel_name, config.backend_name] = config
    if config.on_host:
        functions(config.backend_name).pop(config.kernel_name, None)
    else:
        functions(config.backend_name)[config.kernel_name] = config.kernel_func


def unregister_kernel(kernel_name: str, backend_name: str) -> KernelConfig:
    """Remove an implementation and return it.

    Raises:
        KernelNotFound: there is none.
    """
    config = _kernels.get((kernel_name, backend_name))
    if config is None:
        raise KernelNotFound(
            f"no kernel {kernel_name!r} is registered for backend {backend_name!r}; nothing to unregister"
        )
    del _kernels[kernel_name, backend_name]
    functions(backend_name).pop(kernel_name, None)
    return config


def get_kernel(kernel_name: str, backend_name: str) -> KernelConfig | None:
    """Return the implementation of a kernel on a backend, or None."""
    return _kernels.get((kernel_name, backend_name))


def get_kernels_for_backend(backend_name: str) -> list[KernelConfig]:
    """Return all implementations of one backend."""
    return [c for c in _kernels.values() if c.backend_name == backend_name]


def copy_registered_kernels(source: str, target: str, *, replace: bool = False) -> None:
    """Register every implementation of backend `source` for backend `target` too."""
    register_kernels(
        [c._replace(backend_name=target) for c in get_kernels_for_backend(source)], replace=replace
    )


@contextmanager
def override_kernel(
    kernel_name: str, backend_name: str, kernel_func: Callable[..., Any]
) -> Generator[None, None, None]:
    """Use another implementation inside a ``with`` block; the previous one, or none, is restored on exit.

    The override holds for the whole process, not only for the calling thread.
    """
    before = replace_kernels([KernelConfig(kernel_name, backend_name, kernel_func)])
    try:
        yield
    finally:
        restore_kernels(before)


Before: TypeAlias = Mapping[tuple[str, str], KernelConfig | None]
"""What stood under some keys of the kernel registry: an implementation, or none."""


def replace_kernels(configs: Iterable[KernelConfig]) -> Before:
    """Register several implementations, in place of others if need be; return what was there before."""
    configs = list(configs)
    before = {(c.kernel_name, c.backend_name): get_kernel(*c[:2]) for c in configs}
    register_kernels(configs, replace=True)
    return before


def restore_kernels(before: Before) -> None:
    """Take `replace_kernels` back."""
    for key, config in before.items():
        if config is not None:
            _set(config)
        elif key in _kernels:
            unregister_kernel(*key)


@contextmanager
def all_or_nothing() -> Generator[None, None, None]:
    """Leave the contracts and both registries as they were if the block raises."""
    from plugrad.kernel import KERNELS

    kernels, contracts, known = dict(_kernels), dict(KERNELS), dict(gradients)
    try:
        yield
    except BaseException:
        restore_kernels({**dict.fromkeys(_kernels), **kernels})
        for current, before in ((KERNELS, contracts), (gradients, known)):
            for name in current.keys() - before.keys():
                del current[name]
            current.update(before)  # type: ignore[arg-type]
        raise


def check_parameters(config: KernelConfig) -> None:
    """Raise unless the function takes the contract's inputs by position and its attributes by keyword.

    A kernel without a contract, and a function whose parameters Python cannot tell, pass.

    Raises:
        RegistrationError: naming the kernel, the backend and the parameters.
    """
    # Contracts are declared with the engine, which reads this module.
    from plugrad.kernel import KERNELS

    contract = KERNELS.get(config.kernel_name)
    if not callable(config.kernel_func):
        raise RegistrationError(
            f"{config.kernel_name} on {config.backend_name!r}: {config.kernel_func!r} is not callable"
        )
    if contract is None:
        return
    try:
        parameters = inspect.signature(config.kernel_func).parameters.values()
    except (TypeError, ValueError):  # NumPy's ufuncs and other compiled functions
        return
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = [p for p in positional if p.default is p.empty]
    takes_list = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    keywords = {p.name: p.default is p.empty for p in parameters if p.kind is p.KEYWORD_ONLY}
    takes_any_keyword = any(p.kind is p.VAR_KEYWORD for p in parameters)
    # Without inputs, the backend itself comes first.
    count = len(contract.inputs) or 1
    where = f"{config.kernel_name} on {config.backend_name!r}"
    if contract.takes_list:
        if not takes_list:
            raise RegistrationError(
                f"{where}: the implementation must take its inputs as *{contract.inputs[-1]}"
            )
    elif not takes_list and not len(required) <= count <= len(positional):
        expected = ", ".join(contract.inputs) or "backend"
        raise RegistrationError(
            f"{where}: the implementation takes {len(required)} positional parameters; the contract's are ({expected})"
        )
    missing = set[str]() if takes_any_keyword else set(contract.attributes) - keywords.keys()
    unknown = {name for name, is_required in keywords.items() if is_required} - set(
        contract.attributes
    )
    if wrong := sorted(missing | unknown):
        raise RegistrationError(
            f"{where}: keyword-only parameters {wrong} are unknown or missing; the contract's "
            f"are {list(contract.attributes)}"
        )


# --- gradients -----------------------------------------------------------------------------------


gradients: Final[dict[str, Gradient]] = {}
"""The gradient registry: the tape reads it; change it through the functions below."""


def set_gradient(gradient: Gradient, *, replace: bool = False) -> None:
    """Register a compiled gradient; see `plugrad.gradient` for the two forms that people write.

    Raises:
        RegistrationError: the kernel has a gradient and `replace` is False.
    """
    if gradient.kernel_name in gradients:
        if not replace:
            raise RegistrationError(
                f"kernel {gradient.kernel_name!r} has a gradient already; pass replace=True, or "
                "use override_gradient for a while"
            )
        _warn_in_debug_mode(f"the gradient of {gradient.kernel_name}")
    gradients[gradient.kernel_name] = gradient


def unregister_gradient(kernel_name: str) -> Gradient:
    """Remove the gradient of a kernel and return it.

    Raises:
        GradientNotFound: there is none.
    """
    if kernel_name not in gradients:
        raise GradientNotFound(f"kernel {kernel_name!r} has no gradient; nothing to unregister")
    return gradients.pop(kernel_name)


def get_gradients() -> dict[str, Gradient]:
    """Return every gradient by the name of its kernel.

    >>> import plugrad
    >>> plugrad.get_gradients()["Multiply"].inputs
    ('a', 'b')
    >>> plugrad.get_gradients()["Floor"].because
    'they are constant between jumps'
    """
    return dict(gradients)


def get_gradient(kernel_name: str) -> Gradient | None:
    """Return the gradient of a kernel, or None."""
    return gradients.get(kernel_name)
