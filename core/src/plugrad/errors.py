"""The errors of plugrad. The docstring of each class is its manual page: cause, example, remedy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NoReturn

from plugrad.interruptions import is_interruption

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import ModuleType


class PlugradError(Exception):
    """The base class of all errors below; catch it to catch every error that plugrad raises deliberately.

    Names in a message may be anybody's. Characters of theirs that would move the cursor of a terminal, or turn the
    direction of the text, are shown as escape sequences.
    """

    def __str__(self) -> str:
        return escape_control_characters(super().__str__())


class ShapeError(PlugradError, ValueError):
    """Shapes do not fit together, or a value is not a valid shape.

    Example: ``plugrad.add(plugrad.zeros((2, 3)), plugrad.zeros((4,)))``.

    Remedy: compare the two shapes in the message from right to left; sizes must be equal, or one of
    them must be 1. Use `reshape` or `expand_dims` to align the axes.
    """


class AxisError(PlugradError, ValueError, IndexError):
    """An axis is out of range for the number of the tensor's axes, or given twice.

    Example: ``plugrad.sum(plugrad.zeros((2, 3)), axis=2)``.

    Remedy: use axes from ``-x.ndim`` to ``x.ndim - 1``, each of them once.
    """


class DTypeError(PlugradError, TypeError):
    """A dtype is unknown, or an op does not accept tensors of this dtype.

    Example: ``plugrad.logical_and(plugrad.asarray([1.0]), True)``.

    Remedy: cast the tensor first, as in ``x.astype("bool")``.
    """


class ArgumentError(PlugradError, TypeError):
    """An argument has a type that the function does not accept, is missing, or has an unknown name.

    Example: ``plugrad.exp(None)``, ``plugrad.grad(3)``.

    Remedy: pass what the message expects for the argument that it names.
    """


class ArgumentValueError(PlugradError, ValueError):
    """An argument has the right type but a value that is not allowed.

    Example: ``plugrad.conv2d(x, filters, strides=0)``.

    Remedy: the message names the argument, its value and the allowed values; pass one of these.
    """


class TensorIndexError(PlugradError, IndexError):
    """An index is out of range, or has a type that indexing does not accept.

    Example: ``plugrad.zeros((3,))[5]``.

    Remedy: use integers, slices, ``...``, ``None`` and arrays of integers or bools within the
    tensor's shape.
    """


class BackendNotFound(PlugradError, LookupError):
    """No installed plugin brings a backend with this name.

    Example: ``plugrad.use("webgpu")`` in an environment without the webgpu plugin.

    Remedy: install the backend, as in ``pip install "plugrad[webgpu]"``, or choose one of the installed
    backends, which the message lists.
    """


class BackendUnavailable(PlugradError, RuntimeError):
    """A backend is installed but cannot start on this machine.

    Example: a GPU backend on a machine without a driver, or a plugin whose import fails.

    Remedy: correct what the message gives as the plugin's own reason; the original error is chained to
    it. Or choose another backend: the other ones keep working.
    """


class DeviceLost(PlugradError, RuntimeError):
    """A device has stopped working while it was open, and the arrays on it are gone.

    Example: the driver of a GPU was reset, a card was unplugged, or the process behind a backend has ended.

    Remedy: open the device again, as in ``plugrad.use("webgpu")``, and compute the values again from data on the
    host. Tensors that were made before raise this error whenever they are used. Close the device with
    `close_backend` if the program does not need it any more.

    A backend raises this error in the kernel or the method that notices; see "When a device is lost" in the guide
    to writing a backend.
    """

    device: str = ""
    """The device, such as ``"webgpu:0"``; plugrad sets it."""


class BackendMismatch(PlugradError, ValueError):
    """The inputs of one op live on different backends or devices.

    Example: ``cpu_tensor + cpu_tensor.to("webgpu")``.

    Remedy: copy one of them with ``x.to("webgpu")``, or run the op inside
    ``plugrad.use("webgpu", transfer=True)``; plugrad never copies between backends implicitly.
    """


class TracingError(PlugradError, RuntimeError):
    """A function under `jit` or `vmap` does something that needs the values of a tensor.

    Example: ``plugrad.jit(lambda x: x if x > 0 else -x)(plugrad.asarray(1.0))``.

    Remedy: such a function sees shapes and dtypes, but no values. Choose between values with `where` or `cond`, loop
    with `scan` or `while_loop`, pass what is no tensor as an argument, which is then static, or do what needs values
    before or after the call. The guides "Compile a function" and "Many examples at once" show each.
    """


class KernelNotFound(PlugradError, NotImplementedError):
    """The backend does not implement a kernel, or no kernel has this name.

    Example: ``plugrad.run_kernel("Sine", {"x": x})``.

    Remedy: run the kernel on a backend that implements it (the message lists them), let another backend
    compute it with the setting ``fallback``, or register an implementation with `register_kernel`.
    """

    def __init__(self, message: str, kernel_name: str = "") -> None:
        """Create the error about the kernel called `kernel_name`."""
        super().__init__(message)
        self.kernel_name = kernel_name


class KernelFailed(PlugradError, RuntimeError):
    """An implementation of a kernel raised an error of its own, or broke the kernel's contract.

    Example: an implementation in a plugin that divides by zero in Python. With the setting ``debug``, also
    one that returns another number of outputs, another shape or another dtype than the contract says, or
    that changes an input.

    Remedy: the message names the kernel, the backend and the distribution; report the error to the
    distribution's authors. The original error, if there is one, is chained to it.
    """


class NotFinite(PlugradError, FloatingPointError):
    """The result of a kernel has a NaN or an infinity, although its inputs are finite.

    Example: ``plugrad.log(-1.0)`` with the setting ``check_finite``. Without it, no such error occurs.

    Remedy: the message names the kernel and the range of each input. Keep the inputs where the function is
    finite, for example by `clip` or by a small number that is added to a divisor.
    """


class BackendFailed(PlugradError, RuntimeError):
    """A method of a backend, such as `to_numpy` or `close`, raised an error of its own, or returned an invalid result.

    Example: a backend in a plugin whose `to_numpy` returns None.

    Remedy: the message names the method, the backend and the distribution; report the error to the
    distribution's authors. The original error is chained to it. The other backends keep working.
    """


class GradientNotFound(PlugradError, NotImplementedError):
    """A kernel between the differentiated inputs and the result has no gradient, or there is no path between them.

    Example: ``plugrad.grad(lambda x: plugrad.asarray(1.0))(2.0)``, whose result does not depend on x.

    Remedy: declare a gradient with `register_gradient`, or use `stop_gradient` if no gradient should flow
    through the kernel. If the result need not depend on an input, pass ``allow_unused=True``.
    """


class GradientLost(PlugradError, TypeError):
    """An array or buffer is read from a tensor that is being differentiated, so computations with it lose the gradient.

    Example: ``plugrad.grad(lambda x: plugrad.sum(x * np.median(x.numpy())))([1.0, 2.0])``.

    Remedy: compute with plugrad's ops, or with NumPy's functions on the tensor itself. If the values are
    meant as constants, write ``plugrad.stop_gradient(x).numpy()``.
    """


class RegistrationError(PlugradError, ValueError):
    """A kernel or gradient cannot be registered: the key is taken, or the function does not fit the contract.

    Example: registering ``("Add", "cpu")`` a second time.

    Remedy: pass ``replace=True``, use `override_kernel` or `override_gradient` for a temporary replacement,
    or correct the parameters that the message names.
    """


class UnsupportedDtype(DTypeError):
    """The backend or the kernel does not support a dtype; plugrad never narrows silently what you ask for.

    Example: ``plugrad.zeros(3, dtype="float64", device="webgpu")``.

    Remedy: use a dtype that the backend has, as in ``plugrad.asarray(x, dtype="float32")``, or compute on
    the cpu backend. Data for which you do not ask for a dtype convert by themselves, unless the setting
    ``unsupported_dtype`` is "error".
    """

    def __init__(self, message: str, not_stored: str = "") -> None:
        """Create the error; `not_stored` is the name of a dtype that the backend does not store at all."""
        super().__init__(message)
        self.not_stored = not_stored


class DisposedTensor(PlugradError, RuntimeError):
    """A tensor is used after `dispose`, or after the end of the `tidy` block in which it was created.

    Example: ``x.dispose(); x + 1``.

    Remedy: return the tensor from the block, or protect it with `plugrad.keep`.
    """


class OutOfMemory(PlugradError, MemoryError):
    """An allocation would exceed the memory of the device, the address space or the memory limit.

    Example: ``plugrad.zeros(10**12)``, or any large tensor after ``plugrad.set_memory_limit(1000)``.

    Remedy: use smaller batches, release tensors, or raise the limit with `set_memory_limit` or the setting
    ``memory_limit``.
    """


class PluginNotFound(PlugradError, LookupError):
    """No installed plugin of this kind has this name.

    Example: ``plugrad.op_pack("acme")`` if no distribution declares ``acme`` in the group ``plugrad.ops``.

    Remedy: install the plugin, or choose one of those that the message lists.
    """


class PluginUnavailable(PlugradError, RuntimeError):
    """A plugin is installed but cannot be loaded.

    Example: ``plugrad.op_pack("acme")`` if ``acme`` needs a library that is not installed.

    Remedy: correct what the message gives as the reason; the original error is chained to it. Everything
    else keeps working.
    """


class PluginConflict(PlugradError, RuntimeError):
    """Two installed distributions bring a backend, or another plugin, with the same name.

    Example: ``plugrad.use("acme")`` if ``acme-gpu`` and ``acme-cpu`` both bring a backend called ``acme``.

    Remedy: choose one as ``"distribution::name"``, disable one with the setting ``plugins.disable``, or
    uninstall one.
    """


CANNOT_RUN_ERRORS: Final = (BackendNotFound, BackendUnavailable, PluginConflict)
"""The errors for a backend that cannot be used here; catch them to continue with another backend."""


class DamagedFile(PlugradError, ValueError):
    """A file is cut off, or its parts do not fit together, or it has another format.

    Example: ``plugrad.load("weights.safetensors")`` after a download that broke off.

    Remedy: copy or download the file again; the message says what is wrong with it. `plugrad.save` leaves
    no such files, whatever ends the process.
    """


class UnsupportedModel(PlugradError, NotImplementedError):
    """A model needs something that plugrad does not do.

    Example: ``plugrad.tfjs.load_graph_model("model")`` of a model with hash tables, or one in ONNX with an unknown
    operator.

    Remedy: it is raised when the model is read or written, before anything runs. The message names each node and
    what could be done about it.
    """


class ConfigError(PlugradError, ValueError):
    """A configuration file, key or value is malformed.

    Example: ``PLUGRAD_MEMORY_LIMIT=lots``, or a misspelt key in ``plugrad.toml``.

    Remedy: correct it; the message names the layer, the key, the value and the accepted values.
    """


def warn(message: str, category: type[Warning] = RuntimeWarning) -> None:
    """Issue a warning that points to the line outside plugrad that led here."""
    import inspect  # needed only when something is wrong
    import warnings

    frame, level = inspect.currentframe(), 1
    while frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == "plugrad":
        frame, level = frame.f_back, level + 1
    warnings.warn(escape_control_characters(message), category, stacklevel=level)


def escape_control_characters(text: str) -> str:
    r"""Return a text in which characters that control a terminal or the writing direction are escape sequences.

    >>> escape_control_characters("acme\x1b[2J")
    'acme\\x1b[2J'

    Line breaks and tabs stay.
    """
    if text.isprintable():
        return text
    import re  # needed only when something is wrong

    return re.sub(
        _CONTROL_CHARACTERS, lambda match: match[0].encode("unicode_escape").decode(), text
    )


_CONTROL_CHARACTERS: Final = (
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 without tab and line feed, delete, C1
    r"\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"  # marks of direction, separators of lines
    r"\ufeff\ud800-\udfff]"  # the mark of byte order, halves of surrogate pairs
)
"""The regular expression of characters that control a terminal or the writing direction."""


def describe_exception(error: BaseException) -> str:
    """Return the type and the shortened text of an exception that foreign code has raised."""
    try:
        text = str(error)
    except Exception as failure:
        if is_interruption(failure):
            raise
        text = "an error that cannot say what is wrong"
    return f"{type(error).__name__}: {text if len(text) <= 2000 else text[:2000] + '…'}"


def short_repr(value: object) -> str:
    """Return a short text for an argument in a message, however long its own representation is."""
    from reprlib import Repr  # needed only when something is wrong

    short = Repr()
    short.maxtuple = short.maxlist = 12
    short.maxstring = short.maxother = 200
    try:
        return short.repr(value)
    except (
        Exception
    ) as failure:  # its __repr__ is not plugrad's, and an int may have too many digits
        if is_interruption(failure):
            raise
        return f"<{type(value).__name__}>"


def suggest_similar_name(
    name: object, known_names: Iterable[str], *, min_similarity: float = 0.6
) -> str:
    """Return ``" (did you mean 'x'?)"`` if a known name is close to `name`, in any case, otherwise an empty string."""
    from difflib import get_close_matches  # needed only when something is wrong

    if not isinstance(name, str) or len(name) > 100:
        return ""
    by_lower_case = {k.lower(): k for k in known_names}
    close = get_close_matches(name.lower(), by_lower_case, n=1, cutoff=min_similarity)
    return f" (did you mean {by_lower_case[close[0]]!r}?)" if close else ""


def raise_missing_name(namespace: ModuleType, instead: Mapping[str, str], name: str) -> NoReturn:
    """Raise the error for a name that a package lacks; `instead` maps such names to what to write instead.

    >>> import plugrad
    >>> instead = {"Linear": "write nn.Dense(units)"}
    >>> raise_missing_name(plugrad, instead, "Linear")
    Traceback (most recent call last):
    AttributeError: plugrad does not have 'Linear': write nn.Dense(units)

    Args:
        namespace: the module, which calls this in its ``__getattr__``.
        instead: what to write instead of ``name``, or of ``module.name`` in a module of the package.
        name: the name that was asked for; if `instead` lacks it, a similar name of the module is suggested.

    Raises:
        AttributeError: always.
    """
    key = f"{namespace.__name__}.{name}".partition(".")[2]
    remedy = ""
    if key in instead:
        remedy = f": {instead[key]}"
    elif not name.startswith("_"):  # programs, not people, ask for these; the search takes 4 ms
        remedy = suggest_similar_name(name, dir(namespace))
    raise AttributeError(f"{namespace.__name__} does not have {name!r}{remedy}", name=name)
