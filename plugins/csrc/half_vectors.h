// Conversions between vectors of eight halves and two of floats.
//
// With the bits of a half in the places of those of a float, its number is smaller by 2^112, exactly.
#pragma once

#include "halves.h"

typedef int16_t shorts __attribute__((vector_size(16)));
typedef uint16_t unsigned_shorts __attribute__((vector_size(16)));
typedef struct {
    floats low, high;
} float_pair;

static inline shorts load_halves(const half *source) {
    shorts x;
    memcpy(&x, source, sizeof x);
    return x;
}

static inline unsigned_shorts magnitude(shorts x) { return (unsigned_shorts)(x & 0x7fff); }

// Not 0 where a number is greater than a limit: less work than a comparison.
static inline unsigned_shorts excess(unsigned_shorts x, int limit) {
    return __builtin_elementwise_sub_sat(x, (unsigned_shorts){} + (uint16_t)limit);
}

// Not 0 where a number of some magnitude is infinite or NaN.
static inline unsigned_shorts is_special(unsigned_shorts x) { return excess(x, 0x7bff); }

// Four finite numbers, each times 2^-112. Signs are extended, and only the first of these copies is kept.
typedef int16_t short_quad __attribute__((vector_size(8)));
static inline floats scaled_quad(short_quad x) {
    return (floats)(__builtin_convertvector(x, ints) << 13 & (int)0x8fffffff);
}

// Eight in memory: they are extended while they are read.
static inline float_pair scaled_from(const half *source) {
    short_quad low, high;
    memcpy(&low, source, sizeof low), memcpy(&high, source + 4, sizeof high);
    return (float_pair){scaled_quad(low), scaled_quad(high)};
}

static inline float_pair scaled_halves(shorts x) {
    return (float_pair){scaled_quad(__builtin_shufflevector(x, x, 0, 1, 2, 3)),
                        scaled_quad(__builtin_shufflevector(x, x, 4, 5, 6, 7))};
}

// Pairs of neighbours: those at even places, and those at odd ones. Multiplied by 2^13 and 0, or by 0 and 2^13, and
// added, they are extended and shifted by one instruction.
typedef struct {
    floats even, odd;
} neighbours;
static inline ints shifted_even(shorts x) {
    return __builtin_wasm_dot_s_i32x4_i16x8(x, (shorts){1 << 13, 0, 1 << 13, 0, 1 << 13, 0, 1 << 13, 0});
}
static inline ints shifted_odd(shorts x) {
    return __builtin_wasm_dot_s_i32x4_i16x8(x, (shorts){0, 1 << 13, 0, 1 << 13, 0, 1 << 13, 0, 1 << 13});
}
static inline neighbours scaled_neighbours(shorts x) {
    return (neighbours){(floats)(shifted_even(x) & (int)0x8fffffff),
                        (floats)(shifted_odd(x) & (int)0x8fffffff)};
}
// The same of numbers that are not negative.
static inline neighbours scaled_sizes(unsigned_shorts x) {
    return (neighbours){(floats)shifted_even((shorts)x), (floats)shifted_odd((shorts)x)};
}

// The nearest numbers, half to even, that have the digits of a half: a number is added to 2^13 times the power of two
// that begins it, whose last bit is there.
static inline floats rounded_to_half(floats x) {
    const floats power = (floats)((ints)x & (int)0xff800000);
    const floats sum = multiply_add(power, splat(0x1p13f), x);
    return multiply_add(power, splat(-0x1p13f), sum);
}

// The magnitudes of halves, of numbers times 2^-112 that have no more digits; the lower 13 bits of these are 0.
static inline shorts joined_magnitudes(floats even, floats odd) {
    const shorts low = (shorts)((unsigned_ints)even >> 13), high = (shorts)((ints)odd << 3);
    return __builtin_shufflevector(low, high, 0, 9, 2, 11, 4, 13, 6, 15);
}
static inline shorts joined_signs(floats even, floats odd) {
    const shorts low = (shorts)((unsigned_ints)even >> 16), high = (shorts)odd;
    return __builtin_shufflevector(low, high, 0, 9, 2, 11, 4, 13, 6, 15) & (short)0x8000;
}

// Of numbers that are not negative, likewise.
static inline float_pair scaled_magnitudes(unsigned_shorts x) {
    const unsigned_shorts zero = {};
    const ints low = (ints)__builtin_shufflevector(zero, x, 0, 8, 1, 9, 2, 10, 3, 11);
    const ints high = (ints)__builtin_shufflevector(zero, x, 4, 12, 5, 13, 6, 14, 7, 15);
    return (float_pair){(floats)(low >> 3), (floats)(high >> 3)};
}

static inline float_pair widened_pair(float_pair scaled) {
    return (float_pair){scaled.low * 0x1p112f, scaled.high * 0x1p112f};
}

static inline floats widened_floats(floats scaled) {
    const ints is_special = ((ints)scaled & 0x7fffffff) >= 31 << 23;
    return (floats)((ints)(scaled * 0x1p112f) | (is_special & 0x7f800000));
}

static inline float_pair widened_halves(shorts x) {
    const float_pair y = scaled_halves(x);
    return (float_pair){widened_floats(y.low), widened_floats(y.high)};
}

static inline void widen_float16(const half *restrict x, float *restrict out, int count) {
    int i = 0;
    _Pragma("clang loop unroll_count(2)") for (; i + 8 <= count; i += 8) {
        float_pair y = widened_pair(scaled_from(x + i));
        const shorts halves = load_halves(x + i);
        if (any_lane((ints)is_special(magnitude(halves)))) y = widened_halves(halves);
        store(out + i, y.low), store(out + i + 4, y.high);
    }
    for (; i < count; i++) out[i] = widened(x[i]);
}

static inline float_pair widened_brains(shorts x) {
    const shorts zero = {};
    return (float_pair){(floats)__builtin_shufflevector(zero, x, 0, 8, 1, 9, 2, 10, 3, 11),
                        (floats)__builtin_shufflevector(zero, x, 4, 12, 5, 13, 6, 14, 7, 15)};
}

static inline void widen_bfloat16(const half *restrict x, float *restrict out, int count) {
    for (int i = 0; i < count; i++) out[i] = widened_brain(x[i]);
}

// The signs of their bits, which are integers as far from 0 as can be.
static inline shorts signs_of(float_pair x) {
    return __builtin_wasm_narrow_s_i16x8_i32x4((ints)x.low, (ints)x.high) & (short)0x8000;
}

// The magnitudes of halves, rounded half to even; those of numbers that are too large, and of NaN, are above 0x7bff.
//
// A number is added to 2^13 times the power of two that begins it, or to that of the least normal half, as in
// `narrowed`: the sum has the digits of the half in its lower word, and 8 times its upper word has the exponent in its
// place.
static inline ints placed_digits(floats x) {
    const floats size = absolute(x);
    const ints power = __builtin_elementwise_max((ints)size & 0x7f800000, (ints){} + (113 << 23));
    const shorts sum = (shorts)multiply_add((floats)power, splat(0x1p13f), size);
    return __builtin_wasm_dot_s_i32x4_i16x8(sum, (shorts){1, 8, 1, 8, 1, 8, 1, 8}) - (126 << 10);
}
static inline unsigned_shorts narrowed_magnitudes(float_pair x) {
    return __builtin_wasm_narrow_u_i16x8_i32x4(placed_digits(x.low), placed_digits(x.high));
}

// `narrowed` of any floats.
static inline shorts are_nan(float_pair x) {
    return __builtin_wasm_narrow_s_i16x8_i32x4(x.low != x.low, x.high != x.high);
}
static inline shorts narrowed_floats(float_pair x) {
    const unsigned_shorts infinity = (unsigned_shorts){} + 0x7c00;
    const shorts y = (shorts)__builtin_elementwise_min(narrowed_magnitudes(x), infinity);
    return y | signs_of(x) | (are_nan(x) & 0x7e00);
}

// bfloat16 is the upper half of float32. What has nothing in its lower half if it is NaN, and is quiet, is rounded as
// any other number.
static inline ints upper_half_of(floats x) {
    const unsigned_ints bits = (unsigned_ints)x;
    return (ints)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
static inline shorts narrowed_brains(float_pair x) {
    return __builtin_wasm_narrow_u_i16x8_i32x4(upper_half_of(x.low), upper_half_of(x.high));
}

static inline shorts narrowed_brains_or_nan(float_pair x) {
    const shorts nan = are_nan(x);
    const shorts upper = __builtin_wasm_narrow_u_i16x8_i32x4((ints)((unsigned_ints)x.low >> 16),
                                                             (ints)((unsigned_ints)x.high >> 16));
    return (narrowed_brains(x) & ~nan) | ((upper | 0x40) & nan);
}

// The halves of usual numbers, and whether some are not usual.
static inline shorts narrowed_usual_float16(float_pair x, ints *is_unusual) {
    const unsigned_shorts size = narrowed_magnitudes(x);
    *is_unusual = (ints)is_special(size);
    return (shorts)size | signs_of(x);
}
static inline shorts narrowed_usual_bfloat16(float_pair x, ints *is_unusual) {
    *is_unusual = (x.low != x.low) | (x.high != x.high);
    return narrowed_brains(x);
}

// A function without calls, as wasmtime keeps nothing in registers across one, returns how many of the first numbers it
// has written, by eights without NaN, and in float16 without infinity. Another function writes any eight.
#define NARROWING(dtype, narrowed_eight, narrowed)                                                 \
    ONCE static int narrow_usual_##dtype(const float *restrict x, half *restrict out, int count) { \
        int i = 0;                                                                                 \
        for (; i + 8 <= count; i += 8) {                                                           \
            ints is_unusual;                                                                       \
            const float_pair y = {load(x + i), load(x + i + LANES)};                               \
            const shorts result = narrowed_usual_##dtype(y, &is_unusual);                          \
            if (any_lane(is_unusual)) break;                                                       \
            memcpy(out + i, &result, sizeof result);                                               \
        }                                                                                          \
        return i;                                                                                  \
    }                                                                                              \
    static inline void narrow_##dtype(const float *restrict x, half *restrict out, int count) {    \
        for (int i = 0; (i += narrow_usual_##dtype(x + i, out + i, count - i)) < count;)           \
            if (i + 8 <= count) {                                                                  \
                const float_pair any = {load(x + i), load(x + i + LANES)};                         \
                const shorts y = narrowed_eight(any);                                              \
                memcpy(out + i, &y, sizeof y), i += 8;                                             \
            } else                                                                                 \
                for (; i < count; i++) out[i] = narrowed(x[i]);                                    \
    }
NARROWING(float16, narrowed_floats, narrowed)
NARROWING(bfloat16, narrowed_brains_or_nan, narrowed_brain)

// The bits of numbers times 2^-112, rounded half to even where those of a half end.
static inline ints rounded_bits(ints bits) {
    return (bits + 0xfff + (bits >> 13 & 1)) >> 13;
}

// The magnitudes of halves of numbers times 2^-112, which may be greater than that of infinity.
static inline unsigned_shorts rounded_halves(float_pair x) {
    return __builtin_wasm_narrow_u_i16x8_i32x4(rounded_bits((ints)absolute(x.low)),
                                               rounded_bits((ints)absolute(x.high)));
}

// The same of numbers that are not negative.
static inline unsigned_shorts rounded_magnitudes(float_pair x) {
    return __builtin_wasm_narrow_u_i16x8_i32x4(rounded_bits((ints)x.low),
                                               rounded_bits((ints)x.high));
}
