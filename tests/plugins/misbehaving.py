"""A table of plugins that misbehave in one way each: what they do, and what people are told about it."""

from __future__ import annotations

import os
import textwrap
from typing import TYPE_CHECKING, NamedTuple

from plugins.hostile import MANIFEST, backend_source, write_distribution

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

EVERYTHING = """
    import plugrad
    from plugrad.extend import GradientConfig, KernelConfig, Spec, kernel, register_gradient, register_kernel
    from plugrad.kernels import unary

    class Hooks:
        @plugrad.hookimpl
        def plugrad_configure(self):
            return {"memory_limit": "1TB"}

    def register_everything():
        @kernel("Leftover", family="acme")
        def leftover(x: Spec) -> Spec:
            return x

        register_kernel(KernelConfig("Leftover", "cpu", lambda x: x))
        register_kernel(KernelConfig("Sqrt", "cpu", lambda x: x), replace=True)
        register_gradient(leftover, x=lambda dy: dy)
        register_gradient(unary.exp, replace=True, x=lambda dy: dy * 0)
        plugrad.config.set("fallback", "silent")
        plugrad.register_plugin(Hooks(), name="leftover_hooks")
        plugrad.register_backend("leftover", lambda: None)
"""
"""The source that registers something of each kind, so that something can be left."""


class Misbehaving(NamedTuple):
    """A plugin that misbehaves: how, and what the error or the warning says."""

    body: str = ""
    """What follows the source of a backend that works, `Toy`, and of `register_everything`."""
    message: str = ""
    provoke: str = "use"
    """What a program does with it: a function of the test module."""
    doctor: str = ""
    """What the doctor says, if that is something else."""
    kind: str = "backends"
    manifest: str = MANIFEST
    prepare: Callable[[Path], None] | None = None
    """Changes the folder of the package."""


def toy(methods: str, message: str, provoke: str = "use", doctor: str = "") -> Misbehaving:
    """Return a backend with other methods."""
    body = "class Bad(Toy):\n" + textwrap.indent(textwrap.dedent(methods), "    ")
    return Misbehaving(f"{body}\ndef backend():\n    return Bad()\n", message, provoke, doctor)


def computing(function: str, message: str, provoke: str = "compute") -> Misbehaving:
    """Return a backend with another implementation of Exp."""
    methods = f"""
        def open(self, device):
            return [
                c._replace(kernel_func={function}) if c.kernel_name == "Exp" else c
                for c in super().open(device)
            ]
    """
    return toy(methods, message, provoke)


def said(content: str | bytes, message: str) -> Misbehaving:
    """Return a plugin with another manifest."""

    def prepare(package: Path) -> None:
        data = content.encode() if isinstance(content, str) else content
        (package / "plugrad-backend.toml").write_bytes(data)

    return Misbehaving("", message, prepare=prepare)


def instead(make: Callable[[Path], object], message: str) -> Misbehaving:
    """Return a plugin with something else in the place of its manifest."""

    def prepare(package: Path) -> None:
        (package / "plugrad-backend.toml").unlink()
        make(package / "plugrad-backend.toml")

    return Misbehaving("", message, prepare=prepare)


IMPORTS = {
    "import_raises": ("raise OSError('no chip')", "OSError: no chip"),
    "import_exits": ("raise SystemExit(3)", "SystemExit: 3"),
    "import_is_cancelled": (
        "import asyncio\nraise asyncio.CancelledError('gone')",
        "CancelledError: gone",
    ),
    "import_ends_a_generator": ("raise GeneratorExit", "GeneratorExit"),
    "import_raises_what_it_likes": (
        "class Own(BaseException):\n    def __str__(self):\n        raise ValueError\nraise Own",
        "Own: an error that cannot say what is wrong",
    ),
    "import_says_too_much": ("raise OSError('x' * 100_000)", "OSError: x{2000}…"),
}
MISBEHAVING: dict[str, Misbehaving] = {
    **{
        name: Misbehaving(f"register_everything()\n{code}", message)
        for name, (code, message) in IMPORTS.items()
    },
    # --- a backend until it is open
    "factory_returns_none": Misbehaving(
        "def backend():\n    register_everything()", "returned NoneType, not a plugrad Backend"
    ),
    "probe_raises": toy(
        "def probe(self):\n    register_everything()\n    1 / 0", "ZeroDivisionError"
    ),
    "probe_returns_none": toy(
        "def probe(self):\n    register_everything()",
        r"probe\(\) returned None, which is not a plugrad Probe",
    ),
    "probe_returns_no_devices": toy(
        "def probe(self):\n    return Probe(ok=True, devices=[3])",
        r"probe\(\) returned devices=\[3\], which must be DeviceInfo",
    ),
    "open_raises": toy(
        "def open(self, device):\n    register_everything()\n    raise KeyError('x')",
        "KeyError: 'x'",
    ),
    "open_returns_none": toy("def open(self, device):\n    register_everything()", "TypeError"),
    "open_returns_numbers": toy(
        "def open(self, device):\n    return [*super().open(device), 3]",
        r"open\(\) returned 3 among its kernels",
    ),
    "open_brings_kernels_of_cpu": toy(
        "def open(self, device):\n"
        "    return [c._replace(backend_name='cpu') for c in super().open(device)]",
        r"open\(\) returned kernel 'Add' for backend 'cpu'; a backend brings the kernels of its own",
    ),
    "open_opens_itself": toy(
        "def open(self, device):\n    plugrad.use(self.name)", "RecursionError|cannot start"
    ),
    "setup_exits": toy(
        """
        def open(self, device):
            def setup(backend):
                register_everything()
                raise SystemExit(3)
            return [c._replace(setup_func=setup) for c in super().open(device)]
        """,
        "SystemExit: 3",
    ),
    "dtypes_returns_none": toy(
        "def dtypes(self):\n    return None", r"dtypes\(\) returned None, which must be a set"
    ),
    "device_is_a_number": toy(
        "def open(self, device):\n    table = super().open(device)\n    self.device = 3\n    return table",
        r"open\(\) set device to 3, which must be a string",
    ),
    "limit_raises": toy(
        "def set_memory_limit(self, limit):\n    raise OSError('no limit')", "OSError: no limit"
    ),
    # --- a backend that is open
    "memory_raises": toy(
        "def memory(self):\n    1 / 0",
        r"memory\(\) of backend .* failed: ZeroDivisionError",
        "count",
        "while it is asked for its memory: ZeroDivisionError",
    ),
    "memory_returns_none": toy(
        "def memory(self):\n    pass", r"memory\(\) .*returned None", "count"
    ),
    "memory_is_negative": toy(
        "def memory(self):\n    return Memory(0, -1, 0)", "integers from 0 to", "count"
    ),
    "memory_is_endless": toy(
        "def memory(self):\n    return Memory(0, 10**30, 0)", "integers from 0 to", "count"
    ),
    "close_raises": toy(
        "def close(self):\n    raise SystemExit(3)",
        "failed while it was closed, and is not used any more: SystemExit: 3",
        "close",
    ),
    "reading_raises": toy(
        "def to_numpy(self, array):\n    raise OSError('bus error')",
        r"to_numpy\(\) of backend .* failed: OSError: bus error",
        "read",
    ),
    "reading_gives_none": toy("def to_numpy(self, array):\n    pass", r"to_numpy\(\)", "read"),
    "reading_gives_a_list": toy(
        "def to_numpy(self, array):\n    return [1.0]", r"to_numpy\(\)", "read"
    ),
    "reading_gives_another_shape": toy(
        "def to_numpy(self, array):\n    return np.zeros((5, 5))",
        r"(?s)to_numpy\(\) .* it must return an array of shape \(\d+",
        "read",
    ),
    "storing_raises": toy("def from_numpy(self, array):\n    1 / 0", r"from_numpy\(\)", "store"),
    "storing_gives_none": toy("def from_numpy(self, array):\n    pass", r"from_numpy\(\)", "store"),
    "storing_gives_another_shape": toy(
        "def from_numpy(self, array):\n    return np.zeros((5, 5))",
        r"(?s)from_numpy\(\) .* it must return an array of shape \(\d+",
        "store",
    ),
    "storing_gives_another_dtype": toy(
        "def from_numpy(self, array):\n    return array.astype('float64')",
        r"(?s)from_numpy\(\) .* it must return an array of shape \([\d, ]*\) and dtype float32",
        "store",
    ),
    "storing_gives_a_list": toy(
        "def from_numpy(self, array):\n    return array.tolist()",
        r"(?s)from_numpy\(\) .*returned .*; it must return an array of shape",
        "store",
    ),
    "reading_gives_another_dtype": toy(
        "def to_numpy(self, array):\n    return array.astype('float64')",
        r"(?s)to_numpy\(\) .* it must return an array of shape \([\d, ]*\) and dtype float32",
        "read",
    ),
    "opening_gives_no_kernels": toy(
        "def open(self, device):\n    self.device = '0'",
        r"open\(\) returned None; it must return its kernels",
    ),
    "storing_no_dtype": toy(
        "def dtypes(self):\n    return frozenset()", r"dtypes\(\) returned frozenset\(\)"
    ),
    # --- kernels
    "kernel_raises": computing("lambda x: 1 / 0", "failed on inputs .*ZeroDivisionError"),
    "kernel_returns_none": computing("lambda x: None", "returned a NoneType"),
    "kernel_returns_a_number": computing("lambda x: 3", "returned a int"),
    "kernel_returns_a_tensor": computing(
        "lambda x: plugrad.zeros(x.shape, device='cpu')", "returned a Tensor"
    ),
    "kernel_returns_a_list": computing("lambda x: [x, x]", "returned a list"),
    # --- hooks and packs
    "hooks_raise": Misbehaving(
        "register_everything()\n1 / 0", "ZeroDivisionError", "call_hooks", kind="plugins"
    ),
    "hooks_bring_half_a_gradient": Misbehaving(
        "@plugrad.hookimpl\n"
        "def plugrad_register_gradients():\n"
        "    yield GradientConfig('Exp', lambda dy, saved, attrs: {})\n"
        "    raise SystemExit(3)",
        "SystemExit: 3",
        "call_hooks",
        kind="plugins",
    ),
    "hooks_replace_a_gradient": Misbehaving(
        "@plugrad.hookimpl\n"
        "def plugrad_register_gradients():\n"
        "    return [GradientConfig('Exp', lambda dy, saved, attrs: {'x': dy})]",
        "replaces gradient Exp",
        "call_hooks",
        "replaces what others have registered: gradient Exp",
        kind="plugins",
    ),
    "ops_raise": Misbehaving(
        "register_everything()\nraise SystemExit(3)", "SystemExit: 3", "load_ops", kind="ops"
    ),
    "ops_replace_a_kernel": Misbehaving(
        "register_kernel(KernelConfig('Exp', 'cpu', lambda x: x), replace=True)",
        "replaces kernel Exp of backend 'cpu'",
        "load_ops_anyway",
        "replaces what others have registered: kernel Exp of backend 'cpu'",
        kind="ops",
    ),
    # --- manifests
    "manifest_is_huge": said(f"{MANIFEST}# {'x' * 2**20}", "it is larger than 64 KiB"),
    "manifest_has_endless_keys": said(".".join("a" * 30_000) + " = 1", "more than 64 dots"),
    "manifest_is_deep": said(f"a = {'[' * 30_000}", "nested too deeply"),
    "manifest_is_binary": said(bytes(range(256)), "plugrad-backend.toml: "),
    "manifest_is_utf16": said(MANIFEST.encode("utf-16"), "'utf-8' codec can't decode"),
    "manifest_has_an_endless_integer": said(
        f'api = "1.0"\npriority = 0x{"f" * 30_000}', "priority = .* must be an integer"
    ),
    "manifest_has_endless_digits": said(f"priority = {'9' * 30_000}", "30000 digits"),
    "manifest_has_lists_for_types": said(
        'api = "1.0"\n[options.threads]\ntype = []\nsummary = "x"', "options = .* must be a table"
    ),
    "manifest_is_missing": instead(lambda path: None, "does not have plugrad-backend.toml"),
    "manifest_is_a_folder": instead(lambda path: path.mkdir(), "plugrad-backend.toml: "),
    "manifest_is_a_loop": instead(lambda path: path.symlink_to(path), "plugrad-backend.toml: "),
    "manifest_is_a_device": instead(
        lambda path: path.symlink_to("/dev/zero"), "it is not a regular file"
    ),
}
if hasattr(os, "mkfifo"):
    MISBEHAVING["manifest_is_a_pipe"] = instead(os.mkfifo, "it is not a regular file")


def install_misbehaving(folder: Path, name: str) -> str:
    """Install one of them, and return the name of its package."""
    plugin = MISBEHAVING[name]
    package = f"acme_{name}"
    target = f"{package}:backend" if plugin.kind == "backends" else package
    files = {
        f"{package}/__init__.py": backend_source(name)
        + textwrap.dedent(EVERYTHING)
        + plugin.body
        + "\n"
    }
    if plugin.kind == "backends":
        files[f"{package}/plugrad-backend.toml"] = plugin.manifest
    entry_points = {f"plugrad.{plugin.kind}": {name: target}}
    write_distribution(folder, f"acme-{name}", entry_points=entry_points, files=files)
    if plugin.prepare is not None:
        plugin.prepare(folder / package)
    return package
