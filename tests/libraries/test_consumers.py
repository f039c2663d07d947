"""Further libraries take tensors through the protocols for arrays, and give what they give for NumPy's arrays."""

from importlib.util import find_spec

import numpy as np
import pytest

import plugrad
from libraries.comparing import TOLERANCE, describe_difference, make_constructors
from libraries.consumers_calls import CALLS, CALLS_WITHOUT_ARRAY_PROTOCOL

MODULES = {"dm_tree": "tree", "pillow": "PIL", "duckdb": "duckdb pyarrow"}
"""The modules of libraries that have other names, or need another one."""


def skip_without(name):
    for module in MODULES.get(name, name).split():
        if find_spec(module) is None:
            pytest.skip(f"{module} is not installed; it is not in the group libraries")


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.filterwarnings("ignore")
def test_consumers_give_the_same_results_for_tensors_and_arrays(backend, name):
    skip_without(name)
    tensor, array, real = make_constructors()
    assert describe_difference(CALLS[name](tensor), CALLS[name](array), TOLERANCE[real.name]) == ""


@pytest.mark.parametrize("name", CALLS_WITHOUT_ARRAY_PROTOCOL)
@pytest.mark.filterwarnings("ignore")
def test_libraries_without_array_protocols_reject_tensors(name):
    skip_without(name)
    with plugrad.use("cpu"):
        CALLS_WITHOUT_ARRAY_PROTOCOL[name](np.asarray)
        CALLS_WITHOUT_ARRAY_PROTOCOL[name](lambda values: plugrad.asarray(values).numpy())
        with pytest.raises(Exception):  # noqa: B017, PT011 - that of the library; once it is gone, the call moves up
            CALLS_WITHOUT_ARRAY_PROTOCOL[name](plugrad.asarray)
