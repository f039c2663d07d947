"""The settings of plugrad in one table, each with its meaning, the form of its value and its default."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ENVIRONMENT_PREFIX: Final = "PLUGRAD_"
"""The beginning of the names of environment variables for settings."""


class SettingKey(NamedTuple):
    """One setting: its meaning, the form of its value, and the default."""

    name: str
    meaning: str
    """What the setting does, in a sentence."""
    accepts: str
    """The accepted values, in words."""
    parse: Callable[[object], Any]
    """The function that converts a value as written, or raises ValueError if it is malformed."""
    default: Any
    """The value where no layer sets one."""

    @property
    def variable(self) -> str:
        """The name of the environment variable for the setting."""
        return ENVIRONMENT_PREFIX + self.name.replace(".", "_").upper()


class Option(NamedTuple):
    """A setting that a backend declares, such as ``webgpu.threads``."""

    type: str
    """``"string"``, ``"integer"``, ``"number"`` or ``"boolean"``."""
    summary: str
    """What it does, in a line."""
    default: Any = None
    """The value where no layer sets one; None if it has no default."""


# --- the forms of values: a ValueError means "malformed" -----------------------------------------


def _parse_string(value: object) -> str:
    """Return a value as a string, or raise ValueError."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError
    return value.strip()


def _parse_names(value: object) -> tuple[str, ...]:
    """Parse a list of names, or one string of names separated by commas."""
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, list | tuple) or not all(
        isinstance(p, str) for p in cast("list[object]", parts)
    ):
        raise ValueError
    return tuple(p.strip() for p in cast("list[str]", parts) if p.strip())


def _parse_bytes(value: object) -> int | None:
    """Parse a number of bytes: ``1048576``, ``"512MiB"``, ``"2GB"``, or ``"none"``."""
    if value is None or value == "none":
        return None
    match = re.fullmatch(r"(\d+)\s*(|[KMGT]i?)B?", str(value))
    if match is None or isinstance(value, bool):
        raise ValueError
    prefix = match[2]
    step = 1024 if prefix.endswith("i") else 1000
    size = int(match[1]) * step ** " KMGT".index(prefix[:1] or " ")
    if size >= 1 << 63:
        raise ValueError
    return size


_VALUE_OF_BOOLEAN_WORD: Final[Mapping[str, bool]] = {
    **dict.fromkeys(("1", "true", "yes", "on"), True),
    **dict.fromkeys(("0", "false", "no", "off"), False),
}
"""The words that are accepted as true or false."""


def _parse_boolean(value: object) -> bool:
    """Return a value, which may be a word such as ``"on"``, as a bool, or raise ValueError."""
    try:
        return _VALUE_OF_BOOLEAN_WORD[str(value).strip().lower()]
    except KeyError:
        raise ValueError from None


def _parse_integer(value: object) -> int:
    """Return a value, which may be text, as an integer, or raise ValueError."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError
    return int(value)


def _parse_number(value: object) -> float:
    """Return a value, which may be text, as a float, or raise ValueError."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError
    return float(value)


def _parse_fallback(value: object) -> str:
    """Return the value of the setting ``fallback`` if it is one of its words, or raise ValueError."""
    if value not in ("error", "warn", "silent"):
        raise ValueError
    return cast("str", value)


def _parse_jit(value: object) -> str:
    """Return the value of the setting ``jit`` if it is one of its words, or raise ValueError."""
    if value not in ("compile", "replay", "off"):
        raise ValueError
    return cast("str", value)


def _parse_unsupported_dtype(value: object) -> str:
    """Return the value of the setting ``unsupported_dtype`` if it is one of its words, or raise ValueError."""
    if value not in ("always", "convert", "error", "silent"):
        raise ValueError
    return cast("str", value)


ACCEPTED_BOOLEANS: Final = "1, true, yes or on; 0, false, no or off"
"""The words for the accepted values of a setting that is a bool."""

SETTING_KEYS: Final[Mapping[str, SettingKey]] = {
    key.name: key
    for key in (
        SettingKey(
            "backend",
            "the backend and device to run on, or several in order of preference",
            "a name such as 'webgpu', 'webgpu:1' or 'webgpu,cpu'",
            _parse_string,
            None,
        ),
        SettingKey(
            "check_finite",
            "whether a kernel whose inputs are finite and whose result has a NaN or an infinity is an error, "
            "which names the kernel and its inputs",
            ACCEPTED_BOOLEANS,
            _parse_boolean,
            False,
        ),
        SettingKey(
            "debug",
            "whether the result of each kernel is compared with its contract (number of outputs, shapes, "
            "dtypes), changed inputs and positions out of range are errors, and there are warnings when the "
            "gradient or the implementation of a kernel is replaced, and when a tensor that is being "
            "differentiated is read as a number or a text; functions of jit run untraced in each call, too, and other "
            "bits are an error, or other values where the gradient of a loop adds",
            ACCEPTED_BOOLEANS,
            _parse_boolean,
            False,
        ),
        SettingKey(
            "fallback",
            "what happens when the active backend does not implement a kernel: an error, or another "
            "backend computes it, silently or with a warning for each kernel",
            "'error', 'warn' or 'silent'",
            _parse_fallback,
            "error",
        ),
        SettingKey(
            "fallback_order",
            "the backends that compute what the active one cannot, in the order in which they are tried; if it "
            "is empty, the backends that may be chosen automatically, by priority",
            "names of backends, such as 'webgpu,cpu'",
            _parse_names,
            (),
        ),
        SettingKey(
            "jit",
            "what `plugrad.jit` does: the device compiles what has been traced, or its kernels are called one by one, "
            "or functions are not traced at all",
            "'compile', 'replay' or 'off'",
            _parse_jit,
            "compile",
        ),
        SettingKey(
            "memory_limit",
            "the maximum number of bytes that tensors may use on each backend",
            "a number of bytes such as 1000000, '512MiB' or '2GB', or 'none'",
            _parse_bytes,
            None,
        ),
        SettingKey(
            "packs",
            "the kernel packs to prefer, the first one first, and without a warning; the others follow by the "
            "priority that they declare, then by the names of their distributions",
            "names of packs without the backend, such as 'acme,native', or 'plugrad-acme::cpu.acme'",
            _parse_names,
            (),
        ),
        SettingKey(
            "unsupported_dtype",
            "what happens to NumPy's arrays and Python's data whose dtype the backend does not have, if no "
            "dtype is asked for: they take the nearest one that it has, with a warning for each dtype or "
            "silently, or there is an error; 'always' also replaces, silently, a dtype that is asked for",
            "'convert', 'silent', 'always' or 'error'",
            _parse_unsupported_dtype,
            "convert",
        ),
        SettingKey(
            "writable_arrays",
            "whether an array that NumPy makes of a tensor, as in np.asarray(x), is a copy that can be written to, "
            "which some libraries in C ask for without writing; otherwise it is read-only, and on the CPU shares the "
            "tensor's memory",
            ACCEPTED_BOOLEANS,
            _parse_boolean,
            False,
        ),
        SettingKey(
            "plugins.disable",
            "plugins that are listed but never loaded",
            "names of plugins or distributions, such as 'acme', 'plugrad-acme' or 'plugrad-acme::acme'",
            _parse_names,
            (),
        ),
        SettingKey(
            "plugins.allow_auto",
            "third-party distributions whose backends may be chosen automatically",
            "name patterns, such as 'acme-*'",
            _parse_names,
            (),
        ),
        SettingKey(
            "plugins.trace",
            "whether loading a plugin and calling a hook writes a line to the standard error stream",
            ACCEPTED_BOOLEANS,
            _parse_boolean,
            False,
        ),
    )
}
"""All settings except the options of backends, by name."""


def may_plugins_suggest(name: str) -> bool:
    """Return whether plugins may suggest a setting; they may not suggest which plugins are loaded or preferred."""
    return name != "packs" and not name.startswith("plugins.")


OPTION_TYPES: Final[Mapping[str, tuple[str, Callable[[object], Any]]]] = {
    "string": ("a string", _parse_string),
    "integer": ("an integer", _parse_integer),
    "number": ("a number", _parse_number),
    "boolean": (ACCEPTED_BOOLEANS, _parse_boolean),
}
"""The types of a backend's settings: accepted values, and how they are read."""


def option_key(backend: str, name: str, option: Option) -> SettingKey:
    """Return the key of a setting called `name` that the manifest of a backend, given by name, declares."""
    accepts, parse = OPTION_TYPES[option.type]
    return SettingKey(f"{backend}.{name}", option.summary, accepts, parse, option.default)


def undeclared_key(name: str) -> SettingKey:
    """Return the key of a setting for a backend that declares none; the value is passed on as written."""
    return SettingKey(
        name, "whatever the backend makes of it", "anything", lambda value: value, None
    )
