"""Every example in a docstring of plugrad-numerics runs and prints what it says, and plugrad finds the pack."""

import doctest
import importlib
import pkgutil

import pytest

import plugrad
import plugrad_numerics
from plugrad_numerics import distributions, filters, integrate, interpolate, optimize, special

DOCTEST_FINDER = doctest.DocTestFinder(exclude_empty=True)
MODULES = [m.name for m in pkgutil.walk_packages(plugrad_numerics.__path__, "plugrad_numerics.")]
PUBLIC_MODULES = (distributions, filters, integrate, interpolate, optimize, special)


def doctests_of_module(module):
    return [test for test in DOCTEST_FINDER.find(importlib.import_module(module)) if test.examples]


@pytest.mark.parametrize(
    "module", ["plugrad_numerics", *[m for m in MODULES if doctests_of_module(m)]]
)
def test_examples_of_a_module_run(module):
    runner = doctest.DocTestRunner(verbose=False)
    report = []
    names = {space.__name__.rpartition(".")[2]: space for space in PUBLIC_MODULES}
    with plugrad.use("cpu"):
        for test in doctests_of_module(module):
            test.globs.update(names, plugrad=plugrad)
            runner.run(test, out=report.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(report)


@pytest.mark.parametrize("space", PUBLIC_MODULES, ids=lambda space: space.__name__)
def test_every_public_name_has_an_example(space):
    for name, value in vars(space).items():
        is_own = str(getattr(value, "__module__", "")).startswith("plugrad_numerics")
        if is_own and name[0] != "_" and name not in ("Distribution", "OptimizeResult"):
            assert ">>>" in (value.__doc__ or ""), name


def test_plugrad_finds_the_pack():
    (pack,) = [plugin for plugin in plugrad.plugins("ops") if plugin.name == "numerics"]
    assert pack.distribution == "plugrad-numerics"
    assert plugrad.op_pack("numerics") is plugrad_numerics
