"""How each elementwise kernel is computed block by block: by the function that an untraced call would use.

So the results have the same bits. Small arrays, which NumPy computes untraced where it gives the same bits as C, are
computed by C here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from plugrad.extend import Call, as_dtype, count_elements
from plugrad.kernels import activation, binary, bitwise, unary
from plugrad_cpu.extend import numpy_implementation
from plugrad_native.declare import FLOATS, MAX_ELEMENTS
from plugrad_native.kernels.activation import HALVES, NUMBERS
from plugrad_native.kernels.binary import BROADCAST, FASTER, OTHERS
from plugrad_native.kernels.unary import FASTER_DTYPES, OTHER_DTYPES
from plugrad_native.programs.calls import (
    AnyCall,
    CCall,
    Count,
    Read,
    Step,
    UfuncCall,
    Written,
    c_function,
    find_loop,
    inputs_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from plugrad.extend import Kernel, Shaped, Value

    Specs = Mapping[Value, Shaped]
    Rule = Callable[[Call, Specs], list[AnyCall] | None]

MAX_REPEATED_ITEM_BYTES: Final = 8
"""Larger elements cannot be broadcast by C, but for numbers without axes, which are read where they are."""
RULES: Final[dict[Kernel[..., Any], Rule]] = {}
"""How the calls of each kernel are computed; None for those that are not."""


def elementwise_calls(call: Call, specs: Specs) -> list[AnyCall] | None:
    """Return the C calls that compute an elementwise call, or None if there are none."""
    rule, count = RULES.get(call.kernel), count_elements(specs[call.outputs[0]].shape)
    if rule is None or not 0 < count < MAX_ELEMENTS:
        return None
    for spec in [specs[v] for v in inputs_of(call)]:
        is_repeated = spec.shape != () and count_elements(spec.shape) != count
        if is_repeated and spec.dtype.itemsize > MAX_REPEATED_ITEM_BYTES:
            return None
    return rule(call, specs)


# --- by functions of C --------------------------------------------------------------------------


def unary_rule(name: str, dtypes: tuple[str, ...], *attributes: str) -> Rule:
    """Return the rule of a unary C function for some dtypes."""
    functions = {as_dtype(d): c_function(f"{name}_{d}") for d in dtypes}

    def rule(call: Call, specs: Specs) -> list[AnyCall] | None:
        (x,), (y,) = inputs_of(call), call.outputs
        function = functions.get(specs[x].dtype)
        if function is None:
            return None
        given = [call.attrs[attribute] for attribute in attributes]
        return [CCall(function, (Read(x), Written(y), Count(), *given))]

    return rule


def binary_rule(name: str, dtypes: tuple[str, ...], *, is_swapped: bool = False) -> Rule:
    """Return the rule of a binary C function for some dtypes."""
    functions = {as_dtype(d): c_function(f"{name}_{d}") for d in dtypes}

    def rule(call: Call, specs: Specs) -> list[AnyCall] | None:
        a, b = reversed(inputs_of(call)) if is_swapped else inputs_of(call)
        function = functions.get(specs[a].dtype)
        if function is None:
            return None
        (y,) = call.outputs
        return [CCall(function, (Read(a), Read(b), Written(y), Count(), Step(a), Step(b)))]

    return rule


# --- by loops of NumPy --------------------------------------------------------------------------


def ufunc_rule(ufunc: np.ufunc) -> Rule:
    """Return the rule of a ufunc."""

    def rule(call: Call, specs: Specs) -> list[AnyCall] | None:
        (y,) = call.outputs
        loop = find_loop(ufunc, *[specs[v].dtype.numpy for v in (*inputs_of(call), y)])
        if loop is None:
            return None
        return [UfuncCall(ufunc, loop, (*[Read(v) for v in inputs_of(call)], Written(y)))]

    return rule


def real_only(rule: Rule) -> Rule:
    """Return a rule without complex numbers, whose implementations correct NumPy's results."""
    return lambda call, specs: (
        None if specs[inputs_of(call)[0]].dtype.kind == "complex" else rule(call, specs)
    )


def try_in_order(*rules: Rule) -> Rule:
    """Return a rule that tries several rules in order."""

    def rule(call: Call, specs: Specs) -> list[AnyCall] | None:
        return next((found for r in rules if (found := r(call, specs)) is not None), None)

    return rule


def _declare_ufuncs() -> None:
    """Declare the rules of kernels whose NumPy implementation is a ufunc."""
    for module in (unary, binary, bitwise):
        for kernel in vars(module).values():
            function = None
            if getattr(kernel, "is_elementwise", False):
                function = numpy_implementation(kernel)
            if isinstance(function, np.ufunc) and function.nout == 1:
                RULES[kernel] = ufunc_rule(function)
    of_real = {unary.tanh: np.tanh, unary.tan: np.tan, unary.log1p: np.log1p, unary.expm1: np.expm1}
    RULES.update({kernel: real_only(ufunc_rule(f)) for kernel, f in of_real.items()})
    for kernel, f in {
        unary.ceil: np.ceil,
        unary.floor: np.floor,
        unary.round: np.rint,
        unary.trunc: np.trunc,
    }.items():
        RULES[kernel] = for_floats(ufunc_rule(f))
    for kernel, f in {binary.maximum: np.maximum, binary.minimum: np.minimum}.items():
        RULES[kernel] = _except_float16(ufunc_rule(f))


def for_floats(rule: Rule) -> Rule:
    """Return a rule restricted to floats."""
    return lambda call, specs: (
        rule(call, specs) if specs[inputs_of(call)[0]].dtype.numpy.kind == "f" else None
    )


def _except_float16(rule: Rule) -> Rule:
    return lambda call, specs: (
        None if specs[inputs_of(call)[0]].dtype.name == "float16" else rule(call, specs)
    )


_declare_ufuncs()

# --- the functions of C ---------------------------------------------------------------------------

for _name, _dtypes in (FASTER_DTYPES | OTHER_DTYPES).items():
    _kernel = vars(unary)[_name]
    _found = unary_rule(_name, _dtypes)
    RULES[_kernel] = try_in_order(_found, RULES[_kernel]) if _kernel in RULES else _found
for _name, _dtypes in (FASTER | OTHERS).items():
    _kernel = vars(binary)[_name]
    _found = binary_rule(_name, _dtypes)
    RULES[_kernel] = try_in_order(_found, RULES[_kernel]) if _kernel in RULES else _found
for _name in sorted(BROADCAST):
    _kernel = vars(binary)[_name]
    RULES[_kernel] = try_in_order(binary_rule(_name, FLOATS), RULES[_kernel])
for _name in ("abs", "negative", "sqrt", "square"):
    _kernel = vars(unary)[_name]
    RULES[_kernel] = try_in_order(unary_rule(_name, FLOATS), RULES[_kernel])

SELECT: Final = {size: c_function(f"select_{size}") for size in (1, 2, 4, 8)}


def select(call: Call, specs: Specs) -> list[AnyCall] | None:
    """Return the C calls of a selection by conditions."""
    (y,) = call.outputs
    function = SELECT.get(specs[y].dtype.itemsize)
    if function is None or specs[y].dtype.name == "string":
        return None
    condition, t, e = inputs_of(call)
    steps = Step(condition), Step(t), Step(e)
    return [CCall(function, (Read(condition), Read(t), Read(e), Written(y), Count(), *steps))]


RULES[binary.select] = select


_SOURCES: Final = ("bool", "uint8", "int32", "int64", "float32", "float64")
_TARGETS: Final = ("bool", "int32", "int64", "float32", "float64")
CASTS: Final = {
    (as_dtype(source), as_dtype(target)): c_function(f"cast_{source}_{target}")
    for source in _SOURCES
    for target in _TARGETS
    if source != target
} | {
    (as_dtype(source), as_dtype(target)): c_function(f"cast_{source}_{target}")
    for source, target in (("float16", "float32"), ("float32", "float16"))
}
"""The functions of C that cast, by the dtypes."""


def cast(call: Call, specs: Specs) -> list[AnyCall] | None:
    """Return the C calls of a cast."""
    (x,), (y,) = inputs_of(call), call.outputs
    function = CASTS.get((specs[x].dtype, specs[y].dtype))
    return None if function is None else [CCall(function, (Read(x), Written(y), Count()))]


RULES[unary.cast] = cast

# --- activations, for which there is nothing but C ----------------------------------------------------

RULES[unary.step] = unary_rule("step", FLOATS, "alpha")
RULES[activation.leaky_relu] = unary_rule("leaky_relu", FLOATS, "alpha")
for _name in ("relu", "relu6"):
    RULES[vars(activation)[_name]] = unary_rule(_name, NUMBERS)
for _name in ("elu", "selu", "sigmoid", "softplus", "gelu", "gelu_tanh"):
    RULES[vars(activation)[_name]] = unary_rule(_name, HALVES)
for _name in ("prelu", "relu6_gradient", "sigmoid_gradient", "elu_gradient"):
    RULES[vars(activation)[_name]] = binary_rule(_name, HALVES)
for _name in ("gelu_gradient", "gelu_tanh_gradient"):
    RULES[vars(activation)[_name]] = binary_rule(_name, HALVES)
