"""The module in its store: traps, threads, custom kernels, and what is imported when."""

import ctypes
import inspect
import mmap
import os
import platform
import subprocess
import sys
import threading
from importlib import import_module
from itertools import pairwise

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
    UserCache,
    float32,
)
from plugrad.registry.kernels import check_parameters
from plugrad_wasm import backend as wasm_backend, elementwise
from plugrad_wasm.dtypes import as_supported_dtype
from plugrad_wasm.module import MAX_CUSTOM_MODULES, STACK_BYTES
from plugrad_wasm.program import (
    KERNELS_WASM_FILE,
    KernelModules,
    machine_code_key,
    new_engine,
    read_custom_sections,
)

CUBE_EXPRESSION = "(f32.mul (local.get $x) (f32.mul (local.get $x) (local.get $x)))"


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


@pytest.fixture(scope="module")
def compiled_modules():
    """The compiled modules by name, and the index of their exports."""
    engine = new_engine()
    found = dict(read_custom_sections(KERNELS_WASM_FILE))
    assert int(found.pop("pages")) < 256
    lines = map(str.split, found.pop("exports").decode().splitlines())
    found.pop("functions")
    index = {name: exports for name, *exports in lines}
    return {name: wasmtime.Module(engine, code) for name, code in found.items()}, index


def test_modules_import_nothing_but_their_memory(compiled_modules):
    for module in compiled_modules[0].values():
        (item,) = module.imports
        assert (item.module, item.name, type(item.type)) == ("env", "memory", wasmtime.MemoryType)
        assert item.type.limits.max == 65535


def test_the_index_names_the_exports_of_the_modules(compiled_modules):
    compiled, index = compiled_modules
    names = {
        name: [x.name for x in module.exports if isinstance(x.type, wasmtime.FuncType)]
        for name, module in compiled.items()
    }
    assert {n: [x for x in names[n] if x != "_initialize"] for n in names} == index
    every = [x for exports in index.values() for x in exports]
    assert len(every) == len({*every})


def test_the_data_of_modules_do_not_overlap(fresh_runner):
    """Instantiating a module writes its data segment, which must not overwrite the heap or other modules' data."""
    store = fresh_runner.store
    heap = store.memory.empty((1000,), float32)
    written = {}
    firsts = {module: name for name, module in reversed(store._program.modules.items())}
    for module, name in firsts.items():
        before = bytes(store.host_view()[: heap.address])
        store.exports_holding_gil[name]
        after = bytes(store.host_view()[: heap.address])
        places = np.flatnonzero(np.frombuffer(before, "u1") != np.frombuffer(after, "u1"))
        if len(places):
            written[module] = places.min(), places.max()
    spans = sorted(written.values())
    assert len(spans) > 3
    assert all(end < start for (_, end), (start, _) in pairwise(spans))
    assert spans[0][0] >= STACK_BYTES
    assert spans[-1][1] < store._program.pages << 16 <= heap.address


def test_only_used_modules_are_compiled():
    program = """
import plugrad
with plugrad.use("wasm") as chosen:
    store = chosen.backend.linear_memory.store
    x = plugrad.asarray([1.0, 4.0])
    x + x
    print(*store._program._compiled)
    assert plugrad.sqrt(x.astype("float16")).tolist() == [1, 2]
    print(*sorted(store._program._compiled))
"""
    shown = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert shown.stdout.split("\n")[:2] == ["elementwise", "elementwise half"]


@pytest.mark.skipif(
    (sys.platform, platform.machine()) != ("linux", "x86_64"),
    reason="compiles for the first processors of x86-64 with Linux",
)
def test_processors_without_fused_instructions_compute_the_same(
    monkeypatch, tmp_path, runner_class, rng
):
    from plugrad_wasm import module, program

    def engine_without_features():
        config = wasmtime.Config()
        config.wasm_threads = True
        config.shared_memory = True
        config.target = "x86_64-unknown-linux-gnu"
        return wasmtime.Engine(config)

    fused = runner_class()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(program, "new_engine", engine_without_features)
    monkeypatch.setattr(module, "kernel_modules", KernelModules)
    plain = runner_class()
    x = rng.standard_normal((50, 50)).astype(np.float32)
    for name in ("Exp", "Sin", "Tanh", "Log1p", "Softplus"):
        np.testing.assert_allclose(plain(name, abs(x)), fused(name, abs(x)), rtol=1e-6)
    assert plain("Exp", x).tobytes() != fused("Exp", x).tobytes()
    flags = {"transpose_a": False, "transpose_b": True}
    np.testing.assert_allclose(plain("BatchMatMul", x, x, **flags), x @ x.T, rtol=1e-3, atol=1e-4)


def test_a_missing_file_says_how_to_get_one(monkeypatch):
    from plugrad_wasm import module, program

    monkeypatch.setattr(program, "KERNELS_WASM_FILE", KERNELS_WASM_FILE.with_name("absent.wasm"))
    monkeypatch.setattr(module, "kernel_modules", program.kernel_modules.__wrapped__)
    with pytest.raises(BackendUnavailable, match=r"hatch_build\.py"):
        wasm_backend().open("")


def test_a_trap_is_an_exception_and_the_store_goes_on(fresh_runner):
    x = np.float32([1, 2, 3])
    run = fresh_runner.store.exports_holding_gil["add_float32"]
    with pytest.raises(wasmtime.Trap) as caught:
        run(2**32 - 64, 2**32 - 64, 2**32 - 64, 1000, 1, 1)
    assert caught.value.trap_code is wasmtime.TrapCode.MEMORY_OUT_OF_BOUNDS
    np.testing.assert_array_equal(fresh_runner("Add", x, x), [2, 4, 6])
    long_run = fresh_runner.store.exports_releasing_gil["matmul_float32"]
    with pytest.raises(wasmtime.Trap):
        long_run(0, 0, 2**32 - 64, 50, 50, 50, 50, 1, 50, 1, 0)
    assert fresh_runner.store.lock.held == 0
    np.testing.assert_array_equal(fresh_runner("Add", x, x), [2, 4, 6])


def test_a_trap_after_a_custom_kernel_is_an_exception_too(fresh_runner):
    """A wasmtime store with two modules that import a shared memory would end the process."""
    x = np.float32([1, 2, 3])
    np.testing.assert_array_equal(
        call_implementation(fresh_runner, elementwise(CUBE_EXPRESSION), x), x**3
    )
    with pytest.raises(wasmtime.Trap):
        fresh_runner.store.exports_holding_gil["add_float32"](
            2**32 - 64, 2**32 - 64, 2**32 - 64, 1000, 1, 1
        )
    np.testing.assert_array_equal(
        call_implementation(fresh_runner, elementwise(CUBE_EXPRESSION), x), x**3
    )


def test_a_wrong_number_of_arguments_never_reaches_the_module(fresh_runner):
    with pytest.raises(Exception, match="pack expected 6"):
        fresh_runner.store.exports_holding_gil["add_float32"](1, 2, 3)


def test_threads_share_a_store(fresh_runner, rng):
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
        np.testing.assert_array_equal(fresh_runner("Add", small, small), small * 2)

    def long():
        product = fresh_runner("BatchMatMul", large, large, **flags)
        np.testing.assert_allclose(product, large @ large, rtol=1e-2, atol=1e-3)

    jobs = [(300, short), (300, short), (30, long), (30, long)]
    threads = [threading.Thread(target=work, args=job) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def make_native_function(code):
    """Return a function that runs x86-64 instructions and returns an integer."""
    memory = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    memory.write(bytes.fromhex(code))
    function = ctypes.CFUNCTYPE(ctypes.c_uint)(ctypes.addressof(ctypes.c_char.from_buffer(memory)))
    function.memory = memory
    return function


@pytest.mark.skipif(
    (sys.platform, platform.machine()) != ("linux", "x86_64"), reason="instructions of x86-64"
)
def test_dirty_avx_registers_do_not_slow_down_long_calls(fresh_runner, monkeypatch):
    monkeypatch.setattr(
        import_module("plugrad_wasm.module"), "_HAS_SLOW_UPPER_HALVES", True
    )  # as on Intel's processors
    upper_halves = 1 << 2
    in_use = make_native_function("b901000000 0f01d0 c3")  # mov ecx, 1; xgetbv; ret
    use = make_native_function("c4410576ff c3")  # vpcmpeqd ymm15, ymm15, ymm15; ret
    free = make_native_function("c5f877 c3")  # vzeroupper; ret
    use()
    was_in_use = in_use() & upper_halves
    free()
    if not was_in_use or in_use() & upper_halves:
        pytest.skip("the processor does not tell whether the upper halves are in use")
    add, x = (
        fresh_runner.store.exports_releasing_gil["add_float32"],
        fresh_runner.put(np.ones(8, np.float32)),
    )
    use()
    assert in_use() & upper_halves
    add(x.address, x.address, x.address, 8, 1, 1)
    assert not in_use() & upper_halves


def test_custom_kernels(fresh_runner, rng):
    x, y = rng.standard_normal((2, 3, 7)).astype(np.float32)
    np.testing.assert_allclose(
        call_implementation(fresh_runner, elementwise(CUBE_EXPRESSION), x), x**3, rtol=1e-6
    )
    hypotenuse = elementwise(
        """(f32.sqrt (f32.add (f32.mul (local.get $a) (local.get $a))
                              (f32.mul (local.get $b) (local.get $b))))""",
        inputs=("a", "b"),
    )
    np.testing.assert_allclose(
        call_implementation(fresh_runner, hypotenuse, x, y), np.hypot(x, y), rtol=1e-6
    )
    large = rng.standard_normal(100_000).astype(np.float32)
    np.testing.assert_allclose(
        call_implementation(fresh_runner, elementwise(CUBE_EXPRESSION), large), large**3, rtol=1e-6
    )
    assert call_implementation(
        fresh_runner, elementwise(CUBE_EXPRESSION), np.zeros((0, 2), np.float32)
    ).shape == (0, 2)


def call_implementation(run, implementation, *inputs):
    return run.get(implementation(*map(run.put, inputs)))


def test_equal_custom_kernels_are_compiled_once(fresh_runner):
    x = fresh_runner.put(np.float32([2]))
    elementwise(CUBE_EXPRESSION)(x)
    elementwise(CUBE_EXPRESSION)(x)
    found = fresh_runner.store._custom.cache_info()
    assert (found.misses, found.currsize) == (1, 1)


def test_only_the_latest_custom_kernels_stay_compiled(fresh_runner):
    x = fresh_runner.put(np.float32([2]))
    for i in range(MAX_CUSTOM_MODULES + 8):
        run = elementwise(f"(f32.add (f32.const {i}) (local.get $x))")
        assert fresh_runner.get(run(x)) == [i + 2]
    assert fresh_runner.store._custom.cache_info().currsize == MAX_CUSTOM_MODULES
    assert fresh_runner.get(elementwise("(f32.add (f32.const 0) (local.get $x))")(x)) == [2]


def test_an_expression_that_takes_long_to_compile_is_refused():
    def tree(depth):
        return f"(f32.add {tree(depth - 1)} {tree(depth - 1)})" if depth else "(local.get $x)"

    elementwise(tree(10))
    with pytest.raises(ArgumentValueError, match=r"has \d+ characters, more than the 500000 that"):
        elementwise(tree(16))


def test_invalid_custom_kernels_raise_errors(fresh_runner):
    x, y = fresh_runner.put(np.zeros(3, np.float32)), fresh_runner.put(np.zeros(4, np.float32))
    pair = elementwise("(f32.add (local.get $a) (local.get $b))", inputs=("a", "b"))
    with pytest.raises(ShapeError, match="differ"):
        pair(x, y)
    with pytest.raises(UnsupportedDtype, match="int32"):
        elementwise(CUBE_EXPRESSION)(fresh_runner.put(np.zeros(3, np.int32)))
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
        (
            '(module (import "" "" (memory 0 65535 shared)) (func $f (unreachable)) (start $f))',
            "unreachable",
        ),
        (
            '(module (import "" "" (memory 0 65535 shared)))',
            "'kernel' .* is None; export a function",
        ),
        (
            '(module (import "" "" (memory 0 65535 shared)) (export "kernel" (memory 0)))',
            "export a function",
        ),
    ],
)
def test_a_module_that_is_no_kernel_is_an_error(fresh_runner, source, message):
    with pytest.raises(ArgumentValueError, match=f"(?s){message}"):
        fresh_runner.store.compile_wat(source)
    x = np.float32([1, 2, 3])
    np.testing.assert_array_equal(fresh_runner("Add", x, x), [2, 4, 6])


def test_a_custom_kernel_shows_its_inputs_by_name():
    pair = elementwise("(f32.add (local.get $out) (local.get $count))", inputs=("out", "count"))
    assert list(inspect.signature(pair).parameters) == ["out", "count"]
    check_parameters(KernelConfig("Sub", "wasm", pair))
    with pytest.raises(RegistrationError):
        check_parameters(KernelConfig("Abs", "wasm", pair))


def test_names_of_inputs_do_not_clash_with_the_loop(fresh_runner):
    pair = elementwise("(f32.add (local.get $out) (local.get $count))", inputs=("out", "count"))
    x = np.float32([1, 2])
    np.testing.assert_array_equal(call_implementation(fresh_runner, pair, x, x), [2, 4])


def test_unknown_dtypes_are_refused_at_the_door(fresh_runner):
    with pytest.raises(UnsupportedDtype, match="string"):
        fresh_runner.backend.linear_memory.from_numpy(np.zeros(3), as_supported_dtype("string"))


def test_unknown_dtypes_are_refused_by_casts(fresh_runner):
    with pytest.raises(UnsupportedDtype, match="string"):
        fresh_runner("Cast", np.zeros(3, np.float32), dtype="string")
    assert fresh_runner("Cast", np.zeros(3, np.float32), dtype="int8").dtype == np.int8


@pytest.fixture
def cached_files(tmp_path, monkeypatch):
    """A function that returns the files in an initially empty cache of compiled modules."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return lambda: [*(tmp_path / "plugrad" / "plugrad-wasm").iterdir()]


def test_a_module_is_compiled_once(cached_files, monkeypatch):
    KernelModules()
    assert len(cached_files()) == 1
    monkeypatch.setattr(wasmtime.Module, "__init__", lambda *_: pytest.fail("compiled again"))
    assert KernelModules().module("elementwise").exports


def test_tampered_cache_file_is_never_run(cached_files, monkeypatch):
    KernelModules()
    (file,) = cached_files()
    right = file.read_bytes()
    loaded = []
    monkeypatch.setattr(wasmtime.Module, "deserialize", lambda *values: loaded.append(values))
    poisoned = bytearray(right)
    poisoned[len(right) // 2] ^= 0xFF
    file.write_bytes(poisoned)
    assert KernelModules().module("elementwise").exports
    assert loaded == []
    assert file.read_bytes() == right


def test_processes_that_start_at_once_use_one_cache(cached_files, tmp_path):
    program = "import plugrad; plugrad.use('wasm'); print((plugrad.ones(2) + 1).tolist())"
    command = [sys.executable, "-c", program]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert [process.communicate()[0] for process in processes] == ["[2.0, 2.0]\n"] * 3
    assert len(cached_files()) == 1
    assert UserCache("plugrad-wasm").read(
        machine_code_key(read_custom_sections(KERNELS_WASM_FILE)["elementwise"])
    )


def test_code_for_another_machine_is_compiled_again(cached_files):
    key = machine_code_key(read_custom_sections(KERNELS_WASM_FILE)["elementwise"])
    UserCache("plugrad-wasm").write(key, b"code of another version of wasmtime")
    assert KernelModules().module("elementwise").exports
    assert len(UserCache("plugrad-wasm").read(key)) > 100_000


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


def test_harmless_expressions_pass(fresh_runner):
    elementwise("(local.get $loop)", inputs=("loop",))
    text = "(f32.convert_i32_s (i32.trunc_sat_f32_s (f32.div (local.get $x) (f32.const 2))))"
    x = fresh_runner.put(np.float32([5, -5, 1e30]))
    np.testing.assert_array_equal(
        fresh_runner.get(elementwise(text)(x)), np.float32([2, -2, 2**31])
    )
