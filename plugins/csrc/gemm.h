// The pieces of matrix multiplication that convolution shares.
#pragma once

#include "common.h"

// The element in row i and column k is data[i * row_stride + k * column_stride].
typedef struct {
    const float *data;
    ptrdiff_t row_stride, column_stride;
} matrix;

typedef struct {
    const double *data;
    ptrdiff_t row_stride, column_stride;
} matrix_of_doubles;

static inline int round_up(int count, int multiple) {
    return (count + multiple - 1) / multiple * multiple;
}

// Four numbers, which are a whole vector only where vectors are narrow.
typedef float quad __attribute__((vector_size(16)));
typedef int32_t int_quad __attribute__((vector_size(16)));
typedef int8_t quad_of_bytes __attribute__((vector_size(16)));

static inline quad load_quad(const float *source) {
    quad lanes;
    memcpy(&lanes, source, sizeof lanes);
    return lanes;
}

static inline void store_quad(float *target, quad lanes) { memcpy(target, &lanes, sizeof lanes); }

// Store 4 x 4 numbers transposed: lane j of rows[i] goes to target[j * stride + i].
static inline void store_transposed(const quad rows[4], float *target, ptrdiff_t stride) {
    const quad low0 = __builtin_shufflevector(rows[0], rows[1], 0, 4, 1, 5);
    const quad low1 = __builtin_shufflevector(rows[2], rows[3], 0, 4, 1, 5);
    const quad high0 = __builtin_shufflevector(rows[0], rows[1], 2, 6, 3, 7);
    const quad high1 = __builtin_shufflevector(rows[2], rows[3], 2, 6, 3, 7);
    store_quad(target, __builtin_shufflevector(low0, low1, 0, 1, 4, 5));
    store_quad(target + stride, __builtin_shufflevector(low0, low1, 2, 3, 6, 7));
    store_quad(target + 2 * stride, __builtin_shufflevector(high0, high1, 0, 1, 4, 5));
    store_quad(target + 3 * stride, __builtin_shufflevector(high0, high1, 2, 3, 6, 7));
}

// Interleave four runs: target[stride * k + i] = sources[i][k].
static inline void interleave(const float *const sources[4], int count, float *target,
                              ptrdiff_t stride) {
    int k = 0;
    for (; k + 4 <= count; k += 4) {
        const quad rows[4] = {load_quad(sources[0] + k), load_quad(sources[1] + k),
                              load_quad(sources[2] + k), load_quad(sources[3] + k)};
        store_transposed(rows, target + k * stride, stride);
    }
    for (; k < count; k++)
        for (int i = 0; i < 4; i++) target[k * stride + i] = sources[i][k];
}

#ifndef __wasm__
// The same for doubles.
static inline void interleave_doubles(const double *const sources[4], int count, double *target,
                                      ptrdiff_t stride) {
    typedef double four __attribute__((vector_size(32)));
    int k = 0;
    for (; k + 4 <= count; k += 4) {
        four rows[4], halves[4], columns[4];
        for (int i = 0; i < 4; i++) memcpy(rows + i, sources[i] + k, sizeof *rows);
        for (int i = 0; i < 2; i++) {
            halves[i] = __builtin_shufflevector(rows[2 * i], rows[2 * i + 1], 0, 4, 2, 6);
            halves[2 + i] = __builtin_shufflevector(rows[2 * i], rows[2 * i + 1], 1, 5, 3, 7);
        }
        for (int i = 0; i < 2; i++) {
            columns[i] = __builtin_shufflevector(halves[2 * i], halves[2 * i + 1], 0, 1, 4, 5);
            columns[2 + i] = __builtin_shufflevector(halves[2 * i], halves[2 * i + 1], 2, 3, 6, 7);
        }
        for (int i = 0; i < 4; i++) memcpy(target + (k + i) * stride, columns + i, sizeof *columns);
    }
    for (; k < count; k++)
        for (int i = 0; i < 4; i++) target[k * stride + i] = sources[i][k];
}
#endif

// ---- tiles and blocks ----

#ifdef __wasm__
#define GROUP 4       // numbers of a row of a that are multiplied together
#define SLAB 8        // columns of b
#define MOST_ROWS 200 // of a that are packed together, a multiple of eight
#define MOST_SUMS 256 // rows of a whose sums stay in the L1 cache

// out = a * b, for some of all rows. Element k of row i of a is at a[(k / GROUP * all_rows + i) * GROUP + k % GROUP], with
// zeros behind each row up to a whole group; b is dense; column j of row i of the product is at
// out[(j / SLAB * all_rows + i) * SLAB + j % SLAB]. There are MOST_SUMS rows at most.
void multiply_into_slabs(const float *a, const float *b, float *out, int rows, int all_rows, int columns,
                         int depth);

// out (rows x columns, row stride `stride`) = or += a * b, plus a bias that may be absent, within limits, for MOST_SUMS
// rows at most. Groups of columns of a are `a_group` apart, rows of b `b_row`, and SLAB columns are `b_slab` behind those
// before them.
void multiply_groups(const float *a, ptrdiff_t a_group, const float *b, ptrdiff_t b_row, ptrdiff_t b_slab, float *out,
                     ptrdiff_t stride, int rows, int columns, int depth, int accumulate,
                     const float *bias, float least, float most);

// out (rows x columns, dense) = or += a * b, plus a bias that may be absent, within limits.
void multiply_within(matrix a, matrix b, float *out, int rows, int columns, int depth,
                     int accumulate, const float *bias, float least, float most);

// NaN stays NaN, and a zero gets the sign of a limit that is zero.
static inline quad limited(quad y, float least, float most) {
    const quad low = least - (quad){}, high = most - (quad){};
    return __builtin_wasm_pmin_f32x4(choose(y <= low, low, y), high);
}
#else
#if defined(__AVX512F__) || defined(__aarch64__)
#define TILE_ROWS 8  // of a product, with sums in registers
#else
#define TILE_ROWS 4
#endif
#endif

// ---- products ----

// out (rows x columns, dense) = a * b, or += it.
void multiply_matrices(matrix a, matrix b, float *out, int rows, int columns, int depth,
                       int accumulate);
void multiply_doubles(matrix_of_doubles a, matrix_of_doubles b, double *out, int rows, int columns,
                      int depth, int accumulate);
