"""Random numbers: the class `Generator`, and the methods of one shared generator as functions.

`shape` and `dtype` are those of the result, `device` is where it is made. A seed gives the same random bits on every
backend, by Philox 4x32-10 (Salmon and others, 2011). The numbers are constants: no gradient flows through them, but
through what is computed with them, such as ``mean + std * plugrad.random.standard_normal(shape)``.
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
