"""Long elementwise groups as one loop of WebAssembly that is compiled for the group, so that values stay in registers.

The instructions are those of the C sources, and so are the bits. A group has several *stages*, each of which is a loop
over a block: a processor does not look far enough ahead to compute many elements of a longer chain at the same time.
"""

from __future__ import annotations

import struct
from functools import cache, partial, reduce
from typing import TYPE_CHECKING, Final

import wasmtime

from plugrad.extend import count_elements, float32
from plugrad_wasm.program import compile_module, new_engine
from plugrad_wasm.programs.recorder import BlockOffset, CompiledLoop

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from plugrad.extend import Shape, Shaped
    from plugrad_wasm.programs.blocks import ElementwiseCall, GroupOperands

    Function = Callable[..., list[str]]
    """The type of a function that adds instructions to a stage, and returns the names of the results."""

LOOP_MIN_ELEMENTS: Final = 1 << 18
"""The minimum elements of a compiled loop: its compilation takes as long as a few million elements."""
LOOP_MAX_CALLS: Final = 64
"""The maximum calls of a compiled loop: the compiler takes a millisecond for each."""
LOOP_BLOCK_ELEMENTS: Final = 1024
"""The elements of a block, so few that values stay in the L1 cache from one stage to the next."""
VECTOR_LANES, VECTORS_PER_ROUND = 4, 4
"""The number of float32 numbers in a vector, and of vectors that a stage computes side by side."""
ELEMENTS_PER_ROUND: Final = VECTOR_LANES * VECTORS_PER_ROUND
"""The number of elements that a stage computes side by side."""
FLOAT32_SUFFIX: Final = "_float32"
"""The end of the names of exports for float32."""
EXP_ROUNDING_CONSTANT: Final = 12582912.0 + 127
"""The addend that rounds x / log(2), so that the last bits of the sum are an exponent of 2, as in C."""
EXP_COEFFICIENTS: Final = (
    1.3814467e-3,
    8.368781e-3,
    4.1668393e-2,
    1.666652e-1,
    4.9999994e-1,
    1.0,
    1.0,
)
"""The coefficients of a polynomial for exp(r), highest power first, as in the C sources."""
EXPM1_COEFFICIENTS: Final = (
    *(1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3),
    *(4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1),
)
"""The coefficients of a polynomial for (exp(r) - 1 - r) / r^2, highest power first, as in the C sources."""
LOG_COEFFICIENTS: Final = (0.29871976, 0.39977539, 0.66666776)
"""The coefficients of a polynomial for the logarithm, highest power first, as in the C sources."""
LN2, LN2_HIGH, LN2_LOW, LOG2_E = 0.69314718, 0.693359375, -2.12194440e-4, 1.44269504088896341
"""ln(2), the high and the low part of ln(2), and the logarithm of e to the base 2."""
INFINITY_BITS, NAN_BITS = 0x7F800000, 0x7FC00000
"""The bits of infinity and of NaN in float32."""


def build_compiled_loop(
    calls: Sequence[ElementwiseCall], operands: GroupOperands
) -> CompiledLoop | None:
    """Return a group of calls as a compiled loop; None if it is short or has functions not in `STAGE_FUNCTIONS`."""
    count = count_elements(operands.shape)
    specs = operands.specs
    if (
        count < LOOP_MIN_ELEMENTS
        or len(calls) > LOOP_MAX_CALLS
        or not all(
            call.export.removesuffix(FLOAT32_SUFFIX) in {*STAGE_FUNCTIONS, *FUNCTIONS_OF_TWO_STAGES}
            for call in calls
        )
        or any(
            _has_other_shape_or_dtype(specs[p], operands.shape)
            for c in calls
            for p in c.operands
            if p in specs
        )
        or not has_fused_multiply_add()
    ):
        return None
    return _LoopSource(calls, operands, count).build_loop()


def _has_other_shape_or_dtype(spec: Shaped, shape: Shape) -> bool:
    """Return whether an operand is neither a float32 number nor a float32 array with as many elements as a shape."""
    return spec.dtype is not float32 or count_elements(spec.shape) not in (1, count_elements(shape))


@cache
def has_fused_multiply_add() -> bool:
    """Return whether a product and a sum are one instruction with one rounding, as the C sources prefer."""
    text = """(module (func (export "kernel") (param f32 f32) (result f32) (f32x4.extract_lane 0 (f32x4.relaxed_madd
        (f32x4.splat (local.get 0)) (f32x4.splat (local.get 0)) (f32x4.splat (local.get 1))))))"""
    engine = new_engine()
    module = compile_module(engine, bytes(wasmtime.wat2wasm(text)))
    store = wasmtime.Store(engine)
    kernel = wasmtime.Instance(store, module, []).exports(store)["kernel"]
    assert isinstance(kernel, wasmtime.Func)
    return kernel(store, 1 + 2.0**-12, -1 - 2.0**-11) != 0


def _divide_long_functions(calls: Sequence[ElementwiseCall]) -> list[ElementwiseCall]:
    """Return the calls, in which functions of two stages have become two calls with a new value between them."""
    free = 1 + max(place.block_number for call in calls for place in call.operands)
    divided: list[ElementwiseCall] = []
    for call in calls:
        parts = FUNCTIONS_OF_TWO_STAGES.get(call.export.removesuffix(FLOAT32_SUFFIX))
        if parts is None:
            divided.append(call)
            continue
        (x, result), between = call.operands, BlockOffset(free, 0)
        divided += (
            call._replace(export=parts[0], operands=[x, between]),
            call._replace(export=parts[1], operands=[x, between, result]),
        )
        free += 1
    return divided


class _LoopSource:
    """Writes the WebAssembly text of a loop over elements for a group of calls."""

    def __init__(
        self, calls: Sequence[ElementwiseCall], operands: GroupOperands, count: int
    ) -> None:
        calls = _divide_long_functions(calls)
        self.calls, self.count = calls, count
        made = dict.fromkeys(call.operands[-1] for call in calls)
        inputs = dict.fromkeys(p for call in calls for p in call.operands[:-1] if p not in made)
        kept = [
            p
            for p in made
            if p.block_number in operands.blocks_needed_later
            or p.block_number < operands.first_block
        ]
        self.numbers = [p for p in inputs if count_elements(operands.specs[p].shape) == 1]
        self.arrays = [*(p for p in inputs if p not in self.numbers), *kept]
        self.stages = self._split_into_stages()
        read = [{p for call in stage for p in call.operands[:-1]} for stage in self.stages]
        written = [[call.operands[-1] for call in stage] for stage in self.stages]
        self.scratch = [
            place
            for index, places in enumerate(written)
            for place in dict.fromkeys(places)
            if place not in kept and any(place in later for later in read[index + 1 :])
        ]
        self.text = _StageSource()

    def _split_into_stages(self) -> list[list[ElementwiseCall]]:
        """Return the calls divided so that each stage has one function with a long chain of instructions at most."""
        stages: list[list[ElementwiseCall]] = [[]]
        has_long = False
        for call in self.calls:
            is_long = call.export.removesuffix(FLOAT32_SUFFIX) in FUNCTIONS_OF_MANY_INSTRUCTIONS
            if is_long and has_long:
                stages.append([])
            has_long |= is_long
            stages[-1].append(call)
        return stages

    def build_loop(self) -> CompiledLoop:
        """Return the compiled loop of the group of calls."""
        pointers = [f"$n{i}" for i in range(len(self.numbers))]
        pointers += [f"$p{i}" for i in range(len(self.arrays))]
        body = [self._format_stage(number, stage) for number, stage in enumerate(self.stages)]
        parameters = " ".join(f"(param {name} i32)" for name in (*pointers, "$count", "$scratch"))
        names = [*self.text.names, *(f"$x{i}" for i in range(len(self.numbers)))]
        numbers = [
            f"(local.set $x{i} (v128.load32_splat (local.get $n{i})))"
            for i in range(len(self.numbers))
        ]
        steps = [
            f"(local.set $p{i} (i32.add (local.get $p{i}) (local.get $bytes)))"
            for i in range(len(self.arrays))
        ]
        source = f"""(module
  (import "plugrad" "memory" (memory 0 65535 shared))
  (func (export "kernel") {parameters}
    (local $bytes i32) (local $at i32) {" ".join(f"(local {name} v128)" for name in names)}
    {" ".join(numbers)}
    (loop $blocks
      (local.set $bytes (i32.mul (i32.const 4) (select (local.get $count) (i32.const {LOOP_BLOCK_ELEMENTS})
        (i32.lt_u (local.get $count) (i32.const {LOOP_BLOCK_ELEMENTS})))))
      {" ".join(body)}
      {" ".join(steps)}
      (local.set $count (i32.sub (local.get $count) (i32.shr_u (local.get $bytes) (i32.const 2))))
      (br_if $blocks (local.get $count)))))"""
        scratch_bytes = 4 * LOOP_BLOCK_ELEMENTS * len(self.scratch)
        return CompiledLoop(
            source,
            self.count,
            ELEMENTS_PER_ROUND,
            tuple(self.numbers),
            tuple(self.arrays),
            scratch_bytes,
        )

    def _format_stage(self, stage_number: int, stage: Sequence[ElementwiseCall]) -> str:
        """Return the WebAssembly text of a stage's loop over a block of elements."""
        text = self.text
        text.lines = []
        known: dict[BlockOffset, list[str]] = {}
        for call in stage:
            *inputs, made = call.operands
            for place in inputs:
                if place not in known:
                    known[place] = self._add_load(place)
            values = [known[place] for place in inputs]
            known[made] = STAGE_FUNCTIONS[call.export.removesuffix(FLOAT32_SUFFIX)](text, *values)
            if made in self.arrays or made in self.scratch:
                for vector, value in enumerate(known[made]):
                    offset = VECTOR_LANES * 4 * vector
                    text.lines.append(
                        f"(v128.store offset={offset} {self._format_address(made)} {value})"
                    )
        lines = "\n        ".join(text.lines)
        return f"""(local.set $at (i32.const 0))
      (loop $stage{stage_number}
        {lines}
        (local.set $at (i32.add (local.get $at) (i32.const {4 * ELEMENTS_PER_ROUND})))
        (br_if $stage{stage_number} (i32.lt_u (local.get $at) (local.get $bytes))))"""

    def _add_load(self, operand: BlockOffset) -> list[str]:
        """Add the loads of an input of a stage; return the names of its vectors."""
        if operand in self.numbers:
            return [f"(local.get $x{self.numbers.index(operand)})"] * VECTORS_PER_ROUND
        address = self._format_address(operand)
        offsets = range(0, 4 * ELEMENTS_PER_ROUND, 4 * VECTOR_LANES)
        return [self.text.add_instruction(f"v128.load offset={n}", address) for n in offsets]

    def _format_address(self, operand: BlockOffset) -> str:
        """Return the address of the current round's elements, without the offset of a vector."""
        if operand in self.arrays:
            return f"(i32.add (local.get $p{self.arrays.index(operand)}) (local.get $at))"
        start = 4 * LOOP_BLOCK_ELEMENTS * self.scratch.index(operand)
        inside = "(i32.add (local.get $scratch) (local.get $at))"
        return f"(i32.add {inside} (i32.const {start}))" if start else inside


class _StageSource:
    """The WebAssembly instructions of one stage of the loop, and the names of the values in it."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: list[str] = []

    def add_instruction(self, instruction: str, *operands: str) -> str:
        """Add a WebAssembly instruction with operands, given by name or text; return the name of its result."""
        name = f"$v{len(self.names)}"
        self.names.append(name)
        self.lines.append(f"(local.set {name} ({instruction} {' '.join(operands)}))")
        return f"(local.get {name})"

    def replace_if_any(
        self,
        mask: str,
        values: Sequence[str],
        recompute: Callable[..., str],
        *inputs: Sequence[str],
    ) -> None:
        """Add a branch that, if any bit of a mask is set, replaces values by results of the function `recompute`."""
        outer, self.lines = self.lines, []
        for value, *own in zip(values, *inputs, strict=True):
            name = value.removeprefix("(local.get ").removesuffix(")")
            self.lines.append(f"(local.set {name} {recompute(*own)})")
        inner, self.lines = self.lines, outer
        self.lines.append(f"(if (v128.any_true {mask}) (then {' '.join(inner)}))")

    def add_multiply_add(self, a: str, b: str, c: str) -> str:
        """Add the instruction of ``a * b + c``; return the result's name."""
        return self.add_instruction("f32x4.relaxed_madd", a, b, c)

    def add_subtract_product(self, a: str, b: str, c: str) -> str:
        """Add the instruction of ``c - a * b``; return the result's name."""
        return self.add_instruction("f32x4.relaxed_nmadd", a, b, c)

    def add_magnitude(self, x: str) -> str:
        """Add the instruction of the absolute value of x; return the result's name."""
        return self.add_instruction("v128.and", x, int_vector(0x7FFFFFFF))

    def add_select(self, mask: str, if_set: str, if_clear: str) -> str:
        """Add the choice between two vectors, bit by bit, by the bits of a mask; return the result's name."""
        return self.add_instruction("v128.bitselect", if_set, if_clear, mask)

    def add_polynomial(self, coefficients: Sequence[float], x: str) -> str:
        """Add the instructions of a polynomial of x, highest power first; return the result's name."""
        value = float_vector(coefficients[0])
        for term in coefficients[1:]:
            value = self.add_multiply_add(value, x, float_vector(term))
        return value


def float_vector(x: float) -> str:
    """Return the WebAssembly text of a vector constant, one float32 in all lanes."""
    (rounded,) = struct.unpack("<f", struct.pack("<f", x))
    return f"(v128.const f32x4 {' '.join([rounded.hex()] * VECTOR_LANES)})"


def int_vector(x: int) -> str:
    """Return the WebAssembly text of a vector constant, one integer in all lanes."""
    return f"(v128.const i32x4 {' '.join([hex(x & 0xFFFFFFFF)] * VECTOR_LANES)})"


EXP_ROUNDING_CONSTANT_BITS: Final = struct.unpack("<i", struct.pack("<f", EXP_ROUNDING_CONSTANT))[0]
"""The bits of `EXP_ROUNDING_CONSTANT` in float32."""


def _add_power_of_two(stage: _StageSource, n: str) -> str:
    """Add the instructions of 2 to the power of the integers `n`; return the result's name."""
    return stage.add_instruction(
        "i32x4.shl", stage.add_instruction("i32x4.add", n, int_vector(127)), "(i32.const 23)"
    )


def _add_expm1_near_zero(stage: _StageSource, r: str) -> str:
    """Add the instructions of exp(r) - 1 for a small r; return the result's name."""
    p = stage.add_polynomial(EXPM1_COEFFICIENTS, r)
    return stage.add_multiply_add(p, stage.add_instruction("f32x4.mul", r, r), r)


def _add_exp_of_remainder(stage: _StageSource, r: str, shifted: str) -> str:
    """Add the instructions of exp(r) times the power of two in the last bits of `shifted`; return the result's name."""
    scale = stage.add_instruction("i32x4.shl", shifted, "(i32.const 23)")
    return stage.add_instruction("f32x4.mul", stage.add_polynomial(EXP_COEFFICIENTS, r), scale)


def _add_clamped_exp(stage: _StageSource, x: str) -> str:
    """Add the instructions of exp for numbers that may overflow or underflow; return the result's name."""
    x = stage.add_instruction(
        "f32x4.pmin", stage.add_instruction("f32x4.pmax", x, float_vector(-104)), float_vector(89)
    )
    magic = 12582912.0
    shifted = stage.add_multiply_add(x, float_vector(LOG2_E), float_vector(magic))
    n = stage.add_instruction("f32x4.sub", shifted, float_vector(magic))
    r = stage.add_multiply_add(n, float_vector(-LN2_HIGH), x)
    fraction = _add_expm1_near_zero(stage, stage.add_multiply_add(n, float_vector(-LN2_LOW), r))
    whole = stage.add_instruction("i32x4.sub", shifted, float_vector(magic))
    half = stage.add_instruction("i32x4.shr_s", whole, "(i32.const 1)")
    scale = _add_power_of_two(stage, half)
    rest = _add_power_of_two(stage, stage.add_instruction("i32x4.sub", whole, half))
    return stage.add_instruction("f32x4.mul", stage.add_multiply_add(fraction, scale, scale), rest)


def add_exp(stage: _StageSource, xs: Sequence[str]) -> list[str]:
    """Add the instructions of exp, with a slower formula where some number is far from 0; return the results' names."""
    shifted = [
        stage.add_multiply_add(x, float_vector(LOG2_E), float_vector(EXP_ROUNDING_CONSTANT))
        for x in xs
    ]
    distances = [
        stage.add_instruction("i32x4.sub", each, int_vector(EXP_ROUNDING_CONSTANT_BITS - 32))
        for each in shifted
    ]
    union = reduce(partial(stage.add_instruction, "v128.or"), distances)
    far = stage.add_instruction("v128.and", union, int_vector(~63))

    def exp_near_zero(x: str, shifted: str) -> str:
        """Return the name of exp(x) for x near 0, given the name of x / log(2), rounded as bits."""
        n = stage.add_instruction("f32x4.sub", shifted, float_vector(EXP_ROUNDING_CONSTANT))
        return _add_exp_of_remainder(
            stage, stage.add_multiply_add(n, float_vector(-LN2), x), shifted
        )

    def exp_anywhere(x: str, shifted: str, distance: str) -> str:
        """Return the name of exp(x) for any x, given the names of x / log(2), rounded, and of its distance from 0."""
        n = stage.add_instruction("f32x4.sub", shifted, float_vector(EXP_ROUNDING_CONSTANT))
        is_near = stage.add_instruction("i32x4.lt_u", distance, int_vector(64))
        r = stage.add_multiply_add(
            n, stage.add_select(is_near, float_vector(-LN2), float_vector(-LN2_HIGH)), x
        )
        r = stage.add_select(is_near, r, stage.add_multiply_add(n, float_vector(-LN2_LOW), r))
        is_extreme = stage.add_instruction("f32x4.gt", stage.add_magnitude(x), float_vector(87))
        return stage.add_select(
            is_extreme, _add_clamped_exp(stage, x), _add_exp_of_remainder(stage, r, shifted)
        )

    ys = [*map(exp_near_zero, xs, shifted)]
    stage.replace_if_any(far, ys, exp_anywhere, xs, shifted, distances)
    return ys


def add_log(stage: _StageSource, xs: Sequence[str]) -> list[str]:
    """Add the instructions of the logarithm, as csrc's ``log_floats``; return the results' names."""

    def split_exponent_and_mantissa(x: str) -> tuple[str, str]:
        """Return the names of an exponent and a mantissa."""
        n = stage.add_instruction(
            "i32x4.shr_s",
            stage.add_instruction("i32x4.sub", x, int_vector(0x3F3504F3)),
            "(i32.const 23)",
        )
        m = stage.add_instruction(
            "i32x4.sub", x, stage.add_instruction("i32x4.shl", n, "(i32.const 23)")
        )
        return stage.add_instruction("f32x4.convert_i32x4_s", n), m

    def log_of_mantissa(n: str, m: str) -> str:
        """Return the name of the logarithm of m 2^n."""
        m = stage.add_instruction("f32x4.sub", m, float_vector(1))
        s = stage.add_instruction(
            "f32x4.div", m, stage.add_instruction("f32x4.add", m, float_vector(2))
        )
        square = stage.add_instruction("f32x4.mul", s, s)
        p = stage.add_polynomial(LOG_COEFFICIENTS, square)
        # The C has the negatives of these two numbers and adds them: the same bits, with a negation more.
        low = stage.add_instruction("f32x4.mul", s, stage.add_subtract_product(p, square, m))
        y = stage.add_subtract_product(n, float_vector(LN2_LOW), low)
        return stage.add_multiply_add(
            n, float_vector(LN2_HIGH), stage.add_instruction("f32x4.sub", m, y)
        )

    def log_of_special_value(x: str) -> str:
        """Return the name of the logarithm of a number that may be 0, negative, denormal, infinite or NaN."""
        is_denormal = stage.add_instruction("f32x4.lt", x, float_vector(2.0**-126))
        n, m = split_exponent_and_mantissa(
            stage.add_select(
                is_denormal, stage.add_instruction("f32x4.mul", x, float_vector(2.0**23)), x
            )
        )
        y = log_of_mantissa(
            stage.add_instruction(
                "f32x4.sub", n, stage.add_select(is_denormal, float_vector(23), float_vector(0))
            ),
            m,
        )
        y = stage.add_select(stage.add_instruction("f32x4.eq", x, int_vector(INFINITY_BITS)), x, y)
        y = stage.add_select(
            stage.add_instruction("f32x4.eq", x, float_vector(0)),
            int_vector(INFINITY_BITS | 1 << 31),
            y,
        )
        is_nan = stage.add_instruction(
            "v128.or",
            stage.add_instruction("f32x4.lt", x, float_vector(0)),
            stage.add_instruction("f32x4.ne", x, x),
        )
        return stage.add_select(is_nan, int_vector(NAN_BITS), y)

    distances = [stage.add_instruction("i32x4.sub", x, int_vector(0x00800000)) for x in xs]
    farthest = reduce(partial(stage.add_instruction, "i32x4.max_u"), distances)
    mask = stage.add_instruction("i32x4.ge_u", farthest, int_vector(0x7F000000))
    ys = [log_of_mantissa(*split_exponent_and_mantissa(x)) for x in xs]
    stage.replace_if_any(mask, ys, log_of_special_value, xs)
    return ys


def add_tanh_numerator(stage: _StageSource, x: str) -> str:
    """Add the instructions of exp(2 |x|) - 1, as csrc's ``tanh_floats``; return the result's name."""
    m = stage.add_instruction("f32x4.pmin", stage.add_magnitude(x), float_vector(20))
    twice = stage.add_instruction("f32x4.add", m, m)
    shifted = stage.add_multiply_add(
        twice, float_vector(LOG2_E), float_vector(EXP_ROUNDING_CONSTANT)
    )
    n = stage.add_instruction("f32x4.sub", shifted, float_vector(EXP_ROUNDING_CONSTANT))
    r = stage.add_multiply_add(n, float_vector(-LN2), twice)
    scale = stage.add_instruction("i32x4.shl", shifted, "(i32.const 23)")
    return stage.add_multiply_add(
        _add_expm1_near_zero(stage, r),
        scale,
        stage.add_instruction("f32x4.sub", scale, float_vector(1)),
    )


def add_tanh_quotient(stage: _StageSource, x: str, e: str) -> str:
    """Add the instructions of tanh(x), given e = exp(2 |x|) - 1; return the result's name."""
    y = stage.add_instruction(
        "f32x4.div", e, stage.add_instruction("f32x4.add", e, float_vector(2))
    )
    return stage.add_instruction(
        "v128.or", y, stage.add_instruction("v128.and", x, int_vector(1 << 31))
    )


def _add_rsqrt(stage: _StageSource, x: str) -> str:
    """Add the instructions of 1 / sqrt(x); return the result's name."""
    return _add_reciprocal(stage, stage.add_instruction("f32x4.sqrt", x))


def _apply_to_each_vector(function: Callable[..., str]) -> Function:
    """Return a function that adds the instructions of `function` for each vector of a stage."""

    def add_for_all_vectors(stage: _StageSource, *vectors: Sequence[str]) -> list[str]:
        """Add the instructions for all vectors; return the results' names."""
        return [function(stage, *each) for each in zip(*vectors, strict=True)]

    return add_for_all_vectors


def _instruction_apply_to_each_vector(instruction: str) -> Function:
    """Return a function that adds an instruction for each vector of a stage."""

    def add_for_all_vectors(stage: _StageSource, *operands: str) -> str:
        """Add the instruction; return the result's name."""
        return stage.add_instruction(instruction, *operands)

    return _apply_to_each_vector(add_for_all_vectors)


def _add_square(stage: _StageSource, x: str) -> str:
    """Add the instruction of the square; return the result's name."""
    return stage.add_instruction("f32x4.mul", x, x)


def _add_negative(stage: _StageSource, x: str) -> str:
    """Add the instruction of -x; return the result's name."""
    return stage.add_instruction("v128.xor", x, int_vector(1 << 31))


def _add_squared_difference(stage: _StageSource, a: str, b: str) -> str:
    """Add the instructions of (a - b)^2; return the result's name."""
    return _add_square(stage, stage.add_instruction("f32x4.sub", a, b))


def _add_select_by_comparison(comparison: str, stage: _StageSource, a: str, b: str) -> str:
    """Add the choice of `a` if the comparison of `a` with `b` is true or `a` is NaN, else of `b`; return its name."""
    mask = stage.add_instruction(
        "v128.or", stage.add_instruction(comparison, a, b), stage.add_instruction("f32x4.ne", a, a)
    )
    return stage.add_select(mask, a, b)


def _add_relu(stage: _StageSource, x: str) -> str:
    """Add the instructions of max(x, 0); return the result's name."""
    return stage.add_instruction(
        "v128.andnot", x, stage.add_instruction("f32x4.le", x, float_vector(0))
    )


def _add_reciprocal(stage: _StageSource, x: str) -> str:
    """Add the instruction of 1 / x; return the result's name."""
    return stage.add_instruction("f32x4.div", float_vector(1), x)


STAGE_FUNCTIONS: Final[dict[str, Function]] = {
    "abs": _apply_to_each_vector(_StageSource.add_magnitude),
    "add": _instruction_apply_to_each_vector("f32x4.add"),
    "ceil": _instruction_apply_to_each_vector("f32x4.ceil"),
    "divide": _instruction_apply_to_each_vector("f32x4.div"),
    "exp": add_exp,
    "floor": _instruction_apply_to_each_vector("f32x4.floor"),
    "log": add_log,
    "maximum": _apply_to_each_vector(partial(_add_select_by_comparison, "f32x4.gt")),
    "minimum": _apply_to_each_vector(partial(_add_select_by_comparison, "f32x4.lt")),
    "multiply": _instruction_apply_to_each_vector("f32x4.mul"),
    "negative": _apply_to_each_vector(_add_negative),
    "reciprocal": _apply_to_each_vector(_add_reciprocal),
    "relu": _apply_to_each_vector(_add_relu),
    "round": _instruction_apply_to_each_vector("f32x4.nearest"),
    "rsqrt": _apply_to_each_vector(_add_rsqrt),
    "sqrt": _instruction_apply_to_each_vector("f32x4.sqrt"),
    "square": _apply_to_each_vector(_add_square),
    "squared_difference": _apply_to_each_vector(_add_squared_difference),
    "subtract": _instruction_apply_to_each_vector("f32x4.sub"),
    "tanh_numerator": _apply_to_each_vector(add_tanh_numerator),
    "tanh_quotient": _apply_to_each_vector(add_tanh_quotient),
    "trunc": _instruction_apply_to_each_vector("f32x4.trunc"),
}
"""By name of an export: the function that adds its instructions to a stage, given the inputs' vectors."""
FUNCTIONS_OF_TWO_STAGES: Final = {"tanh": ("tanh_numerator", "tanh_quotient")}
"""By function: the names of its two stages, of which the second also reads the result of the first."""
FUNCTIONS_OF_MANY_INSTRUCTIONS: Final = ("exp", "log", "tanh_numerator", "tanh_quotient")
"""The names of functions with long chains of instructions, of which a stage has at most one."""
