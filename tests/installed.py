"""The backends that are installed where the tests run."""

from contextlib import suppress

import plugrad
from plugrad.discovery.loading import open_backend
from plugrad.errors import BackendUnavailable


def open_installed() -> None:
    """Open the backends of this repository that can start, so that what they register outlasts a test."""
    for plugin in plugrad.backends():
        if plugin.name in ("cpu", "wasm", "webgpu") and plugin.status == "available":
            with suppress(BackendUnavailable):
                open_backend(plugin.qualified_name)
