"""Emit the micro-kernels of matrix multiplication as LLVM's WebAssembly assembly.

    python microkernel.py relaxed|simd > microkernel.s

Each multiplies a strip of 4 rows by a panel of 4, 8 or 12 columns. It is the order of the
instructions that matters: a C compiler moves loads up and arithmetic down until the accumulators
spill, which halves the speed.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROWS, LANES = 4, 4
WIDTHS = (4, 8, 12)  # columns
UNROLL = 2
VECTOR_BYTES = 16

# Parameters of the functions, by their index; the locals follow.
DEPTH, STRIP, PANEL, TARGET, STRIDE, ACCUMULATE = range(6)
STRIP_VALUES, REPEATED, FIRST_COLUMN = 6, 7, 8

FEATURES = {"relaxed": ("simd128", "relaxed-simd"), "simd": ("simd128",)}
MULTIPLY_ADD = {
    "relaxed": "local.get {a}; local.get {b}; local.get {c}; f32x4.relaxed_madd",
    "simd": "local.get {a}; local.get {b}; f32x4.mul; local.get {c}; f32x4.add",
}


def accumulator(row: int, vector: int, vectors: int) -> int:
    """Return the local that holds the sums of one row and one vector of columns."""
    return FIRST_COLUMN + vectors + row * vectors + vector


def advance(local: int, amount: int) -> str:
    """Return the instructions that add a constant to a local."""
    return f"local.get {local}; i32.const {amount}; i32.add; local.set {local}"


def step(variant: str, vectors: int, k: int) -> Iterator[str]:
    """Yield the instructions of one step along the depth, `k` steps after the pointers."""
    for vector in range(vectors):
        offset = (k * vectors + vector) * VECTOR_BYTES
        yield f"local.get {PANEL}; v128.load {offset}; local.set {FIRST_COLUMN + vector}"
    yield f"local.get {STRIP}; v128.load {k * ROWS * 4}; local.set {STRIP_VALUES}"
    for row in range(ROWS):
        lane = ", ".join(str(4 * row + byte) for byte in range(4))
        lanes = ", ".join([lane] * LANES)
        yield f"local.get {STRIP_VALUES}; local.get {STRIP_VALUES}; i8x16.shuffle {lanes}"
        yield f"local.set {REPEATED}"
        for vector in range(vectors):
            total = accumulator(row, vector, vectors)
            yield MULTIPLY_ADD[variant].format(a=REPEATED, b=FIRST_COLUMN + vector, c=total)
            yield f"local.set {total}"


def loop(variant: str, vectors: int, unroll: int) -> Iterator[str]:
    """Yield a loop that takes `unroll` steps at a time while so many are left."""
    yield f"block; local.get {DEPTH}; i32.const {unroll}; i32.lt_s; br_if 0; loop"
    for k in range(unroll):
        yield from step(variant, vectors, k)
    yield advance(STRIP, unroll * ROWS * 4)
    yield advance(PANEL, unroll * vectors * VECTOR_BYTES)
    yield advance(DEPTH, -unroll)
    yield f"local.get {DEPTH}; i32.const {unroll}; i32.ge_s; br_if 0; end_loop; end_block"


def stores(vectors: int, *, accumulate: bool) -> Iterator[str]:
    """Yield the instructions that write the tile, or add it to the target."""
    for row in range(ROWS):
        for vector in range(vectors):
            offset, total = vector * VECTOR_BYTES, accumulator(row, vector, vectors)
            yield f"local.get {TARGET}"
            if accumulate:
                yield f"local.get {TARGET}; v128.load {offset}; local.get {total}; f32x4.add"
            else:
                yield f"local.get {total}"
            yield f"v128.store {offset}"
        if row < ROWS - 1:
            yield f"local.get {TARGET}; local.get {STRIDE}; i32.add; local.set {TARGET}"


def function(variant: str, width: int) -> Iterator[str]:
    """Yield the micro-kernel for panels of `width` columns."""
    name, vectors = f"multiply_full_tile_{width}", width // LANES
    yield f'.section .text.{name},"",@; .globl {name}; .hidden {name}; .type {name},@function'
    yield f"{name}:; .functype {name} (i32, i32, i32, i32, i32, i32) -> ()"
    yield ".local " + ", ".join(["v128"] * (2 + vectors + ROWS * vectors))
    yield from loop(variant, vectors, UNROLL)
    yield from loop(variant, vectors, 1)
    yield f"block; local.get {ACCUMULATE}; i32.eqz; br_if 0"
    yield from stores(vectors, accumulate=True)
    yield "return; end_block"
    yield from stores(vectors, accumulate=False)
    yield "end_function"


def assembly(variant: str) -> str:
    """Return the whole assembly file for one instruction set, "relaxed" or "simd"."""
    lines = [line for width in WIDTHS for line in function(variant, width)]
    lines.append('.section .custom_section.target_features,"",@')
    lines.append(f".int8 {len(FEATURES[variant])}")
    lines += [f'.int8 43; .int8 {len(name)}; .ascii "{name}"' for name in FEATURES[variant]]
    return "\n".join(lines).replace("; ", "\n") + "\n"


if __name__ == "__main__":
    sys.stdout.write(assembly(sys.argv[1]))
