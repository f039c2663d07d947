"""Renaming of tensors: sequences of words in their dotted names are replaced by others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, cast

from plugrad.extend import ArgumentError

Renaming: TypeAlias = "Mapping[str, str | None] | Callable[[str], str | None]"
"""Replacements of words in names, in this order, or a function that renames a whole name; None drops the tensor."""


def as_rename_function(function_name: str, renaming: Any) -> Callable[[str], str | None]:
    """Return a function that renames a tensor, or returns None to drop it.

    Raises:
        ArgumentError: `renaming` is no mapping of strings and no function.
    """
    if renaming is None:
        return lambda name: name
    if isinstance(renaming, Mapping):
        pairs = list(cast("Mapping[Any, Any]", renaming).items())
        for old, new in pairs:
            if not isinstance(old, str) or not old or not isinstance(new, str | None):
                raise ArgumentError(
                    f"{function_name}: names has {old!r:.80}: {new!r:.80}; it maps words of names to words, such as "
                    '"attn.c_proj": "self_attn.out_proj", or to None for tensors that are left out'
                )
        return lambda name: _replace_words(name, pairs)
    if callable(renaming):
        return lambda name: _call_rename_function(function_name, renaming, name)
    raise ArgumentError(
        f"{function_name}: names={renaming!r:.80} must be a mapping of words to words, or a function of a name"
    )


def join_name(*parts: str) -> str:
    """Return the non-empty parts of a name, joined with dots."""
    return ".".join(part for part in parts if part)


def _replace_words(name: str, replacements: list[tuple[str, str | None]]) -> str | None:
    """Replace the first occurrence of each sequence of words in a name; return None if its replacement is None."""
    for old, new in replacements:
        position = f".{name}.".find(f".{old}.")
        if position < 0:
            continue
        if new is None:
            return None
        before, after = name[:position].rstrip("."), name[position + len(old) :].lstrip(".")
        name = join_name(before, new, after)
    return name


def _call_rename_function(
    function_name: str, rename: Callable[[str], Any], name: str
) -> str | None:
    """Return the new name that a program's function gives, checked."""
    new = rename(name)
    if not isinstance(new, str | None):
        raise ArgumentError(
            f"{function_name}: names({name!r}) returned {new!r:.80}; it must return a name, or None to leave the "
            "tensor out"
        )
    return new
