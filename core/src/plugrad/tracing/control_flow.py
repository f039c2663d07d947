"""Loops and choices: plain Python while nothing is traced, one step of the graph while a function is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import numpy as np

from plugrad.engine.transfer import copy_to_backend
from plugrad.errors import (
    ArgumentError,
    ArgumentValueError,
    DTypeError,
    GradientNotFound,
    ShapeError,
    TracingError,
    short_repr,
)
from plugrad.graph.graph import Cond, Graph, HostValue, Scan, While
from plugrad.ops.attributes import check_flag, check_integer
from plugrad.ops.creation import asarray, zeros, zeros_like
from plugrad.ops.movement import stack, unstack
from plugrad.passes.dead import has_effect, remove_dead_steps
from plugrad.tape.nodes import Bundle, InputGradients, Leaf, Node, Part, Step
from plugrad.tape.tape import BackwardPass
from plugrad.tensor.tensor import Tensor
from plugrad.tensor.tracer import current_tracer
from plugrad.tensor.trees import iter_leaves, iter_tensors, map_tree
from plugrad.tracing.backend import GraphTracer
from plugrad.tracing.body import BodyTracer, Captured, Key
from plugrad.tracing.lines import user_line
from plugrad.tracing.program import tracing_with
from plugrad.types.arguments import check_callable
from plugrad.types.dtype import bool_
from plugrad.types.specs import Shaped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

Carry = TypeVar("Carry")
Result = TypeVar("Result")


def scan(
    function: Callable[[Carry, Any], tuple[Carry, Any]],
    init: Carry,
    xs: Any = None,
    length: int | None = None,
    *,
    reverse: bool = False,
) -> tuple[Carry, Any]:
    """Return the last carry of a loop, and what each round returns, stacked.

    >>> import plugrad
    >>> def add(total, x):
    ...     return total + x, total
    >>> plugrad.scan(add, plugrad.asarray(0.0), plugrad.asarray([1.0, 2.0, 3.0]))
    (tensor(6., dtype=float32), tensor([0., 1., 3.], dtype=float32))

    Each round calls ``function(carry, x)``, where `x` is the next slice of `xs` along its first axis. It returns the
    next carry and a result. Carry, slices and results are nested lists, tuples and dicts of tensors; None is an
    empty one. The carry keeps its structure, shapes and dtypes.

    While a function is traced with `jit`, the loop is one step of the graph, and `function` is traced once. The
    gradient keeps the carry of each round and computes everything else again.

    Args:
        function: what each round computes.
        init: the first carry.
        xs: tensors with equally long first axes, or None.
        length: the number of rounds; it is needed only without `xs`.
        reverse: whether the last slice comes first; results are stacked in the order of `xs` all the same.

    Raises:
        ArgumentError: `function` is not callable or does not return a pair, or neither `xs` nor `length` is given.
        ArgumentValueError: the first axes and `length` differ.
        ShapeError, DTypeError: the carry changes.
    """
    check_callable("scan", function)
    reverse = check_flag(reverse, "scan", "reverse")
    init, xs = map_tree(_as_tensor, init), map_tree(_as_tensor, xs)
    count = _count_rounds(xs, length)
    tracer = current_tracer()
    if isinstance(tracer, GraphTracer):
        return _scan_traced(tracer, function, init, xs, count, reverse)
    columns = [unstack(x) for x in iter_tensors(xs)] if count else []
    carry: Any = init
    results: list[Any] = [None] * count
    for index in range(count - 1, -1, -1) if reverse else range(count):
        slices = iter([column[index] for column in columns])
        x = map_tree(lambda leaf: _next_or(slices, leaf), xs)  # noqa: B023 - it is called at once
        carry, results[index] = _checked_round(function(carry, x), init)
    if not count:
        return carry, _empty_results(function, init, xs)
    columns = zip(*[list(iter_tensors(result)) for result in results], strict=True)
    stacked = iter([stack(column) for column in columns])
    return carry, map_tree(lambda leaf: _next_or(stacked, leaf), results[0])


def cond(
    flag: Tensor | bool, yes: Callable[..., Result], no: Callable[..., Result], *args: Any
) -> Result:
    """Return ``yes(*args)`` if a flag is true, otherwise ``no(*args)``.

    >>> import plugrad
    >>> halve = plugrad.jit(
    ...     lambda x: plugrad.cond(plugrad.sum(x) > 1, lambda x: x / 2, lambda x: x, x)
    ... )
    >>> halve(plugrad.asarray([1.0, 3.0])), halve(plugrad.asarray([0.25, 0.5]))
    (tensor([0.5, 1.5], dtype=float32), tensor([0.25, 0.5 ], dtype=float32))

    While a function is traced, both functions are traced, and the graph chooses one of them at each call. Their
    results must have the same structure, shapes and dtypes. Gradients flow through the function that is chosen.

    Args:
        flag: a bool, or a bool tensor with one element.
        yes: what is called if the flag is true.
        no: what is called if it is false.
        args: the arguments of both: nested lists, tuples and dicts of tensors.

    Raises:
        ArgumentError: `yes` or `no` is not callable, or their results differ in their structure.
        ShapeError, DTypeError: the flag is not one bool, or the results differ.
    """
    check_callable("cond", yes)
    check_callable("cond", no)
    tracer = current_tracer()
    if not isinstance(flag, Tensor) or not isinstance(tracer, GraphTracer):
        return (yes if _read_flag(flag) else no)(*args)
    _check_flag_spec(flag, "cond")
    return _cond_traced(tracer, flag, yes, no, map_tree(_as_tensor, args))


def while_loop(
    go_on: Callable[[Carry], Any], function: Callable[[Carry], Carry], init: Carry
) -> Carry:
    """Return the last carry of a loop that runs as long as ``go_on(carry)`` is true.

    >>> import plugrad
    >>> plugrad.while_loop(lambda x: x < 100, lambda x: x * 2, plugrad.asarray(3))
    tensor(192, dtype=int32)

    The carry is a nested list, tuple or dict of tensors, and keeps its structure, shapes and dtypes. While a function
    is traced, the loop is one step of the graph. It then has no gradient, because the number of rounds is not known
    before it runs; use `scan` for loops that are differentiated.

    Args:
        go_on: returns a bool, or a bool tensor with one element.
        function: returns the next carry.
        init: the first carry.

    Raises:
        ArgumentError: a function is not callable, or the carry changes its structure.
        ShapeError, DTypeError: the carry changes, or `go_on` does not return one bool.
        GradientNotFound: a traced loop is differentiated.
    """
    check_callable("while_loop", go_on)
    check_callable("while_loop", function)
    carry: Any = map_tree(_as_tensor, init)
    tracer = current_tracer()
    if isinstance(tracer, GraphTracer):
        return _while_traced(tracer, go_on, function, carry)
    while _read_flag(go_on(carry)):
        carry = _checked_carry("while_loop", function(carry), carry)
    return carry


# --- arguments -----------------------------------------------------------------------------------


def _as_tensor(leaf: Any) -> Any:
    return leaf if leaf is None or isinstance(leaf, Tensor) else asarray(leaf)


def _next_or(tensors: Any, leaf: Any) -> Any:
    """Return the next tensor in the place of a leaf; None stays."""
    return None if leaf is None else next(tensors)


def _count_rounds(xs: Any, length: int | None) -> int:
    sizes = {x.shape[0] if x.shape else None for x in iter_tensors(xs)}
    if length is not None:
        sizes.add(check_integer(length, "scan", "length", least=0))
    if not sizes:
        raise ArgumentError("scan: give xs, or length, the number of rounds")
    if len(sizes) > 1 or None in sizes:
        shapes = [x.shape for x in iter_tensors(xs)]
        raise ArgumentValueError(
            f"scan: the first axes of xs, of shapes {shapes}, and length={length} must be equally long; each round "
            "gets a slice along the first axis"
        )
    return cast("int", sizes.pop())


def _checked_round(result: Any, init: Any) -> tuple[Any, Any]:
    if not isinstance(result, tuple) or len(cast("tuple[Any, ...]", result)) != 2:
        raise ArgumentError(
            f"scan: the function returned {short_repr(result)}; it must return a pair: the next carry, and a result "
            "or None"
        )
    carry, y = cast("tuple[Any, Any]", result)
    return _checked_carry("scan", carry, init), map_tree(_as_tensor, y)


def _checked_carry(op: str, carry: Any, before: Any) -> Any:
    """Return a carry of tensors.

    Raises:
        ArgumentError, ShapeError, DTypeError: it is not like the one before.
    """
    carry = map_tree(_as_tensor, carry)
    if _structure(carry) != _structure(before):
        raise ArgumentError(
            f"{op}: the carry was {_structure(before)} and became {_structure(carry)}; it must keep its structure"
        )
    for x, y in zip(iter_tensors(before), iter_tensors(carry), strict=True):
        if x.shape != y.shape:
            raise ShapeError(
                f"{op}: a part of the carry had shape {x.shape} and got {y.shape}; it must keep it"
            )
        if x.dtype is not y.dtype:
            raise DTypeError(
                f"{op}: a part of the carry was {x.dtype} and became {y.dtype}; cast it with astype, or begin with "
                f"{y.dtype}"
            )
    return carry


def _structure(tree: Any) -> str:
    """Return the structure of a tree as text, in which * is a tensor."""
    return str(map_tree(lambda leaf: _STAR if isinstance(leaf, Tensor) else leaf, tree))


class _Star:
    def __repr__(self) -> str:
        return "*"


_STAR: Final = _Star()


def _read_flag(flag: Any) -> bool:
    if isinstance(flag, Tensor):
        _check_flag_spec(flag, "cond")
    elif not isinstance(flag, bool | np.bool_):
        raise ArgumentError(
            f"cond: the flag is {short_repr(flag)}; it must be a bool, or a bool tensor with one element"
        )
    return bool(flag)


def _check_flag_spec(flag: Tensor, op: str) -> None:
    if flag.dtype is not bool_:
        raise DTypeError(f"{op}: the flag is {flag.dtype}; it must be bool, as a comparison is")
    if flag.size != 1:
        raise ShapeError(
            f"{op}: the flag has shape {flag.shape}; it must have one element, as plugrad.all(x) has"
        )


def _empty_results(function: Callable[..., Any], init: Any, xs: Any) -> Any:
    """Return stacked results of no round, whose shapes the function tells when it is traced."""
    backend = next(iter_tensors((init, xs))).backend
    tracer = GraphTracer(backend)
    with tracing_with(tracer):
        carry = map_tree(lambda x: _stand_in(tracer, x, None if x is None else x.shape), init)
        x = map_tree(lambda x: _stand_in(tracer, x, None if x is None else x.shape[1:]), xs)
        _, results = _checked_round(function(carry, x), init)
    return map_tree(
        lambda y: None if y is None else zeros((0, *y.shape), dtype=y.dtype, device=backend),
        results,
    )


def _stand_in(tracer: GraphTracer, x: Any, shape: Any) -> Any:
    return None if x is None else Tensor(tracer.new_value(Shaped(shape, x.dtype)), tracer)


# --- traced --------------------------------------------------------------------------------------


class _Body:
    """A function of nested tensors, traced as a part of a traced function."""

    def __init__(
        self,
        tracer: GraphTracer,
        function: Callable[..., Any],
        trees: Sequence[Any],
        specs: Iterable[Shaped],
    ) -> None:
        """Trace the function for arguments of the structures and specs."""
        self.tracer = body = BodyTracer(tracer)
        self.arguments = [body.new_value(spec) for spec in specs]
        with tracing_with(body):
            remaining = iter([Tensor(array, body) for array in self.arguments])
            given = [map_tree(lambda leaf: _next_or(remaining, leaf), tree) for tree in trees]
            self.tree = map_tree(lambda x: _as_traced(x, body), function(*given))
        self.results = [x.array for x in iter_tensors(self.tree)]

    @property
    def captured(self) -> dict[Key, Captured]:
        """What the function closes over."""
        return self.tracer.captured

    @property
    def hosts(self) -> list[int]:
        """The host values, in their order.

        Raises:
            TracingError: there are some in a loop inside.
        """
        steps = self.tracer.steps
        if any(has_effect(step) and not isinstance(step, HostValue) for step in steps):
            raise TracingError(
                f"random numbers are drawn in a loop inside a loop that is differentiated, at {user_line()}; draw "
                "them before the outer loop, and hand them over in xs"
            )
        return [step.outputs[0] for step in steps if isinstance(step, HostValue)]

    def graph(self, captured: Iterable[tuple[Key, Captured]], more: Sequence[int] = ()) -> Graph:
        """Return the graph: its arguments are those of the function, then the captured values."""
        body = self.tracer
        inner = [
            (
                body.captured[key].inner if key in body.captured else body.new_value(_spec(c.outer))
            ).value
            for key, c in captured
        ]
        arguments = [*[x.value for x in self.arguments], *inner]
        results = [*[x.value for x in self.results], *more]
        return remove_dead_steps(body.finish(arguments, results))


def _as_traced(x: Any, tracer: GraphTracer) -> Any:
    if x is None:
        return None
    y = copy_to_backend(_as_tensor(x), tracer)
    return Tensor(y.array, tracer)


def _spec(x: Tensor) -> Shaped:
    return Shaped(x.shape, x.dtype)


def _leaves_of(tree: Any, tracer: GraphTracer) -> list[Tensor]:
    return [copy_to_backend(x, tracer) for x in iter_tensors(tree)]


def _outputs(tracer: GraphTracer, specs: Iterable[Shaped]) -> list[Tensor]:
    return [Tensor(tracer.new_value(spec), tracer) for spec in specs]


def _values(tensors: Iterable[Tensor]) -> tuple[int, ...]:
    return tuple([x.array.value for x in tensors])


def _record(outputs: Sequence[Tensor], step: Step) -> None:
    """Give the outputs of a step, as far as they are inexact, their nodes."""
    for index, x in enumerate(outputs):
        if x.dtype.is_inexact:
            x.node = Part(step, index)


def _scan_traced(
    tracer: GraphTracer,
    function: Callable[..., Any],
    init: Any,
    xs: Any,
    length: int,
    reverse: bool,
) -> tuple[Any, Any]:
    carry, slices = _leaves_of(init, tracer), _leaves_of(xs, tracer)
    inner = [*map(_spec, carry), *[Shaped(x.shape[1:], x.dtype) for x in slices]]
    body = _Body(tracer, lambda c, x: _checked_round(function(c, x), c), (init, xs), inner)
    captured = list(body.captured.items())
    inputs = [*carry, *slices, *[c.outer for _, c in captured]]
    is_recorded = any(x.node is not None for x in inputs)
    hosts = body.hosts if is_recorded else []
    kept = [*[x.value for x in body.arguments[: len(carry)]], *hosts] if is_recorded else []
    graph = body.graph(captured, kept)
    found = [graph.specs[value] for value in graph.results]
    count = len(carry)
    outputs = _outputs(
        tracer, [*found[:count], *[Shaped((length, *s.shape), s.dtype) for s in found[count:]]]
    )
    tracer.steps.append(
        Scan(
            graph,
            length,
            _values(carry),
            _values(slices),
            _values(inputs[count + len(slices) :]),
            _values(outputs),
            reverse,
            user_line(),
        )
    )
    visible = outputs[: len(outputs) - len(kept)]
    if is_recorded:
        step = _ScanCall(
            tracer, function, (init, xs), (length, reverse), inputs, captured, outputs, len(hosts)
        )
        _record(outputs, step)
    remaining = iter(visible)
    return map_tree(lambda leaf: _next_or(remaining, leaf), body.tree)


class _ScanCall(Step):
    """A traced loop on the tape: its gradient is a loop in the other direction."""

    __slots__ = (
        "bindings",
        "captured",
        "direction",
        "function",
        "hosts",
        "inputs",
        "outputs",
        "tracer",
        "trees",
    )

    def __init__(
        self,
        tracer: GraphTracer,
        function: Callable[..., Any],
        trees: tuple[Any, Any],
        direction: tuple[int, bool],
        inputs: Sequence[Tensor],
        captured: Sequence[tuple[Key, Captured]],
        outputs: Sequence[Tensor],
        hosts: int,
    ) -> None:
        """Keep the inputs and outputs as arrays; the outputs end with the carries and the host values."""
        super().__init__(tuple([x.node for x in inputs]))
        self.tracer = tracer
        self.bindings = tracer.bindings
        self.function = function
        self.trees = tuple(map_tree(_as_mark, tree) for tree in trees)
        self.direction = direction
        self.inputs = [(x.array, x.backend) for x in inputs]
        self.captured = captured
        self.outputs = [(x.array, x.backend) for x in outputs]
        self.hosts = hosts

    def pull(self, dy: Any, wanted: Sequence[bool] | None, linked: bool) -> InputGradients:
        """Run the loop backwards: each round runs forward from its carry, and then back."""
        length, is_reversed = self.direction
        inputs = [
            Tensor(array, backend, node if linked else None)
            for (array, backend), node in zip(self.inputs, self.parents, strict=True)
        ]
        chosen = [
            node is not None and (wanted is None or wanted[i]) and inputs[i].dtype.is_inexact
            for i, node in enumerate(self.parents)
        ]
        outputs = [
            Tensor(array, backend, Part(self, i) if linked else None)
            for i, (array, backend) in enumerate(self.outputs)
        ]
        count = sum(1 for _ in iter_marks(self.trees[0]))
        slices = sum(1 for _ in iter_marks(self.trees[1]))
        end = len(outputs) - count - self.hosts
        carries, hosts = outputs[end : end + count], outputs[end + count :]
        moving = [i for i in range(count) if inputs[i].dtype.is_inexact]
        given = [i for i in range(count, end + count) if i in dy]
        sliced = [i for i in range(count, count + slices) if chosen[i]]
        shared = [i for i in range(count + slices, len(inputs)) if chosen[i]]

        def back(state: Any, x: Any) -> Any:
            tracer = current_tracer()
            assert isinstance(tracer, BodyTracer)
            d_carry, total = state
            now, parts, d_results, drawn = x
            leaves: list[Leaf] = []

            def leaf(x: Tensor) -> Tensor:
                leaves.append(Leaf((x.node,)))
                return Tensor(x.array, x.backend, leaves[-1])

            now = [leaf(x) if i in moving else x for i, x in enumerate(now)]
            parts = [leaf(x) if i in sliced else x for i, x in enumerate(parts, count)]
            bound: list[tuple[Key, Captured, Tensor]] = []
            for i in shared:
                key, c = self.captured[i - count - slices]
                bound.append((key, c, leaf(copy_to_backend(inputs[i], tracer))))
            with tracer.binding(bound, drawn):
                remaining = iter([*now, *parts])
                c, y = (map_tree(lambda m: _fill_mark(m, remaining), tree) for tree in self.trees)
                result = _checked_round(self.function(c, y), c)
                found = [*_leaves_of(result, tracer), *now]
                ends = tuple([found[i].node for i in (*moving, *given)])
                pulled = BackwardPass(Bundle(ends), leaves).run([*d_carry, *d_results])
            sources = [*[now[i] for i in moving], *[parts[i - count] for i in sliced]]
            sources += [x for _, _, x in bound]
            pulled = [_or_zeros(g, x) for g, x in zip(pulled, sources, strict=True)]
            n, m = len(moving), len(moving) + len(sliced)
            total = [a + b for a, b in zip(total, pulled[m:], strict=True)]
            return (pulled[:n], total), pulled[n:m]

        start = [dy[i] if i in dy else zeros_like(_constant(inputs[i])) for i in moving]
        none = [zeros_like(_constant(inputs[i])) for i in shared]
        each = (carries, inputs[count : count + slices], [dy[i] for i in given], hosts)
        with self.tracer.rebound(self.bindings):
            (first, total), columns = scan(
                back, (start, none), each, length, reverse=not is_reversed
            )
        pairs = [*zip(moving, first, strict=True), *zip(sliced, columns, strict=True)]
        return [(i, g) for i, g in (*pairs, *zip(shared, total, strict=True)) if chosen[i]]


def _constant(x: Tensor) -> Tensor:
    return Tensor(x.array, x.backend)


def _or_zeros(gradient: Tensor | None, x: Tensor) -> Tensor:
    return zeros_like(_constant(x)) if gradient is None else gradient


def _as_mark(leaf: Any) -> Any:
    return None if leaf is None else _STAR


def iter_marks(tree: Any) -> Iterable[Any]:
    """Yield the places of tensors in a structure."""
    return (leaf for leaf in iter_leaves(tree) if leaf is _STAR)


def _fill_mark(leaf: Any, tensors: Any) -> Any:
    return next(tensors) if leaf is _STAR else leaf


def _cond_traced(
    tracer: GraphTracer, flag: Tensor, yes: Callable[..., Any], no: Callable[..., Any], args: Any
) -> Any:
    flag = copy_to_backend(flag, tracer)
    given = _leaves_of(args, tracer)
    bodies = [_Body(tracer, f, args, map(_spec, given)) for f in (yes, no)]
    first, second = bodies
    if _structure(first.tree) != _structure(second.tree):
        raise ArgumentError(
            f"cond: the functions return {_structure(first.tree)} and {_structure(second.tree)}; both must return "
            "the same structure of tensors"
        )
    for x, y in zip(first.results, second.results, strict=True):
        if (x.shape, x.dtype) != (y.shape, y.dtype):
            error = ShapeError if x.shape != y.shape else DTypeError
            raise error(
                f"cond: the functions return {x.dtype} of shape {x.shape} and {y.dtype} of shape {y.shape}; both "
                "results must have the same shape and dtype"
            )
    captured = {**first.captured, **second.captured}
    operands = [*given, *[c.outer for c in captured.values()]]
    graphs = (first.graph(captured.items()), second.graph(captured.items()))
    outputs = _outputs(tracer, [Shaped(x.shape, x.dtype) for x in first.results])
    tracer.steps.append(
        Cond(flag.array.value, graphs, _values(operands), _values(outputs), user_line())
    )
    if any(x.node is not None for x in operands):
        if first.hosts or second.hosts:
            raise TracingError(
                f"random numbers are drawn in a function of cond that is differentiated, at {user_line()}; draw them "
                "before it, and hand them over as an argument"
            )
        functions = (yes, no)
        _record(
            outputs,
            _CondCall(tracer, flag, functions, map_tree(_as_mark, args), operands, captured),
        )
    remaining = iter(outputs)
    return map_tree(lambda leaf: _next_or(remaining, leaf), first.tree)


class _CondCall(Step):
    """A traced choice on the tape: its gradient is a choice between two gradients."""

    __slots__ = ("args", "bindings", "captured", "flag", "functions", "operands", "tracer")

    def __init__(
        self,
        tracer: GraphTracer,
        flag: Tensor,
        functions: tuple[Callable[..., Any], Callable[..., Any]],
        args: Any,
        operands: Sequence[Tensor],
        captured: dict[Key, Captured],
    ) -> None:
        """Keep the flag and the operands as arrays."""
        super().__init__(tuple([x.node for x in operands]))
        self.tracer = tracer
        self.bindings = tracer.bindings
        self.flag = _constant(flag)
        self.functions = functions
        self.args = args
        self.operands = [(x.array, x.backend) for x in operands]
        self.captured = list(captured.items())

    def pull(self, dy: Any, wanted: Sequence[bool] | None, linked: bool) -> InputGradients:
        """Choose the gradient of the function that was chosen."""
        operands = [
            Tensor(array, backend, node if linked else None)
            for (array, backend), node in zip(self.operands, self.parents, strict=True)
        ]
        chosen = [
            i
            for i, node in enumerate(self.parents)
            if node is not None and (wanted is None or wanted[i]) and operands[i].dtype.is_inexact
        ]
        given: list[int] = sorted(dy)

        def gradient_of(function: Callable[..., Any]) -> Callable[..., list[Tensor]]:
            def back(operands: list[Tensor], cotangents: list[Tensor]) -> list[Tensor]:
                tracer = current_tracer()
                assert isinstance(tracer, BodyTracer)
                leaves: dict[int, Leaf] = {i: Leaf((operands[i].node,)) for i in chosen}
                xs = [
                    Tensor(x.array, x.backend, leaves.get(i, x.node))
                    for i, x in enumerate(operands)
                ]
                count = len(xs) - len(self.captured)
                bound = [
                    (key, c, x)
                    for (key, c), x in zip(self.captured, xs[count:], strict=True)
                    if c.outer.node is not None
                ]
                with tracer.binding(bound, ()):
                    remaining = iter(xs[:count])
                    results: Any = function(
                        *map_tree(lambda m: _fill_mark(m, remaining), self.args)
                    )
                    found = _leaves_of(map_tree(_as_tensor, results), tracer)
                    ends = Bundle(tuple([found[i].node for i in given]))
                    pulled = BackwardPass(ends, list(leaves.values())).run(cotangents)
                return [_or_zeros(g, xs[i]) for i, g in zip(leaves, pulled, strict=True)]

            return back

        yes, no = map(gradient_of, self.functions)
        with self.tracer.rebound(self.bindings):
            gradients = cond(self.flag, yes, no, operands, [dy[i] for i in given])
        return list(zip(chosen, gradients, strict=True))


def _while_traced(
    tracer: GraphTracer, go_on: Callable[..., Any], function: Callable[..., Any], init: Any
) -> Any:
    carry = _leaves_of(init, tracer)
    specs = [*map(_spec, carry)]
    test = _Body(tracer, go_on, (init,), specs)
    if len(test.results) != 1:
        raise ArgumentError(
            "while_loop: go_on must return one bool, or a bool tensor with one element"
        )
    _check_flag_spec(Tensor(test.results[0], test.tracer), "while_loop")
    body = _Body(tracer, lambda c: _checked_carry("while_loop", function(c), c), (init,), specs)
    captured = {**test.captured, **body.captured}
    graphs = (test.graph(captured.items()), body.graph(captured.items()))
    shared = [c.outer for c in captured.values()]
    outputs = _outputs(tracer, specs)
    tracer.steps.append(
        While(*graphs, _values(carry), _values(shared), _values(outputs), user_line())
    )
    nodes: tuple[Node | None, ...] = tuple([x.node for x in (*carry, *shared)])
    if any(nodes):
        _record(outputs, _WhileCall(nodes))
    remaining = iter(outputs)
    return map_tree(lambda leaf: _next_or(remaining, leaf), init)


class _WhileCall(Step):
    """A traced loop of unknown length on the tape."""

    __slots__ = ()

    def pull(self, dy: Any, wanted: Sequence[bool] | None, linked: bool) -> InputGradients:
        """Raise.

        Raises:
            GradientNotFound: always.
        """
        raise GradientNotFound(
            "while_loop: a traced loop has no gradient, because the number of its rounds is not known before it "
            "runs; use scan, whose number of rounds is fixed"
        )
