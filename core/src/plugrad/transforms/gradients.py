"""Gradients of ordinary Python functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from plugrad.engine.custom import conjugated
from plugrad.engine.results import renamed, wrapped
from plugrad.errors import ArgumentError, DTypeError, GradientNotFound, ShapeError, shown
from plugrad.kernels import creation
from plugrad.ops.attributes import flag, integer, is_several, members
from plugrad.ops.creation import asarray, zeros_like
from plugrad.tape.nodes import Bundle, Leaf, leaves_alive
from plugrad.tape.tape import Walk
from plugrad.tensor.tensor import Tensor
from plugrad.tensor.trees import leaves_of, map_tree, tensors_in
from plugrad.transforms.variable import Variable, watched
from plugrad.types.arguments import check_callable
from plugrad.types.dtype import INEXACT, spellings

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from plugrad.tensor.backend import Backend

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

    The new function takes the arguments of `function`, and ``dy=``, the gradient with respect to a
    result with several elements, which cannot be left out: ones give the gradient of the sum. A
    differentiated argument is a tensor, something that `asarray` accepts, or a nested list, tuple or
    dict of these. Its gradient has the same structure, and each part of the gradient has the shape and
    dtype of that part of the argument.

    Args:
        function: returns one floating-point or complex tensor.
        argnums: the position of the differentiated argument; a negative one counts from the end.
            Several positions give a tuple of gradients.
        allow_unused: whether an argument that the result does not depend on has the gradient 0
            instead of causing an error.

    Raises:
        ArgumentError: `function` is not callable or does not return a tensor, or `argnums` are not
            positions of different arguments.
        DTypeError: a differentiated argument or the result is neither floating-point nor complex.
        ShapeError: `dy` does not have the shape of the result, or the result has several elements and
            there is no `dy`.
        GradientNotFound: a kernel between the result and a differentiated argument has no gradient,
            or the result does not depend on an argument.
    """
    return _differentiated("grad", function, argnums, allow_unused)


def value_and_grad(
    function: Callable[..., Tensor], argnums: int | Sequence[int] = 0, *, allow_unused: bool = False
) -> Callable[..., tuple[Tensor, Any]]:
    """Return a function that computes the value of `function` and its gradient; see `grad`.

    >>> import plugrad
    >>> plugrad.value_and_grad(lambda x, y: x * y, argnums=(0, 1))(3.0, 4.0)
    (tensor(12., dtype=float32), (tensor(4., dtype=float32), tensor(3., dtype=float32)))
    """
    return _differentiated("value_and_grad", function, argnums, allow_unused, with_value=True)


def _differentiated(
    op: str,
    function: Callable[..., Tensor],
    argnums: int | Sequence[int],
    allow_unused: bool,
    *,
    with_value: bool = False,
) -> Callable[..., Any]:
    """Return a function that computes the gradient, or a pair of the value and the gradient."""
    check_callable(op, function)
    positions = positions_of(argnums, op)
    allow_unused = flag(allow_unused, op, "allow_unused")
    has_several = is_several(argnums)

    @_described(function, "The value and the gradient of" if with_value else "The gradient of")
    def gradient_of(*args: Any, dy: Any = None, **kwargs: Any) -> Any:
        leaves: list[Leaf] = []
        inputs: list[Place] = []
        renamed = list(args)
        check_positions(positions, args, op)
        for position in positions:
            renamed[position] = map_tree(lambda x: _leaf(x, leaves, inputs), args[position])
        value, gradients = _pulled_back(op, function, renamed, kwargs, leaves, dy)
        for i, gradient in enumerate(gradients):
            if gradient is None:
                if not allow_unused:
                    raise GradientNotFound(
                        "grad: the result does not depend on differentiated tensor number "
                        f"{i}; pass allow_unused=True for zeros"
                    )
                gradients[i] = zeros_like(Tensor(*inputs[i]))
        remaining = iter(gradients)
        trees = [map_tree(lambda _: next(remaining), args[position]) for position in positions]
        gradient = tuple(trees) if has_several else trees[0]
        return (value, gradient) if with_value else gradient

    return gradient_of


def positions_of(argnums: int | Sequence[int], op: str) -> tuple[int, ...]:
    """Return the positions of the differentiated arguments.

    Raises:
        ArgumentError: one is not an integer.
    """
    positions = members(argnums)
    for position in positions:
        if isinstance(position, bool | np.bool_):
            raise ArgumentError(
                f"{op}: argnums={shown(position)} must be an integer, and not a bool"
            )
    return tuple(integer(position, op, "argnums") for position in positions)


def check_positions(positions: Sequence[int], args: Sequence[Any], op: str) -> None:
    """Raise unless the positions are those of different arguments.

    Raises:
        ArgumentError: one is out of range, or two are the same.
    """
    count = len(args)
    named = positions[0] if len(positions) == 1 else tuple(positions)
    for position in positions:
        if not -count <= position < count:
            raise ArgumentError(
                f"{op}: argnums={shown(named)} but the function is called with {count} positional arguments"
            )
    if len(positions) > 1 and len({position % count for position in positions}) < len(positions):
        raise ArgumentError(
            f"{op}: argnums={shown(named)} names an argument twice; name each of the {count} arguments once"
        )


def grads(
    function: Callable[..., Tensor], *, allow_unused: bool = False
) -> Callable[..., tuple[Any, ...]]:
    """Return a function that computes the gradients with respect to all positional arguments of `function`; see `grad`.

    >>> import plugrad
    >>> plugrad.grads(lambda x, y: x * y)(3.0, 4.0)
    (tensor(4., dtype=float32), tensor(3., dtype=float32))
    """
    check_callable("grads", function)
    allow_unused = flag(allow_unused, "grads", "allow_unused")

    @_described(function, "The gradients of")
    def gradients(*args: Any, dy: Any = None, **kwargs: Any) -> tuple[Any, ...]:
        every = grad(function, tuple(range(len(args))), allow_unused=allow_unused)
        return every(*args, dy=dy, **kwargs)

    return gradients


def vjp(function: Callable[..., Any], *args: Any) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]:
    """Return the value of `function`, and a function that pulls a gradient of the value back to every argument.

    >>> import plugrad
    >>> y, pull = plugrad.vjp(lambda x: x * x, plugrad.asarray([1.0, 2.0]))
    >>> pull(plugrad.asarray([1.0, 10.0]))
    (tensor([ 2., 40.], dtype=float32),)

    The function runs once. Its tape is kept as long as the second result is. The value may be a nested
    list, tuple or dict of tensors; then its gradient has the same structure.

    Raises:
        ArgumentError: `function` is not callable or returns something other than tensors, or the
            gradient has another structure than the value.
        DTypeError: an argument or the value is neither floating-point nor complex.
        ShapeError: the gradient has another shape than the value.
        GradientNotFound: a kernel between the value and an argument has no gradient.
    """
    check_callable("vjp", function)
    leaves: list[Leaf] = []
    inputs: list[Place] = []
    renamed = [map_tree(lambda x: _leaf(x, leaves, inputs), arg) for arg in args]
    result = map_tree(_checked_result, function(*renamed))
    is_one = isinstance(result, Tensor)
    ends = [result] if is_one else list(tensors_in(result))
    root = result.node if is_one else Bundle(tuple([end.node for end in ends]))
    kept: list[Place] = [(y.array, y.backend) for y in ends]  # even if the value is disposed
    # While no other function is being differentiated, the value cannot depend on what is.
    is_nested = leaves_alive() > len(leaves) and Walk(root, leaves).is_nested
    value = result if is_nested else map_tree(_constant, result)

    def pull(dy: Any) -> tuple[Any, ...]:
        given = [dy] if is_one else list(leaves_of(dy))
        if len(given) != len(kept):
            raise ArgumentError(
                f"vjp: dy has {len(given)} parts; the value has {len(kept)}, and dy must have its structure"
            )
        checked = [_checked_dy(d, Tensor(*y)) for d, y in zip(given, kept, strict=True)]
        start = checked[0] if is_one else checked
        gradients = _walked_back(Walk(root, leaves), start)
        pairs = zip(inputs, gradients, strict=True)
        filled = iter([zeros_like(Tensor(*x)) if g is None else g for x, g in pairs])
        return tuple(map_tree(lambda _: next(filled), arg) for arg in args)

    return value, pull


def variable_grads(
    function: Callable[[], Tensor],
    variables: Collection[Variable] = (),
    *,
    allow_unused: bool = False,
) -> tuple[Tensor, list[Tensor]]:
    """Return the value of a function without arguments, and its gradient with respect to each trainable variable.

    >>> import plugrad
    >>> w = plugrad.Variable([1.0, 2.0])
    >>> fixed = plugrad.Variable(3.0, trainable=False)
    >>> plugrad.variable_grads(lambda: plugrad.sum(w * w) * fixed, [w, fixed])
    (tensor(15., dtype=float32), [tensor([ 6., 12.], dtype=float32)])

    Variables whose `trainable` is False are constants. The gradients are a list in the order of the
    trainable ones among `variables`: as many as there are ``v for v in variables if v.trainable``. Each
    has the shape, dtype and device of its variable.

    Args:
        function: reads the variables and returns one floating-point or complex tensor with one element.
        variables: different variables, of which at least one is trainable.
        allow_unused: whether a variable that the result does not depend on has the gradient 0 instead
            of causing an error.

    Raises:
        ArgumentError: an entry is not a `Variable` or occurs twice, or none is trainable.
        DTypeError, ShapeError, GradientNotFound: see `grad`.
    """
    check_callable("variable_grads", function)
    allow_unused = flag(allow_unused, "variable_grads", "allow_unused")
    trained = trainable_of(variables, "variable_grads")
    for variable in trained:
        if variable.array.dtype not in _INEXACT:
            raise _no_gradient("variable", variable)
    outer = {v: v.node for v in trained}
    leaves = {v: Leaf((outer[v],)) for v in trained}
    token = watched.set({**(watched.get() or {}), **leaves})
    try:
        value, gradients = _pulled_back(
            "variable_grads", function, (), {}, list(leaves.values()), None
        )
    finally:
        watched.reset(token)
    pairs = list(zip(trained, gradients, strict=True))
    unused = [v.name for v, g in pairs if g is None]
    if unused and not allow_unused:
        raise GradientNotFound(
            f"variable_grads: the result does not depend on variable {unused[0]!r}; pass allow_unused=True for zeros"
        )
    return value, [zeros_like(v) if g is None else g for v, g in pairs]


def trainable_of(variables: Collection[Variable], op: str) -> list[Variable]:
    """Return the variables that are trainable, in their order.

    Raises:
        ArgumentError: an entry is not a `Variable` or occurs twice, or none is trainable.
    """
    given: list[Any] = members(variables) if is_several(variables) else []
    if (
        not given
        or not all(isinstance(v, Variable) for v in given)
        or len({id(v) for v in given}) != len(given)
    ):
        raise ArgumentError(
            f"{op}: give a list of different Variables to differentiate with respect to, as in {op}(f, [w, b])"
        )
    trained = [v for v in given if v.trainable]
    if not trained:
        raise ArgumentError(
            f"{op}: none of the {len(given)} variables is trainable; set trainable=True for at least one"
        )
    return trained


# --- how the transforms work ---------------------------------------------------------------------


Place: TypeAlias = "tuple[Any, Backend]"
"""The array and the backend of a tensor, which it may lose: a program can dispose of it."""
_OR_DY: Final = ", or pass dy=, the gradient with respect to y"


def _pulled_back(
    op: str,
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    leaves: list[Leaf],
    dy: Any,
) -> tuple[Tensor, list[Tensor | None]]:
    """Return the value of a function and the gradient with respect to each leaf."""
    value = _checked_result(function(*args, **kwargs))
    walk = Walk(value.node, leaves)
    constant = _constant(value)
    if dy is None and constant.size != 1:
        raise ShapeError(
            f"{op}: the function returned a tensor of shape {constant.shape}, but a gradient is that of one number; "
            f"return its sum or mean, as in plugrad.mean(y){_OR_DY if op != 'variable_grads' else ''}"
        )
    dy = creation.ones_like(constant) if dy is None else _checked_dy(dy, constant)
    if not walk.is_nested:
        # No outer function is being differentiated: the value becomes a constant, so that keeping it
        # does not keep the tape.
        value = constant
    return value, _walked_back(walk, dy)


def _walked_back(walk: Walk, dy: Any) -> list[Tensor | None]:
    """Return the gradients with respect to the leaves, given the gradient of the result, or those of several results.

    Rules are plain transposes. The gradient for complex numbers, which points in the direction of
    steepest ascent, needs the conjugate transpose. Conjugating what goes in and what comes out turns one
    into the other.
    """
    start = conjugated(dy) if isinstance(dy, Tensor) else map_tree(conjugated, dy)
    gradients = walk.back(start)
    return [None if g is None else conjugated(g) for g in gradients]


def _constant(x: Tensor) -> Tensor:
    """Return a tensor with the array of x that nothing is recorded for."""
    return wrapped(x.array, x.backend)


def _checked_result(value: Any) -> Tensor:
    if not isinstance(value, Tensor):
        raise ArgumentError(
            f"grad: the function must return one tensor, not {type(value).__name__}"
        )
    if value.array.dtype not in _INEXACT:
        raise _no_gradient("the result", value)
    return value


def _checked_dy(dy: Any, value: Tensor) -> Tensor:
    """Return `dy` as a new tensor; it must have the shape and dtype of `value`."""
    if isinstance(dy, Tensor) and dy.backend is value.backend:
        dy = renamed(dy)
    else:
        dtype = None if isinstance(dy, Tensor) else value.dtype
        dy = asarray(dy, dtype=dtype, device=value.backend)
    if dy.array.shape != value.array.shape or dy.dtype is not value.dtype:
        raise ShapeError(
            f"grad: dy is {dy.dtype} of shape {dy.shape}; "
            f"the result is {value.dtype} of shape {value.shape}"
        )
    return dy


def _leaf(x: Any, leaves: list[Leaf], inputs: list[Place]) -> Tensor:
    """Return `x` as a new tensor whose node is a leaf; append the leaf and what it stands for to the lists."""
    if not isinstance(x, Tensor):
        x = asarray(x)
    array = x.array
    backend = x.backend
    if array.dtype not in _INEXACT:
        raise _no_gradient("a differentiated argument", x)
    leaf = Leaf((x.node,))
    leaves.append(leaf)
    inputs.append((array, backend))
    return Tensor(array, backend, leaf)


def _no_gradient(what: str, x: Tensor) -> DTypeError:
    """Return the error for what holds no floats."""
    return DTypeError(
        f"grad: {what} is {x.dtype}, which has no gradient; cast it with astype('float32')"
    )


def _described(
    function: Callable[..., Any], what: str
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def decorate(new: Callable[..., Any]) -> Callable[..., Any]:
        new.__doc__ = f"{what} {getattr(function, '__name__', 'a function')}."
        return new

    return decorate
