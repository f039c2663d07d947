"""The gradient registry: kernel name -> gradient."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from plugrad.contract.kernel import all_contracts
from plugrad.errors import GradientNotFound, RegistrationError, warn
from plugrad.settings import journal
from plugrad.settings.layers import config as settings
from plugrad.tensor.context import active_overrides
from plugrad.types.arguments import check_string

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from plugrad.contract.kernel import Kernel


class VjpPlan(Protocol):
    """The values that a call saves for its backward pass, and how its vector-Jacobian product is computed."""

    @property
    def kernel(self) -> Kernel[..., Any]:
        """The kernel that is called."""
        ...

    @property
    def saved_inputs(self) -> Sequence[int]:
        """The positions of the inputs to save."""
        ...

    @property
    def needs_output(self) -> bool:
        """Whether to save the output."""
        ...

    @property
    def needs_dtypes(self) -> bool:
        """Whether to save the inputs' dtypes."""
        ...

    @property
    def saves_values(self) -> bool:
        """Whether the call saves inputs, the output or dtypes."""
        ...

    def accumulate_vjp(
        self,
        gradients: dict[Any, Any],
        call: Any,
        dy: Any,
        needs_input_grad: Sequence[bool] | None,
        create_graph: bool,
    ) -> None:
        """Add the gradients of a call's inputs to `gradients`; `needs_input_grad` selects inputs (None: all)."""
        ...


class RegisteredGradient:
    """The gradient of one kernel, in the form that the tape uses.

    `planner` makes the plan for the positions of the differentiated inputs, or None if these
    contribute nothing; the tape caches plans in `plans`, keyed by one bit for each input. `inputs` names
    the inputs that have a rule; it is None if a function decides. `because` says why there is no rule.
    """

    def __init__(
        self,
        kernel_name: str,
        planner: Callable[[Kernel[..., Any], Sequence[int]], VjpPlan | None],
        inputs: tuple[str, ...] | None = None,
        because: str = "",
    ) -> None:
        """Create a gradient with an empty cache of plans."""
        self.kernel_name = kernel_name
        self.planner = planner
        self.inputs = inputs
        self.because = because
        self.plans: dict[int, VjpPlan | None] = {}


gradients: Final[dict[str, RegisteredGradient]] = {}
"""The registry itself: the tape reads it; change it through the functions below.

It lacks what nobody has asked for yet: see `set_loader`.
"""
_load_gradient: Callable[[str], None] | None = None
"""The function that registers plugrad's own gradient of a kernel, by name; None before `set_loader` is called."""


def set_loader(loader: Callable[[str], None]) -> None:
    """Set the function that registers plugrad's own gradient of a kernel, by name, when it is first asked for."""
    global _load_gradient
    _load_gradient = loader


def find_gradient(kernel_name: str) -> RegisteredGradient | None:
    """Return the gradient of a kernel that is in effect in this context, or None."""
    overrides = active_overrides()
    if overrides is not None and kernel_name in overrides.gradients:
        return overrides.gradients[kernel_name]
    return find_registered_gradient(kernel_name)


def find_registered_gradient(kernel_name: str) -> RegisteredGradient | None:
    """Return the gradient of a kernel in the registry, whatever this context overrides, or None."""
    if kernel_name not in gradients and _load_gradient is not None:
        _load_gradient(kernel_name)
    return gradients.get(kernel_name)


def register_all_gradients() -> None:
    """Register every gradient of plugrad's own that nobody has asked for yet."""
    for kernel_name in list(all_contracts()):
        find_registered_gradient(kernel_name)


def set_gradient(gradient: RegisteredGradient, *, replace: bool = False) -> None:
    """Register a compiled gradient; see `plugrad.gradient` and `plugrad.GradientConfig` for the two source forms.

    Raises:
        RegistrationError: the kernel has a gradient already and `replace` is False.
    """
    name = gradient.kernel_name
    replaced = find_registered_gradient(name)  # imports plugrad's own
    if replace:
        warn_in_debug_mode(name, replaced)
        journal.put_table_entry(gradients, name, gradient, "gradient")
    elif not journal.add_table_entry(gradients, name, gradient, "gradient"):
        raise RegistrationError(
            f"kernel {name!r} has a gradient already; pass replace=True, or "
            "use override_gradient to replace it temporarily"
        )


def warn_in_debug_mode(kernel_name: str, replaced_gradient: RegisteredGradient | None) -> None:
    """Warn that a gradient, if there is one, is replaced."""
    if replaced_gradient is not None and settings.get("debug"):
        warn(f"the gradient of {kernel_name} is replaced (the setting debug is on)")


def unregister_gradient(kernel_name: str) -> RegisteredGradient:
    """Remove the gradient of a kernel from the registry and return it; `override_gradient` is not affected.

    Raises:
        GradientNotFound: there is none.
    """
    find_registered_gradient(check_string(kernel_name, "unregister_gradient", "kernel_name"))
    with journal.registration_lock:
        removed = gradients.get(kernel_name)
        if removed is not None:
            journal.put_table_entry(gradients, kernel_name, journal.MISSING_VALUE, "gradient")
            return removed
    raise GradientNotFound(f"kernel {kernel_name!r} has no gradient; nothing to unregister")


def get_gradients() -> dict[str, RegisteredGradient]:
    """Return every gradient that is in effect by the name of its kernel.

    >>> import plugrad
    >>> plugrad.get_gradients()["Multiply"].inputs
    ('a', 'b')
    >>> plugrad.get_gradients()["Floor"].because
    'they are constant between jumps'
    """
    register_all_gradients()
    overrides = active_overrides()
    return gradients | ({} if overrides is None else overrides.gradients)


def get_gradient(kernel_name: str) -> RegisteredGradient | None:
    """Return the gradient of a kernel that is in effect, or None."""
    return find_gradient(check_string(kernel_name, "get_gradient", "kernel_name"))
