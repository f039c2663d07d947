"""The page of accuracy has a figure for each error that can be measured, and no error is larger."""

import numpy as np
import pytest

import plugrad
from conftest import selected_backends
from consistency.generated import FOLDER
from properties import accuracy
from properties.test_invariances import use_machine

REMEDY = "if it cannot be smaller, run `make docs` and commit the page"


def pytest_generate_tests(metafunc):
    if "machine" in metafunc.fixturenames:
        backends = selected_backends(metafunc.config)
        names = [name for name in accuracy.MACHINES if name.partition("-")[0] in backends]
        # The machines of a section follow each other, since they share its exact results.
        pairs = [
            pytest.param(section, name, id=f"{section}-{name}")
            for section in accuracy.SECTIONS
            for name in names
        ]
        metafunc.parametrize(("section", "machine"), pairs)


def published_errors(machine, section):
    """Return the errors of a section for a machine by row, in the order of the page."""
    return {
        name: figure
        for (part, name, owner), figure in accuracy.committed_errors().items()
        if (part, owner) == (section, machine)
    }


def larger_errors(errors, figures):
    """Return pairs of a measured and a published error, by row, where the measured one is larger."""
    return {
        name: (error, figures.get(name))
        for name, error in errors.items()
        if not error <= figures.get(name, -1)
    }


def test_errors_are_no_larger_than_the_figures(section, machine):
    figures = published_errors(machine, section)
    with use_machine(machine):
        errors = accuracy.measure_section(section)
    assert not larger_errors(errors, figures), f"{larger_errors(errors, figures)}: {REMEDY}"
    if accuracy.HAS_LONG_DOUBLES or "float64" not in section:
        assert list(errors) == list(figures), REMEDY


def test_a_larger_error_is_seen():
    def inaccurate(x):
        return np.exp(x) * (1 + np.float32(2**-20))

    with use_machine("cpu"), plugrad.override_kernel("Exp", "cpu", inaccurate):
        errors = accuracy.measure_section("float32", only="Exp ")
    assert "Exp | -1 to 1" in larger_errors(errors, published_errors("cpu", "float32"))


def test_the_page_has_a_figure_for_each_backend():
    found = {machine for _, _, machine in accuracy.committed_errors()}
    assert found == set(accuracy.MACHINES)
    assert (FOLDER / "accuracy.md").read_text("utf-8") == accuracy.format_page(
        accuracy.committed_errors()
    )
