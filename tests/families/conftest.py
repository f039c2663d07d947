"""What all tests of families have in common."""

import pytest

from plugins.poison import poison_new_blocks


@pytest.fixture(autouse=True)
def poisoned_blocks(monkeypatch):
    """Poison in new blocks on wasm: a result that depends on what memory held before differs from the right one."""
    poison_new_blocks(monkeypatch)
