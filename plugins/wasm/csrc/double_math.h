// Pairs of doubles, and the elementary functions on them that have to be fast.
#pragma once

#include "common.h"

typedef int64_t longs __attribute__((vector_size(VECTOR_BYTES)));

static inline doubles repeated(double value) { return (doubles){value, value}; }

static inline doubles choose_doubles(longs mask, doubles yes, doubles no) {
    return (doubles)((mask & (longs)yes) | (~mask & (longs)no));
}

#define LN2_DOUBLE_HIGH 0x1.62e42feep-1  // its products with exponents are exact
#define LN2_DOUBLE_LOW 0x1.a39ef35793c76p-33
#define ROUNDING 0x1.8p52  // adding it rounds to an integer, which is in the low bits of the sum

// 1/3!, 1/4!, …, and 1/3, 1/5, …: both series converge on the reduced range within 1 ulp.
static const double EXP_TERMS[] = {1. / 6227020800, 1. / 479001600, 1. / 39916800, 1. / 3628800,
                                   1. / 362880,     1. / 40320,     1. / 5040,     1. / 720,
                                   1. / 120,        1. / 24,        1. / 6,        1. / 2};
static const double LOG_TERMS[] = {1. / 21, 1. / 19, 1. / 17, 1. / 15, 1. / 13,
                                   1. / 11, 1. / 9,  1. / 7,  1. / 5,  1. / 3};

static inline doubles power_of_two_doubles(longs n) { return (doubles)((n + 1023) << 52); }

// exp(x) from the term `first` of the series on: 0 for all digits, 5 for those of float32.
static inline doubles exp_series(doubles x, int first) {
    x = choose_doubles(x < repeated(-746), repeated(-746), x);  // NaN stays
    x = choose_doubles(x > repeated(710), repeated(710), x);
    const doubles shifted =
        multiply_add_doubles(x, repeated(0x1.71547652b82fep0), repeated(ROUNDING));
    const doubles n = shifted - ROUNDING;
    doubles r = multiply_add_doubles(n, repeated(-LN2_DOUBLE_HIGH), x);
    r = multiply_add_doubles(n, repeated(-LN2_DOUBLE_LOW), r);
    doubles p = repeated(EXP_TERMS[first]);
    for (int i = first + 1; i < 12; i++) p = multiply_add_doubles(p, r, repeated(EXP_TERMS[i]));
    const doubles fraction = multiply_add_doubles(p, r * r, r);
    const longs exponent = (longs)shifted - (longs)repeated(ROUNDING), half = exponent >> 1;
    const doubles scale = power_of_two_doubles(half);
    return multiply_add_doubles(fraction, scale, scale) * power_of_two_doubles(exponent - half);
}

// log(x) of a finite x >= 2^-1022, from the term `first` of the series on: log(m 2^n) is
// n ln 2 + 2 atanh((m - 1) / (m + 1)) with m between the square roots of 1/2 and 2.
static inline doubles log_series(doubles x, int first) {
    const longs bits = (longs)x;
    longs e = (bits >> 52) - 1022;
    doubles m = (doubles)((bits & 0x000fffffffffffff) | 0x3fe0000000000000);  // in [0.5, 1)
    const longs is_low = m < repeated(0.70710678118654752440);
    e += is_low;  // a true mask is -1
    m = choose_doubles(is_low, m + m, m);
    const doubles n = (doubles)(e + (longs)repeated(ROUNDING)) - ROUNDING;
    const doubles s = (m - 1.) / (m + 1.), square = s * s;
    doubles p = repeated(LOG_TERMS[first]);
    for (int i = first + 1; i < 10; i++)
        p = multiply_add_doubles(p, square, repeated(LOG_TERMS[i]));
    const doubles rest = multiply_add_doubles(n, repeated(LN2_DOUBLE_LOW), 2. * s * square * p);
    return multiply_add_doubles(n, repeated(LN2_DOUBLE_HIGH), 2. * s + rest);
}

static inline doubles exp_doubles(doubles x) { return exp_series(x, 0); }

static inline doubles log_doubles(doubles x) {
    const longs is_denormal = x < repeated(0x1p-1022);
    doubles y = log_series(choose_doubles(is_denormal, x * 0x1p54, x), 0);
    y -= choose_doubles(is_denormal, repeated(54 * 0.69314718055994530942), repeated(0));
    y = choose_doubles(x == repeated(__builtin_inf()), x, y);
    y = choose_doubles(x == repeated(0), repeated(-__builtin_inf()), y);
    return choose_doubles((x < repeated(0)) | (x != x), repeated(__builtin_nan("")), y);
}
