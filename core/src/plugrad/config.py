"""Configuration in layers: what is set, where, and which layer wins.

First match wins: `plugrad.config.set` > environment > ``plugrad.toml`` or ``[tool.plugrad]`` of the
project > the user's ``config.toml`` > the default. (Arguments and `plugrad.use` are stronger than
all of them; see `plugrad.selection`.) Reading is strict: an unknown key or a value of the wrong
form is an error that names the layer.
"""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from plugrad.errors import ConfigError, suggestion

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

ENVIRONMENT_PREFIX: Final = "PLUGRAD_"
TEST_VARIABLES: Final = ("PLUGRAD_EXPECT_BACKENDS",)
"""Variables that test suites read: not settings, and not misspelt ones."""


class Key(NamedTuple):
    """One setting: its meaning, the form of its value, and the default."""

    name: str
    meaning: str
    accepts: str
    parse: Callable[[object], Any]
    default: Any

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return ENVIRONMENT_PREFIX + self.name.replace(".", "_").upper()


class Setting(NamedTuple):
    """A value and the layer that decided it."""

    key: str
    value: Any
    layer: str


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError
    return value.strip()


def _names(value: object) -> tuple[str, ...]:
    """Read a list of names, or one string with commas."""
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, list | tuple) or not all(
        isinstance(p, str) for p in cast("list[object]", parts)
    ):
        raise ValueError
    return tuple(p.strip() for p in cast("list[str]", parts) if p.strip())


def _bytes(value: object) -> int | None:
    """Read a number of bytes: ``1048576``, ``"512MiB"``, ``"2GB"``, or ``"none"``."""
    if value is None or value == "none":
        return None
    match = re.fullmatch(r"(\d+)\s*(|[KMGT]i?)B?", str(value))
    if match is None or isinstance(value, bool):
        raise ValueError
    prefix = match[2]
    step = 1024 if prefix.endswith("i") else 1000
    return int(match[1]) * step ** " KMGT".index(prefix[:1] or " ")


KEYS: Final = {
    key.name: key
    for key in (
        Key(
            "backend",
            "the backend and device to run on, or several in order of preference",
            "a name such as 'webgpu', 'webgpu:1' or 'webgpu,cpu'",
            _text,
            None,
        ),
        Key(
            "memory_limit",
            "the most bytes that tensors may use on each backend",
            "a number of bytes such as 1000000, '512MiB' or '2GB', or 'none'",
            _bytes,
            None,
        ),
        Key(
            "plugins.disable",
            "plugins that are listed but never loaded",
            "names of backends or distributions, such as 'acme' or 'plugrad-acme'",
            _names,
            (),
        ),
        Key(
            "plugins.allow_auto",
            "third parties' distributions whose backends may be chosen automatically",
            "name patterns, such as 'acme-*'",
            _names,
            (),
        ),
    )
}


class Config:
    """The settings of this process; one object, `plugrad.config`.

    >>> import plugrad
    >>> plugrad.config.set("memory_limit", "1GiB")
    >>> plugrad.config.get("memory_limit")
    1073741824
    >>> plugrad.config.explain("memory_limit").layer
    'plugrad.config.set'
    >>> plugrad.config.reset("memory_limit")
    """

    def __init__(self) -> None:
        """Start without any value set; files are read when they are first needed."""
        self._set: dict[str, Any] = {}
        self._files: list[tuple[str, dict[str, Any]]] | None = None
        self.version = 0
        """Grows with every change, so that decisions made from the settings can be remembered."""

    def get(self, name: str) -> Any:
        """Return the value of a setting.

        Raises:
            ConfigError: the key is unknown, or the value in the deciding layer is malformed.
        """
        return self.explain(name).value

    def set(self, name: str, value: Any) -> None:
        """Set a value for this process.

        Raises:
            ConfigError: the key is unknown, or the value is malformed.
        """
        self._set[name] = _parsed(name, value, "plugrad.config.set")
        self.version += 1

    def reset(self, name: str | None = None) -> None:
        """Forget what was `set`, for one key or for all, and read the configuration files again when needed."""
        if name is None:
            self._set.clear()
        else:
            _key(name, "plugrad.config.reset")
            self._set.pop(name, None)
        self._files = None
        self.version += 1

    def explain(self, name: str) -> Setting:
        """Return the value of a setting and the layer that decided it."""
        key = _key(name, "plugrad.config")
        if name in self._set:
            return Setting(name, self._set[name], "plugrad.config.set")
        if key.variable in os.environ:
            layer = f"environment variable {key.variable}"
            return Setting(name, _parsed(name, os.environ[key.variable], layer), layer)
        for layer, values in self.files():
            if name in values:
                return Setting(name, values[name], layer)
        return Setting(name, key.default, "default")

    def files(self) -> list[tuple[str, dict[str, Any]]]:
        """Return the configuration files that were found, strongest first, each with its values."""
        if self._files is None:
            check_environment(os.environ)
            self._files = list(_read_files())
        return self._files

    def __iter__(self) -> Iterator[Setting]:
        return (self.explain(name) for name in KEYS)


def check_environment(environment: Mapping[str, str]) -> None:
    """Raise if a variable looks like a misspelt setting.

    Raises:
        ConfigError: naming the variable and the one that was probably meant.
    """
    from difflib import get_close_matches  # needed rarely, like what reads files below

    known = {key.variable.removeprefix(ENVIRONMENT_PREFIX) for key in KEYS.values()}
    for name in environment.keys() - TEST_VARIABLES:
        prefix, rest = name[: len(ENVIRONMENT_PREFIX)], name[len(ENVIRONMENT_PREFIX) :]
        close = get_close_matches(rest, known, n=1)
        if prefix == ENVIRONMENT_PREFIX and rest not in known and close:
            raise ConfigError(
                f"environment variable {name} is not a setting "
                f"(did you mean {ENVIRONMENT_PREFIX + close[0]!r}?); unset it, or correct its name"
            )


def _key(name: str, layer: str) -> Key:
    if name not in KEYS:
        raise ConfigError(
            f"{layer}: {name!r} is not a setting{suggestion(name, KEYS)}; the settings are {', '.join(KEYS)}"
        )
    return KEYS[name]


def _parsed(name: str, value: object, layer: str) -> Any:
    key = _key(name, layer)
    try:
        return key.parse(value)
    except ValueError:
        raise ConfigError(
            f"{layer}: {name}={value!r} is malformed; expected is {key.accepts}"
        ) from None


def _read_files() -> Iterator[tuple[str, dict[str, Any]]]:
    from pathlib import Path

    for path, section in (*_project_files(Path.cwd()), (user_file(), ())):
        if path.is_file() and (table := _table(path, section)) is not None:
            yield (
                str(path),
                {
                    name: _parsed(name, value, str(path))
                    for name, value in _flattened(table, str(path))
                },
            )


def _project_files(folder: Path) -> Iterator[tuple[Path, tuple[str, ...]]]:
    """Yield the nearest ``plugrad.toml``, else the nearest ``pyproject.toml`` with our section, from here upwards."""
    for place in (folder, *folder.parents):
        if (place / "plugrad.toml").is_file():
            yield place / "plugrad.toml", ()
            return
        if (place / "pyproject.toml").is_file() and _table(
            place / "pyproject.toml", ("tool", "plugrad")
        ) is not None:
            yield place / "pyproject.toml", ("tool", "plugrad")
            return


def user_file() -> Path:
    """Return where the user's own configuration is looked for."""
    from pathlib import Path

    if sys.platform == "win32":
        base = Path(os.environ.get("APPDATA", Path.home() / "AppData" / "Roaming"))
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Application Support"
    else:
        base = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return base / "plugrad" / "config.toml"


def _table(path: Path, section: tuple[str, ...]) -> dict[str, Any] | None:
    import tomllib

    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(
            f"{path}: cannot be read: {error}; correct the file, or remove it"
        ) from error
    for part in section:
        if not isinstance(table.get(part), dict):
            return None
        table = table[part]
    return table


def _flattened(table: Mapping[str, Any], layer: str) -> Iterator[tuple[str, Any]]:
    """Yield dotted names: a subtable ``[plugins]`` gives ``plugins.disable``."""
    for name, value in table.items():
        if isinstance(value, dict):
            for inner, item in _flattened(cast("dict[str, Any]", value), layer):
                yield f"{name}.{inner}", item
        else:
            yield name, value


config: Final = Config()
