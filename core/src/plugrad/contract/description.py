"""Contracts in words, from the docstring of a kernel's rule and from that of its family's module.

Both have the sections ``Args:`` and ``Returns:``. What a name means in a whole family stands in the module's docstring,
once; a kernel for which it means something else says so in its own.
"""

from __future__ import annotations

import inspect
import re
import sys
from textwrap import fill, indent
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from plugrad.contract.annotations import format_annotation
from plugrad.contract.parameters import Parameters, inspect_parameters
from plugrad.types.dtype import DTYPES, DType

if TYPE_CHECKING:
    from collections.abc import Callable

LINE_WIDTH: Final = 100
"""The maximum number of characters in a line of a description."""

_DOCSTRING_SECTION_PATTERN: Final = re.compile(r"^(\w+):\n((?:(?: .*)?\n)+)", re.M)
"""The pattern of a docstring's section: a title such as ``Args:``, then indented lines."""
_PARAMETER_ENTRY_PATTERN: Final = re.compile(r"^(?:(\*?\w+): )?(.*(?:\n .*)*)", re.M)
"""The pattern of an entry of a section: the parameter's name, if any, and its text."""


class Docstring(NamedTuple):
    """The parts of a docstring: its first line, the paragraphs after it, and the entries of two sections.

    An entry of ``Returns:`` that is a sentence without a name has the name "".
    """

    summary: str
    extended_summary: str
    arguments: dict[str, str]
    returns: dict[str, str]


def read_docstring(text: str | None) -> Docstring:
    r"""Return the parts of a docstring in Google's style.

    >>> read_docstring(
    ...     "Return it.\n\nArgs:\n    x: one,\n        or two.\n\nReturns:\n    the number."
    ... )
    Docstring(summary='Return it.', extended_summary='', arguments={'x': 'one, or two.'}, returns={'': 'the number.'})
    """
    cleaned = inspect.cleandoc(text or "") + "\n"
    sections = {
        name: inspect.cleandoc("\n" + body)
        for name, body in _DOCSTRING_SECTION_PATTERN.findall(cleaned)
    }
    summary, _, extended_summary = _DOCSTRING_SECTION_PATTERN.sub("", cleaned).partition("\n")
    return Docstring(
        summary,
        extended_summary.strip(),
        _parse_parameter_entries(sections.get("Args", "")),
        _parse_parameter_entries(sections.get("Returns", "")),
    )


def _parse_parameter_entries(text: str) -> dict[str, str]:
    """Return the entries of a section by their names; their lines are joined."""
    return {
        name: " ".join(words.split())
        for name, words in _PARAMETER_ENTRY_PATTERN.findall(text)
        if words
    }


class ParameterDescription(NamedTuple):
    """An input, an attribute or an output of a kernel.

    A list of inputs has a ``*`` before its name; the only output of a kernel has the name "".
    """

    name: str
    type: str
    meaning: str

    def __str__(self) -> str:
        name = f"{self.name} ({self.type})" if self.type else self.name
        return f"{name}: {self.meaning}" if name else self.meaning


class ContractDescription(NamedTuple):
    """A contract in words: a summary, further details and tables of parameters; ``help`` shows it as text."""

    name: str
    """The name in the registry, such as "MaxPool"."""
    path: str
    """Where Python finds the kernel, such as "plugrad.kernels.pooling.max_pool"."""
    signature: str
    """The inputs and the attributes with their defaults."""
    summary: str
    extended_summary: str
    inputs: tuple[ParameterDescription, ...]
    attributes: tuple[ParameterDescription, ...]
    outputs: tuple[ParameterDescription, ...]
    family: str
    """The text that applies to all kernels of the family."""

    def __str__(self) -> str:
        parts = [f"{self.path}{self.signature}", self.summary, self.extended_summary]
        for title, items in (
            ("Inputs", self.inputs),
            ("Attributes", self.attributes),
            ("Returns", self.outputs),
        ):
            if items:
                entries = [fill(str(x), LINE_WIDTH - 4, subsequent_indent="    ") for x in items]
                parts.append(f"{title}:\n{indent(chr(10).join(entries), '    ')}")
        parts += [self.family, f"The kernel's name in the registry is {self.name!r}."]
        return "\n\n".join(filter(None, parts))


def describe_contract(
    name: str, rule: Callable[..., Any], accepts: frozenset[DType], is_elementwise: bool
) -> ContractDescription:
    """Return the description of the contract called `name`, from its rule and its docstrings.

    What has no words has an empty meaning.
    """
    parameters = inspect_parameters(rule)
    module = sys.modules.get(rule.__module__)
    family, own = read_docstring(module and module.__doc__), read_docstring(rule.__doc__)
    meanings = family.arguments | own.arguments
    annotations = getattr(rule, "__annotations__", {})
    dtypes = describe_dtypes(accepts)
    starred = parameters.positional[-1:] if parameters.takes_list else ()

    def describe_input(input_position: int, parameter: str) -> ParameterDescription:
        kinds = [dtypes] if input_position == 0 or is_elementwise else []
        if parameters.defaults.get(parameter, parameter) is None:
            kinds.append("optional")
        label = f"*{parameter}" if parameter in starred else parameter
        return ParameterDescription(label, ", ".join(kinds), meanings.get(parameter, ""))

    return ContractDescription(
        name,
        f"{rule.__module__}.{_module_attribute_of_rule(rule)}",
        _format_signature(parameters),
        own.summary,
        own.extended_summary,
        tuple(describe_input(i, n) for i, n in enumerate(parameters.positional)),
        tuple(
            ParameterDescription(n, format_annotation(annotations.get(n, "")), meanings.get(n, ""))
            for n in parameters.keyword
        ),
        tuple(
            ParameterDescription(n, "", meaning)
            for n, meaning in (own.returns or family.returns).items()
        ),
        f"{family.summary}\n\n{family.extended_summary}".strip(),
    )


def _module_attribute_of_rule(rule: Callable[..., Any]) -> str:
    """Return the name of a rule's kernel in its module; the rules that one factory makes all have the same name."""
    members = vars(sys.modules[rule.__module__]) if rule.__module__ in sys.modules else {}
    found = (n for n, value in members.items() if getattr(value, "rule", None) is rule)
    return next(found, rule.__name__)


def _format_signature(parameters: Parameters) -> str:
    """Return inputs and attributes with their defaults as text."""

    def format_parameter(name: str) -> str:
        has_default = name in parameters.defaults
        return f"{name}={parameters.defaults[name]!r}" if has_default else name

    inputs = [format_parameter(n) for n in parameters.positional]
    attributes = [format_parameter(n) for n in parameters.keyword]
    if parameters.takes_list:
        inputs[-1] = f"*{inputs[-1]}"
    elif attributes:
        inputs.append("*")
    return f"({', '.join((*inputs, *attributes))})"


_DTYPE_KINDS_OF_WORD: Final = {
    "integers": ("signed", "unsigned"),
    "floats": ("floating",),
    "complex numbers": ("complex",),
}
"""The kinds of dtypes that a word of a description stands for."""


def describe_dtypes(dtypes: frozenset[DType]) -> str:
    """Return a set of dtypes in words.

    >>> from plugrad.types.dtype import BOOL, REAL, float32, float64
    >>> describe_dtypes(REAL), describe_dtypes(BOOL | {float32, float64})
    ('integers, floats', 'bool, float32, float64')
    """
    rest = [dtype for dtype in DTYPES if dtype in dtypes]
    if len(rest) == len(DTYPES):
        return "any dtype"
    words: list[str] = []
    for word, kinds in _DTYPE_KINDS_OF_WORD.items():
        whole = [dtype for dtype in DTYPES if dtype.kind in kinds]
        if all(dtype in rest for dtype in whole):
            words.append(word)
            rest = [dtype for dtype in rest if dtype not in whole]
    names = [str(dtype) for dtype in rest]
    return ", ".join(
        (*[n for n in names if n == "bool"], *words, *[n for n in names if n != "bool"])
    )
