"""Every error of plugrad. The docstring of a class is its manual page: cause, example, remedy."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class PlugradError(Exception):
    """The root of all errors below: catch it to catch whatever plugrad raises on purpose."""


class ShapeError(PlugradError, ValueError):
    """Shapes do not fit together, or a shape is not one.

    Example: ``plugrad.add(plugrad.zeros((2, 3)), plugrad.zeros((4,)))``.

    Remedy: compare the two shapes in the message from the right; sizes must be equal or 1. Use
    `reshape` or `expand_dims` to line them up.
    """


class AxisError(PlugradError, ValueError, IndexError):
    """An axis is out of range for the tensor's rank, or named twice.

    Example: ``plugrad.sum(plugrad.zeros((2, 3)), axis=2)``.

    Remedy: axes run from ``-rank`` to ``rank - 1``.
    """


class DTypeError(PlugradError, TypeError):
    """A dtype is unknown, or an op does not take tensors of this dtype.

    Example: ``plugrad.logical_and(plugrad.asarray([1.0]), True)``.

    Remedy: cast first, as in ``x.astype("bool")``.
    """


class ArgumentError(PlugradError, TypeError):
    """An argument is of a kind that the function cannot take, or is missing, or has an unknown name.

    Example: ``plugrad.exp(None)``, ``plugrad.grad(3)``.

    Remedy: the message names the argument and what is expected.
    """


class ArgumentValueError(PlugradError, ValueError):
    """An argument has the right kind but a value that makes no sense.

    Example: ``plugrad.conv2d(x, filters, strides=0)``.

    Remedy: the message names the argument, its value and the values that are allowed.
    """


class TensorIndexError(PlugradError, IndexError):
    """An index is out of range or of a kind that indexing does not take.

    Example: ``plugrad.zeros((3,))[5]``.

    Remedy: use integers, slices, ``...``, ``None`` and arrays of integers or bools within the
    tensor's shape.
    """


class BackendNotFound(PlugradError, LookupError):
    """No installed plugin brings a backend of this name.

    Example: ``plugrad.use("webgpu")`` in an environment without the webgpu plugin.

    Remedy: install it, as in ``pip install "plugrad[webgpu]"``, or choose one of the installed ones
    in the message.
    """


class BackendUnavailable(PlugradError, RuntimeError):
    """A backend is installed but cannot start here; the reason is the plugin's own.

    Example: a GPU backend on a machine without a driver, or a plugin whose import fails.

    Remedy: the message has the plugin's reason, and the original error is chained to it. Other
    backends keep working.
    """


class BackendMismatch(PlugradError, ValueError):
    """The inputs of one op live on different backends or devices.

    Example: ``cpu_tensor + cpu_tensor.to("webgpu")``.

    Remedy: move one of them with ``x.to("webgpu")``; plugrad never moves data behind your back.
    """


class KernelNotFound(PlugradError, NotImplementedError):
    """The backend at hand does not implement a kernel, or nobody knows the kernel.

    Example: ``plugrad.run_kernel("Sine", {"x": x})``.

    Remedy: run on a backend that has it (the message lists them), or register one with
    `register_kernel`.
    """

    def __init__(self, message: str, kernel_name: str = "") -> None:
        """Create the error about the kernel called `kernel_name`."""
        super().__init__(message)
        self.kernel_name = kernel_name


class KernelFailed(PlugradError, RuntimeError):
    """An implementation of a kernel raised an error of its own, or does not keep the kernel's contract.

    Example: a kernel of a plugin that divides by zero in Python. With the setting ``debug``, also one
    that returns another shape or dtype than its contract says, or changes an input.

    Remedy: the message names the kernel, the backend and the distribution; report it there. The original
    error is chained to it.
    """


class GradientNotFound(PlugradError, NotImplementedError):
    """A kernel between the result and the differentiated inputs has no gradient.

    Remedy: declare one with `register_gradient`, or cut the path with `stop_gradient` where it
    should not count.
    """


class RegistrationError(PlugradError, ValueError):
    """A kernel or gradient cannot be registered: the key is taken, or the function does not fit the contract.

    Example: registering ``("Add", "cpu")`` again.

    Remedy: pass ``replace=True``, use `override_kernel` for a while, or fix the parameters named in
    the message.
    """


class UnsupportedDtype(DTypeError):
    """The backend or the kernel at hand has no such dtype; plugrad never narrows silently.

    Example: ``plugrad.asarray(np.zeros(3), device="webgpu")``, which is float64.

    Remedy: ask for a dtype that the backend has, as in ``plugrad.asarray(x, dtype="float32")``, or
    compute on the cpu backend.
    """


class DisposedTensor(PlugradError, RuntimeError):
    """A tensor is used after `dispose`, or after the `tidy` block that made it.

    Remedy: return the tensor from the block, or protect it with `plugrad.keep`.
    """


class OutOfMemory(PlugradError, MemoryError):
    """An allocation would exceed the device, the address space or the limit set with `set_memory_limit`.

    Remedy: use smaller batches, release tensors, or raise the limit.
    """


class PluginNotFound(PlugradError, LookupError):
    """No installed plugin of this kind has this name.

    Example: ``plugrad.op_pack("acme")`` where nothing declares ``acme`` in the group ``plugrad.ops``.

    Remedy: install it, or choose one of those that the message lists.
    """


class PluginUnavailable(PlugradError, RuntimeError):
    """A plugin is installed but cannot be loaded; the reason is its own.

    Example: ``plugrad.op_pack("acme")`` where ``acme`` needs a library that is not there.

    Remedy: the message has the reason, and the original error is chained to it. Everything else
    keeps working.
    """


class PluginConflict(PlugradError, RuntimeError):
    """Two installed distributions bring a backend, or another plugin, of the same name.

    Remedy: choose one as ``"distribution::name"``, switch one off with the setting
    ``plugins.disable``, or uninstall it.
    """


CannotRun = (BackendNotFound, BackendUnavailable, PluginConflict)
"""The errors that say that a backend cannot be used here, to be caught where another one will do."""


class ConfigError(PlugradError, ValueError):
    """A configuration value, key or file is malformed.

    Example: ``PLUGRAD_MEMORY_LIMIT=lots``, or a misspelt key in ``plugrad.toml``.

    Remedy: the message names the layer, the key, the value and the values that are accepted.
    """


def warn(message: str) -> None:
    """Warn with the line outside plugrad that led here."""
    import inspect  # nobody needs these before something is wrong
    import warnings

    frame, level = inspect.currentframe(), 1
    while frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == "plugrad":
        frame, level = frame.f_back, level + 1
    warnings.warn(message, RuntimeWarning, stacklevel=level)


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return ``" (did you mean 'x'?)"`` for a misspelt name, or nothing."""
    from difflib import get_close_matches  # nobody needs it before something is wrong

    close = get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f" (did you mean {close[0]!r}?)" if close else ""
