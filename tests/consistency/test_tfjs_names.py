"""Every op of TensorFlow.js has its place in plugrad, or a reason why not."""

import inspect

from consistency.tfjs import tfjs_ops, tfjs_signatures

AVAILABLE_OPS = [place for place in tfjs_ops().values() if not place.reason]
VARIADIC_KINDS = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def test_mapped_ops_are_exactly_those_of_tensorflow_js():
    assert len(tfjs_signatures()) == 265
    assert tfjs_ops().keys() == tfjs_signatures().keys()


def test_mapped_plugrad_functions_exist():
    assert [place.op for place in AVAILABLE_OPS if not callable(place.target)] == []


def unmapped_parameters(place):
    """Return the parameters of a TensorFlow.js op that plugrad lacks and no reason excuses."""
    _, theirs = tfjs_signatures()[place.op]
    ours = place.parameters
    is_open = any(p.kind in VARIADIC_KINDS for p in ours.values())
    missing = []
    for parameter in theirs:
        here = place.arguments.get(parameter, parameter)
        has_counterpart = here in ours or (is_open and here == parameter)
        if not place.without.get(parameter) and not has_counterpart:
            missing.append(parameter)
    return missing


def test_each_parameter_has_a_counterpart_or_a_reason():
    missing = {place.op: unmapped_parameters(place) for place in AVAILABLE_OPS}
    assert {op: parameters for op, parameters in missing.items() if parameters} == {}


def test_omitted_parameters_have_a_reason():
    assert [p.op for p in AVAILABLE_OPS if not all(p.without.values())] == []


def test_mappings_have_no_unused_entries():
    for place in AVAILABLE_OPS:
        _, theirs = tfjs_signatures()[place.op]
        assert place.arguments.keys() | place.without.keys() <= set(theirs), place.op
        assert not place.arguments.keys() & place.without.keys(), place.op
        assert all(here != there for there, here in place.arguments.items()), place.op
        for parameter in place.defaults:
            assert place.arguments.get(parameter, parameter) in place.parameters, place.op


def test_few_ops_are_unavailable_and_each_has_a_reason():
    without = [place.op for place in tfjs_ops().values() if place.reason]
    assert all(tfjs_ops()[op].reason.strip() for op in without)
    assert len(without) <= 5
