"""Calls that the test suite of the array API standard makes, recorded with the results of array-api-strict.

The suite itself cannot be installed: test_array_api_suite.py runs it where there is a checkout. calls.jsonl.gz holds
up to 40 of its calls of each function and method, with inputs of at most 24 elements: name, arguments, keywords,
result. Arrays are dtype, shape and bytes. What depends on the algorithm, such as the signs of singular vectors, and
what only a later version of the standard has, several new axes at once, is left out.
"""

import gzip
import json
from collections import defaultdict
from operator import attrgetter
from pathlib import Path

import numpy as np
import pytest

import plugrad
from consistency.test_array_api_values import DTYPE_WITHOUT_X64, FUNCTIONS_WITH_DEFAULT_DTYPE
from plugrad.errors import UnsupportedDtype

RECORDS = Path(__file__).parent / "array_api" / "calls.jsonl.gz"
TOLERANCES = {"float32": 2e-5, "complex64": 5e-5, "float64": 1e-12, "complex128": 1e-12}


def read_calls():
    """Return the recorded calls by the name of the function."""
    calls = defaultdict(list)
    with gzip.open(RECORDS, "rt", encoding="utf-8") as lines:
        for line in lines:
            name, args, kwargs, result = json.loads(line)
            calls[name].append((args, kwargs, result))
    return calls


CALLS = read_calls()


def decode_value(value, array, dtype):
    """Return a recorded value; `array` and `dtype` are the constructors of the library."""
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "array":
        name, shape, data = content
        return array(np.frombuffer(bytes.fromhex(data), name).reshape(shape))
    if kind in ("tuple", "list", "slice"):
        parts = [decode_value(part, array, dtype) for part in content]
        return {"tuple": tuple, "list": list, "slice": lambda p: slice(*p)}[kind](parts)
    return {
        "float": lambda: float.fromhex(content),
        "complex": lambda: complex(*map(float.fromhex, content)),
        "dtype": lambda: dtype(content),
        "ellipsis": lambda: ...,
    }[kind]()


def iter_dtype_names(value):
    """Yield the names of the dtypes in a recorded value."""
    if isinstance(value, list):
        for part in value:
            yield from iter_dtype_names(part)
    elif isinstance(value, dict):
        for kind, content in value.items():
            if kind == "array":
                yield content[0]
            elif kind == "dtype":
                yield content
            else:
                yield from iter_dtype_names(content)


def call_plugrad(name, args, kwargs):
    """Return the result of plugrad for the arguments of a recorded call."""
    args = [decode_value(x, plugrad.asarray, plugrad.as_dtype) for x in args]
    kwargs = {key: decode_value(x, plugrad.asarray, plugrad.as_dtype) for key, x in kwargs.items()}
    if name.startswith("Array."):
        return getattr(args[0], name.removeprefix("Array."))(*args[1:], **kwargs)
    return attrgetter(name)(plugrad)(*args, **kwargs)


def assert_equal(name, actual, expected):
    """Compare a result with the recorded one."""
    if isinstance(expected, tuple):
        parts = list(actual)
        assert len(parts) == len(expected)
        for part, wanted in zip(parts, expected, strict=True):
            assert_equal(name, part, wanted)
        return
    if not isinstance(expected, np.ndarray):
        np.testing.assert_allclose(actual, expected, rtol=1e-6)
        return
    dtype = str(expected.dtype)
    allowed = (
        {dtype, DTYPE_WITHOUT_X64.get(dtype)} if name in FUNCTIONS_WITH_DEFAULT_DTYPE else {dtype}
    )
    assert actual.dtype in allowed
    assert actual.shape == expected.shape
    tolerance = absolute = TOLERANCES.get(str(actual.dtype), 0)
    with np.errstate(all="ignore"):
        if name.startswith(
            "fft."
        ):  # each sum of a transform rounds numbers as large as the largest
            sizes = np.abs(expected[np.isfinite(expected)])
            absolute *= max(1, sizes.max(initial=0))
        np.testing.assert_allclose(
            actual.numpy(), expected.astype(actual.numpy().dtype), rtol=tolerance, atol=absolute
        )


@pytest.mark.filterwarnings("ignore")  # NumPy's, for special values on purpose
@pytest.mark.parametrize("name", CALLS)
def test_recorded_calls_match_array_api_strict(name, backend):
    known = plugrad.which().backend.dtypes()
    compared = 0
    for args, kwargs, result in CALLS[name]:
        if all(d in known for d in iter_dtype_names([args, list(kwargs.values())])):
            expected = decode_value(result, np.asarray, np.dtype)
            try:
                assert_equal(name, call_plugrad(name, args, kwargs), expected)
            except UnsupportedDtype:  # the page of kernels says which dtypes a kernel has
                if backend == "cpu":  # which has all of them
                    raise
                continue
            except Exception as failure:
                failure.add_note(f"{name} of {args} with {kwargs}")
                raise
            compared += 1
    if not compared:
        pytest.skip(f"the backend has no dtype of the recorded calls of {name}")
