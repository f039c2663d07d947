"""The tables of this folder leave no kernel out."""

from functools import cache
from pathlib import Path

import pytest

import plugrad
from consistency.coverage import KERNEL_FAMILIES, family_kernels, run_family
from plugrad.contract.kernel import KERNELS

MISSING_CASE_MESSAGE = "write a Row for {missing} in core/src/plugrad/testing/tables/{family}.py"
REQUIRED_DTYPES = {"float32", "int32", "bool"}


@cache
def run_family_on_cpu(family):
    """Return the dtypes that the kernels of a family have run on, on the cpu, in the family's test cases."""
    with plugrad.use("cpu"):
        return run_family(family)


@pytest.mark.parametrize("family", KERNEL_FAMILIES)
def test_every_kernel_runs_in_the_table_of_its_family(family):
    missing = set(family_kernels(family)) - run_family_on_cpu(family).keys()
    assert not missing, MISSING_CASE_MESSAGE.format(family=family, missing=sorted(missing))


@pytest.mark.parametrize("family", KERNEL_FAMILIES)
def test_every_dtype_that_all_backends_have_runs(family):
    promised = {
        (name, dtype)
        for name in family_kernels(family)
        for dtype in REQUIRED_DTYPES & KERNELS[name].accepts
        if KERNELS[name].inputs and name != "Select"  # its first input is the condition
    }
    missing = promised - {
        (name, dtype) for name, dtypes in run_family_on_cpu(family).items() for dtype in dtypes
    }
    assert not missing, MISSING_CASE_MESSAGE.format(family=family, missing=sorted(missing))


def test_every_family_has_a_table():
    tables = {path.stem.removeprefix("test_") for path in Path(__file__).parent.glob("test_*.py")}
    assert set(KERNEL_FAMILIES) <= tables
