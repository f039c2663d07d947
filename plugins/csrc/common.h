// What every kernel file shares: exports, element types, vectors and strided walks.
//
// The same sources are compiled for WebAssembly, by plugrad-wasm, and for processors, by
// plugrad-native. They use clang's generic vectors, whose width and fused operations only this header
// knows. Kernels import nothing from the host, trust their arguments and never trap because of a value.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

// ---- exports ----

#ifdef __wasm__
#define EXPORTED(name) __attribute__((export_name(#name)))
#else
// For the table of the extension, if the build defines LISTED_name; else nobody calls it, and the
// compiler leaves it out.
#define IN_TABLE __attribute__((visibility("hidden")))
#ifndef LISTED  // a source that includes others may only declare theirs
#define LISTED IN_TABLE
#endif
#define EXPORTED(name) SECOND_OF(LISTED_##name, __attribute__((unused)) static, )
#define SECOND_OF(...) SECOND(__VA_ARGS__)
#define SECOND(first, second, ...) second
#endif
#ifndef KERNEL  // a source that includes others may keep theirs for itself
#define KERNEL(name) EXPORTED(name) void name
#endif

// For functions whose loops are often short: the compiler must not turn them into calls that copy
// or fill memory, because such a call costs more than a few elements.
#define SHORT_LOOPS __attribute__((no_builtin("memcpy", "memmove", "memset")))

// For loops over an array of sums: it stays in registers only if all of them are unrolled.
#define UNROLLED _Pragma("clang loop unroll(full)")
// For loops whose vectors would take more code than time.
#define ONE_BY_ONE _Pragma("clang loop vectorize(disable)")

// ---- element types: X(dtype, C type, effort) ----

// The common types are vectorised; in a WebAssembly module, the others only have to be correct and
// small, because every byte is compiled when the module is first used.
#define FAST
#ifdef __wasm__
#define SMALL __attribute__((minsize))
#else
#define SMALL
#endif
#define ONCE __attribute__((noinline))  // for what has so many callers that copies would be large

#define EACH_FLOAT(X) X(float32, float, FAST) X(float64, double, FAST)
#define EACH_SIGNED(X)                                                                             \
    X(int32, int32_t, FAST)                                                                        \
    X(int64, int64_t, FAST)                                                                        \
    X(int8, int8_t, FAST)                                                                          \
    X(int16, int16_t, SMALL)
#define EACH_INTEGER(X)                                                                            \
    EACH_SIGNED(X)                                                                                 \
    X(uint8, uint8_t, FAST)                                                                        \
    X(uint16, uint16_t, SMALL)                                                                     \
    X(uint32, uint32_t, SMALL)                                                                     \
    X(uint64, uint64_t, SMALL)
#define EACH_NUMBER(X) EACH_FLOAT(X) EACH_INTEGER(X)
#define EACH_ITEM_SIZE(X) X(1, uint8_t) X(2, uint16_t) X(4, uint32_t) X(8, uint64_t)
// Elements that are only moved; 16 bytes have complex numbers of double precision.
typedef unsigned __int128 uint128;
#ifdef __wasm__
#define EACH_MOVED_SIZE(X) EACH_ITEM_SIZE(X) X(16, uint128)
#else
#define EACH_MOVED_SIZE(X) EACH_ITEM_SIZE(X)
#endif

#define LEAST_int32 INT32_MIN
#define LEAST_int64 INT64_MIN
#define LEAST_int8 INT8_MIN
#define LEAST_int16 INT16_MIN
#define LEAST_uint8 0
#define LEAST_uint16 0
#define LEAST_uint32 0
#define LEAST_uint64 0
#define GREATEST_int32 INT32_MAX
#define GREATEST_int64 INT64_MAX
#define GREATEST_int8 INT8_MAX
#define GREATEST_int16 INT16_MAX
#define GREATEST_uint8 UINT8_MAX
#define GREATEST_uint16 UINT16_MAX
#define GREATEST_uint32 UINT32_MAX
#define GREATEST_uint64 UINT64_MAX

// Floats without their fraction, saturating; NaN gives 0. C leaves such a cast undefined.
#ifdef __wasm__
#define TRUNCATE_int32_float32 __builtin_wasm_trunc_saturate_s_i32_f32
#define TRUNCATE_int32_float64 __builtin_wasm_trunc_saturate_s_i32_f64
#define TRUNCATE_int64_float32 __builtin_wasm_trunc_saturate_s_i64_f32
#define TRUNCATE_int64_float64 __builtin_wasm_trunc_saturate_s_i64_f64
#define TRUNCATE_uint32_float32 __builtin_wasm_trunc_saturate_u_i32_f32
#define TRUNCATE_uint32_float64 __builtin_wasm_trunc_saturate_u_i32_f64
#define TRUNCATE_uint64_float32 __builtin_wasm_trunc_saturate_u_i64_f32
#define TRUNCATE_uint64_float64 __builtin_wasm_trunc_saturate_u_i64_f64
#else
// The limits are converted to floats, in which the greatest may be rounded up: to the first number
// that is out of range.
#define SATURATING(to, result, from, type)                                                         \
    static inline result TRUNCATE_##to##_##from(type x) {                                          \
        if (x >= (type)GREATEST_##to) return GREATEST_##to;                                        \
        return x > (type)LEAST_##to ? (result)x : x == x ? LEAST_##to : 0;                         \
    }
#define EACH_SATURATING(from, type)                                                                \
    SATURATING(int32, int32_t, from, type)                                                         \
    SATURATING(int64, int64_t, from, type)                                                         \
    SATURATING(uint32, uint32_t, from, type)                                                       \
    SATURATING(uint64, uint64_t, from, type)
EACH_SATURATING(float32, float)
EACH_SATURATING(float64, double)
#endif

// The elements of an array that a descriptor walks over: rows of adjacent elements, with gaps between the rows perhaps.
typedef char strided;

typedef uint8_t boolean;  // one byte, 0 or 1, as NumPy stores it

// Complex numbers are pairs of floats. Products follow the plain formula, as NumPy's do.
#pragma STDC CX_LIMITED_RANGE ON
typedef float _Complex complex64;
typedef double _Complex complex128;

// ---- vectors ----

#ifndef VECTOR_BYTES
#define VECTOR_BYTES 16
#endif
#define LANES (VECTOR_BYTES / 4)
typedef float floats __attribute__((vector_size(VECTOR_BYTES)));
typedef double doubles __attribute__((vector_size(VECTOR_BYTES)));
typedef int32_t ints __attribute__((vector_size(VECTOR_BYTES)));
typedef int64_t longs __attribute__((vector_size(VECTOR_BYTES)));
typedef uint32_t unsigned_ints __attribute__((vector_size(VECTOR_BYTES)));
typedef uint64_t unsigned_longs __attribute__((vector_size(VECTOR_BYTES)));

// Before a loop over long arrays gets there: by themselves, processors do not look beyond the end of a page.
#define AHEAD 2048
static inline void read_ahead(const void *place) {
    __builtin_prefetch((const char *)place + AHEAD);
}
static inline void write_ahead(const void *place) {
    __builtin_prefetch((const char *)place + AHEAD, 1);
}

static inline floats load(const float *source) {
    floats lanes;
    memcpy(&lanes, source, sizeof lanes);
    return lanes;
}

static inline void store(float *target, floats lanes) { memcpy(target, &lanes, sizeof lanes); }

// Minus 0, which leaves even -0 as it is.
static inline floats splat(float value) { return value - (floats){}; }

static inline floats choose(ints mask, floats yes, floats no) {
#ifdef __wasm_relaxed_simd__  // one instruction instead of three
    return (floats)__builtin_wasm_relaxed_laneselect_i32x4((ints)yes, (ints)no, mask);
#else
    return (floats)((mask & (ints)yes) | (~mask & (ints)no));
#endif
}

// A constant as it is: LLVM would keep its negative in another register, of which WebAssembly has too few, or make
// of a mask an instruction for magnitudes, which wasmtime makes three of.
#ifdef __wasm__
#define OPAQUE(lanes) __asm__("" : "+r"(lanes))
#else
#define OPAQUE(lanes)
#endif

static inline floats absolute(floats x) {
    ints mask = (ints){} + 0x7fffffff;
    OPAQUE(mask);
    return (floats)((ints)x & mask);
}

static inline floats negative_magnitude(floats x) {
    ints sign = (ints){} + INT32_MIN;
    OPAQUE(sign);
    return (floats)((ints)x | sign);
}

// Whether the mask is set for some lane.
static inline int any_lane(ints mask) {
#ifdef __wasm__
    return __builtin_wasm_any_true_v128(mask);
#else
    return __builtin_reduce_or(mask);
#endif
}

// a * b + c, rounded once where the target can.
static inline floats multiply_add(floats a, floats b, floats c) {
#ifdef __wasm_relaxed_simd__
    return __builtin_wasm_relaxed_madd_f32x4(a, b, c);
#elif defined(__FMA__) || defined(__ARM_FEATURE_FMA)
    return __builtin_elementwise_fma(a, b, c);
#else
    return a * b + c;
#endif
}

static inline doubles multiply_add_doubles(doubles a, doubles b, doubles c) {
#ifdef __wasm_relaxed_simd__
    return __builtin_wasm_relaxed_madd_f64x2(a, b, c);
#elif defined(__FMA__) || defined(__ARM_FEATURE_FMA)
    return __builtin_elementwise_fma(a, b, c);
#else
    return a * b + c;
#endif
}

static inline float sum_lanes(floats lanes) {
    float sums[LANES];
    memcpy(sums, &lanes, sizeof sums);
    for (int count = LANES / 2; count > 0; count /= 2)
        for (int i = 0; i < count; i++) sums[i] = sums[2 * i] + sums[2 * i + 1];
    return sums[0];
}

// out[i] = map(values[i]) by whole vectors; the last, partial vector goes through a padded copy.
#define MAP_FLOATS(map, values, out, count)                                                        \
    do {                                                                                           \
        int position = 0;                                                                          \
        for (; position + 2 * LANES <= (count); position += 2 * LANES) {                           \
            read_ahead((values) + position), read_ahead((values) + position + LANES);              \
            write_ahead((out) + position), write_ahead((out) + position + LANES);                  \
            const floats first = map(load((values) + position));                                   \
            const floats second = map(load((values) + position + LANES));                          \
            store((out) + position, first);                                                        \
            store((out) + position + LANES, second);                                               \
        }                                                                                          \
        for (; position < (count); position += LANES) {                                            \
            const int rest = (count) - position < LANES ? (count) - position : LANES;              \
            float padded[LANES] = {0};                                                             \
            memcpy(padded, (values) + position, rest * sizeof(float));                             \
            store(padded, map(load(padded)));                                                      \
            memcpy((out) + position, padded, rest * sizeof(float));                                \
        }                                                                                          \
    } while (0)

// ---- walks over strided axes ----

// The host drops axes of size 1, so an array with 32 axes would exceed the address space.
#define MAX_AXES 32

// Step a row-major index over `axes` axes and move two offsets along; return 0 after the last one.
static inline int step_axes(int axes, const int *sizes, int *index, const int *first_strides,
                            const int *second_strides, ptrdiff_t *first, ptrdiff_t *second) {
    for (int axis = axes - 1; axis >= 0; axis--) {
        *first += first_strides[axis];
        *second += second_strides[axis];
        if (++index[axis] < sizes[axis]) return 1;
        *first -= (ptrdiff_t)first_strides[axis] * sizes[axis];
        *second -= (ptrdiff_t)second_strides[axis] * sizes[axis];
        index[axis] = 0;
    }
    return 0;
}

static inline int smaller(int a, int b) { return a < b ? a : b; }
