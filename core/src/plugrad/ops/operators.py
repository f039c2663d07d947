"""The operators and methods of tensors, each of them a call into an op."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from operator import index as as_index
from typing import TYPE_CHECKING, Any, NoReturn

from plugrad.engine.dispatch import run_pair
from plugrad.engine.results import renamed
from plugrad.errors import ArgumentError, ArgumentValueError, ShapeError
from plugrad.kernels import binary as kernels
from plugrad.ops import binary, bitwise, linalg, movement, subscript, transfer, ufuncs, unary
from plugrad.ops.chained import CHAINED
from plugrad.tensor.tensor import Tensor
from plugrad.types.dtype import string

if TYPE_CHECKING:
    from collections.abc import Iterator

    from plugrad.contract.kernel import Kernel

Binary = Callable[..., Any]


def direct(kernel: Kernel[..., Tensor], op: Binary) -> Binary:
    """Return a binary op for use as an operator: two tensors that need no conversion skip the op.

    That is a call less for what small programs mostly do; D1 and D3 in benchmarks/ measure it.
    """
    usual, accepted = kernel.usual, kernel.accepted_spellings

    def operator(a: Any, b: Any) -> Any:
        if type(a) is Tensor and type(b) is Tensor:
            dtype = a.array.dtype
            if dtype is b.array.dtype and (dtype is usual or dtype in accepted):
                return run_pair(kernel, a, b)
        return op(a, b)

    return operator


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


def copied(x: Tensor, memo: Any = None) -> Tensor:
    """Return another tensor with the same values; a deep copy does not copy the backend."""
    return unary.astype(x, x.dtype)


def pickled(x: Tensor) -> Any:
    """Return how to make the tensor again: its values, and where they were."""
    values, device = x.numpy(), x.device
    return partial(transfer.unpickled, distribution=x.backend.distribution), (values, device)


def transposed(x: Tensor) -> Tensor:
    """The transpose of a matrix.

    Raises:
        ShapeError: the tensor does not have two axes.
    """
    if x.ndim != 2:
        raise ShapeError(f"T is for two axes, but the shape is {x.shape}; use permute_dims")
    return movement.permute_dims(x, (1, 0))


def matrix_transposed(x: Tensor) -> Tensor:
    """The transposes of the matrices on the last two axes; see `plugrad.matrix_transpose`."""
    return linalg.matrix_transpose(x)


def iterated(x: Tensor) -> Iterator[Tensor]:
    """Return an iterator over the tensors along the first axis.

    Raises:
        ArgumentError: there is none.
    """
    if not x.ndim:
        raise ArgumentError(
            "iteration over a 0-d tensor; it has no axes, and item() gives its value"
        )
    return iter(movement.unstack(x))


def rounded(x: Tensor, digits: int | None = None) -> Tensor:
    """Return ``round(x, digits)``: the elements with so many decimals, halves to even, in the dtype of x.

    Raises:
        ArgumentValueError: the elements are integers, and the number of digits is negative.
    """
    if not digits or (digits > 0 and x.dtype.is_integer):
        return unary.round(x)
    if x.dtype.is_integer:
        raise ArgumentValueError(
            f"round: ndigits={digits} is negative, which is for floats; cast x first, as in x.astype('float32')"
        )
    scale = 10.0 ** abs(as_index(digits))
    if digits < 0:
        return unary.round(x / scale) * scale
    return unary.round(x * scale) / scale


class Later:
    """A function that is a method, whose module is imported when the method is first used.

    So `import plugrad` does not import the families that a program does not use. From then on, the function itself
    is the method, and ``help(x.sqrt)`` shows it.
    """

    def __init__(self, name: str, module: str) -> None:
        """Stand for the function of a name in a module."""
        self.name = name
        self.module = module

    def __get__(self, x: Tensor | None, kind: type[Tensor]) -> Any:
        """Return the op, bound to the tensor as any method is."""
        op = getattr(import_module(self.module), self.name)
        setattr(Tensor, self.name, op)
        return getattr(kind if x is None else x, self.name)


# --- what tensors of other frameworks have, and what plugrad has instead ---------------------------

INSTEAD: dict[str, str] = {
    "at": "write x[key] = value, or x[key] += value",
    "backward": "gradients are those of functions, as in plugrad.grad(f)(x), or in optimizer.minimize(f, variables) "
    "for variables",
    "clone": "+x is another tensor with the same values, which assignments to x leave as they are",
    "copy": "+x is another tensor with the same values, which assignments to x leave as they are",
    "cpu": 'write x.to("cpu")',
    "cuda": 'write x.to("webgpu"), or choose a backend for the program with plugrad.use("webgpu")',
    "detach": "call plugrad.stop_gradient(x)",
    "flatten": "write x.reshape(-1)",
    "grad": "plugrad.grad(f)(x) returns the gradient of a function",
    "permute": "write plugrad.permute_dims(x, axes)",
    "ravel": "write x.reshape(-1)",
    "requires_grad": "arguments of functions given to plugrad.grad are differentiated, and so are Variables given to "
    "plugrad.variable_grads",
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


ARITHMETIC: dict[str, Binary] = {
    "add": direct(kernels.add, binary.add),
    "sub": direct(kernels.subtract, binary.subtract),
    "mul": direct(kernels.multiply, binary.multiply),
    "truediv": direct(kernels.divide, binary.divide),
    "floordiv": binary.floor_divide,
    "mod": binary.remainder,
    "pow": binary.pow,
    "matmul": linalg.matmul,
    "and": bitwise.bitwise_and,
    "or": bitwise.bitwise_or,
    "xor": bitwise.bitwise_xor,
    "lshift": bitwise.bitwise_left_shift,
    "rshift": bitwise.bitwise_right_shift,
}
METHODS = {
    "methods": (
        *("astype", "to", "to_device", "reshape", "transpose", "sum", "mean", "prod", "std", "var"),
        *("max", "min", "all", "any", "argmax", "argmin", "cumsum", "cumprod"),
    )
}
"""The methods that take what NumPy passes, and their module."""
ATTACHED: dict[str, Any] = {
    **{f"__{name}__": op for name, op in ARITHMETIC.items()},
    **{f"__r{name}__": reflected(op) for name, op in ARITHMETIC.items()},
    "__divmod__": ufuncs.divided,
    "__rdivmod__": reflected(ufuncs.divided),
    "__round__": rounded,
    "__array_ufunc__": ufuncs.applied,
    "__lt__": binary.less,
    "__le__": binary.less_equal,
    "__gt__": binary.greater,
    "__ge__": binary.greater_equal,
    "__eq__": compared(binary.equal),
    "__ne__": compared(binary.not_equal),
    "__neg__": unary.negative,
    "__pos__": renamed,
    "__abs__": unary.abs,
    "__invert__": bitwise.bitwise_invert,
    "__getitem__": subscript.index,
    "__setitem__": subscript.assign,
    "__iter__": iterated,
    "__dir__": listed,
    "__copy__": copied,
    "__deepcopy__": copied,
    "__reduce__": pickled,
    **{name: absent(name) for name in INSTEAD},
    "T": property(transposed),
    "mT": property(matrix_transposed),
    "__array_namespace__": Later("__array_namespace__", "plugrad.array_api"),
    **{
        name: Later(name, f"plugrad.ops.{module}")
        for module, names in (CHAINED | METHODS).items()
        for name in names
    },
}

for _name, _member in ATTACHED.items():
    setattr(Tensor, _name, _member)
