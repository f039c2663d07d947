"""Lowering rules of elementwise kernels: block by block, each runs the function that an untraced call uses.

So the results have the same bits. Small arrays, which NumPy computes untraced where it gives the same bits as C, are
computed by C here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from plugrad.extend import Call, as_dtype, count_elements, get_kernel
from plugrad.kernels import activation, binary, bitwise, unary
from plugrad_cpu.extend import numpy_implementation
from plugrad_native.declare import FLOAT_DTYPES, MAX_ELEMENTS
from plugrad_native.kernels.activation import FLOAT_DTYPES_WITH_FLOAT16, NUMBER_DTYPES
from plugrad_native.kernels.binary import (
    BROADCAST_DTYPES_BY_KERNEL,
    DTYPES_OF_BINARY_KERNELS_BITWISE_AS_NUMPY,
    DTYPES_OF_BINARY_KERNELS_UNLIKE_NUMPY,
)
from plugrad_native.kernels.unary import (
    DTYPES_OF_UNARY_KERNELS_BITWISE_AS_NUMPY,
    DTYPES_OF_UNARY_KERNELS_UNLIKE_NUMPY,
)
from plugrad_native.programs.calls import (
    AnyCall,
    CCall,
    CountOperand,
    InputOperand,
    OutputOperand,
    StepOperand,
    UfuncCall,
    check_c_function,
    find_ufunc_loop,
    get_inputs,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from plugrad.extend import Kernel, Shaped, Value

    Specs = Mapping[Value, Shaped]
    """The type of the shapes and dtypes of a graph's values, by value."""
    Rule = Callable[[Call, Specs], list[AnyCall] | None]
    """The type of a lowering rule: from a kernel call and specs to the C calls, or None."""

MAX_UFUNC_OPERANDS: Final = 4
"""The maximum inputs and results of a ufunc whose loop a program calls."""
MAX_REPEATED_ITEM_BYTES: Final = 8
"""The maximum bytes of an element that C broadcasts; a 0-d array of any dtype is read without a broadcast."""
ELEMENTWISE_RULES: Final[dict[Kernel[..., Any], Rule]] = {}
"""By elementwise kernel: the rule that lowers its calls to calls of C."""


def lower_elementwise(call: Call, specs: Specs) -> list[AnyCall] | None:
    """Return the C calls that compute an elementwise kernel call, or None if there are none."""
    rule, count = ELEMENTWISE_RULES.get(call.kernel), count_elements(specs[call.outputs[0]].shape)
    if rule is None and (ufunc := find_ufunc_of_pack(call.kernel)) is not None:
        rule = make_ufunc_rule(ufunc)
    if rule is None or not 0 < count < MAX_ELEMENTS:
        return None
    for spec in [specs[v] for v in get_inputs(call)]:
        is_repeated = spec.shape != () and count_elements(spec.shape) != count
        if is_repeated and spec.dtype.itemsize > MAX_REPEATED_ITEM_BYTES:
            return None
    return rule(call, specs)


def find_ufunc_of_pack(kernel: Kernel[..., Any]) -> np.ufunc | None:
    """Return the ufunc by which another package implements a kernel, if its results depend on the elements only.

    NumPy gives loops of ufuncs Python's lock only for objects, so these need none.
    """
    if kernel in ELEMENTWISE_RULES or not kernel.is_elementwise or kernel.attributes:
        return None
    config = get_kernel(kernel.name, "cpu")
    function = None if config is None or config.is_conditional else config.kernel_func
    if not isinstance(function, np.ufunc) or function.nin >= MAX_UFUNC_OPERANDS:
        return None
    return function if (function.nin, function.nout) == (len(kernel.inputs), 1) else None


# --- by functions of C --------------------------------------------------------------------------


def make_unary_rule(c_name: str, dtypes: tuple[str, ...], *attributes: str) -> Rule:
    """Return the rule that lowers an elementwise kernel call of some dtypes to a call of the C function `c_name`."""
    functions = {as_dtype(d): check_c_function(f"{c_name}_{d}") for d in dtypes}

    def rule(call: Call, specs: Specs) -> list[AnyCall] | None:
        """Return the C call of a kernel call, or None for other dtypes."""
        (x,), (y,) = get_inputs(call), call.outputs
        function = functions.get(specs[x].dtype)
        if function is None:
            return None
        given = [call.attrs[attribute] for attribute in attributes]
        return [CCall(function, (InputOperand(x), OutputOperand(y), CountOperand(), *given))]

    return rule


def make_binary_rule(c_name: str, dtypes: tuple[str, ...], *, is_swapped: bool = False) -> Rule:
    """Return the rule that lowers a binary kernel call of some dtypes to the C functions named after `c_name`."""
    functions = {as_dtype(d): check_c_function(f"{c_name}_{d}") for d in dtypes}

    def rule(call: Call, specs: Specs) -> list[AnyCall] | None:
        """Return the C call of a kernel call, or None for other dtypes."""
        a, b = reversed(get_inputs(call)) if is_swapped else get_inputs(call)
        function = functions.get(specs[a].dtype)
        if function is None:
            return None
        (y,) = call.outputs
        return [
            CCall(
                function,
                (
                    InputOperand(a),
                    InputOperand(b),
                    OutputOperand(y),
                    CountOperand(),
                    StepOperand(a),
                    StepOperand(b),
                ),
            )
        ]

    return rule


# --- by loops of NumPy --------------------------------------------------------------------------


def make_ufunc_rule(ufunc: np.ufunc) -> Rule:
    """Return the rule that lowers an elementwise call to a call of a ufunc's inner loop."""

    def rule(call: Call, specs: Specs) -> list[AnyCall] | None:
        """Return the call of the ufunc's loop, or None if it has none for the dtypes."""
        (y,) = call.outputs
        loop = find_ufunc_loop(ufunc, *[specs[v].dtype.numpy for v in (*get_inputs(call), y)])
        if loop is None:
            return None
        return [
            UfuncCall(ufunc, loop, (*[InputOperand(v) for v in get_inputs(call)], OutputOperand(y)))
        ]

    return rule


def exclude_complex(rule: Rule) -> Rule:
    """Return a rule that applies only to kernel calls without complex numbers."""
    return lambda call, specs: (
        None if specs[get_inputs(call)[0]].dtype.kind == "complex" else rule(call, specs)
    )


def combine_rules(*rules: Rule) -> Rule:
    """Return a rule that applies the first of several rules that lowers a call."""

    def rule(call: Call, specs: Specs) -> list[AnyCall] | None:
        """Return the C calls by the first rule that has some, or None."""
        return next((found for r in rules if (found := r(call, specs)) is not None), None)

    return rule


def _register_ufunc_rules() -> None:
    """Register the rules of kernels whose NumPy implementation is a ufunc."""
    for module in (unary, binary, bitwise):
        for kernel in vars(module).values():
            function = None
            if getattr(kernel, "is_elementwise", False):
                function = numpy_implementation(kernel)
            if isinstance(function, np.ufunc) and function.nout == 1:
                ELEMENTWISE_RULES[kernel] = make_ufunc_rule(function)
    of_real = {unary.tanh: np.tanh, unary.tan: np.tan, unary.log1p: np.log1p, unary.expm1: np.expm1}
    ELEMENTWISE_RULES.update(
        {kernel: exclude_complex(make_ufunc_rule(f)) for kernel, f in of_real.items()}
    )
    for kernel, f in {
        unary.ceil: np.ceil,
        unary.floor: np.floor,
        unary.round: np.rint,
        unary.trunc: np.trunc,
    }.items():
        ELEMENTWISE_RULES[kernel] = restrict_to_floats(make_ufunc_rule(f))
    for kernel, f in {binary.maximum: np.maximum, binary.minimum: np.minimum}.items():
        ELEMENTWISE_RULES[kernel] = _exclude_float16(make_ufunc_rule(f))


def restrict_to_floats(rule: Rule) -> Rule:
    """Return a rule that applies only to kernel calls on floats."""
    return lambda call, specs: (
        rule(call, specs) if specs[get_inputs(call)[0]].dtype.numpy.kind == "f" else None
    )


def _exclude_float16(rule: Rule) -> Rule:
    """Return a rule that applies only to kernel calls without float16."""
    return lambda call, specs: (
        None if specs[get_inputs(call)[0]].dtype.name == "float16" else rule(call, specs)
    )


_register_ufunc_rules()

# --- the functions of C ---------------------------------------------------------------------------


def _add_rule(kernel: Kernel[..., Any], rule: Rule) -> None:
    """Register a rule of a kernel, which comes before its other rules."""
    present = ELEMENTWISE_RULES.get(kernel)
    ELEMENTWISE_RULES[kernel] = rule if present is None else combine_rules(rule, present)


for _name, _dtypes in (
    DTYPES_OF_UNARY_KERNELS_BITWISE_AS_NUMPY | DTYPES_OF_UNARY_KERNELS_UNLIKE_NUMPY
).items():
    _add_rule(vars(unary)[_name], make_unary_rule(_name, _dtypes))
for _name, _dtypes in (
    DTYPES_OF_BINARY_KERNELS_BITWISE_AS_NUMPY | DTYPES_OF_BINARY_KERNELS_UNLIKE_NUMPY
).items():
    _add_rule(vars(binary)[_name], make_binary_rule(_name, _dtypes))
for _name in sorted(BROADCAST_DTYPES_BY_KERNEL):
    _add_rule(vars(binary)[_name], make_binary_rule(_name, FLOAT_DTYPES))
for _name in ("abs", "negative", "sqrt", "square"):
    _add_rule(vars(unary)[_name], make_unary_rule(_name, FLOAT_DTYPES))

C_SELECT_BY_ITEM_SIZE: Final = {size: check_c_function(f"select_{size}") for size in (1, 2, 4, 8)}
"""The names of the C functions of `select`, by the bytes of an element."""


def lower_select(call: Call, specs: Specs) -> list[AnyCall] | None:
    """Return the C calls that compute a call of `select`, or None if there are none."""
    (y,) = call.outputs
    function = C_SELECT_BY_ITEM_SIZE.get(specs[y].dtype.itemsize)
    if function is None or specs[y].dtype.name == "string":
        return None
    condition, t, e = get_inputs(call)
    steps = StepOperand(condition), StepOperand(t), StepOperand(e)
    return [
        CCall(
            function,
            (
                InputOperand(condition),
                InputOperand(t),
                InputOperand(e),
                OutputOperand(y),
                CountOperand(),
                *steps,
            ),
        )
    ]


ELEMENTWISE_RULES[binary.select] = lower_select


_CAST_SOURCE_DTYPES: Final = ("bool", "uint8", "int32", "int64", "float32", "float64")
"""The names of the dtypes from which C casts."""
_CAST_TARGET_DTYPES: Final = ("bool", "int32", "int64", "float32", "float64")
"""The names of the dtypes to which C casts."""
C_CASTS_BY_DTYPES: Final = {
    (as_dtype(source), as_dtype(target)): check_c_function(f"cast_{source}_{target}")
    for source in _CAST_SOURCE_DTYPES
    for target in _CAST_TARGET_DTYPES
    if source != target
} | {
    (as_dtype(source), as_dtype(target)): check_c_function(f"cast_{source}_{target}")
    for source, target in (("float16", "float32"), ("float32", "float16"))
}
"""The names of the C functions that cast, by source and target dtype."""


def lower_cast(call: Call, specs: Specs) -> list[AnyCall] | None:
    """Return the C calls that compute a cast, or None if there are none."""
    (x,), (y,) = get_inputs(call), call.outputs
    function = C_CASTS_BY_DTYPES.get((specs[x].dtype, specs[y].dtype))
    return (
        None
        if function is None
        else [CCall(function, (InputOperand(x), OutputOperand(y), CountOperand()))]
    )


ELEMENTWISE_RULES[unary.cast] = lower_cast

# --- activations, for which there is nothing but C ----------------------------------------------------

ELEMENTWISE_RULES[unary.step] = make_unary_rule("step", FLOAT_DTYPES, "alpha")
ELEMENTWISE_RULES[activation.leaky_relu] = make_unary_rule("leaky_relu", FLOAT_DTYPES, "alpha")
for _name in ("relu", "relu6"):
    ELEMENTWISE_RULES[vars(activation)[_name]] = make_unary_rule(_name, NUMBER_DTYPES)
for _name in ("elu", "selu", "sigmoid", "softplus", "gelu", "gelu_tanh"):
    ELEMENTWISE_RULES[vars(activation)[_name]] = make_unary_rule(_name, FLOAT_DTYPES_WITH_FLOAT16)
for _name in ("prelu", "relu6_gradient", "sigmoid_gradient", "elu_gradient"):
    ELEMENTWISE_RULES[vars(activation)[_name]] = make_binary_rule(_name, FLOAT_DTYPES_WITH_FLOAT16)
for _name in ("gelu_gradient", "gelu_tanh_gradient"):
    ELEMENTWISE_RULES[vars(activation)[_name]] = make_binary_rule(_name, FLOAT_DTYPES_WITH_FLOAT16)
