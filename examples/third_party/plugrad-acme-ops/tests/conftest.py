"""The backends to test: those that are installed and can run on this machine."""

from collections.abc import Iterator

import pytest

import plugrad
from plugrad.errors import CANNOT_RUN_ERRORS


@pytest.fixture(params=sorted({plugin.name for plugin in plugrad.backends()}))
def backend(request: pytest.FixtureRequest) -> Iterator[str]:
    """Use a backend while a test runs; skip the test if the backend cannot start."""
    try:
        using = plugrad.use(request.param)
    except CANNOT_RUN_ERRORS as error:
        pytest.skip(str(error))
    with using:
        yield request.param
