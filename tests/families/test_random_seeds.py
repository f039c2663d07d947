"""Seeds that are functions, and draws in traced functions, which ask for new numbers in each call."""

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


DRAWS_FOR_A_TENSOR = {
    "dropout": lambda x: plugrad.dropout(x, 0.5),
    "multinomial": lambda x: plugrad.random.multinomial(x[None], 8),
    "normal": lambda x: plugrad.random.normal((8,), device=x.backend),
}
"""By name: a function of a tensor that draws random numbers from the default generator."""


@pytest.mark.parametrize("draw", DRAWS_FOR_A_TENSOR.values(), ids=DRAWS_FOR_A_TENSOR)
def test_traced_functions_draw_anew_for_a_tensor_from_outside(draw, backend):
    """Each call, each iteration of a loop, and only the branch that is chosen draw numbers."""
    ones = plugrad.ones(8)

    def draw_in_loop(x):
        _, rows = plugrad.scan(lambda carry, _: (carry, draw(x)), 0.0, length=3)
        return plugrad.cond(x[0] > 0, lambda: rows, lambda: rows + draw(x))

    def results_after_seed(read_constant, read_argument):
        plugrad.random.seed(1)
        results = [*(read_constant() for _ in range(2)), read_argument(ones)]
        return [x.numpy() for x in (*results, plugrad.random.uniform((3,)))]

    found = results_after_seed(plugrad.jit(lambda: draw(ones)), plugrad.jit(draw_in_loop))
    expected = results_after_seed(lambda: draw(ones), draw_in_loop)
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_array_equal(x, y)


def test_gradients_of_traced_loops_drop_elements_of_a_tensor_from_outside(backend):
    def total(x):
        return plugrad.scan(
            lambda c, _: (c + plugrad.sum(plugrad.dropout(x, 0.5) * x), None), 0.0, length=3
        )[0]

    gradients = []
    for traced in (
        plugrad.jit(plugrad.grad(total)),
        plugrad.grad(plugrad.jit(total)),
        plugrad.grad(total),
    ):
        plugrad.random.seed(1)
        gradients.append(traced(plugrad.ones(8)).tolist())
    assert gradients[0] == gradients[1] == gradients[2]


def draw_two():
    return plugrad.random.normal((2,))


def draw_in_scan(draw=draw_two):
    _, rows = plugrad.scan(lambda carry, _: (carry, draw()), 0.0, length=2)
    return plugrad.reshape(rows, (4,))


def seed_and_return(seed, x):
    plugrad.random.seed(seed)
    return x


def draw_from_local_generator():
    generator = plugrad.random.Generator(5)
    return plugrad.concat([draw_in_scan(lambda: generator.normal((2,))), generator.normal((2,))])


def draw_from_spawned_generator(x):
    return plugrad.random.default.spawn(2)[1].normal((2,)) * x


def draw_in_branch(is_chosen):
    def seed_and_draw():
        plugrad.random.seed(3)
        return draw_two()

    return plugrad.cond(is_chosen, seed_and_draw, lambda: plugrad.zeros(2))


PROGRAMS_WITH_SEEDS = {
    "seed": lambda x: seed_and_return(3, x),
    "draw, seed": lambda x: seed_and_return(3, draw_two()),
    "draw, seed, draw": lambda x: plugrad.concat([seed_and_return(3, draw_two()), draw_two()]),
    "seed, loop": lambda x: seed_and_return(3, plugrad.asarray(0.0)) + draw_in_scan(),
    "seed, draw, loop, draw": lambda x: plugrad.concat(
        [seed_and_return(3, x), draw_two(), draw_in_scan(), draw_two()]
    ),
    "loop that seeds, draw": lambda x: plugrad.concat(
        [draw_in_scan(lambda: seed_and_return(3, draw_two())), draw_two()]
    ),
    "generator of the function": lambda x: draw_from_local_generator(),
    "chosen branch that seeds": lambda x: plugrad.concat([draw_in_branch(x[0] > 0), draw_two()]),
    "other branch that seeds": lambda x: plugrad.concat([draw_in_branch(x[0] < 0), draw_two()]),
    "spawn": draw_from_spawned_generator,
}
"""By what it does: a function of a tensor that seeds the default generator, or draws from it."""


@pytest.mark.parametrize("program", PROGRAMS_WITH_SEEDS.values(), ids=PROGRAMS_WITH_SEEDS)
def test_traced_functions_move_generators_as_untraced_ones_do(program, backend):
    """Two calls draw the same numbers with and without a trace, and so does what comes after each of them."""
    x = plugrad.ones(2)

    def square_of_sum(x):
        return plugrad.sum(program(x)) * plugrad.sum(x)

    def results_after_seed(function):
        plugrad.random.seed(1)
        results = [y for _ in range(2) for y in (function(x), plugrad.random.uniform((2,)))]
        return np.concatenate([y.numpy() for y in results])

    for traced, plain in (
        (plugrad.jit(program), program),
        (plugrad.grad(plugrad.jit(square_of_sum)), plugrad.grad(square_of_sum)),
        (plugrad.jit(plugrad.grad(square_of_sum)), plugrad.grad(square_of_sum)),
    ):
        found, expected = results_after_seed(traced), results_after_seed(plain)
        np.testing.assert_allclose(found, expected, rtol=1e-5)
