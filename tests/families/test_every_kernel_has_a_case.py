"""The tables of this folder leave no kernel out."""

from functools import cache
from pathlib import Path

import pytest

import plugrad
from consistency.coverage import FAMILIES, contracts, ran_in
from plugrad.contract.kernel import KERNELS

MESSAGE = "write a Row for {missing} in core/src/plugrad/testing/tables/{family}.py"
TIER_1 = {"float32", "int32", "bool"}


@cache
def ran_on_cpu(family):
    """Return the dtypes on which cpu runs the kernels of a family's rows."""
    with plugrad.use("cpu"):
        return ran_in(family)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_kernel_runs_in_the_table_of_its_family(family):
    missing = set(contracts(family)) - ran_on_cpu(family).keys()
    assert not missing, MESSAGE.format(family=family, missing=sorted(missing))


@pytest.mark.parametrize("family", FAMILIES)
def test_every_dtype_that_all_backends_have_runs(family):
    promised = {
        (name, dtype)
        for name in contracts(family)
        for dtype in TIER_1 & KERNELS[name].accepts
        if KERNELS[name].inputs and name != "Select"  # its first input is the condition
    }
    missing = promised - {
        (name, dtype) for name, dtypes in ran_on_cpu(family).items() for dtype in dtypes
    }
    assert not missing, MESSAGE.format(family=family, missing=sorted(missing))


def test_every_family_has_a_table():
    tables = {path.stem.removeprefix("test_") for path in Path(__file__).parent.glob("test_*.py")}
    assert set(FAMILIES) <= tables
