"""Every example on the pages that people read runs and prints what it says."""

import doctest
from pathlib import Path

import numpy as np
import pytest

import plugrad
from installed import open_installed
from plugrad.discovery.loading import opened_backends
from plugrad.discovery.state import state
from plugrad.registry.transaction import snapshot

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
WITH_EXAMPLES = [page for page in PAGES if ">>>" in page.read_text("utf-8")]


@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=lambda page: page.stem)
def test_examples_run(page, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    open_installed()
    restore = snapshot()
    try:
        with plugrad.use("cpu"):
            failed, run = doctest.testfile(
                str(page),
                module_relative=False,
                globs={"plugrad": plugrad, "np": np},
                optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE,
            )
    finally:
        _close_acme()
        restore()
    assert run > 0
    assert failed == 0


def _close_acme():
    """Close the backend that pages bring, and forget it, so that pages do not see each other."""
    for backend in opened_backends():
        if backend.name == "acme":
            plugrad.close_backend(backend)
    state.added[:] = [plugin for plugin in state.added if plugin.name != "acme"]
    plugrad.backends(refresh=True)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page):
    import re

    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text("utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"
