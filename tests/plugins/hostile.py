"""Distributions that are installed by writing their files: one that works, and ten that misbehave, each in its own way.

Nothing here needs pip: the folder goes on ``sys.path``, or into ``PYTHONPATH``.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, NamedTuple

from plugrad.errors import BackendUnavailable, PluginConflict, PlugradError

if TYPE_CHECKING:
    from pathlib import Path

MANIFEST = 'api = "1.0"\npriority = 5\nsummary = "a toy"\ndevices = ["0"]\ndtypes = ["float32"]\n'
BACKEND_TEMPLATE = """
    import numpy as np
    from plugrad.extend import Backend, DeviceInfo, KernelTable, Memory, Probe, float32, int32
    from plugrad.kernels import binary, unary

    class Toy(Backend):
        name = "{name}"

        def devices(self):
            return (DeviceInfo("0", "a toy"), DeviceInfo("1", "another toy"))

        def probe(self):
            {probe}
            return Probe(ok=True, devices=self.devices())

        def open(self, device):
            self.device = device or "0"
            table = KernelTable(self.name)
            table.update({{binary.add: np.add, unary.exp: {implementation}}})
            return table

        def dtypes(self):
            return frozenset({{float32, int32}})

        def from_numpy(self, array):
            return array.copy()

        def to_numpy(self, array):
            return np.array(array)

        def synchronize(self):
            pass

        def memory(self):
            return Memory(0, 0, 0)

        def set_memory_limit(self, limit):
            self.limit = limit

        def close(self):
            pass

    def backend():
        return {returned}
"""


def backend_source(
    name: str, *, probe: str = "pass", implementation: str = "np.exp", returned: str = "Toy()"
) -> str:
    """Return the source of a backend that works, except for the parts that the arguments replace."""
    return textwrap.dedent(BACKEND_TEMPLATE).format(
        name=name, probe=probe, implementation=implementation, returned=returned
    )


def write_distribution(
    folder: Path,
    name: str,
    *,
    entry_points: dict[str, dict[str, str]],
    files: dict[str, str],
    version: str = "1.2",
) -> None:
    """Install a distribution: its metadata, and its files by their paths in `folder`."""
    information = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    information.mkdir(parents=True)
    header = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\nName: a description\n"
    (information / "METADATA").write_text(header)
    lines = [
        line
        for group, entries in entry_points.items()
        for line in (f"[{group}]", *(f"{entry} = {target}" for entry, target in entries.items()))
    ]
    (information / "entry_points.txt").write_text("\n".join(lines) + "\n")
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)


def write_backend(
    folder: Path,
    name: str,
    source: str | None = None,
    *,
    manifest: str | None = MANIFEST,
    distribution: str = "",
    package: str = "",
    target: str = "",
) -> str:
    """Install a distribution that brings one backend; return the name of its package."""
    distribution = distribution or f"acme-{name}"
    package = package or distribution.replace("-", "_").lower()
    files = {f"{package}/__init__.py": backend_source(name) if source is None else source}
    if manifest is not None:
        files[f"{package}/plugrad-backend.toml"] = manifest
    entry_points = {"plugrad.backends": {name: target or f"{package}:backend"}}
    write_distribution(folder, distribution, entry_points=entry_points, files=files)
    return package


class HostilePlugin(NamedTuple):
    """A plugin that fails: its listed status, and the error that its users get."""

    source: str | None = None
    manifest: str | None = MANIFEST
    status: str = "available"
    error: type[PlugradError] | None = BackendUnavailable
    """None: there is no error, because the process dies or hangs."""
    message: str = ""


HOSTILE_PLUGINS = {
    "import_error": HostilePlugin(
        "import a_library_that_is_not_there",
        message="No module named 'a_library_that_is_not_there'",
    ),
    "exits": HostilePlugin("raise SystemExit(3)", message="SystemExit: 3"),
    "segfault": HostilePlugin(
        "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)", error=None
    ),
    "hang": HostilePlugin("import time\ntime.sleep(3600)", error=None),
    "malformed": HostilePlugin(
        manifest='api = "1.0"\npriority = "high"\n',
        status="failed",
        message="plugrad-backend.toml: priority = 'high' must be an integer",
    ),
    "no_manifest": HostilePlugin(
        manifest=None, status="failed", message="does not have plugrad-backend.toml next to"
    ),
    "future": HostilePlugin(
        manifest='api = "2.0"\nquantum = true\n',
        status="incompatible",
        message="it needs plugin API 2.0 .* pip install --upgrade plugrad-core",
    ),
    "duplicate": HostilePlugin(
        status="conflict",
        error=PluginConflict,
        message="choose 'acme-duplicate::duplicate' or 'other-duplicate::duplicate'",
    ),
    "wrong_kernel": HostilePlugin(
        backend_source("wrong_kernel", implementation="lambda: None"),
        message="Exp on 'wrong_kernel': .* takes 0 positional parameters",
    ),
    "bad_probe": HostilePlugin(
        backend_source("bad_probe", probe="raise OSError('bus error')"),
        message="OSError: bus error",
    ),
}


def install_hostile_plugins(folder: Path) -> None:
    """Install all hostile plugins."""
    for name, hostile in HOSTILE_PLUGINS.items():
        write_backend(folder, name, hostile.source, manifest=hostile.manifest)
    write_backend(folder, "duplicate", distribution="other-duplicate")
