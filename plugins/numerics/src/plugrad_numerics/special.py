"""Special functions: names and conventions of SciPy.

They are composed of ops, so they run on every backend and have gradients to any order. They compute in double
precision where the device has it. There, the tests find these functions within 4 units in the last place of mpmath:
gammaln, digamma, gamma above -5, trigamma, polygamma, betaln, beta, gammainc, gammaincc, betainc, erfcx,
erfc, erfinv, erfcinv, ndtr, log_ndtr, ndtri, Bessel functions, exponential integrals, zeta, logcumsumexp, log1mexp,
logit, expit, log_expit, entr, rel_entr, kl_div, xlogy, xlog1py. The unit for J and Y is that of their amplitude,
because they are 0 at places that are no floating-point numbers. Beside its roots below -32, which are no such numbers
either, digamma has an absolute error near 1e-20.
jv, yv, iv, ive, kv and kve are as exact up to an order of 17.
Orders are numbers from -64 to 64 and have no gradient: the first call with an order computes tables for it, for tenths
of a second up to an order of 16, for up to ten seconds at 64.
"""

from plugrad_numerics.bessel import (
    i0 as i0,
    i0e as i0e,
    i1 as i1,
    i1e as i1e,
    j0 as j0,
    j1 as j1,
    k0 as k0,
    k0e as k0e,
    k1 as k1,
    k1e as k1e,
    y0 as y0,
    y1 as y1,
)
from plugrad_numerics.bessel_orders import (
    iv as iv,
    ive as ive,
    jv as jv,
    kv as kv,
    kve as kve,
    yv as yv,
)
from plugrad_numerics.entropies import (
    entr as entr,
    expit as expit,
    kl_div as kl_div,
    log1mexp as log1mexp,
    log_expit as log_expit,
    logcumsumexp as logcumsumexp,
    logit as logit,
    rel_entr as rel_entr,
    xlog1py as xlog1py,
    xlogy as xlogy,
)
from plugrad_numerics.error_functions import (
    erfc as erfc,
    erfcinv as erfcinv,
    erfcx as erfcx,
    erfinv as erfinv,
    log_ndtr as log_ndtr,
    ndtr as ndtr,
    ndtri as ndtri,
)
from plugrad_numerics.gamma_functions import (
    beta as beta,
    betaln as betaln,
    digamma as digamma,
    gamma as gamma,
    gammaln as gammaln,
    multigammaln as multigammaln,
    trigamma as trigamma,
)
from plugrad_numerics.incomplete import (
    betainc as betainc,
    gammainc as gammainc,
    gammaincc as gammaincc,
)
from plugrad_numerics.integrals import (
    exp1 as exp1,
    expi as expi,
    expn as expn,
    zeta as zeta,
)
from plugrad_numerics.polygamma import polygamma as polygamma
