"""The settings of a backend's own: declared in its manifest or free, in every layer, handed to the backend."""

import itertools

import pytest

import plugrad
from plugins.hostile import MANIFEST
from plugrad.discovery.listing import declared_options
from plugrad.errors import ConfigError
from plugrad.settings.layers import Setting

OPTIONS_MANIFEST = """
[options.threads]
type = "integer"
summary = "how many threads compute"
default = 4

[options.precise]
type = "boolean"
summary = "whether to compute slowly"

[options.mode]
type = "string"
summary = "how"

[options.scale]
type = "number"
summary = "how much"
"""
CONFIG_FILE_NAME = "plugrad.toml"


@pytest.fixture
def toy_with_options(site):
    site.install("toy", manifest=MANIFEST + OPTIONS_MANIFEST)
    return site


@pytest.fixture
def toy_without_options(site):
    site.install("toy")
    return site


def received_options():
    """Return the options that the backend receives."""
    return dict(plugrad.zeros(1, device="cpu").to("toy").backend.options)


def write_config(site, text):
    (site.folder / CONFIG_FILE_NAME).write_text(text)
    plugrad.config.reset()


# --- what the backend gets ------------------------------------------------------------------------


def test_declared_options_have_their_defaults(toy_with_options):
    assert received_options() == {"threads": 4, "precise": None, "mode": None, "scale": None}


def test_declared_options_come_from_every_layer_in_their_types(toy_with_options, monkeypatch):
    write_config(toy_with_options, "[toy]\nthreads = 2\nscale = 3\n")
    monkeypatch.setenv("PLUGRAD_TOY_PRECISE", "off")
    plugrad.config.set("toy.mode", "fast")
    assert received_options() == {"threads": 2, "precise": False, "mode": "fast", "scale": 3.0}


def test_undeclared_options_are_passed_unchanged(toy_without_options, monkeypatch):
    write_config(toy_without_options, '[toy]\nnumbers = [1, 2]\n[toy.deep]\nname = "x"\n')
    monkeypatch.setenv("PLUGRAD_TOY_THREADS", "8")
    monkeypatch.setenv("PLUGRAD_TOY_SPEED", "")  # as if it were absent
    plugrad.config.set("toy.any", {"thing": 1})
    assert received_options() == {
        "numbers": [1, 2],
        "deep.name": "x",
        "threads": "8",
        "any": {"thing": 1},
    }


def test_backend_without_settings_gets_none(toy_without_options):
    assert received_options() == {}


# --- layers ---------------------------------------------------------------------------------------

SETTING_LAYERS = ("set", "environment", "plugrad.toml", "user", "plugin")  # strongest first


class SuggestingPlugin:
    def __init__(self, name, value):
        self.settings = {name: value}

    @plugrad.hookimpl
    def plugrad_configure(self):
        return self.settings


def set_in_layer(layer, key, value, files, monkeypatch):
    """Set a value in a layer of settings; return the name of the layer."""
    match layer:
        case "set":
            plugrad.config.set(key, value)
            return "plugrad.config.set"
        case "environment":
            variable = f"PLUGRAD_{key.replace('.', '_').upper()}"
            monkeypatch.setenv(variable, str(value))
            return f"environment variable {variable}"
        case "plugin":
            plugrad.register_plugin(SuggestingPlugin(key, value), name="suggesting")
            return "plugin <this process>::suggesting"
    files[layer].write_text(f"{key} = {value}")
    return str(files[layer])


@pytest.mark.parametrize("key", ["toy.threads", "memory_limit"])
@pytest.mark.parametrize(
    "layers", [*itertools.combinations(SETTING_LAYERS, 2), *((n,) for n in SETTING_LAYERS)]
)
def test_stronger_layer_wins(toy_with_options, monkeypatch, key, layers):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(toy_with_options.folder / "home"))
    monkeypatch.setattr("sys.platform", "linux")
    (toy_with_options.folder / "home" / "plugrad").mkdir(parents=True)
    files = {
        "plugrad.toml": toy_with_options.folder / CONFIG_FILE_NAME,
        "user": toy_with_options.folder / "home" / "plugrad" / "config.toml",
    }
    plugrad.config.reset()
    names = [set_in_layer(layer, key, 5 + i, files, monkeypatch) for i, layer in enumerate(layers)]
    try:
        expected = Setting(key, 5, names[0])
        assert plugrad.config.explain(key) == expected
        assert expected in list(plugrad.config)
    finally:
        if "plugin" in layers:
            plugrad.unregister_plugin("suggesting")


def test_default_is_the_weakest_layer(toy_with_options):
    assert plugrad.config.explain("toy.threads") == Setting("toy.threads", 4, "default")
    assert not [s for s in plugrad.config if s.key.startswith("toy.")]


# --- mistakes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", [plugrad.config.get, lambda n: plugrad.config.set(n, 1)])
def test_unknown_option_of_a_backend_that_declares_its_own(toy_with_options, call):
    with pytest.raises(
        ConfigError,
        match=r"'toy.thread' is not a setting \(did you mean 'threads'\?\); the options of backend 'toy' are: threads,",
    ):
        call("toy.thread")


def test_unknown_option_in_a_file_names_the_file(toy_with_options):
    write_config(toy_with_options, "[toy]\ncolour = 3")
    with pytest.raises(ConfigError, match=r"plugrad.toml: 'toy.colour' is not a setting"):
        plugrad.use("toy")
    (toy_with_options.folder / CONFIG_FILE_NAME).unlink()
    plugrad.config.reset()
    with plugrad.use("toy"):  # the plugin was not at fault
        pass


def test_unknown_option_in_the_environment_names_the_variable(toy_with_options, monkeypatch):
    monkeypatch.setenv("PLUGRAD_TOY_COLOUR", "red")
    with pytest.raises(ConfigError, match=r"'toy.colour' is not a setting"):
        plugrad.use("toy")
    with plugrad.use("cpu"):
        pass


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [
        ("threads", "many", "an integer"),
        ("threads", 1.5, "an integer"),
        ("threads", True, "an integer"),
        ("precise", "maybe", "1, true, yes or on; 0, false, no or off"),
        ("precise", 2, "1, true, yes or on"),
        ("mode", 3, "a string"),
        ("scale", "large", "a number"),
    ],
)
def test_error_of_a_malformed_option_names_the_expected_type(
    toy_with_options, option, value, expected
):
    with pytest.raises(ConfigError, match=rf"toy.{option}=.* is malformed; expected is {expected}"):
        plugrad.config.set(f"toy.{option}", value)


@pytest.mark.parametrize(
    ("value", "read"),
    [("1", True), ("YES", True), (" on ", True), (True, True), ("0", False), ("no", False), (False, False)],
)  # fmt: skip
def test_booleans_are_read_strictly(toy_with_options, value, read):
    plugrad.config.set("toy.precise", value)
    assert plugrad.config.get("toy.precise") is read


def test_section_of_a_backend_that_is_not_installed_is_left_alone(site):
    write_config(site, "[quantum]\nqubits = 3\n")
    assert plugrad.config.get("backend") == "cpu"
    assert plugrad.config.get("quantum.qubits") == 3
    assert plugrad.config.options("quantum")["qubits"].value == 3


@pytest.mark.parametrize(("section", "meant"), [("plugin", "plugins"), ("toi", "toy")])
def test_misspelt_section_suggests_the_nearest(toy_with_options, section, meant):
    write_config(toy_with_options, f"[{section}]\ndisable = 'acme'\n")
    with pytest.raises(
        ConfigError, match=rf"no backend is called '{section}' \(did you mean '{meant}'"
    ):
        plugrad.config.get("memory_limit")


def test_option_that_looks_like_a_setting_is_not_taken_for_a_misspelt_one(
    toy_without_options, monkeypatch
):
    monkeypatch.setenv("PLUGRAD_TOY_MEMORY_LIMIT", "3")
    plugrad.config.reset()
    assert plugrad.config.get("memory_limit") is None
    assert received_options() == {"memory_limit": "3"}


def test_longest_backend_name_owns_an_environment_variable(toy_without_options, monkeypatch):
    toy_without_options.install("toy_gpu")
    monkeypatch.setenv("PLUGRAD_TOY_GPU_THREADS", "8")
    assert plugrad.config.options("toy") == {}
    assert list(plugrad.config.options("toy_gpu")) == ["threads"]


def test_first_party_backends_declare_their_options():
    for name, options in declared_options().items():
        if name in ("cpu", "wasm", "webgpu"):
            assert options is not None
            with pytest.raises(ConfigError, match=f"the options of backend '{name}' are"):
                plugrad.config.get(f"{name}.colour")
