"""The module in its store: traps, threads, custom kernels, and what is imported when."""

import inspect
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
import wasmtime

from plugrad.errors import RegistrationError
from plugrad.extend import (
    ArgumentError,
    ArgumentValueError,
    BackendUnavailable,
    KernelConfig,
    ShapeError,
    UnsupportedDtype,
)
from plugrad.registry.kernels import check_parameters
from plugrad_wasm import backend as wasm_backend, elementwise

CUBE = "(f32.mul (local.get $x) (f32.mul (local.get $x) (local.get $x)))"


def test_importing_the_plugin_does_not_import_wasmtime():
    program = """
import sys, plugrad_wasm
plugrad_wasm.elementwise("(local.get $x)")
print("wasmtime" in sys.modules)
"""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    shown = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment
    )
    assert shown.stdout.strip() == "False"


def test_probe_and_open():
    backend = wasm_backend()
    probe = backend.probe()
    assert probe.ok
    assert [device.name for device in probe.devices] == ["0"]
    with pytest.raises(BackendUnavailable, match="one device, '0', not '7'"):
        backend.open("7")
    backend.open("")
    assert backend.device == "0"


def test_the_module_imports_nothing(fresh):
    from importlib.resources import files

    from plugrad_wasm.module import VARIANTS, compiled

    engine = wasmtime.Engine()
    assert compiled(engine).imports == []
    for variant in VARIANTS:
        data = files("plugrad_wasm").joinpath(f"kernels-{variant}.wasm").read_bytes()
        assert wasmtime.Module(engine, data).imports == []


def test_the_plain_variant_computes_the_same(monkeypatch, opened, rng):
    from plugrad_wasm import module

    relaxed = opened()
    monkeypatch.setattr(module, "VARIANTS", ("simd",))
    plain = opened()
    x = rng.standard_normal((50, 50)).astype(np.float32)
    for name in ("Exp", "Sin", "Tanh", "Log1p", "Softplus"):
        np.testing.assert_allclose(plain(name, abs(x)), relaxed(name, abs(x)), rtol=1e-6)
    flags = {"transpose_a": False, "transpose_b": True}
    np.testing.assert_allclose(plain("BatchMatMul", x, x, **flags), x @ x.T, rtol=1e-3, atol=1e-4)


def test_a_missing_module_says_how_to_get_one(monkeypatch):
    from plugrad_wasm import module

    monkeypatch.setattr(module, "VARIANTS", ("absent",))
    with pytest.raises(BackendUnavailable, match=r"hatch_build\.py"):
        wasm_backend().open("")


def test_a_trap_is_an_exception_and_the_store_goes_on(fresh):
    x = np.float32([1, 2, 3])
    run = fresh.store.short["add_float32"]
    with pytest.raises(wasmtime.Trap) as caught:
        run(2**32 - 64, 2**32 - 64, 2**32 - 64, 1000, 1, 1)
    assert caught.value.trap_code is wasmtime.TrapCode.MEMORY_OUT_OF_BOUNDS
    np.testing.assert_array_equal(fresh("Add", x, x), [2, 4, 6])
    long_run = fresh.store.long["matmul_float32"]
    with pytest.raises(wasmtime.Trap):
        long_run(0, 0, 2**32 - 64, 50, 50, 50, 50, 1, 50, 1, 0)
    assert fresh.store.lock.held == 0
    np.testing.assert_array_equal(fresh("Add", x, x), [2, 4, 6])


def test_a_wrong_number_of_arguments_never_reaches_the_module(fresh):
    with pytest.raises(Exception, match="pack expected 6"):
        fresh.store.short["add_float32"](1, 2, 3)


def test_threads_share_a_store(fresh, rng):
    large = rng.standard_normal((300, 300)).astype(np.float32)
    small = np.arange(100, dtype=np.float32)
    flags = {"transpose_a": False, "transpose_b": False}
    failures = []

    def work(count, function):
        try:
            for _ in range(count):
                function()
        except Exception as failure:  # reported below
            failures.append(failure)

    def short():
        np.testing.assert_array_equal(fresh("Add", small, small), small * 2)

    def long():
        product = fresh("BatchMatMul", large, large, **flags)
        np.testing.assert_allclose(product, large @ large, rtol=1e-2, atol=1e-3)

    jobs = [(300, short), (300, short), (30, long), (30, long)]
    threads = [threading.Thread(target=work, args=job) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_custom_kernels(fresh, rng):
    x, y = rng.standard_normal((2, 3, 7)).astype(np.float32)
    np.testing.assert_allclose(fresh_call(fresh, elementwise(CUBE), x), x**3, rtol=1e-6)
    hypotenuse = elementwise(
        """(f32.sqrt (f32.add (f32.mul (local.get $a) (local.get $a))
                              (f32.mul (local.get $b) (local.get $b))))""",
        inputs=("a", "b"),
    )
    np.testing.assert_allclose(fresh_call(fresh, hypotenuse, x, y), np.hypot(x, y), rtol=1e-6)
    large = rng.standard_normal(100_000).astype(np.float32)
    np.testing.assert_allclose(fresh_call(fresh, elementwise(CUBE), large), large**3, rtol=1e-6)
    assert fresh_call(fresh, elementwise(CUBE), np.zeros((0, 2), np.float32)).shape == (0, 2)


def fresh_call(run, implementation, *inputs):
    return run.get(implementation(*map(run.put, inputs)))


def test_equal_custom_kernels_are_compiled_once(fresh):
    x = fresh.put(np.float32([2]))
    elementwise(CUBE)(x)
    first = dict(fresh.store._custom)
    elementwise(CUBE)(x)
    assert fresh.store._custom == first
    assert len(first) == 1


def test_what_a_custom_kernel_cannot_do_is_an_error(fresh):
    x, y = fresh.put(np.zeros(3, np.float32)), fresh.put(np.zeros(4, np.float32))
    pair = elementwise("(f32.add (local.get $a) (local.get $b))", inputs=("a", "b"))
    with pytest.raises(ShapeError, match="differ"):
        pair(x, y)
    with pytest.raises(UnsupportedDtype, match="int32"):
        elementwise(CUBE)(fresh.put(np.zeros(3, np.int32)))
    with pytest.raises(
        ArgumentValueError, match=r"text form.*cannot be compiled: unknown operator"
    ):
        elementwise("(f32.nonsense)")(x)
    with pytest.raises(ArgumentError, match="takes 2 arrays, not 1"):
        pair(x)
    for names in ((), ("a b",)):
        with pytest.raises(ArgumentValueError, match="identifiers"):
            elementwise("(f32.const 1)", inputs=names)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("(module", "cannot be compiled"),
        ('(module (import "env" "f" (func)))', "memory of plugrad.*cannot be compiled"),
        ('(module (import "" "" (memory 0)) (func $f (unreachable)) (start $f))', "unreachable"),
        ('(module (import "" "" (memory 0)))', "'kernel' .* is None; export a function"),
        ('(module (import "" "" (memory 0)) (export "kernel" (memory 0)))', "export a function"),
    ],
)
def test_a_module_that_is_no_kernel_is_an_error(fresh, source, message):
    with pytest.raises(ArgumentValueError, match=f"(?s){message}"):
        fresh.store.compile_wat(source)
    x = np.float32([1, 2, 3])
    np.testing.assert_array_equal(fresh("Add", x, x), [2, 4, 6])


def test_a_custom_kernel_shows_its_inputs_by_name():
    pair = elementwise("(f32.add (local.get $out) (local.get $count))", inputs=("out", "count"))
    assert list(inspect.signature(pair).parameters) == ["out", "count"]
    check_parameters(KernelConfig("Sub", "wasm", pair))
    with pytest.raises(RegistrationError):
        check_parameters(KernelConfig("Abs", "wasm", pair))


def test_names_of_inputs_do_not_clash_with_the_loop(fresh):
    pair = elementwise("(f32.add (local.get $out) (local.get $count))", inputs=("out", "count"))
    x = np.float32([1, 2])
    np.testing.assert_array_equal(fresh_call(fresh, pair, x, x), [2, 4])


def test_unknown_dtypes_are_refused_at_the_door(fresh):
    with pytest.raises(UnsupportedDtype, match="complex128"):
        fresh.backend.from_numpy(np.zeros(3, np.complex128))


def test_unknown_dtypes_are_refused_by_casts(fresh):
    with pytest.raises(UnsupportedDtype, match="complex128"):
        fresh("Cast", np.zeros(3, np.float32), dtype="complex128")
    assert fresh("Cast", np.zeros(3, np.float32), dtype="int8").dtype == np.int8


@pytest.fixture
def cached(tmp_path, monkeypatch):
    """The files of an empty cache of compiled modules."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return lambda: [*(tmp_path / "plugrad" / "plugrad-wasm").iterdir()]


def test_a_module_is_compiled_once(cached, monkeypatch):
    from plugrad_wasm.module import compiled

    compiled(wasmtime.Engine())
    assert len(cached()) == 1
    monkeypatch.setattr(wasmtime.Module, "__init__", lambda *_: pytest.fail("compiled again"))
    assert compiled(wasmtime.Engine()).exports


def test_a_poisoned_file_is_never_run(cached, monkeypatch):
    from plugrad_wasm.module import compiled

    compiled(wasmtime.Engine())
    (file,) = cached()
    right = file.read_bytes()
    loaded = []
    monkeypatch.setattr(wasmtime.Module, "deserialize", lambda *values: loaded.append(values))
    poisoned = bytearray(right)
    poisoned[len(right) // 2] ^= 0xFF
    file.write_bytes(poisoned)
    assert compiled(wasmtime.Engine()).exports
    assert loaded == []
    assert file.read_bytes() == right


def test_code_for_another_machine_is_compiled_again(cached):
    from plugrad.extend import UserCache
    from plugrad_wasm.module import binary, compiled, machine_code_key

    key = machine_code_key(binary("relaxed"))
    UserCache("plugrad-wasm").write(key, b"code of another version of wasmtime")
    assert compiled(wasmtime.Engine()).exports
    assert len(UserCache("plugrad-wasm").read(key)) > 100_000


def test_exports_are_those_of_the_module():
    from plugrad_wasm.module import VARIANTS, binary, export_names, program

    _, module = program(VARIANTS)
    assert export_names(binary(VARIANTS[0])) == [export.name for export in module.exports]


@pytest.mark.parametrize(
    "word",
    [
        *("loop", "call", "call_indirect", "return_call", "call 0", "(loop", "unreachable"),
        *("f32.load offset=4", "f32.store", "i32.load8_u", "memory.grow", "i32.atomic.rmw.add"),
        *("i32.div_s", "i64.rem_u", "i32.trunc_f32_s", "v128.load"),
    ],
)
def test_an_expression_can_neither_trap_nor_run_for_ever(word):
    with pytest.raises(
        ArgumentValueError, match=r"is not possible in an expression.*load_wasm_ker"
    ):
        elementwise(f"{word} (local.get $x)")


def test_harmless_expressions_pass(fresh):
    elementwise("(local.get $loop)", inputs=("loop",))
    text = "(f32.convert_i32_s (i32.trunc_sat_f32_s (f32.div (local.get $x) (f32.const 2))))"
    x = fresh.put(np.float32([5, -5, 1e30]))
    np.testing.assert_array_equal(fresh.get(elementwise(text)(x)), np.float32([2, -2, 2**31]))
