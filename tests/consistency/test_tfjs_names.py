"""Every op of TensorFlow.js has its place in plugrad, or a reason why not."""

import inspect

from consistency.tfjs import places, signatures

PLACED = [place for place in places().values() if not place.reason]
BY_STAR = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def test_no_op_is_forgotten_or_invented():
    assert len(signatures()) == 265
    assert places().keys() == signatures().keys()


def test_targets_exist():
    assert [place.op for place in PLACED if not callable(place.target)] == []


def without_counterpart(place):
    """Return the parameters of an op of TensorFlow.js that have neither a counterpart nor a reason."""
    _, theirs = signatures()[place.op]
    ours = place.parameters
    is_open = any(p.kind in BY_STAR for p in ours.values())
    missing = []
    for parameter in theirs:
        here = place.arguments.get(parameter, parameter)
        has_counterpart = here in ours or (is_open and here == parameter)
        if not place.without.get(parameter) and not has_counterpart:
            missing.append(parameter)
    return missing


def test_each_parameter_has_a_counterpart_or_a_reason():
    missing = {place.op: without_counterpart(place) for place in PLACED}
    assert {op: parameters for op, parameters in missing.items() if parameters} == {}


def test_reasons_are_written_out():
    assert [p.op for p in PLACED if not all(p.without.values())] == []


def test_mappings_have_nothing_idle():
    for place in PLACED:
        _, theirs = signatures()[place.op]
        assert place.arguments.keys() | place.without.keys() <= set(theirs), place.op
        assert not place.arguments.keys() & place.without.keys(), place.op
        assert all(here != there for there, here in place.arguments.items()), place.op
        for parameter in place.defaults:
            assert place.arguments.get(parameter, parameter) in place.parameters, place.op


def test_reasons_are_few():
    without = [place.op for place in places().values() if place.reason]
    assert all(places()[op].reason.strip() for op in without)
    assert len(without) <= 5
