// Sums and extremes of rows in WebAssembly: several vectors at a time, which stay in registers.
#pragma once

#include "common.h"

static inline doubles load_doubles(const double *source) {
    doubles lanes;
    memcpy(&lanes, source, sizeof lanes);
    return lanes;
}

// The sum of a row; both halves of a long one are read at a time.
static double sum_of_floats(const float *x, int count) {
    const int part = 4 * LANES, whole = count / (2 * part) * 2 * part;
    const int half = whole / 2, is_long = count >= LONG;
    const int end = is_long ? half : whole, step = is_long ? part : 2 * part;
    const float *other = x + (is_long ? half : part);
    double sum = 0;
    for (int i = 0; i < end;) {
        const int last = smaller(i + RUN * step, end);
        floats near[4] = {}, far[4] = {};
        for (; i < last; i += step)
            for (int j = 0; j < 4; j++) {
                near[j] += load(x + i + j * LANES);
                far[j] += load(other + i + j * LANES);
            }
        for (int j = 0; j < 4; j++) near[j] += far[j];
        sum += sum_lanes((near[0] + near[1]) + (near[2] + near[3]));
    }
    int i = whole;
    floats rest = {};
    for (; i + LANES <= count; i += LANES) rest += load(x + i);
    for (int lane = 0; lane < LANES; lane++) sum += rest[lane];
    for (; i < count; i++) sum += x[i];
    return sum;
}

static double sum_of_doubles(const double *x, int count) {
    const int part = 8 * LANES / 2, whole = count / part * part;
    double sum = 0, rest[16] = {};
    int i = 0;
    while (i < whole) {
        const int last = smaller(i + 8 * BLOCK * part, whole);
        doubles sums[8] = {};
        for (; i < last; i += part)
            UNROLLED for (int j = 0; j < 8; j++) sums[j] += load_doubles(x + i + j * LANES / 2);
        for (int step = 4; step > 0; step /= 2)
            UNROLLED for (int j = 0; j < step; j++) sums[j] += sums[j + step];
        sum += sums[0][0] + sums[0][1];
    }
    for (; i < count; i++) rest[i - whole] = x[i];
    for (int half = 8; half > 0; half /= 2)
        for (int j = 0; j < half; j++) rest[j] += rest[j + half];
    return sum + rest[0];
}

// The greatest or the least number of a row; NaN is looked for apart. Of two zeros, the first operand of these
// instructions is returned, which is therefore the later number.
static inline floats better_floats(floats a, floats b, int is_greatest) {
#ifdef __wasm_relaxed_simd__  // one instruction
    return is_greatest ? __builtin_wasm_relaxed_max_f32x4(b, a)
                       : __builtin_wasm_relaxed_min_f32x4(b, a);
#else
    return is_greatest ? __builtin_wasm_pmax_f32x4(b, a) : __builtin_wasm_pmin_f32x4(b, a);
#endif
}
static inline doubles better_doubles(doubles a, doubles b, int is_greatest) {
#ifdef __wasm_relaxed_simd__
    return is_greatest ? __builtin_wasm_relaxed_max_f64x2(b, a)
                       : __builtin_wasm_relaxed_min_f64x2(b, a);
#else
    return is_greatest ? __builtin_wasm_pmax_f64x2(b, a) : __builtin_wasm_pmin_f64x2(b, a);
#endif
}
#define EXTREME_OF(dtype, type, vector, mask, load)                                                \
    static type extreme_of_##dtype(const type *x, int count, int is_greatest) {                    \
        const int lanes = sizeof(vector) / sizeof(type), whole = count / (4 * lanes) * (4 * lanes); \
        vector best[4], y;                                                                         \
        mask is_odd = {};                                                                          \
        for (int j = 0; j < 4; j++)                                                                \
            best[j] = (is_greatest ? -(type)__builtin_inff() : (type)__builtin_inff()) - (vector){}; \
        for (int i = 0; i < whole; i += 4 * lanes)                                                 \
            UNROLLED for (int j = 0; j < 4; j++) {                                                 \
                y = load(x + i + j * lanes);                                                       \
                best[j] = better_##vector(best[j], y, is_greatest);                                \
                is_odd |= y != y;                                                                  \
            }                                                                                      \
        for (int i = whole; i < count; i += lanes) {                                               \
            if (i + lanes <= count)                                                                \
                y = load(x + i);                                                                   \
            else                                                                                   \
                for (int lane = 0; lane < lanes; lane++) y[lane] = x[smaller(i + lane, count - 1)]; \
            best[0] = better_##vector(best[0], y, is_greatest);                                    \
            is_odd |= y != y;                                                                      \
        }                                                                                          \
        best[0] = better_##vector(best[0], best[1], is_greatest);                                  \
        best[2] = better_##vector(best[2], best[3], is_greatest);                                  \
        y = better_##vector(best[0], best[2], is_greatest);                                        \
        for (int lane = 1; lane < lanes; lane++) {                                                 \
            const vector other = y[lane] - (vector){};                                             \
            y = better_##vector(y, other, is_greatest);                                            \
        }                                                                                          \
        return any_lane((ints)is_odd) ? (type)__builtin_nanf("") : y[0];                           \
    }
EXTREME_OF(float32, float, floats, ints, load)
EXTREME_OF(float64, double, doubles, longs, load_doubles)

// Of a long row of integers, four vectors are read at a time.
#define LONG_ROW 4096
#define EXTREME_OF_INTEGERS(better)                                                                \
    typedef typeof((typeof(*x))0) element;                                                         \
    typedef element several __attribute__((vector_size(64), aligned(1)));                          \
    const int part = sizeof(several) / sizeof(element), whole = count / part * part;               \
    if (count >= LONG_ROW) {                                                                       \
        several found = *(const several *)x;                                                       \
        for (int i = part; i < whole; i += part) found = better(found, *(const several *)(x + i)); \
        element best = found[0];                                                                   \
        for (int lane = 1; lane < part; lane++) best = better(best, found[lane]);                  \
        for (int i = whole; i < count; i++) best = better(best, x[i]);                             \
        return best;                                                                               \
    }
