"""Dispatch of kernel calls: unwrap the tensors, call the backend's implementation, and wrap the result.

`CALL_SOURCE_TEMPLATE` tells it, once for all kernels. It is a text that is compiled when a kernel is first called, as
`dataclasses` does with ``__init__``: a loop over the inputs would take as long as a small tensor's arithmetic. Its
names are those of this module, which imports some for it only.
"""

# ruff: noqa: F401
# pyright: reportUnusedImport=false

from __future__ import annotations

import linecache
import re
from functools import cache
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final

from plugrad.contract.kernel import ValidatedAttributes, set_dispatcher
from plugrad.discovery.selection import active_backend
from plugrad.engine.autocast import cast_inputs
from plugrad.engine.explain import explain_failure, make_wrong_inputs_error
from plugrad.engine.implementations import functions_with_overrides
from plugrad.engine.transfer import copy_to_backend
from plugrad.garbage import make_full_collections_rare
from plugrad.registry.gradients import gradients
from plugrad.tape.nodes import Call, next_node_order
from plugrad.tape.tape import find_gradient_plan
from plugrad.tensor.context import current_context
from plugrad.tensor.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from plugrad.contract.kernel import Kernel
    from plugrad.tape.nodes import Node
    from plugrad.tensor.backend import Backend

NO_ATTRIBUTES: Final = ValidatedAttributes()
"""The attributes of calls of kernels that have none."""
new_object: Final = object.__new__
"""Return an object of a class without calling the class, which takes longer."""

CALL_SOURCE_TEMPLATE: Final = """\
def bind(kernel, convert_and_call):
    name, fast_dtype, accepted = kernel.name, kernel.fast_dtype, kernel.accepted_dtypes

    def call({parameters}, attrs=NO_ATTRIBUTES):
        {guard}
        context = current_context()
        if context is not None:
            target = context.transfer_target
            if target is not None and ({are_off_target}):
                {inputs} = copy_inputs_to_backend({inputs}, target)
            if context.precision is not None:
                {inputs} = cast_inputs(kernel, {inputs}, context.precision)
        {unwrap}
        if {are_apart}:
            raise make_wrong_inputs_error(kernel, {inputs})
        if {is_unchecked}:
            attrs = check_call(kernel, {arrays}, attrs)
        has_overrides = context is not None and context.overrides is not None
        function = (functions_with_overrides(backend, context.overrides) if has_overrides else backend.functions)[name]
        try:
            result = function({arguments}{attributes})
        except BaseException as failure:
            raise explain_failure(failure, kernel, backend, {arrays}, attrs)
        kind = type(result)
        if kind is tuple or kind is list:
            output = list(map(Tensor, result, repeat(backend)))  # a comprehension would slow `backend` down
        else:
            output = new_object(Tensor)  # Tensor(result, backend), without calling __init__
            output.array = result
            output.backend = backend
            output.node = None
        if {is_differentiated}:
            try:
                plan = (context.overrides.gradients if has_overrides else gradients)[name].plans[{differentiated}]
            except KeyError:
                plan = find_gradient_plan(kernel, {differentiated})
            if plan is not None:
                node = new_object(Call)
                node.order = order = next_node_order()
                if not order & 8191:  # a long tape
                    make_full_collections_rare()
                node.parents = {nodes}
                node.gradient_plan = plan
                node.shapes = {shapes}
                node.attrs = attrs
                node.backend = backend
                if type(output) is list:
                    node.split_outputs(output)
                else:
                    output.node = node
                if plan.keeps_all_inputs:
                    node.saved = {arrays}
                elif plan.saves_values:
                    node.save_values({arrays}, output)
        if context is not None and context.scope is not None:
            context.scope.track_outputs(output)
        return output

    return call
"""
"""The source of the functions that call kernels, with placeholders in braces; see `TEMPLATE_PLACEHOLDERS`."""

TEMPLATE_PLACEHOLDERS: Final = {
    "parameters": ("<x#|, >", "inputs", "backend"),
    "inputs": ("(<x#,| >)", "inputs", "()"),
    "are_off_target": ("<x#.backend is not target| or >", "True", "False"),
    "unwrap": (
        "<array# = x#.array; node# = x#.node; >backend = x0.backend",
        "arrays, nodes, backend = unwrap_inputs(inputs)",
        "",
    ),
    "are_apart": ("False<+ or x#.backend is not backend>", "backend is None", "False"),
    "arrays": ("(<array#,| >)", "arrays", "(backend,)"),
    "arguments": ("<array#|, >", "*arrays", "backend"),
    "is_differentiated": ("<node# is not None| or >", "any(nodes)", "False"),
    "differentiated": (
        "<(2**# if node# is not None else 0)| + >",
        "differentiated_bits(nodes)",
        "0",
    ),
    "nodes": ("(<node#,| >)", "nodes", "()"),
    "shapes": ("(<array#.shape,| >)", "[x if x is None else x.shape for x in arrays]", "()"),
}
"""The texts for each placeholder of `CALL_SOURCE_TEMPLATE`: for separate inputs, one sequence of inputs, and no inputs.

In a sequence, None is an absent input. A kernel without inputs receives the backend in their place. Text in <> is
repeated for each input, with the input's number for #, and after a plus for each but the first; the text after a bar
separates the repetitions. Python compiles nothing for the ``False`` of a condition.
"""
OPERATOR_GUARD_SOURCE: Final = """\
if type(x0) is not Tensor or type(x1) is not Tensor or (
            (dtype := x0.array.dtype) is not x1.array.dtype
            or (dtype is not fast_dtype and dtype not in accepted)
        ):
            return convert_and_call(x0, x1)"""
"""The first statement of an operator's function, which leaves operands that need to be converted to an op."""


def format_call_source(
    input_count: int | None, has_attributes: bool, is_operator: bool = False
) -> str:
    """Return the source of a function that calls a kernel with `input_count` inputs, or, if None, with a sequence."""
    column = 1 if input_count is None else 0 if input_count else 2
    parts = {hole: texts[column] for hole, texts in TEMPLATE_PLACEHOLDERS.items()}
    parts |= {
        "guard": OPERATOR_GUARD_SOURCE * is_operator,
        "attributes": ", **attrs" * has_attributes,
    }
    parts["is_unchecked"] = "False" if is_operator else "type(attrs) is not ValidatedAttributes"

    def repeat_for_inputs(placeholder_match: re.Match[str]) -> str:
        pattern, _, between = placeholder_match[2].partition("|")
        return between.join(
            pattern.replace("#", str(i)) for i in range(len(placeholder_match[1]), input_count or 0)
        )

    text = re.sub(r"<(\+?)(.*?)>", repeat_for_inputs, CALL_SOURCE_TEMPLATE.format(**parts))
    return re.sub(r"\n\s+\n( {8})", r"\n\1", text)  # without the lines of empty holes


@cache
def _compile_call_factory(
    input_count: int | None, has_attributes: bool, is_operator: bool
) -> Callable[..., Any]:
    """Return a compiled function that makes the call function of any kernel with `input_count` inputs."""
    text = format_call_source(input_count, has_attributes, is_operator)
    # this name stands in tracebacks, which show the lines of the text
    inputs = "a sequence of inputs" if input_count is None else f"{input_count} inputs"
    file = f"<plugrad: call with {inputs}{' and attributes' * has_attributes}{', operator' * is_operator}>"
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    bound: dict[str, Any] = {}
    exec(compile(text, file, "exec"), globals(), bound)
    return bound["bind"]


def compile_call(
    kernel: Kernel[..., Any], convert_and_call: Callable[[Any, Any], Any] | None = None
) -> Callable[..., Any]:
    """Return the function by which a kernel is called: with tensors of one backend, or with a backend and no tensors.

    The attributes come last and may be left out; they are validated unless they are `ValidatedAttributes`.
    With `convert_and_call`, it is an operator of two tensors, which calls that if they need to be converted.
    """
    count = None if kernel.inputs_vary else len(kernel.inputs)
    return _compile_call_factory(count, bool(kernel.attributes), convert_and_call is not None)(
        kernel, convert_and_call
    )


def run(
    kernel: Kernel[..., Any],
    inputs: Sequence[Tensor | None],
    attrs: Mapping[str, Any],
    default_backend: Backend | None = None,
) -> Any:
    """Run `kernel` on the backend of its inputs; without inputs, on `default_backend` or on the active backend.

    Returns:
        One tensor, or a list of them if the kernel has several outputs.

    Raises:
        KernelNotFound: the backend does not implement the kernel.
        BackendMismatch: the inputs live on different backends.
        ShapeError, DTypeError, ArgumentError: the inputs or the attributes break the contract.
        DisposedTensor: an input has been disposed.
    """
    missing = kernel.input_count - len(inputs)
    if (
        not missing
        and inputs
        and not kernel.inputs_vary
        and TENSOR_TYPES.issuperset(map(type, inputs))
    ):
        return kernel.call(*inputs, attrs)  # what programs mostly do
    if missing < 0 and not kernel.takes_list:
        raise make_wrong_inputs_error(kernel, inputs)
    inputs = [*inputs, *[None] * missing]
    for i, x in enumerate(inputs):
        if not isinstance(x, Tensor) and (
            x is not None or kernel.input_name(i) not in kernel.optional_inputs
        ):
            raise make_wrong_inputs_error(kernel, inputs)
    if kernel.inputs_vary:
        return kernel.call(inputs, attrs)
    return kernel.call(*(inputs or (default_backend or active_backend(),)), attrs)


TENSOR_TYPES: Final = frozenset({Tensor})
"""The set of the one type that nearly all inputs have."""


# --- what the text calls ---------------------------------------------------------------------------


def copy_inputs_to_backend(
    inputs: Sequence[Tensor | None], backend: Backend
) -> list[Tensor | None]:
    """Return the inputs, with those of other backends copied to `backend`."""
    return [x if x is None or x.backend is backend else copy_to_backend(x, backend) for x in inputs]


def unwrap_inputs(
    inputs: Sequence[Tensor | None],
) -> tuple[list[Any], list[Node | None], Backend | None]:
    """Return the arrays and the nodes of the inputs, and their common backend, or None if they have several."""
    arrays: list[Any] = []
    nodes: list[Node | None] = []
    backend = None
    for x in inputs:  # three comprehensions would take longer
        if x is None:
            arrays.append(None)
            nodes.append(None)
            continue
        arrays.append(x.array)
        nodes.append(x.node)
        if x.backend is not backend:
            if backend is not None:
                return arrays, nodes, None
            backend = x.backend
    return arrays, nodes, backend


def differentiated_bits(nodes: Sequence[Node | None]) -> int:
    """Return a bit mask of the inputs that are being differentiated; the lowest bit is the first input."""
    return sum([1 << i for i, node in enumerate(nodes) if node is not None])


def check_call(
    kernel: Kernel[..., Any], arrays: Sequence[Any], attrs: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return the attributes with the defaults filled in; raise if they or the inputs break the contract.

    Only the dtypes are checked if an elementwise kernel without attributes gets inputs of one dtype: the shape rule
    would take as long as a small tensor's arithmetic.
    """
    if len(attrs) != kernel.attribute_count:
        attrs = kernel.fill_defaults(attrs)
    if not attrs and kernel.is_elementwise:
        dtype = arrays[0].dtype
        if dtype in kernel.accepted_dtypes and all(x.dtype is dtype for x in arrays):
            return attrs
    kernel.infer_cached(arrays if kernel.inputs else (), attrs)
    return attrs


set_dispatcher(run, compile_call)
