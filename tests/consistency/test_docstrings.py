"""Every example in a docstring of core, plugrad-nn and plugrad-distributed runs and prints what it says."""

import doctest
import importlib
import pkgutil

import numpy as np
import pytest

import plugrad
import plugrad_distributed
import plugrad_nn
from installed import open_installed
from plugrad.registry.transaction import snapshot_registries

CONFORMANCE_SUITE = "plugrad.testing.suite"  # tests, which only pytest imports
CORE_MODULES = [m.name for m in pkgutil.walk_packages(plugrad.__path__, "plugrad.")]
LIBRARY_MODULES = [
    module.name
    for library in (plugrad_nn, plugrad_distributed)
    for module in pkgutil.walk_packages(library.__path__, f"{library.__name__}.")
]
MODULES = [
    "plugrad",
    *(name for name in CORE_MODULES if not name.startswith(CONFORMANCE_SUITE)),
    "plugrad_nn",
    *LIBRARY_MODULES,
]
DOCTEST_FINDER = doctest.DocTestFinder(exclude_empty=True)


def doctests_of_module(module):
    return [test for test in DOCTEST_FINDER.find(importlib.import_module(module)) if test.examples]


@pytest.fixture
def restore_registries():
    """Remove the registrations of examples after the test; the kernels of the backends stay."""
    open_installed()
    restore = snapshot_registries()
    yield
    plugrad_distributed.close()
    restore()


@pytest.mark.parametrize("module", [m for m in MODULES if doctests_of_module(m)])
def test_examples_of_a_module_run(module, restore_registries, tmp_path):
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS, verbose=False)
    report = []
    with plugrad.use("cpu"):
        for test in doctests_of_module(module):
            test.globs.update(plugrad=plugrad, np=np, nn=plugrad_nn, dist=plugrad_distributed)
            test.globs["folder"] = tmp_path
            runner.run(test, out=report.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(report)


def test_most_modules_have_examples():
    assert sum(len(doctests_of_module(m)) for m in MODULES) > 100
