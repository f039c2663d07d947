"""A wrong keyword of an op is an ArgumentError, which names the right one."""

import inspect

import pytest

import plugrad
from plugrad.errors import ArgumentError
from plugrad.types.arguments import KEYWORDS_OF_OTHER_FRAMEWORKS

PAGES = ("", "fft", "image", "linalg", "losses", "random", "signal", "sparse", "einops")
OTHERS = {("attention", "weight"), ("diagonal", "bias"), ("trace", "bias")}
"""Ops with an argument of such a name that means something else."""


def find_ops():
    """Yield the functions of the public pages that have an argument which other frameworks call otherwise."""
    for page in PAGES:
        module = getattr(plugrad, page) if page else plugrad
        for name in dir(module):
            function = getattr(module, name)
            if name.startswith("_") or not inspect.isfunction(function):
                continue
            parameters = inspect.signature(function).parameters
            for wrong, right in KEYWORDS_OF_OTHER_FRAMEWORKS.items():
                known = [r for r in right if r in parameters]
                if (name, wrong) in OTHERS or takes_any(parameters) or wrong in parameters:
                    continue
                if known:
                    yield pytest.param(function, wrong, known[0], id=f"{page}.{name} {wrong}")


def takes_any(parameters):
    return any(p.kind is p.VAR_KEYWORD for p in parameters.values())


@pytest.mark.parametrize(("op", "wrong", "right"), list(find_ops()))
def test_a_wrong_keyword_names_the_right_one(op, wrong, right):
    given = [
        plugrad.ones((2, 2))
        for p in inspect.signature(op).parameters.values()
        if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    with pytest.raises(ArgumentError, match=f"no argument '{wrong}'.*did you mean '{right}'"):
        op(*given, **{wrong: 0})
