"""No error is larger than the figure that the page of accuracy says."""

import numpy as np
import pytest

import plugrad
from conftest import chosen
from consistency.generated import FOLDER
from properties import accuracy
from properties.test_invariances import running

REMEDY = "if it cannot be smaller, run `make docs` and commit the page"


def pytest_generate_tests(metafunc):
    if "machine" in metafunc.fixturenames:
        backends = chosen(metafunc.config)
        names = [name for name in accuracy.MACHINES if name.partition("-")[0] in backends]
        metafunc.parametrize("machine", names, scope="module")


def larger_errors(machine, section, only=""):
    """Return the errors of the active backend that are larger than their figures, by row."""
    figures = accuracy.committed()
    return {
        name: (error, figures.get((section, name, machine)))
        for name, error in accuracy.measured(section, only).items()
        if not error <= figures.get((section, name, machine), -1)
    }


@pytest.mark.parametrize("section", accuracy.SECTIONS)
def test_errors_are_no_larger_than_the_figures(machine, section):
    with running(machine):
        larger = larger_errors(machine, section)
    assert not larger, f"{larger}: {REMEDY}"


def test_a_larger_error_is_seen():
    def inaccurate(x):
        return np.exp(x) * (1 + np.float32(2**-20))

    with running("cpu"), plugrad.override_kernel("Exp", "cpu", inaccurate):
        assert "Exp | -1 to 1" in larger_errors("cpu", "float32", only="Exp ")


def test_the_page_has_a_figure_for_each_backend():
    found = {machine for _, _, machine in accuracy.committed()}
    assert found == set(accuracy.MACHINES)
    assert (FOLDER / "accuracy.md").read_text("utf-8").startswith(accuracy.OPENING)
