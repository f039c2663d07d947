"""A thousand random modules and descriptors, in processes of their own, which must not end early."""

import subprocess
import sys

import pytest

MODULE_FUZZING_PROGRAM = """
import random
import wasmtime
import plugrad
from plugrad.errors import ArgumentValueError, KernelFailed, OutOfMemory
from plugrad.extend import Shaped, kernel
from plugrad_wasm import load_wasm_kernel

rng = random.Random(7)
contract = kernel("test>Hostile")(lambda x: Shaped(x.shape, x.dtype))
plugrad.use("wasm")
x = plugrad.asarray([1.0, 2.0, 3.0])

MEMORIES = [
    *['(memory (export "memory") 1)'] * 40, '(memory 1)', '', '(memory (export "memory") 65536)',
    '(memory (export "memory") 1 2)', '(memory (export "memory") i64 1)', '(memory (export "memory") 0)',
    '(memory (export "memory") 1) (memory 1)', '(memory (export "memory") 65537)',
    '(import "env" "memory" (memory 1))', '(memory (export "memory") 1 1 shared)',
]
PARTS = [
    *[""] * 40, "(table 4294967295 funcref)", "(table 1048577 funcref)", "(table 4294967296 funcref)",
    *["(table 1000000 externref)"] * 2, "(table 1 funcref) " * 9, '(data (i32.const 65530) "too far")',
    "(table 1 funcref) (elem (i32.const 9) func $f) (func $f)", '(import "env" "f" (func))',
    "(func $start (loop (br 0))) (start $start)", "(func $start (unreachable)) (start $start)",
    "(func $start (call $start)) (start $start)",
    '(func (export "scratch_size") (param i32) (result i32) (i32.const -1))',
    '(func (export "scratch_size") (param i32) (result i32) (loop (br 0)) (i32.const 0))',
    '(func (export "scratch_size"))', "(type $s (struct (field i32)))",
]
VERSIONS = [
    *['(func (export "plugrad_abi_version") (result i32) (i32.const 1))'] * 30,
    '(func (export "plugrad_abi_version") (result i32) (loop (br 0)) (i32.const 1))',
    '(func (export "plugrad_abi_version") (result i32) (unreachable))',
    '(func (export "plugrad_abi_version") (result f32) (f32.const 1))',
    '(global (export "plugrad_abi_version") i32 (i32.const 1))', '',
]
SIGNATURES = [
    *["(param $c i32) (result i32)"] * 40, "(param $c i64) (result i32)", "(param $c i32)",
    "(param $c i32) (result i32 i32)", "(param $c i32 i32) (result i32)", "(param $c externref) (result i32)",
]
NUMBERS = ["0", "1", "-1", "77", "65536", "2147483647", "-2147483648"]
STATEMENTS = [
    "(loop (br 0))", "(unreachable)", "(drop (call $kernel (i32.const {a})))", "(memory.grow (i32.const {a})) drop",
    "(i32.store (i32.const {a}) (i32.const {b}))", "(drop (i32.load (local.get $c)))",
    "(drop (i32.div_s (i32.const {a}) (i32.const {b})))", "(memory.fill (i32.const {a}) (i32.const 7) (i32.const {b}))",
    "(drop (i32.trunc_f32_s (f32.const nan)))", "(loop (drop (memory.grow (i32.const 1))) (br 0))",
    "(i32.store (i32.load offset=24 (local.get $c)) (i32.const {a}))", "(drop (v128.load (i32.const {a})))",
]


def text():
    number = lambda: rng.choice(NUMBERS)
    body = " ".join(
        rng.choice(STATEMENTS).format(a=number(), b=number()) for _ in range(rng.randrange(3))
    )
    status = rng.choice([0, 0, 0, 5])
    function = f'(func $kernel (export "kernel") {rng.choice(SIGNATURES)} {body} (i32.const {status}))'
    return f"(module {rng.choice(MEMORIES)} {rng.choice(VERSIONS)} {rng.choice(PARTS)} {function})".encode()


def right():
    return bytes(wasmtime.wat2wasm(
        f'(module {MEMORIES[0]} {VERSIONS[0]} (func (export "kernel") {SIGNATURES[0]} (i32.const 0)))'
    ))


def mutated():
    code = bytearray(right())
    for _ in range(rng.randrange(1, 4)):
        code[rng.randrange(8, len(code))] = rng.randrange(256)
    return bytes(code[: rng.choice([len(code)] * 4 + [rng.randrange(len(code))])])


def nonsense():
    return rng.choice([b"", b"\\0asm", b"\\0asm\\1\\0\\0\\0"]) + rng.randbytes(rng.randrange(200))


outcomes = {}
for i in range(500):
    source = rng.choice([text, text, text, mutated, nonsense])()
    run = load_wasm_kernel(source, contract, seconds=0.05, memory=1 << 22)
    try:
        run(x.array)
        outcome = "ran"
    except (ArgumentValueError, KernelFailed, OutOfMemory) as error:
        outcome = type(error).__name__
    outcomes[outcome] = outcomes.get(outcome, 0) + 1
    assert (x + 1).tolist() == [2, 3, 4], source
assert all(outcomes.get(name, 0) > 20 for name in ("ran", "ArgumentValueError", "KernelFailed")), outcomes
print("survived")
"""

DESCRIPTOR_FUZZING_PROGRAM = """
import random
import plugrad
import wasmtime
from plugrad_wasm.module import Store

rng = random.Random(11)
broken = Store()  # what its kernels write anywhere harms no other store
names = [name for name in broken._program.modules if name.endswith("_broadcast")]
names += ["copy_1", "copy_2", "copy_4", "copy_8"] * 20
assert set(names) <= set(broken._program.modules)
NUMBERS = [0, 1, 2, 3, 5, 16, 33, -1, -7, 2**31 - 1, -(2**31)]
trapped = 0
for i in range(500):
    name = rng.choice(names)
    run = broken.exports_holding_gil[name]
    axes = rng.choice([1, 1, 2, 3])
    sizes = [rng.choice([0, 1, 2, 3, 7, 40]) for _ in range(axes)]
    strides = [rng.choice(NUMBERS) for _ in range(3 * axes)]
    block = broken.descriptor((axes, *sizes, *strides, i))
    places = [0, 64, 4096, 2**31, 2**32 - 8, rng.randrange(2**32)]
    addresses = rng.choices(places, k=2 if name.startswith("copy") else 3)
    try:
        run(*addresses, block.address)
    except wasmtime.Trap:
        trapped += 1
assert trapped > 50, trapped
with plugrad.use("wasm"):
    assert (plugrad.asarray([1.0, 2.0]) + plugrad.asarray([[1.0], [2.0]])).tolist() == [[2, 3], [3, 4]]
print("survived")
"""


@pytest.mark.parametrize(
    "program", [MODULE_FUZZING_PROGRAM, DESCRIPTOR_FUZZING_PROGRAM], ids=["modules", "descriptors"]
)
def test_random_modules_do_not_crash_the_process(program):
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", program],
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert (done.stdout.strip(), done.returncode) == ("survived", 0), done.stderr
