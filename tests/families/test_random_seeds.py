"""Seeds that are functions: each draw asks for the seed."""

import numpy as np
import pytest

import plugrad
from plugrad.errors import ArgumentValueError


def test_a_seed_may_be_a_function(backend):
    """Each draw calls the function; a traced program calls it in each run."""
    step = [0]

    def draw(generator):
        return [
            generator.uniform((3,)),
            generator.normal((2,)),
            *(g.uniform((2,)) for g in generator.spawn(3)),
        ]

    traced = plugrad.jit(lambda: draw(plugrad.random.Generator(lambda: step[0])))
    found = []
    for step[0] in (5, 6, 2**70):
        expected = draw(plugrad.random.Generator(step[0]))
        for drawn in (draw(plugrad.random.Generator(lambda: step[0])), traced(), traced()):
            for a, b in zip(drawn, expected, strict=True):
                np.testing.assert_array_equal(a.numpy(), b.numpy())
        found.append(expected[0].tolist())
    assert found[0] != found[1] != found[2]
    generator = plugrad.random.Generator(lambda: step[0])
    assert generator.state == plugrad.random.Generator(step[0]).state
    with pytest.raises(ArgumentValueError, match="seed=-1"):
        plugrad.random.Generator(lambda: -1).uniform(2)
