"""The operators that graph models may use: a function for each, and its parsed signature.

The positional parameters of the function are the operator's inputs, and those with a default may be absent. The
keyword-only parameters are its attributes. Annotations say where the value of an input lies:

| annotation | the function gets |
|---|---|
| `Tensor` | a tensor on the device where the model runs |
| `HostArray` | a NumPy array, because the shape of the result, or the course of the program, depends on it |
| `AnyInput` | what there is: an array, a tensor, or a list of tensors |

An attribute `call` is none of the file: it is the function that runs a graph of the model by its name.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from numpy.typing import NDArray

from plugrad.errors import RegistrationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

HostArray: TypeAlias = NDArray[Any]
"""Marks an input that an operator takes as a NumPy array."""
AnyInput: TypeAlias = Any
"""Marks an input that an operator takes as it is, such as a list of tensors."""
FunctionRunner: TypeAlias = "Callable[[str, list[Any]], list[Any]]"
"""Runs a function of the model, given its name and arguments, and returns its outputs."""

INPUT_ANNOTATIONS: Final = ("Tensor", "HostArray", "AnyInput")
"""The annotations that the inputs of an operator's function may have."""
OPERATORS: Final[dict[str, Operator]] = {}
"""By name: what computes an operator."""
HOST_OPERATORS: Final[dict[str, Callable[..., Any]]] = {}
"""By name: what computes an operator whose inputs are small arrays, without a device."""
CONTROL_FLOW_OPERATORS: Final = frozenset(
    {"Switch", "Merge", "Enter", "Exit", "NextIteration", "LoopCond"}
)
"""The control flow of version 1, which `frames` runs."""
OPERATORS_WITHOUT_COMPUTATION: Final = frozenset(
    {"Const", "Placeholder", "PlaceholderWithDefault", "NoOp"}
)
"""The nodes whose values a file or a call brings."""
UNSUPPORTED_OPERATORS: Final = {
    **dict.fromkeys(
        (
            "HashTable", "HashTableV2", "InitializeTable", "InitializeTableV2", "LookupTableFind",
            "LookupTableFindV2", "LookupTableImport", "LookupTableImportV2", "LookupTableSize", "LookupTableSizeV2",
        ),
        "hash tables are not supported; look the keys up before the model, and convert it from there on",
    ),
    **dict.fromkeys(
        (
            "SimpleMLCreateModelResource", "SimpleMLInferenceOpWithHandle", "SimpleMLLoadModelFromPathWithHandle",
        ),
        "decision forests are not supported; run them with the library that made them",
    ),
}  # fmt: skip
"""Operators that are known and not supported, and what to do."""


@dataclass(frozen=True, slots=True)
class Operator:
    """A function that computes an operator, and its parsed signature."""

    name: str
    """The name of TensorFlow's operator."""
    function: Callable[..., Any]
    """The function that computes it."""
    input_annotations: tuple[str, ...]
    """The annotation of each input, one of `INPUT_ANNOTATIONS`."""
    required_input_count: int
    """The least number of inputs."""
    variadic_annotation: str
    """The annotation of all further inputs; empty if there are none."""
    last_annotation: str
    """The annotation of the last input, if it is another one; else empty."""
    attributes: Mapping[str, bool]
    """The names of attributes, and whether each must be there."""
    output_names: tuple[str, ...]
    """The names of the outputs, if there are several that have names."""
    runs_functions: bool
    """Whether the operator runs functions of the model, as control flow does."""

    def annotation_of_input(self, position: int, input_count: int) -> str:
        """Return the annotation of the input at a position, out of `input_count` inputs."""
        if self.last_annotation and position == input_count - 1:
            return self.last_annotation
        return (
            self.input_annotations[position]
            if position < len(self.input_annotations)
            else self.variadic_annotation
        )


def register_operator(
    *names: str, last_annotation: str = "", output_names: tuple[str, ...] = ()
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function as the implementation of operators.

    Raises:
        RegistrationError: an operator has a function already, or an input has another annotation.
    """

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            if name in OPERATORS:
                raise RegistrationError(f"operator {name!r} has a function already")
            OPERATORS[name] = _parse_signature(name, function, last_annotation, output_names)
        return function

    return declare


def register_host_operator(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function as the host implementation of operators for small arrays.

    It is called with the inputs and the dict of all attributes.
    """

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        HOST_OPERATORS.update(dict.fromkeys(names, function))
        return function

    return declare


def _parse_signature(
    operator_name: str,
    function: Callable[..., Any],
    last_annotation: str,
    output_names: tuple[str, ...],
) -> Operator:
    """Return the inputs and attributes that a function's signature declares."""
    kinds: list[str] = []
    attributes: dict[str, bool] = {}
    required, variadic, calls = 0, "", False
    for parameter in inspect.signature(function).parameters.values():
        kind = str(parameter.annotation).removesuffix(" | None")
        is_required = parameter.default is inspect.Parameter.empty
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
            if parameter.name == "call":
                calls = True
            else:
                attributes[parameter.name] = is_required
            continue
        if kind not in INPUT_ANNOTATIONS:
            raise RegistrationError(
                f"{operator_name}: an input is annotated {kind}, and not by {INPUT_ANNOTATIONS}"
            )
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            variadic = kind
        else:
            kinds.append(kind)
            required += is_required
    return Operator(
        operator_name,
        function,
        tuple(kinds),
        required,
        variadic,
        last_annotation,
        attributes,
        output_names,
        calls,
    )
