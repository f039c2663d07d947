"""The operators and methods of tensors, each of them a call into an op."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NoReturn

from plugrad.engine.dispatch import compile_call
from plugrad.engine.transfer import lift_alias
from plugrad.importing import import_lazily
from plugrad.kernels import binary as kernels
from plugrad.ops import binary
from plugrad.ops.chained import CHAINED_OPS
from plugrad.tensor.tensor import Tensor
from plugrad.types.dtype import string

BinaryOperator = Callable[..., Any]
"""A function of two operands, one of them a tensor."""


def swap_operands(op: BinaryOperator) -> BinaryOperator:
    """Return a binary op that takes its operands in the other order, for reflected operators such as ``__radd__``."""

    def operator(x: Any, other: Any) -> Any:
        """Return the op's result for the operands in the other order."""
        return op(other, x)

    return operator


def make_comparison(op: BinaryOperator) -> BinaryOperator:
    """Return a comparison that returns NotImplemented for operands that never equal a tensor."""

    def compare(x: Tensor, other: Any) -> Any:
        """Return the op's result, or NotImplemented for an operand that never equals a tensor."""
        if other is None or (type(other) is str and x.dtype is not string):
            return NotImplemented
        return op(x, other)

    return compare


class LazyAttribute:
    """A method or property of tensors whose function is imported on first use.

    So `import plugrad` does not import the families that a program does not use. From then on, the function itself
    is the member, and ``help(x.sqrt)`` shows it.
    """

    def __init__(
        self, name: str, module: str, function: str, form: Callable[..., Any] | None = None
    ) -> None:
        """Describe the attribute `name`: a function in a module, which `form` may turn into a property."""
        self.name = name
        self.module = module
        self.function = function
        self.form = form

    def __get__(self, x: Tensor | None, kind: type[Tensor]) -> Any:
        """Return the member, bound to the tensor as any method is."""
        member = getattr(import_lazily(f"plugrad.{self.module}"), self.function)
        setattr(Tensor, self.name, self.form(member) if self.form else member)
        return getattr(kind if x is None else x, self.name)


# --- what tensors of other frameworks have, and what plugrad has instead ---------------------------

MISSING_ATTRIBUTE_HINTS: dict[str, str] = {
    "add_": "write x += y",
    "assign": "write x[...] = value; a plugrad.Variable has assign",
    "at": "write x[key] = value, or x[key] += value",
    "backward": "gradients are those of functions, as in plugrad.grad(f)(x), or in optimizer.minimize(f, variables) "
    "for variables",
    "block_until_ready": "write plugrad.synchronize()",
    "bmm": "write x @ y",
    "bool": 'write x.astype("bool")',
    "clamp": "write x.clip(least, most)",
    "clone": "+x is another tensor with the same values, which assignments to x leave as they are",
    "contiguous": "tensors are contiguous for those who read them; leave it out",
    "copy": "+x is another tensor with the same values, which assignments to x leave as they are",
    "cpu": 'write x.to("cpu")',
    "cuda": 'write x.to("webgpu"), or choose a backend for the program with plugrad.use("webgpu")',
    "data": "write x, or plugrad.stop_gradient(x) where a gradient would flow",
    "detach": "call plugrad.stop_gradient(x)",
    "dim": "write x.ndim",
    "double": 'write x.astype("float64")',
    "expand": "write plugrad.broadcast_to(x, shape)",
    "expand_as": "write plugrad.broadcast_to(x, y.shape)",
    "fill_": "write x[...] = value",
    "flat": "write x.reshape(-1)",
    "flatten": "write x.reshape(-1)",
    "float": 'write x.astype("float32")',
    "gather": "write plugrad.take_along_axis(x, positions, axis=0)",
    "grad": "plugrad.grad(f)(x) returns the gradient of a function",
    "half": 'write x.astype("float16")',
    "index_select": "write plugrad.take(x, positions, axis=0)",
    "int": 'write x.astype("int32")',
    "is_cuda": "write x.device",
    "itemsize": "write x.dtype.itemsize",
    "long": 'write x.astype("int64")',
    "masked_fill": "write plugrad.where(mask, value, x)",
    "mm": "write x @ y",
    "mul_": "write x *= y",
    "numel": "write x.size",
    "permute": "write plugrad.permute_dims(x, axes)",
    "ravel": "write x.reshape(-1)",
    "requires_grad": "arguments of functions given to plugrad.grad are differentiated, and so are Variables given to "
    "plugrad.variable_grads",
    "requires_grad_": "arguments of functions given to plugrad.grad are differentiated, and so are Variables given to "
    "plugrad.variable_grads",
    "scatter_": "write x[key] = value",
    "scatter_add_": "write x[key] += value",
    "sub_": "write x -= y",
    "swapaxes": "write plugrad.permute_dims(x, axes)",
    "topk": "write x.top_k(k)",
    "type": "write x.astype(dtype)",
    "unsqueeze": "write plugrad.expand_dims(x, axis=0)",
    "zero_": "write x[...] = 0",
    **{
        name: f"write plugrad.{name}(x)"
        for name in (
            "argsort",
            "conj",
            "count_nonzero",
            "diff",
            "imag",
            "median",
            "nonzero",
            "real",
            "sort",
        )
    },
    **{
        name: f"write plugrad.linalg.{name}(x)"
        for name in ("det", "diagonal", "inv", "qr", "svd", "trace")
    },
    "repeat": "write plugrad.repeat(x, n), or x.tile(repetitions)",
}
"""What to write in place of an attribute that tensors of other frameworks have, by its name."""


def list_member_names(x: Tensor) -> list[str]:
    """Return the names that consoles complete: all attributes but those that only raise an error with a hint."""
    return sorted(set(object.__dir__(x)) - MISSING_ATTRIBUTE_HINTS.keys())


def make_missing_attribute(name: str) -> property:
    """Return a property for an attribute that tensors lack; it raises an error with a hint at the replacement."""

    # Without a docstring, for a page of reference would list the property.
    def explain(x: Tensor) -> NoReturn:
        raise AttributeError(
            f"tensors do not have {name!r}: {MISSING_ATTRIBUTE_HINTS[name]}", name=name, obj=x
        )

    return property(explain)


ARITHMETIC_OPERATORS: Final = {
    "add": ("binary", "add"),
    "sub": ("binary", "subtract"),
    "mul": ("binary", "multiply"),
    "truediv": ("binary", "divide"),
    "floordiv": ("binary", "floor_divide"),
    "mod": ("binary", "remainder"),
    "pow": ("binary", "pow"),
    "matmul": ("linalg", "matmul"),
    "and": ("bitwise", "bitwise_and"),
    "or": ("bitwise", "bitwise_or"),
    "xor": ("bitwise", "bitwise_xor"),
    "lshift": ("bitwise", "bitwise_left_shift"),
    "rshift": ("bitwise", "bitwise_right_shift"),
}
"""The operators that also have an in-place form, with the module and name of their ops."""
SPECIAL_METHODS: Final = {
    "__divmod__": ("ufuncs", "divmod_op"),
    "__round__": ("methods", "round_to_digits"),
    "__array_ufunc__": ("ufuncs", "apply_ufunc"),
    "__array_function__": ("array_functions", "apply_array_function"),
    "__neg__": ("unary", "negative"),
    "__abs__": ("unary", "abs"),
    "__invert__": ("bitwise", "bitwise_invert"),
    "__getitem__": ("subscript", "index_tensor"),
    "__setitem__": ("subscript", "assign_elements"),
    "__iter__": ("methods", "iterate_first_axis"),
    "__copy__": ("methods", "copy_tensor"),
    "__deepcopy__": ("methods", "copy_tensor"),
    "__reduce__": ("methods", "reduce_for_pickle"),
    "__arrow_c_array__": ("arrow", "export_arrow"),
}
"""The special methods that are not arithmetic operators, with the module and name of the functions they call."""
NUMPY_METHODS: Final = {
    "methods": (
        *("astype", "to", "to_device", "reshape", "transpose", "sum", "mean", "prod", "std", "var"),
        *("max", "min", "all", "any", "argmax", "argmin", "cumsum", "cumprod", "view"),
    )
}
"""The names of methods that take the arguments of NumPy's methods, by the module of their functions."""
TENSOR_ATTRIBUTES: Final[dict[str, Any]] = {
    **{
        f"__{name}__": LazyAttribute(f"__{name}__", f"ops.{m}", op)
        for name, (m, op) in ARITHMETIC_OPERATORS.items()
    },
    **{
        f"__r{name}__": LazyAttribute(f"__r{name}__", f"ops.{module}", op, swap_operands)
        for name, (module, op) in (
            ARITHMETIC_OPERATORS | {"divmod": SPECIAL_METHODS["__divmod__"]}
        ).items()
    },
    **{
        name: LazyAttribute(name, f"ops.{module}", op)
        for name, (module, op) in SPECIAL_METHODS.items()
    },
    # what small programs mostly do: with two tensors that need no conversion, these skip the op
    "__add__": LazyAttribute("__add__", "ops.binary", "add", partial(compile_call, kernels.add)),
    "__sub__": LazyAttribute(
        "__sub__", "ops.binary", "subtract", partial(compile_call, kernels.subtract)
    ),
    "__mul__": LazyAttribute(
        "__mul__", "ops.binary", "multiply", partial(compile_call, kernels.multiply)
    ),
    "__truediv__": LazyAttribute(
        "__truediv__", "ops.binary", "divide", partial(compile_call, kernels.divide)
    ),
    "__lt__": binary.less,
    "__le__": binary.less_equal,
    "__gt__": binary.greater,
    "__ge__": binary.greater_equal,
    "__eq__": make_comparison(binary.equal),
    "__ne__": make_comparison(binary.not_equal),
    "__pos__": lift_alias,
    "__dir__": list_member_names,
    **{name: make_missing_attribute(name) for name in MISSING_ATTRIBUTE_HINTS},
    "T": LazyAttribute("T", "ops.methods", "transpose_matrix", property),
    "mT": LazyAttribute("mT", "ops.methods", "transpose_matrices", property),
    "__array_namespace__": LazyAttribute("__array_namespace__", "array_api", "__array_namespace__"),
    **{
        name: LazyAttribute(name, f"ops.{module}", name)
        for module, names in (*CHAINED_OPS.items(), *NUMPY_METHODS.items())
        for name in names
    },
}
"""The operators and methods that are set on the class `Tensor`, by name."""

if sys.version_info >= (3, 12):  # the first that asks for buffers in Python
    TENSOR_ATTRIBUTES["__buffer__"] = LazyAttribute("__buffer__", "ops.methods", "export_buffer")

for _name, _member in TENSOR_ATTRIBUTES.items():
    setattr(Tensor, _name, _member)
