"""The implementation for the wasm backend: an expression in WebAssembly's text format.

WebAssembly has no exponential function. Let ``t = -gate / ln 2 = n + f`` with an integer n and f from
-1/2 to 1/2. Then ``exp(-gate)`` is ``2**n * 2**f``. The first factor is the float whose exponent bits
are n + 127, and the second is computed with a polynomial.
"""

import math

from plugrad.extend import KernelTable
from plugrad_acme_ops import contracts
from plugrad_wasm import elementwise

EXPONENT_EXPRESSION = "(local.get $gate)"  # after the exponent has been stored there
WHOLE_PART_EXPRESSION = f"(f32.nearest {EXPONENT_EXPRESSION})"
FRACTION_EXPRESSION = f"(f32.sub {EXPONENT_EXPRESSION} {WHOLE_PART_EXPRESSION})"


def power_of_two_expression() -> str:
    """Return the expression for 2 to the power of the whole part, which is in the range of exponents."""
    exponent = f"(i32.add (i32.trunc_sat_f32_s {WHOLE_PART_EXPRESSION}) (i32.const 127))"
    return f"(f32.reinterpret_i32 (i32.shl {exponent} (i32.const 23)))"


def polynomial_expression(degree: int = 7) -> str:
    """Return the expression for 2 to the power of the fraction, by its Taylor series and Horner's method."""
    terms = [math.log(2) ** k / math.factorial(k) for k in range(degree + 1)]
    text = f"(f32.const {terms[-1]!r})"
    for term in reversed(terms[:-1]):
        text = f"(f32.add (f32.const {term!r}) (f32.mul {FRACTION_EXPRESSION} {text}))"
    return text


# Each input is a local variable. Once the product is in $up, $gate can hold the exponent.
SWIGLU_EXPRESSION = f"""
(block (result f32)
  (local.set $up (f32.mul (local.get $gate) (local.get $up)))
  (local.set $gate (f32.mul (local.get $gate) (f32.const {-1 / math.log(2)!r})))
  (local.set $gate (f32.min (f32.max {EXPONENT_EXPRESSION} (f32.const -126)) (f32.const 127)))
  (f32.div (local.get $up)
    (f32.add (f32.const 1) (f32.mul {power_of_two_expression()} {polynomial_expression()}))))
"""

table = KernelTable("wasm")
table.update({contracts.swiglu: elementwise(SWIGLU_EXPRESSION, inputs=("gate", "up"))})


def kernels() -> KernelTable:
    """Return the kernels; plugrad calls this function when the wasm backend is loaded."""
    return table
