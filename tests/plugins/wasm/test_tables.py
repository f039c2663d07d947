"""Tables of calls in the sandbox: they run in order, and a wrong one is an error."""

import gc
import struct
import weakref
from contextlib import suppress
from importlib import import_module

import numpy as np
import pytest

from plugrad.extend import ArgumentValueError

wasmtime = pytest.importorskip("wasmtime")
runtime = import_module("plugrad_wasm.runtime")
tables = import_module("plugrad_wasm.programs.table")
TableCall, Operand, write_table = tables.TableCall, tables.Operand, tables.encode_table


def relu_table(store, x, y, count=10, **changes):
    """Return the program table of one call of relu."""
    operands = [Operand(0, x.address), Operand(0, y.address), Operand(0, count)]
    call = TableCall("relu_float32", operands)._replace(**changes)
    return write_table([(1, 1, [call])], "elementwise", store.functions, 3)


@pytest.fixture
def array_and_runner(fresh_runner):
    """A store with an array, memory for a result, and a function that runs a program table."""
    x = fresh_runner.put(np.arange(-5, 5, dtype="f4"))
    y = fresh_runner.put(np.zeros(10, "f4"))

    def run(table):
        code, bases = (
            fresh_runner.put(np.frombuffer(table, "u1")),
            fresh_runner.put(np.zeros(3, "i8")),
        )
        fresh_runner.store.exports_holding_gil["program_elementwise"](
            code.address, len(table), bases.address
        )
        return fresh_runner.get(y)

    return fresh_runner.store, x, y, run


def test_a_table_of_one_call(array_and_runner):
    store, x, y, run = array_and_runner
    np.testing.assert_array_equal(run(relu_table(store, x, y)), np.maximum(np.arange(-5, 5), 0))


def test_tables_of_several_modules_run_in_order_and_stop_at_a_trap(fresh_runner):
    store = fresh_runner.store
    x, y, z = (fresh_runner.put(np.arange(-5, 5, dtype="f4") * n) for n in (1, 0, 0))

    def write_call(export, module, *numbers):
        operands = [Operand(*number) for number in numbers]
        table = write_table([(1, 1, [TableCall(export, operands)])], module, store.functions, 4)
        return fresh_runner.put(np.frombuffer(table, "u1")), len(table)

    # y = relu(x) and z = the sum of y: the base 3 is the array that is read.
    relu = write_call("relu_float32", "elementwise", (3, 0), (0, y.address), (0, 10))
    total = ("sum_float32", "reduction", (0, y.address), (0, z.address), (0, 1), (0, 10), (0, 1))
    sums = write_call(*total)
    wrong = write_call("relu_float32", "elementwise", (3, 0), (0, 2**32 - 64), (0, 1000))

    def bind(*blocks):
        modules = {relu[0]: "elementwise", sums[0]: "reduction", wrong[0]: "elementwise"}
        return store.bind_tables(
            [
                runtime.TableRun(modules[block], block.address, nbytes, i % 2 == 0)
                for i, (block, nbytes) in enumerate(blocks)
            ]
        )

    run = bind(relu, sums, *[relu] * 40, sums)
    other = fresh_runner.put(np.arange(10, dtype="f4"))
    for array in (x, other, x, x):
        bases = fresh_runner.put(np.array([0, 0, 0, array.address], "i8"))
        run(bases.address)
        assert fresh_runner.get(z)[0] == np.maximum(fresh_runner.get(array), 0).sum()
    stops = bind(wrong, relu, sums), bind(relu, wrong, sums)
    bases = fresh_runner.put(np.array([0, 0, 0, other.address], "i8"))
    for stop in stops:
        with pytest.raises(wasmtime.Trap):
            stop(bases.address)
        assert store.lock.held == 0
        assert fresh_runner.get(z)[0] == 10  # of x: no table behind the trap has run
    run(bases.address)
    assert fresh_runner.get(z)[0] == 45


def test_a_function_that_runs_tables_dies_with_its_last_reference(fresh_runner):
    """Else what many programs were compiled to would stay as long as the backend."""
    store = fresh_runner.store
    x, y = (fresh_runner.put(np.arange(10, dtype="f4")) for _ in range(2))
    code = relu_table(store, x, y)
    block = fresh_runner.put(np.frombuffer(code, "u1"))
    table = runtime.TableRun("elementwise", block.address, len(code), True)
    instance = store._instances.instance_with_export("program_elementwise")
    run = store.bind_tables([table])
    bound, reference = len(instance._bound), weakref.ref(run)
    store.bind_tables([table])
    assert len(instance._bound) == bound
    gc.disable()
    try:
        del run
        assert reference() is None
    finally:
        gc.enable()


def test_every_function_of_a_program_has_its_number_and_types(fresh_runner):
    """The module's function table has the order of the index."""
    store = fresh_runner.store
    for name in ("add_float32", "fill_8", "step_float64", "clip_float32", "ramp_int64"):
        instance = store._instances.instance_with_export(name)
        types = [str(p) for p in instance.find_export(name).type(instance.store).params]
        letters = {"i32": "i", "i64": "l", "f32": "f", "f64": "d"}
        assert store.functions[name].parameter_type_letters == "".join(letters[t] for t in types)
    x, y = fresh_runner.put(np.arange(1, 5, dtype="f4")), fresh_runner.put(np.zeros(4, "f4"))
    operands = [Operand(0, x.address), Operand(0, y.address), Operand(0, 4)]
    for kernel in ("negative", "square", "sqrt", "exp"):
        call = TableCall(f"{kernel}_float32", operands)
        table = write_table([(1, 1, [call])], "elementwise", store.functions, 3)
        block, bases = (
            fresh_runner.put(np.frombuffer(table, "u1")),
            fresh_runner.put(np.zeros(3, "i8")),
        )
        store.exports_holding_gil["program_elementwise"](block.address, len(table), bases.address)
        expected = getattr(np, kernel)(np.arange(1, 5, dtype="f4"))
        np.testing.assert_allclose(fresh_runner.get(y), expected, rtol=1e-6)


TABLE_HEADER_BYTES = 4 * 4
"""The bytes of the head of a loop, and of a call."""


@pytest.mark.parametrize(
    ("position", "number"),
    [
        *((4, 0), (4, -1), (8, 1), (8, 3), (8, 1000), (12, 0), (12, -16), (12, 1 << 20)),
        *(
            (TABLE_HEADER_BYTES, -1),
            (TABLE_HEADER_BYTES, 1 << 20),
            (TABLE_HEADER_BYTES, 1 << 30),
            (TABLE_HEADER_BYTES + 4, -1),
            (TABLE_HEADER_BYTES + 4, 1000),
        ),
        *(
            (TABLE_HEADER_BYTES + 4, 0),
            (TABLE_HEADER_BYTES + 4, 3),
            (TABLE_HEADER_BYTES + 8, -1),
            (TABLE_HEADER_BYTES + 8, 2),
            (TABLE_HEADER_BYTES + 8, 1000),
        ),
    ],
)
def test_a_wrong_number_in_a_table_traps(array_and_runner, position, number):
    store, x, y, run = array_and_runner
    table = bytearray(relu_table(store, x, y))
    signature = store.functions["relu_float32"].signature_index
    if position == TABLE_HEADER_BYTES + 4 and number == signature:
        return
    if position == 8 and number == 1:
        return  # which is what it is
    struct.pack_into("<i", table, position, number)
    with pytest.raises(wasmtime.Trap):
        run(bytes(table))
    np.testing.assert_array_equal(run(relu_table(store, x, y)), np.maximum(np.arange(-5, 5), 0))


def test_a_function_with_the_types_of_another_traps(array_and_runner):
    store, x, y, run = array_and_runner
    table = bytearray(relu_table(store, x, y))
    struct.pack_into("<i", table, TABLE_HEADER_BYTES, store.functions["add_float32"].table_index)
    with pytest.raises(wasmtime.Trap):
        run(bytes(table))


@pytest.mark.parametrize("length", [1, 15, 16, 31, 40, 79])
def test_a_table_that_ends_early_traps(array_and_runner, length):
    store, x, y, run = array_and_runner
    with pytest.raises(wasmtime.Trap):
        run(relu_table(store, x, y)[:length])


def test_whatever_a_table_has_stays_in_the_sandbox(runner_class):
    """Random numbers of a table are changed, and its length, but not the counts of loops, which only take time."""
    run = runner_class()
    store = run.backend.linear_memory.store
    rng = np.random.default_rng(0)
    numbers = [-1, 0, 1, 2, 1000, 1 << 20, (1 << 31) - 1, -(1 << 31)]
    calls = {"relu_float32": 3, "add_float32": 6, "select_4": 8, None: 4}
    for _ in range(50):
        data, bases = run.put(np.zeros(64, "f4")), run.put(np.zeros(5, "i8"))
        made = [
            TableCall(name, [*[Operand(0, data.address)] * 2, *[Operand(0, 9)] * (count - 2)])
            for name, count in calls.items()
        ]
        table = bytearray(write_table([(3, 2, made)], "elementwise", store.functions, 5))
        for _ in range(3):
            place = 4 * rng.integers(1, len(table) // 4)
            struct.pack_into("<i", table, place, numbers[rng.integers(len(numbers))])
        length = [len(table), int(rng.integers(-5, 2 * len(table)))][rng.integers(2)]
        code = run.put(np.frombuffer(table, "u1"))
        with suppress(wasmtime.Trap):
            store.exports_holding_gil["program_elementwise"](code.address, length, bases.address)


def test_tables_with_unknown_functions_or_wrong_operands_are_rejected(array_and_runner):
    store, x, y, _ = array_and_runner
    for changes, message in (
        ({"export": "absent"}, "no function 'absent'"),
        ({"export": "sum_float32"}, "no function 'sum_float32'"),
        ({"export": "add_float32"}, "takes 6 operands, not 3"),
        ({"operands": [Operand(3, 0)] * 3}, "base 3"),
        ({"operands": [Operand(-1, 0)] * 3}, "base -1"),
    ):
        with pytest.raises(ArgumentValueError, match=message):
            relu_table(store, x, y, **changes)
    for loop in ((-1, 1), (1, 0), (1 << 31, 1)):
        with pytest.raises(ArgumentValueError, match="cannot run"):
            write_table([(*loop, [])], "elementwise", store.functions, 3)
