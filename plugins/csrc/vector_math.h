// Elementary functions on vectors of floats, each within a few units in the last place.
//
// The polynomials are those of Cephes (Moshier, single precision). All functions propagate NaN.
#pragma once

#include <math.h>

#include "common.h"

#define LN2 0.69314718f
#define LN2_HIGH 0.693359375f
#define LN2_LOW -2.12194440e-4f

static inline floats larger(floats x, floats y) {
#ifdef __wasm__
    return __builtin_wasm_pmax_f32x4(x, y);  // x < y ? y : x
#else
    return choose(x < y, y, x);
#endif
}

static inline floats lesser(floats x, floats y) {
#ifdef __wasm__
    return __builtin_wasm_pmin_f32x4(x, y);  // y < x ? y : x
#else
    return choose(y < x, y, x);
#endif
}

// NaN stays.
static inline floats at_least(floats x, float least) { return larger(x, splat(least)); }
static inline floats at_most(floats x, float most) { return lesser(x, splat(most)); }

// 2 to the power of integers between -126 and 127.
static inline floats power_of_two(ints n) { return (floats)((n + 127) << 23); }

// exp(r) - 1 where |r| <= ln 2 / 2.
static inline floats exp_fraction_of_floats(floats r) {
    floats p = splat(1.9875691500e-4f);
    p = multiply_add(p, r, splat(1.3981999507e-3f));
    p = multiply_add(p, r, splat(8.3334519073e-3f));
    p = multiply_add(p, r, splat(4.1665795894e-2f));
    p = multiply_add(p, r, splat(1.6666665459e-1f));
    p = multiply_add(p, r, splat(5.0000001201e-1f));
    return multiply_add(p, r * r, r);
}

// The parts of x = n ln 2 + r with |r| <= ln 2 / 2, and exp(r) - 1.
typedef struct {
    ints n;
    floats fraction;
} exponent;

static inline exponent split_exponent(floats x) {
    const floats magic = splat(12582912.f);  // 1.5 * 2^23: adding it rounds to an integer
    const floats shifted = multiply_add(x, splat(1.44269504088896341f), magic);
    const floats n = shifted - magic;
    floats r = multiply_add(n, splat(-LN2_HIGH), x);
    r = multiply_add(n, splat(-LN2_LOW), r);
    return (exponent){(ints)shifted - (ints)magic, exp_fraction_of_floats(r)};
}

// Outside of [-104, 89] the results are 0 and infinity; comparisons let NaN through.
static inline floats clamp_exponent(floats x) {
    return at_most(at_least(x, -104.f), 89.f);
}

// The power of two is applied in two halves, so that denormal results round and 2^128 exists.
static inline floats exp_floats(floats x) {
    const exponent e = split_exponent(clamp_exponent(x));
    const ints half = e.n >> 1;
    const floats scale = power_of_two(half);
    return multiply_add(e.fraction, scale, scale) * power_of_two(e.n - half);
}

// Whether multiply_add rounds once, which a WebAssembly module only sees when it runs.
static inline int is_fused(void) {
    const volatile float factor = 1 + 0x1p-12f;  // the compiler would compute with one rounding
    return multiply_add(splat(factor), splat(factor), splat(-1 - 0x1p-11f))[0] != 0;
}

// x / ln(2), shifted so that it is rounded to an integer n, and that its bits are those of 2^n at their end.
#define MAGIC (12582912.f + 127.f)
static inline floats shifted_exponent(floats x) {
    floats magic = splat(MAGIC);
    OPAQUE(magic);
    return multiply_add(x, splat(1.44269504088896341f), magic);
}

// exp(factor x) of |factor x| <= ln(2) / 2, where the factor is a power of two, with which no bit of the result changes. The
// polynomial has the least relative error, 3e-9.
static inline floats exp_near_0(floats x, float factor) {
    const float square = factor * factor, cube = square * factor;
    floats p = splat(1.3814467e-3f * cube * cube);
    p = multiply_add(p, x, splat(8.368781e-3f * cube * square));
    p = multiply_add(p, x, splat(4.1668393e-2f * cube * factor));
    p = multiply_add(p, x, splat(1.666652e-1f * cube));
    p = multiply_add(p, x, splat(4.9999994e-1f * square));
    p = multiply_add(p, x, splat(factor));
    return multiply_add(p, x, splat(1.f));
}

// exp(r) 2^(n + k) of |r| <= ln(2) / 2, for an n that is shifted by k more.
static inline floats exp_of_rest(floats r, floats shifted) {
    return exp_near_0(r, 1) * (floats)((ints)shifted << 23);
}

// exp(x) 2^k for an n that is shifted by k more. If `is_near`, |n| <= 32, and n * ln(2) is not rounded before it is
// subtracted, so that an error of 2e-9 in ln(2) does not matter.
static inline floats exp_times(floats x, floats shifted, floats n, int is_near) {
    floats r = multiply_add(n, splat(is_near ? -LN2 : -LN2_HIGH), x);
    if (!is_near) r = multiply_add(n, splat(-LN2_LOW), r);
    return exp_of_rest(r, shifted);
}

// exp(x) for a shifted n.
static inline floats exp_of_parts(floats x, floats shifted, int is_near) {
    floats magic = splat(MAGIC);
    OPAQUE(magic);
    return exp_times(x, shifted, shifted - magic, is_near);
}

// Whether |n| <= 32 for all lanes, with some to spare.
#define FARTHEST 32
static inline unsigned_ints distance(floats shifted) {
    return (unsigned_ints)shifted - ((unsigned_ints)splat(MAGIC) - FARTHEST);
}

// A function of exp(x), four vectors at a time. Most hold numbers near 0, whose parts n are found to be small before
// the rest is computed: a loop of their own has the constants in registers. The others are computed by what is right
// for any number and, for one near 0, gives the same bits; where products are rounded, all are. Its second argument
// has all bits if they are not.
#define EACH_OF_FOUR for (int v = 0, at = i; v < 4; v++, at += LANES)
#define NEAR_KERNEL(name)                                                                          \
    KERNEL(name##_float32)(const float *values, float *out, int count) {                           \
        const int fast_count = is_fused() ? count : 0;                                             \
        const ints fused = (ints){} - (fast_count > 0);                                            \
        int i = 0;                                                                                 \
        for (; i + 4 * LANES <= count; i += 4 * LANES) {                                           \
            for (; i + 4 * LANES <= fast_count; i += 4 * LANES) {                                  \
                read_ahead(values + i), write_ahead(out + i);                                      \
                floats shifted[4];                                                                 \
                unsigned_ints far = {0};                                                           \
                UNROLLED EACH_OF_FOUR {                                                            \
                    shifted[v] = shifted_exponent(load(values + at));                              \
                    far |= distance(shifted[v]);                                                   \
                }                                                                                  \
                if (any_lane((ints)(far & ~(2u * FARTHEST - 1)))) break;                           \
                UNROLLED EACH_OF_FOUR store(out + at, name##_near(load(values + at), shifted[v])); \
            }                                                                                      \
            if (i + 4 * LANES > count) break;                                                      \
            _Pragma("nounroll") EACH_OF_FOUR                                                       \
                store(out + at, name##_anywhere(load(values + at), fused));                        \
        }                                                                                          \
        for (; i < count; i += LANES) {                                                            \
            const int rest = smaller(count - i, LANES);                                            \
            float padded[LANES] = {0};                                                             \
            memcpy(padded, values + i, rest * sizeof(float));                                      \
            store(padded, name##_anywhere(load(padded), fused));                                   \
            memcpy(out + i, padded, rest * sizeof(float));                                         \
        }                                                                                          \
    }

// exp(x) of x <= 88, and 0 where it would be denormal: half the work of exp_floats. The result is within two
// units in the last place. If `is_near`, |x| <= NEAR.
#define NEAR 16.f
static inline floats exp_small(floats x, int is_near) {
    if (!is_near) x = larger(x, splat(-88.f));
    return exp_of_parts(x, shifted_exponent(x), is_near);
}

// exp(x) of x <= 0, which may be denormal: it is multiplied by 2^64 before it is rounded.
static inline floats exp_of_negative(floats x) {
    x = at_least(x, -104.f);
    const floats magic = splat(MAGIC + 64);
    const floats shifted = multiply_add(x, splat(1.44269504088896341f), magic);
    return exp_times(x, shifted, shifted - magic, false) * 0x1p-64f;
}

static inline floats expm1_floats(floats x) {
    const exponent e = split_exponent(clamp_exponent(x));
    const ints half = e.n >> 1, rest = e.n - half;
    const floats scale = power_of_two(half);
    const floats y = (e.fraction * scale + (scale - power_of_two(-rest))) * power_of_two(rest);
    return choose(x == splat(0.f), x, y);  // keeps the sign of zero
}

// The parts of a finite x >= 2^-126: x = m 2^n with m between the square roots of 1/2 and 2.
typedef struct {
    floats m, n;
} scaled_floats;

static inline ints power_in(floats x) {
    return ((ints)x - 0x3f3504f3) >> 23;  // the bits of the square root of 1/2
}

static inline scaled_floats split_floats(floats x) {
    const ints n = power_in(x);
    return (scaled_floats){(floats)((ints)x - (n << 23)), __builtin_convertvector(n, floats)};
}

// The parts of the logarithm of x = m 2^n.
typedef struct {
    floats n, high, low;  // log(m) = high + low
} logarithm;

// Which lanes are not positive, normal and finite: one comparison of their bits.
static inline ints unusual_floats(floats x) {
    return ((unsigned_ints)x - 0x00800000u) >= 0x7f000000u;
}

// log(1 + m) - m of m between the square roots of 1/2 and 2, less 1. Where constants have to be read from memory, a
// quotient s = m / (m + 2) takes less time: log(1 + m) is 2 atanh(s), and 2 s is m - s m, of which m is exact.
static inline floats low_of_logarithm(floats m) {
#ifdef __wasm__
    const floats s = m / (m + 2.f), square = s * s;
    floats p = splat(0.29871976f);
    p = multiply_add(p, square, splat(0.39977539f));
    p = multiply_add(p, square, splat(0.66666776f));
    return s * multiply_add(p, square, -m);
#else
    const floats square = m * m;
    floats p = splat(7.0376836292e-2f);
    p = multiply_add(p, m, splat(-1.1514610310e-1f));
    p = multiply_add(p, m, splat(1.1676998740e-1f));
    p = multiply_add(p, m, splat(-1.2420140846e-1f));
    p = multiply_add(p, m, splat(1.4249322787e-1f));
    p = multiply_add(p, m, splat(-1.6668057665e-1f));
    p = multiply_add(p, m, splat(2.0000714765e-1f));
    p = multiply_add(p, m, splat(-2.4999993993e-1f));
    p = multiply_add(p, m, splat(3.3333331174e-1f));
    return multiply_add(square, splat(-0.5f), p * m * square);
#endif
}

static inline logarithm split_logarithm(floats x) {
    scaled_floats parts = split_floats(x);
    if (any_lane(unusual_floats(x))) {
        const ints is_denormal = x < splat(0x1p-126f);
        parts = split_floats(choose(is_denormal, x * splat(0x1p23f), x));
        parts.n -= choose(is_denormal, splat(23.f), splat(0.f));
    }
    const floats m = parts.m - 1.f;
    return (logarithm){parts.n, m, low_of_logarithm(m)};
}

// y, or what a logarithm is of numbers that are not positive and finite.
static inline floats logarithm_of(floats x, floats y) {
    const floats infinity = splat(__builtin_inff());
    if (!any_lane(unusual_floats(x))) return y;
    y = choose(x == infinity, x, y);
    y = choose(x == splat(0.f), -infinity, y);
    return choose((x < splat(0.f)) | (x != x), splat(__builtin_nanf("")), y);
}

static inline floats log_floats(floats x) {
    const logarithm l = split_logarithm(x);
    const floats y = multiply_add(l.n, splat(LN2_LOW), l.low);
    return logarithm_of(x, multiply_add(l.n, splat(LN2_HIGH), l.high + y));
}

static inline floats log2_floats(floats x) {
    const logarithm l = split_logarithm(x);
    return logarithm_of(x, multiply_add(l.high + l.low, splat(1.44269504088896341f), l.n));
}

// The products of n with the upper part of log10(2) are exact.
static inline floats log10_floats(floats x) {
    const logarithm l = split_logarithm(x);
    const floats y = multiply_add(l.n, splat(4.605038981195214e-06f),
                                  (l.high + l.low) * splat(0.43429448190325183f));
    return logarithm_of(x, multiply_add(l.n, splat(0.301025390625f), y));
}

// log(1 + x), where the rounding error of 1 + x is added to what is left of it after a power of two.
static inline floats log1p_floats(floats x) {
    const floats sum = x + 1.f;
    const ints is_unusual = unusual_floats(sum) | (x == splat(0.f));
    const scaled_floats parts = split_floats(sum);
    const ints n = __builtin_elementwise_min(power_in(sum), (ints){} + 126);  // larger sums are exact
    const floats error = (x - (sum - 1.f)) * power_of_two(-n);
    const floats m = parts.m - 1.f + error;
    const floats low = multiply_add(parts.n, splat(LN2_LOW), low_of_logarithm(m));
    const floats y = multiply_add(parts.n, splat(LN2_HIGH), m + low);
    if (!any_lane(is_unusual)) return y;
    return choose(x == splat(0.f), x, logarithm_of(sum, y));
}

// log(1 + exp(x)) of x <= 0: with s = e / (2 + e), it is 2 atanh(s), whose polynomial has the least relative error,
// 5e-9.
static inline floats log1p_of_exp(floats x) {
    const floats e = exp_of_negative(x), s = e / (e + 2.f), square = s * s;
    floats p = splat(0.28011987f);
    p = multiply_add(p, square, splat(0.28001806f));
    p = multiply_add(p, square, splat(0.40021527f));
    p = multiply_add(p, square, splat(0.66666418f));
    return multiply_add(s, multiply_add(p, square, -e), e);  // 2 s is e - s e, of which e is exact
}

static inline floats with_sign_of(floats sign, floats magnitude) {
    return (floats)((ints)magnitude | ((ints)sign & INT32_MIN));
}

// x is near, a multiple of pi / 2; the sine and the cosine of what is left.
typedef struct {
    ints quadrant;
    floats sine, cosine;
} angle;

static inline angle split_angle(floats x) {
    const floats magic = splat(12582912.f);
    const floats shifted = multiply_add(x, splat(0.636619772367581343f), magic);
    const floats n = shifted - magic;
    floats r = multiply_add(n, splat(-1.5703125f), x);
    r = multiply_add(n, splat(-4.837512969970703125e-4f), r);
    r = multiply_add(n, splat(-7.549533620476723e-08f), r);
    r = multiply_add(n, splat(-2.5633440682570896e-12f), r);
    const floats square = r * r;
    floats s = splat(-1.9515295891e-4f);
    s = multiply_add(s, square, splat(8.3321608736e-3f));
    s = multiply_add(s, square, splat(-1.6666654611e-1f));
    s = multiply_add(s * square, r, r);
    floats c = splat(2.443315711809948e-5f);
    c = multiply_add(c, square, splat(-1.388731625493765e-3f));
    c = multiply_add(c, square, splat(4.166664568298827e-2f));
    c = multiply_add(c, square * square, multiply_add(square, splat(-0.5f), splat(1.f)));
    return (angle){(ints)shifted - (ints)magic, s, c};
}

// y, but scalar(x) where pi / 2 in four parts is not enough; so for NaN and infinity, too.
static inline floats with_far_lanes(float (*scalar)(float), floats x, floats y) {
    const ints is_far = ~(absolute(x) <= splat(8192.f));
    if (any_lane(is_far))
        for (int lane = 0; lane < LANES; lane++)
            if (is_far[lane]) y[lane] = scalar(x[lane]);
    return y;
}

// sin(x + quarters * pi / 2)
static inline floats sine(floats x, int quarters, float (*scalar)(float)) {
    const angle a = split_angle(x);
    const ints quadrant = a.quadrant + quarters;
    const floats y = choose((quadrant & 1) != 0, a.cosine, a.sine);
    return with_far_lanes(scalar, x, (floats)((ints)y ^ ((quadrant & 2) << 30)));
}

static inline floats sin_floats(floats x) {
    return choose(x == splat(0.f), x, sine(x, 0, sinf));  // the polynomial loses the sign of -0
}

static inline floats cos_floats(floats x) { return sine(x, 1, cosf); }

static inline floats tan_floats(floats x) {
    const angle a = split_angle(x);
    const ints is_odd = (a.quadrant & 1) != 0;
    const floats y = choose(is_odd, -a.cosine, a.sine) / choose(is_odd, a.sine, a.cosine);
    return choose(x == splat(0.f), x, with_far_lanes(tanf, x, y));
}

// exp(|x|) / 2 in two factors, the larger of which does not overflow before the result.
static inline floats half_of_exp(floats magnitude) {
    const floats root = exp_floats(magnitude * 0.5f);
    return root * 0.5f * root;
}

static inline floats sinh_floats(floats x) {
    const floats magnitude = absolute(x), below = expm1_floats(magnitude);
    floats y = 0.5f * (below + below / (below + 1.f));
    const ints is_large = magnitude > splat(88.f);
    if (any_lane(is_large)) y = choose(is_large, half_of_exp(magnitude), y);
    return with_sign_of(x, y);
}

static inline floats cosh_floats(floats x) {
    const floats magnitude = absolute(x), e = exp_floats(magnitude);
    const floats y = multiply_add(e, splat(0.5f), 0.5f / e);
    const ints is_large = magnitude > splat(88.f);
    return any_lane(is_large) ? choose(is_large, half_of_exp(magnitude), y) : y;
}

// Near 0, polynomials; elsewhere logarithms. Beyond 1e18, log(2 m) is log(m) + log(2).
static inline floats log_of_double(ints is_large, floats m, floats y) {
    return choose(is_large, log_floats(m) + 0.693147180559945309f, y);
}

static inline floats asinh_floats(floats x) {
    const floats m = absolute(x), square = m * m;
    const ints is_small = m < splat(0.5f), is_large = m > splat(1e18f);
    floats p = splat(2.0122003309e-2f);
    p = multiply_add(p, square, splat(-4.2699340972e-2f));
    p = multiply_add(p, square, splat(7.4847586088e-2f));
    p = multiply_add(p, square, splat(-1.6666288134e-1f));
    floats y = log_floats(m + __builtin_elementwise_sqrt(square + 1.f));
    if (any_lane(is_large)) y = log_of_double(is_large, m, y);
    return with_sign_of(x, choose(is_small, multiply_add(p * square, m, m), y));
}

static inline floats acosh_floats(floats x) {
    const floats below = x - 1.f;
    const ints is_small = below < splat(0.5f), is_large = x > splat(1e18f);
    floats p = splat(1.7596881071e-3f);
    p = multiply_add(p, below, splat(-7.5272886713e-3f));
    p = multiply_add(p, below, splat(2.6454905019e-2f));
    p = multiply_add(p, below, splat(-1.1784741703e-1f));
    p = multiply_add(p, below, splat(1.4142135263f));
    const floats root = __builtin_elementwise_sqrt(choose(is_small, below, below * (x + 1.f)));
    floats y = log_floats(x + root);
    if (any_lane(is_large)) y = log_of_double(is_large, x, y);
    return choose(is_small, p * root, y);  // the root of a negative number is NaN
}

static inline floats atanh_floats(floats x) {
    const floats m = absolute(x), square = m * m;
    floats p = splat(1.81740078349e-1f);
    p = multiply_add(p, square, splat(8.24370301058e-2f));
    p = multiply_add(p, square, splat(1.46691431730e-1f));
    p = multiply_add(p, square, splat(1.99782164500e-1f));
    p = multiply_add(p, square, splat(3.33337300303e-1f));
    const floats y = 0.5f * log_floats((1.f + m) / (1.f - m));
    return with_sign_of(x, choose(m < splat(0.5f), multiply_add(p * square, m, m), y));
}

// e / (e + 2), where e is exp(2 |x|) - 1; at 20, tanh has reached 1. An error of 2e-9 n in n ln(2) does not matter.
static inline floats tanh_floats(floats x) {
    const floats m = at_most(absolute(x), 20.f), shifted = shifted_exponent(m + m);
    const floats r = multiply_add(shifted - splat(MAGIC), splat(-LN2), m + m);
    const floats scale = (floats)((ints)shifted << 23);
    const floats e = multiply_add(exp_fraction_of_floats(r), scale, scale - 1.f);
    return with_sign_of(x, e / (e + 2.f));
}

// x + x p(x^2) below 1, 1 - exp(q(x)) above; both are fitted for the least relative error.
static inline floats erf_floats(floats x) {
    const floats m = at_most(absolute(x), 4.f);  // where erf has reached 1
    const floats square = m * m;
    floats p = splat(7.853846909711137e-5f);
    p = multiply_add(p, square, splat(-8.010189048945904e-4f));
    p = multiply_add(p, square, splat(5.18832728266716e-3f));
    p = multiply_add(p, square, splat(-2.6853810995817184e-2f));
    p = multiply_add(p, square, splat(1.128358542919159e-1f));
    p = multiply_add(p, square, splat(-3.761262595653534e-1f));
    p = multiply_add(p, square, splat(1.283791670955126e-1f));
    floats q = splat(-2.1697873307857662e-5f);
    q = multiply_add(q, m, splat(4.414757713675499e-4f));
    q = multiply_add(q, m, splat(-4.205300472676754e-3f));
    q = multiply_add(q, m, splat(2.5210382416844368e-2f));
    q = multiply_add(q, m, splat(-1.084221675992012e-1f));
    q = multiply_add(q, m, splat(-6.332163214683533e-1f));
    q = multiply_add(q, m, splat(-1.1295803785324097f));
    q = multiply_add(q, m, splat(1.8847515457309783e-4f));
    // q is above -18.1, and an error of exp(q) by the rounding of n ln(2) is far below the last place of 1
    const floats y = choose(m < splat(1.f), multiply_add(p, m, m), 1.f - exp_small(q, true));
    return with_sign_of(x, y);
}

// x + x p(x^2) on [0, tan(pi / 8)], to which (x - 1) / (x + 1) leads from larger ones.
static inline floats atan2_floats(floats y, floats x) {
    const floats height = absolute(y), width = absolute(x);
    const ints is_steep = height > width;
    const floats least = choose(is_steep, width, height), most = choose(is_steep, height, width);
    floats t = least / most;
    t = choose(most == splat(0.f), splat(0.f), t);
    t = choose(least == splat(__builtin_inff()), splat(1.f), t);
    const ints is_high = t > splat(0.41421356237f);
    t = choose(is_high, (t - 1.f) / (t + 1.f), t);
    const floats square = t * t;
    floats p = splat(8.05374449538e-2f);
    p = multiply_add(p, square, splat(-1.38776856032e-1f));
    p = multiply_add(p, square, splat(1.99777106478e-1f));
    p = multiply_add(p, square, splat(-3.33329491539e-1f));
    floats angle = multiply_add(p * square, t, t);
    angle = choose(is_high, angle + 0.785398163397448f, angle);
    angle = choose(is_steep, 1.57079632679489662f - angle, angle);
    angle = choose((ints)x < 0, 3.14159265358979324f - angle, angle);
    return choose((x != x) | (y != y), x + y, with_sign_of(y, angle));
}

// The same polynomial, with one division: t is m, (m - 1) / (m + 1) or -1 / m.
static inline floats atan_floats(floats x) {
    const floats m = absolute(x), zero = splat(0.f), one = splat(1.f);
    const ints is_high = m > splat(0.41421356237f), is_steep = m > splat(2.41421356237f);
    const floats above = choose(is_steep, -one, m - choose(is_high, one, zero));
    const floats below = choose(is_steep, m, choose(is_high, m + one, one));
    const floats t = above / below, square = t * t;
    floats p = splat(8.05374449538e-2f);
    p = multiply_add(p, square, splat(-1.38776856032e-1f));
    p = multiply_add(p, square, splat(1.99777106478e-1f));
    p = multiply_add(p, square, splat(-3.33329491539e-1f));
    const floats angle = multiply_add(p * square, t, t);
    const floats start = choose(is_steep, splat(1.57079632679489662f), splat(0.785398163397448f));
    return with_sign_of(x, angle + choose(is_high, start, zero));
}

// For t up to 1/2, y = asin(t) = t + t z p(z) with z = t^2. A larger x is 1 - 2 t^2, and its arc cosine
// is 2 asin(t); out of range, t is NaN.
typedef struct {
    ints is_large;
    floats angle;
} arc;

static inline arc split_arc(floats x) {
    const floats m = absolute(x);
    const ints is_large = m > splat(0.5f);
    const floats z = choose(is_large, (1.f - m) * 0.5f, m * m);
    const floats t = choose(is_large, __builtin_elementwise_sqrt(z), m);
    floats p = splat(4.2163199048e-2f);
    p = multiply_add(p, z, splat(2.4181311049e-2f));
    p = multiply_add(p, z, splat(4.5470025998e-2f));
    p = multiply_add(p, z, splat(7.4953002686e-2f));
    p = multiply_add(p, z, splat(1.6666752422e-1f));
    return (arc){is_large, multiply_add(p * z, t, t)};
}

static inline floats asin_floats(floats x) {
    const arc a = split_arc(x);
    const floats large = 1.57079632679489662f - 2.f * a.angle;
    return with_sign_of(x, choose(a.is_large, large, a.angle));
}

static inline floats acos_floats(floats x) {
    const arc a = split_arc(x);
    const ints is_negative = x < splat(0.f);
    const floats twice = 2.f * a.angle;
    const floats large = choose(is_negative, 3.14159265358979324f - twice, twice);
    return choose(a.is_large, large, 1.57079632679489662f - with_sign_of(x, a.angle));
}
