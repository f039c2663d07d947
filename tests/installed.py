"""The backends that are installed where the tests run."""

from contextlib import suppress

import plugrad
from plugrad.discovery.loading import open_backend, opened_backends
from plugrad.errors import BackendUnavailable

BUNDLED = {"cpu", "wasm", "webgpu"}


def open_installed() -> None:
    """Open the backends of this repository that can start, so that what they register outlasts a test."""
    if {backend.name for backend in opened_backends()} >= BUNDLED:
        return  # to list plugins takes longer
    for plugin in plugrad.backends():
        if plugin.name in BUNDLED and plugin.status == "available":
            with suppress(BackendUnavailable):
                open_backend(plugin.qualified_name)
