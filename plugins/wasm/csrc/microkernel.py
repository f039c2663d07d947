"""Emit the micro-kernel of matrix multiplication as LLVM's WebAssembly assembly.

    python microkernel.py relaxed|simd > microkernel.s

The order of the instructions is the point: written in C, loads move up and arithmetic moves down
until the accumulators spill, and half the speed is gone.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROWS, VECTORS, LANES = 4, 3, 4  # the tile is 4 rows by 12 columns
UNROLL = 2
VECTOR_BYTES = 16

# Parameters and locals of the function, by their index.
DEPTH, STRIP, PANEL, TARGET, STRIDE, ACCUMULATE = range(6)
FIRST_SUM = 6
FIRST_COLUMN = FIRST_SUM + ROWS * VECTORS
STRIP_VALUES = FIRST_COLUMN + VECTORS
REPEATED = STRIP_VALUES + 1
LOCALS = ROWS * VECTORS + VECTORS + 2

FEATURES = {"relaxed": ("simd128", "relaxed-simd"), "simd": ("simd128",)}
MULTIPLY_ADD = {
    "relaxed": "local.get {a}; local.get {b}; local.get {c}; f32x4.relaxed_madd",
    "simd": "local.get {a}; local.get {b}; f32x4.mul; local.get {c}; f32x4.add",
}


def accumulator(row: int, vector: int) -> int:
    """Return the local that holds the sums of one row and one vector of columns."""
    return FIRST_SUM + row * VECTORS + vector


def advance(local: int, amount: int) -> str:
    """Return the instructions that add a constant to a local."""
    return f"local.get {local}; i32.const {amount}; i32.add; local.set {local}"


def step(variant: str, k: int) -> Iterator[str]:
    """Yield the instructions of one step along the depth, `k` steps after the pointers."""
    for vector in range(VECTORS):
        offset = (k * VECTORS + vector) * VECTOR_BYTES
        yield f"local.get {PANEL}; v128.load {offset}; local.set {FIRST_COLUMN + vector}"
    yield f"local.get {STRIP}; v128.load {k * ROWS * LANES}; local.set {STRIP_VALUES}"
    for row in range(ROWS):
        bytes_of_lane = ", ".join(str(LANES * row + byte) for byte in range(4))
        lanes = ", ".join([bytes_of_lane] * LANES)
        yield f"local.get {STRIP_VALUES}; local.get {STRIP_VALUES}; i8x16.shuffle {lanes}"
        yield f"local.set {REPEATED}"
        for vector in range(VECTORS):
            total = accumulator(row, vector)
            yield MULTIPLY_ADD[variant].format(a=REPEATED, b=FIRST_COLUMN + vector, c=total)
            yield f"local.set {total}"


def loop(variant: str, unroll: int) -> Iterator[str]:
    """Yield a loop that takes `unroll` steps at a time while so many are left."""
    yield f"block; local.get {DEPTH}; i32.const {unroll}; i32.lt_s; br_if 0; loop"
    for k in range(unroll):
        yield from step(variant, k)
    yield advance(STRIP, unroll * ROWS * 4)
    yield advance(PANEL, unroll * VECTORS * VECTOR_BYTES)
    yield advance(DEPTH, -unroll)
    yield f"local.get {DEPTH}; i32.const {unroll}; i32.ge_s; br_if 0; end_loop; end_block"


def stores(accumulate: bool) -> Iterator[str]:
    """Yield the instructions that write the tile, or add it to the target."""
    for row in range(ROWS):
        for vector in range(VECTORS):
            offset, total = vector * VECTOR_BYTES, accumulator(row, vector)
            yield f"local.get {TARGET}"
            if accumulate:
                yield f"local.get {TARGET}; v128.load {offset}; local.get {total}; f32x4.add"
            else:
                yield f"local.get {total}"
            yield f"v128.store {offset}"
        if row < ROWS - 1:
            yield f"local.get {TARGET}; local.get {STRIDE}; i32.add; local.set {TARGET}"


def assembly(variant: str) -> str:
    """Return the whole assembly file for one instruction set, "relaxed" or "simd"."""
    name = "multiply_full_tile"
    lines = [
        f'.section .text.{name},"",@; .globl {name}; .hidden {name}; .type {name},@function',
        f"{name}:",
        f".functype {name} (i32, i32, i32, i32, i32, i32) -> ()",
        ".local " + ", ".join(["v128"] * LOCALS),
        *loop(variant, UNROLL),
        *loop(variant, 1),
        f"block; local.get {ACCUMULATE}; i32.eqz; br_if 0",
        *stores(accumulate=True),
        "return; end_block",
        *stores(accumulate=False),
        "end_function",
        '.section .custom_section.target_features,"",@',
        f".int8 {len(FEATURES[variant])}",
    ]
    for feature in FEATURES[variant]:
        lines.append(f'.int8 43; .int8 {len(feature)}; .ascii "{feature}"')
    return "\n".join(lines).replace("; ", "\n") + "\n"


if __name__ == "__main__":
    sys.stdout.write(assembly(sys.argv[1]))
