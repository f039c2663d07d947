// float16 and bfloat16: numbers of 16 bits, which are converted to be computed.
#pragma once

#include "common.h"

typedef uint16_t half;

static inline float of_bits(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

#if defined(__F16C__) || defined(__aarch64__)  // the processor converts
static inline float widened(half x) {
    _Float16 number;
    memcpy(&number, &x, sizeof number);
    return number;
}

static inline half narrowed(float x) {
    const _Float16 number = x;
    half bits;
    memcpy(&bits, &number, sizeof bits);
    return bits;
}
#else
// The exponents differ by 112; a product with a power of two is exact for denormal numbers, too.
static inline float widened(half x) {
    const uint32_t magnitude = x & 0x7fff;
    const uint32_t bits = bits_of(of_bits(magnitude << 13) * 0x1p112f);
    const uint32_t special = magnitude >= 0x7c00 ? 0x7f800000 : 0;  // infinity and NaN
    return of_bits(bits | special | (uint32_t)(x & 0x8000) << 16);
}

// Rounds half to even, because a number is added to one whose last bit has the value of that of the half: 2^13 times
// the power of two that begins the number, or that of the least normal half.
static inline half narrowed(float x) {
    const int32_t bits = bits_of(x), magnitude = bits & 0x7fffffff;
    const int32_t finite = magnitude < 0x47800000 ? magnitude : 0x47800000;  // 2^16 is infinity
    const int32_t power = finite & 0x7f800000;
    const int32_t unit = (power > 113 << 23 ? power : 113 << 23) + (13 << 23);
    const int32_t sum = bits_of(of_bits(finite) + of_bits(unit));
    const int32_t y = sum - unit + (unit >> 13) - (126 << 10);
    return y | (magnitude > 0x7f800000 ? 0x200 : 0) | (bits >> 16 & 0x8000);
}
#endif

// bfloat16 is the first half of float32, rounded half to even; NaN keeps a bit that says so. The instruction that
// converts is not used, because it takes denormal numbers for 0.
static inline float widened_brain(half x) { return of_bits((uint32_t)x << 16); }

static inline half narrowed_brain(float x) {
    const uint32_t bits = bits_of(x);
    const uint32_t even = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    return x != x ? bits >> 16 | 0x40 : even;
}
