"""One browser for all tests of pages."""

import pytest

from browser.chromium import NAMES, Browser, installed


@pytest.fixture(scope="session")
def browser():
    """A headless browser."""
    program = installed()
    if program is None:
        pytest.skip(f"no browser is installed: none of {', '.join(NAMES)}")
    running = Browser(program)
    yield running
    running.close()
