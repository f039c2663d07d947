"""What all tests of families have in common."""

import pytest

from plugins.poison import poison_new_blocks, poison_new_buffers


@pytest.fixture(autouse=True)
def poisoned_memory(monkeypatch):
    """Poison in new memory: a result that depends on what memory held before differs from the right one."""
    poison_new_blocks(monkeypatch)
    poison_new_buffers(monkeypatch)
