"""Every op of TensorFlow.js has its place in plugrad, or a reason why not."""

import inspect

import pytest

from consistency.tfjs import places, signatures

PLACED = [place for place in places().values() if not place.reason]
BY_STAR = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def name(place):
    return place.op


def test_no_op_is_forgotten_or_invented():
    assert len(signatures()) == 265
    assert places().keys() == signatures().keys()


@pytest.mark.parametrize("place", PLACED, ids=name)
def test_target_exists(place):
    assert callable(place.target)


@pytest.mark.parametrize("place", PLACED, ids=name)
def test_each_parameter_has_a_counterpart_or_a_reason(place):
    _, theirs = signatures()[place.op]
    ours = place.parameters
    is_open = any(p.kind in BY_STAR for p in ours.values())
    for parameter in theirs:
        if parameter in place.without:
            assert place.without[parameter]
            continue
        here = place.arguments.get(parameter, parameter)
        assert here in ours or (is_open and here == parameter), (
            f"{place.op}: {parameter} has no counterpart among {list(ours)}"
        )


@pytest.mark.parametrize("place", PLACED, ids=name)
def test_mapping_has_nothing_idle(place):
    _, theirs = signatures()[place.op]
    assert place.arguments.keys() | place.without.keys() <= set(theirs)
    assert not place.arguments.keys() & place.without.keys()
    assert all(here != there for there, here in place.arguments.items())
    for parameter in place.defaults:
        assert place.arguments.get(parameter, parameter) in place.parameters


def test_reasons_are_few():
    without = [place.op for place in places().values() if place.reason]
    assert all(places()[op].reason.strip() for op in without)
    assert len(without) <= 5
