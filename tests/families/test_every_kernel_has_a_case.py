"""The tables of this folder leave no kernel out; nor do the backends that come with plugrad."""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import plugrad
from families.case import Case
from plugrad import kernels
from plugrad.discovery import first_party
from plugrad.kernel import KERNELS

FAMILIES = sorted(p.stem for p in Path(kernels.__file__).parent.glob("[!_]*.py"))
TIER_1 = {"float32", "int32", "bool"}


def contracts(family: str) -> dict[str, frozenset[str]]:
    """Return the kernels of one of core's families, and the dtypes that they take first."""
    return {
        name: contract.accepts
        for name, contract in KERNELS.items()
        if contract.rule.__module__ == f"plugrad.kernels.{family}"
    }


def cases_in(value: object) -> Iterator[Case]:
    if isinstance(value, Case):
        yield value
    elif isinstance(value, list | tuple):
        for part in value:
            yield from cases_in(part)


class Recorded(dict):
    """A backend's functions that remember which of them ran on which dtype."""

    def __init__(self, functions):
        super().__init__(functions)
        self.ran = set()

    def get(self, name, default=None):
        try:
            return self[name]
        except KeyError:
            return default

    def __getitem__(self, name):
        function = super().__getitem__(name)

        def recorded(*arrays, **attrs):
            self.ran.add((name, str(getattr(arrays[0], "dtype", ""))))
            return function(*arrays, **attrs)

        return recorded


def ran_in(family: str, monkeypatch: pytest.MonkeyPatch) -> set[tuple[str, str]]:
    """Return (kernel, dtype of its first input) for all that runs in a family's rows."""
    table = import_module(f"families.test_{family}")
    cases = {id(case): case for value in vars(table).values() for case in cases_in(value)}
    backend = plugrad.which().backend
    functions = Recorded(backend.functions)
    monkeypatch.setattr(backend, "functions", functions)
    rng = np.random.default_rng(0)
    for case in cases.values():
        for dtype in case.dtypes:
            arrays = case.drawn(rng, dtype) if case.domains else []
            with np.errstate(all="ignore"):
                case.op(*map(plugrad.asarray, arrays), **case.attrs)
    return functions.ran


@pytest.mark.parametrize("family", FAMILIES)
def test_every_kernel_runs_in_the_table_of_its_family(family, monkeypatch):
    with plugrad.use("cpu"):
        ran = {name for name, _ in ran_in(family, monkeypatch)}
    missing = contracts(family).keys() - ran
    assert not missing, f"tests/families/test_{family}.py has no case for {sorted(missing)}"


@pytest.mark.parametrize("family", FAMILIES)
def test_every_dtype_that_all_backends_have_runs(family, monkeypatch):
    with plugrad.use("cpu"):
        ran = ran_in(family, monkeypatch)
    promised = {
        (name, dtype)
        for name, accepts in contracts(family).items()
        for dtype in TIER_1 & accepts
        if KERNELS[name].inputs and name != "Select"  # its first input is the condition
    }
    missing = promised - ran
    assert not missing, f"tests/families/test_{family}.py has no case for {sorted(missing)}"


def test_every_family_has_a_table():
    tables = {path.stem.removeprefix("test_") for path in Path(__file__).parent.glob("test_*.py")}
    assert set(FAMILIES) <= tables


def test_first_party_backends_have_every_kernel_of_the_cpu(backend):
    (candidate,) = [b for b in plugrad.backends() if b.name == backend]
    if candidate.distribution.lower() not in first_party():
        pytest.skip(f"{candidate.distribution} decides for itself what {backend} has")
    with plugrad.use("cpu"):
        pass  # loads it, and its kernels with it
    cpu, here = (
        {config.kernel_name for config in plugrad.get_kernels_for_backend(name)}
        for name in ("cpu", backend)
    )
    families = {name for family in FAMILIES for name in contracts(family)}
    assert families <= cpu
    missing = (cpu & families) - here
    assert not missing, f"{backend} has no {sorted(missing)}"
