"""Functions of functions: gradients of ordinary Python code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from plugrad.engine.custom import conjugated
from plugrad.engine.results import wrapped
from plugrad.errors import ArgumentError, DTypeError, GradientNotFound, ShapeError
from plugrad.kernels import creation
from plugrad.ops.creation import asarray, zeros_like
from plugrad.tape.nodes import Bundle, Leaf
from plugrad.tape.tape import Walk
from plugrad.tensor.tensor import Tensor
from plugrad.tensor.trees import leaves_of, map_tree, tensors_in
from plugrad.transforms.variable import Variable, watched
from plugrad.types.dtype import INEXACT, spellings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_INEXACT = spellings(INEXACT)


def grad(
    function: Callable[..., Tensor], argnums: int | Sequence[int] = 0, *, allow_unused: bool = False
) -> Callable[..., Any]:
    """Return a function that computes the gradient of `function`.

    >>> import plugrad
    >>> cube = lambda x: x * x * x
    >>> plugrad.grad(cube)(2.0)
    tensor(12., dtype=float32)
    >>> plugrad.grad(plugrad.grad(cube))(2.0)
    tensor(12., dtype=float32)

    The new function takes the arguments of `function`, and ``dy=``, the gradient of a result that
    is not a scalar (default: ones, which gives the gradient of the result's sum). Differentiated
    arguments are tensors, what `asarray` takes, or nested lists, tuples and dicts of tensors; the
    gradient has the same form.

    Args:
        function: returns one floating tensor.
        argnums: the position of the differentiated argument, or several, which gives a tuple of
            gradients.
        allow_unused: give zeros for an argument that the result does not depend on, instead of an
            error.

    Raises:
        ArgumentError: `function` is not callable, or does not return a tensor.
        DTypeError: a differentiated argument or the result is not floating.
        ShapeError: `dy` has not the result's shape.
        GradientNotFound: a kernel on the way has no gradient, or the result does not depend on an
            argument.
    """
    both = value_and_grad(function, argnums, allow_unused=allow_unused)

    @_described(function, "The gradient of")
    def gradient(*args: Any, **kwargs: Any) -> Any:
        return both(*args, **kwargs)[1]

    return gradient


def value_and_grad(
    function: Callable[..., Tensor], argnums: int | Sequence[int] = 0, *, allow_unused: bool = False
) -> Callable[..., tuple[Tensor, Any]]:
    """Return a function that computes the value of `function` and its gradient; see `grad`.

    >>> import plugrad
    >>> plugrad.value_and_grad(lambda x, y: x * y, argnums=(0, 1))(3.0, 4.0)
    (tensor(12., dtype=float32), (tensor(4., dtype=float32), tensor(3., dtype=float32)))
    """
    _check_callable("grad", function)
    positions = (argnums,) if isinstance(argnums, int) else tuple(argnums)

    @_described(function, "The value and the gradient of")
    def value_and_gradient(*args: Any, dy: Any = None, **kwargs: Any) -> tuple[Tensor, Any]:
        leaves: list[Leaf] = []
        inputs: list[Tensor] = []
        renamed = list(args)
        try:
            for position in positions:
                renamed[position] = map_tree(lambda x: _leaf(x, leaves, inputs), args[position])
        except IndexError:
            raise ArgumentError(
                f"grad: argnums={argnums} but the function is called with {len(args)} positional arguments"
            ) from None
        value, gradients = _pulled_back(function, renamed, kwargs, leaves, dy)
        for i, gradient in enumerate(gradients):
            if gradient is None:
                if not allow_unused:
                    raise GradientNotFound(
                        "grad: the result does not depend on differentiated tensor number "
                        f"{i}; pass allow_unused=True for zeros"
                    )
                gradients[i] = zeros_like(inputs[i])
        remaining = iter(gradients)
        trees = [map_tree(lambda _: next(remaining), args[position]) for position in positions]
        return value, trees[0] if isinstance(argnums, int) else tuple(trees)

    return value_and_gradient


def grads(
    function: Callable[..., Tensor], *, allow_unused: bool = False
) -> Callable[..., tuple[Any, ...]]:
    """Return a function that computes the gradients of `function` for all its positional arguments; see `grad`.

    >>> import plugrad
    >>> plugrad.grads(lambda x, y: x * y)(3.0, 4.0)
    (tensor(4., dtype=float32), tensor(3., dtype=float32))
    """
    _check_callable("grads", function)

    @_described(function, "The gradients of")
    def gradients(*args: Any, dy: Any = None, **kwargs: Any) -> tuple[Any, ...]:
        every = grad(function, tuple(range(len(args))), allow_unused=allow_unused)
        return every(*args, dy=dy, **kwargs)

    return gradients


def vjp(function: Callable[..., Any], *args: Any) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]:
    """Return the value of `function` and a function that pulls a gradient of the value back to every argument.

    >>> import plugrad
    >>> y, pull = plugrad.vjp(lambda x: x * x, plugrad.asarray([1.0, 2.0]))
    >>> pull(plugrad.asarray([1.0, 10.0]))
    (tensor([ 2., 40.], dtype=float32),)

    The function is run once; its tape is kept as long as the second result is. The value may be a
    nested list, tuple or dict of tensors; its gradient has the same form then.
    """
    _check_callable("vjp", function)
    leaves: list[Leaf] = []
    inputs: list[Tensor] = []
    renamed = [map_tree(lambda x: _leaf(x, leaves, inputs), arg) for arg in args]
    result = map_tree(_checked_result, function(*renamed))
    root = Bundle(tuple(part.node for part in tensors_in(result)))
    is_nested = Walk(root, leaves).is_nested
    value = map_tree(lambda y: y if is_nested else wrapped(y.array, y.backend), result)
    parts = [Tensor(y.array, y.backend) for y in tensors_in(value)]  # whatever is disposed later

    def pull(dy: Any) -> tuple[Any, ...]:
        given = [dy] if isinstance(value, Tensor) else list(leaves_of(dy))
        if len(given) != len(parts):
            raise ArgumentError(
                f"vjp: dy has {len(given)} parts; the value has {len(parts)}, and dy must have its form"
            )
        checked = [_checked_dy(d, y) for d, y in zip(given, parts, strict=True)]
        gradients = _walked_back(Walk(root, leaves), checked)
        pairs = zip(inputs, gradients, strict=True)
        filled = iter([zeros_like(x) if g is None else g for x, g in pairs])
        return tuple(map_tree(lambda _: next(filled), arg) for arg in args)

    return value, pull


def variable_grads(
    function: Callable[[], Tensor], variables: Sequence[Variable], *, allow_unused: bool = False
) -> tuple[Tensor, list[Tensor]]:
    """Return the value of a function without arguments, and its gradient for each of the variables it reads.

    >>> import plugrad
    >>> w = plugrad.Variable([1.0, 2.0])
    >>> plugrad.variable_grads(lambda: plugrad.sum(w * w), [w])
    (tensor(5., dtype=float32), [tensor([2., 4.], dtype=float32)])

    Raises:
        ArgumentError: an entry is not a `Variable`, or is named twice.
        DTypeError, ShapeError, GradientNotFound: see `grad`.
    """
    _check_callable("variable_grads", function)
    if (
        not variables
        or len({id(v) for v in variables}) != len(variables)
        or not all(isinstance(v, Variable) for v in variables)  # pyright: ignore[reportUnnecessaryIsInstance] - people pass tensors
    ):
        raise ArgumentError(
            "variable_grads: give a list of different Variables to differentiate with respect to"
        )
    for variable in variables:
        _check_floating("variable", variable)
    outer = {v: v.node for v in variables}
    leaves = {v: Leaf((outer[v],)) for v in variables}
    token = watched.set({**(watched.get() or {}), **leaves})
    try:
        value, gradients = _pulled_back(function, (), {}, list(leaves.values()), None)
    finally:
        watched.reset(token)
    unused = [v.name for v, g in zip(variables, gradients, strict=True) if g is None]
    if unused and not allow_unused:
        raise GradientNotFound(
            f"variable_grads: the result does not depend on variable {unused[0]!r}; pass allow_unused=True for zeros"
        )
    return value, [
        zeros_like(v) if g is None else g for v, g in zip(variables, gradients, strict=True)
    ]


# --- how the transforms work ---------------------------------------------------------------------


def _pulled_back(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    leaves: list[Leaf],
    dy: Any,
) -> tuple[Tensor, list[Tensor | None]]:
    """Return the value of a function and the gradient of each leaf."""
    value = _checked_result(function(*args, **kwargs))
    walk = Walk(value.node, leaves)
    constant = wrapped(value.array, value.backend)
    dy = creation.ones_like(constant) if dy is None else _checked_dy(dy, constant)
    if not walk.is_nested:
        # Nobody further out differentiates: the value becomes a constant, so that keeping it does
        # not keep the tape.
        value = constant
    return value, _walked_back(walk, dy)


def _walked_back(walk: Walk, dy: Any) -> list[Tensor | None]:
    """Return the gradients of the leaves, given that of the result, or those of several.

    Rules are transposes; the gradient for complex numbers, whose direction is the steepest ascent,
    has the conjugate transpose. Conjugating what goes in and what comes out makes one of the other.
    """
    start = conjugated(dy) if isinstance(dy, Tensor) else map_tree(conjugated, dy)
    gradients = walk.back(start)
    return [None if g is None else conjugated(g) for g in gradients]


def _checked_result(value: Any) -> Tensor:
    if not isinstance(value, Tensor):
        raise ArgumentError(
            f"grad: the function must return one tensor, not {type(value).__name__}"
        )
    _check_floating("the result", value)
    return value


def _checked_dy(dy: Any, value: Tensor) -> Tensor:
    """Return the gradient of `value` as a tensor of its shape and dtype."""
    dtype = None if isinstance(dy, Tensor) else value.dtype
    dy = asarray(dy, dtype=dtype, device=value.backend)
    if dy.shape != value.shape or dy.dtype != value.dtype:
        raise ShapeError(
            f"grad: dy is {dy.dtype} of shape {dy.shape}; "
            f"the result is {value.dtype} of shape {value.shape}"
        )
    return dy


def _leaf(x: Any, leaves: list[Leaf], inputs: list[Tensor]) -> Tensor:
    """Return `x` under a new name, and remember its leaf."""
    if not isinstance(x, Tensor):
        x = asarray(x)
    _check_floating("a differentiated argument", x)
    leaf = Leaf((x.node,))
    leaves.append(leaf)
    inputs.append(Tensor(x.array, x.backend))
    return Tensor(x.array, x.backend, leaf)


def _check_floating(what: str, x: Tensor) -> None:
    if x.array.dtype not in _INEXACT:
        raise DTypeError(
            f"grad: {what} is {x.dtype}, which has no gradient; cast it with astype('float32')"
        )


def _check_callable(where: str, function: object) -> None:
    if not callable(function):
        raise ArgumentError(f"{where} takes a function, not {type(function).__name__}")


def _described(
    function: Callable[..., Any], what: str
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def decorate(new: Callable[..., Any]) -> Callable[..., Any]:
        new.__doc__ = f"{what} {getattr(function, '__name__', 'a function')}."
        return new

    return decorate
