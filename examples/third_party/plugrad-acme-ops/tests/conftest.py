"""The backends to test: those that are installed, have the kernel, and can run on this machine."""

from collections.abc import Iterator

import plugrad_acme_ops  # noqa: F401 - declares the kernel
import pytest

import plugrad
from plugrad.errors import CannotRun


@pytest.fixture(params=sorted({plugin.name for plugin in plugrad.backends()}))
def backend(request: pytest.FixtureRequest) -> Iterator[str]:
    """Use a backend while a test runs; skip the test if the backend cannot start or lacks the kernel."""
    try:
        using = plugrad.use(request.param)
    except CannotRun as error:
        pytest.skip(str(error))
    with using:
        if plugrad.get_kernel("AcmeSwiGLU", request.param) is None:
            pytest.skip(f"no plugin brings AcmeSwiGLU for {request.param}")
        yield request.param
