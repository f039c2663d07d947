"""The replay of a graph: straight-line Python that calls a device's implementations, with nothing in between.

The text has one line for each step, and local variables for the values. Each is deleted after its last use. When a
graph runs for the second time, the device may bring functions for the shapes at hand; see `Backend.specialize`.
"""

from __future__ import annotations

import linecache
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from plugrad.engine.explain import explain_failure
from plugrad.engine.implementations import active_functions
from plugrad.engine.watching import with_watchers_of_fused_steps
from plugrad.errors import PlugradError
from plugrad.graph.graph import Call, Fused, Graph, HostValue, Step, Value
from plugrad.tensor.backend import Backend
from plugrad.tracing.loops import compile_loop

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence
    from types import CodeType

    from plugrad.tensor.backend import Implementation

_next_source_number: Final = count()
"""Gives each compiled source a number of its own, by `next`, for its pseudo file name."""


@lru_cache(1024)
def _compile_source(text: str) -> tuple[CodeType, str]:
    """Compile source text; return the code object and its pseudo file name.

    Graphs of one function for different shapes mostly have the same text.
    """
    file = f"<plugrad: replay {next(_next_source_number)}>"
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    return compile(text, file, "exec"), file


def compile_replay(
    graph: Graph,
    *,
    compile_body: Callable[[Graph], Callable[..., list[Any]]] | None = None,
) -> Callable[..., list[Any]]:
    """Return a function that runs a graph step by step with the device's implementations.

    Args:
        graph: the graph.
        compile_body: what compiles the graphs inside loops, choices and fused steps; without it, they are run step by
            step, too.

    Returns:
        A function of the arguments' arrays and then the variables', which returns results and then updates.
    """
    return _ReplayWriter(graph, compile_body or compile_replay).compile()


_reports_fused_steps: Final[ContextVar[bool]] = ContextVar("_reports_fused_steps", default=False)
"""Whether fused steps that are compiled in this context report to watchers."""


@contextmanager
def watch_fused_steps() -> Generator[None, None, None]:
    """Make fused steps that are compiled within the block report to watchers."""
    token = _reports_fused_steps.set(True)
    try:
        yield
    finally:
        _reports_fused_steps.reset(token)


def kernel_names(graph: Graph) -> list[str]:
    """Return the names of all kernels that a graph calls, including its subgraphs."""
    names: list[str] = []
    for step in graph.steps:
        if isinstance(step, Call):
            names.append(step.kernel.name)
        for inner in step.graphs:
            names += kernel_names(inner)
    return names


class _ReplayWriter:
    """Writes the Python source of one graph, with the objects that it refers to."""

    def __init__(
        self,
        graph: Graph,
        compile_body: Callable[[Graph], Callable[..., list[Any]]],
    ) -> None:
        """Plan which values are kept until when."""
        self.graph = graph
        self.compile_body = compile_body
        self.names: dict[str, Any] = {"backend": graph.backend}
        self.is_specialized = type(graph.backend).specialize is not Backend.specialize
        self.lines: list[str] = []
        self.steps: list[Step | None] = []
        """The step of each line."""
        self.calls: dict[int, Call] = {}
        """The steps that functions for their shapes may take."""
        last: dict[Value, int] = {}
        for index, step in enumerate(graph.steps):
            for value in (*step.inputs, *step.outputs):
                if value is not None:
                    last[value] = index
        kept = {*graph.results, *(value for _, value in graph.updates), *graph.constants}
        self.dying: list[list[Value]] = [[] for _ in graph.steps]
        for value, index in last.items():
            if value not in kept:
                self.dying[index].append(value)

    def compile(self) -> Callable[..., list[Any]]:
        """Write the source and compile it to a function."""
        graph = self.graph
        for value, array in graph.constants.items():
            self.names[f"v{value}"] = array
        values = [f"v{value}" for value in (*graph.arguments, *graph.variables)]
        parameters = ", ".join(("functions", *values))
        self.write_line(f"def replay({parameters}):", None)
        for index, step in enumerate(graph.steps):
            self.write_line(f"    {self.format_step(step, index)}", step)
            if dying := self.dying[index]:
                self.write_line(f"    del {', '.join(f'v{value}' for value in dying)}", step)
        ends = (*graph.results, *(value for _, value in graph.updates))
        self.write_line(f"    return [{', '.join(f'v{value}' for value in ends)}]", None)
        return self._compile_python_source("\n".join(self.lines))

    def write_line(self, source_line: str, step: Step | None) -> None:
        """Append a line of source and the step that it runs."""
        self.lines.append(source_line)
        self.steps.append(step)

    def format_step(self, step: Step, step_index: int) -> str:
        """Format a step as one line of source."""
        outputs = ", ".join(f"v{value}" for value in step.outputs)
        if isinstance(step, Call):
            inputs = ["None" if value is None else f"v{value}" for value in step.inputs]
            if not step.kernel.inputs:
                inputs = ["backend"]
            given = ", ".join(inputs)
            if step.attrs:
                self.names[f"attrs{step_index}"] = step.attrs
                inputs.append(f"**attrs{step_index}")
            comma = "," * (step.returns_list and len(step.outputs) == 1)
            function = f"functions[{step.kernel.name!r}]"
            text = f"{function}({', '.join(inputs)})"
            if step.kernel.inputs and self.is_specialized:
                self.calls[step_index] = step
                self.names[f"own{step_index}"] = (
                    None  # a function later, if the device has one for the shapes
                )
                text = f"call{step_index}({given}) if {function} is own{step_index} else {text}"
            return f"{outputs}{comma} = {text}"
        if isinstance(step, HostValue):
            self.names[f"host{step_index}"] = step.function
            self.names[f"spec{step_index}"] = self.graph.specs[step.outputs[0]]
            return f"{outputs} = backend.host_value(host{step_index}, spec{step_index}.shape, spec{step_index}.dtype)"
        if isinstance(step, Fused):
            run = self.compile_body(step.body)
        else:
            run = compile_loop(step, self.graph.backend, self.compile_body)
        if isinstance(step, Fused) and _reports_fused_steps.get():
            run = with_watchers_of_fused_steps(run, kernel_names(step.body), self.graph.backend)
        self.names[f"run{step_index}"] = run
        inputs = ", ".join(f"v{value}" for value in step.inputs)
        comma = "," * (len(step.outputs) == 1)
        return (
            f"{outputs}{comma} = run{step_index}({inputs})"
            if outputs
            else f"run{step_index}({inputs})"
        )

    def _compile_python_source(self, text: str) -> Callable[..., list[Any]]:
        """Compile the source; at run time, an error names the failing kernel and the user's line that was traced."""
        code, file = _compile_source(text)
        exec(code, self.names)
        replay: Callable[..., list[Any]] = self.names["replay"]
        steps, backend = self.steps, self.graph.backend
        specialize = self.specialize if self.calls else None
        has_run = False
        has_calls = any(isinstance(step, Call) for step in steps)  # else all is compiled

        def run(*arrays: Any) -> list[Any]:
            nonlocal specialize, has_run
            functions: Mapping[str, Implementation] = active_functions(backend) if has_calls else {}
            if specialize is not None and has_run:  # for a second time: it takes as long as tracing
                specialize(functions)
                specialize = None
            try:
                results = replay(functions, *arrays)
            except BaseException as failure:
                raise _explain_failure(failure, file, steps, backend) from failure.__cause__
            has_run = True
            return results

        run.graph = self.graph  # pyright: ignore[reportFunctionMemberAccess] - what shows how a graph runs asks for it
        return run

    def specialize(self, functions: Mapping[str, Implementation]) -> None:
        """Ask the device for functions specialized to the steps' shapes; each replaces one of the given functions."""
        graph = self.graph
        made = {value for step in graph.steps for value in step.outputs}
        for index, step in self.calls.items():
            name = step.kernel.name
            function = functions[name]
            inputs = [None if value is None else graph.specs[value] for value in step.inputs]
            dying = made.intersection(self.dying[index])
            free = [i for i, value in enumerate(step.inputs) if value in dying]
            found = graph.backend.specialize(name, function, inputs, step.attrs, free)
            if found is not None:
                self.names |= {f"call{index}": found, f"own{index}": function}


def _explain_failure(
    failure: BaseException,
    file_name: str,
    step_of_line: Sequence[Step | None],
    backend: Backend,
) -> BaseException:
    """Return the error that the failed call would have raised untraced, with the user's line that was traced."""
    trace = failure.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != file_name:
        trace = trace.tb_next
    step = None if trace is None else step_of_line[trace.tb_lineno - 1]
    if step is None:
        return failure
    assert trace is not None
    error = failure
    if isinstance(step, Call):
        values = {**trace.tb_frame.f_globals, **trace.tb_frame.f_locals}  # constants are global
        arrays = [values.get(f"v{value}") for value in step.inputs]
        error = explain_failure(failure, step.kernel, backend, arrays, step.attrs)
    if isinstance(error, PlugradError):
        error.add_note(f"It was traced at {step.line}.")
    return error
