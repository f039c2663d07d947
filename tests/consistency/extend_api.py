"""The public API of plugins as text: the names of ``plugrad.extend`` with signatures, hooks and manifest keys.

The first line has the number of the plugin API, and whether a release has it. After a release, a change needs
another number.
"""

import inspect
import re
from pathlib import Path

from plugrad import extend
from plugrad.discovery import manifest
from plugrad.discovery.hooks import HOOK_SPECIFICATIONS
from plugrad.discovery.plugin import KIND_OF_ENTRY_POINT_GROUP

SNAPSHOT_FILE = Path(__file__).parent / "extend_api.txt"
UNRELEASED = "not released"
NAMES_WITHOUT_MEMBERS = ("Tensor",)
"""Classes whose members are described elsewhere: the reference lists them."""


def describe_extend_api() -> list[str]:
    """Return the public API of plugins as sorted lines, one for each name or member."""
    lines = [line for name in dir(extend) for line in describe_name(name, getattr(extend, name))]
    lines += [f"hook {name}{format_signature(hook)}" for name, hook in HOOK_SPECIFICATIONS.items()]
    lines += [f"entry points {group}" for group in KIND_OF_ENTRY_POINT_GROUP]
    lines += [
        f"{manifest.BACKEND_MANIFEST_FILE}: {key}" for key in manifest.BACKEND_MANIFEST_PARSERS
    ]
    lines += [f"{manifest.PLUGIN_MANIFEST_FILE}: {key}" for key in manifest.PLUGIN_MANIFEST_PARSERS]
    return sorted(lines)


def describe_name(name: str, value: object) -> list[str]:
    """Return the lines about one public name."""
    function = inspect.unwrap(value) if callable(value) else value
    if inspect.isfunction(function):
        return [f"{name}{format_signature(function)}"]
    if not inspect.isclass(value):  # what typing calls an alias depends on the version of Python
        kind = type(value)
        return [f"{name}: {'alias' if kind.__module__ in ('typing', 'types') else kind.__name__}"]
    bases = ", ".join(base.__name__ for base in value.__bases__)
    lines = [f"class {name}({bases})"]
    if issubclass(value, BaseException) or name in NAMES_WITHOUT_MEMBERS:
        return lines
    if not getattr(value, "_is_protocol", False):
        lines.append(f"{name}{format_signature(value)}")
    members = {
        member: held
        for base in reversed(value.__mro__)
        if base.__module__.startswith("plugrad") or base is value
        for member, held in vars(base).items()
        if not member.startswith("_")
    }
    annotated = {
        member: None
        for base in value.__mro__
        if base.__module__.startswith("plugrad")
        for member in vars(base).get("__annotations__", {})
        if not member.startswith("_")
    }
    for member, held in (annotated | members).items():
        function = getattr(held, "__func__", held)
        text = format_signature(function) if inspect.isfunction(function) else ""
        lines.append(f"{name}.{member}{text}")
    return lines


def format_signature(function: object) -> str:
    """Return the signature of a function as text; defaults that have no short text become "…"."""
    try:
        found = inspect.signature(function)
    except ValueError:
        return "(…)"
    parts, star = [], False
    for parameter in found.parameters.values():
        text = parameter.name
        if parameter.kind is parameter.VAR_POSITIONAL:
            text, star = f"*{text}", True
        elif parameter.kind is parameter.VAR_KEYWORD:
            text = f"**{text}"
        elif parameter.kind is parameter.KEYWORD_ONLY and not star:
            parts.append("*")
            star = True
        if parameter.annotation is not parameter.empty:
            text += f": {_format_annotation(parameter.annotation)}"
        if parameter.default is not parameter.empty:
            text += f" = {_format_default(parameter.default)}"
        parts.append(text)
    if only := sum(p.kind is p.POSITIONAL_ONLY for p in found.parameters.values()):
        parts.insert(only, "/")
    result = found.return_annotation
    returns = "" if result is found.empty else f" -> {_format_annotation(result)}"
    return f"({', '.join(parts)}){returns}"


def _format_annotation(annotation: object) -> str:
    annotation = getattr(annotation, "__forward_arg__", annotation)
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _format_default(default: object) -> str:
    text = repr(default)
    return "…" if len(text) > 60 or re.search(r" at 0x|^frozenset|^\{", text) else text


# --- the number -----------------------------------------------------------------------------------


def format_api_number(api: tuple[int, int]) -> str:
    """Return the number of an API as manifests write it."""
    return f"{api[0]}.{api[1]}"


def parse_snapshot(text: str) -> tuple[tuple[int, int], bool, list[str]]:
    """Return the API number in a snapshot, whether it is released, and the lines."""
    header, *lines = text.splitlines()
    found = re.fullmatch(r"plugin API (\d+)\.(\d+), (.+)", header)
    assert found is not None, header
    return (int(found[1]), int(found[2])), found[3] != UNRELEASED, lines


def required_api_number(committed: str, lines: list[str]) -> tuple[int, int]:
    """Return the lowest API number that allows the changes since the committed snapshot."""
    (major, minor), is_released, before = parse_snapshot(committed)
    if not is_released or lines == before:
        return major, minor
    return (major + 1, 0) if set(before) - set(lines) else (major, minor + 1)


def explain_mismatch(committed: str, lines: list[str]) -> str:
    """Return what to do if the snapshot and the API number do not agree, or ""."""
    least = required_api_number(committed, lines)
    if least <= manifest.API_VERSION:
        return ""
    return (
        "what plugins may rely on has changed since the last release: raise API in plugrad/discovery/manifest.py to "
        f"{format_api_number(least)}, in the manifests too, and run `make docs`"
    )


def format_snapshot(committed: str) -> str:
    """Return the text of the snapshot file for the present API.

    Raises:
        SystemExit: the API needs another number.
    """
    lines = describe_extend_api()
    if what := explain_mismatch(committed, lines):
        raise SystemExit(what)
    api, is_released, before = parse_snapshot(committed)
    if is_released and (api, before) == (manifest.API_VERSION, lines):
        return committed
    return (
        "\n".join([f"plugin API {format_api_number(manifest.API_VERSION)}, {UNRELEASED}", *lines])
        + "\n"
    )
