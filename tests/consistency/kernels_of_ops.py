"""Find out which kernels each op may run: those that its code names, and those that run in its example."""

import ast
import doctest
import inspect
from collections.abc import Callable, Iterator
from functools import cache
from textwrap import dedent
from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

import plugrad
from consistency.committed import committed_kernel_table
from consistency.coverage import RecordingKernelTable
from plugrad.extend import KERNELS, Kernel

Op = Callable[..., Any]
# What is in these modules only converts arguments.
ARGUMENT_MODULES = {"plugrad.ops.arguments", "plugrad.ops.attributes"}
MAX_LISTED_KERNELS = 3  # more kernels than these are listed without their dtypes


def unwrap(op: Op) -> Op:
    """Return the undecorated function of an op or of a bound method, such as those of `plugrad.random`."""
    return inspect.unwrap(op.__func__ if isinstance(op, MethodType) else op)


def is_op(value: object) -> bool:
    """Whether a value is a function that may run kernels."""
    return inspect.isroutine(value) and str(value.__module__).startswith("plugrad.ops.")


@cache
def referenced_names(function: FunctionType) -> tuple[list[Kernel[..., Any]], list[FunctionType]]:
    """Return the kernels and the functions that the code of a function refers to."""
    tree = ast.parse(dedent(inspect.getsource(function)))
    known = function.__globals__
    found: list[object] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = known.get(node.value.id)
            if isinstance(module, ModuleType):
                found.append(getattr(module, node.attr, None))
        elif isinstance(node, ast.Name):
            found.append(known.get(node.id))
    plain_ones = [unwrap(value) if isinstance(value, FunctionType) else value for value in found]
    unique = list({id(value): value for value in plain_ones}.values())
    return (
        [value for value in unique if isinstance(value, Kernel)],
        [
            value
            for value in unique
            if isinstance(value, FunctionType)
            and value.__module__.startswith("plugrad.ops.")
            and value.__module__ not in ARGUMENT_MODULES
        ],
    )


def iter_kernels_in_code(function: FunctionType, seen: set[FunctionType]) -> Iterator[str]:
    """Yield the names of the kernels that a function refers to, directly or through the functions that it calls."""
    seen.add(function)
    kernels, functions = referenced_names(function)
    yield from (kernel.name for kernel in kernels)
    for other in functions:
        if other not in seen:
            yield from iter_kernels_in_code(other, seen)


def kernels_in_example(op: Op) -> list[str]:
    """Return the names of the kernels that run on the cpu in the example of an op's docstring."""
    module = inspect.getmodule(op)
    public = next(
        space
        for space in (plugrad, *map(plugrad.__getattr__, plugrad._PUBLIC_MODULE_NAMES))
        if getattr(space, op.__name__, None) == op
    )
    text = inspect.getdoc(op) or ""
    test = doctest.DocTestParser().get_doctest(text, {"plugrad": plugrad, "np": np}, "", None, 0)
    with plugrad.use("cpu"):
        backend = plugrad.which().backend
        functions, watched = backend.functions, RecordingKernelTable(backend)

        def record_and_call(*args: Any, **options: Any) -> Any:
            backend.functions = watched
            try:
                return op(*args, **options)
            finally:
                backend.functions = functions

        setattr(public, op.__name__, record_and_call)
        try:
            doctest.DocTestRunner(verbose=False).run(test, out=lambda _: None)
        finally:
            setattr(public, op.__name__, op)
    assert module is not None
    return list(watched.ran)


@cache
def kernels_of_op(op: Op) -> list[str]:
    """Return the names of the kernels that an op may run, those in its own code first."""
    function = unwrap(op)
    assert isinstance(function, FunctionType)
    return list(dict.fromkeys([*iter_kernels_in_code(function, set()), *kernels_in_example(op)]))


def describe_gradient(name: str) -> str:
    """Return the inputs of a kernel that have a gradient, or the reason why none has."""
    found = plugrad.get_gradient(name)
    if found is None or found.because:
        return f"none: {found.because}" if found else "none"
    return ", ".join(KERNELS[name].inputs if found.inputs is None else found.inputs)


def kernel_anchor(kernel: str) -> str:
    """Return the HTML anchor of a kernel on the page of its family."""
    return kernel.lower().lstrip("_")


def kernel_link(name: str) -> str:
    """Return a link to the contract of a kernel."""
    return f"`{name} <../kernels/{KERNELS[name].family}.html#{kernel_anchor(name)}>`__"


def describe_kernels(op: Op) -> list[str]:
    """Return the text about the kernels of an op, for its page: gradients, backends and dtypes."""
    names = kernels_of_op(op)
    if not names:
        return ["**Kernels**: none of its own, so it runs on every backend."]
    rows = {name: committed_kernel_table().get(name, {}) for name in names}
    backends = list(next(iter(committed_kernel_table().values())))
    if len(names) <= MAX_LISTED_KERNELS:
        cells = [("Kernel", "Gradient for", *(f"Dtypes on {b}" for b in backends))]
        cells += [
            (kernel_link(name), describe_gradient(name), *(row.get(b, "–") for b in backends))
            for name, row in rows.items()
        ]
        table = [".. list-table::", "   :header-rows: 1", "   :class: kernels", ""]
        for row in cells:
            table += [f"   {'*' if i == 0 else ' '} - {cell}" for i, cell in enumerate(row)]
        return table
    having = [b for b in backends if all(row.get(b, "–") != "–" for row in rows.values())]
    without = [kernel_link(name) for name in names if describe_gradient(name).startswith("none")]
    return [
        f"**Kernels** that it may run: {', '.join(map(kernel_link, names))}.",
        "",
        f"**Backends** that have all of these: {', '.join(having) or 'none'}.",
        "",
        "**Gradient**: through "
        + ("all of these." if not without else f"all of these but {', '.join(without)}."),
    ]
