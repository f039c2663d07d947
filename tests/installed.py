"""The backends that are installed where the tests run."""

from contextlib import suppress

import plugrad
from plugrad.discovery.loading import open_backend, opened_backends
from plugrad.errors import BackendUnavailable

BUNDLED_BACKENDS = {"cpu", "wasm", "webgpu"}


def open_installed() -> None:
    """Open the bundled backends that can start, so that their registrations outlast a test."""
    if {backend.name for backend in opened_backends()} >= BUNDLED_BACKENDS:
        return  # to list plugins takes longer
    for plugin in plugrad.backends():
        if plugin.name in BUNDLED_BACKENDS and plugin.status == "available":
            with suppress(BackendUnavailable):
                open_backend(plugin.qualified_name)
