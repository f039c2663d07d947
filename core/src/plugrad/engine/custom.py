"""Functions that define their own gradient."""

from __future__ import annotations

import inspect
from functools import wraps
from typing import TYPE_CHECKING, Any, cast

from plugrad.engine.autocast import cast_floats
from plugrad.engine.results import wrap_array
from plugrad.engine.transfer import lift_arguments
from plugrad.errors import ArgumentError, DTypeError, GradientLost, ShapeError, short_repr
from plugrad.kernels.complex import conj
from plugrad.tape.nodes import (
    CustomNode,
    InputGradients,
    Node,
    constants_before_order,
    next_node_order,
)
from plugrad.tensor.context import active_precision
from plugrad.tensor.tensor import Tensor
from plugrad.tensor.tracer import current_tracer
from plugrad.types.arguments import check_callable
from plugrad.types.dtype import COMPLEX, equivalents

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from plugrad.tensor.tracer import Tracer
    from plugrad.types.dtype import DType
    from plugrad.types.specs import Shape

_COMPLEX_DTYPES = equivalents(COMPLEX)
"""The complex dtypes, in plugrad's and NumPy's spelling."""


def custom_grad(
    function: Callable[..., tuple[Tensor, Callable[..., Any]]],
) -> Callable[..., Tensor]:
    """Return a function with the gradient that `function` itself defines.

    `function` takes tensors and, last, ``save``; it returns the value and ``grad_func(dy, saved)``,
    which returns one gradient per tensor (a tensor, if there is one; None for "nothing"). ``save(a,
    b, …)``, or ``save([a, b, …])``, keeps tensors for the backward pass; `saved` is the list of them.

    >>> import plugrad
    >>> @plugrad.custom_grad
    ... def clipped_identity(x, save):
    ...     return x, lambda dy, saved: plugrad.clip(dy, -1, 1)
    >>> plugrad.grad(lambda x: 5 * clipped_identity(x))(2.0)
    tensor(1., dtype=float32)

    A saved tensor remembers how it was computed, so the gradient can be differentiated again.

    Raises:
        ArgumentError: an argument is not a tensor, or `function` or `grad_func` returns something
            else.
        GradientLost: the value depends on a differentiated tensor or variable that is not among the arguments.
        ShapeError, DTypeError: a gradient's shape or dtype differs from its argument's.
    """
    check_callable("custom_grad", function)

    @wraps(function)
    def with_custom_gradient(*args: Tensor) -> Tensor:
        tracer = current_tracer()
        for position, x in enumerate(args):
            if not isinstance(x, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance] - callers pass lists
                raise ArgumentError(
                    f"custom_grad: argument {position} must be a tensor, not "
                    f"{type(x).__name__}; convert it with asarray"
                )
        args = lift_arguments(args)
        parents = tuple(x.node for x in args)  # before the function assigns to an argument
        specs = [(x.shape, None if x.node is None else x.dtype) for x in args]
        saved: list[tuple[Tensor, Tensor]] = []

        def save(*tensors: Tensor) -> None:
            """Save tensors for the gradient function; they are given one by one or as a list."""
            saved.extend((x, Tensor(x.array, x.backend, x.node)) for x in as_tensor_list(tensors))

        # What the function makes of its arguments has the gradient that it returns, also if it reads them. Under vmap
        # the call on the level outside, which is part of this one, says so.
        call_order = next_node_order()
        is_on_last_level = tracer is None or tracer.outer is None
        constant_order = call_order if is_on_last_level else constants_before_order.get()
        token = constants_before_order.set(constant_order)
        try:
            result: Any = _call_checking_arguments(
                function if tracer is None else _call_through_tracer(tracer, function),
                (*args, save),
                f"custom_grad: the function must take its {len(args)} tensors and, last, save, as in def "
                "f(x, save)",
            )
        finally:
            constants_before_order.reset(token)
        value, grad_func = check_value_and_gradient(result)
        _check_captures(value, parents, call_order)
        out = wrap_array(value.array, value.backend)
        if any(parent is not None for parent in parents):
            is_new = not any(value is x for x in args)  # an argument has its own node
            kept = [(x, is_new and given is value and x.array is value.array) for given, x in saved]
            out.node = _CustomGradientCall(parents, grad_func, specs, kept)
        return out

    return with_custom_gradient


def _call_through_tracer(tracer: Tracer, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return `function` as a tracer calls it; it keeps the signature of `function` for error messages."""

    @wraps(function)
    def call(*args: Any) -> Any:
        return tracer.call_with_custom_gradient(function, args[:-1], args[-1])

    return call


def _check_captures(value: Tensor, parents: Sequence[Node | None], call_order: int) -> None:
    """Raise if a value depends on a differentiated tensor other than the arguments, whose nodes are `parents`.

    `call_order` is the least `Node.order` of a node that the call itself made.

    Raises:
        GradientLost: it does.
    """
    known: set[Node | None] = {None, *parents}
    nodes = [value.node]
    for node in nodes:  # it grows
        if node is None or node in known:
            continue
        known.add(node)
        if node.order >= call_order:
            nodes.extend(node.parents)
        elif node.is_being_differentiated():
            raise GradientLost(
                "custom_grad: the function reads a tensor or variable that is being differentiated and is not among "
                "its arguments, so its gradient would be lost; pass it as an argument, or write "
                "plugrad.stop_gradient(x) for a constant"
            )


class _CustomGradientCall(CustomNode):
    """A call of a function with its own gradient."""

    __slots__ = ("grad_func", "is_mixed", "saved", "specs")

    def __init__(
        self,
        parents: tuple[Node | None, ...],
        grad_func: Callable[..., Any],
        specs: Sequence[tuple[Shape, DType | None]],
        saved: Sequence[tuple[Tensor, bool]],
    ) -> None:
        """Keep the saved tensors as arrays with their nodes; the value, which is marked, comes from this node."""
        super().__init__(parents)
        self.grad_func = grad_func
        self.is_mixed = active_precision() is not None
        """Whether the function may have computed in another dtype than that of its arguments."""
        self.specs = specs
        self.saved = [(x.array, x.backend, None if own else x.node, own) for x, own in saved]

    def vjp(
        self, dy: Tensor, needs_input_grad: Sequence[bool] | None, create_graph: bool
    ) -> InputGradients:
        """Call the gradient function, and return the gradients of the inputs after checking them."""
        saved = [
            Tensor(a, b, (self if is_value else n) if create_graph else None)
            for a, b, n, is_value in self.saved
        ]
        found = _call_checking_arguments(
            self.grad_func,
            (conjugate(dy), saved),
            "custom_grad: the gradient function must take dy and saved, the list of the saved tensors, as in "
            "lambda dy, saved: dy",
        )
        gradients: list[Any] = (
            [*cast("Sequence[Any]", found)] if isinstance(found, list | tuple) else [found]
        )
        if len(gradients) != len(self.specs):
            raise ArgumentError(
                f"custom_grad: the gradient function returned {len(gradients)} gradients for "
                f"{len(self.specs)} arguments; return one for each, or None for those that need none"
            )
        for i, (gradient, (shape, dtype)) in enumerate(zip(gradients, self.specs, strict=True)):
            if not isinstance(gradient, Tensor | None):
                raise ArgumentError(
                    f"custom_grad: gradient {i} is a {type(gradient).__name__}, not a tensor or None; compute it with "
                    "plugrad's functions, or convert it with asarray"
                )
            if gradient is not None and gradient.shape != shape:
                raise ShapeError(
                    f"custom_grad: gradient {i} has shape {gradient.shape}; the argument has shape {shape}, which its "
                    "gradient must have too"
                )
            if gradient is not None and dtype is not None and self.is_mixed:
                gradient = gradients[i] = cast_floats(gradient, dtype)
            if gradient is not None and dtype not in (None, gradient.dtype):
                raise DTypeError(
                    f"custom_grad: gradient {i} is {gradient.dtype}; the argument is {dtype}; cast it with astype"
                )
        return [(i, g if g is None else conjugate(g)) for i, g in enumerate(gradients)]


def _call_checking_arguments(
    function: Callable[..., Any], args: tuple[Any, ...], message_prefix: str
) -> Any:
    """Return the result of a call; if the arguments do not fit, raise an ArgumentError with `message_prefix`.

    Raises:
        ArgumentError: the function does not take the arguments.
    """
    try:
        return function(*args)
    except TypeError as error:
        try:
            inspect.signature(function).bind(*args)
        except TypeError:
            raise ArgumentError(f"{message_prefix}: {error}") from None
        except ValueError:  # Python cannot inspect a compiled function
            pass
        raise


def check_value_and_gradient(result: Any) -> tuple[Tensor, Callable[..., Any]]:
    """Return the result of a function with its own gradient, which must be a tensor and a gradient function.

    Raises:
        ArgumentError: it is something else.
    """
    if not (
        isinstance(result, tuple)
        and len(pair := cast("tuple[Any, ...]", result)) == 2
        and isinstance(pair[0], Tensor)
        and callable(pair[1])
    ):
        raise ArgumentError(
            f"custom_grad: the function returned {_type_name(result)}; it must return a tensor and a gradient "
            "function, as in return y, lambda dy, saved: dy"
        )
    return cast("tuple[Tensor, Callable[..., Any]]", result)


def as_tensor_list(tensors: tuple[Any, ...]) -> list[Tensor]:
    """Return the arguments of ``save``, tensors or one list of them, as a list.

    Raises:
        ArgumentError: they are no tensors.
    """
    if len(tensors) == 1 and isinstance(tensors[0], list | tuple):
        tensors = tuple(cast("list[Any]", tensors[0]))
    for x in tensors:
        if not isinstance(x, Tensor):
            raise ArgumentError(
                f"custom_grad: save takes tensors, not {short_repr(x)}; the gradient function sees other values of the "
                "function without saving them"
            )
    return list(tensors)


def _type_name(result: object) -> str:
    """Return the name of a result's type, or the names of the types in a tuple."""
    if isinstance(result, tuple):
        return f"({', '.join(type(x).__name__ for x in cast('tuple[object, ...]', result))})"
    return type(result).__name__


def conjugate(x: Tensor) -> Tensor:
    """Return the complex conjugate; real tensors are returned unchanged."""
    return conj(x) if x.array.dtype in _COMPLEX_DTYPES else x
