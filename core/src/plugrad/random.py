"""Random numbers: the class `Generator`, and the methods of one shared generator as functions.

`shape` and `dtype` are those of the result, `device` is where it lives. The numbers are drawn on the host, so they are
the same on every backend. They are constants: no gradient flows through them.
"""

from plugrad.ops.random import (
    Generator as Generator,
    bernoulli as bernoulli,
    default as default,
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
