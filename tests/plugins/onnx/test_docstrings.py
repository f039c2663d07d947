"""Every example in a docstring of plugrad-onnx runs."""

import doctest
import importlib
import pkgutil

import pytest

import plugrad

plugrad_onnx = pytest.importorskip("plugrad_onnx")
MODULES = [m.name for m in pkgutil.walk_packages(plugrad_onnx.__path__, "plugrad_onnx.")]
DOCTEST_FINDER = doctest.DocTestFinder(exclude_empty=True)
DOCTESTS = [
    test
    for module in MODULES
    for test in DOCTEST_FINDER.find(importlib.import_module(module))
    if test.examples
]


@pytest.mark.parametrize("test", DOCTESTS, ids=lambda test: test.name)
def test_examples_run(test, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    report = []
    test.globs.update(plugrad=plugrad)
    with plugrad.use("cpu"):
        done = doctest.DocTestRunner(verbose=False).run(test, out=report.append)
    assert done.failed == 0, "".join(report)
