"""Long elementwise groups as one loop of WebAssembly that is compiled for the group, so that values stay in registers.

The instructions are those of the C sources, and so are the bits. A group has several *stages*, each of which is a loop
over a block: a processor does not look far enough ahead to compute many elements of a longer chain at the same time.
"""

from __future__ import annotations

import struct
from functools import cache, partial
from typing import TYPE_CHECKING, Final

import wasmtime

from plugrad.extend import count_elements, float32
from plugrad_wasm.program import compile_module, new_engine
from plugrad_wasm.programs.recorder import Loop

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from plugrad.extend import Shape, Shaped
    from plugrad_wasm.programs.blocks import ElementwiseCall, Operands
    from plugrad_wasm.programs.recorder import Place, RecordingMemory

    Function = Callable[..., list[str]]

MIN_ELEMENTS: Final = 1 << 18
"""To compile a group takes as long as to compute a few million elements."""
MAX_CALLS: Final = 64
"""The compiler takes a millisecond for each."""
BLOCK: Final = 1024
"""The elements of a block: what one stage hands to the next stays in the first cache."""
LANES, VECTORS = 4, 4
"""The elements of a vector, and the vectors of a round of a stage."""
ROUND: Final = LANES * VECTORS
SUFFIX: Final = "_float32"
MAGIC: Final = 12582912.0 + 127
"""What rounds a number that it is added to, so that the last bits are those of a power of two; as in the C."""
EXP_TERMS: Final = (1.3814467e-3, 8.368781e-3, 4.1668393e-2, 1.666652e-1, 4.9999994e-1, 1.0, 1.0)
EXPM1_TERMS: Final = (
    *(1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3),
    *(4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1),
)
LOG_TERMS: Final = (0.29871976, 0.39977539, 0.66666776)
LN2, LN2_HIGH, LN2_LOW, LOG2_E = 0.69314718, 0.693359375, -2.12194440e-4, 1.44269504088896341
INFINITY, NAN = 0x7F800000, 0x7FC00000


def as_loop(
    calls: Sequence[ElementwiseCall], operands: Operands, memory: RecordingMemory
) -> Loop | None:
    """Return a group of calls as one compiled loop; None if it is short or has other functions than in `FUNCTIONS`."""
    count = count_elements(operands.shape)
    specs = operands.specs
    if (
        count < MIN_ELEMENTS
        or len(calls) > MAX_CALLS
        or not all(call.export.removesuffix(SUFFIX) in FUNCTIONS for call in calls)
        or any(_differs(specs[p], operands.shape) for c in calls for p in c.places if p in specs)
        or not rounds_once()
    ):
        return None
    return _Group(calls, operands, count).loop()


def _differs(spec: Shaped, shape: Shape) -> bool:
    """Return whether an operand is neither one number nor an array of float32 of a shape."""
    return spec.dtype is not float32 or count_elements(spec.shape) not in (1, count_elements(shape))


@cache
def rounds_once() -> bool:
    """Return whether a product and a sum are one instruction with one rounding, as the C sources prefer."""
    text = """(module (func (export "kernel") (param f32 f32) (result f32) (f32x4.extract_lane 0 (f32x4.relaxed_madd
        (f32x4.splat (local.get 0)) (f32x4.splat (local.get 0)) (f32x4.splat (local.get 1))))))"""
    engine = new_engine()
    module = compile_module(engine, bytes(wasmtime.wat2wasm(text)))
    store = wasmtime.Store(engine)
    kernel = wasmtime.Instance(store, module, []).exports(store)["kernel"]
    assert isinstance(kernel, wasmtime.Func)
    return kernel(store, 1 + 2.0**-12, -1 - 2.0**-11) != 0


class _Group:
    """Writes the text of a module."""

    def __init__(self, calls: Sequence[ElementwiseCall], operands: Operands, count: int) -> None:
        self.calls, self.count = calls, count
        made = dict.fromkeys(call.places[-1] for call in calls)
        inputs = dict.fromkeys(p for call in calls for p in call.places[:-1] if p not in made)
        kept = [p for p in made if p.block in operands.kept or p.block < operands.first_block]
        self.numbers = [p for p in inputs if count_elements(operands.specs[p].shape) == 1]
        self.arrays = [*(p for p in inputs if p not in self.numbers), *kept]
        self.stages = self._stages()
        read = [{p for call in stage for p in call.places[:-1]} for stage in self.stages]
        written = [[call.places[-1] for call in stage] for stage in self.stages]
        self.scratch = [
            place
            for index, places in enumerate(written)
            for place in dict.fromkeys(places)
            if place not in kept and any(place in later for later in read[index + 1 :])
        ]
        self.text = _Text()

    def _stages(self) -> list[list[ElementwiseCall]]:
        """Return the calls divided so that each stage has one function with a long chain of instructions at most."""
        stages: list[list[ElementwiseCall]] = [[]]
        has_long = False
        for call in self.calls:
            is_long = call.export.removesuffix(SUFFIX) in LONG
            if is_long and has_long:
                stages.append([])
            has_long |= is_long
            stages[-1].append(call)
        return stages

    def loop(self) -> Loop:
        """Return the loop."""
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
      (local.set $bytes (i32.mul (i32.const 4) (select (local.get $count) (i32.const {BLOCK})
        (i32.lt_u (local.get $count) (i32.const {BLOCK})))))
      {" ".join(body)}
      {" ".join(steps)}
      (local.set $count (i32.sub (local.get $count) (i32.shr_u (local.get $bytes) (i32.const 2))))
      (br_if $blocks (local.get $count)))))"""
        scratch_bytes = 4 * BLOCK * len(self.scratch)
        return Loop(
            source, self.count, ROUND, tuple(self.numbers), tuple(self.arrays), scratch_bytes
        )

    def _format_stage(self, number: int, stage: Sequence[ElementwiseCall]) -> str:
        """Return the loop of a stage over a block."""
        text = self.text
        text.lines = []
        known: dict[Place, list[str]] = {}
        for call in stage:
            *inputs, made = call.places
            for place in inputs:
                if place not in known:
                    known[place] = self._load(place)
            values = [known[place] for place in inputs]
            known[made] = FUNCTIONS[call.export.removesuffix(SUFFIX)](text, *values)
            if made in self.arrays or made in self.scratch:
                for vector, value in enumerate(known[made]):
                    offset = LANES * 4 * vector
                    text.lines.append(f"(v128.store offset={offset} {self._address(made)} {value})")
        lines = "\n        ".join(text.lines)
        return f"""(local.set $at (i32.const 0))
      (loop $stage{number}
        {lines}
        (local.set $at (i32.add (local.get $at) (i32.const {4 * ROUND})))
        (br_if $stage{number} (i32.lt_u (local.get $at) (local.get $bytes))))"""

    def _load(self, place: Place) -> list[str]:
        """Return the vectors of an input of a stage."""
        if place in self.numbers:
            return [f"(local.get $x{self.numbers.index(place)})"] * VECTORS
        address = self._address(place)
        offsets = range(0, 4 * ROUND, 4 * LANES)
        return [self.text.let(f"v128.load offset={n}", address) for n in offsets]

    def _address(self, place: Place) -> str:
        """Return the address of the current round's elements, without the offset of a vector."""
        if place in self.arrays:
            return f"(i32.add (local.get $p{self.arrays.index(place)}) (local.get $at))"
        start = 4 * BLOCK * self.scratch.index(place)
        inside = "(i32.add (local.get $scratch) (local.get $at))"
        return f"(i32.add {inside} (i32.const {start}))" if start else inside


class _Text:
    """The instructions of a stage, and the names of the values."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: list[str] = []

    def let(self, instruction: str, *operands: str) -> str:
        """Add an instruction; return its value."""
        name = f"$v{len(self.names)}"
        self.names.append(name)
        self.lines.append(f"(local.set {name} ({instruction} {' '.join(operands)}))")
        return f"(local.get {name})"

    def replace_if_any(
        self,
        masks: Sequence[str],
        values: Sequence[str],
        make: Callable[..., str],
        *inputs: Sequence[str],
    ) -> None:
        """Replace all values by what `make` adds for their inputs if any bit of a mask is set."""
        mask = masks[0]
        for other in masks[1:]:
            mask = self.let("v128.or", mask, other)
        outer, self.lines = self.lines, []
        for value, *own in zip(values, *inputs, strict=True):
            name = value.removeprefix("(local.get ").removesuffix(")")
            self.lines.append(f"(local.set {name} {make(*own)})")
        inner, self.lines = self.lines, outer
        self.lines.append(f"(if (v128.any_true {mask}) (then {' '.join(inner)}))")

    def multiply_add(self, a: str, b: str, c: str) -> str:
        return self.let("f32x4.relaxed_madd", a, b, c)

    def choose(self, mask: str, yes: str, no: str) -> str:
        return self.let("v128.bitselect", yes, no, mask)

    def polynomial(self, terms: Sequence[float], x: str) -> str:
        """Add a polynomial, the term of the highest power first."""
        value = number(terms[0])
        for term in terms[1:]:
            value = self.multiply_add(value, x, number(term))
        return value


def number(x: float) -> str:
    """Return a vector of one float32."""
    (rounded,) = struct.unpack("<f", struct.pack("<f", x))
    return f"(v128.const f32x4 {' '.join([rounded.hex()] * LANES)})"


def bits(x: int) -> str:
    """Return a vector of one integer."""
    return f"(v128.const i32x4 {' '.join([hex(x & 0xFFFFFFFF)] * LANES)})"


MAGIC_BITS: Final = struct.unpack("<i", struct.pack("<f", MAGIC))[0]


def _power(t: _Text, n: str) -> str:
    """Add 2 to the power of integers."""
    return t.let("i32x4.shl", t.let("i32x4.add", n, bits(127)), "(i32.const 23)")


def _expm1_near(t: _Text, r: str) -> str:
    p = t.polynomial(EXPM1_TERMS, r)
    return t.multiply_add(p, t.let("f32x4.mul", r, r), r)


def _exp_of_rest(t: _Text, r: str, shifted: str) -> str:
    scale = t.let("i32x4.shl", shifted, "(i32.const 23)")
    return t.let("f32x4.mul", t.polynomial(EXP_TERMS, r), scale)


def _exp_clamped(t: _Text, x: str) -> str:
    x = t.let("f32x4.pmin", t.let("f32x4.pmax", x, number(-104)), number(89))
    magic = 12582912.0
    shifted = t.multiply_add(x, number(LOG2_E), number(magic))
    n = t.let("f32x4.sub", shifted, number(magic))
    r = t.multiply_add(n, number(-LN2_HIGH), x)
    fraction = _expm1_near(t, t.multiply_add(n, number(-LN2_LOW), r))
    whole = t.let("i32x4.sub", shifted, number(magic))
    half = t.let("i32x4.shr_s", whole, "(i32.const 1)")
    scale = _power(t, half)
    rest = _power(t, t.let("i32x4.sub", whole, half))
    return t.let("f32x4.mul", t.multiply_add(fraction, scale, scale), rest)


def exp(t: _Text, xs: Sequence[str]) -> list[str]:
    """Add ``exp_near`` for numbers near 0, and ``exp_anywhere`` for others."""
    shifted = [t.multiply_add(x, number(LOG2_E), number(MAGIC)) for x in xs]
    distances = [t.let("i32x4.sub", each, bits(MAGIC_BITS - 32)) for each in shifted]
    far = [t.let("v128.and", distance, bits(~63)) for distance in distances]

    def near(x: str, shifted: str) -> str:
        n = t.let("f32x4.sub", shifted, number(MAGIC))
        return _exp_of_rest(t, t.multiply_add(n, number(-LN2), x), shifted)

    def anywhere(x: str, shifted: str, distance: str) -> str:
        n = t.let("f32x4.sub", shifted, number(MAGIC))
        is_near = t.let("i32x4.lt_u", distance, bits(64))
        r = t.multiply_add(n, t.choose(is_near, number(-LN2), number(-LN2_HIGH)), x)
        r = t.choose(is_near, r, t.multiply_add(n, number(-LN2_LOW), r))
        is_extreme = t.let("f32x4.gt", t.let("f32x4.abs", x), number(87))
        return t.choose(is_extreme, _exp_clamped(t, x), _exp_of_rest(t, r, shifted))

    ys = [*map(near, xs, shifted)]
    t.replace_if_any(far, ys, anywhere, xs, shifted, distances)
    return ys


def log(t: _Text, xs: Sequence[str]) -> list[str]:
    """Add ``log_floats``."""

    def split(x: str) -> tuple[str, str]:
        n = t.let("i32x4.shr_s", t.let("i32x4.sub", x, bits(0x3F3504F3)), "(i32.const 23)")
        m = t.let("i32x4.sub", x, t.let("i32x4.shl", n, "(i32.const 23)"))
        return t.let("f32x4.convert_i32x4_s", n), m

    def finish(n: str, m: str) -> str:
        m = t.let("f32x4.sub", m, number(1))
        s = t.let("f32x4.div", m, t.let("f32x4.add", m, number(2)))
        square = t.let("f32x4.mul", s, s)
        p = t.polynomial(LOG_TERMS, square)
        low = t.let("f32x4.mul", s, t.multiply_add(p, square, t.let("f32x4.neg", m)))
        y = t.multiply_add(n, number(LN2_LOW), low)
        return t.multiply_add(n, number(LN2_HIGH), t.let("f32x4.add", m, y))

    def unusual(x: str) -> str:
        is_denormal = t.let("f32x4.lt", x, number(2.0**-126))
        n, m = split(t.choose(is_denormal, t.let("f32x4.mul", x, number(2.0**23)), x))
        y = finish(t.let("f32x4.sub", n, t.choose(is_denormal, number(23), number(0))), m)
        y = t.choose(t.let("f32x4.eq", x, bits(INFINITY)), x, y)
        y = t.choose(t.let("f32x4.eq", x, number(0)), bits(INFINITY | 1 << 31), y)
        is_nan = t.let("v128.or", t.let("f32x4.lt", x, number(0)), t.let("f32x4.ne", x, x))
        return t.choose(is_nan, bits(NAN), y)

    distances = [t.let("i32x4.sub", x, bits(0x00800000)) for x in xs]
    masks = [t.let("i32x4.ge_u", distance, bits(0x7F000000)) for distance in distances]
    ys = [finish(*split(x)) for x in xs]
    t.replace_if_any(masks, ys, unusual, xs)
    return ys


def tanh(t: _Text, x: str) -> str:
    """Add ``tanh_floats``."""
    m = t.let("f32x4.pmin", t.let("f32x4.abs", x), number(20))
    twice = t.let("f32x4.add", m, m)
    shifted = t.multiply_add(twice, number(LOG2_E), number(MAGIC))
    n = t.let("f32x4.sub", shifted, number(MAGIC))
    r = t.multiply_add(n, number(-LN2), twice)
    scale = t.let("i32x4.shl", shifted, "(i32.const 23)")
    e = t.multiply_add(_expm1_near(t, r), scale, t.let("f32x4.sub", scale, number(1)))
    y = t.let("f32x4.div", e, t.let("f32x4.add", e, number(2)))
    return t.let("v128.or", y, t.let("v128.and", x, bits(1 << 31)))


def _rsqrt(t: _Text, x: str) -> str:
    return _reciprocal(t, t.let("f32x4.sqrt", x))


def _map(function: Callable[..., str]) -> Function:
    """Return a function that adds another one for each vector."""

    def apply(t: _Text, *vectors: Sequence[str]) -> list[str]:
        return [function(t, *each) for each in zip(*vectors, strict=True)]

    return apply


def _instruction(name: str) -> Function:
    """Return a function that adds an instruction for each vector."""

    def add(t: _Text, *operands: str) -> str:
        return t.let(name, *operands)

    return _map(add)


def _square(t: _Text, x: str) -> str:
    return t.let("f32x4.mul", x, x)


def _squared_difference(t: _Text, a: str, b: str) -> str:
    return _square(t, t.let("f32x4.sub", a, b))


def _first_if(comparison: str, t: _Text, a: str, b: str) -> str:
    """Add `a` if the comparison with `b` is true or it is NaN, else `b`."""
    mask = t.let("v128.or", t.let(comparison, a, b), t.let("f32x4.ne", a, a))
    return t.choose(mask, a, b)


def _relu(t: _Text, x: str) -> str:
    return t.let("v128.andnot", x, t.let("f32x4.le", x, number(0)))


def _reciprocal(t: _Text, x: str) -> str:
    return t.let("f32x4.div", number(1), x)


FUNCTIONS: Final[dict[str, Function]] = {
    "abs": _instruction("f32x4.abs"),
    "add": _instruction("f32x4.add"),
    "ceil": _instruction("f32x4.ceil"),
    "divide": _instruction("f32x4.div"),
    "exp": exp,
    "floor": _instruction("f32x4.floor"),
    "log": log,
    "maximum": _map(partial(_first_if, "f32x4.gt")),
    "minimum": _map(partial(_first_if, "f32x4.lt")),
    "multiply": _instruction("f32x4.mul"),
    "negative": _instruction("f32x4.neg"),
    "reciprocal": _map(_reciprocal),
    "relu": _map(_relu),
    "round": _instruction("f32x4.nearest"),
    "rsqrt": _map(_rsqrt),
    "sqrt": _instruction("f32x4.sqrt"),
    "square": _map(_square),
    "squared_difference": _map(_squared_difference),
    "subtract": _instruction("f32x4.sub"),
    "tanh": _map(tanh),
    "trunc": _instruction("f32x4.trunc"),
}
"""What adds the instructions of an export to a stage; the arguments are the vectors of the inputs."""
LONG: Final = ("exp", "log", "tanh")
