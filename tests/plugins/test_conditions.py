"""Implementations that are meant for some inputs only: for others the next one runs."""

from importlib import import_module

import numpy as np
import pytest

import plugrad
from plugrad.discovery.loading import open_backend
from plugrad.engine.implementations import dispatch_on_conditions
from plugrad.errors import DTypeError, OutOfMemory, RegistrationError, UnsupportedDtype
from plugrad.extend import KernelConfig, KernelTable, as_dtype, float32, float64
from plugrad.kernels import binary, creation, unary
from plugrad.tensor.choice import BROADCAST_MIN_BYTES


def dtype_set(*names):
    return frozenset(map(as_dtype, names))


# --- on each backend ------------------------------------------------------------------------------


@pytest.fixture
def chosen_implementation(backend):
    """A function that returns which of two implementations runs for arrays of given shapes and dtype."""
    device = open_backend(backend)
    fields = dtype_set("float32"), dtype_set("int32"), 1024
    configs = {
        1: (
            KernelConfig("Square", backend, lambda x: x),
            lambda x: device.from_numpy(ARRAY_OF_ONE_HALF),
        ),
        2: (KernelConfig("Add", backend, lambda a, b: a), lambda a, b: b),
    }

    def which(dtype, *shapes):
        arrays = [device.from_numpy(np.ones(shape, dtype)) for shape in shapes]
        config, following = configs[len(arrays)]
        meant = config._replace(dtypes=fields[0], broadcast_dtypes=fields[1], min_bytes=fields[2])
        function = dispatch_on_conditions([meant, config._replace(kernel_func=following)], device)
        return "meant" if function(*arrays) is arrays[0] else "following"

    return which


ARRAY_OF_ONE_HALF = np.full(1, 0.5, np.float32)


def test_dtypes_and_bytes_decide_which_implementation_runs(chosen_implementation):
    assert chosen_implementation("float32", 256) == "meant"
    assert chosen_implementation("float32", 255) == "following"
    assert chosen_implementation("int32", 256) == "following"
    assert chosen_implementation("float32", 128, 128) == "meant"
    assert chosen_implementation("float32", 128, 127) == "following"
    assert chosen_implementation("float32", 10, 10) == "following"
    assert chosen_implementation("int32", 1000, 1000) == "following"
    assert (
        chosen_implementation("float32", 100_000)
        == chosen_implementation("float32", 100_000, 100_000)
        == "meant"
    )
    assert (
        chosen_implementation("int32", 100_000)
        == chosen_implementation("int32", 100_000, 100_000)
        == "following"
    )


def test_more_dtypes_count_where_a_large_result_is_broadcast(chosen_implementation):
    rows = BROADCAST_MIN_BYTES // 4 // 256
    assert chosen_implementation("int32", (rows, 256), 256) == "meant"
    assert chosen_implementation("int32", (256,), (rows, 256)) == "meant"
    assert chosen_implementation("int32", (rows - 1, 256), 256) == "following"
    assert chosen_implementation("int32", (rows, 256), (rows, 256)) == "following"
    assert chosen_implementation("int32", (rows, 256), 1) == "following"


def test_results_of_both_implementations_are_counted_and_limited(backend):
    if backend != "cpu":
        pytest.skip("the other backends allocate their arrays themselves")
    device = open_backend(backend)
    meant = KernelConfig("Add", "cpu", lambda a, b: a + b, dtypes=dtype_set("float32"))
    arrays = {d: np.ones(1 << 20, d) for d in ("float32", "int32")}
    for dtype, x in arrays.items():
        before = device.memory()
        result = dispatch_on_conditions([meant, meant._replace(dtypes=None)], device)(x, x)
        assert device.memory().bytes - before.bytes == result.nbytes, dtype
        device.set_memory_limit(before.bytes + result.nbytes + 1000)
        try:
            limited = dispatch_on_conditions([meant, meant._replace(dtypes=None)], device)
            with pytest.raises(OutOfMemory):
                limited(x, x)
        finally:
            device.set_memory_limit(None)
        del result


# --- several of them ------------------------------------------------------------------------------


@pytest.fixture
def toy_backend(site):
    site.install("toy")
    return open_backend("toy")


def square_config(name, **conditions):
    return KernelConfig("Square", "toy", lambda x: name, **conditions)


BACKEND_CONFIG = square_config("own")
FLOAT32_CONFIG = square_config("narrow", dtypes=dtype_set("float32"), min_bytes=64)
FLOAT_CONFIG = square_config("wide", dtypes=dtype_set("float32", "float64"))


class MinimalBackendArray:
    """A backend array with only the attributes that the contract requires."""

    def __init__(self, size, dtype):
        self.shape, self.dtype = (size,), dtype


@pytest.mark.parametrize("make", [MinimalBackendArray, np.ones], ids=["ours", "NumPy's"])
def test_the_first_implementation_that_is_meant_runs(toy_backend, make):
    function = dispatch_on_conditions([FLOAT32_CONFIG, FLOAT_CONFIG, BACKEND_CONFIG], toy_backend)
    ours = {np.ones: ("float32", "float64", "int32")}.get(make, (float32, float64, plugrad.int32))
    single, double, integer = ours
    assert function(make(16, single)) == "narrow"
    assert function(make(15, single)) == "wide"
    assert function(make(16, double)) == "wide"
    assert function(make(16, integer)) == "own"


def test_implementations_after_an_unconditional_one_do_not_run(toy_backend):
    assert (
        dispatch_on_conditions([BACKEND_CONFIG, FLOAT32_CONFIG], toy_backend)(
            np.ones(99, "float32")
        )
        == "own"
    )


def test_an_implementation_on_the_host_can_be_one_of_several(toy_backend):
    on_host = KernelConfig("Square", "toy", lambda x: x * 7, None, None, True)
    function = dispatch_on_conditions([FLOAT32_CONFIG, on_host], toy_backend)
    assert function(np.ones(1, "float32")).tolist() == [7.0]
    assert function(np.ones(16, "float32")) == "narrow"


def test_without_another_implementation_small_arrays_run_and_other_dtypes_are_refused(toy_backend):
    function = dispatch_on_conditions([FLOAT32_CONFIG], toy_backend)
    assert function(np.ones(1, "float32")) == "narrow"
    with pytest.raises(UnsupportedDtype, match=r"Square .*'toy' does not take int32; .* float32"):
        function(np.ones(16, "int32"))
    assert (
        dispatch_on_conditions([square_config("only", min_bytes=64)], toy_backend)(np.ones(1))
        == "only"
    )


INVALID_CONDITIONS = {
    "a name": ({"dtypes": ["float32"]}, "dtypes must be dtypes of plugrad, not 'float32'"),
    "only when broadcast": ({"broadcast_dtypes": dtype_set("float32")}, "which it must say"),
    "negative": ({"min_bytes": -1}, "min_bytes=-1 must be an integer"),
    "a fraction": ({"min_bytes": 1.5}, "min_bytes=1.5 must be an integer"),
}


@pytest.mark.parametrize(("fields", "message"), INVALID_CONDITIONS.values(), ids=INVALID_CONDITIONS)
def test_wrong_conditions_are_refused(fields, message):
    config = KernelConfig("Conditional", "toy", lambda x: x, **fields)
    with pytest.raises(RegistrationError, match=f"Conditional on 'toy': .*{message}"):
        plugrad.register_kernel(config)


def test_a_kernel_without_inputs_has_no_conditions():
    table = KernelTable("toy")
    table.update({creation.fill: lambda backend, *, shape, value, dtype: None}, min_bytes=1)
    with pytest.raises(RegistrationError, match="no inputs"):
        plugrad.register_kernel(*table, replace=True)


def test_kernel_table_rejects_unknown_dtypes():
    with pytest.raises(DTypeError, match="'float23' is not a dtype"):
        KernelTable("toy").update({unary.sqrt: np.sqrt}, dtypes=["float23"])


def test_native_pack_declares_dtypes_and_min_bytes():
    pytest.importorskip("plugrad_native.variants").has_any_variant() or pytest.skip(
        "no native code"
    )
    table = import_module("plugrad_native.kernels").table
    add = next(config for config in table if config.kernel_name == binary.add.name)
    assert add.dtypes == dtype_set("float16")
    assert add.broadcast_dtypes == dtype_set("float32", "float64", "int32", "int64", "uint8")
    assert add.min_bytes == 1024
