// Pairs of doubles, and the elementary functions on them that have to be fast.
#pragma once

#include "common.h"

static inline doubles repeated(double value) { return value - (doubles){}; }

static inline doubles choose_doubles(longs mask, doubles yes, doubles no) {
#ifdef __wasm_relaxed_simd__  // one instruction instead of three
    return (doubles)__builtin_wasm_relaxed_laneselect_i64x2((longs)yes, (longs)no, mask);
#else
    return (doubles)((mask & (longs)yes) | (~mask & (longs)no));
#endif
}

static inline doubles larger_doubles(doubles x, doubles y) {
#ifdef __wasm__
    return __builtin_wasm_pmax_f64x2(x, y);  // x < y ? y : x
#else
    return choose_doubles(x < y, y, x);
#endif
}

static inline doubles lesser_doubles(doubles x, doubles y) {
#ifdef __wasm__
    return __builtin_wasm_pmin_f64x2(x, y);  // y < x ? y : x
#else
    return choose_doubles(y < x, y, x);
#endif
}

#define LN2_DOUBLE_HIGH 0x1.62e42feep-1  // its products with exponents are exact
#define LN2_DOUBLE_LOW 0x1.a39ef35793c76p-33
#define ROUNDING 0x1.8p52  // adding it rounds to an integer, which is in the low bits of the sum

// Polynomials with the least error on the reduced range, 2^-56: p(r) of exp(r) = 1 + r + r^2 p(r),
// and q(z) of atanh(s) = s + s z q(z) with z = s^2.
static const double EXP_TERMS[] = {0x1.af38d53857513p-26, 0x1.2891a8c1d838dp-22,
                                   0x1.71de0d9c145d0p-19, 0x1.a019b8ef67c6cp-16,
                                   0x1.a01a01a7c8d47p-13, 0x1.6c16c17893833p-10,
                                   0x1.11111111109adp-7,  0x1.5555555553d4fp-5,
                                   0x1.5555555555556p-3,  0x1.0000000000001p-1};
static const double LOG_TERMS[] = {0x1.2b5f68a50d903p-4, 0x1.39fdcceb4bb45p-4,
                                   0x1.7462b91b8df65p-4, 0x1.c71c62d5e53e0p-4,
                                   0x1.2492492dfd86cp-3, 0x1.9999999995273p-3,
                                   0x1.5555555555558p-2};

// The upper half of the digits of x, so that the product of two such numbers is exact.
static inline doubles upper_half(doubles x) { return (doubles)((longs)x & ~0x7ffffff); }

static inline doubles absolute_doubles(doubles x) {
    longs mask = (longs){} + INT64_MAX;
    OPAQUE(mask);
    return (doubles)((longs)x & mask);
}

static inline doubles with_sign_of_doubles(doubles sign, doubles magnitude) {
    return (doubles)((longs)magnitude | ((longs)sign & INT64_MIN));
}

static inline doubles power_of_two_doubles(longs n) { return (doubles)((n + 1023) << 52); }

// A polynomial of x with an even number of terms, the highest first. Even and odd powers are summed
// apart, because each sum waits for the one before it.
static inline doubles polynomial(const double *terms, int count, doubles x, doubles square) {
    doubles odd = repeated(terms[0]), even = repeated(terms[1]);
    for (int i = 2; i < count; i += 2) {
        odd = multiply_add_doubles(odd, square, repeated(terms[i]));
        even = multiply_add_doubles(even, square, repeated(terms[i + 1]));
    }
    return multiply_add_doubles(odd, x, even);
}

// exp(r) - 1 of |r| <= ln 2 / 2
static inline doubles exp_fraction(doubles r) {
    const doubles square = r * r;
    return multiply_add_doubles(polynomial(EXP_TERMS, 10, r, square), square, r);
}

// The parts of x = n ln 2 + r, and exp(r) - 1.
typedef struct {
    longs n;
    doubles fraction;
} exponent_of_doubles;

static inline exponent_of_doubles split_small_exponent(doubles x) {
    const doubles shifted =
        multiply_add_doubles(x, repeated(0x1.71547652b82fep0), repeated(ROUNDING));
    const doubles n = shifted - ROUNDING;
    doubles r = multiply_add_doubles(n, repeated(-LN2_DOUBLE_HIGH), x);
    r = multiply_add_doubles(n, repeated(-LN2_DOUBLE_LOW), r);
    return (exponent_of_doubles){(longs)shifted - (longs)repeated(ROUNDING), exp_fraction(r)};
}

// The same for all x: beyond [-746, 710], exp is 0 and infinity.
static inline exponent_of_doubles split_exponent_doubles(doubles x) {
    x = choose_doubles(x < repeated(-746), repeated(-746), x);  // NaN stays
    return split_small_exponent(choose_doubles(x > repeated(710), repeated(710), x));
}

// n / 2, rounded down, of |n| < 2^31. Processors shift 64-bit integers slowly.
static inline longs half_of_longs(longs n) { return (longs)((ints)n >> 1); }

// (1 + fraction) 2^n, applied in two halves, so that denormal results round.
static inline doubles scaled_fraction(doubles fraction, longs n) {
    const longs half = half_of_longs(n);
    const doubles scale = power_of_two_doubles(half);
    return multiply_add_doubles(fraction, scale, scale) * power_of_two_doubles(n - half);
}

#ifdef __wasm__
#include "powers.h"

// exp(r) = 1 + r + r^2 p(r) of |r| <= ln(2) / 128, within 2^-65.
#define EXP_TERM(i) repeated(NEAR_EXP_TERMS[i])
static const double NEAR_EXP_TERMS[] = {0x1.ffffffffff579p-2, 0x1.5555555555253p-3,
                                        0x1.55556b389e49dp-5, 0x1.11111d92f1876p-7};

// With x = (64 n + i) ln(2) / 64 + r, it is 2^n 2^(i / 64) exp(r). This is 64 n + i, 2^(i / 64), and exp(r) - 1.
typedef struct {
    longs n;
    doubles power, fraction;
} split_power;

static inline split_power split_doubles_power(doubles x) {
    const doubles shifted =
        multiply_add_doubles(x, repeated(0x1.71547652b82fep6), repeated(ROUNDING));
    const doubles n = shifted - ROUNDING;
    doubles r = multiply_add_doubles(n, repeated(-LN2_DOUBLE_HIGH / 64), x);
    r = multiply_add_doubles(n, repeated(-LN2_DOUBLE_LOW / 64), r);
    const ints places = (ints)shifted << 4 & 63 << 4;
    doubles first, second;
    memcpy(&first, (const char *)POWERS + places[0], sizeof first);
    memcpy(&second, (const char *)POWERS + places[2], sizeof second);
    const doubles error = __builtin_shufflevector(first, second, 1, 3), square = r * r;
    const doubles low = multiply_add_doubles(EXP_TERM(1), r, EXP_TERM(0));
    const doubles high = multiply_add_doubles(EXP_TERM(3), r, EXP_TERM(2));
    const doubles p = multiply_add_doubles(high, square, low);
    return (split_power){(longs)shifted, __builtin_shufflevector(first, second, 0, 2),
                         multiply_add_doubles(p, square, r + error)};
}

// exp(x) of |x| <= USUAL, where no result is denormal.
#define USUAL 708
static inline doubles exp_usual_doubles(doubles x) {
    const split_power y = split_doubles_power(x);
    const doubles scale =
        (doubles)((longs)y.power + (longs)((unsigned_longs)y.n >> 6 << 52));
    return multiply_add_doubles(scale, y.fraction, scale);
}

static inline longs is_usual(doubles x) { return absolute_doubles(x) <= repeated(USUAL); }
static inline int are_usual_doubles(const doubles *x) {
    return !any_lane((ints) ~(is_usual(x[0]) & is_usual(x[1]) & is_usual(x[2]) & is_usual(x[3])));
}

// The same of any x, with the power of two in two halves, so that denormal results round.
static inline doubles exp_doubles(doubles x) {
    x = choose_doubles(x < repeated(-746), repeated(-746), x);  // NaN stays
    x = choose_doubles(x > repeated(710), repeated(710), x);
    const split_power y = split_doubles_power(x);
    const ints parts = (ints)(y.n - (longs)repeated(ROUNDING));
    const longs half = (longs)(parts >> 7), others = (longs)(parts >> 6) - half;
    return multiply_add_doubles(y.power, y.fraction, y.power) * power_of_two_doubles(half) *
           power_of_two_doubles(others);
}
#else
static inline doubles exp_doubles(doubles x) {
    const exponent_of_doubles e = split_exponent_doubles(x);
    return scaled_fraction(e.fraction, e.n);
}
#endif

static inline doubles expm1_doubles(doubles x) {
    const exponent_of_doubles e = split_exponent_doubles(x);
    const longs half = half_of_longs(e.n), rest = e.n - half;
    const doubles scale = power_of_two_doubles(half);
    const doubles y =
        (e.fraction * scale + (scale - power_of_two_doubles(-rest))) * power_of_two_doubles(rest);
    return choose_doubles(x == repeated(0), x, y);  // keeps the sign of zero
}

// The parts of a finite x >= 2^-1022: x = m 2^n with m between the square roots of 1/2 and 2.
typedef struct {
    doubles m, n;
} scaled_doubles;

static inline scaled_doubles split_doubles(doubles x) {
    longs e = (longs)((unsigned_longs)x >> 52) - 1022;  // x is positive
    doubles m = (doubles)(((longs)x & 0x000fffffffffffff) | 0x3fe0000000000000);  // in [0.5, 1)
    const longs is_low = m < repeated(0.70710678118654752440);
    e += is_low;  // a true mask is -1
    return (scaled_doubles){choose_doubles(is_low, m + m, m),
                            (doubles)(e + (longs)repeated(ROUNDING)) - ROUNDING};
}

// Which lanes are not positive, normal and finite: one comparison of their bits.
static inline longs unusual_doubles(doubles x) {
    const longs bits = (longs)((unsigned_longs)x - (0x0010000000000000 + (1ull << 63)));
    return bits >= INT64_MIN + 0x7fe0000000000000;
}

// n ln 2 + 2 atanh((m - 1) / (m + 1))
static inline doubles log_doubles(doubles x) {
    const int is_unusual = any_lane((ints)unusual_doubles(x));
    scaled_doubles p = split_doubles(x);
    if (is_unusual) {
        const longs is_denormal = x < repeated(0x1p-1022);
        p = split_doubles(choose_doubles(is_denormal, x * 0x1p54, x));
        p.n -= choose_doubles(is_denormal, repeated(54), repeated(0));
    }
    const doubles s = (p.m - 1.) / (p.m + 1.), square = s * s;
    doubles q = repeated(LOG_TERMS[0]);
    for (int i = 1; i < 7; i++) q = multiply_add_doubles(q, square, repeated(LOG_TERMS[i]));
    const doubles rest =
        multiply_add_doubles(p.n, repeated(LN2_DOUBLE_LOW), 2. * s * square * q);
    doubles y = multiply_add_doubles(p.n, repeated(LN2_DOUBLE_HIGH), 2. * s + rest);
    if (!is_unusual) return y;
    y = choose_doubles(x == repeated(__builtin_inf()), x, y);
    y = choose_doubles(x == repeated(0), repeated(-__builtin_inf()), y);
    return choose_doubles((x < repeated(0)) | (x != x), repeated(__builtin_nan("")), y);
}

// log(1 + x), corrected for the rounding error of 1 + x.
static inline doubles log1p_doubles(doubles x) {
    const doubles sum = x + 1.;
    const doubles y = log_doubles(sum) + (x - (sum - 1.)) / sum;
    const longs is_itself = (x == repeated(0)) | (x == repeated(__builtin_inf()));
    return choose_doubles(is_itself, x,
                          choose_doubles(sum == repeated(0), repeated(-__builtin_inf()), y));
}

static inline doubles tanh_doubles(doubles x) {
    const doubles magnitude = absolute_doubles(x);
    const longs is_large = magnitude > repeated(30);
    const doubles e = expm1_doubles(choose_doubles(is_large, repeated(60), magnitude + magnitude));
    return with_sign_of_doubles(x, e / (e + 2.));
}

// ---- the error function ----

// Quotients of polynomials, from Cody, Math. Comp. 23 (1969), 631: erf(x) = x p(x^2) / q(x^2) near 0, and
// (q(x) - exp(-x^2) p(x)) / q(x) elsewhere; the highest power first.
static const double ERF_NEAR[2][5] = {
    {0.185777706184603153, 3.16112374387056560, 113.864154151050156, 377.485237685302021,
     3209.37758913846947},
    {1, 23.6012909523441209, 244.024637934444173, 1282.61652607737228, 2844.23683343917062}};
static const double ERF_FAR[2][9] = {
    {2.15311535474403846e-8, 0.564188496988670089, 8.88314979438837594, 66.1191906371416295,
     298.635138197400131, 881.952221241769090, 1712.04761263407058, 2051.07837782607147,
     1230.33935479799725},
    {1, 15.7449261107098347, 117.693950891312499, 537.181101862009858, 1621.38957456669019,
     3290.79923573345963, 4362.61909014324716, 3439.36767414372164, 1230.33935480374942}};

// The same with an odd number of terms.
static inline doubles odd_polynomial(const double *terms, int count, doubles x, doubles square) {
    return multiply_add_doubles(polynomial(terms, count - 1, x, square), x,
                                repeated(terms[count - 1]));
}

static inline doubles erf_doubles(doubles x) {
    doubles m = absolute_doubles(x);
    m = choose_doubles(m > repeated(6), repeated(6), m);  // where erf has reached 1
    const doubles square = m * m, fourth = square * square;
    const longs is_near = m < repeated(0.477);  // where erf reaches 1/2
    doubles above = m * odd_polynomial(ERF_NEAR[0], 5, square, fourth);
    doubles below = odd_polynomial(ERF_NEAR[1], 5, square, fourth);
    if (any_lane((ints)~is_near)) {
        const exponent_of_doubles e = split_small_exponent(-square);
        const doubles scale = power_of_two_doubles(e.n);
        const doubles q = odd_polynomial(ERF_FAR[1], 9, m, square);
        const doubles p = odd_polynomial(ERF_FAR[0], 9, m, square);
        const doubles power = multiply_add_doubles(e.fraction, scale, scale);
        above = choose_doubles(is_near, above, multiply_add_doubles(-power, p, q));
        below = choose_doubles(is_near, below, q);
    }
    return with_sign_of_doubles(x, above / below);
}

// ---- powers ----

// The lower coefficients of 3 atanh(s) / s = 3 + z + z^2 p(z) with z = s^2, for the least error.
static const double POWER_TERMS[] = {0x1.6821d31d0095ap-3, 0x1.679daf3d0d998p-3,
                                     0x1.99a52aec35745p-3, 0x1.d89d60bf76d8fp-3,
                                     0x1.1745d19beb580p-2, 0x1.555555552ffeap-2,
                                     0x1.b6db6db6db7b2p-2, 0x1.3333333333333p-1};

// 2 / (3 ln 2)
#define SCALE 0x1.ec709dc3a03fdp-1
#define SCALE_HIGH 0x1.ec709d8p-1
#define SCALE_LOW 0x1.0e80ff5d27f05p-27

// a^b = 2^(b log2 a) of a >= 2^-1022 and finite b. The exponential magnifies errors of the product,
// so that it and the logarithm have twice the digits: upper halves, and what they leave out.
//
// Each of the four steps is a loop over many numbers: a processor looks ahead over so few operations
// that it would wait for most results in a loop with all of them.
typedef struct {
    doubles high, low;
} product_doubles;

// a = m 2^n, and s = (m - 1) / (m + 1) in two parts.
typedef struct {
    doubles n, s, s_low;
} quotient_doubles;

static inline quotient_doubles quotient_of_doubles(doubles a) {
    const scaled_doubles p = split_doubles(a);
    const doubles above = p.m + 1., high = upper_half(above), low = p.m - (high - 1.);
    const doubles inverse = 1. / above, s = (p.m - 1.) * inverse, s_high = upper_half(s);
    const doubles s_low = (((p.m - 1.) - s_high * high) - s_high * low) * inverse;
    return (quotient_doubles){p.n, s, s_low};
}

// 3 atanh(s)
static inline product_doubles atanh_of_doubles(quotient_doubles of) {
    const doubles s = of.s, s_high = upper_half(s);
    const doubles z = s * s, z_high = s_high * s_high;
    const doubles square = z * z, q = polynomial(POWER_TERMS, 8, z, square);
    const doubles rest = multiply_add_doubles(square, q, of.s_low * (s_high + s));
    const doubles t_high = upper_half(3. + z_high + rest);  // atanh(s) = s t / 3
    const doubles t_low = rest - ((t_high - 3.) - z_high);
    const doubles u = s_high * t_high, v = of.s_low * t_high + t_low * s;
    const doubles w_high = upper_half(u + v);
    return (product_doubles){w_high, v - (w_high - u)};
}

static inline product_doubles product_of_doubles(product_doubles w, doubles n, doubles b) {
    const doubles x = w.high * SCALE_HIGH, y = w.high * SCALE_LOW + w.low * SCALE;
    const doubles log_high = upper_half((x + y) + n), log_low = y - ((log_high - n) - x);
    const doubles b_high = upper_half(b);
    doubles product = b_high * log_high, lower = (b - b_high) * log_high + b * log_low;
    lower = (doubles)((longs)lower & (absolute_doubles(product) < repeated(1100)));
    product = lesser_doubles(larger_doubles(product, repeated(-1100)), repeated(1100));
    return (product_doubles){product, lower};
}

static inline doubles power_of_doubles(product_doubles product) {
    const doubles shifted = product.high + ROUNDING;
    const doubles r = ((product.high - (shifted - ROUNDING)) + product.low) * 0.69314718055994530942;
    return scaled_fraction(exp_fraction(r), (longs)shifted - (longs)repeated(ROUNDING));
}
