"""A table of plugins that misbehave in one way each, with the error or warning that users get."""

from __future__ import annotations

import os
import textwrap
from typing import TYPE_CHECKING, NamedTuple

from plugins.hostile import MANIFEST, backend_source, write_distribution

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

REGISTER_EVERYTHING_SOURCE = """
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


class MisbehavingPlugin(NamedTuple):
    """A plugin that misbehaves, and the message of the error or warning."""

    body: str = ""
    """What follows the source of a backend that works, `Toy`, and of `register_everything`."""
    message: str = ""
    provoke: str = "use_backend"
    """What a program does with it: a function of the test module."""
    doctor: str = ""
    """What the doctor says, if that is something else."""
    kind: str = "backends"
    manifest: str = MANIFEST
    prepare: Callable[[Path], None] | None = None
    """Changes the folder of the package."""


def toy_with_methods(
    methods: str, message: str, provoke: str = "use_backend", doctor: str = ""
) -> MisbehavingPlugin:
    """Return a toy backend with some methods replaced."""
    body = "class Bad(Toy):\n" + textwrap.indent(textwrap.dedent(methods), "    ")
    return MisbehavingPlugin(
        f"{body}\ndef backend():\n    return Bad()\n", message, provoke, doctor
    )


def toy_with_exp(function: str, message: str, provoke: str = "compute_values") -> MisbehavingPlugin:
    """Return a toy backend with another implementation of Exp."""
    methods = f"""
        def open(self, device):
            return [
                c._replace(kernel_func={function}) if c.kernel_name == "Exp" else c
                for c in super().open(device)
            ]
    """
    return toy_with_methods(methods, message, provoke)


def toy_with_manifest(content: str | bytes, message: str) -> MisbehavingPlugin:
    """Return a toy backend with another manifest."""

    def prepare(package: Path) -> None:
        data = content.encode() if isinstance(content, str) else content
        (package / "plugrad-backend.toml").write_bytes(data)

    return MisbehavingPlugin("", message, prepare=prepare)


def toy_without_manifest_file(make: Callable[[Path], object], message: str) -> MisbehavingPlugin:
    """Return a toy backend with something else in place of its manifest file."""

    def prepare(package: Path) -> None:
        (package / "plugrad-backend.toml").unlink()
        make(package / "plugrad-backend.toml")

    return MisbehavingPlugin("", message, prepare=prepare)


FAILING_IMPORTS = {
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
MISBEHAVING_PLUGINS: dict[str, MisbehavingPlugin] = {
    **{
        name: MisbehavingPlugin(f"register_everything()\n{code}", message)
        for name, (code, message) in FAILING_IMPORTS.items()
    },
    # --- a backend until it is open
    "factory_returns_none": MisbehavingPlugin(
        "def backend():\n    register_everything()", "returned NoneType, not a plugrad Backend"
    ),
    "probe_raises": toy_with_methods(
        "def probe(self):\n    register_everything()\n    1 / 0", "ZeroDivisionError"
    ),
    "probe_returns_none": toy_with_methods(
        "def probe(self):\n    register_everything()",
        r"probe\(\) returned None, which is not a plugrad Probe",
    ),
    "probe_returns_no_devices": toy_with_methods(
        "def probe(self):\n    return Probe(ok=True, devices=[3])",
        r"probe\(\) returned devices=\[3\], which must be DeviceInfo",
    ),
    "open_raises": toy_with_methods(
        "def open(self, device):\n    register_everything()\n    raise KeyError('x')",
        "KeyError: 'x'",
    ),
    "open_returns_none": toy_with_methods(
        "def open(self, device):\n    register_everything()", "TypeError"
    ),
    "open_returns_numbers": toy_with_methods(
        "def open(self, device):\n    return [*super().open(device), 3]",
        r"open\(\) returned 3 among its kernels",
    ),
    "open_brings_kernels_of_cpu": toy_with_methods(
        "def open(self, device):\n"
        "    return [c._replace(backend_name='cpu') for c in super().open(device)]",
        r"open\(\) returned kernel 'Add' for backend 'cpu'; a backend brings the kernels of its own",
    ),
    "open_opens_itself": toy_with_methods(
        "def open(self, device):\n    plugrad.use(self.name)", "RecursionError|cannot start"
    ),
    "setup_exits": toy_with_methods(
        """
        def open(self, device):
            def setup(backend):
                register_everything()
                raise SystemExit(3)
            return [c._replace(setup_func=setup) for c in super().open(device)]
        """,
        "SystemExit: 3",
    ),
    "dtypes_returns_none": toy_with_methods(
        "def dtypes(self):\n    return None", r"dtypes\(\) returned None, which must be a set"
    ),
    "device_is_a_number": toy_with_methods(
        "def open(self, device):\n    table = super().open(device)\n    self.device = 3\n    return table",
        r"open\(\) set device to 3, which must be a string",
    ),
    "limit_raises": toy_with_methods(
        "def set_memory_limit(self, limit):\n    raise OSError('no limit')", "OSError: no limit"
    ),
    # --- a backend that is open
    "memory_raises": toy_with_methods(
        "def memory(self):\n    1 / 0",
        r"memory\(\) of backend .* failed: ZeroDivisionError",
        "count_memory",
        "while it is asked for its memory: ZeroDivisionError",
    ),
    "memory_returns_none": toy_with_methods(
        "def memory(self):\n    pass", r"memory\(\) .*returned None", "count_memory"
    ),
    "memory_is_negative": toy_with_methods(
        "def memory(self):\n    return Memory(0, -1, 0)", "integers from 0 to", "count_memory"
    ),
    "memory_is_endless": toy_with_methods(
        "def memory(self):\n    return Memory(0, 10**30, 0)", "integers from 0 to", "count_memory"
    ),
    "close_raises": toy_with_methods(
        "def close(self):\n    raise SystemExit(3)",
        "failed while it was closed, and is not used any more: SystemExit: 3",
        "close_device",
    ),
    "reading_raises": toy_with_methods(
        "def to_numpy(self, array):\n    raise OSError('bus error')",
        r"to_numpy\(\) of backend .* failed: OSError: bus error",
        "read_values",
    ),
    "reading_gives_none": toy_with_methods(
        "def to_numpy(self, array):\n    pass", r"to_numpy\(\)", "read_values"
    ),
    "reading_gives_a_list": toy_with_methods(
        "def to_numpy(self, array):\n    return [1.0]", r"to_numpy\(\)", "read_values"
    ),
    "reading_gives_another_shape": toy_with_methods(
        "def to_numpy(self, array):\n    return np.zeros((5, 5))",
        r"(?s)to_numpy\(\) .* it must return an array of shape \(\d+",
        "read_values",
    ),
    "storing_raises": toy_with_methods(
        "def from_numpy(self, array):\n    1 / 0", r"from_numpy\(\)", "store_values"
    ),
    "storing_gives_none": toy_with_methods(
        "def from_numpy(self, array):\n    pass", r"from_numpy\(\)", "store_values"
    ),
    "storing_gives_another_shape": toy_with_methods(
        "def from_numpy(self, array):\n    return np.zeros((5, 5))",
        r"(?s)from_numpy\(\) .* it must return an array of shape \(\d+",
        "store_values",
    ),
    "storing_gives_another_dtype": toy_with_methods(
        "def from_numpy(self, array):\n    return array.astype('float64')",
        r"(?s)from_numpy\(\) .* it must return an array of shape \([\d, ]*\) and dtype float32",
        "store_values",
    ),
    "storing_gives_a_list": toy_with_methods(
        "def from_numpy(self, array):\n    return array.tolist()",
        r"(?s)from_numpy\(\) .*returned .*; it must return an array of shape",
        "store_values",
    ),
    "reading_gives_another_dtype": toy_with_methods(
        "def to_numpy(self, array):\n    return array.astype('float64')",
        r"(?s)to_numpy\(\) .* it must return an array of shape \([\d, ]*\) and dtype float32",
        "read_values",
    ),
    "opening_gives_no_kernels": toy_with_methods(
        "def open(self, device):\n    self.device = '0'",
        r"open\(\) returned None; it must return its kernels",
    ),
    "storing_no_dtype": toy_with_methods(
        "def dtypes(self):\n    return frozenset()", r"dtypes\(\) returned frozenset\(\)"
    ),
    # --- kernels
    "kernel_raises": toy_with_exp("lambda x: 1 / 0", "failed on inputs .*ZeroDivisionError"),
    "kernel_returns_none": toy_with_exp("lambda x: None", "returned a NoneType"),
    "kernel_returns_a_number": toy_with_exp("lambda x: 3", "returned a int"),
    "kernel_returns_a_tensor": toy_with_exp(
        "lambda x: plugrad.zeros(x.shape, device='cpu')", "returned a Tensor"
    ),
    "kernel_returns_a_list": toy_with_exp("lambda x: [x, x]", "returned a list"),
    # --- hooks and packs
    "hooks_raise": MisbehavingPlugin(
        "register_everything()\n1 / 0", "ZeroDivisionError", "call_hooks", kind="plugins"
    ),
    "hooks_bring_half_a_gradient": MisbehavingPlugin(
        "@plugrad.hookimpl\n"
        "def plugrad_register_gradients():\n"
        "    yield GradientConfig('Exp', lambda dy, saved, attrs: {})\n"
        "    raise SystemExit(3)",
        "SystemExit: 3",
        "call_hooks",
        kind="plugins",
    ),
    "hooks_replace_a_gradient": MisbehavingPlugin(
        "@plugrad.hookimpl\n"
        "def plugrad_register_gradients():\n"
        "    return [GradientConfig('Exp', lambda dy, saved, attrs: {'x': dy})]",
        "replaces gradient Exp",
        "call_hooks",
        "replaces what others have registered: gradient Exp",
        kind="plugins",
    ),
    "ops_raise": MisbehavingPlugin(
        "register_everything()\nraise SystemExit(3)", "SystemExit: 3", "load_op_pack", kind="ops"
    ),
    "ops_replace_a_kernel": MisbehavingPlugin(
        "register_kernel(KernelConfig('Exp', 'cpu', lambda x: x), replace=True)",
        "replaces kernel Exp of backend 'cpu'",
        "load_op_pack_with_warning",
        "replaces what others have registered: kernel Exp of backend 'cpu'",
        kind="ops",
    ),
    # --- manifests
    "manifest_is_huge": toy_with_manifest(f"{MANIFEST}# {'x' * 2**20}", "it is larger than 64 KiB"),
    "manifest_has_endless_keys": toy_with_manifest(
        ".".join("a" * 30_000) + " = 1", "more than 64 dots"
    ),
    "manifest_is_deep": toy_with_manifest(f"a = {'[' * 30_000}", "nested too deeply"),
    "manifest_is_binary": toy_with_manifest(bytes(range(256)), "plugrad-backend.toml: "),
    "manifest_is_utf16": toy_with_manifest(MANIFEST.encode("utf-16"), "'utf-8' codec can't decode"),
    "manifest_has_an_endless_integer": toy_with_manifest(
        f'api = "1.0"\npriority = 0x{"f" * 30_000}', "priority = .* must be an integer"
    ),
    "manifest_has_endless_digits": toy_with_manifest(f"priority = {'9' * 30_000}", "30000 digits"),
    "manifest_has_lists_for_types": toy_with_manifest(
        'api = "1.0"\n[options.threads]\ntype = []\nsummary = "x"', "options = .* must be a table"
    ),
    "manifest_is_missing": toy_without_manifest_file(
        lambda path: None, "does not have plugrad-backend.toml"
    ),
    "manifest_is_a_folder": toy_without_manifest_file(
        lambda path: path.mkdir(), "plugrad-backend.toml: "
    ),
    "manifest_is_a_loop": toy_without_manifest_file(
        lambda path: path.symlink_to(path), "plugrad-backend.toml: "
    ),
    "manifest_is_a_device": toy_without_manifest_file(
        lambda path: path.symlink_to("/dev/zero"), "it is not a regular file"
    ),
}
if hasattr(os, "mkfifo"):
    MISBEHAVING_PLUGINS["manifest_is_a_pipe"] = toy_without_manifest_file(
        os.mkfifo, "it is not a regular file"
    )


def install_misbehaving(folder: Path, name: str) -> str:
    """Install one of the misbehaving plugins; return the name of its package."""
    plugin = MISBEHAVING_PLUGINS[name]
    package = f"acme_{name}"
    target = f"{package}:backend" if plugin.kind == "backends" else package
    files = {
        f"{package}/__init__.py": backend_source(name)
        + textwrap.dedent(REGISTER_EVERYTHING_SOURCE)
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
