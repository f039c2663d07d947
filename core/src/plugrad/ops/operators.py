"""The operators and methods of tensors, each of them a call into an op."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, NoReturn

from plugrad.engine.dispatch import compile_call
from plugrad.engine.results import renamed
from plugrad.importing import imported
from plugrad.kernels import binary as kernels
from plugrad.ops import binary
from plugrad.ops.chained import CHAINED
from plugrad.tensor.tensor import Tensor
from plugrad.types.dtype import string

Binary = Callable[..., Any]


def reflected(op: Binary) -> Binary:
    """Return an op of two operands for the operator whose tensor stands on the right."""

    def operator(x: Any, other: Any) -> Any:
        return op(other, x)

    return operator


def compared(op: Binary) -> Binary:
    """Return a comparison that leaves to Python what is never equal to a tensor."""

    def compare(x: Tensor, other: Any) -> Any:
        if other is None or (type(other) is str and x.dtype is not string):
            return NotImplemented
        return op(x, other)

    return compare


class Later:
    """A member of tensors that is imported when it is first used.

    So `import plugrad` does not import the families that a program does not use. From then on, the function itself
    is the member, and ``help(x.sqrt)`` shows it.
    """

    def __init__(
        self, name: str, module: str, function: str, form: Callable[..., Any] | None = None
    ) -> None:
        """Stand for the member `name`, a function in a module, in the form of an operator or a property."""
        self.name = name
        self.module = module
        self.function = function
        self.form = form

    def __get__(self, x: Tensor | None, kind: type[Tensor]) -> Any:
        """Return the member, bound to the tensor as any method is."""
        member = getattr(imported(f"plugrad.{self.module}"), self.function)
        setattr(Tensor, self.name, self.form(member) if self.form else member)
        return getattr(kind if x is None else x, self.name)


# --- what tensors of other frameworks have, and what plugrad has instead ---------------------------

INSTEAD: dict[str, str] = {
    "at": "write x[key] = value, or x[key] += value",
    "backward": "gradients are those of functions, as in plugrad.grad(f)(x), or in optimizer.minimize(f, variables) "
    "for variables",
    "clone": "+x is another tensor with the same values, which assignments to x leave as they are",
    "clamp": "write x.clip(least, most)",
    "copy": "+x is another tensor with the same values, which assignments to x leave as they are",
    "cpu": 'write x.to("cpu")',
    "cuda": 'write x.to("webgpu"), or choose a backend for the program with plugrad.use("webgpu")',
    "detach": "call plugrad.stop_gradient(x)",
    "dim": "write x.ndim",
    "flatten": "write x.reshape(-1)",
    "grad": "plugrad.grad(f)(x) returns the gradient of a function",
    "permute": "write plugrad.permute_dims(x, axes)",
    "ravel": "write x.reshape(-1)",
    "requires_grad": "arguments of functions given to plugrad.grad are differentiated, and so are Variables given to "
    "plugrad.variable_grads",
    "type": "write x.astype(dtype)",
    "unsqueeze": "write plugrad.expand_dims(x, axis=0)",
    "view": "write x.reshape(shape)",
}


def listed(x: Tensor) -> list[str]:
    """Return the names of the members, for consoles to complete: without what only says what to use instead."""
    return sorted(set(object.__dir__(x)) - INSTEAD.keys())


def absent(name: str) -> property:
    """Return an attribute that does not exist, and says what to use instead."""

    def explain(x: Tensor) -> NoReturn:
        raise AttributeError(f"tensors do not have {name!r}: {INSTEAD[name]}", name=name, obj=x)

    return property(explain)


ARITHMETIC: Final = {
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
"""The operators that have a form in place too, and their ops."""
MEMBERS: Final = {
    "__divmod__": ("ufuncs", "divided"),
    "__round__": ("methods", "rounded"),
    "__array_ufunc__": ("ufuncs", "applied"),
    "__neg__": ("unary", "negative"),
    "__abs__": ("unary", "abs"),
    "__invert__": ("bitwise", "bitwise_invert"),
    "__getitem__": ("subscript", "index"),
    "__setitem__": ("subscript", "assign"),
    "__iter__": ("methods", "iterated"),
    "__copy__": ("methods", "copied"),
    "__deepcopy__": ("methods", "copied"),
    "__reduce__": ("methods", "pickled"),
}
"""The other special methods that call ops."""
METHODS: Final = {
    "methods": (
        *("astype", "to", "to_device", "reshape", "transpose", "sum", "mean", "prod", "std", "var"),
        *("max", "min", "all", "any", "argmax", "argmin", "cumsum", "cumprod"),
    )
}
"""The methods that take what NumPy passes, and their module."""
ATTACHED: Final[dict[str, Any]] = {
    **{f"__{name}__": Later(f"__{name}__", f"ops.{m}", op) for name, (m, op) in ARITHMETIC.items()},
    **{
        f"__r{name}__": Later(f"__r{name}__", f"ops.{module}", op, reflected)
        for name, (module, op) in (ARITHMETIC | {"divmod": MEMBERS["__divmod__"]}).items()
    },
    **{name: Later(name, f"ops.{module}", op) for name, (module, op) in MEMBERS.items()},
    # what small programs mostly do: with two tensors that need no conversion, these skip the op
    "__add__": Later("__add__", "ops.binary", "add", partial(compile_call, kernels.add)),
    "__sub__": Later("__sub__", "ops.binary", "subtract", partial(compile_call, kernels.subtract)),
    "__mul__": Later("__mul__", "ops.binary", "multiply", partial(compile_call, kernels.multiply)),
    "__truediv__": Later(
        "__truediv__", "ops.binary", "divide", partial(compile_call, kernels.divide)
    ),
    "__lt__": binary.less,
    "__le__": binary.less_equal,
    "__gt__": binary.greater,
    "__ge__": binary.greater_equal,
    "__eq__": compared(binary.equal),
    "__ne__": compared(binary.not_equal),
    "__pos__": renamed,
    "__dir__": listed,
    **{name: absent(name) for name in INSTEAD},
    "T": Later("T", "ops.methods", "transposed", property),
    "mT": Later("mT", "ops.methods", "matrix_transposed", property),
    "__array_namespace__": Later("__array_namespace__", "array_api", "__array_namespace__"),
    **{
        name: Later(name, f"ops.{module}", name)
        for module, names in (*CHAINED.items(), *METHODS.items())
        for name in names
    },
}

for _name, _member in ATTACHED.items():
    setattr(Tensor, _name, _member)
