"""One browser for all tests of pages."""

import pytest

from browser.chromium import BROWSER_COMMANDS, Browser, find_browser


@pytest.fixture(scope="session")
def browser():
    """A headless browser."""
    program = find_browser()
    if program is None:
        pytest.skip(f"no browser is installed: none of {', '.join(BROWSER_COMMANDS)}")
    running = Browser(program)
    yield running
    running.close()
