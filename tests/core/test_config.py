"""Configuration: every layer, which one wins, and how strictly it is read."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

import plugrad
from plugrad.errors import ConfigError
from plugrad.settings.layers import SETTING_KEYS, Setting, user_file

config = plugrad.config


@pytest.fixture
def project_folder(tmp_path, monkeypatch):
    """A folder with project settings, two levels above the current one."""
    inner = tmp_path / "project" / "src" / "inner"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    monkeypatch.delenv("PLUGRAD_BACKEND")
    config.reset()
    return tmp_path / "project"


@pytest.fixture
def user_config_file(tmp_path, monkeypatch):
    """The path of the user's configuration file, which does not exist yet."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("sys.platform", "linux")
    (tmp_path / "home" / "plugrad").mkdir(parents=True)
    return tmp_path / "home" / "plugrad" / "config.toml"


def reload_setting(name="memory_limit"):
    config.reset()
    return config.explain(name)


# --- layers ---------------------------------------------------------------------------------------


def test_default_values_of_settings(project_folder, monkeypatch):
    monkeypatch.delenv("PLUGRAD_WEBGPU_HOST_ELEMENTS", raising=False)  # that of tests of webgpu
    assert reload_setting("backend") == Setting("backend", None, "default")
    assert [s.key for s in config] == list(SETTING_KEYS)


def test_keys_list_every_setting():
    keys = {key.name: key for key in config.keys()}  # noqa: SIM118 - it is no mapping
    assert keys == SETTING_KEYS
    assert all(key.meaning and key.accepts for key in keys.values())
    assert keys["plugins.allow_auto"].variable == "PLUGRAD_PLUGINS_ALLOW_AUTO"
    for key in keys.values():
        assert key.default is None or key.parse(key.default) == key.default


def test_each_configuration_layer_overrides_those_below(
    project_folder, user_config_file, monkeypatch
):
    user_config_file.write_text('memory_limit = "1MB"\nbackend = "cpu"')
    assert reload_setting() == Setting("memory_limit", 10**6, str(user_config_file))

    (project_folder / "pyproject.toml").write_text('[tool.plugrad]\nmemory_limit = "2MB"')
    assert reload_setting() == Setting(
        "memory_limit", 2 * 10**6, str(project_folder / "pyproject.toml")
    )

    (project_folder / "plugrad.toml").write_text('memory_limit = "3MB"')
    assert reload_setting() == Setting(
        "memory_limit", 3 * 10**6, str(project_folder / "plugrad.toml")
    )

    monkeypatch.setenv("PLUGRAD_MEMORY_LIMIT", "4MB")
    layer = "environment variable PLUGRAD_MEMORY_LIMIT"
    assert reload_setting() == Setting("memory_limit", 4 * 10**6, layer)

    config.set("memory_limit", "5MB")
    assert config.explain("memory_limit") == Setting(
        "memory_limit", 5 * 10**6, "plugrad.config.set"
    )
    with config.override("memory_limit", "6MB"):
        assert config.explain("memory_limit") == Setting(
            "memory_limit", 6 * 10**6, "plugrad.config.override"
        )
    assert config.get("memory_limit") == 5 * 10**6
    assert config.explain("backend").layer == str(
        user_config_file
    )  # a layer that says nothing is passed over


def test_nearest_project_file_is_used(project_folder):
    (project_folder / "plugrad.toml").write_text('backend = "outer"')
    (project_folder / "src" / "plugrad.toml").write_text('backend = "inner"')
    assert reload_setting("backend").value == "inner"


def test_pyproject_without_a_section_of_plugrad_is_ignored(project_folder):
    (project_folder / "plugrad.toml").write_text('backend = "outer"')
    (project_folder / "src" / "pyproject.toml").write_text("[tool.ruff]\nline-length = 100")
    assert reload_setting("backend").value == "outer"


def test_user_file_is_where_the_platform_keeps_such_files(user_config_file, monkeypatch):
    assert user_file() == user_config_file
    monkeypatch.delenv("XDG_CONFIG_HOME")
    assert user_file().parts[-3:] == (".config", "plugrad", "config.toml")


def test_reset_drops_one_setting_or_all(project_folder):
    config.set("memory_limit", 1000)
    config.set("backend", "cpu")
    config.reset("memory_limit")
    assert config.get("memory_limit") is None
    assert config.get("backend") == "cpu"
    config.reset()
    assert config.get("backend") is None


def test_files_are_read_once_until_reset(project_folder):
    assert reload_setting("backend").value is None
    (project_folder / "plugrad.toml").write_text('backend = "cpu"')
    assert config.get("backend") is None
    config.reset("memory_limit")
    assert config.get("backend") == "cpu"


def test_override_ends_with_its_block(project_folder):
    with config.override("fallback", "warn"):
        with config.override("fallback", "silent"), config.override("debug", True):
            assert (config.get("fallback"), config.get("debug")) == ("silent", True)
        assert (config.get("fallback"), config.get("debug")) == ("warn", False)
        with suppress(ValueError), config.override("fallback", "silent"):
            raise ValueError
        assert config.get("fallback") == "warn"
    assert config.get("fallback") == "error"


def test_override_belongs_to_its_thread(project_folder):
    def policy():
        return config.get("fallback")

    with ThreadPoolExecutor(1) as pool, config.override("fallback", "warn"):
        assert pool.submit(policy).result() == "error"
        assert pool.submit(plugrad.carry_context(policy)).result() == "warn"


def test_override_decides_the_backend_of_its_block(project_folder, fake_backend_name):
    config.set("backend", "cpu")
    with config.override("backend", fake_backend_name):
        assert plugrad.which().backend.name == fake_backend_name
        assert plugrad.which().layer == "plugrad.config.override"
    assert plugrad.which().layer == "plugrad.config.set"


@pytest.mark.parametrize(("name", "value"), [("fallbck", "warn"), ("fallback", "maybe")])
def test_override_rejects_invalid_keys_and_values(project_folder, name, value):
    with (
        pytest.raises(ConfigError, match=r"plugrad\.config\.override"),
        config.override(name, value),
    ):
        pass


# --- values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0), ("1048576", 1048576), (4096, 4096), ("1K", 1000), ("1KB", 1000), ("1KiB", 1024), ("2 MB", 2 * 10**6),
        ("512MiB", 512 * 2**20), ("3GB", 3 * 10**9), ("3GiB", 3 * 2**30), ("1TiB", 2**40), ("7B", 7), ("none", None),
        (None, None),
    ],
)  # fmt: skip
def test_sizes_in_bytes(text, size):
    config.set("memory_limit", text)
    assert config.get("memory_limit") == size


@pytest.mark.parametrize(
    "text", ["lots", "-1", "1.5GB", "1 XB", "", "GB", "1kb", True, [1], 1.5, "1 2"]
)
def test_malformed_size_is_refused_with_the_forms(text):
    with pytest.raises(
        ConfigError,
        match=r"plugrad.config.set: memory_limit=.* is malformed; expected is a number of bytes such as",
    ):
        config.set("memory_limit", text)
    assert config.get("memory_limit") is None


@pytest.mark.parametrize("value", ["", "  ", 3, None, True, ["cpu"]])
def test_malformed_backend_is_refused(value):
    with pytest.raises(
        ConfigError, match=r"backend=.* is malformed; expected is a name such as 'webgpu'"
    ):
        config.set("backend", value)


@pytest.mark.parametrize(
    ("value", "names"),
    [
        ("acme", ("acme",)),
        ("a, b,,c ", ("a", "b", "c")),
        (["a", "b"], ("a", "b")),
        ("", ()),
        ([], ()),
    ],
)
def test_lists_of_names(value, names):
    config.set("plugins.disable", value)
    assert config.get("plugins.disable") == names


@pytest.mark.parametrize("value", [3, {"a": 1}, [1], None])
def test_malformed_lists_are_refused(value):
    with pytest.raises(ConfigError, match=r"plugins.disable=.* is malformed"):
        config.set("plugins.disable", value)


@pytest.mark.parametrize("value", ["error", "warn", "silent"])
def test_values_of_the_fallback_setting(value):
    config.set("fallback", value)
    assert config.get("fallback") == value


@pytest.mark.parametrize(
    ("value", "read"),
    [("1", True), ("true", True), ("Yes", True), ("on", True), (True, True), (1, True),
     ("0", False), ("false", False), ("NO", False), ("off", False), (False, False), (0, False)],
)  # fmt: skip
def test_values_of_boolean_settings(value, read):
    config.set("plugins.trace", value)
    assert config.get("plugins.trace") is read


@pytest.mark.parametrize("value", ["", "maybe", 2, None, "truee", []])
def test_invalid_boolean_setting_lists_the_accepted_values(value):
    with pytest.raises(ConfigError, match="expected is 1, true, yes or on; 0, false, no or off"):
        config.set("plugins.trace", value)


# --- unknown keys and broken files ----------------------------------------------------------------


@pytest.mark.parametrize(
    "call", [config.get, config.explain, config.reset, lambda n: config.set(n, "cpu")]
)
def test_unknown_key_suggests_the_nearest(call):
    with pytest.raises(
        ConfigError,
        match=r"'backnd' is not a setting \(did you mean 'backend'\?\); the settings are",
    ):
        call("backnd")


def test_unknown_key_in_a_file_names_the_file(project_folder):
    (project_folder / "plugrad.toml").write_text('backend = "cpu"\nmemory_limits = 3')
    with pytest.raises(
        ConfigError, match=r"plugrad\.toml: 'memory_limits' is not a setting \(did you mean"
    ):
        reload_setting()


def test_malformed_value_in_a_file_names_the_file(project_folder):
    (project_folder / "pyproject.toml").write_text("[tool.plugrad]\nbackend = 3")
    with pytest.raises(
        ConfigError, match=r"pyproject\.toml: backend=3 is malformed; expected is a name"
    ):
        reload_setting("backend")


@pytest.mark.parametrize(
    "content", [b"backend = ", b"\xff\xfe", b"[plugins", b"backend = 'a'\nbackend = 'b'"]
)
def test_error_for_invalid_toml_names_the_file(project_folder, content):
    (project_folder / "plugrad.toml").write_bytes(content)
    with pytest.raises(
        ConfigError, match=r"plugrad\.toml: cannot be read: .*; correct the file, or remove it"
    ):
        reload_setting()


def test_subtables_are_dotted_keys(project_folder):
    (project_folder / "plugrad.toml").write_text(
        '[plugins]\ndisable = ["acme"]\nallow_auto = "other-*"'
    )
    assert reload_setting("plugins.disable").value == ("acme",)
    assert config.get("plugins.allow_auto") == ("other-*",)


@pytest.mark.parametrize(
    ("variable", "hint"),
    [
        ("PLUGRAD_BACKNED", "PLUGRAD_BACKEND"),
        ("PLUGRAD_MEMORYLIMIT", "PLUGRAD_MEMORY_LIMIT"),
        ("PLUGRAD_PLUGIN_DISABLE", "PLUGRAD_PLUGINS_DISABLE"),
    ],
)
def test_misspelt_environment_variable_is_an_error(project_folder, monkeypatch, variable, hint):
    monkeypatch.setenv(variable, "1")
    with pytest.raises(
        ConfigError, match=rf"{variable} is not a setting \(did you mean '{hint}'\?\); unset it"
    ):
        reload_setting()


def test_other_variables_of_that_prefix_are_left_alone(project_folder, monkeypatch):
    monkeypatch.setenv("PLUGRAD_EXPECT_BACKENDS", "cpu")
    monkeypatch.setenv("PLUGRAD_XYZ", "1")
    assert reload_setting().value is None


def test_error_for_a_malformed_environment_variable_names_it(project_folder, monkeypatch):
    monkeypatch.setenv("PLUGRAD_MEMORY_LIMIT", "lots")
    with pytest.raises(
        ConfigError,
        match="environment variable PLUGRAD_MEMORY_LIMIT: memory_limit='lots' is malformed",
    ):
        reload_setting()


def test_empty_environment_variable_counts_as_absent(project_folder, monkeypatch):
    monkeypatch.setenv("PLUGRAD_BACKEND", "")
    assert reload_setting("backend").layer == "default"
    (project_folder / "plugrad.toml").write_text('backend = "cpu"')
    assert reload_setting("backend").value == "cpu"


def test_environment_is_read_again_when_plugrad_is_told(project_folder):
    config.get("fallback")
    with pytest.MonkeyPatch.context() as patch:  # which tells nobody
        patch.setenv("PLUGRAD_FALLBACK", "silent")
        assert config.get("fallback") != "silent"
        config.reread()
        assert config.explain("fallback").layer == "environment variable PLUGRAD_FALLBACK"
    config.reread()
    assert config.explain("fallback").layer == "default"


def test_memory_limit_reaches_a_backend_when_it_is_opened(fake_backend_name):
    config.set("memory_limit", "64KiB")
    assert plugrad.ones(3, device=fake_backend_name).backend.memory_limit == 65536
