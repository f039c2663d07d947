"""Kernels from foreign modules: in C and in text form, and whatever a module may do wrong."""

import os
import subprocess
import sys
from itertools import product
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

import plugrad
from plugins.wasm.foreign import module_text
from plugrad.errors import (
    ArgumentError,
    ArgumentValueError,
    KernelFailed,
    OutOfMemory,
    UnsupportedDtype,
)
from plugrad.extend import (
    Axes,
    Shaped,
    Spec,
    float32,
    int32,
    reduced_shape,
)
from plugrad_wasm import HEADER, load_wasm_kernel

ROOT = Path(__file__).parents[3]
MODULES_FOLDER = Path(__file__).parent / "modules"


@pytest.fixture(scope="session")
def compile_c(tmp_path_factory):
    """A function that compiles C source to a wasm module."""

    def run(source):
        target = tmp_path_factory.mktemp("modules") / "module.wasm"
        flags = ["-target", "wasm32-freestanding", "-O3", "-nostdlib", "-Wl,--no-entry"]
        command = [sys.executable, "-m", "ziglang", "cc", *flags, f"-I{HEADER.parent}"]
        caches = {
            "ZIG_GLOBAL_CACHE_DIR": str(target.parent),
            "ZIG_LOCAL_CACHE_DIR": str(target.parent),
        }
        subprocess.run(
            [*command, "-Wall", "-Werror", str(source), "-o", str(target)],
            check=True,
            env=os.environ | caches,
        )
        return target

    return run


# --- what works -----------------------------------------------------------------------------------


def moving_sum_and_maximum(x: Spec, *, width: int) -> tuple[Spec, Spec]:
    size = *x.shape[:-1], x.shape[-1] - width + 1
    return Shaped(size, x.dtype), Shaped(x.shape[:-1], x.dtype)


def test_a_kernel_in_c(compile_c, register_module):
    run = register_module(compile_c(MODULES_FOLDER / "moving_sum.c"), moving_sum_and_maximum)
    for dtype in ("float32", "int32"):
        for shape in [(7,), (3, 20), (2, 3, 100)]:
            x = np.random.default_rng(0).integers(-9, 9, shape).astype(dtype)
            sums, largest = run(plugrad.asarray(x), width=4)
            expected = np.lib.stride_tricks.sliding_window_view(x, 4, -1).sum(-1, dtype)
            np.testing.assert_array_equal(sums.numpy(), expected)
            np.testing.assert_array_equal(largest.numpy(), expected.max(-1))
            assert (sums.dtype, largest.dtype) == (dtype, dtype)
    with pytest.raises(KernelFailed, match="reported failure 1"):
        run(plugrad.asarray([1, 2, 3, 4], dtype="int8"), width=2)


def test_the_kernel_in_c_of_the_documentation(compile_c, register_module, tmp_path):
    page = (ROOT / "docs" / "examples" / "wasm_module.md").read_text("utf-8")
    source = tmp_path / "moving_sum.c"
    source.write_text(page.split("```c\n")[1].split("```")[0])

    def moving_sum(x: Spec, *, width: int) -> Spec:
        return Shaped((x.shape[0] - width + 1,), x.dtype)

    run = register_module(compile_c(source), moving_sum)
    assert run(plugrad.asarray([1.0, 2.0, 3.0, 4.0]), width=2).tolist() == [3, 5, 7]
    with pytest.raises(KernelFailed, match="reported failure 1"):
        run(plugrad.asarray([1, 2, 3]), width=2)


def test_the_kernels_in_c_of_the_guide(compile_c, register_module, tmp_path):
    page = (ROOT / "docs" / "guide" / "writing-a-kernel.md").read_text("utf-8")
    sources = [tmp_path / "root_mean_square.c", tmp_path / "heat_step.c"]
    for path, text in zip(sources, page.split("```c\n")[1:], strict=True):
        path.write_text(text.split("```")[0])

    def root_mean_square(
        x: Spec, *, axes: Axes, keep_dims: bool = False, epsilon: float = 0.0
    ) -> Spec:
        return Shaped(reduced_shape(x.shape, axes, keep_dims), x.dtype)

    def heat_step(x: Spec, *, rate: float) -> Spec:
        return x

    reduce, step = map(register_module, map(compile_c, sources), (root_mean_square, heat_step))
    rng = np.random.default_rng(0)
    for dtype, epsilon in product(("float32", "float64"), (0.0, 0.5)):
        x = rng.normal(size=(2, 3, 4)).astype(dtype)
        for axes, keep_dims in [((), False), ((1,), False), ((0, 2), True), ((0, 1, 2), False)]:
            found = reduce(plugrad.asarray(x), axes=axes, keep_dims=keep_dims, epsilon=epsilon)
            expected = np.sqrt(np.mean(x * x, axis=axes, keepdims=keep_dims) + epsilon)
            assert found.dtype == dtype
            np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)
    empty = reduce(plugrad.zeros((0, 3)), axes=(1,))
    assert empty.shape == (0,)
    assert reduce(plugrad.asarray([[3.0, np.nan]]), axes=(0,)).tolist()[0] == 3
    with pytest.raises(KernelFailed, match="reported failure 1"):
        reduce(plugrad.asarray([1, 2]), axes=(0,))

    x = rng.normal(size=(3, 5)).astype("float32")
    around = np.pad(x, 1)
    neighbours = around[:-2, 1:-1] + around[2:, 1:-1] + around[1:-1, :-2] + around[1:-1, 2:]
    expected = x + np.float32(0.2) * (neighbours - 4 * x)
    np.testing.assert_allclose(step(plugrad.asarray(x), rate=0.2).numpy(), expected, atol=1e-6)
    assert step(plugrad.zeros((0, 2)), rate=0.2).shape == (0, 2)


def test_a_kernel_in_text_form_with_an_optional_input(register_module):
    def axpy(x: Spec, y: Spec | None = None, *, a: float) -> Spec:
        return Shaped(x.shape, x.dtype)

    run = register_module(MODULES_FOLDER / "axpy.wat", axpy)
    x = np.arange(100_000, dtype="float32")
    y = np.full_like(x, 5)
    np.testing.assert_array_equal(
        run(plugrad.asarray(x), plugrad.asarray(y), a=2).numpy(), 2 * x + 5
    )
    np.testing.assert_array_equal(run(plugrad.asarray(x), None, a=3).numpy(), 3 * x)
    assert run(plugrad.zeros((0, 3)), None, a=3).shape == (0, 3)
    assert run(plugrad.asarray(2.0), None, a=3).item() == 6


def test_attributes_are_numbers_or_tuples_of_numbers(register_module):
    def rule(x: Spec, *, flag: bool, sizes: tuple[int, ...], scale: float | str) -> Spec:
        return Shaped((5,), float32)

    load = "(f64.load offset={} (i32.load offset=8 (local.get $call)))"
    store = "(f32.store offset={} (local.get $out) (f32.demote_f64 {}))"
    body = "(local $out i32) (local.set $out (i32.load offset=28 (i32.load offset=24 (local.get $call))))"
    body += "".join(store.format(4 * i, load.format(8 * i)) for i in range(4))
    count = "(f64.convert_i32_s (i32.load offset=12 (local.get $call)))"
    run = register_module(module_text(body + store.format(16, count) + "(i32.const 0)"), rule)
    x = plugrad.ones(1)
    assert run(x, flag=True, sizes=(7, 8), scale=0.5).tolist() == [1, 7, 8, 0.5, 4]
    with pytest.raises(ArgumentError, match="attribute scale='big' cannot be passed"):
        run(x, flag=True, sizes=(), scale="big")


def test_a_kernel_without_inputs(register_module):
    def rule(*, value: float) -> Spec:
        return Shaped((), int32)

    value = "(i32.trunc_f64_s (f64.load (i32.load offset=8 (local.get $call))))"
    body = f"(i32.store (i32.load (i32.load offset=24 (local.get $call))) {value}) (i32.const 0)"
    assert register_module(module_text(body), rule)(value=42).item() == 42


@pytest.mark.parametrize("dtype", ["bool", "int8", "int32", "int64", "uint8", "uint32", "float64"])
def test_codes_of_dtypes(register_module, dtype):
    code = "(i32.load offset=4 (i32.load offset=24 (local.get $call)))"
    out = "(i32.load offset=28 (i32.load offset=24 (local.get $call)))"
    run = register_module(
        module_text(f"(i32.store {out} {code}) (i32.const 0)"), lambda x: Shaped((), int32)
    )
    lines = HEADER.read_text().split("enum plugrad_dtype {")[1].split("}")[0].split()
    expected = [line.rstrip(",") for line in lines].index(f"PLUGRAD_{dtype.upper()}")
    values = [True] if dtype == "bool" else [1]
    if dtype != "bool":
        assert run(plugrad.asarray(values, dtype=dtype)).item() == expected


def test_the_memory_of_a_module_that_allocates_stays_its_own(register_module):
    """The kernel keeps a counter in memory that it has allocated; later calls must not overwrite it."""
    more = "(global $heap (mut i32) (i32.const 0))"
    body = """
    (if (i32.eqz (global.get $heap))
      (then (global.set $heap (i32.shl (memory.grow (i32.const 1)) (i32.const 16)))
            (i32.store (global.get $heap) (i32.const 7))))
    (i32.store (i32.load offset=28 (i32.load offset=24 (local.get $call)))
               (i32.load (global.get $heap)))
    (i32.const 0)"""
    run = register_module(module_text(body, more=more), lambda x: Shaped((), int32))
    for size in (1, 100_000, 10):
        assert run(plugrad.full((size,), -1, dtype="int32")).item() == 7


def test_sandboxed_kernels_run_in_threads(register_module):
    run = register_module(module_text("(i32.const 0)"))
    failures = []

    def work():
        try:
            with plugrad.use("wasm"):
                for _ in range(20):
                    assert run(plugrad.ones(100)).shape == (100,)
        except BaseException as error:
            failures.append(error)

    threads = [Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


# --- what does not --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (b"", "not a valid module"),
        (b"\0asm", "not a valid module"),
        (b"\xff\xfe", "not a valid module"),
        ("(module", "not a valid module"),
        ("(module)", "does not export its memory"),
        (
            '(module (memory (export "memory") 1))',
            "must export 'plugrad_abi_version', a function of nothing",
        ),
        (
            module_text("(i32.const 0)", version=7),
            "plugrad_abi_version is 7, and this plugrad's is 1",
        ),
        (
            module_text("(i32.const 0)").replace('"kernel"', '"kernels"'),
            "must export 'kernel', a function of one",
        ),
        (
            module_text("(i32.const 0)").replace("(param $call i32)", "(param $call i64)"),
            "must export 'kernel'",
        ),
        (
            module_text("(i32.const 0)", memory='(import "env" "memory" (memory 1))'),
            "imports env.memory",
        ),
        (
            module_text("(i32.const 0)", more='(import "wasi" "exit" (func))').replace(
                '(memory (export "memory") 1)', ""
            ),
            "imports wasi.exit, and a kernel may import nothing",
        ),
        (
            module_text("(i32.const 0)", more='(func (export "scratch_size"))'),
            "must export 'scratch_size'",
        ),
        (
            module_text("(i32.const 0)", memory='(global (export "memory") i32 (i32.const 1))'),
            "its memory",
        ),
    ],
)
def test_a_module_that_cannot_be_used_is_refused(register_module, source, message):
    run = register_module(source)
    with pytest.raises(ArgumentValueError, match=message):
        run(plugrad.ones(3))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("(unreachable)", "trapped: .*unreachable"),
        ("(i32.div_s (i32.const 1) (i32.const 0))", "trapped: .*divide by zero"),
        ("(i32.load (i32.const -8))", "trapped: .*out of bounds"),
        ("(call 1 (local.get $call))", "trapped: .*stack"),
        ("(i32.const 77)", "reported failure 77"),
    ],
)
def test_a_kernel_that_fails_says_how_and_runs_again(register_module, body, message):
    size = "(i32.load offset=20 (i32.load offset=24 (local.get $call)))"
    body = f"(if (i32.eq {size} (i32.const 3)) (then (return {body}))) (i32.const 0)"
    run = register_module(module_text(body))
    for _ in range(3):
        with pytest.raises(KernelFailed, match=message):
            run(plugrad.ones(3))
        assert run(plugrad.ones(4)).shape == (4,)
    assert (plugrad.ones(3) + 1).tolist() == [2, 2, 2]


def test_memory_is_limited(register_module):
    has_grown = "(i32.ne (memory.grow (i32.const 1000)) (i32.const -1))"
    run = register_module(module_text(has_grown), memory=1 << 20)
    assert run(plugrad.ones(3)).shape == (3,)
    with pytest.raises(OutOfMemory, match="1048576 bytes that the module may use; load it with"):
        run(plugrad.ones(1_000_000))
    assert run(plugrad.ones(3)).shape == (3,)
    large = register_module(
        module_text("(i32.const 0)", memory='(memory (export "memory") 100)'), memory=1 << 20
    )
    with pytest.raises((KernelFailed, OutOfMemory), match=r"memory"):
        large(plugrad.ones(3))


def test_scratch_beyond_the_limit_is_refused(register_module):
    more = '(func (export "scratch_size") (param i32) (result i32) (i32.const -1))'
    run = register_module(module_text("(i32.const 0)", more=more), memory=1 << 20)
    with pytest.raises(OutOfMemory, match="load it with a larger memory="):
        run(plugrad.ones(3))


def test_results_that_the_backend_does_not_have_are_refused(register_module):
    run = register_module(
        module_text("(i32.const 0)"), lambda x: Shaped(x.shape, plugrad.DType("string"))
    )
    with pytest.raises(UnsupportedDtype):
        run(plugrad.ones(3))


@pytest.mark.parametrize(
    ("arguments", "limits", "message"),
    [
        (["/no/such/file.wasm"], {}, "No such file"),
        ([42], {}, "source=42 must be"),
        ([b""], {"seconds": 0}, "seconds=0 must be positive"),
        ([b""], {"seconds": "long"}, "seconds='long' must be a number"),
        ([b""], {"memory": -1}, "memory=-1 must be positive"),
    ],
)
def test_wrong_arguments(register_contract, arguments, limits, message):
    with pytest.raises((ArgumentError, ArgumentValueError), match=message):
        load_wasm_kernel(*arguments, register_contract(lambda x: x), **limits)


def test_malformed_modules_do_not_crash_the_process(register_module, register_contract, compile_c):
    """Random bytes of a valid module are changed; the result runs, is rejected, or raises."""
    whole = compile_c(MODULES_FOLDER / "moving_sum.c").read_bytes()
    moving_sum = register_contract(moving_sum_and_maximum)
    rng = np.random.default_rng(0)
    x = plugrad.ones((2, 9))
    right = refused = 0
    for _ in range(1000):
        code = bytearray(whole[: rng.integers(8, len(whole) + 1)] if rng.random() < 0.2 else whole)
        for place in rng.integers(8, len(code), rng.integers(1, 5)):
            code[place] = rng.integers(256)
        run = load_wasm_kernel(bytes(code), moving_sum, seconds=0.5, memory=1 << 22)
        try:
            run(x.array, width=4)
            right += 1
        except (ArgumentValueError, KernelFailed, OutOfMemory):
            refused += 1
    assert right > 10
    assert refused > 100
    assert (x + 1).tolist() == [[2] * 9] * 2
