"""plugrad has every name of the Python array API standard 2024.12, with the standard's parameters."""

import inspect

import array_api_strict as standard
import pytest

import plugrad

NAMESPACES = ("", "linalg", "fft")
# What array-api-strict has beside the standard: switches of its own.
NAMES_OUTSIDE_OF_THE_STANDARD = {
    *("ArrayAPIStrictFlags", "get_array_api_strict_flags", "reset_array_api_strict_flags"),
    *("set_array_api_strict_flags", "Device"),
}
POSITIONAL_KINDS = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def namespace(package, name):
    return getattr(package, name) if name else package


def standard_names(space):
    """Return the standard's public names in a namespace."""
    module = namespace(standard, space)
    return [
        n
        for n in module.__all__
        if not n.startswith("_")
        and n not in NAMES_OUTSIDE_OF_THE_STANDARD
        and not inspect.ismodule(getattr(module, n))
    ]


STANDARD_NAMES = [(space, n) for space in NAMESPACES for n in standard_names(space)]
STANDARD_FUNCTIONS = [
    (space, n)
    for space, n in STANDARD_NAMES
    if inspect.isfunction(getattr(namespace(standard, space), n))
]


def parameter_id(value):
    return ".".join(part for part in value if part)


@pytest.mark.parametrize("place", STANDARD_NAMES, ids=parameter_id)
def test_standard_name_exists(place):
    space, name = place
    assert hasattr(namespace(plugrad, space), name), f"plugrad has no {parameter_id(place)}"


@pytest.mark.parametrize("place", STANDARD_FUNCTIONS, ids=parameter_id)
def test_function_accepts_the_calls_of_the_standard(place):
    """Each call that the standard allows is allowed, and its arguments have the same meanings.

    What is positional-only in the standard may have another name here; whatever comes beyond the
    standard's parameters has a default.
    """
    space, name = place
    wanted = list(inspect.signature(getattr(namespace(standard, space), name)).parameters.values())
    have = list(inspect.signature(getattr(namespace(plugrad, space), name)).parameters.values())
    by_position = [p for p in wanted if p.kind in POSITIONAL_KINDS]
    mine = [p for p in have if p.kind in POSITIONAL_KINDS]
    for theirs, ours in zip(by_position, mine, strict=False):
        assert defaults_agree(theirs, ours)
        if theirs.kind is not inspect.Parameter.POSITIONAL_ONLY:
            assert ours.name == theirs.name
            assert ours.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    is_open = any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in have)
    assert len(mine) >= len(by_position) or is_open, f"{have} lacks one of {by_position}"
    by_name = {p.name: p for p in have if p.kind is not inspect.Parameter.POSITIONAL_ONLY}
    for theirs in wanted:
        if theirs.kind is inspect.Parameter.KEYWORD_ONLY:
            assert theirs.name in by_name, f"no keyword {theirs.name}"
            assert defaults_agree(theirs, by_name[theirs.name])
        if theirs.kind is inspect.Parameter.VAR_POSITIONAL:
            assert is_open
    known = {p.name for p in wanted} | {p.name for p in mine[: len(by_position)]}
    for ours in have:
        if ours.name not in known and ours.kind is not inspect.Parameter.VAR_POSITIONAL:
            assert ours.default is not inspect.Parameter.empty, f"{ours.name} needs a default"


def defaults_agree(theirs, ours):
    """Whether omitting an argument has the same effect; plugrad may have a default where the standard has none."""
    if theirs.default is inspect.Parameter.empty:
        return True
    if isinstance(theirs.default, float):
        return float(ours.default) == theirs.default
    # array-api-strict has a value of its own for what the standard leaves out.
    is_absent = callable(theirs.default) or type(theirs.default).__name__ == "Undef"
    return ours.default == theirs.default or is_absent


def test_array_api_version_is_the_standards():
    assert plugrad.__array_api_version__ == "2024.12" <= standard.__array_api_version__
