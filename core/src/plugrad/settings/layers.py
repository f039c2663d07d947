"""Configuration in layers: what is set, where, and which layer wins.

The environment and the files are read once, when a setting is first asked for, and again after `Config.reread`.
The first match wins: a block `plugrad.config.override` > `plugrad.config.set` > environment >
``plugrad.toml`` or ``[tool.plugrad]`` of the project > the user's ``config.toml`` > the suggestions
of a plugin's ``plugrad_configure`` > the default.
(Arguments and `plugrad.use` override all of them; see `plugrad.discovery.selection`.) Reading is
strict: an unknown key or a value of the wrong form is an error that names the layer.

`plugrad.settings.keys` has the table of the settings. A backend may have its own settings: in a file,
the section with its name; in the environment, ``PLUGRAD_<BACKEND>_<NAME>``.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from threading import RLock
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from plugrad.errors import ConfigError, short_repr, suggest_similar_name
from plugrad.interruptions import hold_safely, is_interruption
from plugrad.settings import journal
from plugrad.settings.keys import (
    ENVIRONMENT_PREFIX,
    SETTING_KEYS,
    Option,
    SettingKey,
    may_plugins_suggest,
    option_key,
    undeclared_key,
)
from plugrad.settings.toml_files import parse_toml, read_regular_file

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping
    from pathlib import Path

SuggestedLayers = list[tuple[str, "Mapping[str, Any]"]]
"""The layers of settings that plugins suggest, each with its name and its settings."""


class _Overrides(NamedTuple):
    """The values that `config.override` has set in one context."""

    entries: tuple[tuple[object, str, Any], ...] = ()
    """The block, the setting's name and the value of each override, the outermost first."""
    values: Mapping[str, Any] = MappingProxyType({})
    """The value that is in effect for each overridden setting, by name."""


_NO_OVERRIDES: Final = _Overrides()
"""The overrides of a context in which `config.override` has set nothing."""
_overrides_variable: Final = ContextVar("plugrad_overrides", default=_NO_OVERRIDES)
"""The overrides of each thread or task."""


def overridden_settings() -> Mapping[str, Any]:
    """Return the values that `config.override` has set in this context."""
    return _overrides_variable.get().values


def _set_overrides(entries: tuple[tuple[object, str, Any], ...]) -> None:
    """Set the overrides of this thread or task."""
    _overrides_variable.set(_Overrides(entries, {name: value for _, name, value in entries}))


MAX_FILE_BYTES: Final = 1 << 20
"""The largest configuration file, in bytes, that is read."""
TEST_VARIABLES: Final = ("PLUGRAD_EXPECT_BACKENDS",)
"""Variables that test suites read: they are neither settings nor misspelt settings."""


class Setting(NamedTuple):
    """A value and the layer that decided it."""

    key: str
    """The name of the setting."""
    value: Any
    """The parsed value."""
    layer: str
    """The layer, such as an environment variable or the path of a file."""


class Config:
    """The settings of this process; one object, `plugrad.config`.

    >>> import plugrad
    >>> plugrad.config.set("memory_limit", "1GiB")
    >>> plugrad.config.get("memory_limit")
    1073741824
    >>> plugrad.config.explain("memory_limit").layer
    'plugrad.config.set'
    >>> plugrad.config.reset("memory_limit")

    Iterating gives every setting with the layer that decided it.
    """

    def __init__(self) -> None:
        """Start without any value set; files and the environment are read when they are first needed."""
        self.options_by_backend: Callable[[], Mapping[str, Mapping[str, Option] | None]] = dict
        """The settings that installed backends declare; None for a backend that accepts any."""
        self.suggestions: Callable[[], SuggestedLayers] = list
        """The settings that plugins suggest. `plugrad.discovery` sets this attribute and the one above."""
        self.listeners: list[Callable[[str], None]] = []
        """Called with the name of a setting whose value may have changed."""
        self._set: dict[str, Any] = {}
        self._files: list[tuple[str, dict[str, Any]]] | None = None
        self._environment: dict[str, str] | None = None
        self._lock = hold_safely(RLock())
        self._changes = 0

    def renew_lock(self) -> None:
        """Create a new lock in a forked child, because the parent may have held the old one."""
        self._lock = hold_safely(RLock())

    @property
    def state(self) -> tuple[object, ...]:
        """A key that changes whenever a setting does, for caching decisions that depend on settings."""
        return self._changes, _overrides_variable.get().values

    def keys(self) -> tuple[SettingKey, ...]:
        """Return all settings: name, meaning, accepted values, default, environment variable.

        >>> plugrad.config.keys()[0].variable
        'PLUGRAD_BACKEND'
        """
        return tuple(SETTING_KEYS.values())

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
        parsed = self._parse_value(name, value, "plugrad.config.set")
        self._set_and_record(name, self._set.get(name, journal.MISSING_VALUE), parsed)

    def _set_and_record(self, setting_name: str, old_value: object, new_value: object) -> None:
        """Replace a setting's value of `set`, and record how to undo it; `journal.MISSING_VALUE` means no value."""
        undo = partial(self._exchange, setting_name, new_value, old_value)
        redo = partial(self._exchange, setting_name, old_value, new_value)
        journal.record_change(("setting", setting_name), undo, redo)
        redo()

    def _exchange(self, setting_name: str, old_value: object, new_value: object) -> None:
        """Replace a setting's value unless it has changed since, and notify the listeners."""
        with self._lock:
            journal.exchange_table_entry(self._set, setting_name, old_value, new_value)
            self._changes += 1
        self._notify_listeners(setting_name)

    @contextmanager
    def override(self, name: str, value: Any) -> Generator[None]:
        """Set a value for a block, in this thread or task only. Blocks may end in any order.

        >>> with plugrad.config.override("fallback", "silent"):
        ...     plugrad.config.explain("fallback")
        Setting(key='fallback', value='silent', layer='plugrad.config.override')

        `plugrad.carry_context` carries it to other threads.

        Raises:
            ConfigError: the key is unknown, or the value is malformed.
        """
        parsed = self._parse_value(name, value, "plugrad.config.override")
        mark = object()
        try:
            _set_overrides((*_overrides_variable.get().entries, (mark, name, parsed)))
            self._notify_listeners(name)
            yield
        finally:
            _set_overrides(
                tuple([e for e in _overrides_variable.get().entries if e[0] is not mark])
            )
            self._notify_listeners(name)

    def reset(self, name: str | None = None) -> None:
        """Drop the values that `set` made, for one key or all, and read files and environment again; see `reread`."""
        if name is not None:
            self._find_key(name, "plugrad.config.reset")
        with self._lock:
            changed = [(n, value) for n, value in self._set.items() if name in (n, None)]
        self.reread()
        for n, value in changed:
            self._set_and_record(n, value, journal.MISSING_VALUE)

    def reread(self) -> None:
        """Read the files and the environment again when a setting is next asked for: they have changed.

        >>> import os
        >>> os.environ["PLUGRAD_FALLBACK"] = "silent"
        >>> plugrad.config.reread()
        >>> plugrad.config.get("fallback")
        'silent'
        >>> del os.environ["PLUGRAD_FALLBACK"]
        >>> plugrad.config.reread()
        """
        with self._lock:
            self._files = self._environment = None
            self._changes += 1
        journal.record_change_number()

    def _notify_listeners(self, setting_name: str) -> None:
        """Call the listeners with the name of a setting that has changed."""
        for listener in self.listeners:
            listener(setting_name)

    def explain(self, name: str) -> Setting:
        """Return the value of a setting and the layer that decided it."""
        key = self._find_key(name, "plugrad.config")
        if name in (values := overridden_settings()):
            return Setting(name, values[name], "plugrad.config.override")
        if name in self._set:
            return Setting(name, self._set[name], "plugrad.config.set")
        if given := self.environment().get(key.variable):
            layer = f"environment variable {key.variable}"
            return Setting(name, self._parse_value(name, given, layer), layer)
        for layer, values in self.files():
            if name in values:
                return Setting(name, values[name], layer)
        for layer, values in self.suggestions() if may_plugins_suggest(name) else ():
            if name in values:
                return Setting(name, values[name], layer)
        return Setting(name, key.default, "default")

    def options(self, backend: str) -> dict[str, Setting]:
        """Return a backend's settings: those that it declares, or, if it declares none, those that are set.

        >>> plugrad.config.set("acme.threads", 4)  # acme is not installed, so any name is accepted
        >>> plugrad.config.options("acme")
        {'threads': Setting(key='acme.threads', value=4, layer='plugrad.config.set')}
        >>> plugrad.config.reset("acme.threads")

        Raises:
            ConfigError: a layer sets an option that the backend does not declare, or a malformed value.
        """
        if not isinstance(backend, str):  # pyright: ignore[reportUnnecessaryIsInstance] - people pass anything
            raise ConfigError(
                f"plugrad.config.options: {short_repr(backend)} is not the name of a backend"
            )
        declared = self.options_by_backend().get(backend) or ()
        named = {
            f"{backend}.{option}" for option in (*declared, *self._environment_options(backend))
        }
        for values in (overridden_settings(), self._set, *(values for _, values in self.files())):
            named.update(name for name in values if name.partition(".")[0] == backend)
        return {name.partition(".")[2]: self.explain(name) for name in sorted(named)}

    def files(self) -> list[tuple[str, dict[str, Any]]]:
        """Return the configuration files that were found, strongest first, each with its values."""
        if (files := self._files) is None:
            self.check_environment(self.environment())
            files = self._files = list(self._read_files())
        return files

    def environment(self) -> Mapping[str, str]:
        """Return the environment variables with plugrad's prefix, as they were when first needed."""
        if (found := self._environment) is None:
            found = self._environment = {
                name: given
                for name, given in os.environ.items()
                if name.startswith(ENVIRONMENT_PREFIX)
            }
        return found

    def __iter__(self) -> Iterator[Setting]:
        yield from map(self.explain, SETTING_KEYS)
        for backend in sorted(self.options_by_backend()):
            yield from (s for s in self.options(backend).values() if s.layer != "default")

    # --- keys ------------------------------------------------------------------------------------

    def _find_key(self, setting_name: str, layer: str) -> SettingKey:
        """Return the key of a setting; raise if a layer has a name that is not a setting."""
        if not isinstance(setting_name, str):  # pyright: ignore[reportUnnecessaryIsInstance] - people pass anything
            raise ConfigError(
                f"{layer}: {short_repr(setting_name)} is not a setting; its name is a string"
            )
        if setting_name in SETTING_KEYS:
            return SETTING_KEYS[setting_name]
        backend, _, option = setting_name.partition(".")
        if not option or backend == "plugins":
            raise ConfigError(
                f"{layer}: {setting_name!r} is not a setting{suggest_similar_name(setting_name, SETTING_KEYS)}; the "
                f"settings are {', '.join(SETTING_KEYS)}"
            )
        known = self.options_by_backend()
        if backend not in known:
            # A project may have settings for a backend that is not installed on this machine.
            close = suggest_similar_name(backend, ("plugins", *known))
            if close:
                raise ConfigError(
                    f"{layer}: {setting_name!r}: no backend is called {backend!r}{close}"
                )
            return undeclared_key(setting_name)
        declared = known[backend]
        if declared is None:
            return undeclared_key(setting_name)
        if option not in declared:
            options = ", ".join(declared) or "none"
            raise ConfigError(
                f"{layer}: {setting_name!r} is not a setting{suggest_similar_name(option, declared)}; "
                f"the options of backend {backend!r} are: {options}"
            )
        return option_key(backend, option, declared[option])

    def _parse_value(self, setting_name: str, value: object, layer: str) -> Any:
        """Return the parsed value of a setting; raise if it is malformed."""
        key = self._find_key(setting_name, layer)
        try:
            return key.parse(value)
        except (ValueError, OverflowError):
            raise ConfigError(
                f"{layer}: {setting_name}={short_repr(value)} is malformed; expected is {key.accepts}"
            ) from None

    def parse_settings(self, values: Mapping[str, object], layer: str) -> dict[str, Any]:
        """Return the values of a possibly nested table by setting name.

        Raises:
            ConfigError: a key is unknown, or a value is malformed.
        """
        return {
            name: self._parse_value(name, value, layer) for name, value in _flatten_table(values)
        }

    # --- the environment -------------------------------------------------------------------------

    def check_environment(self, environment: Mapping[str, str]) -> None:
        """Raise if an environment variable with plugrad's prefix is not a setting.

        Raises:
            ConfigError: the message names the variable and the setting that was probably meant.
        """
        known = {key.variable.removeprefix(ENVIRONMENT_PREFIX) for key in SETTING_KEYS.values()}
        for name in environment.keys() - TEST_VARIABLES:
            rest = name.removeprefix(ENVIRONMENT_PREFIX)
            if rest in known:
                continue
            from difflib import get_close_matches  # rarely needed, like the file readers below

            close = get_close_matches(rest, known, n=1)
            if close and self._backend_of_variable(name) is None:
                raise ConfigError(
                    f"environment variable {name} is not a setting "
                    f"(did you mean {ENVIRONMENT_PREFIX + close[0]!r}?); unset it, or correct its name"
                )

    def _backend_of_variable(self, variable: str) -> str | None:
        """Return the installed backend whose option an environment variable sets; the longest name wins."""
        rest = variable.removeprefix(ENVIRONMENT_PREFIX)
        owners = [name for name in self.options_by_backend() if rest.startswith(f"{name.upper()}_")]
        return max(owners, key=len, default=None)

    def _environment_options(self, backend: str) -> Iterator[str]:
        """Yield the options of a backend that the environment sets."""
        prefix = f"{ENVIRONMENT_PREFIX}{backend.upper()}_"
        settings = {key.variable for key in SETTING_KEYS.values()}
        for variable, given in self.environment().items():
            is_ours = given and variable.startswith(prefix) and variable not in settings
            if is_ours and self._backend_of_variable(variable) in (backend, None):
                yield variable.removeprefix(prefix).lower()

    def _read_files(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the path and the settings of each configuration file, the strongest first."""
        from pathlib import Path

        try:
            folder = Path.cwd()
        except FileNotFoundError:  # it has been deleted, and so have the files of a project in it
            project = ()
        else:
            project = _project_files(folder)
        for path, section in (*project, (user_file(), ())):
            if path.is_file() and (table := _read_section(path, section)) is not None:
                yield str(path), self.parse_settings(table, str(path))


# --- files ---------------------------------------------------------------------------------------


def _flatten_table(table: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield dotted names and values: ``disable`` in the table ``[plugins]`` becomes ``plugins.disable``."""
    for name, value in table.items():
        if isinstance(value, dict):
            for inner, item in _flatten_table(cast("dict[str, Any]", value)):
                yield f"{name}.{inner}", item
        else:
            yield name, value


def _project_files(folder: Path) -> Iterator[tuple[Path, tuple[str, ...]]]:
    """Yield the nearest ``plugrad.toml``, else the nearest ``pyproject.toml`` with our section, `folder` first."""
    for place in (folder, *folder.parents):
        if (place / "plugrad.toml").is_file():
            yield place / "plugrad.toml", ()
            return
        if (place / "pyproject.toml").is_file() and _read_section(
            place / "pyproject.toml", ("tool", "plugrad")
        ) is not None:
            yield place / "pyproject.toml", ("tool", "plugrad")
            return


def user_file() -> Path:
    """Return the path of the user's configuration file."""
    from pathlib import Path

    if sys.platform == "win32":
        base = Path(os.environ.get("APPDATA", Path.home() / "AppData" / "Roaming"))
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Application Support"
    else:
        base = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return base / "plugrad" / "config.toml"


def _read_section(path: Path, table_path: tuple[str, ...]) -> dict[str, Any] | None:
    """Return the nested table of a TOML file at a path of keys, or None if the file does not have it."""
    try:
        table: Any = parse_toml(read_regular_file(path, MAX_FILE_BYTES))
    except (OSError, ValueError) as error:
        if is_interruption(error):
            raise
        raise ConfigError(
            f"{path}: cannot be read: {error}; correct the file, or remove it"
        ) from error
    for part in table_path:
        if not isinstance(table.get(part), dict):
            return None
        table = table[part]
    return table


config: Final = Config()
"""The settings of this process."""

if hasattr(os, "register_at_fork"):  # another thread may hold the lock when the process is forked
    os.register_at_fork(after_in_child=config.renew_lock)
