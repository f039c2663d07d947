// Sums of halves in WebAssembly, which are those of floats: some are converted at a time, and summed while the cache has
// them. Only reduction.c includes this.
#pragma once

#include "half_vectors.h"

// Sums of numbers that are all smaller by 2^112 are rounded alike: the last bit of a denormal half is there still far above
// that of the least float. Infinity and NaN take the long way.
#define SCALE_float16 0x1p112
#define SCALE_bfloat16 1
// Neighbours are brought into their order when a few have been added up. Twice the magnitudes are compared: to mask the
// sign would take a register.
static inline float_pair part_of_float16(const half *x, unsigned_shorts *largest) {
    const shorts halves = load_halves(x);
    const neighbours y = scaled_neighbours(halves);
    *largest = __builtin_elementwise_max(*largest, (unsigned_shorts)(halves << 1));
    return (float_pair){y.even, y.odd};
}
static inline float_pair ordered_float16(float_pair x) {
    return (float_pair){__builtin_shufflevector(x.low, x.high, 0, 4, 1, 5),
                        __builtin_shufflevector(x.low, x.high, 2, 6, 3, 7)};
}
static inline float_pair part_of_bfloat16(const half *x, [[maybe_unused]] unsigned_shorts *largest) {
    return widened_brains(load_halves(x));
}
static inline float_pair ordered_bfloat16(float_pair x) { return x; }

// The sum of a row of fewer than LONG numbers, in the order of `sum_of_floats`.
#define SUM_OF_HALVES(dtype, widened_eight, widened)                                               \
    static double sum_of_##dtype(const half *x, int count) {                                       \
        unsigned_shorts largest = {};                                                              \
        const int whole = count / 32 * 32;                                                         \
        double sum = 0;                                                                            \
        for (int i = 0; i < whole;) {                                                              \
            const int last = smaller(i + RUN * 32, whole);                                         \
            float_pair near[2] = {}, far[2] = {};                                                  \
            for (; i < last; i += 32)                                                              \
                UNROLLED for (int j = 0; j < 2; j++) {                                             \
                    const float_pair a = part_of_##dtype(x + i + 8 * j, &largest);                 \
                    const float_pair b = part_of_##dtype(x + i + 16 + 8 * j, &largest);            \
                    near[j].low += a.low, near[j].high += a.high;                                  \
                    far[j].low += b.low, far[j].high += b.high;                                    \
                }                                                                                  \
            UNROLLED for (int j = 0; j < 2; j++) {                                                 \
                near[j].low += far[j].low, near[j].high += far[j].high;                            \
                near[j] = ordered_##dtype(near[j]);                                                \
            }                                                                                      \
            sum += sum_lanes((near[0].low + near[0].high) + (near[1].low + near[1].high));         \
        }                                                                                          \
        if (!whole || any_lane((ints)excess(largest, 2 * 0x7bff))) {                               \
            float all[LONG];                                                                       \
            widen_##dtype(x, all, count);                                                          \
            return sum_of_floats(all, count);                                                      \
        }                                                                                          \
        int i = whole;                                                                             \
        floats lanes = {};                                                                         \
        sum *= SCALE_##dtype;                                                                      \
        for (; i + 8 <= count; i += 8) {                                                           \
            const float_pair y = widened_eight(load_halves(x + i));                                \
            lanes += y.low, lanes += y.high;                                                       \
        }                                                                                          \
        if (i + LANES <= count) {                                                                  \
            const floats y = {widened(x[i]), widened(x[i + 1]), widened(x[i + 2]), widened(x[i + 3])}; \
            lanes += y, i += LANES;                                                                \
        }                                                                                          \
        for (int lane = 0; lane < LANES; lane++) sum += lanes[lane];                               \
        for (; i < count; i++) sum += widened(x[i]);                                               \
        return sum;                                                                                \
    }
SUM_OF_HALVES(float16, widened_halves, widened)
SUM_OF_HALVES(bfloat16, widened_brains, widened_brain)

static inline void add_eight(double *totals, float_pair sums) {
    float y[8];
    memcpy(y, &sums, sizeof y);
    for (int i = 0; i < 8; i++) totals[i] += y[i];
}

// The sums of at most STRIP_ROWS numbers in each column are added to totals. A function without calls does so until it
// meets infinity or NaN, by two eights: a row then has few instructions beside those for its numbers. It returns how
// many columns it has done. Another function does any columns.
#define COLUMNS_OF_HALVES(dtype, widened_eight, widened)                                           \
    ONCE static int add_usual_##dtype(double *totals, const half *x, int rows, ptrdiff_t pitch,    \
                                      int width) {                                                 \
        int first = 0;                                                                             \
        for (; first + 16 <= width; first += 16) {                                                 \
            unsigned_shorts largest = {};                                                          \
            float_pair sums[2] = {};                                                               \
            const half *line = x + first;                                                          \
            for (int row = 0; row < rows; row++, line += pitch)                                    \
                UNROLLED for (int i = 0; i < 2; i++) {                                             \
                    const float_pair y = part_of_##dtype(line + 8 * i, &largest);                  \
                    sums[i].low += y.low, sums[i].high += y.high;                                  \
                }                                                                                  \
            if (any_lane((ints)excess(largest, 2 * 0x7bff))) break;                                \
            UNROLLED for (int i = 0; i < 2; i++) {                                                 \
                const float_pair y = ordered_##dtype(sums[i]);                                     \
                const float scale = SCALE_##dtype;                                                 \
                add_eight(totals + first + 8 * i, (float_pair){y.low * scale, y.high * scale});    \
            }                                                                                      \
        }                                                                                          \
        return first;                                                                              \
    }                                                                                              \
    ONCE static void add_any_##dtype(double *totals, const half *x, int rows, ptrdiff_t pitch,     \
                                     int width) {                                                  \
        int i = 0;                                                                                 \
        for (; i + 8 <= width; i += 8) {                                                           \
            float_pair sums = {};                                                                  \
            for (int row = 0; row < rows; row++) {                                                 \
                const float_pair y = widened_eight(load_halves(x + row * pitch + i));              \
                sums.low += y.low, sums.high += y.high;                                            \
            }                                                                                      \
            add_eight(totals + i, sums);                                                           \
        }                                                                                          \
        for (; i < width; i++) {                                                                   \
            float sum = 0;                                                                         \
            for (int row = 0; row < rows; row++) sum += widened(x[row * pitch + i]);               \
            totals[i] += sum;                                                                      \
        }                                                                                          \
    }
COLUMNS_OF_HALVES(float16, widened_halves, widened)
COLUMNS_OF_HALVES(bfloat16, widened_brains, widened_brain)

#define HALF_STRIPE 1024
#define HALF_SUMS(dtype, widened, narrowed)                                                                 \
    /* Of rows of PART numbers at most. */                                                         \
    KERNEL(sum_##dtype)(const half *x, half *out, int outer, int reduced,                          \
                        [[maybe_unused]] int inner) {                                              \
        float row[PART];                                                                           \
        for (; outer > 0; outer--, x += reduced)                                                   \
            if (reduced < LONG) {                                                                  \
                *out++ = narrowed(sum_of_##dtype(x, reduced));                                     \
            } else {                                                                               \
                widen_##dtype(x, row, reduced);                                                    \
                *out++ = narrowed(sum_of_floats(row, reduced));                                    \
            }                                                                                      \
    }                                                                                              \
    KERNEL(sum_pitched_##dtype)(const half *x, half *out, int columns, int reduced, int pitch) {   \
        for (int first = 0; first < columns; first += HALF_STRIPE) {                                    \
            const int width = smaller(HALF_STRIPE, columns - first);                                    \
            alignas(VECTOR_BYTES) double totals[HALF_STRIPE] = {0};                                     \
            for (int row = 0; row < reduced; row += STRIP_ROWS) {                                  \
                const half *const lines = x + (ptrdiff_t)row * pitch + first;                      \
                const int rows = smaller(STRIP_ROWS, reduced - row);                               \
                for (int i = 0; i < width; i += 16) {                                              \
                    i += add_usual_##dtype(totals + i, lines + i, rows, pitch, width - i);         \
                    if (i == width) break;                                                         \
                    add_any_##dtype(totals + i, lines + i, rows, pitch, smaller(16, width - i));   \
                }                                                                                  \
            }                                                                                      \
            for (int i = 0; i < width; i++) out[first + i] = narrowed(totals[i]);                  \
        }                                                                                          \
    }
HALF_SUMS(float16, widened, narrowed)
HALF_SUMS(bfloat16, widened_brain, narrowed_brain)
