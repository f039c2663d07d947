"""WGSL sources: read from .wgsl files, completed by substitution, and linked with the snippets they call."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from string import Template

SNIPPET_FILES = ("snippets.wgsl", "accurate.wgsl", "complex.wgsl", "long.wgsl")
"""The names of the files with WGSL functions that other sources call."""

_FUNCTION_PATTERN = re.compile(r"^fn (\w+)\b.*?^}\n", re.MULTILINE | re.DOTALL)
"""Matches a WGSL function in a snippet file; the group is its name."""
_WORD_PATTERN = re.compile(r"\w+")
"""Matches a word of WGSL."""
_REPEAT_PATTERN = re.compile(r"^( *)@repeat\((\w+), (\w+)\) ({\n(?s:.*?)^\1}|.*)$", re.MULTILINE)
"""Matches a ``@repeat`` line or block of a template."""


def shader(*template_names: str, **substitutions: str) -> str:
    """Return the WGSL of template files after substitution, followed by the snippets they call.

    A line ``@repeat(i, 4) sum += a[$i];`` is written four times, with ``$i`` from 0 to 3, because
    some drivers keep an array that is indexed in a loop in memory. If the line ends with ``{``, the block is
    written four times. The count may be the name of a substitution.
    """
    return linked(fill_templates(*template_names, **substitutions))


def fill_templates(*template_names: str, **substitutions: str) -> str:
    """Return the WGSL of template files after substitution, without snippets."""
    text = "\n".join(_read_template(f"templates/{name}.wgsl") for name in template_names)
    return Template(_expand_repeats(text, substitutions)).substitute(substitutions)


def linked(text: str) -> str:
    """Return a WGSL source followed by the snippets, shared functions, that it calls directly or indirectly."""
    needed: dict[str, None] = {}
    waiting = [_find_snippet_names(text)]
    while waiting:
        for name in waiting.pop():
            if name not in needed:
                needed[name] = None
                waiting.append(_snippets_called_by(name))
    snippets = _snippets_by_name()
    return "\n".join([text, *(snippets[name] for name in needed)])


def _find_snippet_names(text: str) -> list[str]:
    """Return the names of the snippets that a WGSL source calls directly."""
    words = dict.fromkeys(_WORD_PATTERN.findall(text))
    return [name for name in words if name in _snippets_by_name()]


@cache
def _snippets_called_by(name: str) -> list[str]:
    """Return the names of the snippets that a snippet calls directly, and its own."""
    return _find_snippet_names(_snippets_by_name()[name])


def _expand_repeats(text: str, substitutions: dict[str, str]) -> str:
    """Return a template with its ``@repeat`` lines and blocks repeated, as `shader` describes."""

    def expand_repeat(match: re.Match[str]) -> str:
        indent, name, count, text = match.groups()
        return "\n".join(
            indent + re.sub(rf"\${name}\b|\${{{name}}}", str(i), text)
            for i in range(int(substitutions.get(count, count)))
        )

    while _REPEAT_PATTERN.search(text):
        text = _REPEAT_PATTERN.sub(expand_repeat, text)
    return text


@cache
def _read_template(path: str) -> str:
    """Return the text of a file in the folder of the shaders."""
    return files("plugrad_webgpu").joinpath("shaders", path).read_text(encoding="utf-8")


@cache
def _snippets_by_name() -> dict[str, str]:
    """Return the WGSL functions in the snippet files by name."""
    text = "".join(_read_template(name) for name in SNIPPET_FILES)
    return {match[1]: match[0] for match in _FUNCTION_PATTERN.finditer(text)}
