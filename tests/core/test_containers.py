"""Transformations pass on the containers of the standard library with their types."""

from collections import OrderedDict, defaultdict
from functools import partial

import pytest

import plugrad
from core.traced_values import Point, count_traces

CONTAINERS = [dict, OrderedDict, partial(defaultdict, list), Point]


def assert_same_container(found, expected):
    assert type(found) is type(expected)
    if isinstance(expected, dict):
        assert list(found) == list(expected)
    if isinstance(expected, defaultdict):
        assert found.default_factory is list


def make_container(make):
    return make(y=plugrad.asarray([1.0, 2.0]), x=plugrad.asarray([3.0, 4.0]))


@pytest.mark.parametrize("make", CONTAINERS)
@pytest.mark.parametrize("transform", [plugrad.jit, plugrad.vmap], ids=["jit", "vmap"])
def test_arguments_and_results_keep_their_type(make, transform):
    given = make_container(make)

    def function(parts):
        assert_same_container(parts, given)
        return parts

    assert_same_container(transform(function)(given), given)


@pytest.mark.parametrize("make", CONTAINERS)
def test_gradients_have_the_type_of_their_argument(make):
    given = make_container(make)

    def loss(parts):
        assert_same_container(parts, given)
        x, y = (parts["x"], parts["y"]) if isinstance(parts, dict) else parts
        return plugrad.sum(x * x + y)

    for gradient in (plugrad.grad(loss)(given), plugrad.jit(plugrad.grad(loss))(given)):
        assert_same_container(gradient, given)
        x = gradient["x"] if isinstance(gradient, dict) else gradient.x
        assert x.tolist() == [6, 8]


@pytest.mark.parametrize("make", CONTAINERS)
def test_axes_and_carries_in_containers(make):
    given = make_container(make)
    axes = make(y=0, x=None)
    assert_same_container(plugrad.vmap(lambda p: p, in_axes=(axes,))(given), given)
    carry, _ = plugrad.scan(lambda p, x: (p, x), given, plugrad.zeros((2,)))
    assert_same_container(carry, given)


def test_the_default_of_a_dict_selects_the_trace():
    traced = plugrad.jit(lambda parts: parts["x"] + parts.default_factory())
    for default, expected in ((float, 1), (lambda: 2.0, 3), (float, 1)):
        parts = defaultdict(default, x=plugrad.asarray(1.0))
        assert traced(parts).item() == expected
    assert count_traces(traced) == 2


def test_dicts_of_other_types_become_plain_ones():
    class Named(dict):
        """A dict whose constructor nobody knows."""

    assert type(plugrad.jit(lambda p: p)(Named(x=plugrad.asarray(1.0)))) is dict
