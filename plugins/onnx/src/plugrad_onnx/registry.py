"""The operators that models may use: a function for each, and its parsed signature.

The positional parameters of the function are the operator's inputs, those with a default may be
absent. The keyword-only parameters are its attributes, with ONNX's defaults. Annotations say where
the value of an input lies:

| annotation | the function gets |
|---|---|
| `Tensor` | a tensor on the device where the model runs |
| `FilterTensor` | a tensor of filters, with their spatial axes first: (…, I, O) where ONNX has (O, I, …) |
| `HostArray` | a NumPy array, because the shape of the result, or the course of the program, depends on it |
| `TensorOrHostArray` | a NumPy array where plugrad has no such dtype, else a tensor |
| `TensorList`, `AnyInputValue` | a list of tensors; whatever is there |

`outputs`, `opset` and `scope` are no attributes: they are the number of outputs that are used, the
version of the operators, and the values of all names.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from numpy.typing import NDArray

from plugrad import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

HostArray: TypeAlias = NDArray[Any]
"""An input that a function gets as an array of NumPy."""
TensorOrHostArray: TypeAlias = Tensor | NDArray[Any]
"""An input that a function gets as a tensor, or as an array if plugrad lacks its dtype."""
FilterTensor: TypeAlias = Tensor
"""An input that a function gets as a tensor of filters with channels last."""
AnyInputValue: TypeAlias = Any
"""An input that a function gets as it is: a tensor, an array, or a list of them."""
TensorList: TypeAlias = list[Tensor]
"""An input that a function gets as a list of tensors."""
SubgraphFunction: TypeAlias = "Callable[..., list[Any]]"
"""An attribute that is a subgraph, as a function of its inputs."""

INPUT_KINDS: Final = (
    "Tensor",
    "FilterTensor",
    "HostArray",
    "TensorOrHostArray",
    "TensorList",
    "AnyInputValue",
)
"""The annotations of inputs in the signatures of operators."""
SUPPLIED_PARAMETERS: Final = ("output_count", "opset", "scope")
"""The keywords that an operator may have besides its attributes; a run supplies their values."""
OPERATORS: Final[dict[tuple[str, str], list[Operator]]] = {}
"""The versions of each operator by domain and name, the newest first."""


@dataclass(frozen=True)
class Operator:
    """The implementation of an operator from one opset version on, and its parsed signature."""

    name: str
    domain: str
    """ONNX's domain of the operator; empty for its own."""
    since_opset: int
    """The first version of the operator set that the implementation fits."""
    function: Callable[..., Any]
    """The implementation, a function of inputs and attributes."""
    is_pure: bool = True
    """Whether equal inputs give equal outputs."""
    layout: str = ""
    """How the function treats images whose channels come last, as `operator` describes."""
    input_kinds: tuple[str, ...] = ()
    """The annotation of each input."""
    required_input_count: int = 0
    """The number of inputs that a node must have."""
    variadic_kind: str = ""
    """The annotation of all further inputs, or an empty string."""
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The default of each attribute."""
    supplied_parameters: tuple[str, ...] = ()
    """The keywords of `SUPPLIED_PARAMETERS` that the function takes."""

    def input_kind(self, position: int) -> str:
        """Return the annotation of the input at a position."""
        return (
            self.input_kinds[position] if position < len(self.input_kinds) else self.variadic_kind
        )


def operator(
    *names: str, since: int = 1, domain: str = "", pure: bool = True, layout: str = ""
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function as the implementation of ONNX operators from the opset `since` on.

    Args:
        *names: Names of operators.
        since: The version of the operators from which on it has this meaning.
        domain: The domain of the operators; that of ONNX itself is empty.
        pure: Whether equal inputs give equal outputs.
        layout: What the function does with images whose channels come last: its first input and its
            outputs are such ("images"), it does not mind ("elementwise"), or minds because of its
            attribute `axis` ("axis"); or it only looks at the shape ("shape").
    """

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            versions = OPERATORS.setdefault((domain, name), [])
            versions.append(
                Operator(name, domain, since, function, pure, layout, **_parse_signature(function))
            )
            versions.sort(key=lambda version: -version.since_opset)
        return function

    return declare


def _parse_signature(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the inputs and attributes that a function's signature declares."""
    kinds: list[str] = []
    attributes: dict[str, Any] = {}
    given: list[str] = []
    required, variadic = 0, ""
    for parameter in inspect.signature(function).parameters.values():
        kind = str(parameter.annotation).removesuffix(" | None")
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
            if parameter.name in SUPPLIED_PARAMETERS:
                given.append(parameter.name)
            else:
                attributes[parameter.name] = parameter.default
        elif parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            variadic = kind
        else:
            kinds.append(kind)
            required += parameter.default is inspect.Parameter.empty
    if not {*kinds, *([variadic] if variadic else [])} <= set(INPUT_KINDS):
        raise TypeError(f"{function.__name__}: inputs are annotated {kinds}, not by {INPUT_KINDS}.")
    return {
        "input_kinds": tuple(kinds),
        "required_input_count": required,
        "variadic_kind": variadic,
        "attributes": attributes,
        "supplied_parameters": tuple(given),
    }


def find_implementation(domain: str, name: str, opset: int) -> Operator | None:
    """Return the implementation of an operator in an opset version, or None."""
    versions = OPERATORS.get((domain, name), [])
    return next((version for version in versions if version.since_opset <= opset), None)
