"""`plugrad.jit`: a function is traced once for each kind of arguments, and from then on its graph runs."""

from __future__ import annotations

import inspect
import sys
from functools import cached_property, partial, update_wrapper
from itertools import chain, repeat
from threading import RLock
from types import MethodType
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec, TypeVar, cast, overload

import numpy as np

from plugrad.discovery.selection import active_backend
from plugrad.engine.transfer import copy_to_backend
from plugrad.errors import ArgumentError, BackendMismatch, TracingError, short_repr, warn
from plugrad.interruptions import hold_safely
from plugrad.registry.generation import registry_generation
from plugrad.settings.layers import config
from plugrad.tensor.closures import FunctionWrapper, bind_closure
from plugrad.tensor.context import transfer_target
from plugrad.tensor.tensor import Tensor
from plugrad.tensor.tracer import current_tracer
from plugrad.tensor.trees import map_tree
from plugrad.tracing.backend import OtherDeviceUsed
from plugrad.tracing.checked import CheckedProgram
from plugrad.tracing.entry import ENTRY_MISS, compile_entry, miss_entry
from plugrad.tracing.program import Program
from plugrad.tracing.structure import (
    END_OF_CONTAINER_MARKER,
    IdentityKey,
    check_hashable,
    flatten_argument,
)
from plugrad.transforms.variable import Variable
from plugrad.types.arguments import check_callable, check_flag
from plugrad.types.dtype import DType

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    # By its whole name, because the site knows another class of this name.
    import plugrad.graph.graph
    from plugrad.tensor.backend import Backend

ParameterTypes = ParamSpec("ParameterTypes")
ResultType = TypeVar("ResultType")
MANY_TRACES_TO_WARN: Final = 8
"""The number of traces of one function after which a warning says what differs between its calls."""
TENSOR_SLOT: Final = object()
"""The placeholder for a tensor in the arguments that a program keeps."""


@overload
def jit(
    function: Callable[ParameterTypes, ResultType], *, static: Sequence[str] = ()
) -> Jitted[ParameterTypes, ResultType]: ...
@overload
def jit(
    function: None = None, *, static: Sequence[str] = ()
) -> Callable[[Callable[ParameterTypes, ResultType]], Jitted[ParameterTypes, ResultType]]: ...
def jit(function: Any = None, *, static: Sequence[str] = ()) -> Any:
    """Return a function that traces `function` once per kind of arguments and then runs the recorded graph.

    >>> import plugrad
    >>> @plugrad.jit
    ... def step(x, rate):
    ...     return x - rate * plugrad.grad(lambda x: plugrad.sum(x * x))(x)
    >>> step(plugrad.asarray([1.0, 2.0]), 0.25)
    tensor([0.5, 1. ], dtype=float32)

    Arguments and results are nested lists, tuples and dicts. Tensors and NumPy's arrays are inputs. Everything else,
    such as numbers, strings, functions and None, is static: it must be hashable, and the function is traced for each
    value. New shapes and dtypes are traced anew, too.

    While a function is traced, its tensors have no values. Python's `if` on one, and everything else that needs values,
    raises `TracingError`. Tensors that the function closes over are constants. `Variable`s are read at each call, and
    what it assigns to them takes effect when the call has succeeded. Python computes its own values only while it is
    traced, but for random numbers, the optimizers' counters and schedules, and `plugrad.extend.host_value`.

    A call inside another traced function becomes a part of that. `grad` of the returned function runs a backward pass
    that is traced, too.

    Args:
        function: what is traced. Without it, the result is a decorator.
        static: names of arguments that are not part of the graph and are compared by identity, such as arrays that the
            function looks at, or objects that are not hashable.

    Raises:
        ArgumentError: `function` is not callable, or `static` does not name parameters of it; at a call, an argument is
            neither a tensor nor hashable.
        TracingError: at a call, what the function does cannot be recorded.
    """
    if function is None:
        return partial(jit, static=static)
    check_callable("jit", function)
    return Jitted(function, _check_static(function, static))


def _check_static(function: Callable[..., Any], static: Sequence[str]) -> frozenset[str]:
    """Return the names of the static parameters after a check that the function has them."""
    given: Any = (static,) if isinstance(static, str) else static
    if not isinstance(given, tuple | list | set | frozenset):
        raise ArgumentError(
            f"jit: static must be a sequence of names of parameters, not {short_repr(static)}"
        )
    names = cast("Collection[Any]", given)
    known = _parameter_names(function) if names else ()
    for name in names:
        if name not in known:
            raise ArgumentError(
                f"jit: static={short_repr(name)} is not a parameter of {_function_name(function)}, "
                f"which has {list(known)}"
            )
    return frozenset(names)


def _parameter_names(function: Callable[..., Any]) -> tuple[str, ...]:
    try:
        return tuple(inspect.signature(function).parameters)
    except (TypeError, ValueError):  # Python cannot inspect a compiled function
        return ()


def _function_name(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", None) or short_repr(function)


class Jitted(FunctionWrapper, Generic[ParameterTypes, ResultType]):
    """A function that is traced at its first call with arguments of a new kind; see `jit`."""

    def __init__(
        self,
        function: Callable[ParameterTypes, ResultType],
        static: frozenset[str] = frozenset(),
        *,
        keeps_stop_gradients: bool = False,
    ) -> None:
        """Wrap a function; with `keeps_stop_gradients`, its graphs say where no gradient flows."""
        update_wrapper(self, function)
        self.function = function
        self.static = static
        self.keeps_stop_gradients = keeps_stop_gradients
        self._programs: dict[Any, tuple[Program, ...]] = {}
        """By key, of which a program that `holds` is for a call."""
        self._kinds: list[dict[int | str, Any]] = []
        """What each trace was made for: the part of the key by the position or name of the argument."""
        self._lock = hold_safely(RLock())
        self._enter: Callable[[tuple[Any, ...]], Any] = miss_entry
        """The short way into the program that ran last, if it has run twice in a row."""
        self._last: Program | None = None

    def __call__(self, *args: ParameterTypes.args, **kwargs: ParameterTypes.kwargs) -> ResultType:
        """Run the graph of the function for these arguments, which are traced if there is none yet."""
        if not kwargs:
            result = self._enter(args)
            if result is not ENTRY_MISS:
                return result
        if current_tracer() is not None:
            return self.function(*args, **kwargs)
        tensors: list[Tensor] = []
        key = self._make_program_key(args, kwargs, tensors)
        try:
            programs = self._programs.get(key, ())
        except TypeError:
            check_hashable(self._arguments_by_name(args, kwargs))
            raise
        for program in programs:
            if not program.guards or program.is_valid():
                self._compile_repeated_call(program, key[0], args)
                return program(tensors)
        if config.get("jit") == "off":
            return self.function(*args, **kwargs)
        return self._trace(key, tensors, args, kwargs)(tensors)

    def _compile_repeated_call(
        self, program: Program, registry_state: Any, args: tuple[Any, ...]
    ) -> None:
        """Compile an entry for a program that has run twice in a row."""
        if program is not self._last:
            self._last = program
        elif program.entry is None:
            program.entry = compile_entry(program, registry_state, args)
        self._enter = program.entry or miss_entry

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """Return the function as a method of an object, which is a static argument."""
        return self if instance is None else MethodType(self, instance)

    def __reduce__(self) -> Any:
        found: Any = sys.modules.get(getattr(self, "__module__", ""))
        name = str(getattr(self, "__qualname__", ""))
        for part in name.split("."):
            found = getattr(found, part, None)
        if found is self:  # a decorated function, whose name is that of the result
            return name
        return Jitted, (self.function, self.static)

    def __repr__(self) -> str:
        return f"<jit of {_function_name(self.function)}, traced {len(self._kinds)} times>"

    def graph(
        self, *args: ParameterTypes.args, **kwargs: ParameterTypes.kwargs
    ) -> plugrad.graph.graph.Graph:
        """Return the graph for these arguments; the function is traced but not run."""
        return self.program(*args, **kwargs).graph

    def program(self, *args: ParameterTypes.args, **kwargs: ParameterTypes.kwargs) -> Program:
        """Return the program for these arguments; the function is traced but not run."""
        tensors: list[Tensor] = []
        key = self._make_program_key(args, kwargs, tensors)
        try:
            known = self._find_valid_program(key)
        except TypeError:
            check_hashable(self._arguments_by_name(args, kwargs))
            raise
        return known or self._trace(key, tensors, args, kwargs)

    def explain(self, *args: ParameterTypes.args, **kwargs: ParameterTypes.kwargs) -> str:
        """Return why a call with these arguments would trace the function again, or that it would not.

        It compares them with those of the earlier trace from which they differ least.

        >>> import plugrad
        >>> f = plugrad.jit(lambda x, rate: x * rate)
        >>> y = f(plugrad.ones(3), 0.5)
        >>> f.explain(plugrad.ones(3), 0.5)
        'it is not traced again: trace 1 is for these arguments'
        >>> f.explain(plugrad.ones(4), 0.5)
        "it is traced: unlike in trace 1, argument 'x' is [(4,), float32] instead of [(3,), float32]"
        """
        check_hashable(self._arguments_by_name(args, kwargs))
        is_known = self._find_valid_program(self._make_program_key(args, kwargs, [])) is not None
        kind = self._describe_arguments(*self._wrap_static_arguments(args, kwargs))
        if is_known and kind in self._kinds:
            return f"it is not traced again: trace {self._kinds.index(kind) + 1} is for these arguments"
        if not self._kinds:
            return "it is traced: this is the first call"

        def differing_arguments(traced_arguments: dict[int | str, Any]) -> list[int | str]:
            """Return the parts of the arguments' description that differ from those of a trace."""
            return [
                n for n in {**traced_arguments, **kind} if traced_arguments.get(n) != kind.get(n)
            ]

        nearest = min(self._kinds, key=lambda known: len(differing_arguments(known)))
        names: dict[int | str, str] = dict(enumerate(self._parameter_names))
        reasons = [
            f"argument {names.get(n, n)!r} is {_format_argument_kind(kind, n)} "
            f"instead of {_format_argument_kind(nearest, n)}"
            for n in differing_arguments(nearest)
        ]
        where = f"unlike in trace {self._kinds.index(nearest) + 1}"
        return (
            f"it is traced: {where}, {', and '.join(reasons)}"
            if reasons
            else f"it is traced: {where}, a setting, a kernel, a gradient, the device or a static value is another one"
        )

    def _make_program_key(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], tensors: list[Tensor]
    ) -> tuple[Any, ...]:
        """Return the key that selects a graph; append the tensors among the arguments to a list."""
        key: list[Any] = [registry_generation()]
        if self.static:
            args, kwargs = self._wrap_static_arguments(args, kwargs)
        for argument in args:
            if type(argument) is Tensor:  # as `flatten_argument` does, without the call
                array = argument.array
                key += array.shape, array.dtype
                tensors.append(argument)
            else:
                flatten_argument(argument, key, tensors)
        if kwargs:
            for name in sorted(kwargs):
                key.append(name)
                flatten_argument(kwargs[name], key, tensors)
        target = transfer_target()
        if target is not None:
            tensors[:] = [copy_to_backend(x, target) for x in tensors]
        elif tensors:
            target = tensors[0].backend
            for x in tensors:
                if x.backend is not target:
                    raise _devices_differ_error(tensors)
        else:
            target = active_backend()
        key.append(target)
        return tuple(key)

    def _find_valid_program(self, key: Any) -> Program | None:
        """Return a program for a key that is still valid, or None."""
        return next((p for p in self._programs.get(key, ()) if p.is_valid()), None)

    def _trace(
        self, key: Any, tensors: list[Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Program:
        """Trace the function for a new kind of arguments."""
        with self._lock:
            known = self._find_valid_program(key)
            if known is not None:
                return known
            name = _function_name(self.function)
            function = self._bind_non_tensor_arguments(
                args, dict(sorted(kwargs.items()))
            )  # as in the key
            backend: Backend = key[-1]
            make = partial(
                CheckedProgram if config.get("debug") else Program,
                keeps_stop_gradients=self.keeps_stop_gradients,
            )
            try:
                program = make(name, function, tensors, backend, may_move=not tensors)
            except OtherDeviceUsed as elsewhere:
                program = make(name, function, tensors, elsewhere.backend)
            self._programs[key] = (*self._programs.get(key, ()), program)
            self._record_trace_arguments(*self._wrap_static_arguments(args, kwargs))
            return program

    def _bind_non_tensor_arguments(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Callable[[list[Tensor]], Any]:
        """Return a function of the list of tensor arguments, with all other arguments fixed."""
        template = map_tree(_replace_tensor_by_slot, self._wrap_static_arguments(args, kwargs))
        name = _function_name(self.function)
        # The gradient traces the function again, which may then close over other values.
        functions: Iterator[Callable[..., Any]] = chain(
            [self.function], repeat(bind_closure(self.function))
        )
        # Not `self`, which holds the program: without a cycle, a program that is dropped is freed at once.
        static, names = self.static, self._parameter_names if self.static else ()

        def call_with_tensors(tensors: list[Tensor]) -> Any:
            remaining = iter(tensors)
            given, named = map_tree(lambda leaf: _fill_tensor_slot(leaf, remaining), template)
            args, kwargs = _wrap_static_arguments(given, named, static, names)
            before: list[Any] = []
            flatten_argument([*args, kwargs], before, before)
            result = next(functions)(*given, **named)
            after: list[Any] = []
            flatten_argument([*args, kwargs], after, after)
            # Tensors are the same objects; to compare others would need their values.
            if len(before) != len(after) or any(
                a is not b and (isinstance(a, Tensor) or a != b)
                for a, b in zip(before, after, strict=True)
            ):
                raise TracingError(
                    f"jit: {name} changes a list or dict among its arguments, which the caller's would not show; "
                    "return the new value instead"
                )
            return result

        return call_with_tensors

    def _wrap_static_arguments(
        self, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """Return the arguments with the static ones wrapped as `IdentityKey`."""
        if not self.static:
            return args, kwargs
        return _wrap_static_arguments(args, kwargs, self.static, self._parameter_names)

    @cached_property
    def _parameter_names(self) -> tuple[str, ...]:
        """The names of the function's parameters, or nothing if Python cannot inspect it."""
        return _parameter_names(self.function)

    def _arguments_by_name(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return a call's arguments by parameter name, with the static ones wrapped."""
        args, kwargs = self._wrap_static_arguments(args, kwargs)
        names = [
            *self._parameter_names[: len(args)],
            *map(str, range(len(self._parameter_names), len(args))),
        ]
        return {**dict(zip(names, args, strict=True)), **kwargs}

    def _describe_arguments(
        self, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> dict[int | str, Any]:
        """Return the key's parts by argument name or position."""
        kind: dict[int | str, Any] = {}
        for place, value in (*enumerate(args), *kwargs.items()):
            parts: list[Any] = []
            flatten_argument(value, parts, [])
            kind[place] = tuple(parts)
        return kind

    def _record_trace_arguments(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Remember the arguments of a trace, and warn once if there have been many traces."""
        kind = self._describe_arguments(args, kwargs)
        self._kinds.append(kind)
        if len(self._kinds) == MANY_TRACES_TO_WARN + 1:
            changing = [
                place
                for place in kind
                if len({known.get(place) for known in self._kinds}) > MANY_TRACES_TO_WARN // 2
            ]
            what, last = "the arguments or settings differ", ""
            if changing:
                place = changing[0]
                name = (
                    place
                    if isinstance(place, str)
                    else [*self._arguments_by_name(args, kwargs)][place]
                )
                what, last = (
                    f"argument {name!r} differs",
                    short_repr(_drop_end_markers(kind[place])),
                )
            warn(
                f"jit: {_function_name(self.function)} has been traced {MANY_TRACES_TO_WARN + 1} times, because {what} "
                f"from call to call{f' (now {last})' if last else ''}. Pass a number that changes as a tensor, "
                "plugrad.asarray(x), and pad tensors whose shape changes to a fixed size"
            )


def _wrap_static_arguments(
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    static: Collection[str],
    parameter_names: Sequence[str],
) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """Return arguments with those named in `static` wrapped as `IdentityKey`."""
    if not static:
        return args, kwargs
    wrapped = [
        IdentityKey(x) if i < len(parameter_names) and parameter_names[i] in static else x
        for i, x in enumerate(args)
    ]
    return wrapped, {name: IdentityKey(x) if name in static else x for name, x in kwargs.items()}


def _drop_end_markers(key_parts: tuple[Any, ...]) -> list[Any]:
    """Return the parts of a key without the types of containers and the markers of their ends."""
    return [
        part
        for part in key_parts
        if part is not END_OF_CONTAINER_MARKER and not isinstance(part, type)
    ]


def _format_argument_kind(
    key_parts_of_argument: Mapping[int | str, Any], argument: int | str
) -> str:
    """Format the shapes, dtypes and static values of one of several arguments as text."""
    if argument not in key_parts_of_argument:
        return "absent"
    return (
        f"[{', '.join(map(_format_key_part, _drop_end_markers(key_parts_of_argument[argument])))}]"
    )


def _format_key_part(key_part: Any) -> str:
    """Format a part of a key as text."""
    key_part = key_part.target if isinstance(key_part, IdentityKey) else key_part
    is_dtype = isinstance(key_part, DType | np.dtype)
    return str(key_part) if is_dtype or isinstance(key_part, str) else short_repr(key_part)


def _replace_tensor_by_slot(leaf: Any) -> Any:
    """Return `TENSOR_SLOT` for a tensor or array, and a static argument without its `IdentityKey`."""
    if isinstance(leaf, Tensor | np.ndarray | np.generic) and not isinstance(leaf, Variable):
        return TENSOR_SLOT
    return leaf.target if isinstance(leaf, IdentityKey) else leaf


def _fill_tensor_slot(leaf: Any, tensors: Iterator[Tensor]) -> Any:
    """Return the next tensor for a slot; return any other leaf unchanged."""
    return next(tensors) if leaf is TENSOR_SLOT else leaf


def _devices_differ_error(tensors: Sequence[Tensor]) -> BackendMismatch:
    """Return the error for tensors on different devices."""
    places = list(dict.fromkeys(x.backend.label for x in tensors))
    return BackendMismatch(
        f"jit: the tensors among the arguments live on {' and '.join(places)}; move one of them, as in "
        f"x.to({places[0]!r}), or call inside plugrad.use({places[0]!r}, transfer=True)"
    )


def make_graph(
    function: Callable[..., Any], *, fused: bool = False, differentiable: bool = False
) -> Callable[..., plugrad.graph.graph.Graph]:
    """Return a function that returns the graph `jit` would run for the arguments of `function`.

    >>> import plugrad
    >>> print(plugrad.make_graph(lambda x: plugrad.sum(x * 2))(plugrad.asarray([1.0, 2.0])))
    graph on cpu:0 (%0: float32[2])
      %1 = constant 2.0  float32[]
      %2 = Multiply(%0, %1)  float32[2]
      %3 = Sum(%2, axis=(0,), keep_dims=False)  float32[]
    return %3

    Args:
        function: what is traced.
        fused: whether the steps that the device runs as one are one step, and the peak of the memory is planned.
        differentiable: whether `stop_gradient` is a step, so that a program which is made of the graph has the
            gradient of the function; running it needs no such step.

    Raises:
        ArgumentError, TracingError: see `jit`.
    """
    fused = check_flag(fused, "make_graph", "fused")
    check_callable("make_graph", function)
    differentiable = check_flag(differentiable, "make_graph", "differentiable")
    jitted: Jitted[..., Any] = function if isinstance(function, Jitted) else Jitted(function)  # pyright: ignore[reportUnknownVariableType]
    if differentiable:
        jitted = Jitted(jitted.function, jitted.static, keeps_stop_gradients=True)

    def make_fused_graph(*args: Any, **kwargs: Any) -> plugrad.graph.graph.Graph:
        return jitted.program(*args, **kwargs).planned_graph()

    return make_fused_graph if fused else jitted.graph
