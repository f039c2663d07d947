"""Untrusted files, names and numbers raise errors of plugrad, and quickly."""

import io
import os
import struct
import subprocess
import sys
import textwrap
import time
import zlib
from contextlib import suppress

import pytest

import plugrad
from plugrad.cli import layout
from plugrad.errors import ArgumentValueError, ConfigError, DamagedFile, ShapeError, warn
from plugrad.settings.layers import config
from plugrad.tensor.backend import copy_to_backend_array

HUGE_NUMBER = "9" * 400


def run_limited(program, *, folder=None, **variables):
    """Return the output of a program, which must end soon."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=folder,
        env=os.environ | variables,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# --- configuration files --------------------------------------------------------------------------

HOSTILE_CONFIGURATIONS = {
    "deep list": f"packs = {'[' * 30_000}",
    "deep table": f"a = {'{a = ' * 30_000}",
    "endless key": ".".join("a" * 30_000) + " = 1",
    "huge number": f"memory_limit = {HUGE_NUMBER}",
    "too many digits": f"memory_limit = {'9' * 5000}",
    "huge text": f"memory_limit = '{HUGE_NUMBER}'",
    "huge file": f"# {'x' * 2**20}",
    "no UTF-8": "memory_limit = '\udcff'",
}


@pytest.mark.parametrize("name", ["plugrad.toml", "pyproject.toml"])
@pytest.mark.parametrize("text", HOSTILE_CONFIGURATIONS.values(), ids=HOSTILE_CONFIGURATIONS)
def test_configuration_file_that_makes_no_sense_is_an_error(text, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    section = "[tool.plugrad]\n" if name == "pyproject.toml" else ""
    tmp_path.joinpath(name).write_bytes((section + text).encode(errors="surrogateescape"))
    config.reset()
    start = time.process_time()
    with pytest.raises(ConfigError, match=name):
        config.get("memory_limit")
    assert time.process_time() - start < 2


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no such pipes")
def test_configuration_file_that_is_a_pipe_is_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tmp_path.joinpath("config").mkdir()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    os.mkfifo(tmp_path / "plugrad.toml")
    config.reset()
    assert config.get("memory_limit") is None


@pytest.mark.parametrize("value", [10**400, HUGE_NUMBER, "9" * 5000, 2**63, "9223372036854775808"])
def test_impossible_memory_limits_are_rejected(value):
    with pytest.raises(ConfigError, match="memory_limit"):
        config.set("memory_limit", value)


def test_numbers_beyond_a_float_are_refused(register_for_test, fake_backend_class):
    from plugrad.settings.keys import Option, option_key

    key = option_key("fake", "scale", Option("number", "a scale"))
    with pytest.raises((ValueError, OverflowError)):
        key.parse(10**400)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows keeps a folder that is in use")
def test_a_working_directory_that_is_gone_is_no_error(tmp_path):
    folder = tmp_path / "gone"
    folder.mkdir()
    start = f"import os; os.rmdir({str(folder)!r})\n"
    assert (
        run_limited(f"{start}import plugrad; print(plugrad.ones(2).tolist())", folder=folder)
        == "[1.0, 1.0]\n"
    )
    folder.mkdir()
    command = f"{start}from plugrad.cli import main; assert main(['list']) == 0"
    assert "Backends" in run_limited(command, folder=folder, PLUGRAD_BACKEND="cpu")
    folder.mkdir()
    saving = f"""
import os
os.rmdir({str(folder)!r})
import plugrad
for call in (lambda: plugrad.save("x", 1), lambda: plugrad.load("x")):
    try:
        call()
    except FileNotFoundError:
        print("no folder")
"""
    assert run_limited(saving, folder=folder) == "no folder\n" * 2


# --- images ---------------------------------------------------------------------------------------


def png_chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def make_png(width, height, *chunks):
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = png_chunk(b"IDAT", zlib.compress(b"\0" * 14))
    return (
        b"\x89PNG\r\n\x1a\n"
        + png_chunk(b"IHDR", header)
        + b"".join(chunks)
        + data
        + png_chunk(b"IEND", b"")
    )


def compression_bomb():
    return b"k\0\0" + zlib.compress(b"a" * 10**8, 1)


DECOMPRESSION_BOMBS = {
    "pixels": lambda: make_png(100_000, 100_000),
    "most pixels": lambda: make_png(2**31 - 1, 2**31 - 1),
    "text": lambda: make_png(2, 2, png_chunk(b"zTXt", compression_bomb())),
    "profile": lambda: make_png(2, 2, png_chunk(b"iCCP", compression_bomb())),
}
"""Functions, because to compress takes longer than to collect the tests of a folder."""


@pytest.mark.parametrize("bomb", DECOMPRESSION_BOMBS)
def test_decompression_bombs_are_rejected_quickly(bomb):
    data = DECOMPRESSION_BOMBS[bomb]()
    start = time.process_time()
    with pytest.raises(DamagedFile, match=r"read_png: file=.* is damaged, or too large"):
        plugrad.image.read_png(io.BytesIO(data))
    assert time.process_time() - start < 2


def test_changed_images_give_pixels_or_an_error_of_plugrad_or_of_files(rng):
    file = io.BytesIO()
    plugrad.image.write_png(file, plugrad.zeros((5, 6, 3)))
    for _ in range(500):
        changed = bytearray(file.getvalue())
        for at in rng.integers(8, len(changed), rng.integers(1, 4)):
            changed[at] = rng.integers(256)
        with suppress(plugrad.errors.PlugradError, OSError):
            plugrad.image.read_png(io.BytesIO(changed))


def test_image_paths_that_are_no_file_names_are_rejected():
    for path in ("a\0b", "\ud800"):
        with pytest.raises(ArgumentValueError, match="is not the name of a file"):
            plugrad.image.read_png(path)


# --- patterns and sizes ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "pattern",
    ["(" * 10_000 + ")" * 10_000, "(?:" * 5_000 + "a" + ")*" * 5_000, "a{99999999999}", "(?P<"],
    ids=["deep", "deep repeats", "too many repeats", "wrong"],
)
def test_invalid_regular_expressions_are_rejected_quickly(pattern):
    start = time.process_time()
    with pytest.raises(ArgumentValueError, match="is not a regular expression"):
        plugrad.string.static_regex_replace(["a"], pattern, "b")
    assert time.process_time() - start < 5


@pytest.mark.skipif(sys.platform != "linux", reason="the limit of addresses is that of Linux")
def test_draws_that_exceed_memory_are_rejected_quickly():
    """Two billion numbers are too many for a fixed memory limit, whatever memory the machine has."""
    printed = run_limited(
        """
        import resource, time
        import plugrad
        plugrad.random.bernoulli((2,)).numpy()
        pages = int(open("/proc/self/statm").read().split()[0])
        limit = pages * resource.getpagesize() + (1 << 30)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        start = time.process_time()
        try:
            plugrad.random.bernoulli(2**31 - 1)
        except plugrad.errors.OutOfMemory:
            assert time.process_time() - start < 10
            print("refused")
        """,
        PLUGRAD_BACKEND="cpu",
    )
    assert printed == "refused\n"


def test_quantizations_with_huge_numbers_are_refused(tmp_path):
    path = tmp_path / "weights.json"
    plugrad.tfjs.write_weights(path, {"w": plugrad.ones((2, 3))}, quantization="uint8")
    text = path.read_text(encoding="utf-8")
    for key in ('"scale": ', '"min": '):
        start, _, rest = text.partition(key)
        path.write_text(
            f"{start}{key}{HUGE_NUMBER}{rest[rest.index(',') if ',' in rest else rest.index('}') :]}"
        )
        with pytest.raises(DamagedFile):
            plugrad.tfjs.read_weights(path)


# --- names ----------------------------------------------------------------------------------------

HOSTILE_NAMES = {
    "colour": ("acme\x1b[31m", r"acme\x1b[31m"),
    "return": ("acme\rcpu", r"acme\rcpu"),
    "bell": ("\x07", r"\x07"),
    "C1": ("\x9b2J", r"\x9b2J"),
    "right to left": ("acme\u202eupc", r"acme\u202eupc"),
    "isolate": ("a\u2066b\u2069", r"a\u2066b\u2069"),
    "half a pair": ("\ud83d", r"\ud83d"),
    "letters": ("Größe ∞ 日本 שלום", "Größe ∞ 日本 שלום"),
    "lines": ("one\ntwo\tthree", "one\ntwo\tthree"),
}


@pytest.mark.parametrize(("name", "shown"), HOSTILE_NAMES.values(), ids=HOSTILE_NAMES)
def test_terminal_control_characters_are_escaped(name, shown, capsys):
    assert str(ShapeError(f"in {name}")) == f"in {shown}"
    with pytest.warns(RuntimeWarning) as caught:
        warn(f"in {name}")
    assert str(caught[0].message) == f"in {shown}"
    if "\t" not in name:
        layout.print_line(name)
        assert capsys.readouterr().out == f"{shown}\n"


def test_names_in_errors_are_escaped(fake_backend_class):
    class HostileBackend(fake_backend_class):
        name = "hostile_device"
        distribution = "acme\x1b[2J\u202e"

        def from_numpy(self, array):
            raise ValueError("\x1b[2J")

    backend = HostileBackend()
    with pytest.raises(plugrad.errors.BackendFailed) as raised:
        copy_to_backend_array(plugrad.ones(1).numpy(), backend)
    assert "\x1b" not in str(raised.value)
    assert r"(acme\x1b[2J\u202e) failed: ValueError: \x1b[2J" in str(raised.value)


def test_shapes_with_numbers_of_thousands_of_digits_are_refused():
    with pytest.raises(
        plugrad.errors.OutOfMemory, match="more elements than an address space holds"
    ):
        plugrad.random.Generator(0).standard_normal(10**5000)
