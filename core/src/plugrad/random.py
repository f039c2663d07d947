"""Random numbers: a generator of them, and the functions of one that everybody shares."""

from plugrad.ops.random import (
    Generator as Generator,
    bernoulli as bernoulli,
    gamma as gamma,
    integers as integers,
    multinomial as multinomial,
    normal as normal,
    permutation as permutation,
    seed as seed,
    standard_normal as standard_normal,
    truncated_normal as truncated_normal,
    uniform as uniform,
)
