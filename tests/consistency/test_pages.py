"""Every example on the pages that people read runs and prints what it says."""

import doctest
from pathlib import Path

import numpy as np
import pytest

import plugrad

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
WITH_EXAMPLES = [page for page in PAGES if ">>>" in page.read_text("utf-8")]


@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=lambda page: page.stem)
def test_examples_run(page, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    kernels, backends = dict(plugrad.kernel.KERNELS), list(plugrad.discovery._run_time)
    try:
        with plugrad.use("cpu"):
            failed, run = doctest.testfile(
                str(page),
                module_relative=False,
                globs={"plugrad": plugrad, "np": np},
                optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE,
            )
    finally:
        _forget(kernels, backends)
    assert run > 0
    assert failed == 0


def _forget(kernels, backends):
    """Take back what a page declared, so that pages do not see each other."""
    for name in plugrad.kernel.KERNELS.keys() - kernels.keys():
        del plugrad.kernel.KERNELS[name]
        if plugrad.get_gradient(name):
            plugrad.unregister_gradient(name)
        if plugrad.get_kernel(name, "cpu"):
            plugrad.unregister_kernel(name, "cpu")
    for backend in plugrad.loading.opened_backends():
        if backend.name == "acme":
            plugrad.close_backend(backend)
    if len(plugrad.discovery._run_time) > len(backends):
        for backend in plugrad.loading.opened_backends():
            if backend.name == "acme":
                plugrad.loading.close_backend(backend)
        del plugrad.discovery._run_time[len(backends) :]
        for config in plugrad.get_kernels_for_backend("acme"):
            plugrad.unregister_kernel(config.kernel_name, "acme")
        plugrad.backends(refresh=True)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page):
    import re

    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text("utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"
