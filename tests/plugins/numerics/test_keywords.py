"""Every function with options names the right one if a keyword is wrong."""

import inspect

import pytest

from plugrad.errors import ArgumentError
from plugrad_numerics import filters, integrate, interpolate, optimize, special

FUNCTIONS_WITH_OPTIONS = [
    function
    for page in (filters, integrate, interpolate, optimize, special)
    for name, function in vars(page).items()
    if inspect.isfunction(function)
    and any(p.default is not p.empty for p in inspect.signature(function).parameters.values())
]


@pytest.mark.parametrize("function", FUNCTIONS_WITH_OPTIONS, ids=lambda f: f.__name__)
def test_a_wrong_keyword_tells_the_signature(function):
    name = function.__name__
    with pytest.raises(ArgumentError, match=rf"{name}: it has no argument 'wrong'; write {name}\("):
        function(wrong=1)


def test_the_functions_with_options_are_found():
    assert len(FUNCTIONS_WITH_OPTIONS) > 10
